package simdisk

import (
	"testing"
	"time"

	"seedlog/clock/task"
	"seedlog/sim/sched"
	"seedlog/storage/checkpoint"
)

// A checkpoint is replaced again and again until the machine dies. Whatever the moment and
// whatever the disk keeps, there is a whole one, and it is the last that was acknowledged or
// the one being written.
func TestCheckpointsSurviveEveryCrash(t *testing.T) {
	const path = "/data/quorum-state"
	seen := map[string]int{}
	for seed := range uint64(300) {
		m := newMachine(t, seed, Config{})
		var acked int32
		m.boot(t, func(tk *task.T, d *Mount) {
			tk.Go("killer", func(k *task.T) {
				until := k.Now().Add(time.Duration(m.s.Stream("killer").Int64N(20e6)))
				for k.Now() < until {
					k.Park(until)
				}
				m.d.PowerLoss()
				k.Runtime().(*sched.Runtime).Kill()
			})
			for e := int32(1); ; e++ {
				check(checkpoint.WriteQuorumState(tk, d, path, checkpoint.QuorumState{LeaderEpoch: e}))
				acked = e
			}
		})
		m.boot(t, func(tk *task.T, d *Mount) {
			s, err := checkpoint.ReadQuorumState(tk, d, path)
			switch {
			case err != nil && acked == 0:
				seen["none yet"]++
			case err != nil:
				t.Errorf("seed %d: acknowledged %d, then: %v", seed, acked, err)
			case s.LeaderEpoch == acked:
				seen["acknowledged"]++
			case s.LeaderEpoch == acked+1:
				seen["in progress"]++
			default:
				t.Errorf("seed %d: acknowledged %d, found %d", seed, acked, s.LeaderEpoch)
			}
			if s.LeaderEpoch > 1 {
				seen["replaced"]++
			}
		})
	}
	want(t, seen, "none yet", "acknowledged", "in progress", "replaced")
}

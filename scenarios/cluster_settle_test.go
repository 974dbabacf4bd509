package scenarios

import (
	"testing"

	"seedlog/sim"
	"seedlog/sim/sched"
	"seedlog/sim/simdisk"
	"seedlog/sim/simnet"
)

// One clock may go back as another goes on: seed 710788 had a leader more than two hours behind
// whose batches were older than producer.id.expiration.ms by the clock of a follower.
func TestTwoClocksJumpApart(t *testing.T) {
	for _, c := range []struct {
		jumps []int64 // by machine
		want  int64
	}{
		{[]int64{0, 0, 0}, 0},
		{[]int64{-9, 0, 0}, 9},
		{[]int64{1, -9, 4}, 13},
		{[]int64{-9, 4, -5}, 14},
		{[]int64{4, -9, 9}, 18},
	} {
		w := sim.New(1, sched.Calm(), simnet.Calm(), nil)
		t.Cleanup(w.Close)
		r := &Run{World: w}
		for _, ms := range c.jumps {
			s := &server{Machine: w.AddMachine("b", simdisk.Config{}, sched.ClockParams{}), r: r}
			s.Jump(ms)
			r.servers = append(r.servers, s)
		}
		if got := (&clusterRun{r: r}).jumped(); got != c.want {
			t.Errorf("jumps %v: %d ms apart, want %d", c.jumps, got, c.want)
		}
	}
}

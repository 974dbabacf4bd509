package controller

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"seedlog/clock"
	"seedlog/node/meta"
)

// TestNoHistoryBreaksTheISR runs random lives of three brokers; world checks I8 after every
// append. Here: epochs never go back (I10), and a partition whose replicas are all back is
// led again.
func TestNoHistoryBreaksTheISR(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		min := rapid.SampledFrom([]string{"1", "2", "3"}).Draw(r, "min.insync.replicas")
		w := newWorld(t, map[string]string{"min.insync.replicas": min})
		w.start(3)
		w.create("t", rapid.Permutation([]int32{1, 2, 3}).Draw(r, "replicas")...)
		incarnation := byte(1)
		leaderEpoch, partitionEpoch := int32(0), int32(0)
		for range rapid.IntRange(1, 60).Draw(r, "steps") {
			id := rapid.Int32Range(1, 3).Draw(r, "broker")
			b := w.state.image.Broker(id)
			switch rapid.IntRange(0, 5).Draw(r, "step") {
			case 0:
				w.heartbeat(id, nil)
			case 1:
				w.heartbeat(id, func(x *kmsg.BrokerHeartbeatRequest) { x.WantFence = true })
			case 2: // restart, cleanly or not
				incarnation++
				w.now += clock.Instant(9 * time.Second)
				previous := rapid.SampledFrom([]int64{-1, b.Epoch}).Draw(r, "previous")
				w.tryRegister(id, incarnation, previous, "")
			case 3: // the leader proposes those that are active
				p := w.partition("t")
				if p.Leader < 0 {
					continue
				}
				isr := isrOf(int64(p.Leader), -1)
				for _, o := range p.Replicas {
					if o != p.Leader && w.state.active(o) && rapid.Bool().Draw(r, "in") {
						isr = append(isr, isrOf(int64(o), w.state.image.Broker(o).Epoch)...)
					}
				}
				w.alterPartition(p.Leader, func(x *kmsg.AlterPartitionRequestTopicPartition) {
					x.NewEpochISR, x.LeaderRecoveryState = isr, 0
				})
			case 4:
				w.now += clock.Instant(rapid.IntRange(0, 5).Draw(r, "seconds")) * clock.Instant(time.Second)
				records, _ := w.state.Expire(w.now)
				w.append(records)
			case 5:
				w.heartbeat(id, func(x *kmsg.BrokerHeartbeatRequest) { x.WantShutdown = true })
			}
			p := w.partition("t")
			if p.LeaderEpoch < leaderEpoch || p.PartitionEpoch < partitionEpoch {
				r.Fatalf("epochs %d, %d after %d, %d", p.LeaderEpoch, p.PartitionEpoch, leaderEpoch, partitionEpoch)
			}
			leaderEpoch, partitionEpoch = p.LeaderEpoch, p.PartitionEpoch
			if p.Leader < 0 && len(p.ISR) == 0 && len(p.ELR) == 0 && len(p.LastKnownELR) != 1 {
				r.Fatalf("nobody can ever lead again: %s", w.describe("t"))
			}
		}
		for id := int32(1); id <= 3; id++ {
			incarnation++
			w.now += clock.Instant(9 * time.Second)
			w.register(id, incarnation, -1, "")
			w.heartbeat(id, nil)
		}
		if p := w.partition("t"); p.Leader < 0 {
			r.Fatalf("all are back and nobody leads: %s", w.describe("t"))
		}
		replayed, _, err := meta.Empty().Apply(slices.Collect(w.state.image.Records()), w.state.image.Offset, 1)
		if err != nil || !replayed.Equal(w.state.image) {
			r.Fatalf("image is not the replay of its snapshot: %v", err)
		}
	})
}

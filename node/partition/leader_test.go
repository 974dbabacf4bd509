package partition

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"seedlog/clock"
)

func three(isr ...int32) Registration {
	return Registration{Leader: 1, LeaderEpoch: 5, PartitionEpoch: 9, Replicas: []int32{1, 2, 3}, ISR: isr}
}

// fetched notes a follower's fetch and reports whether it has a replica.
func fetched(l *Leader, id int32, end, leaderEnd int64, now clock.Instant) bool {
	assigned, _ := l.FollowerFetched(FollowerFetch{Replica: id, BrokerEpoch: -1, Offset: end, LeaderEnd: leaderEnd, Now: now})
	return assigned
}

// propose lets an ISR be on its way to the controller.
func propose(l *Leader, isr []int32) {
	p := Proposal{LeaderEpoch: l.LeaderEpoch(), PartitionEpoch: l.Registration().PartitionEpoch}
	for _, id := range isr {
		p.ISR = append(p.ISR, Member{id, -1})
	}
	l.pending = &p
}

// unregistered brokers may not join an ISR, so nobody outside it is waited for.
type unregistered struct{}

func (unregistered) Standing(int32) Standing { return Standing{} }

var alone = Surroundings{Brokers: unregistered{}}

// registeredAll brokers may all join.
type registeredAll struct{}

func (registeredAll) Standing(int32) Standing { return Standing{Known: true, Epoch: 7} }

// A follower that left the ISR and keeps up again is waited for: under a steady stream of
// appends its fetches would never reach a high watermark that does not wait. One that is far
// behind, or stopped to ask, is not.
func TestAFollowerJoinsUnderASteadyStream(t *testing.T) {
	const lag = 10 * time.Second
	l := NewLeader(1, Registration{Leader: 1, LeaderEpoch: 5, PartitionEpoch: 9, Replicas: []int32{1, 2}, ISR: []int32{1}}, 100, 100, 0)
	now, end := clock.Instant(time.Minute), int64(1000)
	advance := func() int64 {
		hw, _ := l.AdvanceHighWatermark(end, 1, Surroundings{Brokers: registeredAll{}, LagMax: lag, Now: now})
		return hw
	}
	fetch := func(offset int64) {
		l.FollowerFetched(FollowerFetch{Replica: 2, BrokerEpoch: 7, Offset: offset, LeaderEnd: end, Now: now})
	}
	fetch(50)
	if hw := advance(); hw != 1000 {
		t.Fatalf("the high watermark waits at %d for a follower that is far behind", hw)
	}
	joined := false
	for round := 0; round < 5 && !joined; round++ {
		asked := end // all that the last answer brought
		now, end = now.Add(time.Millisecond), end+10
		advance()
		fetch(asked)
		joined = l.Joins(2, registeredAll{})
		if hw := advance(); round > 1 && hw > asked {
			t.Fatalf("round %d: the high watermark is %d, and the follower that keeps up has %d", round, hw, asked)
		}
	}
	if !joined {
		t.Fatal("a follower that keeps up never joins")
	}
	now, end = now.Add(lag+time.Second), end+10
	if hw := advance(); hw != end {
		t.Fatalf("the high watermark waits at %d for a follower that stopped to ask", hw)
	}
}

// The worked example: leader at 5, followers at 5 and 4, high watermark 4.
func TestHighWatermarkIsTheLeastEndOfTheISR(t *testing.T) {
	l := NewLeader(1, three(1, 2, 3), 3, 3, 0)
	fetched(l, 2, 5, 5, 0)
	if hw, moved := l.AdvanceHighWatermark(5, 1, alone); moved || hw != 3 {
		t.Fatalf("moved to %d before follower 3 was heard of", hw)
	}
	fetched(l, 3, 4, 5, 0)
	if hw, moved := l.AdvanceHighWatermark(5, 1, alone); !moved || hw != 4 {
		t.Fatalf("high watermark %d (moved %t), want 4", hw, moved)
	}
}

func TestALoneReplicaCommitsWithItsOwnEnd(t *testing.T) {
	l := NewLeader(1, Registration{Leader: 1, Replicas: []int32{1}, ISR: []int32{1}}, 0, 0, 0)
	if hw, moved := l.AdvanceHighWatermark(7, 2, alone); !moved || hw != 7 {
		t.Fatalf("high watermark %d (moved %t), want 7: min.insync.replicas counts at most the replicas there are", hw, moved)
	}
	if err := l.CheckMinInSync(3); err != nil {
		t.Fatalf("a lone replica is enough for itself: %v", err)
	}
}

func TestHighWatermarkStandsStillBelowMinInSync(t *testing.T) {
	l := NewLeader(1, three(1), 0, 0, 0)
	if hw, moved := l.AdvanceHighWatermark(10, 2, alone); moved {
		t.Fatalf("moved to %d with one of two required in sync", hw)
	}
	if err := l.CheckMinInSync(2); !errors.Is(err, ErrNotEnoughReplicas) {
		t.Fatalf("got %v, want ErrNotEnoughReplicas", err)
	}
	if hw, moved := l.AdvanceHighWatermark(10, 1, alone); !moved || hw != 10 {
		t.Fatalf("high watermark %d (moved %t), want 10", hw, moved)
	}
}

// Who waits for acks=all while too few are left waits on; what was committed before they left
// is told to be committed by too few.
func TestWaitingGoesOnWhenTooFewAreLeft(t *testing.T) {
	l := NewLeader(1, three(1, 2), 0, 0, 0)
	fetched(l, 2, 1, 2, 0)
	l.AdvanceHighWatermark(2, 2, alone)
	l.Update(Registration{Leader: 1, LeaderEpoch: 5, PartitionEpoch: 10, Replicas: []int32{1, 2, 3}, ISR: []int32{1}}, 0)
	if done, err := l.CommittedAndEnough(2, 2); done || err != nil {
		t.Errorf("not committed: done %t, %v", done, err)
	}
	if done, err := l.CommittedAndEnough(1, 2); !done || !errors.Is(err, ErrNotEnoughReplicas) {
		t.Errorf("committed, and one left: done %t, %v", done, err)
	}
	if done, err := l.CommittedAndEnough(1, 1); !done || err != nil {
		t.Errorf("where one is enough: done %t, %v", done, err)
	}
}

// Until the controller has answered, both ISRs count: a follower proposed for expansion
// holds the high watermark back, and one proposed for removal still does.
func TestHighWatermarkCountsTheMaximalISR(t *testing.T) {
	grow := NewLeader(1, three(1, 2), 0, 0, 0)
	fetched(grow, 2, 8, 8, 0)
	fetched(grow, 3, 6, 8, 0)
	propose(grow, []int32{1, 2, 3})
	if hw, _ := grow.AdvanceHighWatermark(8, 1, alone); hw != 6 {
		t.Fatalf("growing: high watermark %d, want 6", hw)
	}
	shrink := NewLeader(1, three(1, 2, 3), 0, 0, 0)
	fetched(shrink, 2, 8, 8, 0)
	fetched(shrink, 3, 6, 8, 0)
	propose(shrink, []int32{1, 2})
	if hw, _ := shrink.AdvanceHighWatermark(8, 1, alone); hw != 6 {
		t.Fatalf("shrinking: high watermark %d, want 6", hw)
	}
	if !shrink.Update(Registration{Leader: 1, LeaderEpoch: 5, PartitionEpoch: 10, Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2}}, 0) {
		t.Fatal("newer metadata was refused")
	}
	if hw, _ := shrink.AdvanceHighWatermark(8, 1, alone); hw != 8 {
		t.Fatalf("after the answer: high watermark %d, want 8", hw)
	}
}

func TestOlderMetadataIsRefused(t *testing.T) {
	l := NewLeader(1, three(1, 2, 3), 0, 0, 0)
	old := three(1)
	old.PartitionEpoch = 8
	if l.Update(old, 0) {
		t.Fatal("a smaller partition epoch was taken over")
	}
	other := three(1)
	other.LeaderEpoch, other.PartitionEpoch = 6, 12
	if l.Update(other, 0) {
		t.Fatal("another leader epoch was taken over")
	}
	if isr := l.MaximalISR(); !slices.Equal(isr, []int32{1, 2, 3}) {
		t.Fatalf("ISR is %v", isr)
	}
}

// A follower leaves by time and never by count: behind by a million records for less than
// the limit it stays, behind by one for longer it goes.
func TestAFollowerLeavesTheISRByTime(t *testing.T) {
	at := func(s int) clock.Instant { return clock.Instant(time.Duration(s) * time.Second) }
	const lag = 30 * time.Second
	l := NewLeader(1, three(1, 2, 3), 0, 0, at(0))
	fetched(l, 2, 100, 100, at(1))
	fetched(l, 3, 100, 100, at(1))
	if out := l.OutOfSync(1_000_100, lag, at(31)); len(out) != 0 {
		t.Fatalf("%v left after exactly 30 s", out)
	}
	fetched(l, 2, 1_000_100, 1_000_100, at(31))
	if out := l.OutOfSync(1_000_101, lag, at(32)); !slices.Equal(out, []int32{3}) {
		t.Fatalf("out of sync: %v, want 3 alone", out)
	}
}

// A follower that always asks for what was the leader's end at its last fetch keeps up,
// though it never sees the end of a log that grows all the time.
func TestAFollowerThatKeepsPaceStays(t *testing.T) {
	l := NewLeader(1, three(1, 2), 0, 0, 0)
	end := int64(0)
	for s := range 120 {
		now := clock.Instant(time.Duration(s) * time.Second)
		fetched(l, 2, end, end+100, now)
		end += 100
		if out := l.OutOfSync(end, 30*time.Second, now); len(out) != 0 {
			t.Fatalf("second %d: %v left", s, out)
		}
	}
}

func TestJoiningNeedsTheHighWatermarkAndTheEpochStart(t *testing.T) {
	l := NewLeader(1, three(1, 2), 50, 40, 0)
	fetched(l, 2, 60, 60, 0)
	l.AdvanceHighWatermark(60, 1, alone)
	for _, c := range []struct {
		end  int64
		want bool
	}{{49, false}, {55, false}, {60, true}} {
		fetched(l, 3, c.end, 60, 0)
		if got := l.CanJoin(3); got != c.want {
			t.Errorf("end %d: can join = %t", c.end, got)
		}
	}
	if l.CanJoin(2) {
		t.Error("a member of the ISR can join it")
	}
	if fetched(l, 7, 60, 60, 0) {
		t.Error("a broker without a replica counts as a follower")
	}
}

func TestEpochsOfRequests(t *testing.T) {
	l := NewLeader(1, three(1), 0, 0, 0)
	for epoch, want := range map[int32]error{-1: nil, 5: nil, 4: ErrFencedLeaderEpoch, 6: ErrUnknownLeaderEpoch} {
		if err := l.CheckEpoch(epoch); !errors.Is(err, want) {
			t.Errorf("epoch %d: %v, want %v", epoch, err, want)
		}
	}
}

// Whatever happens, the high watermark never moves back and never passes a member of the
// maximal ISR.
func TestHighWatermarkProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		minISR := rapid.IntRange(1, 3).Draw(t, "min")
		l := NewLeader(1, three(1, 2, 3), 0, 0, 0)
		leo, epoch := int64(0), int32(9)
		ends := map[int32]int64{2: -1, 3: -1}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			id := rapid.SampledFrom([]int32{2, 3}).Draw(t, "id")
			switch rapid.IntRange(0, 4).Draw(t, "do") {
			case 0:
				leo += rapid.Int64Range(1, 5).Draw(t, "append")
			case 1:
				end := rapid.Int64Range(max(ends[id], 0), leo).Draw(t, "fetch")
				fetched(l, id, end, leo, 0)
				ends[id] = end
			case 2:
				propose(l, rapid.SampledFrom([][]int32{{1}, {1, 2}, {1, 3}, {1, 2, 3}}).Draw(t, "isr"))
			case 3:
				epoch++
				reg := three(rapid.SampledFrom([][]int32{{1}, {1, 2}, {1, 2, 3}}).Draw(t, "committed")...)
				reg.PartitionEpoch = epoch
				l.Update(reg, 0)
			}
			before := l.HighWatermark()
			hw, moved := l.AdvanceHighWatermark(leo, minISR, alone)
			if hw < before || moved != (hw > before) {
				t.Fatalf("high watermark went from %d to %d (moved %t)", before, hw, moved)
			}
			if !moved {
				continue
			}
			if len(l.Registration().ISR) < minISR {
				t.Fatalf("moved with %d in sync, %d required", len(l.Registration().ISR), minISR)
			}
			for _, id := range l.MaximalISR() {
				if id != 1 && ends[id] < hw {
					t.Fatalf("high watermark %d passed replica %d at %d", hw, id, ends[id])
				}
			}
		}
	})
}

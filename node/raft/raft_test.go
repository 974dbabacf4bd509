package raft

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"seedlog/clock"
)

func TestVotersNamedTwiceAreRefused(t *testing.T) {
	voters := []Voter{{Key: keyOf(1)}, {Key: ReplicaKey{1, [16]byte{9}}}}
	if _, err := New(Config{Self: keyOf(1), Log: &store{}, Voters: []VoterSet{{-1, voters}}}); !errors.Is(err, ErrConfig) {
		t.Errorf("%v", err)
	}
}

func TestStaticVotersAreKnownByTheirID(t *testing.T) {
	if !(ReplicaKey{ID: 1}).Matches(keyOf(1)) || keyOf(1).Matches(ReplicaKey{1, [16]byte{9}}) || keyOf(1).Matches(ReplicaKey{ID: 1}) {
		t.Error("a voter with a directory is known by it, one without by its id")
	}
}

func TestMajorityEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ends := rapid.SliceOfN(rapid.Int64Range(0, 20), 1, 7).Draw(t, "ends")
		have := func(at int64) (n int) {
			for _, e := range ends {
				if e >= at {
					n++
				}
			}
			return n
		}
		hw := majorityEnd(append([]int64(nil), ends...))
		if have(hw) <= len(ends)/2 || have(hw+1) > len(ends)/2 {
			t.Fatalf("majority of %v at %d", ends, hw)
		}
	})
}

// loneLeader is a leader of itself.
func loneLeader(t *testing.T) (*Core, *store) {
	d := &store{state: NoElection()}
	c, err := New(Config{Self: keyOf(1), Log: d, CanVote: true, State: d.state, Voters: []VoterSet{{0, []Voter{{Key: keyOf(1)}}}}, KRaftVersion: 1})
	if err != nil {
		t.Fatal(err)
	}
	if out := c.Step(Start{}, 0, nil); out.Begin == nil {
		t.Fatal("does not lead")
	}
	d.entries = append(d.entries, entry{epoch: c.Epoch()})
	c.Step(Synced{1}, 0, nil)
	return c, d
}

// Strangers that fetch cannot make the leader remember more and more of them.
func TestObserversAreForgotten(t *testing.T) {
	c, _ := loneLeader(t)
	fetch := func(id int32, now clock.Instant) {
		c.Step(Request{uint64(id), Fetch{Epoch: c.Epoch(), Replica: keyOf(id), Offset: 1, LastEpoch: 1}}, now, nil)
	}
	for id := int32(2); id < 3*observersMax; id++ {
		fetch(id, clock.Instant(id))
	}
	q, ok := c.Describe(5000)
	if !ok || len(q.Voters) != 1 || len(q.Observers) != observersMax {
		t.Fatalf("%d observers", len(q.Observers))
	}
	later := clock.Instant(5000).Add(observerSession)
	fetch(2, later)
	if q, _ := c.Describe(later); len(q.Observers) != 1 {
		t.Errorf("%d observers after their session", len(q.Observers))
	}
}

// Where there is nothing new, a follower is told so well before it would stand for election: an
// idle quorum keeps its leader, whatever its fetch timeout is, and whoever asks.
func TestAnIdleFetchIsAnsweredWithinHalfTheFetchTimeout(t *testing.T) {
	for _, timeout := range []time.Duration{10 * time.Millisecond, 449 * time.Millisecond, 2 * time.Second, time.Minute} {
		c, err := New(Config{Self: keyOf(1), Log: &store{}, CanVote: true, State: NoElection(), FetchTimeout: timeout, Voters: []VoterSet{{0, []Voter{{Key: keyOf(1)}}}}, KRaftVersion: 1})
		if err != nil {
			t.Fatal(err)
		}
		if c.cfg.FetchMaxWait > timeout/2 || c.cfg.FetchMaxWait > 500*time.Millisecond {
			t.Errorf("fetch timeout %v: asks to wait %v", timeout, c.cfg.FetchMaxWait)
		}
		c.Step(Start{}, 0, nil)
		c.cfg.Log.(*store).entries = []entry{{epoch: c.Epoch()}}
		c.Step(Synced{1}, 0, nil)
		out := c.Step(Request{1, Fetch{Epoch: c.Epoch(), Replica: keyOf(2), Offset: 1, LastEpoch: c.Epoch(), HighWatermark: 1, MaxWait: time.Hour}}, 0, nil)
		if len(out.Answers) > 0 {
			t.Fatalf("answered at once: %+v", out.Answers)
		}
		if out = c.Step(Tick{}, clock.Instant(0).Add(timeout/2), nil); len(out.Answers) != 1 {
			t.Errorf("fetch timeout %v: no answer after half of it", timeout)
		}
	}
}

// A fetch of a follower that has everything costs the leader the step, its effects and the answer.
func TestFetchesAllocateLittle(t *testing.T) {
	c, _ := loneLeader(t)
	e := Event(Request{1, Fetch{Epoch: c.Epoch(), Replica: keyOf(2), Offset: 1, LastEpoch: 1}})
	if n := testing.AllocsPerRun(100, func() { c.Step(e, 1, nil) }); n > 5 {
		t.Errorf("%v allocations", n)
	}
}

// The voters and the level in force belong to an offset, so that a snapshot says what was
// true of what it contains.
func TestVotersAtAnOffset(t *testing.T) {
	c, d := loneLeader(t)
	two := []Voter{{Key: keyOf(1)}, {Key: keyOf(2)}}
	d.entries = append(d.entries, entry{epoch: 1}, entry{epoch: 1})
	c.Step(KRaftVersionChanged{1, 2}, 0, nil)
	c.Step(VotersChanged{2, two}, 0, rand.New(rand.NewPCG(1, 1)))
	if got := len(c.VotersAt(2)); got != 1 {
		t.Errorf("%d voters below offset 2", got)
	}
	if got := len(c.VotersAt(3)); got != 2 {
		t.Errorf("%d voters at offset 3", got)
	}
	if a, b := c.KRaftVersionAt(1), c.KRaftVersionAt(2); a != 1 || b != 2 {
		t.Errorf("levels %d and %d", a, b)
	}
}

package raft

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// Messages and answers with any numbers in them end no node, cost no committed record, take no
// vote back, and every request has one answer at most.
func TestAnyNumbersHarmNothing(t *testing.T) {
	for seed := range uint64(300) {
		g := garbage{rand.New(rand.NewPCG(seed, 3))}
		st := &story{disk: store{state: ElectionState{1, None, NoReplica()}}}
		if err := st.play("boot voters=1,2,3 log=1*5"); err != nil {
			t.Fatal(err)
		}
		if err := st.play("start"); err != nil {
			t.Fatal(err)
		}
		answered := map[uint64]bool{}
		votes := map[int32]ReplicaKey{}
		for range 300 {
			before, hw := st.disk.state, st.core.HighWatermark()
			st.now = st.now.Add(time.Duration(g.IntN(300)) * time.Millisecond)
			st.out.Reset()
			st.queue = []Event{g.event(&st.event, st.core.seq)}
			for len(st.queue) > 0 {
				e := st.queue[0]
				st.queue = st.queue[1:]
				out := st.core.Step(e, st.now, st.rnd)
				for _, a := range out.Answers {
					if answered[a.ID] {
						t.Fatalf("seed %d: a second answer to %d", seed, a.ID)
					}
					answered[a.ID] = true
				}
				if out.Append && g.IntN(4) == 0 {
					out.Append = false
					st.queue = append(st.queue, AppendFailed{})
				}
				st.show(out)
			}
			s := st.disk.state
			if s.Epoch < before.Epoch || st.core.HighWatermark() < hw || st.core.HighWatermark() > st.disk.end() {
				t.Fatalf("seed %d: %v after %v, high watermark %d after %d, log end %d", seed, s, before, st.core.HighWatermark(), hw, st.disk.end())
			}
			if v, ok := votes[s.Epoch]; ok && s.Voted.ID != None && s.Voted != v {
				t.Fatalf("seed %d: votes for %v and %v in epoch %d", seed, v, s.Voted, s.Epoch)
			}
			if s.Voted.ID != None {
				votes[s.Epoch] = s.Voted
			}
		}
	}
}

// garbage draws numbers that are often near what matters.
type garbage struct{ *rand.Rand }

func (g garbage) n() int64 {
	switch g.IntN(12) {
	case 0:
		return math.MaxInt64
	case 1:
		return -g.Int64N(3)
	case 2:
		return g.Int64()
	}
	return g.Int64N(9)
}

func (g garbage) epoch() int32 {
	if g.IntN(60) == 0 {
		return math.MaxInt32
	}
	return int32(g.IntN(40) - 1)
}

func (g garbage) id() int32 { return int32(g.IntN(6) - 1) }

func (g garbage) key() ReplicaKey {
	if g.IntN(4) == 0 {
		return ReplicaKey{ID: g.id()}
	}
	return keyOf(g.id())
}

func (g garbage) reply() Reply {
	r := Reply{Epoch: g.epoch(), LeaderID: g.id(), Granted: g.IntN(2) == 0, HighWatermark: g.n(), Records: g.IntN(3) == 0, MaxKRaftVersion: int16(g.IntN(2))}
	if g.IntN(3) == 0 {
		r.Code = int16(g.IntN(130) - 1)
	}
	if g.IntN(4) == 0 {
		r.Diverging = &EpochEnd{g.epoch(), g.n()}
	}
	if g.IntN(4) == 0 {
		r.Snapshot = &SnapshotID{g.n(), g.epoch()}
	}
	return r
}

func (g garbage) event(id *uint64, seq uint64) Event {
	switch g.IntN(8) {
	case 0:
		return Tick{}
	case 1, 2:
		return Response{seq - g.Uint64N(min(seq, 3)+1), g.reply()}
	case 3:
		return NoResponse{seq - g.Uint64N(min(seq, 3)+1)}
	}
	*id++
	return Request{*id, g.message()}
}

func (g garbage) message() Message {
	wait := time.Duration(g.n())
	switch g.IntN(10) {
	case 0:
		return Vote{g.epoch(), g.key(), g.key(), g.n(), g.epoch(), g.IntN(2) == 0}
	case 1:
		return BeginQuorumEpoch{g.epoch(), g.id(), g.key(), nil}
	case 2:
		return EndQuorumEpoch{g.epoch(), g.id(), []ReplicaKey{g.key(), g.key()}, nil}
	case 3, 4:
		return Fetch{g.epoch(), g.key(), g.n(), g.epoch(), g.n(), wait}
	case 5:
		return FetchSnapshot{g.epoch(), g.key(), SnapshotID{g.n(), g.epoch()}, g.n()}
	case 6:
		return AddVoter{Voter{Key: g.key(), Endpoints: []Endpoint{{}}}, wait, g.IntN(2) == 0}
	case 7:
		return RemoveVoter{g.key(), wait}
	case 8:
		return RaiseVersion{g.epoch(), int16(g.IntN(4) - 1), g.IntN(2) == 0}
	}
	return UpdateVoter{g.epoch(), Voter{g.key(), []Endpoint{{}}, 0, int16(g.IntN(3))}}
}

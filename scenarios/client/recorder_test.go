package client

import (
	"slices"
	"testing"

	"seedlog/checker/history"
)

// A client that goes back has lost what it read, unless a loss of that log is found to have
// taken it, be it after the client heard of it.
func TestGoingBackIsJudgedInTheEnd(t *testing.T) {
	for _, c := range []struct {
		cut     history.Cut
		excused bool
	}{
		{history.Cut{Partition: 1, Offset: 0}, false}, // of another log
		{history.Cut{Partition: 0, Offset: 4}, false}, // above what was read
		{history.Cut{Partition: 0, Offset: 3}, true},
	} {
		r := NewRecorder()
		log := r.Log("t", [16]byte{1}, 0)
		r.Unless(log, 4, "I5", "client 3 read up to 4, and the log of the new leader goes with it up to 0 only")
		if r.Failed() {
			t.Error("judged before the end")
		}
		r.Cut(c.cut)
		if _, _, _, v := r.Take(); v.OK() != c.excused {
			t.Errorf("%+v: %+v", c.cut, v)
		}
	}
}

// Who hears what was told may ask the recorder, and says of which polls the answer is not its leader's.
func TestWhoIsToldMayAsk(t *testing.T) {
	r := NewRecorder()
	log := r.Log("t", [16]byte{1}, 0)
	var heard []Told
	r.OnTold = func(told Told) Teller {
		heard = append(heard, told)
		if r.Index("t-0") != log {
			return Leading
		}
		return map[string]Teller{"b2": Stranded, "b3": Following}[told.By]
	}
	r.LedIn = func(_ int, addr string, asked history.Stamp) int32 { return int32(len(addr)) + int32(asked) }
	i := r.Send(history.Send{Partition: log, Acks: -1, Invoke: 1})
	r.Settle(i, history.OK, 6, false, "b1")
	r.Poll(history.Poll{Partition: log, HighWatermark: 7, Invoke: 2, LeaderEpoch: 4, Node: "b1"})
	r.Poll(history.Poll{Partition: log, HighWatermark: 7, Invoke: 3, LeaderEpoch: 4, Node: "b2"})
	r.Poll(history.Poll{Partition: log, HighWatermark: 7, Invoke: 4, LeaderEpoch: 4, Node: "b3"})
	want := []Told{{log, 7, 1, -1, "b1"}, {log, 7, 2, 4, "b1"}, {log, 7, 3, 4, "b2"}, {log, 7, 4, 4, "b3"}}
	if !slices.Equal(heard, want) {
		t.Errorf("told %+v, want %+v", heard, want)
	}
	h, _, _, _ := r.Take()
	if got := h.Sends[0].LeaderEpoch; got != 3 {
		t.Errorf("who acknowledged it led in epoch %d", got)
	}
	for i, want := range []struct{ bygone, follower bool }{{false, false}, {true, false}, {false, true}} {
		if p := h.Polls[i]; p.Bygone != want.bygone || p.Follower != want.follower {
			t.Errorf("poll %d: %+v", i, p)
		}
	}
}

package client

import (
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

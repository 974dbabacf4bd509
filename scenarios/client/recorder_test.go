package client

import "testing"

// A client that goes back has lost what it read, unless a power loss is found to have taken it,
// be it after the client heard of it.
func TestGoingBackIsJudgedInTheEnd(t *testing.T) {
	for _, loss := range []bool{false, true} {
		r := NewRecorder()
		r.WentBack(3, "t-0", 4, 0)
		if r.Failed() {
			t.Error("judged before the end")
		}
		if loss {
			r.PowerLoss()
		}
		if _, _, _, v := r.Take(); v.OK() != loss {
			t.Errorf("power loss %v: %+v", loss, v)
		}
	}
}

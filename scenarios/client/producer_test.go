package client

import (
	"testing"

	"seedlog/checker/history"
)

// What a broker that called a batch out of order has is asked of it only as long as it can be
// what it was when the batch was last sent.
func TestWhoDisownsIsLookedAt(t *testing.T) {
	for _, c := range []struct {
		name      string
		meanwhile func(r *Recorder)
		held      history.Held
	}{
		{"nothing happened", func(*Recorder) {}, history.Has},
		{"a broker was started", func(r *Recorder) { r.Boot() }, history.Unseen},
		{"the log was cut", func(r *Recorder) { r.Reload("t-0") }, history.Unseen},
		{"another log was cut", func(r *Recorder) { r.Reload("t-1") }, history.Has},
	} {
		r := NewRecorder()
		log := r.Log("t", [16]byte{1}, 0)
		r.Holds = func(of int, digest uint64, addr string) history.Held {
			if of == log && digest == 7 && addr == "b2" {
				return history.Has
			}
			return history.Hasnt
		}
		p := &Producer{Env: Env{Rec: r}}
		o := &outgoing{to: &target{log: log}, sends: []int{r.Send(history.Send{Partition: log, Digest: 7, Invoke: 1})}}
		r.Boot()
		o.last = r.Loads(log)
		c.meanwhile(r)
		p.disowned(o, "b2")
		h, _, _, _ := r.Take()
		if s := h.Sends[0]; !s.Disowned || !s.Restarted || s.Held != c.held {
			t.Errorf("%s: %+v", c.name, s)
		}
	}
}

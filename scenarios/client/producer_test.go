package client

import (
	"testing"

	"seedlog/checker/history"
)

// What a broker that called a batch out of order has is asked of it only as long as it can be
// what it was when the batch was last sent. It may call it so only after it has loaded that log.
func TestWhoDisownsIsLookedAt(t *testing.T) {
	for _, c := range []struct {
		name          string
		before, after func(r *Recorder) // the batch was sent last
		restarted     bool
		held          history.Held
	}{
		{"nothing happened", nil, nil, false, history.Has},
		{"it was started with a copy", nil, func(r *Recorder) { r.Boot("b2"); r.Reload("b2", "t-0") }, true, history.Unseen},
		{"it was started without one", nil, func(r *Recorder) { r.Boot("b2"); r.Reload("b2", "t-1") }, false, history.Unseen},
		{"another one was started", nil, func(r *Recorder) { r.Boot("b1"); r.Reload("b1", "t-0") }, false, history.Has},
		{"it cut the log", nil, func(r *Recorder) { r.Reload("b2", "t-0") }, true, history.Unseen},
		{"it cut another log", nil, func(r *Recorder) { r.Reload("b2", "t-1") }, false, history.Has},
		{"it was started between two sends", func(r *Recorder) { r.Boot("b2"); r.Reload("b2", "t-0") }, nil, true, history.Has},
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
		r.Boot("b2")
		r.Reload("b2", "t-0")
		o := &outgoing{to: &target{log: log}, loads: r.Loads(), sends: []int{r.Send(history.Send{Partition: log, Digest: 7, Invoke: 1})}}
		if c.before != nil {
			c.before(r)
		}
		o.last = r.Loads()
		if c.after != nil {
			c.after(r)
		}
		p.disowned(o, "b2")
		h, _, _, _ := r.Take()
		if s := h.Sends[0]; !s.Disowned || s.Restarted != c.restarted || s.Held != c.held {
			t.Errorf("%s: %+v", c.name, s)
		}
	}
}

// A broker that leads no more and does not know it cannot know what the next leader acknowledged.
func TestWhoLeadsNoMoreMayDisown(t *testing.T) {
	for _, c := range []struct {
		by, leader string
		want       bool
	}{{"b1", "b1", true}, {"b1", "b2", false}, {"b2", "b1", false}, {"", "b1", false}} {
		r := NewRecorder()
		log := r.Log("t", [16]byte{1}, 0)
		r.Leads = func(of int, addr string) bool { return of == log && addr == c.leader }
		p := &Producer{Env: Env{Rec: r}}
		o := &outgoing{to: &target{log: log, by: c.by}, sends: []int{r.Send(history.Send{Partition: log, Digest: 7, Invoke: 1})}}
		p.disowned(o, "b2")
		h, _, _, _ := r.Take()
		if h.Sends[0].Deposed != c.want {
			t.Errorf("what it follows was acknowledged by %q, and %q leads: %+v", c.by, c.leader, h.Sends[0])
		}
	}
}

// Where nobody watches, any broker may have loaded any log after a start of another one.
func TestLoadsThatNobodyWatches(t *testing.T) {
	r := NewRecorder()
	r.Unwatched = true
	log := r.Log("t", [16]byte{1}, 0)
	r.Boot("b1")
	since := r.Loads()
	if r.Loaded(log, "b2", since) {
		t.Error("loaded, and nothing was started")
	}
	if r.Boot("b1"); !r.Loaded(log, "b2", since) {
		t.Error("a broker was started, and another one has loaded nothing")
	}
}

package replica

import (
	"testing"
	"time"

	"seedlog/clock"
	"seedlog/clock/live"
	"seedlog/clock/task"
)

// waiter is an operation that is ready when told so, and counts how it ends.
type waiter struct {
	mu      task.Mutex
	ready   bool
	ends    int
	expired bool
	done    task.Event
	delayed Delayed
}

func newWaiter(rt task.Runtime) *waiter {
	w := new(waiter)
	w.mu.Init(rt, "waiter")
	w.done.Init(rt, "waiter.done")
	return w
}

func (w *waiter) set() {
	w.mu.Lock()
	w.ready = true
	w.mu.Unlock()
}

func (w *waiter) Ready() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ready
}

func (w *waiter) Complete(expired bool) {
	w.mu.Lock()
	w.ends++
	w.expired = expired
	w.mu.Unlock()
	w.done.Set()
}

func (w *waiter) ended() (n int, expired bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ends, w.expired
}

// inPurgatory runs fn with a purgatory and a list, in production's world with random yields.
func inPurgatory(t *testing.T, fn func(tk *task.T, p *Purgatory, list *Watchers)) {
	t.Helper()
	rt := live.New(live.Options{Chaos: 7})
	live.Main(rt, func(tk *task.T) {
		p := NewPurgatory(rt)
		g := task.NewGroup(rt, "purgatory")
		g.Go("run", p.Run)
		list := new(Watchers)
		list.Init(rt)
		fn(tk, p, list)
		if n := p.Len(); n != 0 {
			t.Errorf("%d operations left", n)
		}
		if len(list.nodes) != 0 {
			t.Errorf("%d operations left on the list", len(list.nodes))
		}
		g.Stop()
		g.Wait(tk)
	})
}

func TestAnOperationThatIsReadyDoesNotWait(t *testing.T) {
	inPurgatory(t, func(tk *task.T, p *Purgatory, list *Watchers) {
		w := newWaiter(tk.Runtime())
		w.set()
		p.Watch(&w.delayed, w, clock.Never, list)
		if n, expired := w.ended(); n != 1 || expired {
			t.Errorf("ended %d times (expired %t)", n, expired)
		}
	})
}

func TestAnOperationExpiresOnceAndNotEarly(t *testing.T) {
	inPurgatory(t, func(tk *task.T, p *Purgatory, list *Watchers) {
		w := newWaiter(tk.Runtime())
		deadline := tk.Now().Add(20 * time.Millisecond)
		p.Watch(&w.delayed, w, deadline, list)
		w.done.Wait(tk, clock.Never)
		if now := tk.Now(); now < deadline {
			t.Errorf("expired %v early", deadline.Sub(now))
		}
		w.set()
		p.Check(list)
		if n, expired := w.ended(); n != 1 || !expired {
			t.Errorf("ended %d times (expired %t)", n, expired)
		}
	})
}

func TestAnEarlierDeadlineWakesTheRunner(t *testing.T) {
	inPurgatory(t, func(tk *task.T, p *Purgatory, list *Watchers) {
		far, near := newWaiter(tk.Runtime()), newWaiter(tk.Runtime())
		p.Watch(&far.delayed, far, tk.Now().Add(time.Hour), list)
		p.Watch(&near.delayed, near, tk.Now().Add(5*time.Millisecond), list)
		near.done.Wait(tk, clock.Never)
		if n, _ := far.ended(); n != 0 {
			t.Error("the later one ended, too")
		}
		far.set()
		p.Check(list)
	})
}

func TestCheckCompletesWhatIsReadyAndNothingElse(t *testing.T) {
	inPurgatory(t, func(tk *task.T, p *Purgatory, list *Watchers) {
		all := make([]*waiter, 40)
		for i := range all {
			all[i] = newWaiter(tk.Runtime())
			p.Watch(&all[i].delayed, all[i], clock.Never, list)
		}
		for i := 0; i < len(all); i += 2 {
			all[i].set()
		}
		p.Check(list)
		for i, w := range all {
			if n, _ := w.ended(); n != (i+1)%2 {
				t.Errorf("operation %d ended %d times", i, n)
			}
			w.set()
		}
		p.Check(list)
	})
}

func TestAnOperationLeavesAllItsLists(t *testing.T) {
	inPurgatory(t, func(tk *task.T, p *Purgatory, list *Watchers) {
		var other Watchers
		other.Init(tk.Runtime())
		w, stays := newWaiter(tk.Runtime()), newWaiter(tk.Runtime())
		p.Watch(&w.delayed, w, clock.Never, list, &other)
		p.Watch(&stays.delayed, stays, clock.Never, &other)
		w.set()
		p.Check(list)
		if len(other.nodes) != 1 || other.nodes[0].d != &stays.delayed {
			t.Errorf("the other list has %d operations", len(other.nodes))
		}
		stays.set()
		p.Check(&other)
	})
}

// Completion by condition races with the deadline and with registration, a thousand times
// over, and each operation ends exactly once. The places are used again.
func TestCompletionIsExactlyOnceUnderRaces(t *testing.T) {
	inPurgatory(t, func(tk *task.T, p *Purgatory, list *Watchers) {
		rt := tk.Runtime()
		checker := task.NewGroup(rt, "checker")
		over := task.NewEvent(rt, "over")
		current := new(task.Published[waiter])
		current.Init(rt, newWaiter(rt))
		for range 2 {
			checker.Go("check", func(ct *task.T) {
				for !over.IsSet() {
					current.Load().set()
					p.Check(list)
				}
			})
		}
		place := new(Delayed)
		for i := range 1000 {
			w := newWaiter(rt)
			current.Store(w)
			p.Watch(place, w, tk.Now().Add(time.Duration(i%3)*time.Millisecond/2), list)
			w.done.Wait(tk, clock.Never)
			if n, _ := w.ended(); n != 1 {
				t.Errorf("operation %d ended %d times", i, n)
				break
			}
		}
		over.Set()
		checker.Wait(tk)
	})
}

// chain is an operation whose completion does something else.
type chain struct {
	waiter
	then func()
}

func (c *chain) Complete(expired bool) {
	c.waiter.Complete(expired)
	c.then()
}

// A Check has found two that are ready. Before it comes to the second, another Check completes it,
// and its place waits for something else: that is not complete.
func TestACheckDoesNotCompleteWhoTookThePlace(t *testing.T) {
	inPurgatory(t, func(tk *task.T, p *Purgatory, list *Watchers) {
		rt := tk.Runtime()
		var other Watchers
		other.Init(rt)
		second, next := newWaiter(rt), newWaiter(rt)
		place := new(Delayed)
		first := &chain{then: func() {
			p.Check(&other)
			p.Watch(place, next, clock.Never, &other)
		}}
		first.mu.Init(rt, "waiter")
		first.done.Init(rt, "waiter.done")
		p.Watch(&first.delayed, first, clock.Never, list)
		p.Watch(place, second, clock.Never, list, &other)
		first.set()
		second.set()
		p.Check(list)
		if n, _ := second.ended(); n != 1 {
			t.Errorf("the second ended %d times", n)
		}
		if n, _ := next.ended(); n != 0 {
			t.Error("who took its place is complete, and was not ready")
		}
		next.set()
		p.Check(&other)
	})
}

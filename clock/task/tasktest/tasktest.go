// Package tasktest is the conformance suite of package task: what tasks, locks, gates,
// events, signals, queues and groups promise, in every world that runs them. The suite
// makes no assumption about which task runs first, tolerates spurious wakes, and never
// fails a test from inside a task by FailNow, which is Goexit.
package tasktest

import (
	"testing"
	"time"

	"seedlog/clock"
	"seedlog/clock/task"
)

// World runs fn as the task "main" of a fresh runtime and returns when fn, and every task
// of its group, has ended. It fails t if the run fails.
type World func(t *testing.T, fn func(t *task.T))

// suite is a running case: where a task reports to.
type suite struct{ *testing.T }

func (s suite) check(ok bool, format string, args ...any) {
	s.Helper()
	if !ok {
		s.Errorf(format, args...)
	}
}

// Run runs every case in a world of its own.
func Run(t *testing.T, w World) {
	cases := []struct {
		name string
		fn   func(s suite, t *task.T)
	}{
		{"a wake before the park is not lost", wakeBeforePark},
		{"two wakes are one token", wakesDoNotCount},
		{"a deadline that passed ends a park at once", pastDeadline},
		{"no park ends before its deadline unless woken", neverEarly},
		{"of a wake and a deadline one is seen", wakeAgainstDeadline},
		{"waking an ended task is nothing", wakeEnded},
		{"the mutex excludes", mutexExcludes},
		{"the gate is first come first served", gateOrder},
		{"the gate is entered although the group stops", gateIgnoresStop},
		{"the gate may be held across waits", gateAcrossWaits},
		{"an event wakes all who wait, and stays", eventWakesAll},
		{"an event's wait times out and stops", eventTimesOut},
		{"no raise of a signal is missed", signalMissesNothing},
		{"a queue keeps the order and bounds its length", queueOrder},
		{"no value of a queue is lost or doubled", queueLosesNothing},
		{"a closed queue drains and then refuses", queueClose},
		{"a stopping task leaves the queue", queueStop},
		{"a full queue lets its pushers go when it closes", queueCloseFull},
		{"a stop reaches sub-groups and later tasks", groupStops},
		{"a group is awaited by several", groupWait},
		{"a stop that comes during a hard park is not lost", stopDuringHardPark},
		{"a sleep ends at its time or by the stop", sleeps},
		{"what is published is seen", published},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w(t, func(tk *task.T) { c.fn(suite{t}, tk) })
		})
	}
}

// in is a deadline d from now; waits that should succeed use a generous one.
func in(t *task.T, d time.Duration) clock.Instant { return t.Now().Add(d) }

const long = 10 * time.Minute

// together runs each fn in a task of a fresh group and waits for them.
func together(t *task.T, fns ...func(t *task.T)) {
	g := task.NewGroup(t.Runtime(), "together")
	for _, fn := range fns {
		g.Go("one", fn)
	}
	g.Wait(t)
	g.Stop()
}

// pause lets others run for a moment of the world's time.
func pause(t *task.T, d time.Duration) {
	for until := in(t, d); t.Now() < until; {
		t.Runtime().Park(t, until)
	}
}

func wakeBeforePark(s suite, t *task.T) {
	t.Wake()
	s.check(t.Park(in(t, long)) == task.Woken, "the park did not return the wake")
	var other task.Int64
	together(t, func(t *task.T) {
		me := t
		t.Group().Go("waker", func(*task.T) {
			other.Store(1)
			me.Wake()
		})
		for other.Load() == 0 {
			t.Park(clock.Never)
		}
	})
}

func wakesDoNotCount(s suite, t *task.T) {
	t.Wake()
	t.Wake()
	t.Wake()
	t.Park(in(t, long))
	// At most a spurious wake or two may be left, not the second token for ever.
	timedOut := false
	for range 50 {
		if t.Park(in(t, time.Millisecond)) == task.TimedOut {
			timedOut = true
			break
		}
	}
	s.check(timedOut, "tokens were counted")
}

func pastDeadline(s suite, t *task.T) {
	for _, until := range []clock.Instant{t.Now(), t.Now() - 1, 0, -5} {
		r := t.Park(until)
		s.check(r == task.TimedOut, "Park(%d) at %d: %v", until, t.Now(), r)
	}
}

func neverEarly(s suite, t *task.T) {
	for _, d := range []time.Duration{1, 999, time.Microsecond, 1234567, 3 * time.Millisecond} {
		until := in(t, d)
		for {
			r := t.Park(until)
			if r == task.TimedOut {
				s.check(t.Now() >= until, "timed out %v early", until.Sub(t.Now()))
				break
			}
		}
	}
}

func wakeAgainstDeadline(s suite, t *task.T) {
	for i := range 50 {
		var e task.Event
		e.Init(t.Runtime(), "tasktest.event")
		together(t,
			func(t *task.T) {
				r := e.Wait(t, in(t, time.Duration(i)*4*time.Microsecond))
				s.check(r == task.Woken || r == task.TimedOut, "wait: %v", r)
				s.check(r != task.Woken || e.IsSet(), "woken by an event that is not set")
			},
			func(t *task.T) { e.Set() })
		s.check(e.Wait(t, t.Now()) == task.Woken, "a set event timed out")
	}
}

func wakeEnded(s suite, t *task.T) {
	var gone *task.T
	together(t, func(t *task.T) { gone = t })
	gone.Wake()
	gone.Wake()
	s.check(gone.Name() == "one", "name %q", gone.Name())
}

func mutexExcludes(s suite, t *task.T) {
	mu := task.NewMutex(t.Runtime(), "tasktest.mutex")
	n := 0
	add := func(t *task.T) {
		for range 200 {
			mu.Lock()
			was := n
			n = was + 1
			mu.Unlock()
		}
	}
	together(t, add, add, add, add)
	s.check(n == 800, "n = %d", n)
}

func gateOrder(s suite, t *task.T) {
	g := task.NewGate(t.Runtime(), "tasktest.gate")
	var order []int
	group := task.NewGroup(t.Runtime(), "gate")
	g.Enter(t)
	for i := range 5 {
		w := group.Go("waiter", func(t *task.T) {
			g.Enter(t)
			order = append(order, i)
			g.Leave(t)
		})
		for g.Waiting() <= i {
			pause(t, 10*time.Microsecond)
		}
		w.Wake() // must not get it in
	}
	s.check(!g.TryEnter(t) && g.Held(t), "the gate is not held")
	g.Leave(t)
	group.Wait(t)
	for i, got := range order {
		s.check(got == i, "order %v", order)
	}
	s.check(len(order) == 5, "order %v", order)
	s.check(g.TryEnter(t), "a free gate refused")
	g.Leave(t)
}

func gateIgnoresStop(s suite, t *task.T) {
	g := task.NewGate(t.Runtime(), "tasktest.gate")
	g.Enter(t)
	group := task.NewGroup(t.Runtime(), "stopped")
	entered := false
	group.Go("waiter", func(t *task.T) {
		g.Enter(t)
		entered = true
		g.Leave(t)
	})
	pause(t, time.Millisecond)
	group.Stop()
	pause(t, time.Millisecond)
	s.check(!entered, "stopping let a task into a held gate")
	g.Leave(t)
	group.Wait(t)
	s.check(entered, "the task did not enter")
}

func gateAcrossWaits(s suite, t *task.T) {
	g := task.NewGate(t.Runtime(), "tasktest.gate")
	inside := 0
	visit := func(t *task.T) {
		for range 10 {
			g.Enter(t)
			inside++
			s.check(inside == 1, "%d tasks in the gate", inside)
			pause(t, 10*time.Microsecond)
			inside--
			g.Leave(t)
		}
	}
	together(t, visit, visit, visit)
}

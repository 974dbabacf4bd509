package tasktest

import (
	"time"

	"seedlog/clock"
	"seedlog/clock/task"
)

func eventWakesAll(s suite, t *task.T) {
	e := task.NewEvent(t.Runtime(), "tasktest.event")
	group := task.NewGroup(t.Runtime(), "event")
	for range 5 {
		group.Go("waiter", func(t *task.T) {
			r := e.Wait(t, clock.Never)
			s.check(r == task.Woken, "wait: %v", r)
		})
	}
	pause(t, time.Millisecond)
	s.check(!e.IsSet(), "set by itself")
	e.Set()
	e.Set()
	group.Wait(t)
	s.check(e.IsSet() && e.Wait(t, 0) == task.Woken, "it did not stay set")
}

func eventTimesOut(s suite, t *task.T) {
	e := task.NewEvent(t.Runtime(), "tasktest.event")
	until := in(t, time.Millisecond)
	s.check(e.Wait(t, until) == task.TimedOut, "it did not time out")
	s.check(t.Now() >= until, "it timed out early")
	group := task.NewGroup(t.Runtime(), "event")
	group.Go("waiter", func(t *task.T) {
		r := e.Wait(t, clock.Never)
		s.check(r == task.Stopping, "wait of a stopped task: %v", r)
		s.check(e.Wait(t, in(t, long)) == task.Stopping, "a stop is not for good")
	})
	pause(t, time.Millisecond)
	group.Stop()
	group.Wait(t)
	// Those who left are not woken, nor in the way of those who come.
	e.Set()
	s.check(e.Wait(t, clock.Never) == task.Woken, "not set")
}

func signalMissesNothing(s suite, t *task.T) {
	sig := task.NewSignal(t.Runtime(), "tasktest.signal")
	const raises = 100
	watch := func(t *task.T) {
		for seen := uint64(0); seen < raises; {
			r := sig.Wait(t, seen, in(t, long))
			now := sig.Generation()
			s.check(r == task.Woken && now > seen, "wait past %d: %v at %d", seen, r, now)
			if now == seen {
				return
			}
			seen = now
		}
	}
	together(t, watch, watch, func(t *task.T) {
		for range raises {
			sig.Raise()
			if t.Now()%3 == 0 {
				pause(t, time.Microsecond)
			}
		}
	})
	s.check(sig.Wait(t, raises, in(t, time.Millisecond)) == task.TimedOut, "past the last generation")
}

func queueOrder(s suite, t *task.T) {
	q := task.NewQueue[int](t.Runtime(), "tasktest.queue", 3)
	together(t,
		func(t *task.T) {
			for i := range 100 {
				s.check(q.Push(t, i), "push %d refused", i)
			}
		},
		func(t *task.T) {
			for i := range 100 {
				s.check(q.Len() <= 3, "%d values in a queue of 3", q.Len())
				v, ok := q.Pop(t, in(t, long))
				s.check(ok && v == i, "popped %d, %v; want %d", v, ok, i)
			}
		})
	_, ok := q.TryPop()
	s.check(!ok && q.Len() == 0, "a value is left")
	s.check(q.TryPush(1) && q.TryPush(2) && q.TryPush(3) && !q.TryPush(4), "the bound is not 3")
	v, ok := q.TryPop()
	s.check(ok && v == 1, "TryPop: %d, %v", v, ok)
}

func queueLosesNothing(s suite, t *task.T) {
	q := task.NewQueue[int](t.Runtime(), "tasktest.queue", 2)
	mu := task.NewMutex(t.Runtime(), "tasktest.seen")
	seen := map[int]int{}
	producers := task.NewGroup(t.Runtime(), "producers")
	consumers := task.NewGroup(t.Runtime(), "consumers")
	for i := range 4 {
		producers.Go("producer", func(t *task.T) {
			for j := range 25 {
				s.check(q.Push(t, i*100+j), "push refused")
			}
		})
		consumers.Go("consumer", func(t *task.T) {
			for {
				// Short deadlines: wakes go to tasks that time out at the same moment.
				v, ok := q.Pop(t, in(t, 3*time.Microsecond))
				if ok {
					mu.Lock()
					seen[v]++
					mu.Unlock()
				} else if t.Stopping() {
					return
				}
			}
		})
	}
	producers.Wait(t)
	consumers.Stop()
	consumers.Wait(t)
	s.check(len(seen) == 100 && q.Len() == 0, "%d of 100 values, %d left", len(seen), q.Len())
	for v, n := range seen {
		s.check(n == 1, "%d popped %d times", v, n)
	}
}

func queueClose(s suite, t *task.T) {
	q := task.NewQueue[string](t.Runtime(), "tasktest.queue", 4)
	q.TryPush("a")
	q.TryPush("b")
	q.Close()
	s.check(!q.TryPush("c") && !q.Push(t, "d"), "a closed queue took a value")
	for _, want := range []string{"a", "b"} {
		v, ok := q.Pop(t, clock.Never)
		s.check(ok && v == want, "popped %q, %v", v, ok)
	}
	_, ok := q.Pop(t, clock.Never)
	s.check(!ok, "popped from an empty closed queue")
}

func queueCloseFull(s suite, t *task.T) {
	q := task.NewQueue[int](t.Runtime(), "tasktest.queue", 1)
	q.TryPush(1)
	group := task.NewGroup(t.Runtime(), "queue")
	for range 3 {
		group.Go("pusher", func(t *task.T) {
			s.check(!q.Push(t, 2), "a push into a full closed queue")
		})
	}
	pause(t, time.Millisecond)
	q.Close()
	group.Wait(t)
	s.check(q.Len() == 1, "%d values", q.Len())
}

func queueStop(s suite, t *task.T) {
	q := task.NewQueue[int](t.Runtime(), "tasktest.queue", 1)
	group := task.NewGroup(t.Runtime(), "queue")
	group.Go("popper", func(t *task.T) {
		_, ok := q.Pop(t, clock.Never)
		s.check(!ok, "popped from an empty queue")
	})
	pause(t, time.Millisecond)
	group.Stop()
	group.Wait(t)
	q.TryPush(1)
	v, ok := q.Pop(t, in(t, long))
	s.check(ok && v == 1, "the one who left took the value")
}

func groupStops(s suite, t *task.T) {
	rt := t.Runtime()
	g := task.NewGroup(rt, "parent")
	sub := g.Sub("child")
	subsub := sub.Sub("grandchild")
	untilStop := func(t *task.T) {
		for t.Park(clock.Never) != task.Stopping {
		}
		s.check(t.Stopping() && t.Group().Stopping(), "not stopping")
	}
	for _, g := range []*task.Group{g, sub, subsub} {
		g.Go("a", untilStop)
		g.Go("b", untilStop)
	}
	s.check(g.Len() == 2, "%d tasks", g.Len())
	g.Stop()
	g.Stop()
	g.Sub("late").Go("late", untilStop)
	g.Go("late", untilStop)
	subsub.Wait(t)
	sub.Wait(t)
	g.Wait(t)
	s.check(!t.Stopping(), "the stop went up")
	lone := task.NewGroup(rt, "lone")
	child := lone.Sub("child")
	child.Stop()
	s.check(!lone.Stopping(), "the stop of a child went up")
	lone.Stop()
}

func groupWait(s suite, t *task.T) {
	g := task.NewGroup(t.Runtime(), "work")
	done := 0
	mu := task.NewMutex(t.Runtime(), "tasktest.done")
	for range 4 {
		g.Go("worker", func(t *task.T) {
			pause(t, 100*time.Microsecond)
			mu.Lock()
			done++
			mu.Unlock()
		})
	}
	wait := func(t *task.T) {
		g.Wait(t)
		mu.Lock()
		s.check(done == 4, "%d of 4 were done", done)
		mu.Unlock()
	}
	together(t, wait, wait)
	g.Wait(t)
}

func stopDuringHardPark(s suite, t *task.T) {
	g := task.NewGroup(t.Runtime(), "hard")
	ready := task.NewEvent(t.Runtime(), "tasktest.ready")
	release := task.NewEvent(t.Runtime(), "tasktest.release")
	w := g.Go("waiter", func(t *task.T) {
		ready.Set()
		for !release.IsSet() {
			t.ParkHard()
		}
		s.check(t.Park(clock.Never) == task.Stopping, "the stop was lost")
	})
	ready.Wait(t, clock.Never)
	g.Stop()
	pause(t, 100*time.Microsecond)
	release.Set()
	w.Wake()
	g.Wait(t)
}

func sleeps(s suite, t *task.T) {
	until := in(t, 2*time.Millisecond)
	t.Wake()
	s.check(t.Sleep(until) && t.Now() >= until, "woke early")
	s.check(t.Sleep(until), "a sleep into the past")
	g := task.NewGroup(t.Runtime(), "sleepers")
	g.Go("sleeper", func(t *task.T) {
		s.check(!t.Sleep(in(t, 1000*time.Hour)), "slept for a thousand hours")
	})
	pause(t, time.Millisecond)
	g.Stop()
	g.Wait(t)
}

func published(s suite, t *task.T) {
	type image struct{ a, b int }
	var p task.Published[image]
	p.Init(t.Runtime(), &image{})
	var n task.Int64
	read := func(t *task.T) {
		for last := 0; last < 100; {
			v := p.Load()
			s.check(v.a == v.b && v.a >= last, "read %+v after %d", *v, last)
			last = max(v.a, last)
			pause(t, time.Microsecond)
		}
		n.Add(1)
	}
	together(t, read, read, func(t *task.T) {
		for i := 1; i <= 100; i++ {
			p.Store(&image{i, i})
			pause(t, time.Microsecond)
		}
	})
	s.check(n.Load() == 2, "%d readers", n.Load())
	n.Store(7)
	s.check(n.Load() == 7, "%d", n.Load())
}

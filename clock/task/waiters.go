package task

import "seedlog/clock"

// waiters is a list of parked tasks, first come, first served. It is threaded through the
// tasks themselves, for a task waits in one place at a time, so that waiting allocates
// nothing and leaving the list is O(1). The owner's Mutex guards it.
type waiters struct {
	head, tail *T
}

func (w *waiters) add(t *T) {
	if t.in != nil {
		panic("task: " + t.name + " waits in two places: a *T is used by two tasks")
	}
	t.in, t.prev, t.next = w, w.tail, nil
	if w.tail == nil {
		w.head = t
	} else {
		w.tail.next = t
	}
	w.tail = t
}

// remove takes t out if it is in the list.
func (w *waiters) remove(t *T) {
	if t.in != w {
		return
	}
	if t.prev == nil {
		w.head = t.next
	} else {
		t.prev.next = t.next
	}
	if t.next == nil {
		w.tail = t.prev
	} else {
		t.next.prev = t.prev
	}
	t.in, t.prev, t.next = nil, nil, nil
}

// wakeOne takes the longest waiter out and wakes it. One is enough where it takes one:
// whoever leaves [await], for whatever reason, looks at the condition once more under the
// Mutex, so the wake of a task that was about to time out is not lost.
func (w *waiters) wakeOne() {
	if t := w.head; t != nil {
		w.remove(t)
		t.Wake()
	}
}

func (w *waiters) wakeAll() {
	for w.head != nil {
		w.wakeOne()
	}
}

// await is the one waiting loop: done is evaluated under mu, and whoever makes it true
// wakes the waiters under mu. It returns Woken if done came true, even if the deadline
// passed or the group stops.
func await(t *T, mu *Mutex, w *waiters, done func() bool, until clock.Instant) Reason {
	mu.Lock()
	for !done() {
		w.add(t)
		mu.Unlock()
		r := t.Park(until)
		mu.Lock()
		w.remove(t)
		if r == Woken {
			continue
		}
		if done() {
			break
		}
		mu.Unlock()
		return r
	}
	mu.Unlock()
	return Woken
}

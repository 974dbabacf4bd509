package task

import "seedlog/clock"

// Queue is a bounded first-in-first-out hand-over between tasks.
type Queue[V any] struct {
	mu     Mutex
	buf    []V
	head   int
	n      int
	closed bool
	full   []*T // waiting to push
	empty  []*T // waiting to pop
}

// NewQueue returns a queue that holds at most capacity values.
func NewQueue[V any](rt Runtime, class string, capacity int) *Queue[V] {
	q := &Queue[V]{buf: make([]V, capacity)}
	q.mu.Init(rt, class)
	return q
}

// Push waits for room and appends v. It reports false if the queue was closed or t's group
// stopped; v is then not in the queue.
func (q *Queue[V]) Push(t *T, v V) bool {
	done := false
	await(t, &q.mu, &q.full, func() bool {
		if q.closed {
			return true
		}
		done = q.put(v)
		return done
	}, clock.Never)
	if done {
		q.wakeAll(&q.empty)
	}
	return done
}

// TryPush appends v if there is room.
func (q *Queue[V]) TryPush(v V) bool {
	q.mu.Lock()
	ok := !q.closed && q.put(v)
	q.mu.Unlock()
	if ok {
		q.wakeAll(&q.empty)
	}
	return ok
}

// Pop waits for a value. It reports false when the queue is closed and empty, when the
// deadline passed, or when t's group stopped.
func (q *Queue[V]) Pop(t *T, until clock.Instant) (v V, ok bool) {
	await(t, &q.mu, &q.empty, func() bool {
		if q.n > 0 {
			v, ok = q.take(), true
			return true
		}
		return q.closed
	}, until)
	if ok {
		q.wakeAll(&q.full)
	}
	return v, ok
}

// TryPop takes a value if there is one.
func (q *Queue[V]) TryPop() (v V, ok bool) {
	q.mu.Lock()
	if q.n > 0 {
		v, ok = q.take(), true
	}
	q.mu.Unlock()
	if ok {
		q.wakeAll(&q.full)
	}
	return v, ok
}

// Len is the number of values in the queue.
func (q *Queue[V]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.n
}

// Close refuses further pushes; what is in the queue can still be popped.
func (q *Queue[V]) Close() {
	q.mu.Lock()
	q.closed = true
	wake := append(append([]*T(nil), q.full...), q.empty...)
	q.mu.Unlock()
	for _, w := range wake {
		w.Wake()
	}
}

func (q *Queue[V]) put(v V) bool {
	if q.n == len(q.buf) {
		return false
	}
	q.buf[(q.head+q.n)%len(q.buf)] = v
	q.n++
	return true
}

func (q *Queue[V]) take() V {
	var zero V
	v := q.buf[q.head]
	q.buf[q.head] = zero
	q.head = (q.head + 1) % len(q.buf)
	q.n--
	return v
}

// wakeAll wakes every waiter of the list (there are few): a waiter that
// lost the race parks again, while a wake that went to a task about to time out would be lost.
func (q *Queue[V]) wakeAll(list *[]*T) {
	q.mu.Lock()
	var few [4]*T
	wake := append(few[:0], *list...)
	q.mu.Unlock()
	for _, w := range wake {
		w.Wake()
	}
}

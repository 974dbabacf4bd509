package task

import "seedlog/clock"

// Queue is a bounded first-in-first-out hand-over between tasks.
type Queue[V any] struct {
	mu     Mutex
	buf    []V
	head   int
	n      int
	closed bool
	full   waiters // waiting to push
	empty  waiters // waiting to pop
}

// NewQueue returns a queue that holds at most capacity values, at least one.
func NewQueue[V any](rt Runtime, class string, capacity int) *Queue[V] {
	q := &Queue[V]{buf: make([]V, max(capacity, 1))}
	q.mu.Init(rt, class)
	return q
}

// Push waits for room and appends v. It reports false if the queue was closed or t's group
// stopped; v is then not in the queue.
func (q *Queue[V]) Push(t *T, v V) bool {
	ok := false
	await(t, &q.mu, &q.full, func() bool {
		ok = q.put(v)
		return ok || q.closed
	}, clock.Never)
	return ok
}

// TryPush appends v if there is room.
func (q *Queue[V]) TryPush(v V) bool {
	q.mu.Lock()
	ok := q.put(v)
	q.mu.Unlock()
	return ok
}

// Pop waits for a value. It reports false when the queue is closed and empty, when the
// deadline passed, or when t's group stopped and there is no value.
func (q *Queue[V]) Pop(t *T, until clock.Instant) (v V, ok bool) {
	await(t, &q.mu, &q.empty, func() bool {
		v, ok = q.take()
		return ok || q.closed
	}, until)
	return v, ok
}

// TryPop takes a value if there is one.
func (q *Queue[V]) TryPop() (v V, ok bool) {
	q.mu.Lock()
	v, ok = q.take()
	q.mu.Unlock()
	return v, ok
}

// Len is the number of values in the queue.
func (q *Queue[V]) Len() int {
	q.mu.Lock()
	n := q.n
	q.mu.Unlock()
	return n
}

// Close refuses further pushes; what is in the queue can still be popped.
func (q *Queue[V]) Close() {
	q.mu.Lock()
	q.closed = true
	q.full.wakeAll()
	q.empty.wakeAll()
	q.mu.Unlock()
}

func (q *Queue[V]) put(v V) bool {
	if q.closed || q.n == len(q.buf) {
		return false
	}
	q.buf[(q.head+q.n)%len(q.buf)] = v
	q.n++
	q.empty.wakeOne()
	return true
}

func (q *Queue[V]) take() (v V, ok bool) {
	if q.n == 0 {
		return v, false
	}
	var zero V
	v = q.buf[q.head]
	q.buf[q.head] = zero
	q.head = (q.head + 1) % len(q.buf)
	q.n--
	q.full.wakeOne()
	return v, true
}

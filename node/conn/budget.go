package conn

import (
	"math/bits"

	"seedlog/clock"
	"seedlog/clock/task"
)

const (
	// classMin is the smallest buffer that the budget hands out.
	classMin = 4 << 10
	// retainMax is how many bytes of free buffers are kept for reuse, whatever the limit.
	retainMax = 32 << 20
)

// Budget is the memory that frames of all connections share. Who finds it used up waits in
// turn, so that a large frame is not passed over for ever by small ones.
type Budget struct {
	mu      task.Mutex
	limit   int64
	used    int64
	queue   []*claim
	free    [32][][]byte // by the power of two
	kept    int64
	retain  int64
	waitedN int64
}

type claim struct {
	t       *task.T
	n       int64
	granted bool
}

// NewBudget returns a budget of limit bytes. A single frame that is larger is let in when
// nothing else is.
func NewBudget(rt task.Runtime, limit int64) *Budget {
	b := &Budget{limit: limit, retain: min(limit, retainMax)}
	b.mu.Init(rt, "conn.Budget")
	return b
}

// class is the power of two of a buffer for n bytes.
func class(n int) int { return max(bits.Len(uint(n-1)), bits.Len(classMin-1)) }

// cost is what a buffer for n bytes takes of the budget.
func (b *Budget) cost(n int) int64 { return min(int64(1)<<class(n), b.limit) }

// take waits for room and returns a buffer of n bytes, or nil if t's group stops.
func (b *Budget) take(t *task.T, n int) []byte {
	cost := b.cost(n)
	b.mu.Lock()
	if len(b.queue) == 0 && b.used+cost <= b.limit {
		b.used += cost
		buf := b.reuse(n)
		b.mu.Unlock()
		return fresh(buf, n)
	}
	c := &claim{t: t, n: cost}
	b.queue = append(b.queue, c)
	b.waitedN++
	for !c.granted {
		b.mu.Unlock()
		r := t.Park(clock.Never)
		b.mu.Lock()
		if r == task.Stopping && !c.granted {
			b.withdraw(c)
			wake := b.grant()
			b.mu.Unlock()
			wakeAll(wake)
			return nil
		}
	}
	buf := b.reuse(n)
	b.mu.Unlock()
	return fresh(buf, n)
}

func fresh(buf []byte, n int) []byte {
	if buf == nil {
		buf = make([]byte, 1<<class(n))
	}
	return buf[:n]
}

// reuse takes a free buffer of the class of n, or returns nil.
func (b *Budget) reuse(n int) []byte {
	list := &b.free[class(n)]
	last := len(*list) - 1
	if last < 0 {
		return nil
	}
	buf := (*list)[last]
	(*list)[last] = nil
	*list = (*list)[:last]
	b.kept -= int64(cap(buf))
	return buf
}

// give returns a buffer.
func (b *Budget) give(buf []byte) {
	cost := b.cost(len(buf))
	b.mu.Lock()
	b.used -= cost
	if b.kept+int64(cap(buf)) <= b.retain {
		list := &b.free[class(cap(buf))]
		*list = append(*list, buf)
		b.kept += int64(cap(buf))
	}
	wake := b.grant()
	b.mu.Unlock()
	wakeAll(wake)
}

// grant lets in who is first as long as there is room.
func (b *Budget) grant() (wake []*task.T) {
	for len(b.queue) > 0 && b.used+b.queue[0].n <= b.limit {
		c := b.queue[0]
		b.queue = append(b.queue[:0], b.queue[1:]...)
		c.granted = true
		b.used += c.n
		wake = append(wake, c.t)
	}
	return wake
}

func (b *Budget) withdraw(c *claim) {
	for i, o := range b.queue {
		if o == c {
			b.queue = append(b.queue[:i], b.queue[i+1:]...)
			return
		}
	}
}

func wakeAll(ts []*task.T) {
	for _, t := range ts {
		t.Wake()
	}
}

// Used is the number of bytes in use, and how many frames had to wait for theirs so far.
func (b *Budget) Used() (bytes, waits int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used, b.waitedN
}

package replica

import (
	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/wheel"
)

// Operation is what a client's request waits for: the high watermark, bytes to read.
type Operation interface {
	// Ready reports whether there is nothing left to wait for, be it that the condition
	// holds or that it never can (leadership lost, directory offline). It is called with the
	// lock of a watch list held: it may lock a partition or a log, and must not wait.
	Ready() bool
	// Complete is called exactly once, with no lock held; it must not wait. expired tells
	// that the time ran out before Ready held.
	Complete(expired bool)
}

// Delayed is an operation's place in a Purgatory. It may be reused once the operation is
// complete. The zero value is ready for use.
type Delayed struct {
	timer wheel.Entry[*Delayed]
	op    Operation
	state delayedState // under the purgatory's mu
	life  uint64       // counts uses; under the purgatory's mu
	poked bool         // a Check came while registering; under the purgatory's mu
	nodes []watchNode
}

type delayedState uint8

const (
	delayedIdle        delayedState = iota
	delayedRegistering              // on some lists; nobody may complete it yet
	delayedWaiting
)

// watchNode is a Delayed on one list.
type watchNode struct {
	d    *Delayed
	list *Watchers
	at   int // index in list.nodes
}

// Watchers is the list of operations that wait for one thing, such as the high watermark of
// one partition.
type Watchers struct {
	mu    task.Mutex
	nodes []*watchNode
}

// Init sets an embedded list up.
func (w *Watchers) Init(rt task.Runtime) { w.mu.Init(rt, "replica.Watchers") }

// Purgatory holds operations until their condition holds or their time is up, and completes
// each exactly once.
//
//	Watch ---> on the lists and the wheel ---> Check(list): Ready ---> Complete(false)
//	                                     \---> deadline           ---> Complete(true)
//
// A change (an append, a new high watermark, a lost leadership) is made first and Check
// called after it. Watch puts the operation on the lists first and asks Ready after that.
// So whichever comes second sees the other.
//
// Lock order: Watchers, then Purgatory; and Watchers, then whatever Ready locks.
type Purgatory struct {
	rt      task.Runtime
	mu      task.Mutex
	wheel   *wheel.Wheel[*Delayed]
	runner  *task.T
	sleeps  clock.Instant // until when the runner sleeps
	waiting int
}

// NewPurgatory returns an empty one. Its Run must be started.
func NewPurgatory(rt task.Runtime) *Purgatory {
	p := &Purgatory{rt: rt, wheel: wheel.New[*Delayed](int64(rt.Now()))}
	p.mu.Init(rt, "replica.Purgatory")
	return p
}

// Len is the number of operations that wait.
func (p *Purgatory) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting
}

// Watch lets op wait on the lists until the deadline. It may complete before Watch returns.
func (p *Purgatory) Watch(d *Delayed, op Operation, until clock.Instant, lists ...*Watchers) {
	p.mu.Lock()
	d.op, d.state, d.poked = op, delayedRegistering, false
	d.life++
	p.waiting++
	p.mu.Unlock()
	d.register(lists)
	for !op.Ready() {
		if p.settle(d, until) {
			return // from here on d may be complete and in use again
		}
	}
	p.mu.Lock()
	d.state = delayedIdle
	p.waiting--
	p.mu.Unlock()
	p.finish(d, false)
}

func (d *Delayed) register(lists []*Watchers) {
	if cap(d.nodes) < len(lists) {
		d.nodes = make([]watchNode, 0, len(lists))
	}
	d.nodes = d.nodes[:len(lists)]
	for i, w := range lists {
		n := &d.nodes[i]
		w.mu.Lock()
		*n = watchNode{d: d, list: w, at: len(w.nodes)}
		w.nodes = append(w.nodes, n)
		w.mu.Unlock()
	}
}

// settle lets d wait, unless a Check has passed it by since it was put on its lists.
func (p *Purgatory) settle(d *Delayed, until clock.Instant) bool {
	p.mu.Lock()
	if d.poked {
		d.poked = false
		p.mu.Unlock()
		return false
	}
	d.state = delayedWaiting
	var wake *task.T
	if until != clock.Never {
		d.timer.Value = d
		p.wheel.Add(&d.timer, int64(until))
		if until < p.sleeps {
			wake = p.runner
		}
	}
	p.mu.Unlock()
	if wake != nil {
		wake.Wake()
	}
	return true
}

// Check completes the operations on the list that are ready.
func (p *Purgatory) Check(w *Watchers) {
	for {
		var ready [8]*Delayed
		var lives [8]uint64
		n, more := p.collect(w, ready[:], lives[:])
		for i := range n {
			p.complete(ready[i], lives[i], false)
		}
		if !more {
			return
		}
	}
}

// collect fills in ready operations of the list and tells whether there may be more.
func (p *Purgatory) collect(w *Watchers, ready []*Delayed, lives []uint64) (n int, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, node := range w.nodes {
		if n == len(ready) {
			return n, true
		}
		life, ok := p.waits(node.d)
		if ok && node.d.op.Ready() {
			ready[n], lives[n] = node.d, life
			n++
		}
	}
	return n, false
}

// waits tells whether d can be completed. One that is just being registered is told to look
// again.
func (p *Purgatory) waits(d *Delayed) (life uint64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d.poked = d.state == delayedRegistering
	return d.life, d.state == delayedWaiting
}

// complete takes d out and completes it, unless somebody else did.
func (p *Purgatory) complete(d *Delayed, life uint64, expired bool) {
	p.mu.Lock()
	if d.life != life || d.state != delayedWaiting {
		p.mu.Unlock()
		return
	}
	d.state = delayedIdle
	p.waiting--
	p.wheel.Cancel(&d.timer)
	p.mu.Unlock()
	p.finish(d, expired)
}

// finish takes d off its lists and runs the operation's end. The caller has claimed d.
func (p *Purgatory) finish(d *Delayed, expired bool) {
	for i := range d.nodes {
		d.nodes[i].unlink()
	}
	op := d.op
	d.op = nil
	op.Complete(expired)
}

func (n *watchNode) unlink() {
	w := n.list
	w.mu.Lock()
	last := len(w.nodes) - 1
	moved := w.nodes[last]
	w.nodes[n.at] = moved
	moved.at = n.at
	w.nodes[last] = nil
	w.nodes = w.nodes[:last]
	w.mu.Unlock()
	n.list = nil
}

// Run expires operations until t's group stops.
func (p *Purgatory) Run(t *task.T) {
	for {
		if d := p.expire(t); d != nil {
			p.finish(d, true)
			continue
		}
		if t.Park(p.sleeping()) == task.Stopping {
			return
		}
	}
}

// expire claims one operation whose time is up.
func (p *Purgatory) expire(t *task.T) *Delayed {
	now := t.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.runner = t
	p.wheel.Advance(int64(now))
	e := p.wheel.Pop()
	if e == nil {
		p.sleeps = clock.Never
		if at, ok := p.wheel.NextExpiry(); ok {
			p.sleeps = clock.Instant(at)
		}
		return nil
	}
	e.Value.state = delayedIdle
	p.waiting--
	return e.Value
}

func (p *Purgatory) sleeping() clock.Instant {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sleeps
}

package sched

import (
	"fmt"
	"iter"
	"runtime/debug"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/sim/trace"
)

type (
	reason  = task.Reason
	instant = clock.Instant
)

type state uint8

const (
	runnable state = iota
	running
	parked
	held // back from running; its event ends that
	ended
)

func (s state) String() string {
	return [...]string{"runnable", "running", "parked", "held back", "ended"}[s]
}

// proc is the scheduler's part of a task.
type proc struct {
	id       uint64
	t        *task.T
	rt       *Runtime
	fn       func(t *task.T)
	w        *worker // from its first step on
	state    state
	token    bool
	reason   reason // what its park returns
	onTime   reason // what it returns if its event comes first
	ev       event  // its deadline, spurious wake or end of hold
	priority int64
	locks    []*task.Mutex // held, in the order of locking
	lockBuf  [4]*task.Mutex
	returned bool
	dumping  bool
	stack    string

	prev, next *proc // among the incarnation's, in the order of starting
}

func (p *proc) name() string { return p.rt.name + "/" + p.t.Name() }

// dead reports whether p is only resumed to be unwound.
func (p *proc) dead() bool { return p.rt.dead || p.rt.s.failure != nil }

// unwind is the private panic that ends a task that has been killed, or whose run is over.
type unwind struct{}

// yield gives the processor back. It returns when the scheduler picks p again, or unwinds.
func (p *proc) yield() {
	for {
		more := p.w.yield(struct{}{})
		if p.dumping {
			p.dumping, p.stack = false, ownStack()
			continue
		}
		if !more || p.dead() {
			panic(unwind{})
		}
		return
	}
}

// worker is a coroutine that runs one task after the other.
type worker struct {
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
	p     *proc
}

func (s *Scheduler) worker(p *proc) *worker {
	if n := len(s.idle); n > 0 {
		w := s.idle[n-1]
		s.idle = s.idle[:n-1]
		w.p = p
		return w
	}
	w := &worker{p: p}
	w.next, w.stop = iter.Pull(w.loop)
	return w
}

func (w *worker) loop(yield func(struct{}) bool) {
	w.yield = yield
	for w.p != nil {
		w.p.run()
		if !yield(struct{}{}) {
			return
		}
	}
}

func (p *proc) run() {
	defer p.finish()
	p.fn(p.t)
	p.returned = true
}

// finish is where a task's end is judged, on its own stack: a panic would lose that, and
// the seed, on its way through iter.Pull.
func (p *proc) finish() {
	r := recover()
	s := p.rt.s
	switch {
	case p.dead():
	case p.returned && len(p.locks) > 0:
		s.fail(Locked, "ends while it holds "+p.locks[0].Class(), "")
	case p.returned:
		s.log.Add(trace.End, p.id, 0, 0)
	case r == nil:
		s.fail(Goexit, "ended by runtime.Goexit (a FailNow inside a task?)", "")
	default:
		s.fail(Panic, fmt.Sprint(r), string(debug.Stack()))
	}
	p.end()
}

// end takes p off the books.
func (p *proc) end() {
	p.state = ended
	p.locks = nil
	rt := p.rt
	if p.prev == nil {
		rt.first = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		rt.last = p.prev
	} else {
		p.next.prev = p.prev
	}
	p.prev, p.next = nil, nil
}

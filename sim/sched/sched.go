package sched

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/sim/trace"
)

// Scheduler is the time and the processor of one world.
type Scheduler struct {
	seed uint64
	cfg  Config
	log  *trace.Log
	now  clock.Instant
	heap eventHeap
	free []*event // callbacks' events for reuse

	runnable []*proc
	cur      *proc
	idle     []*worker
	runtimes []*Runtime
	reaping  []*Runtime // killed by a task; to be unwound when it has yielded
	world    *Runtime
	nextProc uint64
	streams  uint64
	boots    map[string]int

	rng    *rand.PCG
	gaps   gaps
	victim uint64
	lowest int64
	order  lockOrder

	steps         uint64
	sinceCall     int64 // steps since the last callback
	sinceProgress int64
	marked        bool // Progress was called

	running bool
	closing bool
	failure *Failure
}

// gaps count down to the next disturbance of each kind; zero is never.
type gaps struct {
	hold, spurious, yield, change int
}

// New returns a scheduler at simulated time zero. log may be nil.
func New(seed uint64, cfg Config, log *trace.Log) *Scheduler {
	if log == nil {
		log = new(trace.Log)
	}
	s := &Scheduler{seed: seed, log: log, boots: map[string]int{}, rng: rand.NewPCG(split(seed, "scheduler"))}
	log.Add(trace.Seed, seed, 0, 0)
	s.SetConfig(cfg)
	s.world = s.NewRuntime("world", ClockParams{})
	return s
}

// SetConfig changes the behaviour from now on; the epoch stays what New was given.
func (s *Scheduler) SetConfig(cfg Config) {
	if s.world != nil {
		cfg.EpochMs = s.cfg.EpochMs
	}
	s.cfg = cfg
	s.gaps = gaps{s.gap(cfg.HoldEvery), s.gap(cfg.SpuriousEvery), s.gap(cfg.YieldEvery), s.gap(cfg.ChangeEvery)}
	s.log.Add(trace.Policy, uint64(cfg.Policy), 0, 0)
}

// gap draws the distance to the next of something that happens one time in n.
func (s *Scheduler) gap(n int) int {
	if n <= 0 {
		return 0
	}
	return 1 + int(s.rng.Uint64()%uint64(2*n-1))
}

// Seed is the run's seed.
func (s *Scheduler) Seed() uint64 { return s.seed }

// Log is the run's trace.
func (s *Scheduler) Log() *trace.Log { return s.log }

// Now is the simulated time, which every machine's clock is derived from.
func (s *Scheduler) Now() clock.Instant { return s.now }

// Steps is the number of scheduling steps so far.
func (s *Scheduler) Steps() uint64 { return s.steps }

// World is the runtime of what lives outside the machines: clients, the fault plan.
func (s *Scheduler) World() *Runtime { return s.world }

// Current is the running task, or nil in a callback.
func (s *Scheduler) Current() *task.T {
	if s.cur == nil {
		return nil
	}
	return s.cur.t
}

// Progress tells the livelock detector that something useful happened: an operation of a
// client ended, say.
func (s *Scheduler) Progress() { s.sinceCall, s.sinceProgress, s.marked = 0, 0, true }

// Callback is something that happens at an instant, outside any task. Fire must not wait.
type Callback interface{ Fire() }

type callFunc func()

func (f callFunc) Fire() { f() }

// Timer is a callback that may still be called off.
type Timer struct {
	e   *event
	gen uint32
	s   *Scheduler
}

// At calls fn at the simulated instant, or at once if it is past, outside any task.
func (s *Scheduler) At(at clock.Instant, fn func()) Timer { return s.schedule(at, callFunc(fn), nil) }

// AtCall is At for a callback that is there already.
func (s *Scheduler) AtCall(at clock.Instant, cb Callback) Timer { return s.schedule(at, cb, nil) }

// At calls fn at the simulated (not the machine's) instant, unless rt is killed before.
func (rt *Runtime) At(at clock.Instant, fn func()) Timer { return rt.s.schedule(at, callFunc(fn), rt) }

func (s *Scheduler) schedule(at clock.Instant, cb Callback, rt *Runtime) Timer {
	if s.muted() || rt != nil && rt.dead {
		return Timer{}
	}
	var e *event
	if n := len(s.free); n > 0 {
		e, s.free = s.free[n-1], s.free[:n-1]
	} else {
		e = &event{pos: -1}
	}
	e.cb, e.rt = cb, rt
	s.heap.push(max(at, s.now), e)
	return Timer{e, e.gen, s}
}

// Cancel calls the callback off. It reports whether it was still to come.
func (t Timer) Cancel() bool {
	if t.e == nil || t.e.gen != t.gen {
		return false
	}
	t.s.heap.remove(t.e)
	t.s.release(t.e)
	return true
}

func (s *Scheduler) release(e *event) {
	e.gen++
	e.cb, e.rt = nil, nil
	s.free = append(s.free, e)
}

// muted reports whether what is running has no effect any more: its incarnation is dead, or
// the run is over.
func (s *Scheduler) muted() bool { return s.cur != nil && s.cur.dead() || s.closing }

// Outcome is why Run returned.
type Outcome uint8

const (
	// Met: the condition came true.
	Met Outcome = iota
	// Expired: the simulated deadline passed.
	Expired
	// Idle: no task is left and nothing is scheduled.
	Idle
	// Failed: see Failure.
	Failed
)

func (o Outcome) String() string { return [...]string{"met", "expired", "idle", "failed"}[o] }

// Run runs the world until the condition holds (nil: never), which is asked between any two
// steps, or the deadline passes. If tasks wait, nothing is scheduled and there is no
// deadline, that is a deadlock.
func (s *Scheduler) Run(until func() bool, deadline clock.Instant) Outcome {
	out := Failed
	s.onLoop(func() {
		out = s.loop(until, deadline)
		if s.failure != nil {
			s.failure.Tasks = s.dump()
			out = Failed
		}
	})
	return out
}

// onLoop runs fn on a goroutine of its own until it returns: a task that calls Goexit takes
// the goroutine that resumed it along, and that must not be the caller's.
func (s *Scheduler) onLoop(fn func()) {
	if s.running {
		panic("sched: Run, Dump or Close called from inside the run")
	}
	s.running = true
	defer func() { s.running = false }()
	for rounds, finished := 0, false; !finished; rounds++ {
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() {
				s.cur = nil
				r := recover()
				if r != nil && rounds > 0 && s.failure != nil {
					panic(r) // the machinery itself is broken
				}
				if r != nil && r != (unwind{}) {
					s.fail(Panic, fmt.Sprint(r), string(debug.Stack()))
				}
			}()
			fn()
			finished = true
		}()
		<-done
		// After a failure the next round returns at once; after the Goexit of a task that was
		// being killed it goes on where the last one was.
	}
}

func (s *Scheduler) loop(until func() bool, deadline clock.Instant) Outcome {
	s.reap()
	for s.failure == nil {
		if until != nil && until() {
			return Met
		}
		if len(s.heap.slots) > 0 && s.heap.slots[0].at <= s.now {
			s.fire(s.heap.slots[0].e)
			continue
		}
		if s.now >= deadline {
			return Expired
		}
		if len(s.runnable) > 0 {
			s.step()
			continue
		}
		next := clock.Never
		if len(s.heap.slots) > 0 {
			next = s.heap.slots[0].at
		}
		if deadline < next || len(s.heap.slots) == 0 && deadline != clock.Never {
			s.advance(deadline)
			return Expired
		}
		if len(s.heap.slots) == 0 {
			if s.anyAlive() {
				s.deadlock()
				break
			}
			return Idle
		}
		s.advance(next)
	}
	return Failed
}

func (s *Scheduler) advance(to clock.Instant) {
	s.now = to
	s.log.SetNow(int64(to))
}

func (s *Scheduler) anyAlive() bool {
	for _, rt := range s.runtimes {
		if rt.first != nil {
			return true
		}
	}
	return false
}

// fire makes the event at the top of the heap happen.
func (s *Scheduler) fire(e *event) {
	s.heap.remove(e)
	if p := e.p; p != nil {
		if p.state == parked {
			s.ready(p, p.onTime)
		} else {
			s.enqueue(p)
		}
		return
	}
	cb, rt := e.cb, e.rt
	seq := s.heap.seq
	s.release(e)
	if rt != nil && rt.dead {
		return
	}
	s.sinceCall = 0
	s.log.Add(trace.Call, seq, 0, uint64(s.now))
	cb.Fire()
	s.reap()
}

// step runs one task until it waits, yields or ends.
func (s *Scheduler) step() {
	if s.countStep(); s.failure != nil {
		return
	}
	r := s.rng.Uint64()
	i := s.pick(r)
	p := s.runnable[i]
	last := len(s.runnable) - 1
	s.runnable[i], s.runnable[last] = s.runnable[last], nil
	s.runnable = s.runnable[:last]

	span := uint64(max(s.cfg.StepMaxNs-s.cfg.StepMinNs, 1))
	s.advance(s.now + clock.Instant(s.cfg.StepMinNs) + clock.Instant((r>>32)*span>>32))
	s.log.Add(trace.Pick, p.id, r, uint64(s.now))
	s.resume(p)
	if len(s.reaping) > 0 {
		s.reap()
	}
}

func (s *Scheduler) resume(p *proc) {
	if p.w == nil {
		p.w = s.worker(p)
	}
	w := p.w
	s.cur, p.state = p, running
	w.next()
	s.cur = nil
	if p.state == ended {
		w.p = nil
		s.idle = append(s.idle, w)
	}
}

func (s *Scheduler) countStep() {
	s.steps++
	s.sinceCall++
	s.sinceProgress++
	switch limit := s.cfg.LivelockSteps; {
	case limit <= 0:
	case s.sinceCall > limit:
		s.fail(Livelock, fmt.Sprintf("%d steps without a callback", s.sinceCall), "")
	case s.marked && s.sinceProgress > 4*limit:
		s.fail(Livelock, fmt.Sprintf("%d steps without progress", s.sinceProgress), "")
	}
}

// Close ends the world: every task is unwound, and no goroutine is left.
func (s *Scheduler) Close() {
	s.closing = true
	s.onLoop(func() {
		for _, rt := range s.runtimes {
			rt.dead = true
			s.unwindAll(rt)
		}
		for _, w := range s.idle {
			w.stop()
		}
		s.idle = nil
	})
}

// reap unwinds the tasks of incarnations that a task has killed.
func (s *Scheduler) reap() {
	for len(s.reaping) > 0 {
		rt := s.reaping[0]
		s.unwindAll(rt)
		s.reaping = s.reaping[1:]
	}
}

// unwindAll ends every task of a dead incarnation, in the order in which they started.
func (s *Scheduler) unwindAll(rt *Runtime) {
	kept := s.runnable[:0]
	for _, p := range s.runnable {
		if p.rt != rt {
			kept = append(kept, p)
		}
	}
	clear(s.runnable[len(kept):])
	s.runnable = kept
	for rt.first != nil {
		p := rt.first
		s.heap.remove(&p.ev)
		if p.w == nil {
			p.end()
			continue
		}
		s.resume(p)
	}
	rt.frozen = nil
}

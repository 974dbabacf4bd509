package sched

import (
	"fmt"
	"time"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/sim/trace"
)

// ClockParams is how a machine's clocks differ from the simulated time.
type ClockParams struct {
	SkewMs   int64 // of the wall clock
	DriftPPM int64 // of both clocks: how many microseconds they gain each second
}

// Runtime is one incarnation of a machine's process: a task.Runtime and a task.Policy.
type Runtime struct {
	s       *Scheduler
	id      uint64
	name    string
	machine string
	clock   ClockParams
	base    clock.Instant // added to the drifted simulated time to give Now
	dead    bool
	paused  bool
	frozen  []*proc // runnable when paused

	first, last *proc
}

// monotonicStart is what Now begins with at boot: an arbitrary number, as the contract says.
const monotonicStart = clock.Instant(time.Hour)

// NewRuntime boots an incarnation of the machine. Its name is the machine's with a counter.
func (s *Scheduler) NewRuntime(machine string, c ClockParams) *Runtime {
	s.boots[machine]++
	rt := &Runtime{
		s: s, id: uint64(len(s.runtimes) + 1), machine: machine, clock: c,
		name: fmt.Sprintf("%s#%d", machine, s.boots[machine]),
	}
	rt.base = monotonicStart - drifted(s.now, c.DriftPPM)
	s.runtimes = append(s.runtimes, rt)
	s.log.AddString(trace.Boot, rt.id, rt.name)
	return rt
}

// Name is the incarnation's name, such as "broker1#2".
func (rt *Runtime) Name() string { return rt.name }

// Machine is the machine's name.
func (rt *Runtime) Machine() string { return rt.machine }

// Scheduler is the world that rt is in.
func (rt *Runtime) Scheduler() *Scheduler { return rt.s }

// drifted is the simulated time as a clock that gains ppm sees it. It never decreases.
func drifted(now clock.Instant, ppm int64) clock.Instant {
	q, r := int64(now)/1e6, int64(now)%1e6
	return now + clock.Instant(q*ppm+r*ppm/1e6)
}

// Now is the incarnation's monotonic clock.
func (rt *Runtime) Now() clock.Instant { return rt.base + drifted(rt.s.now, rt.clock.DriftPPM) }

// UnixMilli is the machine's wall clock.
func (rt *Runtime) UnixMilli() int64 {
	return rt.s.cfg.EpochMs + rt.clock.SkewMs + int64(drifted(rt.s.now, rt.clock.DriftPPM))/1e6
}

// SimTime is the earliest simulated time at which Now is at least local.
func (rt *Runtime) SimTime(local clock.Instant) clock.Instant {
	left := int64(local.Sub(rt.Now()))
	switch {
	case left <= 0:
		return rt.s.now
	case left > 1<<60:
		return clock.Never
	case rt.clock.DriftPPM == 0:
		return rt.s.now + clock.Instant(left)
	}
	// An estimate that is not late, then a few nanoseconds up.
	per := 1_000_000 + rt.clock.DriftPPM
	at := rt.s.now + clock.Instant(left/per*1_000_000+left%per*1_000_000/per) - 2
	at = max(at, rt.s.now)
	for rt.base+drifted(at, rt.clock.DriftPPM) < local {
		at++
	}
	return at
}

// Jump moves the machine's wall clock.
func (rt *Runtime) Jump(ms int64) {
	rt.clock.SkewMs += ms
	rt.s.log.Add(trace.Jump, rt.id, uint64(ms), 0)
}

// Clock is what to give the next incarnation of the machine.
func (rt *Runtime) Clock() ClockParams { return rt.clock }

// Policy is the runtime itself.
func (rt *Runtime) Policy() task.Policy { return rt }

// Start implements task.Runtime.
func (rt *Runtime) Start(t *task.T, fn func(t *task.T)) {
	s := rt.s
	p := &proc{t: t, rt: rt, fn: fn}
	p.locks = p.lockBuf[:0]
	p.ev.pos, p.ev.p = -1, p
	t.Impl = p
	if rt.dead || s.muted() {
		p.state = ended
		return
	}
	s.nextProc++
	p.id = s.nextProc
	p.priority = int64(s.rng.Uint64() >> 2)
	p.prev = rt.last
	if rt.last == nil {
		rt.first = p
	} else {
		rt.last.next = p
	}
	rt.last = p
	s.log.AddString(trace.Start, p.id, t.Name())
	s.ready(p, task.Woken)
}

// Park implements task.Runtime.
func (rt *Runtime) Park(t *task.T, until clock.Instant) task.Reason {
	p, s := t.Impl.(*proc), rt.s
	if p.dead() {
		panic(unwind{})
	}
	if s.cur != p {
		s.failHere(Misuse, "parks %s, which is not itself", p.name())
	}
	if len(p.locks) > 0 {
		s.failHere(Locked, "parks while it holds %s", p.locks[0].Class())
	}
	at := rt.SimTime(until)
	switch {
	case p.token:
		p.token = false
		s.ready(p, task.Woken)
	case at <= s.now:
		s.ready(p, task.TimedOut)
	default:
		s.park(p, at)
	}
	p.yield()
	return p.reason
}

// park leaves p waiting until the simulated instant, or until a spurious wake before it.
func (s *Scheduler) park(p *proc, at clock.Instant) {
	p.state, p.onTime = parked, task.TimedOut
	if s.gaps.spurious > 0 {
		if s.gaps.spurious--; s.gaps.spurious == 0 {
			s.gaps.spurious = s.gap(s.cfg.SpuriousEvery)
			if early := s.now + 1 + clock.Instant(s.rng.Uint64()%2e6); early < at {
				at, p.onTime = early, task.Woken
			}
		}
	}
	if at != clock.Never {
		s.heap.push(at, &p.ev)
	}
}

// Wake implements task.Runtime.
func (rt *Runtime) Wake(t *task.T) {
	p := t.Impl.(*proc)
	if p.rt.dead || p.state == ended || rt.s.muted() {
		return
	}
	if p.state == parked {
		rt.s.ready(p, task.Woken)
		return
	}
	p.token = true
}

// Kill ends the incarnation at this instant, as kill -9 does. Called from one of its own
// tasks it does not return. What its tasks do while they are unwound has no effect.
func (rt *Runtime) Kill() {
	s := rt.s
	if rt.dead || s.closing {
		return
	}
	rt.dead = true
	s.log.AddString(trace.Kill, rt.id, rt.name)
	switch {
	case s.cur != nil:
		s.reaping = append(s.reaping, rt)
		if s.cur.rt == rt {
			panic(unwind{})
		}
	case s.running:
		s.reaping = append(s.reaping, rt)
		s.reap()
	default:
		s.onLoop(func() { s.unwindAll(rt) })
	}
}

// Dead reports whether the incarnation was killed.
func (rt *Runtime) Dead() bool { return rt.dead }

// Tasks is the number of its tasks that have not ended.
func (rt *Runtime) Tasks() int {
	n := 0
	for p := rt.first; p != nil; p = p.next {
		n++
	}
	return n
}

// Pause stops its tasks where they are, as SIGSTOP does. Time goes on.
func (rt *Runtime) Pause() {
	s := rt.s
	if rt.paused || rt.dead {
		return
	}
	rt.paused = true
	s.log.Add(trace.Pause, rt.id, 0, 0)
	kept := s.runnable[:0]
	for _, p := range s.runnable {
		if p.rt == rt {
			rt.frozen = append(rt.frozen, p)
		} else {
			kept = append(kept, p)
		}
	}
	clear(s.runnable[len(kept):])
	s.runnable = kept
}

// Resume lets its tasks go on.
func (rt *Runtime) Resume() {
	if !rt.paused {
		return
	}
	rt.paused = false
	rt.s.log.Add(trace.Resume, rt.id, 0, 0)
	rt.s.runnable = append(rt.s.runnable, rt.frozen...)
	rt.frozen = nil
}

// Delay makes t wait for the simulated duration, whoever wakes it, as a device does.
func (s *Scheduler) Delay(t *task.T, d time.Duration) {
	p := t.Impl.(*proc)
	for until := s.now.Add(d); s.now < until; {
		p.rt.Park(t, p.rt.base+drifted(until, p.rt.clock.DriftPPM))
	}
}

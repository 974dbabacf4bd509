package sched

import (
	"math/bits"

	"seedlog/sim/trace"
)

// pick chooses a runnable task by the low half of the draw r.
func (s *Scheduler) pick(r uint64) int {
	n := len(s.runnable)
	i := int((r & 0xffffffff) * uint64(n) >> 32)
	if n > 1 {
		switch s.cfg.Policy {
		case Priorities:
			if r>>58 != 0 {
				i = s.highest()
			}
		case Starve:
			if s.runnable[i].id == s.victim && r>>56 != 0 {
				i = (i + 1) % n
			}
		}
	}
	if s.gaps.change > 0 {
		if s.gaps.change--; s.gaps.change == 0 {
			s.changePoint(s.runnable[i], r)
		}
	}
	return i
}

func (s *Scheduler) highest() int {
	best := 0
	for i, p := range s.runnable {
		if q := s.runnable[best]; p.priority > q.priority || p.priority == q.priority && p.id < q.id {
			best = i
		}
	}
	return best
}

// changePoint demotes the task that runs now, or makes it the victim.
func (s *Scheduler) changePoint(p *proc, r uint64) {
	s.gaps.change = s.gap(s.cfg.ChangeEvery)
	switch s.cfg.Policy {
	case Priorities:
		s.lowest--
		p.priority = s.lowest
	case Starve:
		s.victim = p.id
	default:
		return
	}
	s.log.Add(trace.Policy, uint64(s.cfg.Policy), p.id, r)
}

// ready makes p runnable, or holds it back for a while.
func (s *Scheduler) ready(p *proc, why reason) {
	s.heap.remove(&p.ev)
	p.reason = why
	if s.gaps.hold > 0 {
		if s.gaps.hold--; s.gaps.hold == 0 {
			s.gaps.hold = s.gap(s.cfg.HoldEvery)
			s.hold(p)
			return
		}
	}
	s.enqueue(p)
}

// hold keeps p from running for a time of which four times as long is half as likely: five
// microseconds or more, and seconds once in some hundred times.
func (s *Scheduler) hold(p *proc) {
	r := s.rng.Uint64()
	scale := int64(5_000) << (2 * min(bits.TrailingZeros32(uint32(r)), 10))
	ns := min(scale+int64(r>>40)*(3*scale>>24), s.cfg.HoldMaxNs)
	p.state = held
	s.log.Add(trace.Hold, p.id, uint64(ns), 0)
	s.heap.push(s.now+instant(ns), &p.ev)
}

// enqueue makes p runnable, or keeps it for the day its incarnation is resumed.
func (s *Scheduler) enqueue(p *proc) {
	p.state = runnable
	if p.rt.paused {
		p.rt.frozen = append(p.rt.frozen, p)
		return
	}
	s.runnable = append(s.runnable, p)
}

// exploreNow reports whether the running task is to yield at this point.
func (s *Scheduler) exploreNow() bool {
	if s.gaps.yield == 0 || s.cur == nil || len(s.cur.locks) > 0 {
		return false
	}
	if s.gaps.yield--; s.gaps.yield > 0 {
		return false
	}
	s.gaps.yield = s.gap(s.cfg.YieldEvery)
	return true
}

package task

import "seedlog/clock"

// Event is a condition that becomes true once and stays true.
type Event struct {
	mu      Mutex
	set     bool
	waiters waiters
}

// Init sets an embedded Event up, not set. Nobody may be waiting for it.
func (e *Event) Init(rt Runtime, class string) {
	e.mu.Init(rt, class)
	e.set = false
}

// NewEvent returns an event that is not set.
func NewEvent(rt Runtime, class string) *Event {
	e := new(Event)
	e.Init(rt, class)
	return e
}

// Set makes the event true and wakes its waiters. Setting it twice is nothing.
func (e *Event) Set() {
	e.mu.Lock()
	e.set = true
	e.waiters.wakeAll()
	e.mu.Unlock()
}

// IsSet reports whether the event is true.
func (e *Event) IsSet() bool {
	e.mu.Lock()
	set := e.set
	e.mu.Unlock()
	return set
}

// Wait waits until the event is set (Woken), the deadline passes or the group stops.
func (e *Event) Wait(t *T, until clock.Instant) Reason {
	return await(t, &e.mu, &e.waiters, func() bool { return e.set }, until)
}

// Signal is a generation counter: Raise moves it on and wakes everybody who waits for a
// generation past the one they saw. It is the "something changed, look again" of a
// condition variable without its lost wake-ups.
type Signal struct {
	mu      Mutex
	gen     uint64
	waiters waiters
}

// Init sets an embedded Signal up.
func (s *Signal) Init(rt Runtime, class string) { s.mu.Init(rt, class) }

// NewSignal returns a signal of generation zero.
func NewSignal(rt Runtime, class string) *Signal {
	s := new(Signal)
	s.Init(rt, class)
	return s
}

// Generation is the current one; read it before you read what you wait for.
func (s *Signal) Generation() uint64 {
	s.mu.Lock()
	gen := s.gen
	s.mu.Unlock()
	return gen
}

// Raise moves the generation on.
func (s *Signal) Raise() {
	s.mu.Lock()
	s.gen++
	s.waiters.wakeAll()
	s.mu.Unlock()
}

// Wait waits until the generation is past seen (Woken), the deadline passes or the group
// stops.
func (s *Signal) Wait(t *T, seen uint64, until clock.Instant) Reason {
	return await(t, &s.mu, &s.waiters, func() bool { return s.gen > seen }, until)
}

package task

import "seedlog/clock"

// Event is a condition that becomes true once and stays true.
type Event struct {
	mu      Mutex
	set     bool
	waiters []*T
}

// Init sets an embedded Event up.
func (e *Event) Init(rt Runtime, class string) { e.mu.Init(rt, class) }

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
	wake := e.waiters
	e.waiters = nil
	e.mu.Unlock()
	for _, w := range wake {
		w.Wake()
	}
}

// IsSet reports whether the event is true.
func (e *Event) IsSet() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.set
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
	waiters []*T
}

// Init sets an embedded Signal up.
func (s *Signal) Init(rt Runtime, class string) { s.mu.Init(rt, class) }

// Generation is the current one; read it before you read what you wait for.
func (s *Signal) Generation() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gen
}

// Raise moves the generation on.
func (s *Signal) Raise() {
	s.mu.Lock()
	s.gen++
	wake := s.waiters
	s.waiters = nil
	s.mu.Unlock()
	for _, w := range wake {
		w.Wake()
	}
}

// Wait waits until the generation is past seen.
func (s *Signal) Wait(t *T, seen uint64, until clock.Instant) Reason {
	return await(t, &s.mu, &s.waiters, func() bool { return s.gen > seen }, until)
}

// await is the one waiting loop: done is evaluated under mu, and whoever makes it true
// takes and wakes the waiters under mu.
func await(t *T, mu *Mutex, waiters *[]*T, done func() bool, until clock.Instant) Reason {
	for {
		mu.Lock()
		if done() {
			mu.Unlock()
			return Woken
		}
		*waiters = append(*waiters, t)
		mu.Unlock()
		r := t.Park(until)
		mu.Lock()
		remove(waiters, t)
		ok := done()
		mu.Unlock()
		if ok {
			return Woken
		}
		if r != Woken {
			return r
		}
	}
}

func remove(list *[]*T, t *T) {
	for i, o := range *list {
		if o == t {
			*list = append((*list)[:i], (*list)[i+1:]...)
			return
		}
	}
}

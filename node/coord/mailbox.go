package coord

import (
	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/node/group"
)

// op is a request of a handler on its way.
type op struct {
	t     *task.T
	build func(group.Ticket) group.Command
	// Under the shard's mu:
	state opState
	msg   any
	code  int16
}

type opState uint8

const (
	opQueued   opState = iota
	opHandling         // the task reads its request
	opParked           // its request is not needed any more
	opDone
)

// do hands an operation over and waits until it is done. Stopping ends the wait as soon as
// the shard does not read the request any more.
func (s *shard) do(t *task.T, build func(group.Ticket) group.Command) (any, int16) {
	o := &op{t: t, build: build}
	s.mu.Lock()
	if code := s.refusal(); code != 0 {
		s.mu.Unlock()
		return nil, code
	}
	s.mailbox = append(s.mailbox, o)
	runner := s.task
	s.mu.Unlock()
	wake(runner)
	for {
		s.mu.Lock()
		state, msg, code := o.state, o.msg, o.code
		if state != opDone && t.Stopping() && state != opHandling {
			s.forget(o)
			s.mu.Unlock()
			return nil, CodeNotCoordinator
		}
		s.mu.Unlock()
		if state == opDone {
			return msg, code
		}
		if t.Stopping() {
			t.ParkHard()
		} else {
			t.Park(clock.Never)
		}
	}
}

// refusal is the code for a request that comes now.
func (s *shard) refusal() int16 {
	switch {
	case s.stopped || s.phase == phaseEnded:
		return CodeNotCoordinator
	case s.phase == phaseLoading:
		return CodeLoadInProgress
	}
	return 0
}

// forget takes an operation out of the mailbox; one that is parked is left to be answered
// into the void.
func (s *shard) forget(o *op) {
	for i, q := range s.mailbox {
		if q == o {
			s.mailbox = append(s.mailbox[:i], s.mailbox[i+1:]...)
			break
		}
	}
	o.state = opDone
}

// tell hands a command over that has no reply.
func (s *shard) tell(c group.Command) {
	s.mu.Lock()
	s.told = append(s.told, c)
	runner := s.task
	s.mu.Unlock()
	wake(runner)
}

// stop ends the shard soon.
func (s *shard) stop() {
	s.mu.Lock()
	s.stopped = true
	runner := s.task
	s.mu.Unlock()
	wake(runner)
}

func (s *shard) serving() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.phase == phaseServing && !s.stopped
}

func wake(t *task.T) {
	if t != nil {
		t.Wake()
	}
}

// take returns what was told, or else the next request: what was told comes first, and if the
// log is lost over it, the requests are still in the mailbox to be answered.
func (s *shard) take() (told []group.Command, o *op) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if told, s.told = s.told, nil; told != nil {
		return told, nil
	}
	if len(s.mailbox) > 0 {
		o = s.mailbox[0]
		s.mailbox[0] = nil
		s.mailbox = s.mailbox[1:]
		o.state = opHandling
		s.inflight++
	}
	if len(s.mailbox) == 0 {
		s.mailbox = nil
	}
	return told, o
}

// answer completes an operation; nobody may wait for it any more.
func (s *shard) answer(o *op, msg any, code int16) {
	s.mu.Lock()
	waits := o.state != opDone
	o.state, o.msg, o.code = opDone, msg, code
	s.inflight--
	s.mu.Unlock()
	if waits {
		o.t.Wake()
	}
}

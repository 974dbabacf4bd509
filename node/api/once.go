package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/node/conn"
	"seedlog/node/control"
)

// once has what brokers pass on to the controller done once, however often they send it and
// whenever that arrives: control.Ledger knows the attempts by the numbers in their client ids.
type once struct {
	mu     task.Mutex // guards what follows
	ledger control.Ledger[*outcome]
}

// outcome is what became of a request.
type outcome struct {
	key, version int16
	done         task.Event
	body         []byte // set before done; nil if it is too large to keep
}

// outcomeBytesMax is the largest answer that is kept for repetitions, for as long as its line
// says nothing else.
const outcomeBytesMax = 16 << 10

// attempt is what a request of a broker's router is numbered with. On brokers' listeners, and
// for anybody else's requests, there is none.
func (s *Service) attempt(r *conn.Request) (control.Attempt, bool) {
	if s.role != Controller || r.ClientID == nil {
		return control.Attempt{}, false
	}
	return control.ParseAttempt(*r.ClientID)
}

// handleOnce has a request handled if it is the first attempt, and answers what became of the
// first if it is another. Between the look in the ledger and the handler's first step nothing
// waits: what is not run now never will be.
func (s *Service) handleOnce(t *task.T, e *entry, r *conn.Request, req kmsg.Request, reply *conn.Reply, a control.Attempt) {
	o := &outcome{key: r.Key, version: r.Version}
	o.done.Init(t.Runtime(), "api.outcome")
	s.once.mu.Lock()
	first, standing := s.once.ledger.Enter(a, o)
	s.once.mu.Unlock()
	switch standing {
	case control.First:
		defer o.done.Set()
		resp := e.handle(s, t, r, req)
		resp.SetVersion(r.Version)
		body := resp.AppendTo(reply.Buffer())
		if len(body) <= outcomeBytesMax {
			o.body = append([]byte{}, body...)
		}
		reply.SendBody(body)
	case control.Repeated:
		s.repeat(t, r, reply, first)
	case control.Overtaken:
		reply.Close("a later request of the same line came first")
	}
}

// repeat answers with the outcome of an earlier attempt.
func (s *Service) repeat(t *task.T, r *conn.Request, reply *conn.Reply, first *outcome) {
	switch {
	case first.key != r.Key || first.version != r.Version:
		reply.Close("another request has this number")
	case first.done.Wait(t, clock.Never) != task.Woken:
		reply.Close("the controller stops")
	case first.body == nil:
		reply.Close("the answer was too large to keep")
	default:
		reply.SendBody(append(reply.Buffer(), first.body...))
	}
}

// inTerm is a Proposer that can be held to one term: the *control.Host of a controller.
type inTerm interface {
	ProposeIn(t *task.T, epoch int32, req kmsg.Request, until clock.Instant) (resp kmsg.Response, offset int64, err error)
}

// ask has the controller decide; what was meant for the controller of an epoch, in that epoch
// only.
func (s *Service) ask(t *task.T, r *conn.Request, req kmsg.Request, until clock.Instant) (kmsg.Response, int64, error) {
	if a, ok := s.attempt(r); ok {
		if host, ok := s.Control.(inTerm); ok {
			return host.ProposeIn(t, a.Epoch, req, until)
		}
	}
	return s.Control.Propose(t, req, until)
}

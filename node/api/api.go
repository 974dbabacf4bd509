// Package api answers the requests of clients: one file per API key, whose header lists
// the versions and what each added.
//
// It owns the table of what is served ([table]), the decoding of requests within a memory
// budget, and the translation between Kafka's wire and the parts of the node that decide:
// partitions (node/replica), metadata (node/control) and groups (node/coord). It keeps no
// state of its own but fetch sessions, and what became of the requests that brokers pass on.
//
// A request takes this way:
//
//	node/conn --> Serve --> table[key] --> raw(...)                       Produce, Fetch
//	                                  \--> decode --> handle(...) --> encode   all others
//
// A handler runs in the connection's task and may wait: no other request of that
// connection is served meanwhile (Produce is the exception, and replies from elsewhere).
// What it returns leaves as the reply. A body that does not decode closes the connection
// with an event, as Kafka does.
package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
	"seedlog/node/event"
)

// Service implements conn.Service for the listeners of one role.
type Service struct {
	Deps
	role    Role
	entries []*entry // by key; nil where nothing is served
	budget  budget

	sessions    sessionCache
	once        once
	producerIDs producerIDs
	produces    free[produceOp]
	fetches     free[fetchOp]
	codecs      codecs
}

// New returns the service of the listeners of one role, which is one of the constants.
func New(d Deps, role Role) *Service {
	s := &Service{Deps: d, role: role}
	s.budget.init(d.RT, d.DecodeBytesMax)
	s.sessions.init(d.RT, d.Rand, d.Config().FetchSessionSlots)
	s.once.mu.Init(d.RT, "api.once")
	s.producerIDs.init(d.RT)
	s.produces.init(d.RT, "api.produces")
	s.fetches.init(d.RT, "api.fetches")
	s.codecs.init(d.RT)
	for _, e := range table() {
		if e.at&role == 0 {
			continue
		}
		for int(e.key) >= len(s.entries) {
			s.entries = append(s.entries, nil)
		}
		s.entries[e.key] = &e
	}
	return s
}

func (s *Service) entry(key int16) *entry {
	if key < 0 || int(key) >= len(s.entries) {
		return nil
	}
	return s.entries[key]
}

// Supports tells whether the version of the key is served, and whether its header is
// flexible.
func (s *Service) Supports(key, version int16) (ok, flexible bool) {
	e := s.entry(key)
	if e == nil {
		return false, false
	}
	return version >= e.min && version <= e.max, version >= e.flexible
}

// MaxFrame is the largest frame that is read for the key, in bytes.
func (s *Service) MaxFrame(key, version int16) int32 {
	e := s.entry(key)
	if e == nil {
		return smallFrame
	}
	return min(e.maxFrame, s.Config().SocketRequestMaxBytes)
}

// Serve answers one request.
func (s *Service) Serve(t *task.T, r *conn.Request, reply *conn.Reply) {
	e := s.entry(r.Key)
	if e == nil || r.Version < e.min || r.Version > e.max {
		s.refuse(reply)
		return
	}
	if e.raw != nil {
		e.raw(s, t, r, reply)
		return
	}
	req, held, err := s.decode(t, e, r)
	if err != nil {
		s.malformed(r, reply, err)
		return
	}
	if a, ok := s.attempt(r); ok {
		s.handleOnce(t, e, r, req, reply, a)
	} else if resp := e.handle(s, t, r, req); resp == nil {
		reply.None()
	} else {
		resp.SetVersion(r.Version)
		reply.SendBody(resp.AppendTo(reply.Buffer()))
	}
	s.budget.release(held)
}

// malformed ends a connection whose request does not decode.
func (s *Service) malformed(r *conn.Request, reply *conn.Reply, err error) {
	s.Events.Emit(event.RequestMalformed{Key: r.Key, Version: r.Version, Bytes: len(r.Body), Err: err})
	reply.Close(err.Error())
}

// handler answers a decoded request; a nil response sends nothing.
type handler func(s *Service, t *task.T, r *conn.Request, req kmsg.Request) kmsg.Response

// on adapts a handler of one request type to the table.
func on[R kmsg.Request](fn func(s *Service, t *task.T, r *conn.Request, req R) kmsg.Response) handler {
	return func(s *Service, t *task.T, r *conn.Request, req kmsg.Request) kmsg.Response {
		return fn(s, t, r, req.(R))
	}
}

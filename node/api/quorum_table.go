package api

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/node/conn"
	"seedlog/node/control"
)

// quorumEntries lists the keys of the metadata quorum. Their handlers stand in the files of
// their keys; what they decide is decided in node/quorum.
func quorumEntries() []entry {
	return []entry{
		{key: 52, at: Controller, min: 0, max: 2, maxFrame: smallFrame, handle: on((*Service).vote)},
		{key: 53, at: Controller, min: 0, max: 1, maxFrame: smallFrame, handle: on((*Service).beginQuorumEpoch)},
		{key: 54, at: Controller, min: 0, max: 1, maxFrame: smallFrame, handle: on((*Service).endQuorumEpoch)},
		{key: 55, at: both, min: 0, max: 2, maxFrame: smallFrame, handle: on((*Service).describeQuorum)},
		{key: 59, at: Controller, min: 0, max: 1, maxFrame: smallFrame, handle: on((*Service).fetchSnapshot)},
		{key: 80, at: both, min: 0, max: 1, maxFrame: smallFrame, handle: on((*Service).addRaftVoter)},
		{key: 81, at: both, min: 0, max: 0, maxFrame: smallFrame, handle: on((*Service).removeRaftVoter)},
		{key: 82, at: Controller, min: 0, max: 0, maxFrame: smallFrame, handle: on((*Service).updateRaftVoter)},
	}
}

// forwarder sends requests to whoever leads the quorum: *control.Router.
type forwarder interface {
	Forward(t *task.T, req kmsg.Request, until clock.Instant, local func() (kmsg.Response, error)) (kmsg.Response, error)
}

// byLeader has the quorum's leader answer a request. On a controller's listener that is this
// node, or nobody; on a broker's the request goes to where the leader is. refuse is the answer
// if it could not be reached.
func (s *Service) byLeader(t *task.T, r *conn.Request, req kmsg.Request, timeoutMs int64, local func() (resp kmsg.Response, leads bool), refuse func(code int16) kmsg.Response) kmsg.Response {
	f, ok := s.Control.(forwarder)
	if !ok || s.role != Broker {
		if a, numbered := s.attempt(r); numbered {
			if _, epoch := s.Quorum.Leader(); epoch != a.Epoch {
				return refuse(kerr.NotController.Code)
			}
		}
		resp, _ := local()
		return resp
	}
	resp, err := f.Forward(t, req, t.Now().Add(millis(timeoutMs)), func() (kmsg.Response, error) {
		resp, leads := local()
		if !leads {
			return nil, control.ErrNotController
		}
		return resp, nil
	})
	if err != nil {
		return refuse(errorCode(err))
	}
	return resp
}

// fetchByRole answers a Fetch: on a broker's listener of partitions, on a controller's of the
// metadata log.
func (s *Service) fetchByRole(t *task.T, r *conn.Request, reply *conn.Reply) {
	if s.role == Broker {
		s.fetchRequest(t, r, reply)
		return
	}
	s.fetchMetadata(t, r, reply)
}

// fetchMetadata answers a Fetch of the metadata log; while it waits for news it holds neither
// the frame nor what was reserved to decode it.
func (s *Service) fetchMetadata(t *task.T, r *conn.Request, reply *conn.Reply) {
	req, held, err := s.decode(t, s.entry(r.Key), r)
	if err != nil {
		s.malformed(r, reply, err)
		return
	}
	fetch := req.(*kmsg.FetchRequest)
	s.budget.release(held)
	listener := r.Conn.Listener()
	reply.ReleaseBody()
	resp := s.Quorum.Fetch(t, fetch, listener)
	resp.SetVersion(fetch.Version)
	reply.SendBody(resp.AppendTo(reply.Buffer()))
}

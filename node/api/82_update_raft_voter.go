package api

// UpdateRaftVoter: a voter tells the leader where it listens and what it supports (KIP-853).
//
//	0  flexible

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
)

func (s *Service) updateRaftVoter(t *task.T, r *conn.Request, req *kmsg.UpdateRaftVoterRequest) kmsg.Response {
	return s.Quorum.UpdateVoter(t, req, r.Conn.Listener())
}

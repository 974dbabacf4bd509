package api

// RemoveRaftVoter: a voter of the metadata quorum becomes an observer (KIP-853).
//
//	0  flexible

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
)

func (s *Service) removeRaftVoter(t *task.T, r *conn.Request, req *kmsg.RemoveRaftVoterRequest) kmsg.Response {
	return s.byLeader(t, r, req, decideMaxMs, func() (kmsg.Response, bool) {
		resp := s.Quorum.RemoveVoter(t, req)
		return resp, resp.ErrorCode != kerr.NotLeaderForPartition.Code
	}, func(code int16) kmsg.Response {
		resp := kmsg.NewPtrRemoveRaftVoterResponse()
		resp.ErrorCode = code
		return resp
	})
}

package api

// AddRaftVoter: an observer of the metadata quorum becomes a voter (KIP-853).
//
//	0  flexible     1  the answer need not wait for the commit

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
)

func (s *Service) addRaftVoter(t *task.T, r *conn.Request, req *kmsg.AddRaftVoterRequest) kmsg.Response {
	timeoutMs := int64(req.TimeoutMillis)
	if timeoutMs <= 0 {
		timeoutMs = decideMaxMs
	}
	return s.byLeader(t, r, req, timeoutMs, func() (kmsg.Response, bool) {
		resp := s.Quorum.AddVoter(t, req)
		return resp, resp.ErrorCode != kerr.NotLeaderForPartition.Code
	}, func(code int16) kmsg.Response {
		resp := kmsg.NewPtrAddRaftVoterResponse()
		resp.ErrorCode = code
		return resp
	})
}

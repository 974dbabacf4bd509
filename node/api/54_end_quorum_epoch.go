package api

// EndQuorumEpoch: the leader of the metadata quorum resigns.
//
//	0  preferred successors     1  flexible; preferred candidates, endpoints (KIP-853)

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
)

func (s *Service) endQuorumEpoch(t *task.T, r *conn.Request, req *kmsg.EndQuorumEpochRequest) kmsg.Response {
	return s.Quorum.EndQuorumEpoch(t, req, r.Conn.Listener())
}

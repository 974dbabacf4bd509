package api

// BeginQuorumEpoch: the new leader of the metadata quorum says so.
//
//	0  leader and epoch     1  flexible; which voter it is for, directories, endpoints (KIP-853)

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
)

func (s *Service) beginQuorumEpoch(t *task.T, r *conn.Request, req *kmsg.BeginQuorumEpochRequest) kmsg.Response {
	return s.Quorum.BeginQuorumEpoch(t, req, r.Conn.Listener())
}

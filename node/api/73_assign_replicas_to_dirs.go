package api

// AssignReplicasToDirs: a broker says in which of its directories replicas are (KIP-858).
// Only on the controller's listener.
//
//	0  flexible

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
)

func (s *Service) assignReplicasToDirs(t *task.T, r *conn.Request, req *kmsg.AssignReplicasToDirsRequest) kmsg.Response {
	return s.decide(t, r, req, func(code int16) kmsg.Response {
		out := kmsg.NewPtrAssignReplicasToDirsResponse()
		out.ErrorCode = code
		return out
	})
}

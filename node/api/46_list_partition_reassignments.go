package api

// ListPartitionReassignments: what is being moved (KIP-455). The controller answers it, so
// that who just began a reassignment finds it.
//
//	0  flexible

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
)

func (s *Service) listReassignments(t *task.T, r *conn.Request, req *kmsg.ListPartitionReassignmentsRequest) kmsg.Response {
	resp, err := s.propose(t, r, req, req.TimeoutMillis)
	if err == nil {
		return resp
	}
	out := kmsg.NewPtrListPartitionReassignmentsResponse()
	out.ErrorCode, out.ErrorMessage = errorCode(err), ptr(err.Error())
	return out
}

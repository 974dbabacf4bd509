package api

// AllocateProducerIds: a block of producer ids for a broker. Only on the controller's
// listener.
//
//	0  flexible

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
)

func (s *Service) allocateProducerIDs(t *task.T, r *conn.Request, req *kmsg.AllocateProducerIDsRequest) kmsg.Response {
	return s.decide(t, r, req, func(code int16) kmsg.Response {
		out := kmsg.NewPtrAllocateProducerIDsResponse()
		out.ErrorCode = code
		return out
	})
}

package api

// AlterPartition: a partition's leader proposes its ISR, or says that it recovered. Only on
// the controller's listener.
//
//	2  topics by id (KIP-841); flexible     3  the epochs of the ISR's brokers (KIP-903)

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
)

func (s *Service) alterPartition(t *task.T, r *conn.Request, req *kmsg.AlterPartitionRequest) kmsg.Response {
	return s.decide(t, r, req, func(code int16) kmsg.Response {
		out := kmsg.NewPtrAlterPartitionResponse()
		out.ErrorCode = code
		return out
	})
}

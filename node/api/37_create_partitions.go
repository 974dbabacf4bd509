package api

// CreatePartitions: makes a topic wider.
//
//	0-1  the same     2  flexible     3  THROTTLING_QUOTA_EXCEEDED

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
)

func (s *Service) createPartitions(t *task.T, r *conn.Request, req *kmsg.CreatePartitionsRequest) kmsg.Response {
	resp, err := s.propose(t, r, req, req.TimeoutMillis)
	if err == nil {
		return resp
	}
	out := kmsg.NewPtrCreatePartitionsResponse()
	for _, topic := range req.Topics {
		failed := kmsg.NewCreatePartitionsResponseTopic()
		failed.Topic, failed.ErrorCode, failed.ErrorMessage = topic.Topic, errorCode(err), ptr(err.Error())
		out.Topics = append(out.Topics, failed)
	}
	return out
}

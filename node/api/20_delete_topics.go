package api

// DeleteTopics.
//
//	1  throttle time     4  flexible     5  error messages     6  topics by id

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
)

func (s *Service) deleteTopics(t *task.T, r *conn.Request, req *kmsg.DeleteTopicsRequest) kmsg.Response {
	if !s.Config().DeleteTopics {
		code := kerr.TopicDeletionDisabled.Code
		if r.Version < 3 {
			code = kerr.InvalidRequest.Code
		}
		return refuseDeletes(req, code, "Topic deletion is disabled.")
	}
	resp, err := s.propose(t, r, req, req.TimeoutMillis)
	if err != nil {
		return refuseDeletes(req, errorCode(err), err.Error())
	}
	return resp
}

func refuseDeletes(req *kmsg.DeleteTopicsRequest, code int16, message string) kmsg.Response {
	out := kmsg.NewPtrDeleteTopicsResponse()
	add := func(name *string, id [16]byte) {
		topic := kmsg.NewDeleteTopicsResponseTopic()
		topic.Topic, topic.TopicID, topic.ErrorCode, topic.ErrorMessage = name, id, code, ptr(message)
		out.Topics = append(out.Topics, topic)
	}
	for _, name := range req.TopicNames {
		add(ptr(name), [16]byte{})
	}
	for _, topic := range req.Topics {
		add(topic.Topic, topic.TopicID)
	}
	return out
}

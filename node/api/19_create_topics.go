package api

// CreateTopics.
//
//	2  throttle time (1 added messages and validate_only)     4  -1 takes the defaults
//	5  flexible; what was created comes back                  7  topic ids

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/config"
	"seedlog/node/conn"
)

func (s *Service) createTopics(t *task.T, r *conn.Request, req *kmsg.CreateTopicsRequest) kmsg.Response {
	resp, err := s.propose(t, r, req, req.TimeoutMillis)
	if err == nil {
		return resp
	}
	out := kmsg.NewPtrCreateTopicsResponse()
	for _, topic := range req.Topics {
		failed := kmsg.NewCreateTopicsResponseTopic()
		failed.Topic, failed.ErrorCode, failed.ErrorMessage = topic.Topic, errorCode(err), ptr(err.Error())
		failed.NumPartitions, failed.ReplicationFactor = -1, -1
		out.Topics = append(out.Topics, failed)
	}
	return out
}

// offsetsTopicConfig is what __consumer_offsets is created with.
func offsetsTopicConfig(cfg *config.Config) []kmsg.CreateTopicsRequestTopicConfig {
	entry := func(name, value string) kmsg.CreateTopicsRequestTopicConfig {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = name, ptr(value)
		return c
	}
	return []kmsg.CreateTopicsRequestTopicConfig{
		entry("cleanup.policy", "compact"),
		entry("compression.type", "producer"),
		entry("segment.bytes", decimal(int64(cfg.OffsetsTopicSegmentBytes))),
	}
}

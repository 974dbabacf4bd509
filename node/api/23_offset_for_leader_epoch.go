package api

// OffsetForLeaderEpoch: where the leader's log ends for an epoch, so that a consumer, or a
// follower, sees whether its own log parts from it.
//
//	2  current leader epoch (0-1 are gone)     3  replica id     4  flexible

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
	"seedlog/node/meta"
)

func (s *Service) offsetForLeaderEpoch(t *task.T, r *conn.Request, req *kmsg.OffsetForLeaderEpochRequest) kmsg.Response {
	image := s.Image()
	resp := kmsg.NewPtrOffsetForLeaderEpochResponse()
	for _, topic := range req.Topics {
		out := kmsg.NewOffsetForLeaderEpochResponseTopic()
		out.Topic = topic.Topic
		for i := range topic.Partitions {
			out.Partitions = append(out.Partitions, s.epochEnd(image, topic.Topic, &topic.Partitions[i]))
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

func (s *Service) epochEnd(image *meta.Image, topic string, p *kmsg.OffsetForLeaderEpochRequestTopicPartition) kmsg.OffsetForLeaderEpochResponseTopicPartition {
	out := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
	out.Partition, out.LeaderEpoch, out.EndOffset = p.Partition, -1, -1
	part, code := s.byName(image, topic, p.Partition)
	if code != 0 {
		out.ErrorCode = code
		return out
	}
	if _, err := part.LeaderEpoch(p.CurrentLeaderEpoch); err != nil {
		out.ErrorCode = errorCode(err)
		return out
	}
	out.LeaderEpoch, out.EndOffset = part.Log().EndOffsetForEpoch(p.LeaderEpoch)
	return out
}

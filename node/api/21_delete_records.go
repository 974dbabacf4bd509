package api

// DeleteRecords: moves a partition's start; -1 moves it to the high watermark.
//
//	0-1  the same     2  flexible

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
	"seedlog/node/meta"
)

func (s *Service) deleteRecords(t *task.T, r *conn.Request, req *kmsg.DeleteRecordsRequest) kmsg.Response {
	image := s.Image()
	resp := kmsg.NewPtrDeleteRecordsResponse()
	for _, topic := range req.Topics {
		out := kmsg.NewDeleteRecordsResponseTopic()
		out.Topic = topic.Topic
		for _, p := range topic.Partitions {
			answer := kmsg.NewDeleteRecordsResponseTopicPartition()
			answer.Partition = p.Partition
			answer.LowWatermark, answer.ErrorCode = s.deleteBefore(t, image, topic.Topic, p.Partition, p.Offset)
			out.Partitions = append(out.Partitions, answer)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

// deleteBefore returns the low watermark, which for one replica is the log's start.
func (s *Service) deleteBefore(t *task.T, image *meta.Image, topic string, index int32, offset int64) (int64, int16) {
	if isInternal(topic) {
		return -1, kerr.InvalidTopicException.Code
	}
	part, code := s.byName(image, topic, index)
	if code != 0 {
		return -1, code
	}
	if _, err := part.LeaderEpoch(-1); err != nil {
		return -1, errorCode(err)
	}
	if !part.Settings().CleanupDelete {
		return -1, kerr.PolicyViolation.Code
	}
	low, err := part.Log().DeleteRecords(t, offset)
	if err != nil {
		return -1, errorCode(err)
	}
	return low, 0
}

package api

// ElectLeaders: the preferred leaders, or any where there is none.
//
//	0  preferred leaders     1  unclean elections (KIP-460), top-level error     2  flexible

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
)

func (s *Service) electLeaders(t *task.T, r *conn.Request, req *kmsg.ElectLeadersRequest) kmsg.Response {
	resp, err := s.propose(t, r, req, req.TimeoutMillis)
	if err == nil {
		return resp
	}
	out := kmsg.NewPtrElectLeadersResponse()
	out.ErrorCode = errorCode(err)
	for _, topic := range req.Topics {
		failed := kmsg.NewElectLeadersResponseTopic()
		failed.Topic = topic.Topic
		for _, id := range topic.Partitions {
			p := kmsg.NewElectLeadersResponseTopicPartition()
			p.Partition, p.ErrorCode = id, out.ErrorCode
			failed.Partitions = append(failed.Partitions, p)
		}
		out.Topics = append(out.Topics, failed)
	}
	return out
}

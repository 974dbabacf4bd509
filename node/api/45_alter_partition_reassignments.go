package api

// AlterPartitionReassignments: moves partitions to other brokers, or stops that (KIP-455).
//
//	0  flexible     1  whether a replication factor may change (KIP-860)

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
)

func (s *Service) alterReassignments(t *task.T, r *conn.Request, req *kmsg.AlterPartitionAssignmentsRequest) kmsg.Response {
	resp, err := s.propose(t, r, req, req.TimeoutMillis)
	if err == nil {
		return resp
	}
	out := kmsg.NewPtrAlterPartitionAssignmentsResponse()
	out.ErrorCode, out.ErrorMessage = errorCode(err), ptr(err.Error())
	out.AllowReplicationFactorChange = req.AllowReplicationFactorChange
	for _, topic := range req.Topics {
		failed := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		failed.Topic = topic.Topic
		for _, wanted := range topic.Partitions {
			p := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			p.Partition, p.ErrorCode = wanted.Partition, out.ErrorCode
			failed.Partitions = append(failed.Partitions, p)
		}
		out.Topics = append(out.Topics, failed)
	}
	return out
}

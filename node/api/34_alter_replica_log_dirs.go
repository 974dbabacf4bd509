package api

// AlterReplicaLogDirs: this broker's replicas are moved to others of its log directories
// (KIP-113). Only the move is begun here; DescribeLogDirs shows how far it is.
//
//	1  as 0, which is gone     2  flexible

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
	"seedlog/node/replica"
	"seedlog/storage"
)

func (s *Service) alterReplicaLogDirs(t *task.T, r *conn.Request, req *kmsg.AlterReplicaLogDirsRequest) kmsg.Response {
	resp := kmsg.NewPtrAlterReplicaLogDirsResponse()
	// As in Kafka a partition is moved once, to the directory that names it last.
	last := map[namedLog]int{}
	for i, d := range req.Dirs {
		for _, topic := range d.Topics {
			for _, index := range topic.Partitions {
				last[namedLog{topic.Topic, index}] = i
			}
		}
	}
	at := map[string]int{}
	for i, d := range req.Dirs {
		for _, topic := range d.Topics {
			for _, index := range topic.Partitions {
				x := namedLog{topic.Topic, index}
				if in, left := last[x]; !left || in != i {
					continue
				}
				delete(last, x)
				if _, known := at[topic.Topic]; !known {
					at[topic.Topic] = len(resp.Topics)
					out := kmsg.NewAlterReplicaLogDirsResponseTopic()
					out.Topic = topic.Topic
					resp.Topics = append(resp.Topics, out)
				}
				p := kmsg.NewAlterReplicaLogDirsResponseTopicPartition()
				p.Partition, p.ErrorCode = index, moveCode(s.Replicas.MoveTo(t, topic.Topic, index, d.Dir))
				out := &resp.Topics[at[topic.Topic]]
				out.Partitions = append(out.Partitions, p)
			}
		}
	}
	return resp
}

// moveCode is the code for a move that could not begin.
func moveCode(err error) int16 {
	switch {
	case errors.Is(err, replica.ErrUnknownDir):
		return kerr.LogDirNotFound.Code
	case errors.Is(err, replica.ErrNameTooLong):
		return kerr.InvalidTopicException.Code
	case errors.Is(err, replica.ErrNoReplica), errors.Is(err, storage.ErrClosed):
		return kerr.ReplicaNotAvailable.Code
	}
	return errorCode(err)
}

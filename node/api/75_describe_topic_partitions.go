package api

// DescribeTopicPartitions: topics page by page, with the eligible leader replicas (KIP-966).
//
//	0  flexible
//
// A page ends after response_partition_limit partitions, or max.request.partition.size.limit
// if that is less; the cursor names what the next page begins with.

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
	"seedlog/node/controller"
	"seedlog/node/meta"
)

func (s *Service) describeTopicPartitions(t *task.T, r *conn.Request, req *kmsg.DescribeTopicPartitionsRequest) kmsg.Response {
	image := s.Image()
	resp := kmsg.NewPtrDescribeTopicPartitionsResponse()
	names, all := pageTopics(image, req)
	left := int(s.Config().DescribePartitionsLimit)
	if req.ResponsePartitionLimit > 0 {
		left = min(left, int(req.ResponsePartitionLimit))
	}
	for _, name := range names {
		topic := image.Topic(name)
		if left == 0 && (topic != nil || !all) {
			resp.NextCursor = cursorAt(name, 0)
			break
		}
		if topic == nil {
			if !all {
				resp.Topics = append(resp.Topics, missingTopic(name))
			}
			continue
		}
		first := 0
		if req.Cursor != nil && req.Cursor.Topic == name {
			first = min(max(int(req.Cursor.Partition), 0), len(topic.Partitions))
		}
		end := min(len(topic.Partitions), first+left)
		resp.Topics = append(resp.Topics, pageOf(image, topic, first, end, r.Conn.Listener()))
		left -= end - first
		if end < len(topic.Partitions) {
			resp.NextCursor = cursorAt(name, int32(end))
			break
		}
	}
	return resp
}

// pageTopics lists the topics to describe, sorted, from the cursor on. An empty request is
// for all.
func pageTopics(image *meta.Image, req *kmsg.DescribeTopicPartitionsRequest) (names []string, all bool) {
	if len(req.Topics) == 0 {
		all = true
		for topic := range image.Topics() {
			names = append(names, topic.Name)
		}
	} else {
		for _, topic := range req.Topics {
			names = append(names, topic.Topic)
		}
		slices.Sort(names)
		names = slices.Compact(names)
	}
	if req.Cursor != nil {
		i, _ := slices.BinarySearch(names, req.Cursor.Topic)
		names = names[i:]
	}
	return names, all
}

func cursorAt(topic string, partition int32) *kmsg.DescribeTopicPartitionsResponseNextCursor {
	c := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	c.Topic, c.Partition = topic, partition
	return &c
}

func missingTopic(name string) kmsg.DescribeTopicPartitionsResponseTopic {
	out := kmsg.NewDescribeTopicPartitionsResponseTopic()
	out.Topic, out.IsInternal = ptr(name), isInternal(name)
	out.AuthorizedOperations = operationsOmitted
	out.ErrorCode = kerr.UnknownTopicOrPartition.Code
	if controller.CheckTopicName(name) != "" {
		out.ErrorCode = kerr.InvalidTopicException.Code
	}
	return out
}

func pageOf(image *meta.Image, topic *meta.Topic, first, end int, listener string) kmsg.DescribeTopicPartitionsResponseTopic {
	out := kmsg.NewDescribeTopicPartitionsResponseTopic()
	out.Topic, out.TopicID, out.IsInternal = ptr(topic.Name), topic.ID, isInternal(topic.Name)
	out.AuthorizedOperations = allTopicOperations
	for i := first; i < end; i++ {
		p := topic.Partitions[i]
		part := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
		part.Partition, part.LeaderEpoch = int32(i), p.LeaderEpoch
		part.LeaderID = -1
		if _, _, ok := aliveBroker(image, p.Leader, listener); ok {
			part.LeaderID = p.Leader
		}
		part.Replicas, part.ISR = p.Replicas, p.ISR
		part.EligibleLeaderReplicas, part.LastKnownELR = orEmpty(p.ELR), orEmpty(p.LastKnownELR)
		part.OfflineReplicas = offlineReplicas(image, p, listener)
		out.Partitions = append(out.Partitions, part)
	}
	return out
}

func orEmpty(ids []int32) []int32 {
	if ids == nil {
		return []int32{}
	}
	return ids
}

package api

// OffsetCommit: where members, or anyone for a group without members, will read on.
//
//	2-4  retention time        3  throttle time       5  retention gone
//	6    leader epoch          7  static membership   8  flexible
//	9    GROUP_ID_NOT_FOUND, member epochs of the new protocol
//	10   topics by id
//
// A topic or partition that does not exist gets its own error; the rest is committed.

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
	"seedlog/node/group"
	"seedlog/node/meta"
)

const offsetCommitByID = 10

func (s *Service) offsetCommit(t *task.T, r *conn.Request, req *kmsg.OffsetCommitRequest) kmsg.Response {
	resp := kmsg.NewPtrOffsetCommitResponse()
	valid := *req
	valid.Topics = nil
	var slots []*int16 // the code of each valid partition, in order
	image := s.Image()
	for i := range req.Topics {
		rt := &req.Topics[i]
		topic, missing := commitTopic(image, req.Version, rt)
		out := kmsg.NewOffsetCommitResponseTopic()
		out.Topic, out.TopicID = rt.Topic, rt.TopicID
		out.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, len(rt.Partitions))
		vt := *rt
		vt.Partitions = nil
		if topic != nil {
			vt.Topic = topic.Name
		}
		for j, p := range rt.Partitions {
			op := &out.Partitions[j]
			op.Partition = p.Partition
			switch {
			case topic == nil:
				op.ErrorCode = missing
			case topic.Partition(p.Partition) == nil:
				op.ErrorCode = kerr.UnknownTopicOrPartition.Code
			default:
				vt.Partitions = append(vt.Partitions, p)
				slots = append(slots, &op.ErrorCode)
			}
		}
		if len(vt.Partitions) > 0 {
			valid.Topics = append(valid.Topics, vt)
		}
		resp.Topics = append(resp.Topics, out)
	}
	if len(slots) > 0 {
		s.commitValid(t, &valid, slots)
	}
	return resp
}

func commitTopic(image *meta.Image, version int16, rt *kmsg.OffsetCommitRequestTopic) (topic *meta.Topic, missing int16) {
	if version >= offsetCommitByID {
		return image.TopicByID(rt.TopicID), kerr.UnknownTopicID.Code
	}
	return image.Topic(rt.Topic), kerr.UnknownTopicOrPartition.Code
}

// commitValid has the coordinator commit what exists, and fills the codes in.
func (s *Service) commitValid(t *task.T, req *kmsg.OffsetCommitRequest, slots []*int16) {
	msg, code := s.Groups.Do(t, req.Group, func(k group.Ticket) group.Command { return group.Commit{Ticket: k, Req: req} })
	if code != 0 {
		for _, slot := range slots {
			*slot = code
		}
		return
	}
	i := 0
	for _, rt := range msg.(*kmsg.OffsetCommitResponse).Topics {
		for _, rp := range rt.Partitions {
			*slots[i] = rp.ErrorCode
			i++
		}
	}
}

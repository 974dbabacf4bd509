package api

// OffsetFetch: what groups have committed; -1 for what they have not.
//
//	1  from the coordinator's topic    2  null topics are all; top-level error
//	3  throttle time                   5  leader epoch      6  flexible
//	7  require stable                  8  several groups    9  member id and epoch
//	10 topics by id
//
// Member ids and epochs are of the new protocol; classic groups do not look at them. A group
// or partition that is named again is answered once: a few bytes of a request would become
// all offsets of the group, and its metadata.

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
	"seedlog/node/group"
	"seedlog/node/meta"
)

const (
	offsetFetchTopError = 2
	offsetFetchGroups   = 8
	offsetFetchByID     = 10
)

func (s *Service) offsetFetch(t *task.T, r *conn.Request, req *kmsg.OffsetFetchRequest) kmsg.Response {
	resp := kmsg.NewPtrOffsetFetchResponse()
	if req.Version >= offsetFetchGroups {
		seen := make(map[string]bool)
		for i := range req.Groups {
			if g := &req.Groups[i]; !seen[g.Group] {
				seen[g.Group] = true
				resp.Groups = append(resp.Groups, s.fetchGroup(t, g, req.Version, req.RequireStable))
			}
		}
		return resp
	}
	one := kmsg.NewOffsetFetchRequestGroup()
	one.Group = req.Group
	if req.Topics != nil {
		one.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
	}
	for _, rt := range req.Topics {
		gt := kmsg.NewOffsetFetchRequestGroupTopic()
		gt.Topic, gt.Partitions = rt.Topic, rt.Partitions
		one.Topics = append(one.Topics, gt)
	}
	g := s.fetchGroup(t, &one, req.Version, req.RequireStable)
	if g.ErrorCode != 0 && req.Version < offsetFetchTopError {
		g.Topics = failedTopics(one.Topics, g.ErrorCode)
	}
	resp.ErrorCode = g.ErrorCode
	for _, gt := range g.Topics {
		rt := kmsg.NewOffsetFetchResponseTopic()
		rt.Topic = gt.Topic
		for _, gp := range gt.Partitions {
			rp := kmsg.NewOffsetFetchResponseTopicPartition()
			rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata, rp.ErrorCode = gp.Partition, gp.Offset, gp.LeaderEpoch, gp.Metadata, gp.ErrorCode
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// failedTopics is how versions before 2 are told of an error: at every partition.
func failedTopics(topics []kmsg.OffsetFetchRequestGroupTopic, code int16) []kmsg.OffsetFetchResponseGroupTopic {
	var out []kmsg.OffsetFetchResponseGroupTopic
	for _, rt := range topics {
		gt := kmsg.NewOffsetFetchResponseGroupTopic()
		gt.Topic, gt.TopicID = rt.Topic, rt.TopicID
		for _, p := range rt.Partitions {
			gp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
			gp.Partition, gp.Offset, gp.LeaderEpoch, gp.Metadata, gp.ErrorCode = p, -1, -1, ptr(""), code
			gt.Partitions = append(gt.Partitions, gp)
		}
		out = append(out, gt)
	}
	return out
}

func (s *Service) fetchGroup(t *task.T, rg *kmsg.OffsetFetchRequestGroup, version int16, stable bool) kmsg.OffsetFetchResponseGroup {
	image := s.Image()
	var unknown []kmsg.OffsetFetchRequestGroupTopic
	rg.Topics = onceEach(rg.Topics)
	topics := rg.Topics
	if version >= offsetFetchByID && topics != nil {
		topics, unknown = resolveTopics(image, rg.Topics)
	}
	cmd := group.Fetch{Group: rg.Group, Topics: topics, RequireStable: stable}
	msg, code := s.Groups.Do(t, rg.Group, func(k group.Ticket) group.Command {
		cmd.Ticket = k
		return cmd
	})
	if code != 0 {
		g := kmsg.NewOffsetFetchResponseGroup()
		g.Group, g.ErrorCode = rg.Group, code
		return g
	}
	g := msg.(group.FetchReply).Group
	if version >= offsetFetchByID {
		g.Topics = append(withIDs(image, g.Topics), failedTopics(unknown, kerr.UnknownTopicID.Code)...)
	}
	return g
}

// onceEach drops partitions that were named before.
func onceEach(topics []kmsg.OffsetFetchRequestGroupTopic) []kmsg.OffsetFetchRequestGroupTopic {
	type partition struct {
		topic string
		id    meta.UUID
		index int32
	}
	seen := make(map[partition]bool)
	for i := range topics {
		rt := &topics[i]
		rt.Partitions = slices.DeleteFunc(rt.Partitions, func(index int32) bool {
			k := partition{rt.Topic, rt.TopicID, index}
			again := seen[k]
			seen[k] = true
			return again
		})
	}
	return topics
}

// resolveTopics fills the names of topics in, and sets those aside that do not exist.
func resolveTopics(image *meta.Image, asked []kmsg.OffsetFetchRequestGroupTopic) (known, unknown []kmsg.OffsetFetchRequestGroupTopic) {
	known = []kmsg.OffsetFetchRequestGroupTopic{}
	for _, rt := range asked {
		topic := image.TopicByID(rt.TopicID)
		if topic == nil {
			unknown = append(unknown, rt)
			continue
		}
		rt.Topic = topic.Name
		known = append(known, rt)
	}
	return known, unknown
}

// withIDs fills the ids of topics in. What has none any more cannot be told by id, and is
// left out.
func withIDs(image *meta.Image, topics []kmsg.OffsetFetchResponseGroupTopic) []kmsg.OffsetFetchResponseGroupTopic {
	var out []kmsg.OffsetFetchResponseGroupTopic
	for _, gt := range topics {
		if topic := image.Topic(gt.Topic); topic != nil {
			gt.TopicID = topic.ID
			out = append(out, gt)
		}
	}
	return out
}

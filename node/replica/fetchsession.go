package replica

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// fetchSession is a follower's side of an incremental fetch session (KIP-227): requests name
// only what changed since the one before. It is one task's own.
//
//	epoch 0   a full request, which asks for a session (and ends the one of id)
//	epoch n   the next request of session id
type fetchSession struct {
	id, epoch int32
	told      map[Key]toldPart // what the leader knows of
	order     []Key            // of told, in the order in which it was told
	round     int64            // counts requests
}

// toldPart is what the leader was told of a partition last.
type toldPart struct {
	position
	leaderEpoch int32
	maxBytes    int32
	round       int64 // of the last request in which it was wanted
}

// reset begins anew: the next request is full.
func (s *fetchSession) reset() {
	s.epoch = 0
	clear(s.told)
	s.order = s.order[:0]
}

// answered takes over the id that a request was answered with; 0 is no session.
func (s *fetchSession) answered(id int32) {
	switch {
	case id == 0:
		s.id = 0
		s.reset()
	case s.epoch == 1<<31-1:
		s.epoch = 1
	default:
		s.epoch++
	}
	s.id = id
}

// want is a partition that the next request is for.
type want struct {
	key  Key
	part toldPart
}

// compose fills the request in: of wants, which are in order of topic and partition, those
// that the leader has to be told, and of the session's those that are not wanted any more.
func (s *fetchSession) compose(req *kmsg.FetchRequest, wants []want) {
	if s.told == nil {
		s.told = map[Key]toldPart{}
	}
	s.round++
	req.SessionID, req.SessionEpoch = s.id, s.epoch
	req.Topics, req.ForgottenTopics = req.Topics[:0], req.ForgottenTopics[:0]
	for _, w := range wants {
		before, known := s.told[w.key]
		w.part.round = before.round
		if !known {
			s.order = append(s.order, w.key)
		}
		if !known || w.part != before {
			addPart(req, w)
		}
		w.part.round = s.round
		s.told[w.key] = w.part
	}
	s.order = slices.DeleteFunc(s.order, func(k Key) bool {
		gone := s.told[k].round != s.round
		if gone {
			delete(s.told, k)
			forget(req, k)
		}
		return gone
	})
}

func addPart(req *kmsg.FetchRequest, w want) {
	if n := len(req.Topics); n == 0 || req.Topics[n-1].TopicID != w.key.Topic {
		topic := kmsg.NewFetchRequestTopic()
		topic.TopicID = w.key.Topic
		req.Topics = append(req.Topics, topic)
	}
	topic := &req.Topics[len(req.Topics)-1]
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.CurrentLeaderEpoch = w.key.Partition, w.part.leaderEpoch
	p.FetchOffset, p.LastFetchedEpoch, p.LogStartOffset = w.part.offset, w.part.lastEpoch, w.part.logStart
	p.PartitionMaxBytes = w.part.maxBytes
	topic.Partitions = append(topic.Partitions, p)
}

func forget(req *kmsg.FetchRequest, k Key) {
	if n := len(req.ForgottenTopics); n == 0 || req.ForgottenTopics[n-1].TopicID != k.Topic {
		topic := kmsg.NewFetchRequestForgottenTopic()
		topic.TopicID = k.Topic
		req.ForgottenTopics = append(req.ForgottenTopics, topic)
	}
	topic := &req.ForgottenTopics[len(req.ForgottenTopics)-1]
	topic.Partitions = append(topic.Partitions, k.Partition)
}

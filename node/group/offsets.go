package group

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// commit stores offsets of a member of the current generation, or of a group without
// members (KAFKA-1841: "simple" consumers and administrators).
func (s *Shard) commit(c Commit) {
	req := c.Req
	code := s.checkCommit(req)
	if code != codeNone {
		s.reply(c.Ticket, commitResponse(req, func(kmsg.OffsetCommitRequestTopicPartition) int16 { return code }))
		return
	}
	var records []Record
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			if s.commitFits(p) {
				records = append(records, offsetRecord(OffsetKey{req.Group, t.Topic, p.Partition}, s.offsetOf(req, t, p)))
			}
		}
	}
	resp := commitResponse(req, func(p kmsg.OffsetCommitRequestTopicPartition) int16 {
		if !s.commitFits(p) {
			return kerr.OffsetMetadataTooLarge.Code
		}
		return codeNone
	})
	if len(records) == 0 {
		s.reply(c.Ticket, resp)
		return
	}
	s.propose(stage{records: records})
	s.staged.reply(s, c.Ticket, resp, func(code int16) any {
		return commitResponse(req, func(kmsg.OffsetCommitRequestTopicPartition) int16 { return code })
	})
}

func commitResponse(req *kmsg.OffsetCommitRequest, code func(kmsg.OffsetCommitRequestTopicPartition) int16) *kmsg.OffsetCommitResponse {
	r := kmsg.NewPtrOffsetCommitResponse()
	r.Version = req.Version
	for _, t := range req.Topics {
		rt := kmsg.NewOffsetCommitResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetCommitResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, code(p)
			rt.Partitions = append(rt.Partitions, rp)
		}
		r.Topics = append(r.Topics, rt)
	}
	return r
}

// checkCommit fences a commit by member and generation, and takes one as a sign of life.
func (s *Shard) checkCommit(req *kmsg.OffsetCommitRequest) int16 {
	g := s.groups[req.Group]
	if g == nil {
		switch {
		case req.Generation < 0:
			return codeNone
		case req.Version >= 9:
			return kerr.GroupIDNotFound.Code
		default:
			return codeIllegalGeneration
		}
	}
	if req.Generation < 0 && g.state == Empty {
		return codeNone
	}
	if req.Generation < 0 && req.MemberID == "" && req.InstanceID == nil {
		return codeUnknownMemberUnlessEmpty(g)
	}
	if code := g.check(req.MemberID, req.InstanceID); code != codeNone {
		return code
	}
	if req.Generation != g.generation {
		return codeIllegalGeneration
	}
	if g.state == CompletingRebalance {
		return codeRebalanceInProgress
	}
	s.touch(g, g.byID[req.MemberID])
	return codeNone
}

func codeUnknownMemberUnlessEmpty(g *group) int16 {
	if g.state == Empty {
		return codeNone
	}
	return codeUnknownMember
}

// commitFits bounds the metadata, which Kafka counts in UTF-16 units.
func (s *Shard) commitFits(p kmsg.OffsetCommitRequestTopicPartition) bool {
	if p.Metadata == nil || len(*p.Metadata) <= int(s.cfg.OffsetMetadataMax) {
		return true
	}
	n := utf8.RuneCountInString(*p.Metadata)
	for _, r := range *p.Metadata {
		if r > 0xffff {
			n++
		}
	}
	return n <= int(s.cfg.OffsetMetadataMax)
}

func (s *Shard) offsetOf(req *kmsg.OffsetCommitRequest, t kmsg.OffsetCommitRequestTopic, p kmsg.OffsetCommitRequestTopicPartition) Offset {
	o := Offset{
		Offset: p.Offset, LeaderEpoch: -1, Metadata: str(p.Metadata),
		CommitTimestampMs: s.now.UnixMs, ExpireTimestampMs: -1, TopicID: t.TopicID,
	}
	if req.Version >= 6 && p.LeaderEpoch >= 0 {
		o.LeaderEpoch = p.LeaderEpoch
	}
	if req.Version >= 2 && req.Version <= 4 && req.RetentionTimeMillis >= 0 {
		o.ExpireTimestampMs = saturatingAdd(s.now.UnixMs, req.RetentionTimeMillis)
	}
	return o
}

func saturatingAdd(a, b int64) int64 {
	if b > 0 && a > 1<<63-1-b {
		return 1<<63 - 1
	}
	return a + b
}

// fetch reads offsets. What has none, and a group that does not exist, is -1.
func (s *Shard) fetch(c Fetch) {
	r := kmsg.NewOffsetFetchResponseGroup()
	r.Group = c.Group
	g := s.groups[c.Group]
	topics := c.Topics
	if topics == nil && g != nil {
		topics = g.offsetTopics()
	}
	for _, t := range topics {
		rt := kmsg.NewOffsetFetchResponseGroupTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rt.Partitions = append(rt.Partitions, s.fetchOne(g, t, p, c.RequireStable))
		}
		r.Topics = append(r.Topics, rt)
	}
	s.reply(c.Ticket, FetchReply{r})
}

// offsetTopics lists what the group has offsets of, in order.
func (g *group) offsetTopics() []kmsg.OffsetFetchRequestGroupTopic {
	var ts []kmsg.OffsetFetchRequestGroupTopic
	for _, tp := range g.sortedOffsets() {
		if n := len(ts); n == 0 || ts[n-1].Topic != tp.topic {
			t := kmsg.NewOffsetFetchRequestGroupTopic()
			t.Topic = tp.topic
			ts = append(ts, t)
		}
		t := &ts[len(ts)-1]
		t.Partitions = append(t.Partitions, tp.partition)
	}
	return ts
}

func (g *group) sortedOffsets() []topicPartition {
	tps := make([]topicPartition, 0, len(g.offsets))
	for tp := range g.offsets { //order: sorted below
		tps = append(tps, tp)
	}
	slices.SortFunc(tps, func(a, b topicPartition) int {
		if c := strings.Compare(a.topic, b.topic); c != 0 {
			return c
		}
		return int(a.partition) - int(b.partition)
	})
	return tps
}

func (s *Shard) fetchOne(g *group, t kmsg.OffsetFetchRequestGroupTopic, partition int32, stable bool) kmsg.OffsetFetchResponseGroupTopicPartition {
	p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	none := ""
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = partition, -1, -1, &none
	if g == nil {
		return p
	}
	if stable && s.inTransaction(g, OffsetKey{g.id, t.Topic, partition}) {
		p.ErrorCode = kerr.UnstableOffsetCommit.Code
		return p
	}
	if o, ok := g.offsets[topicPartition{t.Topic, partition}]; ok && o.isOf(t.TopicID) {
		p.Offset, p.LeaderEpoch = o.Offset.Offset, o.LeaderEpoch
		p.Metadata = &o.Metadata
	}
	return p
}

// isOf: an offset that was committed by the id of a topic is of no later one of the same name.
// Who names no id asks for whatever topic has the name.
func (o Offset) isOf(topic [16]byte) bool {
	var none [16]byte
	return o.TopicID == none || topic == none || o.TopicID == topic
}

// inTransaction: an open transaction has an offset for the key.
func (s *Shard) inTransaction(g *group, k OffsetKey) bool {
	for p := range g.open { //order: any will do
		if _, ok := s.txns[p][k]; ok {
			return true
		}
	}
	return false
}

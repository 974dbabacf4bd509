package api

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestGroupRequestsAreMeasuredBeforeTheyAreDecoded(t *testing.T) {
	join := func() kmsg.Request {
		q := kmsg.NewPtrJoinGroupRequest()
		q.Group, q.MemberID, q.InstanceID, q.Reason = "g", "m", ptr("i"), ptr("r")
		for range 3 {
			p := kmsg.NewJoinGroupRequestProtocol()
			p.Name, p.Metadata = "range", []byte("metadata")
			q.Protocols = append(q.Protocols, p)
		}
		return q
	}
	sync := func() kmsg.Request {
		q := kmsg.NewPtrSyncGroupRequest()
		q.Group, q.MemberID, q.InstanceID, q.ProtocolType = "g", "m", ptr("i"), ptr("consumer")
		for range 3 {
			a := kmsg.NewSyncGroupRequestGroupAssignment()
			a.MemberID, a.MemberAssignment = "m", []byte("assignment")
			q.GroupAssignment = append(q.GroupAssignment, a)
		}
		return q
	}
	commit := func() kmsg.Request {
		q := kmsg.NewPtrOffsetCommitRequest()
		q.Group, q.MemberID, q.InstanceID = "g", "m", ptr("i")
		topic := kmsg.NewOffsetCommitRequestTopic()
		topic.Topic, topic.TopicID = "orders", [16]byte{1}
		for range 2 {
			p := kmsg.NewOffsetCommitRequestTopicPartition()
			p.Metadata = ptr("metadata")
			topic.Partitions = append(topic.Partitions, p)
		}
		q.Topics = append(q.Topics, topic)
		return q
	}
	for _, e := range table() {
		sample := map[int16]func() kmsg.Request{8: commit, 11: join, 14: sync}[e.key]
		if sample == nil {
			continue
		}
		for version := e.min; version <= e.max; version++ {
			req := sample()
			req.SetVersion(version)
			body := req.AppendTo(nil)
			want := 2*int64(len(body)) + 3*costElement
			if got, err := e.measure(body, version); got != want || err != nil {
				t.Errorf("%s %d: %d, %v, want %d", kmsg.NameForKey(e.key), version, got, err, want)
			}
			refusesPrefixes(t, body, func(b []byte) error { _, err := e.measure(b, version); return err })
			if version < e.flexible {
				continue
			}
			// One unknown tag, at the end.
			tagged := append(body[:len(body)-1:len(body)-1], 1, 99, 0)
			if got, err := e.measure(tagged, version); got != want+4+costTag || err != nil {
				t.Errorf("%s %d with a tag: %d, %v, want %d", kmsg.NameForKey(e.key), version, got, err, want+4+costTag)
			}
		}
	}
}

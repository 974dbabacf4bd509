package group

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// An offset that was committed by a topic's id is nobody's who asks by another id: the topic was
// made again, and the offset's tombstone is still to be written.
func TestOffsetsOfAnotherTopicIDAreNotTold(t *testing.T) {
	old, next, none := [16]byte{1}, [16]byte{2}, [16]byte{}
	for _, c := range []struct {
		committed, asked [16]byte
		want             int64
	}{
		{old, old, 5}, {old, next, -1}, {old, none, 5}, {none, next, 5}, {none, none, 5},
	} {
		h := newHost(t, DefaultConfig(), 1)
		req := commitOf("g", "t", 0)
		req.Version, req.Topics[0].TopicID = 10, c.committed
		h.do(Commit{Ticket: h.ticket("commit"), Req: req})
		got := int64(-2)
		h.onReply = func(_ Ticket, msg any) { got = msg.(FetchReply).Group.Topics[0].Partitions[0].Offset }
		rt := kmsg.NewOffsetFetchRequestGroupTopic()
		rt.Topic, rt.TopicID, rt.Partitions = "t", c.asked, []int32{0}
		h.do(Fetch{Ticket: h.ticket("fetch"), Group: "g", Topics: []kmsg.OffsetFetchRequestGroupTopic{rt}})
		if got != c.want {
			t.Errorf("committed by %x, asked for by %x: %d, want %d", c.committed[:1], c.asked[:1], got, c.want)
		}
	}
}

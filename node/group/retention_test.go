package group

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The tombstones of groups with long ids come in batches that a topic of Kafka's default
// max.message.bytes takes, whether the topic goes or the offsets' time is up.
func TestLongGroupIDsAreSweptInSmallBatches(t *testing.T) {
	for _, c := range []struct {
		name  string
		sweep func(h *host)
	}{
		{"the topic is deleted", func(h *host) { h.do(TopicsDeleted{Topics: []string{"t"}}); h.advance(time.Minute) }},
		{"the time is up", func(h *host) { h.advance(2 * time.Hour) }},
	} {
		cfg := DefaultConfig()
		cfg.OffsetsRetentionMs = time.Hour.Milliseconds()
		h := newHost(t, cfg, 1)
		for p := range int32(40) {
			h.do(Commit{Ticket: h.ticket("commit"), Req: commitOf(strings.Repeat("g", textMax), "t", p)})
		}
		largest := 0
		h.onFx = func(fx Effects) {
			bytes := 0
			for _, r := range fx.Records {
				bytes += len(r.Key) + len(r.Value)
			}
			largest = max(largest, bytes)
		}
		c.sweep(h)
		if n := len(h.shard.groups); n != 0 {
			t.Errorf("%s: %d groups are left", c.name, n)
		}
		if largest == 0 || largest > 1<<20-1<<10 {
			t.Errorf("%s: the largest batch has %d bytes", c.name, largest)
		}
	}
}

// commitOf is a commit of one offset from outside the group.
func commitOf(id, topic string, partition int32) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = 7, id, -1
	rp := kmsg.NewOffsetCommitRequestTopicPartition()
	rp.Partition, rp.Offset = partition, 5
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic = topic
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

package api

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What kmsg takes for a request we must not take for garbage, and whatever comes, decoding
// neither panics nor makes more of it than there is.

func FuzzProduceRequest(f *testing.F) {
	for version := int16(3); version <= 13; version++ {
		req := kmsg.NewPtrProduceRequest()
		req.Version, req.Acks = version, 1
		topic := kmsg.NewProduceRequestTopic()
		topic.Topic = "orders"
		part := kmsg.NewProduceRequestTopicPartition()
		part.Records = []byte("records")
		part.UnknownTags, topic.UnknownTags = someTags(), someTags()
		topic.Partitions = append(topic.Partitions, part, part)
		req.Topics = append(req.Topics, topic, topic)
		f.Add(version, req.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, version int16, body []byte) {
		if version < 3 || version > 13 {
			return
		}
		var q produceRequest
		err := q.decode(body, version)
		bytes := 0
		for _, p := range q.parts {
			bytes += len(p.records)
		}
		if bytes > len(body) || len(q.parts) > len(body) {
			t.Fatalf("%d bytes became %d partitions with %d bytes", len(body), len(q.parts), bytes)
		}
		if err != nil {
			return
		}
		want := kmsg.NewPtrProduceRequest()
		want.Version = version
		if want.ReadFrom(body) != nil {
			return
		}
		n := 0
		for _, topic := range want.Topics {
			for _, p := range topic.Partitions {
				if q.parts[n].index != p.Partition || string(q.parts[n].records) != string(p.Records) {
					t.Fatalf("partition %d is %+v, kmsg says %+v", n, q.parts[n], p)
				}
				n++
			}
		}
		if n != len(q.parts) || q.acks != want.Acks || q.timeoutMs != want.TimeoutMillis {
			t.Fatalf("decoded %+v, kmsg says %+v", q, want)
		}
	})
}

func FuzzFetchRequest(f *testing.F) {
	for version := int16(4); version <= 18; version++ {
		req := kmsg.NewPtrFetchRequest()
		req.Version, req.MaxBytes = version, 1<<20
		topic := kmsg.NewFetchRequestTopic()
		topic.Topic = "orders"
		part := kmsg.NewFetchRequestTopicPartition()
		part.UnknownTags, topic.UnknownTags = someTags(), someTags()
		topic.Partitions = append(topic.Partitions, part, part)
		req.Topics = append(req.Topics, topic, topic)
		f.Add(version, req.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, version int16, body []byte) {
		if version < 4 || version > 18 {
			return
		}
		var q fetchRequest
		err := q.decode(body, version)
		if len(q.parts)+len(q.forgotten) > len(body) {
			t.Fatalf("%d bytes became %d partitions", len(body), len(q.parts)+len(q.forgotten))
		}
		if err != nil {
			return
		}
		want := kmsg.NewPtrFetchRequest()
		want.Version = version
		if want.ReadFrom(body) != nil {
			return
		}
		n := 0
		for _, topic := range want.Topics {
			for _, p := range topic.Partitions {
				if q.parts[n].index != p.Partition || q.parts[n].offset != p.FetchOffset || q.parts[n].maxBytes != p.PartitionMaxBytes {
					t.Fatalf("partition %d is %+v, kmsg says %+v", n, q.parts[n], p)
				}
				n++
			}
		}
		if n != len(q.parts) {
			t.Fatalf("%d partitions, kmsg says %d", len(q.parts), n)
		}
	})
}

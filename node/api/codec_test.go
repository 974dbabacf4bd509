package api

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/storage"
	"seedlog/storage/record"
)

// noTags compares messages that have no unknown tags.
var noTags = cmp.Comparer(func(a, b kmsg.Tags) bool { return a.Len() == b.Len() })

// someTags are tags that nobody knows.
func someTags() (tags kmsg.Tags) {
	tags.Set(90, []byte("one"))
	tags.Set(200, make([]byte, 300))
	return tags
}

func TestProduceRequestsDecodeAsKmsgEncodesThem(t *testing.T) {
	for version := int16(3); version <= 13; version++ {
		req := kmsg.NewPtrProduceRequest()
		req.Version, req.Acks, req.TimeoutMillis = version, -1, 1234
		req.TransactionID = ptr("txn")
		for topic, count := range []int{2, 1} {
			rt := kmsg.NewProduceRequestTopic()
			rt.Topic, rt.TopicID = []string{"orders", "events"}[topic], [16]byte{byte(topic + 1)}
			for p := range count {
				rp := kmsg.NewProduceRequestTopicPartition()
				rp.Partition, rp.Records = int32(p), bytes.Repeat([]byte{byte(p + 1)}, 70)
				rp.UnknownTags = someTags()
				rt.Partitions = append(rt.Partitions, rp)
			}
			rt.UnknownTags = someTags()
			req.Topics = append(req.Topics, rt)
		}
		req.UnknownTags = someTags()
		body := req.AppendTo(nil)
		var got produceRequest
		if err := got.decode(body, version); err != nil {
			t.Fatalf("version %d: %v", version, err)
		}
		if got.acks != -1 || got.timeoutMs != 1234 || !got.transactional || len(got.topics) != 2 || len(got.parts) != 3 {
			t.Fatalf("version %d: decoded %+v", version, got)
		}
		if version < 13 && string(got.topics[1].frame) != "events" || version >= 13 && got.topics[1].id != ([16]byte{2}) {
			t.Errorf("version %d: second topic is %+v", version, got.topics[1])
		}
		if p := got.parts[1]; p.index != 1 || p.topic != 0 || !bytes.Equal(p.records, bytes.Repeat([]byte{2}, 70)) {
			t.Errorf("version %d: second partition is %+v", version, p)
		}
		refusesPrefixes(t, body, func(b []byte) error { return new(produceRequest).decode(b, version) })
	}
}

// refusesPrefixes checks that no part of a request passes for a whole one.
func refusesPrefixes(t *testing.T, body []byte, decode func([]byte) error) {
	t.Helper()
	for n := range len(body) {
		if decode(body[:n:n]) == nil {
			t.Fatalf("a prefix of %d of %d bytes decodes", n, len(body))
		}
	}
}

func TestProduceRepliesDecodeWithKmsg(t *testing.T) {
	for version := int16(3); version <= 13; version++ {
		q := produceRequest{version: version}
		q.topics = []produceTopic{{name: "orders", id: [16]byte{1}, count: 2}, {name: "events", id: [16]byte{2}, count: 1}}
		q.parts = []producePart{
			{index: 0, produceResult: produceResult{baseOffset: 7, appendTimeMs: -1, logStart: 3}},
			{index: 1, produceResult: produceResult{code: 87, baseOffset: -1, appendTimeMs: -1, logStart: -1, message: "bad",
				bad: []record.RecordError{{Index: 4, Message: "no key"}, {Index: 9, Message: "too old"}}}},
			{index: 5, produceResult: produceResult{code: 6, baseOffset: -1, appendTimeMs: -1, logStart: -1, leader: 2, leaderEpoch: 8, tellLeader: true}},
		}
		want := kmsg.NewPtrProduceResponse()
		want.Version = version
		for i, parts := range [][]producePart{q.parts[:2], q.parts[2:]} {
			rt := kmsg.NewProduceResponseTopic()
			if version >= 13 {
				rt.TopicID = q.topics[i].id
			} else {
				rt.Topic = q.topics[i].name
			}
			for _, p := range parts {
				rt.Partitions = append(rt.Partitions, wantProduced(version, &p))
			}
			want.Topics = append(want.Topics, rt)
		}
		if version >= 10 {
			b := kmsg.NewProduceResponseBroker()
			b.NodeID, b.Host, b.Port, b.Rack = 2, "there", 9093, ptr("r1")
			want.Brokers = append(want.Brokers, b)
		}
		buf := q.encode(nil, []endpoint{{nodeID: 2, host: "there", port: 9093, rack: "r1"}})
		got := kmsg.NewPtrProduceResponse()
		got.Version = version
		if err := got.ReadFrom(buf); err != nil {
			t.Fatalf("version %d: %v", version, err)
		}
		if diff := cmp.Diff(want, got, noTags); diff != "" {
			t.Errorf("version %d: -want +got\n%s", version, diff)
		}
		if again := want.AppendTo(nil); !bytes.Equal(again, buf) {
			t.Errorf("version %d: kmsg encodes %x, we %x", version, again, buf)
		}
	}
}

func wantProduced(version int16, p *producePart) kmsg.ProduceResponseTopicPartition {
	rp := kmsg.NewProduceResponseTopicPartition()
	rp.Partition, rp.ErrorCode, rp.BaseOffset, rp.LogAppendTime = p.index, p.code, p.baseOffset, p.appendTimeMs
	if version >= 5 {
		rp.LogStartOffset = p.logStart
	}
	if version >= 8 {
		rp.ErrorMessage = textOrNil(p.message)
		for _, b := range p.bad {
			re := kmsg.NewProduceResponseTopicPartitionErrorRecord()
			re.RelativeOffset, re.ErrorMessage = b.Index, ptr(b.Message)
			rp.ErrorRecords = append(rp.ErrorRecords, re)
		}
	}
	if version >= 10 && p.tellLeader {
		rp.CurrentLeader.LeaderID, rp.CurrentLeader.LeaderEpoch = p.leader, p.leaderEpoch
	}
	return rp
}

func TestFetchRequestsDecodeAsKmsgEncodesThem(t *testing.T) {
	for version := int16(4); version <= 18; version++ {
		req := kmsg.NewPtrFetchRequest()
		req.Version = version
		req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.IsolationLevel = 500, 1, 1<<20, 1
		req.SessionID, req.SessionEpoch, req.Rack = 77, 3, "r1"
		req.ReplicaID = -1
		rt := kmsg.NewFetchRequestTopic()
		rt.Topic, rt.TopicID = "orders", [16]byte{9}
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition, rp.CurrentLeaderEpoch, rp.FetchOffset, rp.LastFetchedEpoch = 3, 4, 4730, 2
		rp.LogStartOffset, rp.PartitionMaxBytes = 1, 1<<19
		rp.ReplicaDirectoryID, rp.UnknownTags = [16]byte{5}, someTags()
		rt.UnknownTags, req.UnknownTags = someTags(), someTags()
		req.ClusterID, req.ReplicaState.ID, req.ReplicaState.Epoch = ptr("cluster"), 6, 66
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		ft := kmsg.NewFetchRequestForgottenTopic()
		ft.Topic, ft.TopicID, ft.Partitions = "events", [16]byte{8}, []int32{1, 2}
		req.ForgottenTopics = append(req.ForgottenTopics, ft)
		body := req.AppendTo(nil)
		var got fetchRequest
		if err := got.decode(body, version); err != nil {
			t.Fatalf("version %d: %v", version, err)
		}
		checkFetchRequest(t, version, &got)
		refusesPrefixes(t, body, func(b []byte) error { return new(fetchRequest).decode(b, version) })
	}
}

func checkFetchRequest(t *testing.T, version int16, got *fetchRequest) {
	t.Helper()
	want := fetchPart{fetchKey: fetchKey{index: 3}, offset: 4730, maxBytes: 1 << 19, currentEpoch: -1, lastFetchedEpoch: -1, logStart: -1}
	if version >= 5 {
		want.logStart = 1
	}
	if version >= 9 {
		want.currentEpoch = 4
	}
	if version >= 12 {
		want.lastFetchedEpoch = 2
	}
	if version >= 13 {
		want.id = [16]byte{9}
	} else {
		want.name = []byte("orders")
	}
	if diff := cmp.Diff([]fetchPart{want}, got.parts, cmp.AllowUnexported(fetchPart{}, fetchKey{})); diff != "" {
		t.Errorf("version %d: -want +got\n%s", version, diff)
	}
	if got.maxWaitMs != 500 || got.minBytes != 1 || got.maxBytes != 1<<20 || !got.readCommitted {
		t.Errorf("version %d: decoded %+v", version, got)
	}
	if version >= 7 && (got.sessionID != 77 || got.sessionEpoch != 3 || len(got.forgotten) != 2 || got.forgotten[1].index != 2) {
		t.Errorf("version %d: session %d epoch %d, forgotten %+v", version, got.sessionID, got.sessionEpoch, got.forgotten)
	}
	if version < 15 && got.replicaID != -1 || version >= 15 && (got.replicaID != 6 || got.replicaEpoch != 66) {
		t.Errorf("version %d: replica %d epoch %d", version, got.replicaID, got.replicaEpoch)
	}
	if version < 7 && got.sessionEpoch != sessionEpochFinal {
		t.Errorf("version %d: wants a session", version)
	}
}

func TestFetchRepliesDecodeWithKmsg(t *testing.T) {
	for version := int16(4); version <= 18; version++ {
		one := fetchResult{topic: "orders", id: [16]byte{1}, hw: 10, lso: 9, logStart: 2, aborted: true}
		one.data.Aborted = []storage.AbortedTxn{{ProducerID: 5, FirstOffset: 6}}
		two := fetchResult{topic: "orders", id: [16]byte{1}, index: 1, code: 1, hw: -1, lso: -1, logStart: -1}
		three := fetchResult{topic: "events", id: [16]byte{2}, index: 4, code: 6, hw: -1, lso: -1, logStart: -1,
			diverges: true, divergeEpoch: 3, divergeOffset: 44, leader: 2, leaderEpoch: 8, tellLeader: true}
		f := fetchReply{version: version, sessionID: 99, results: []*fetchResult{&one, &two, &three}}
		for _, r := range f.results {
			if version >= 13 {
				r.topic = ""
			} else {
				r.id = [16]byte{}
			}
		}
		if version >= 16 {
			f.endpoints = []endpoint{{nodeID: 2, host: "there", port: 9093, noRack: true}}
		}
		buf, parts := f.encode(nil, nil)
		if len(parts) != 1 || !bytes.Equal(parts[0].Bytes, buf) {
			t.Fatalf("version %d: %d parts without a range", version, len(parts))
		}
		got := kmsg.NewPtrFetchResponse()
		got.Version = version
		if err := got.ReadFrom(buf); err != nil {
			t.Fatalf("version %d: %v", version, err)
		}
		if diff := cmp.Diff(wantFetched(version, &f), got, noTags); diff != "" {
			t.Errorf("version %d: -want +got\n%s", version, diff)
		}
	}
}

func wantFetched(version int16, f *fetchReply) *kmsg.FetchResponse {
	want := kmsg.NewPtrFetchResponse()
	want.Version = version
	if version >= 7 {
		want.SessionID = f.sessionID
	}
	for i, r := range f.results {
		if i == 0 || !r.sameTopic(f.results[i-1]) {
			rt := kmsg.NewFetchResponseTopic()
			rt.Topic, rt.TopicID = r.topic, r.id
			want.Topics = append(want.Topics, rt)
		}
		rp := kmsg.NewFetchResponseTopicPartition()
		rp.Partition, rp.ErrorCode, rp.HighWatermark, rp.LastStableOffset = r.index, r.code, r.hw, r.lso
		rp.RecordBatches = []byte{}
		if version >= 5 {
			rp.LogStartOffset = r.logStart
		}
		if r.aborted {
			for _, a := range r.data.Aborted {
				at := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
				at.ProducerID, at.FirstOffset = a.ProducerID, a.FirstOffset
				rp.AbortedTransactions = append(rp.AbortedTransactions, at)
			}
		}
		if version >= 12 && r.diverges {
			rp.DivergingEpoch.Epoch, rp.DivergingEpoch.EndOffset = r.divergeEpoch, r.divergeOffset
		}
		if version >= 12 && r.tellLeader {
			rp.CurrentLeader.LeaderID, rp.CurrentLeader.LeaderEpoch = r.leader, r.leaderEpoch
		}
		topic := &want.Topics[len(want.Topics)-1]
		topic.Partitions = append(topic.Partitions, rp)
	}
	for _, e := range f.endpoints {
		b := kmsg.NewFetchResponseBroker()
		b.NodeID, b.Host, b.Port = e.nodeID, e.host, e.port
		want.Brokers = append(want.Brokers, b)
	}
	return want
}

// A frame of nothing but tiny elements is refused before it takes memory.
func TestFramesOfTinyElementsAreRefused(t *testing.T) {
	body := []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0} // null transactional id, acks, timeout
	body = append(body, 0, 0, 0x7f, 0xff)              // topics
	for range 1 << 18 {
		body = append(body, 0, 0, 0, 0, 0, 0) // empty name, no partitions
	}
	body[8], body[9], body[10], body[11] = 0, 4, 0, 0
	if err := new(produceRequest).decode(body, 3); err == nil {
		t.Fatal("a quarter of a million topics were decoded")
	}
}

package node_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/storage/record"
)

// batch is one batch of records with the options changed by change.
func batch(t *testing.T, change func(*record.Options), records ...record.Record) []byte {
	t.Helper()
	opts := record.NewOptions(0)
	if change != nil {
		change(&opts)
	}
	b, err := record.AppendBatch(nil, opts, new(record.Compressor), records...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func value(s string) record.Record {
	return record.Record{Value: []byte(s), Timestamp: time.Now().UnixMilli()}
}

// produced asks for one partition's append and returns its answer.
func (w *raw) produced(version int16, acks int16, topic string, id [16]byte, partition int32, b []byte) kmsg.ProduceResponseTopicPartition {
	w.t.Helper()
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = version, acks, int32(patience.Milliseconds())
	qt := kmsg.NewProduceRequestTopic()
	qt.Topic, qt.TopicID = topic, id
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, b
	qt.Partitions = append(qt.Partitions, p)
	req.Topics = append(req.Topics, qt)
	return w.ask(req).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
}

// fetches is a request for one partition of a topic.
func fetches(version int16, topic string, id [16]byte, offset int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.ReplicaID, req.MaxBytes, req.MinBytes = version, -1, 1<<20, 1
	req.SessionEpoch = -1
	qt := kmsg.NewFetchRequestTopic()
	qt.Topic, qt.TopicID = topic, id
	p := kmsg.NewFetchRequestTopicPartition()
	p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch, p.LastFetchedEpoch = offset, 1<<20, -1, -1
	qt.Partitions = append(qt.Partitions, p)
	req.Topics = append(req.Topics, qt)
	return req
}

func (w *raw) fetched(req *kmsg.FetchRequest) kmsg.FetchResponseTopicPartition {
	w.t.Helper()
	resp := w.ask(req).(*kmsg.FetchResponse)
	if len(resp.Topics) == 0 {
		w.t.Fatalf("nothing came back: code %d", resp.ErrorCode)
	}
	return resp.Topics[0].Partitions[0]
}

func (w *raw) topicID(topic string) [16]byte {
	w.t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 12
	mt := kmsg.NewMetadataRequestTopic()
	mt.Topic = &topic
	req.Topics = append(req.Topics, mt)
	return w.ask(req).(*kmsg.MetadataResponse).Topics[0].TopicID
}

func TestProduceAnswersWithKafkasCodes(t *testing.T) {
	r := start(t, t.TempDir(), nil, nil)
	defer r.stop()
	r.createTopic("orders", 1, map[string]string{"max.message.bytes": "2000"})
	r.createTopic("compacted", 1, map[string]string{"cleanup.policy": "compact"})
	r.createTopic("__consumer_offsets", 1, nil)
	w := r.raw()
	good := func() []byte { return batch(t, nil, value("v")) }
	flip := good()
	flip[len(flip)-1] ^= 1
	ahead := record.Record{Value: []byte("v"), Timestamp: time.Now().Add(2 * time.Hour).UnixMilli()}
	for _, c := range []struct {
		what    string
		version int16
		acks    int16
		topic   string
		part    int32
		batch   []byte
		want    *kerr.Error
	}{
		{"a good batch", 9, -1, "orders", 0, good(), nil},
		{"an unknown topic", 9, -1, "nothing", 0, good(), kerr.UnknownTopicOrPartition},
		{"an unknown topic id", 13, -1, "", 0, good(), kerr.UnknownTopicID},
		{"an unknown partition", 9, -1, "orders", 7, good(), kerr.UnknownTopicOrPartition},
		{"acks of two", 9, 2, "orders", 0, good(), kerr.InvalidRequiredAcks},
		{"an internal topic", 9, -1, "__consumer_offsets", 0, good(), kerr.InvalidTopicException},
		{"no records", 9, -1, "orders", 0, nil, kerr.InvalidRecord},
		{"two batches", 9, -1, "orders", 0, append(good(), good()...), kerr.InvalidRecord},
		{"a wrong CRC", 9, -1, "orders", 0, flip, kerr.CorruptMessage},
		{"a large batch", 9, -1, "orders", 0, batch(t, nil, value(string(make([]byte, 3000)))), kerr.MessageTooLarge},
		{"a timestamp ahead", 9, -1, "orders", 0, batch(t, nil, ahead), kerr.InvalidTimestamp},
		{"no key for compaction", 9, -1, "compacted", 0, good(), kerr.InvalidRecord},
		{"zstd below 7", 6, -1, "orders", 0, batch(t, func(o *record.Options) { o.Codec = record.Zstd }, value("v")), kerr.UnsupportedCompressionType},
	} {
		got := w.produced(c.version, c.acks, c.topic, [16]byte{9}, c.part, c.batch)
		want := int16(0)
		if c.want != nil {
			want = c.want.Code
		}
		if got.ErrorCode != want {
			t.Errorf("%s: code %d, want %d", c.what, got.ErrorCode, want)
		}
		if want != 0 && got.BaseOffset != -1 {
			t.Errorf("%s: refused at offset %d", c.what, got.BaseOffset)
		}
	}
	if got := w.produced(9, -1, "orders", [16]byte{}, 0, batch(t, nil, value("v"), ahead, value("v"), ahead)); len(got.ErrorRecords) != 2 || got.ErrorRecords[1].RelativeOffset != 3 {
		t.Errorf("the records at fault are %+v", got.ErrorRecords)
	}
}

func TestIdempotentProducersAreAnsweredAsBefore(t *testing.T) {
	r := start(t, t.TempDir(), nil, nil)
	defer r.stop()
	r.createTopic("orders", 1, nil)
	w := r.raw()
	init := kmsg.NewPtrInitProducerIDRequest()
	init.Version = 4
	first := w.ask(init).(*kmsg.InitProducerIDResponse)
	second := w.ask(init).(*kmsg.InitProducerIDResponse)
	if first.ErrorCode != 0 || first.ProducerID == second.ProducerID || first.ProducerEpoch != 0 {
		t.Fatalf("producer ids %+v and %+v", first, second)
	}
	send := func(seq int32, epoch int16) kmsg.ProduceResponseTopicPartition {
		return w.produced(9, -1, "orders", [16]byte{}, 0, batch(t, func(o *record.Options) {
			o.ProducerID, o.ProducerEpoch, o.BaseSequence = first.ProducerID, epoch, seq
		}, value("a"), value("b")))
	}
	for i := range int32(5) {
		if got := send(2*i, 0); got.ErrorCode != 0 || got.BaseOffset != int64(2*i) {
			t.Fatalf("sequence %d: %+v", 2*i, got)
		}
	}
	for i := range int32(5) {
		if got := send(2*i, 0); got.ErrorCode != 0 || got.BaseOffset != int64(2*i) {
			t.Errorf("sequence %d again: code %d at %d", 2*i, got.ErrorCode, got.BaseOffset)
		}
	}
	if got := send(20, 0); got.ErrorCode != kerr.OutOfOrderSequenceNumber.Code {
		t.Errorf("a gap: code %d", got.ErrorCode)
	}
	if got := send(0, 1); got.ErrorCode != 0 || got.BaseOffset != 10 {
		t.Errorf("a new epoch: %+v", got)
	}
	if got := send(10, 0); got.ErrorCode != kerr.InvalidProducerEpoch.Code {
		t.Errorf("the old epoch: code %d", got.ErrorCode)
	}
	txn := kmsg.NewPtrInitProducerIDRequest()
	txn.Version, txn.TransactionalID = 4, kmsg.StringPtr("txn")
	if got := w.ask(txn).(*kmsg.InitProducerIDResponse); got.ErrorCode == 0 {
		t.Error("a transactional id was accepted, and transactions are not served")
	}
	if got := w.produced(9, -1, "orders", [16]byte{}, 0, batch(t, func(o *record.Options) {
		o.ProducerID, o.ProducerEpoch, o.BaseSequence, o.Transactional = second.ProducerID, 0, 0, true
	}, value("a"))); got.ErrorCode != kerr.InvalidTxnState.Code {
		t.Errorf("a transactional batch: code %d", got.ErrorCode)
	}
}

func TestTopicsRestampAndRecompress(t *testing.T) {
	r := start(t, t.TempDir(), nil, nil)
	defer r.stop()
	r.createTopic("stamped", 1, map[string]string{"message.timestamp.type": "LogAppendTime"})
	r.createTopic("zipped", 1, map[string]string{"compression.type": "gzip"})
	w := r.raw()
	before := time.Now().UnixMilli()
	got := w.produced(9, -1, "stamped", [16]byte{}, 0, batch(t, nil, record.Record{Value: []byte("v"), Timestamp: 5}))
	if got.ErrorCode != 0 || got.LogAppendTime < before {
		t.Errorf("stamped at %d, before %d: code %d", got.LogAppendTime, before, got.ErrorCode)
	}
	for _, rec := range r.consume("stamped", 1) {
		if rec.Timestamp.UnixMilli() != got.LogAppendTime {
			t.Errorf("read with timestamp %v, acknowledged with %d", rec.Timestamp, got.LogAppendTime)
		}
	}
	if got := w.produced(9, -1, "zipped", [16]byte{}, 0, batch(t, func(o *record.Options) { o.Codec = record.Lz4 }, value("a"), value("b"))); got.ErrorCode != 0 {
		t.Fatalf("code %d", got.ErrorCode)
	}
	stored := w.fetched(fetches(11, "zipped", [16]byte{}, 0))
	h, err := record.ParseHeader(stored.RecordBatches)
	if err != nil || h.Codec() != record.Gzip || h.Count != 2 {
		t.Errorf("stored as %v with %d records, %v", h.Codec(), h.Count, err)
	}
}

func TestFetchAnswersWithKafkasCodes(t *testing.T) {
	r := start(t, t.TempDir(), nil, nil)
	defer r.stop()
	r.createTopic("orders", 1, nil)
	w := r.raw()
	id := w.topicID("orders")
	for range 3 {
		w.produced(9, -1, "orders", id, 0, batch(t, nil, value("v")))
	}
	epoch := func(e int32) func(*kmsg.FetchRequest) {
		return func(q *kmsg.FetchRequest) { q.Topics[0].Partitions[0].CurrentLeaderEpoch = e }
	}
	for _, c := range []struct {
		what   string
		req    *kmsg.FetchRequest
		change func(*kmsg.FetchRequest)
		want   int16
	}{
		{"what there is", fetches(13, "", id, 0), nil, 0},
		{"the end", fetches(13, "", id, 3), nil, 0},
		{"past the end", fetches(13, "", id, 4), nil, kerr.OffsetOutOfRange.Code},
		{"a negative offset", fetches(13, "", id, -5), nil, kerr.OffsetOutOfRange.Code},
		{"an unknown id", fetches(13, "", [16]byte{9}, 0), nil, kerr.UnknownTopicID.Code},
		{"an unknown name", fetches(11, "nothing", id, 0), nil, kerr.UnknownTopicOrPartition.Code},
		{"an epoch to come", fetches(11, "orders", id, 0), epoch(1000), kerr.UnknownLeaderEpoch.Code},
	} {
		if c.change != nil {
			c.change(c.req)
		}
		got := w.fetched(c.req)
		if got.ErrorCode != c.want {
			t.Errorf("%s: code %d, want %d", c.what, got.ErrorCode, c.want)
		}
		if c.want != 0 && (got.HighWatermark != -1 || got.LastStableOffset != -1) {
			t.Errorf("%s: high watermark %d with an error", c.what, got.HighWatermark)
		}
	}
	// The first batch comes whole even if the limits are smaller; nothing else does.
	small := fetches(11, "orders", id, 0)
	small.MaxBytes, small.Topics[0].Partitions[0].PartitionMaxBytes = 1, 1
	h, err := record.ParseHeader(w.fetched(small).RecordBatches)
	if err != nil || h.BaseOffset != 0 {
		t.Errorf("with a limit of one byte: offset %d, %v", h.BaseOffset, err)
	}
}

func TestAFetchWaitsForBytesOrForItsTime(t *testing.T) {
	r := start(t, t.TempDir(), nil, nil)
	defer r.stop()
	r.createTopic("orders", 1, nil)
	w, other := r.raw(), r.raw()
	empty := fetches(11, "orders", [16]byte{}, 0)
	empty.MaxWaitMillis = 300
	began := time.Now()
	if got := w.fetched(empty); got.ErrorCode != 0 || len(got.RecordBatches) != 0 {
		t.Fatalf("%+v", got)
	}
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("answered after %v, with nothing, before its time", took)
	}
	size := len(batch(t, nil, value("v")))
	late := fetches(11, "orders", [16]byte{}, 0)
	late.MaxWaitMillis, late.MinBytes = 1<<31-1, int32(2*size) // the test would give up first
	w.send(w.frame(late))
	for range 2 {
		other.produced(9, -1, "orders", [16]byte{}, 0, batch(t, nil, value("v")))
	}
	b, err := w.receive()
	if err != nil {
		t.Fatal(err)
	}
	if len(b) < 2*size {
		t.Errorf("answered with %d bytes, less than min_bytes", len(b))
	}
}

func TestAFetchSessionOmitsWhatDidNotChange(t *testing.T) {
	r := start(t, t.TempDir(), nil, nil)
	defer r.stop()
	r.createTopic("orders", 2, nil)
	w := r.raw()
	id := w.topicID("orders")
	req := fetches(13, "", id, 0)
	req.MinBytes, req.SessionEpoch = 0, 0
	second := req.Topics[0].Partitions[0]
	second.Partition = 1
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, second)
	full := w.ask(req).(*kmsg.FetchResponse)
	if full.SessionID == 0 || len(full.Topics) != 1 || len(full.Topics[0].Partitions) != 2 {
		t.Fatalf("the first answer is %+v", full)
	}
	next := kmsg.NewPtrFetchRequest()
	next.Version, next.ReplicaID, next.MaxBytes, next.SessionID, next.SessionEpoch = 13, -1, 1<<20, full.SessionID, 1
	if got := w.ask(next).(*kmsg.FetchResponse); got.ErrorCode != 0 || len(got.Topics) != 0 {
		t.Errorf("nothing changed, and %+v came", got)
	}
	w.produced(13, -1, "", id, 1, batch(t, nil, value("v")))
	next.SessionEpoch = 2
	got := w.ask(next).(*kmsg.FetchResponse)
	if len(got.Topics) != 1 || len(got.Topics[0].Partitions) != 1 || got.Topics[0].Partitions[0].Partition != 1 {
		t.Errorf("partition 1 changed, and %+v came", got)
	}
	next.SessionEpoch = 2
	if got := w.ask(next).(*kmsg.FetchResponse); got.ErrorCode != kerr.InvalidFetchSessionEpoch.Code {
		t.Errorf("a repeated epoch: code %d", got.ErrorCode)
	}
	next.SessionID, next.SessionEpoch = full.SessionID+1, 3
	if got := w.ask(next).(*kmsg.FetchResponse); got.ErrorCode != kerr.FetchSessionIDNotFound.Code {
		t.Errorf("an unknown session: code %d", got.ErrorCode)
	}
	next.Version, next.SessionID, next.SessionEpoch = 12, full.SessionID, 3
	if got := w.ask(next).(*kmsg.FetchResponse); got.ErrorCode != kerr.FetchSessionTopicIDError.Code {
		t.Errorf("names in a session of ids: code %d", got.ErrorCode)
	}
}

func TestListOffsetsAndDeleteRecords(t *testing.T) {
	r := start(t, t.TempDir(), nil, nil)
	defer r.stop()
	r.createTopic("orders", 1, nil)
	w := r.raw()
	base := time.Now().Add(-time.Hour).UnixMilli()
	for _, ts := range []int64{0, 100, 900, 200} {
		w.produced(9, -1, "orders", [16]byte{}, 0, batch(t, nil, record.Record{Value: []byte("v"), Timestamp: base + ts}))
	}
	at := func(version int16, timestamp int64) kmsg.ListOffsetsResponseTopicPartition {
		req := kmsg.NewPtrListOffsetsRequest()
		req.Version, req.ReplicaID = version, -1
		qt := kmsg.NewListOffsetsRequestTopic()
		qt.Topic = "orders"
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Timestamp, p.CurrentLeaderEpoch = timestamp, -1
		qt.Partitions = append(qt.Partitions, p)
		req.Topics = append(req.Topics, qt)
		return w.ask(req).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
	}
	for _, c := range []struct {
		version         int16
		timestamp       int64
		offset, foundTs int64
		code            int16
	}{
		{1, -1, 4, -1, 0}, {1, -2, 0, -1, 0}, {11, -4, 0, -1, 0},
		{7, -3, 2, base + 900, 0}, {11, base + 101, 2, base + 900, 0}, {11, base, 0, base, 0}, {11, base + 901, -1, -1, 0},
		{9, -5, -1, -1, 0}, {11, -6, -1, -1, 0},
		{6, -3, -1, -1, kerr.UnsupportedVersion.Code}, {7, -4, -1, -1, kerr.UnsupportedVersion.Code}, {11, -9, -1, -1, kerr.UnsupportedVersion.Code},
	} {
		got := at(c.version, c.timestamp)
		if got.Offset != c.offset || got.Timestamp != c.foundTs || got.ErrorCode != c.code {
			t.Errorf("version %d, time %d: %+v, want offset %d, timestamp %d, code %d", c.version, c.timestamp, got, c.offset, c.foundTs, c.code)
		}
	}
	del := samples([16]byte{})[21]().(*kmsg.DeleteRecordsRequest)
	del.Version, del.Topics[0].Partitions[0].Offset = 2, 3
	if got := w.ask(del).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0]; got.ErrorCode != 0 || got.LowWatermark != 3 {
		t.Errorf("deleting below 3: %+v", got)
	}
	if got := at(11, -2); got.Offset != 3 {
		t.Errorf("the log begins at %d", got.Offset)
	}
	if got := w.fetched(fetches(11, "orders", [16]byte{}, 2)); got.ErrorCode != kerr.OffsetOutOfRange.Code {
		t.Errorf("a deleted record: code %d", got.ErrorCode)
	}
	del.Topics[0].Partitions[0].Offset = 9
	if got := w.ask(del).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0]; got.ErrorCode != kerr.OffsetOutOfRange.Code {
		t.Errorf("deleting what is not there: %+v", got)
	}
	del.Topics[0].Partitions[0].Offset = -1
	if got := w.ask(del).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0]; got.LowWatermark != 4 {
		t.Errorf("deleting everything: %+v", got)
	}
}

// A restart begins a new leader epoch; who believes in the old one is told.
func TestARestartFencesTheOldLeaderEpoch(t *testing.T) {
	dir := t.TempDir()
	r := start(t, dir, nil, nil)
	r.createTopic("orders", 1, nil)
	w := r.raw()
	w.produced(9, -1, "orders", [16]byte{}, 0, batch(t, nil, value("v")))
	ends := func(current, epoch int32) kmsg.OffsetForLeaderEpochResponseTopicPartition {
		req := samples([16]byte{})[23]().(*kmsg.OffsetForLeaderEpochRequest)
		req.Version = 4
		req.Topics[0].Partitions[0].CurrentLeaderEpoch, req.Topics[0].Partitions[0].LeaderEpoch = current, epoch
		return w.ask(req).(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions[0]
	}
	epochNow := func() int32 {
		req := kmsg.NewPtrMetadataRequest()
		req.Version = 12
		return w.ask(req).(*kmsg.MetadataResponse).Topics[0].Partitions[0].LeaderEpoch
	}
	first := epochNow()
	r.stop()
	r = start(t, dir, nil, nil)
	defer r.stop()
	w = r.raw()
	w.produced(9, -1, "orders", [16]byte{}, 0, batch(t, nil, value("w")))
	now := epochNow()
	if now <= first {
		t.Fatalf("epoch %d after %d", now, first)
	}
	if got := ends(now, first); got.ErrorCode != 0 || got.EndOffset != 1 || got.LeaderEpoch != first {
		t.Errorf("epoch %d ends: %+v, want offset 1", first, got)
	}
	if got := ends(first, first); got.ErrorCode != kerr.FencedLeaderEpoch.Code {
		t.Errorf("believing in epoch %d: code %d", first, got.ErrorCode)
	}
	stale := fetches(11, "orders", [16]byte{}, 0)
	stale.Topics[0].Partitions[0].CurrentLeaderEpoch = first
	if got := w.fetched(stale); got.ErrorCode != kerr.FencedLeaderEpoch.Code {
		t.Errorf("fetching in epoch %d: code %d", first, got.ErrorCode)
	}
}

// acks=0 has no reply, and an error ends the connection.
func TestUnacknowledgedProduces(t *testing.T) {
	r := start(t, t.TempDir(), nil, nil)
	defer r.stop()
	r.createTopic("orders", 1, nil)
	w := r.raw()
	req := samples([16]byte{})[0]().(*kmsg.ProduceRequest)
	req.Version, req.Acks = 9, 0
	w.send(w.frame(req))
	if got := w.produced(9, 1, "orders", [16]byte{}, 0, batch(t, nil, value("v"))); got.BaseOffset != 1 {
		t.Errorf("the next append is at %d, want 1", got.BaseOffset)
	}
	req.Topics[0].Topic = "nothing"
	w.send(w.frame(req))
	w.closed("acks=0 to nowhere")
}

func TestDescribeTopicPartitionsPagesThroughAll(t *testing.T) {
	r := start(t, t.TempDir(), nil, nil)
	defer r.stop()
	r.createTopic("a", 3, nil)
	r.createTopic("b", 4, nil)
	w := r.raw()
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = 2
	seen := map[string]int32{}
	for range 10 {
		resp := w.ask(req).(*kmsg.DescribeTopicPartitionsResponse)
		for _, topic := range resp.Topics {
			for _, p := range topic.Partitions {
				if p.Partition != seen[*topic.Topic] || p.LeaderID != 1 {
					t.Fatalf("%s: partition %d led by %d after %d", *topic.Topic, p.Partition, p.LeaderID, seen[*topic.Topic])
				}
				seen[*topic.Topic]++
			}
		}
		if resp.NextCursor == nil {
			break
		}
		req.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: resp.NextCursor.Topic, Partition: resp.NextCursor.Partition}
	}
	if seen["a"] != 3 || seen["b"] != 4 {
		t.Errorf("saw %v", seen)
	}
}

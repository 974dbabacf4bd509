package node_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/storage/record"
)

// raw is a connection on which a test says exactly what it wants.
type raw struct {
	t    testing.TB
	c    net.Conn
	next int32
}

func (r *running) raw() *raw {
	r.t.Helper()
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	return &raw{t: r.t, c: c}
}

// frame is the request with its size and header.
func (w *raw) frame(req kmsg.Request) []byte {
	w.next++
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("wire-test")).AppendRequest(nil, req, w.next)
}

func (w *raw) send(b []byte) {
	w.t.Helper()
	if _, err := w.c.Write(b); err != nil {
		w.t.Fatal(err)
	}
}

// receive reads one reply's frame.
func (w *raw) receive() ([]byte, error) {
	_ = w.c.SetReadDeadline(time.Now().Add(patience))
	var size [4]byte
	if _, err := io.ReadFull(w.c, size[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(w.c, b)
	return b, err
}

// ask sends a request and decodes the reply, which must be exactly what kmsg would encode.
func (w *raw) ask(req kmsg.Request) kmsg.Response {
	w.t.Helper()
	w.send(w.frame(req))
	b, err := w.receive()
	if err != nil {
		w.t.Fatalf("%s %d: %v", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	if id := int32(binary.BigEndian.Uint32(b)); id != w.next {
		w.t.Fatalf("reply %d to request %d", id, w.next)
	}
	b = b[4:]
	if req.IsFlexible() && req.Key() != int16(kmsg.ApiVersions) {
		b = b[1:]
	}
	resp := req.ResponseKind()
	if err := resp.ReadFrom(b); err != nil {
		w.t.Fatalf("%s %d: the reply does not decode: %v", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	if again := resp.AppendTo(nil); !bytes.Equal(again, b) {
		w.t.Fatalf("%s %d: the reply is\n%x, kmsg encodes\n%x", kmsg.NameForKey(req.Key()), req.GetVersion(), b, again)
	}
	return resp
}

// closed checks that the node ends the connection without an answer.
func (w *raw) closed(what string) {
	w.t.Helper()
	b, err := w.receive()
	if err == nil {
		w.t.Errorf("%s: answered with %d bytes", what, len(b))
		return
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		w.t.Errorf("%s: the connection stays open without an answer", what)
	}
}

func apiVersions(w *raw, version int16) *kmsg.ApiVersionsResponse {
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = version, "wire", "1.0"
	return w.ask(req).(*kmsg.ApiVersionsResponse)
}

// listed is what a broker serves: key, lowest and highest version.
var listed = [][3]int16{
	{0, 0, 13}, {1, 4, 18}, {2, 1, 11}, {3, 0, 13}, {8, 2, 10}, {9, 1, 10}, {10, 0, 6}, {11, 0, 9}, {12, 0, 4},
	{13, 0, 5}, {14, 0, 5}, {15, 0, 6}, {16, 0, 5}, {18, 0, 4}, {19, 2, 7}, {20, 1, 6}, {21, 0, 2}, {22, 0, 5},
	{23, 2, 4}, {32, 1, 4}, {33, 0, 2}, {34, 1, 2}, {35, 1, 5}, {37, 0, 3}, {43, 0, 2}, {44, 0, 1}, {45, 0, 1},
	{46, 0, 0}, {55, 0, 2}, {57, 0, 2}, {60, 0, 2}, {64, 0, 0}, {74, 0, 1}, {75, 0, 0}, {80, 0, 1}, {81, 0, 0},
}

func TestApiVersionsListsWhatIsServed(t *testing.T) {
	r := start(t, t.TempDir(), nil, nil)
	defer r.stop()
	w := r.raw()
	for version := int16(0); version <= 4; version++ {
		resp := apiVersions(w, version)
		var got [][3]int16
		for _, k := range resp.ApiKeys {
			got = append(got, [3]int16{k.ApiKey, k.MinVersion, k.MaxVersion})
		}
		if len(got) != len(listed) {
			t.Fatalf("version %d lists %v", version, got)
		}
		for i := range got {
			if got[i] != listed[i] {
				t.Errorf("version %d lists %v, want %v", version, got[i], listed[i])
			}
		}
	}
	finalized := map[string]int16{}
	for _, f := range apiVersions(w, 4).FinalizedFeatures {
		finalized[f.Name] = f.MaxVersionLevel
	}
	if finalized["metadata.version"] < 20 || finalized["kraft.version"] != 1 {
		t.Errorf("finalized features %v", finalized)
	}
	for _, f := range apiVersions(w, 3).SupportedFeatures {
		if f.MinVersion == 0 {
			t.Errorf("version 3 lists %s from 0, which its clients do not take (KAFKA-17011)", f.Name)
		}
	}
}

// An ApiVersions from the future is answered in version 0, so that the client can ask again.
func TestAnUnknownApiVersionsIsAnsweredInVersionZero(t *testing.T) {
	r := start(t, t.TempDir(), nil, nil)
	defer r.stop()
	w := r.raw()
	w.send([]byte{0, 0, 0, 12, 0, 18, 0, 99, 0, 0, 0, 7, 0xff, 0xff, 0, 0})
	b, err := w.receive()
	if err != nil {
		t.Fatal(err)
	}
	resp := kmsg.NewPtrApiVersionsResponse()
	if err := resp.ReadFrom(b[4:]); err != nil || resp.ErrorCode != kerr.UnsupportedVersion.Code {
		t.Fatalf("answered %+v, %v", resp, err)
	}
	apiVersions(w, 3)
}

// samples are requests with something in them, by key.
func samples(topicID [16]byte) map[int16]func() kmsg.Request {
	topic := "orders"
	return map[int16]func() kmsg.Request{
		0: func() kmsg.Request {
			q := kmsg.NewPtrProduceRequest()
			q.Acks, q.TimeoutMillis = -1, int32(patience.Milliseconds())
			qt := kmsg.NewProduceRequestTopic()
			qt.Topic, qt.TopicID = topic, topicID
			p := kmsg.NewProduceRequestTopicPartition()
			p.Records, _ = record.AppendBatch(nil, record.NewOptions(0), nil, record.Record{Value: []byte("v")})
			qt.Partitions = append(qt.Partitions, p)
			q.Topics = append(q.Topics, qt)
			return q
		},
		1: func() kmsg.Request {
			q := kmsg.NewPtrFetchRequest()
			q.MaxBytes, q.ReplicaID, q.SessionEpoch = 1<<20, -1, -1
			qt := kmsg.NewFetchRequestTopic()
			qt.Topic, qt.TopicID = topic, topicID
			p := kmsg.NewFetchRequestTopicPartition()
			p.PartitionMaxBytes, p.CurrentLeaderEpoch = 1<<20, -1
			qt.Partitions = append(qt.Partitions, p)
			q.Topics = append(q.Topics, qt)
			return q
		},
		2: func() kmsg.Request {
			q := kmsg.NewPtrListOffsetsRequest()
			q.ReplicaID = -1
			qt := kmsg.NewListOffsetsRequestTopic()
			qt.Topic = topic
			p := kmsg.NewListOffsetsRequestTopicPartition()
			p.Timestamp, p.CurrentLeaderEpoch = -1, -1
			qt.Partitions = append(qt.Partitions, p)
			q.Topics = append(q.Topics, qt)
			return q
		},
		3: func() kmsg.Request {
			q := kmsg.NewPtrMetadataRequest()
			qt := kmsg.NewMetadataRequestTopic()
			qt.Topic = &topic
			q.Topics = append(q.Topics, qt)
			return q
		},
		18: func() kmsg.Request {
			q := kmsg.NewPtrApiVersionsRequest()
			q.ClientSoftwareName, q.ClientSoftwareVersion = "wire", "1"
			return q
		},
		19: func() kmsg.Request {
			q := kmsg.NewPtrCreateTopicsRequest()
			qt := kmsg.NewCreateTopicsRequestTopic()
			qt.Topic, qt.NumPartitions, qt.ReplicationFactor = topic, 1, 1
			q.Topics = append(q.Topics, qt)
			return q
		},
		20: func() kmsg.Request {
			q := kmsg.NewPtrDeleteTopicsRequest()
			q.TopicNames = []string{"nothing"}
			qt := kmsg.NewDeleteTopicsRequestTopic()
			qt.Topic = kmsg.StringPtr("nothing")
			q.Topics = append(q.Topics, qt)
			return q
		},
		21: func() kmsg.Request {
			q := kmsg.NewPtrDeleteRecordsRequest()
			qt := kmsg.NewDeleteRecordsRequestTopic()
			qt.Topic = topic
			p := kmsg.NewDeleteRecordsRequestTopicPartition()
			p.Offset = 1
			qt.Partitions = append(qt.Partitions, p)
			q.Topics = append(q.Topics, qt)
			return q
		},
		23: func() kmsg.Request {
			q := kmsg.NewPtrOffsetForLeaderEpochRequest()
			qt := kmsg.NewOffsetForLeaderEpochRequestTopic()
			qt.Topic = topic
			p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			p.CurrentLeaderEpoch = -1
			qt.Partitions = append(qt.Partitions, p)
			q.Topics = append(q.Topics, qt)
			return q
		},
		32: func() kmsg.Request {
			q := kmsg.NewPtrDescribeConfigsRequest()
			q.IncludeSynonyms, q.IncludeDocumentation = true, true
			for kind, name := range map[kmsg.ConfigResourceType]string{2: topic, 4: "1"} {
				res := kmsg.NewDescribeConfigsRequestResource()
				res.ResourceType, res.ResourceName = kind, name
				q.Resources = append(q.Resources, res)
			}
			return q
		},
		35: func() kmsg.Request { return kmsg.NewPtrDescribeLogDirsRequest() },
		37: func() kmsg.Request {
			q := kmsg.NewPtrCreatePartitionsRequest()
			qt := kmsg.NewCreatePartitionsRequestTopic()
			qt.Topic, qt.Count = topic, 1
			q.Topics = append(q.Topics, qt)
			return q
		},
		44: func() kmsg.Request {
			q := kmsg.NewPtrIncrementalAlterConfigsRequest()
			res := kmsg.NewIncrementalAlterConfigsRequestResource()
			res.ResourceType, res.ResourceName = 2, topic
			entry := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			entry.Name, entry.Value = "retention.ms", kmsg.StringPtr("1000")
			res.Configs = append(res.Configs, entry)
			q.Resources = append(q.Resources, res)
			return q
		},
		60: func() kmsg.Request { return kmsg.NewPtrDescribeClusterRequest() },
		75: func() kmsg.Request {
			q := kmsg.NewPtrDescribeTopicPartitionsRequest()
			q.ResponsePartitionLimit = 10
			return q
		},
	}
}

// Every listed version of every key is answered with something that kmsg decodes and
// encodes back to the same bytes.
func TestEveryListedVersionIsAnswered(t *testing.T) {
	r := start(t, t.TempDir(), nil, nil)
	defer r.stop()
	r.createTopic("orders", 1, nil)
	r.produce("orders", "v", 3)
	w := r.raw()
	ask := kmsg.NewPtrMetadataRequest()
	ask.Version = 12
	sample := samples(w.ask(ask).(*kmsg.MetadataResponse).Topics[0].TopicID)
	for _, k := range listed {
		for version := k[1]; version <= k[2]; version++ {
			if k[0] == 0 && version < 3 {
				continue // refused: see below
			}
			req := kmsg.RequestForKey(k[0])
			if f := sample[k[0]]; f != nil {
				req = f()
			}
			req.SetVersion(version)
			w.ask(req)
		}
	}
}

// Truncated, unknown and oversized requests end the connection, as in Kafka, and nothing
// else; afterwards the node serves on.
func TestBadRequestsEndTheirConnectionOnly(t *testing.T) {
	r := start(t, t.TempDir(), nil, nil)
	defer r.stop()
	r.createTopic("orders", 1, nil)
	header := func(key, version byte) []byte { return []byte{0, key, 0, version, 0, 0, 0, 1, 0xff, 0xff} }
	frame := func(b []byte) []byte { return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...) }
	for what, b := range map[string][]byte{
		"produce below 3":        frame(append(header(0, 2), 0, 1, 0, 0, 0, 0, 0, 0, 0, 0)),
		"an unknown key":         frame(header(99, 0)),
		"an unknown version":     frame(header(3, 77)),
		"a truncated body":       frame(append(header(3, 1), 0, 0, 0, 5, 0)),
		"a negative length":      {0xff, 0xff, 0xff, 0xff},
		"an enormous length":     {0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 9, 0, 0, 0, 1},
		"a large small request":  {0, 0x20, 0, 0, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff},
		"topics that do not fit": frame(append(header(3, 1), 0x7f, 0xff, 0xff, 0xff)),
		"a short produce":        frame(append(header(0, 3), 0xff, 0xff, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1)),
		"a short fetch":          frame(append(header(1, 4), 0xff, 0xff, 0xff, 0xff, 0, 0)),
	} {
		w := r.raw()
		w.send(b)
		w.closed(what)
	}
	r.produce("orders", "v", 10)
	values(t, r.consume("orders", 10), "v", 10)
}

// A request whose frame arrives byte by byte is answered like any other.
func TestATricklingRequestIsAnswered(t *testing.T) {
	r := start(t, t.TempDir(), nil, nil)
	defer r.stop()
	w := r.raw()
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 9
	for _, b := range w.frame(req) {
		w.send([]byte{b})
	}
	if b, err := w.receive(); err != nil || len(b) < 10 {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
}

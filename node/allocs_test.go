package node_test

import (
	"encoding/binary"
	"io"
	"runtime"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/storage/record"
)

// allocsMax is how many allocations a produce and a fetch may take, both ends of the
// connection and the log included.
const allocsMax = 8

// exchange writes one prepared frame and reads its reply into buf.
func (w *raw) exchange(frame, buf []byte) int {
	if _, err := w.c.Write(frame); err != nil {
		w.t.Fatal(err)
	}
	if _, err := io.ReadFull(w.c, buf[:4]); err != nil {
		w.t.Fatal(err)
	}
	n := int(binary.BigEndian.Uint32(buf))
	if _, err := io.ReadFull(w.c, buf[4:4+n]); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// allocations is the number of allocations in the process for each of n exchanges.
func (w *raw) allocations(n int, frame, buf []byte) float64 {
	for range 200 {
		w.exchange(frame, buf)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range n {
		w.exchange(frame, buf)
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / float64(n)
}

func TestProduceAndFetchAllocateLittle(t *testing.T) {
	r := start(t, t.TempDir(), nil, nil)
	defer r.stop()
	r.createTopic("orders", 1, nil)
	w := r.raw()
	meta := kmsg.NewPtrMetadataRequest()
	meta.Version = 12
	sample := samples(w.ask(meta).(*kmsg.MetadataResponse).Topics[0].TopicID)
	buf := make([]byte, 1<<20)

	values := make([]record.Record, 10)
	for i := range values {
		values[i].Value = make([]byte, 100)
	}
	batch, err := record.AppendBatch(nil, record.NewOptions(0), nil, values...)
	if err != nil {
		t.Fatal(err)
	}
	for _, acks := range []int16{1, -1} {
		for _, version := range []int16{9, 13} {
			req := sample[0]().(*kmsg.ProduceRequest)
			req.Version, req.Acks, req.Topics[0].Partitions[0].Records = version, acks, batch
			got := w.allocations(2000, w.frame(req), buf)
			t.Logf("produce %d, acks=%d: %.2f allocations", version, acks, got)
			if got >= allocsMax {
				t.Errorf("produce %d, acks=%d: %.2f allocations", version, acks, got)
			}
		}
	}
	for _, version := range []int16{4, 11, 13, 18} {
		req := sample[1]().(*kmsg.FetchRequest)
		req.Version = version
		req.Topics[0].Partitions[0].PartitionMaxBytes = 16 << 10
		got := w.allocations(2000, w.frame(req), buf)
		t.Logf("fetch %d: %.2f allocations", version, got)
		if got >= allocsMax {
			t.Errorf("fetch %d: %.2f allocations", version, got)
		}
	}
}

package node_test

import (
	"testing"
	"time"

	"seedlog/storage/record"
)

// A fetch of thousands of partitions that waits for news holds nothing that a producer waits for:
// the memory of requests is as large as the frame of one of the two.
func TestAFetchThatWaitsHoldsNoFrame(t *testing.T) {
	r := start(t, t.TempDir(), map[string]string{"queued.max.request.bytes": "65536"}, nil)
	defer r.stop()
	r.createTopic("x", 1, nil)
	r.createTopic("y", 1, nil)
	for _, version := range []int16{4, 11, 12} {
		wide := fetches(version, "x", [16]byte{}, 0)
		wide.Rack, wide.MaxWaitMillis = "a", int32(2*patience/time.Millisecond)
		p := wide.Topics[0].Partitions[0]
		for range 2500 {
			wide.Topics[0].Partitions = append(wide.Topics[0].Partitions, p)
		}
		slow := r.raw()
		slow.send(slow.frame(wide))
		w := r.raw()
		for range 3 { // the first may overtake the fetch
			b := batch(t, nil, record.Record{Value: make([]byte, 40_000), Timestamp: time.Now().UnixMilli()})
			if p := w.produced(9, -1, "y", [16]byte{}, 0, b); p.ErrorCode != 0 {
				t.Fatalf("fetch version %d: produce is answered with %d", version, p.ErrorCode)
			}
		}
	}
}

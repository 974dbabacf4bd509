package node_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/node/event"
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

// One address takes no more connections than it may; those that it has are served on.
func TestOneAddressHasSoManyConnections(t *testing.T) {
	sink := newComplaints(t)
	sink.on = func(e event.Event) bool { _, ok := e.(event.AcceptFailed); return ok }
	r := start(t, t.TempDir(), map[string]string{"max.connections.per.ip": "2"}, &sink.events)
	defer r.stop()
	metadata := func() kmsg.Request { return kmsg.NewPtrMetadataRequest() }
	first, second := r.raw(), r.raw()
	first.ask(metadata())
	second.ask(metadata())
	third := r.raw()
	_ = third.c.SetReadDeadline(time.Now().Add(patience))
	if _, err := third.c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a third connection: %v", err)
	}
	second.ask(metadata())
}

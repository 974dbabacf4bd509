package node_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Clients that ask for a lot and never read hold their connection, not the node's memory,
// and are sent away when they have been idle for long enough.
func TestClientsThatNeverRead(t *testing.T) {
	const clients, each = 60, 50
	sink := newComplaints(t)
	r := start(t, t.TempDir(), map[string]string{"connections.max.idle.ms": "3000"}, &sink.events)
	defer r.stop()
	r.createTopic("x", 1, nil)
	c := r.client(kgo.DefaultProduceTopic("x"), kgo.ProducerBatchCompression(kgo.NoCompression()))
	for range 40 {
		if err := c.ProduceSync(timeout(t), &kgo.Record{Value: make([]byte, 900<<10)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	c.Close()
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Version = 9
	grew := peak(func() {
		for i := range clients {
			w := r.raw()
			var req kmsg.Request = fetches(12, "x", [16]byte{}, 0)
			if i%3 == 0 {
				req = metadata
			}
			for range each {
				b := w.frame(req)
				_ = w.c.SetWriteDeadline(time.Now().Add(patience))
				if _, err := w.c.Write(b); err != nil {
					t.Logf("client %d was sent away already: %v", i, err) // it is counted below
					break
				}
			}
		}
		// The others are served meanwhile.
		r.produce("orders", "v", 10)
		values(t, r.consume("orders", 10), "v", 10)
	})
	t.Logf("%d clients with %d requests each: %d MB", clients, each, grew>>20)
	if grew > 64<<20 {
		t.Errorf("%d clients that do not read take %d MB", clients, grew>>20)
	}
	// Whether the answers fit into the kernel's buffers or not.
	deadline := time.Now().Add(patience)
	for gone := 0; gone < clients; {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d were sent away", gone, clients)
		}
		<-time.After(50 * time.Millisecond)
		sink.mu.Lock()
		gone = sink.timedOut
		sink.mu.Unlock()
	}
}

// A fetch that nobody waits for any more ends with the time that a connection may be idle,
// however long it wanted to wait.
func TestAFetchWaitsNoLongerThanAConnectionMayBeIdle(t *testing.T) {
	r := start(t, t.TempDir(), map[string]string{"connections.max.idle.ms": "700"}, nil)
	defer r.stop()
	r.createTopic("x", 1, nil)
	w := r.raw()
	req := fetches(12, "x", [16]byte{}, 0)
	req.MaxWaitMillis, req.MinBytes = 1<<31-1, 1<<20
	began := time.Now()
	if p := w.fetched(req); p.ErrorCode != 0 || len(p.RecordBatches) > 0 {
		t.Errorf("answered with %d and %d bytes", p.ErrorCode, len(p.RecordBatches))
	}
	if d := time.Since(began); d < 600*time.Millisecond {
		t.Errorf("answered after %v", d)
	}
}

// A large frame that trickles in is cut off by its own time-out, whatever else is sent.
func TestALargeFrameThatTricklesInHoldsNoMoreThanItself(t *testing.T) {
	r := start(t, t.TempDir(), map[string]string{"queued.max.request.bytes": "8388608", "connections.max.idle.ms": "2000"}, nil)
	defer r.stop()
	r.createTopic("x", 1, nil)
	// Seven announce a megabyte each, send a little, and fill the budget; one waits.
	for range 9 {
		w := r.raw()
		w.send([]byte{0, 0x0f, 0xff, 0xff, 0, 0, 0, 9, 0, 0, 0, 1, 0xff, 0xff, 0})
	}
	// Small requests do not need it, and a produce of a few records neither.
	w := r.raw()
	if p := w.produced(9, 1, "x", [16]byte{}, 0, batch(t, nil, value("small"))); p.ErrorCode != 0 {
		t.Errorf("produce: code %d", p.ErrorCode)
	}
}

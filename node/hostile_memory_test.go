package node_test

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/node/api/apitest"
)

// peak runs fn and returns by how much the heap grew meanwhile, garbage included.
func peak(fn func()) int64 {
	defer debug.SetGCPercent(debug.SetGCPercent(25))
	runtime.GC()
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(heap)
	base, top := heap[0].Value.Uint64(), uint64(0)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				metrics.Read(heap)
				top = max(top, heap[0].Value.Uint64())
			}
		}
	}()
	fn()
	close(stop)
	wg.Wait()
	return int64(top) - int64(base)
}

// long tells whether the tests that take minutes are wanted.
func long(t *testing.T) {
	t.Helper()
	if os.Getenv("SEEDLOG_LONG") == "" {
		t.Skip("NOT TESTED: takes minutes; set SEEDLOG_LONG=1")
	}
}

// As many elements as a frame holds, in each array of each request: what the request and
// its answer take stays within what all requests may take together.
func TestWideRequestsStayWithinTheBudget(t *testing.T) {
	long(t)
	r := start(t, t.TempDir(), nil, nil)
	defer r.stop()
	r.createTopic("x", 1, nil)
	for _, k := range listed {
		size := 2<<20 - 4096
		switch k[0] {
		case 0, 1:
			continue // decoded by hand, and counted
		case 12, 16, 18, 22, 60, 74:
			size = 60 << 10
		case 32:
			size = 250 << 10
		}
		for _, version := range []int16{k[1], k[2]} {
			for _, filled := range []bool{false, true} {
				for _, req := range apitest.Wide(k[0], version, size, filled) {
					r.wide(req)
				}
			}
		}
	}
}

func (r *running) wide(req kmsg.Request) {
	w := r.raw()
	b := w.frame(req)
	var reply []byte
	var err error
	began := time.Now()
	grew := peak(func() {
		w.send(b)
		reply, err = w.receive()
	})
	what := fmt.Sprintf("%s %d: %d bytes, answer %d (%v), %d MB in %v", kmsg.NameForKey(req.Key()), req.GetVersion(), len(b), len(reply), err, grew>>20, time.Since(began))
	if grew > 300<<20 { // 256 MiB and the frame, its answer and garbage
		r.t.Error(what)
	} else {
		r.t.Log(what)
	}
}

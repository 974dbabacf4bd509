package main

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"

	"seedlog/clock"
	"seedlog/clock/live"
	"seedlog/clock/task"
	"seedlog/node"
	"seedlog/node/config"
)

// nodeHere runs a node in this process while fn runs, on a host that others may change.
func nodeHere(dir string, fn func(addr string) error, change ...func(*node.Host)) error {
	props := map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": dir, "offsets.topic.replication.factor": "1"}
	cfg, _, err := config.Parse(props)
	if err != nil {
		return err
	}
	rt := live.New(live.Options{})
	host := liveHost(rt, logSink{discardLog})
	host.Format = true
	for _, f := range change {
		f(&host)
	}
	var ran, fnErr error
	live.Main(rt, func(t *task.T) {
		n := node.New(host, *cfg)
		g := t.Group().Sub("client")
		g.Go("client", func(t *task.T) {
			if n.Ready().Wait(t, clock.Never) == task.Woken {
				fnErr = fn(n.Addr())
			}
			n.Stop()
		})
		ran = n.Run(t)
		g.Stop()
		g.Wait(t)
	})
	return errors.Join(ran, fnErr)
}

// allocs counts allocations of the whole process, of which the client makes none, for every
// produce and every fetch.
func (r *limitsRun) allocs() error {
	dir, remove, err := benchDir(r.memory)
	if err != nil {
		return err
	}
	defer remove()
	return nodeHere(dir, func(addr string) error {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			return err
		}
		c := newBenchConn(nc.(*net.TCPConn))
		defer c.close()
		for _, size := range []int{1, 16 << 10, 1 << 20} {
			if err := r.allocsOf(c, size); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *limitsRun) allocsOf(c *benchConn, size int) error {
	batch, records, err := benchBatch(size, r.recordSize)
	if err != nil {
		return err
	}
	topic := fmt.Sprintf("allocs-%d", size)
	if err := c.createTopic(topic, benchTopicSettings...); err != nil {
		return err
	}
	frame := c.produceFrame(topic, -1, batch)
	n := max(50, min(2000, (16<<20)/len(batch)))
	if err := c.oneByOne(topic, frame, n); err != nil { // warms up
		return err
	}
	produce, err := mallocsOf(n, func() error { return c.oneByOne(topic, frame, n) })
	if err != nil {
		return err
	}
	if err := c.fetch(topic, n, len(batch), records, 1); err != nil {
		return err
	}
	fetch, err := mallocsOf(n, func() error { return c.fetch(topic, n, len(batch), records, 1) })
	if err != nil {
		return err
	}
	r.say("allocations, requests of %d bytes: %.2f per produce, %.2f per fetch, under %d", len(batch), produce, fetch, allocsMax)
	return c.deleteTopic(topic)
}

// mallocsOf is the median of three runs, for a ticking node allocates now and then.
func mallocsOf(n int, fn func() error) (float64, error) {
	var runs []float64
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := fn(); err != nil {
			return 0, err
		}
		runtime.ReadMemStats(&after)
		runs = append(runs, float64(after.Mallocs-before.Mallocs)/float64(n))
	}
	slices.Sort(runs)
	return runs[1], nil
}

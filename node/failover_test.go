package node_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// writer produces numbered records with acks=all, idempotently, until it is told to stop.
type writer struct {
	cl      *kgo.Client
	topic   string
	mu      sync.Mutex
	acked   []string
	longest time.Duration // between two acknowledgements
	stop    context.CancelFunc
	done    chan struct{}
}

func (c *cluster) writer(topic string) *writer {
	ctx, stop := context.WithCancel(context.Background())
	w := &writer{cl: c.client(kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.MetadataMinAge(50*time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond })), topic: topic, stop: stop, done: make(chan struct{})}
	c.t.Cleanup(w.end)
	go func() {
		defer close(w.done)
		last := time.Now()
		for i := 0; ctx.Err() == nil; i++ {
			v := fmt.Sprint("r", i)
			err := w.cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(v)}).FirstErr()
			if err != nil {
				if !errors.Is(err, context.Canceled) {
					c.t.Errorf("produce: %v", err)
				}
				return
			}
			w.mu.Lock()
			w.acked = append(w.acked, v)
			w.longest = max(w.longest, time.Since(last))
			last = time.Now()
			w.mu.Unlock()
		}
	}()
	return w
}

// end stops the writer, if it still writes.
func (w *writer) end() {
	w.stop()
	<-w.done
	w.cl.Close()
}

func (w *writer) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.acked)
}

// finish stops the writer and checks that each acknowledged record is there exactly once.
func (c *cluster) finish(w *writer) {
	c.t.Helper()
	w.end()
	adm := c.admin()
	defer adm.Close()
	var total int64
	// A new leader does not say where a log ends before it knows (OFFSET_NOT_AVAILABLE).
	c.await("all ends known", func() bool {
		ends, err := adm.ListEndOffsets(timeout(c.t), w.topic)
		if err != nil || ends.Error() != nil {
			return false
		}
		total = 0
		ends.Each(func(o kadm.ListedOffset) { total += o.Offset })
		return true
	})
	cl := c.client(kgo.ConsumeTopics(w.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer cl.Close()
	got := map[string]int{}
	ctx := timeout(c.t)
	for n := int64(0); n < total; {
		fs := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			c.t.Fatalf("%d of %d records could be read", n, total)
		}
		fs.EachRecord(func(r *kgo.Record) { got[string(r.Value)]++; n++ })
	}
	for _, v := range w.acked {
		if got[v] != 1 {
			c.t.Errorf("acknowledged record %s is there %d times", v, got[v])
		}
	}
	c.t.Logf("%d acknowledged, %d stored; the longest gap was %v", len(w.acked), total, w.longest)
}

// Each node in turn is stopped cleanly and started again, the active controller among them,
// while a producer writes with acks=all: nothing that was acknowledged is lost or doubled.
func TestARollingRestartLosesNothing(t *testing.T) {
	c := newCluster(t, 3, false, map[string]string{"min.insync.replicas": "2"})
	c.start()
	c.createTopic("t", 3, 3, nil)
	w := c.writer("t")
	for _, m := range c.members {
		before := w.count()
		c.await("written to", func() bool { return w.count() > before+20 })
		c.await("in sync", func() bool { return c.inSync("t", 3) })
		if err := m.stop(); err != nil {
			t.Fatal(err)
		}
		before = w.count()
		c.await("written to without one", func() bool { return w.count() > before+20 })
		m.run()
		m.ready()
	}
	c.await("in sync", func() bool { return c.inSync("t", 3) })
	c.finish(w)
}

// inSync reports whether all partitions have so many replicas in sync. All brokers that run
// must say so: one that is behind says how it was before the last stop.
func (c *cluster) inSync(topic string, n int) bool {
	for _, m := range c.members {
		if m.n == nil || !m.isBroker() {
			continue
		}
		parts := m.partitions(topic)
		if len(parts) == 0 || slices.ContainsFunc(parts, func(p kmsg.MetadataResponseTopicPartition) bool { return len(p.ISR) != n || p.Leader < 0 }) {
			return false
		}
	}
	return true
}

// partitions are those of a topic, as the member knows them.
func (m *member) partitions(topic string) []kmsg.MetadataResponseTopicPartition {
	cl := m.c.client(kgo.SeedBrokers(m.broker))
	defer cl.Close()
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{{Topic: &topic}}
	resp, err := cl.SeedBrokers()[0].Request(timeout(m.c.t), req)
	if err != nil {
		return nil
	}
	return resp.(*kmsg.MetadataResponse).Topics[0].Partitions
}

// A broker that an administrator unregisters by mistake while it runs comes back by itself.
func TestARunningBrokerThatIsUnregisteredRegistersAgain(t *testing.T) {
	c := newCluster(t, 3, false, nil)
	c.start()
	cl := c.client()
	defer cl.Close()
	c.createTopic("t", 3, 3, nil)
	c.await("in sync", func() bool { return c.inSync("t", 3) })
	req := kmsg.NewPtrUnregisterBrokerRequest()
	req.BrokerID = 2
	resp, err := req.RequestWith(timeout(t), cl)
	if err != nil || resp.ErrorCode != 0 {
		t.Fatalf("%v %v", resp, err)
	}
	c.await("registered twice", func() bool { return c.events.said("broker-registered", "broker=2 ") >= 2 })
	c.await("in sync again", func() bool { return c.inSync("t", 3) })
	if !c.members[1].isReady() {
		t.Error("node 2 is not ready any more")
	}
}

// A group goes on when the broker that coordinates it stops.
func TestAGroupOutlivesItsCoordinator(t *testing.T) {
	c := newCluster(t, 3, false, map[string]string{"offsets.topic.replication.factor": "3"})
	c.start()
	adm := c.admin()
	defer adm.Close()
	c.createTopic("t", 1, 3, nil)
	cl := c.client(kgo.DefaultProduceTopic("t"))
	defer cl.Close()
	produce := func(from, to int) {
		for i := from; i < to; i++ {
			if err := cl.ProduceSync(timeout(t), kgo.StringRecord(fmt.Sprint("v", i))).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	read := func(n int) (got []string) {
		g := c.client(kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		defer g.Close()
		for len(got) < n {
			fs := g.PollFetches(timeout(t))
			if err := fs.Err0(); err != nil {
				t.Fatal(err)
			}
			fs.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
		}
		if err := g.CommitUncommittedOffsets(timeout(t)); err != nil {
			t.Error(err)
		}
		return got
	}
	produce(0, 10)
	read(10)
	described, err := adm.DescribeGroups(timeout(t), "g")
	if err != nil {
		t.Fatal(err)
	}
	at := described["g"].Coordinator.NodeID
	c.await("in sync", func() bool { return c.inSync("__consumer_offsets", 3) })
	m := c.members[at-1]
	if err := m.stop(); err != nil {
		t.Fatal(err)
	}
	produce(10, 20)
	if got, want := read(10), []string{"v10", "v19"}; !slices.Equal([]string{got[0], got[9]}, want) {
		t.Errorf("the group goes on at %v", got)
	}
	m.run()
	m.ready()
}

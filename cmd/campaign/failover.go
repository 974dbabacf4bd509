package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/cmd/campaign/links"
	"seedlog/scenarios/client"
)

// What a failover may take with default time-outs.
const (
	failoverMax           = 10 * time.Second
	controllerFailoverMax = 14 * time.Second
	shutdownMax           = time.Second
)

// failoverPartitions are enough that every node leads some.
const failoverPartitions = 9

// measureFailover starts a cluster with the default time-outs and measures how long a partition
// takes no records when its leader is killed, when the leader is the active controller too, and
// when it is shut down in a controlled way.
func measureFailover(o realFlags) error {
	o.nodes = max(o.nodes, 3)
	network, err := links.NewLoopback(o.nodes)
	if err != nil {
		return err
	}
	defer network.Close()
	r := newClusterRun(o.seed, 0, o.verbose)
	if r.nodes, err = newNodes(o.binary, filepath.Join(o.dir, "failover"), network, o.nodes, false, nil, r.exits); err != nil {
		return err
	}
	defer r.killAll()
	for _, n := range r.nodes {
		if err := n.start(); err != nil {
			return err
		}
	}
	if what := r.require(serveWithin, r.serving); what != "" {
		return fmt.Errorf("the cluster does not come up: %s", what)
	}
	topic := &client.Topic{Name: "failover", Partitions: failoverPartitions, Replication: 3, MinInsync: 2}
	r.topics = append(r.topics, topic)
	env, group := r.env(5 * time.Second)
	group.Go("create", func(t *task.T) { err = client.Create(t, &env, topic, [][2]string{{"min.insync.replicas", "2"}}) })
	if !within(30*time.Second, func() bool { return group.Len() == 0 }) || err != nil {
		return fmt.Errorf("creating the topic: %v", err)
	}
	m := &failover{clusterRun: r}
	if err := m.preferred(); err != nil {
		return err
	}
	m.probes()
	defer m.stopProbes()
	fmt.Printf("failover: %d nodes, %d partitions, default time-outs, load %s\n", o.nodes, failoverPartitions, loadAverage())
	var failed error
	for _, kind := range []struct {
		what       string
		limit      time.Duration
		controller bool
		once       func(n *node) ([]time.Duration, error)
	}{
		{"kill -9 of a leader to its partitions' first acknowledged produce", failoverMax, false, m.killed},
		{"the same of the active controller", controllerFailoverMax, true, m.killed},
		{"controlled shutdown: longest time without an acknowledged produce", shutdownMax, false, m.shutDown},
		{"the same of the active controller", shutdownMax, true, m.shutDown},
	} {
		var all []time.Duration
		for range o.failover {
			n, err := m.victim(kind.controller)
			if err != nil {
				return err
			}
			took, err := kind.once(n)
			if err != nil {
				return fmt.Errorf("%s: %w", kind.what, err)
			}
			r.say("node %d: %v", n.id, took)
			all = append(all, took...)
			if err := m.again(n); err != nil {
				return err
			}
		}
		over := 0
		for _, d := range all {
			if d > kind.limit {
				over++
			}
		}
		fmt.Printf("%s: %s; at most %v: %d over\n", kind.what, distribution(all), kind.limit, over)
		if over > 0 {
			failed = errors.Join(failed, fmt.Errorf("%s: %d of %d over %v", kind.what, over, len(all), kind.limit))
		}
	}
	fmt.Printf("failover: load %s at the end\n", loadAverage())
	m.stopProbes()
	return errors.Join(failed, r.stopAll())
}

// failover has a probe for each partition: a producer with acks=all of one record at a time.
type failover struct {
	*clusterRun
	group *task.Group
	mu    sync.Mutex
	acks  [failoverPartitions][]time.Time // when each partition acknowledged a record
	sent  [failoverPartitions][]time.Time // when that record was sent
}

func (m *failover) probes() {
	m.group = task.NewGroup(m.rt, "probes")
	for p := range failoverPartitions {
		m.group.Go(fmt.Sprintf("probe-%d", p), func(t *task.T) { m.probe(t, int32(p)) })
	}
}

func (m *failover) stopProbes() {
	m.stopped.Store(true)
	within(30*time.Second, func() bool { return m.group.Len() == 0 })
}

// probeEvery is the rest between two records of a probe, and what a gap is at least.
const probeEvery = 5 * time.Millisecond

func (m *failover) probe(t *task.T, index int32) {
	batch := client.Encode(client.BatchSpec{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1}, []client.Record{{Timestamp: t.UnixMilli(), Value: []byte("probe")}})
	var conn *client.Conn
	for !m.stopped.Load() {
		if conn == nil {
			if conn = m.leader(t, index); conn == nil {
				t.Sleep(t.Now().Add(probeEvery))
				continue
			}
		}
		req := kmsg.NewPtrProduceRequest()
		req.Version, req.Acks, req.TimeoutMillis = 9, -1, 15_000
		topic, part := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
		topic.Topic, part.Partition, part.Records = m.topics[0].Name, index, batch
		topic.Partitions = append(topic.Partitions, part)
		req.Topics = append(req.Topics, topic)
		sent := time.Now()
		resp, err := conn.Call(t, req, t.Now().Add(20*time.Second))
		if err == nil {
			err = kerr.ErrorForCode(resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
		}
		if err != nil {
			conn.Close()
			conn = nil
			continue
		}
		m.mu.Lock()
		m.sent[index], m.acks[index] = append(m.sent[index], sent), append(m.acks[index], time.Now())
		m.mu.Unlock()
		t.Sleep(t.Now().Add(probeEvery))
	}
	if conn != nil {
		conn.Close()
	}
}

// leader asks whoever answers for a partition's leader, and connects to it.
func (m *failover) leader(t *task.T, index int32) *client.Conn {
	for _, n := range m.nodes {
		until := t.Now().Add(2 * time.Second)
		conn, err := client.Dial(t, m.net, n.broker, "probe", until)
		if err != nil {
			continue
		}
		req := kmsg.NewPtrMetadataRequest()
		req.Version = 9
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = &m.topics[0].Name
		req.Topics = append(req.Topics, rt)
		resp, err := conn.Call(t, req, until)
		conn.Close()
		if err != nil {
			continue
		}
		id := leaderOf(resp.(*kmsg.MetadataResponse), index)
		if id < 1 || int(id) > len(m.nodes) {
			continue
		}
		if conn, err := client.Dial(t, m.net, m.nodes[id-1].broker, "probe", until); err == nil {
			return conn
		}
	}
	return nil
}

func leaderOf(m *kmsg.MetadataResponse, index int32) int32 {
	for _, t := range m.Topics {
		for _, p := range t.Partitions {
			if p.Partition == index {
				return p.Leader
			}
		}
	}
	return -1
}

// victim is a node that leads partitions, the active controller or another one.
func (m *failover) victim(asController bool) (*node, error) {
	var found *node
	pending := m.require(wholeWithin, func() string {
		if what := m.whole(); what != "" {
			return what
		}
		leader := controller(m.nodes)
		if leader == nil {
			return "no controller"
		}
		for _, n := range m.nodes {
			if (n == leader) == asController && len(m.led(n)) > 0 {
				found = n
				return ""
			}
		}
		return "no such node leads a partition"
	})
	if pending != "" {
		return nil, fmt.Errorf("looking for a victim: %s", pending)
	}
	return found, nil
}

// led are the partitions that a node leads by its own word.
func (m *failover) led(n *node) (out []int) {
	resp, err := m.metadata(n.broker)
	if err != nil {
		return nil
	}
	for p := range failoverPartitions {
		if leaderOf(resp, int32(p)) == int32(n.id) {
			out = append(out, p)
		}
	}
	return out
}

// killed kills a node and waits for each of its partitions' first acknowledged produce that was
// sent since.
func (m *failover) killed(n *node) ([]time.Duration, error) {
	led := m.led(n)
	at := time.Now()
	n.kill()
	if x := <-m.exits; x.n != n {
		return nil, fmt.Errorf("node %d ended: %v", x.n.id, x.err)
	} else if err := x.n.ended(x.err); err != nil {
		return nil, err
	}
	took := make([]time.Duration, len(led))
	pending := m.require(time.Minute, func() string {
		for i, p := range led {
			if took[i] != 0 {
				continue
			}
			if took[i] = m.firstAfter(p, at); took[i] == 0 {
				return fmt.Sprintf("partition %d takes nothing", p)
			}
		}
		return ""
	})
	if pending != "" {
		return nil, errors.New(pending)
	}
	return took, nil
}

// firstAfter is how long after an instant a partition acknowledged a record sent since; 0 if
// it has not.
func (m *failover) firstAfter(p int, at time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, sent := range m.sent[p] {
		if sent.After(at) {
			return m.acks[p][i].Sub(at)
		}
	}
	return 0
}

// shutDown stops a node cleanly and returns, of each partition that it led, the longest time
// between two acknowledged records from then until it had ended and was replaced.
func (m *failover) shutDown(n *node) ([]time.Duration, error) {
	led := m.led(n)
	at := time.Now()
	n.stop()
	x := <-m.exits
	if x.n != n {
		return nil, fmt.Errorf("node %d ended: %v", x.n.id, x.err)
	}
	if err := x.n.ended(x.err); err != nil {
		return nil, err
	}
	end := time.Now()
	if pending := m.require(time.Minute, func() string {
		for _, p := range led {
			if m.firstAfter(p, end) == 0 {
				return fmt.Sprintf("partition %d takes nothing", p)
			}
		}
		return ""
	}); pending != "" {
		return nil, errors.New(pending)
	}
	var gaps []time.Duration
	for _, p := range led {
		gaps = append(gaps, m.longestGap(p, at, end))
	}
	return gaps, nil
}

// longestGap is the longest time between two acknowledgements of a partition, of which the
// later one came after at and the earlier one before end.
func (m *failover) longestGap(p int, at, end time.Time) (gap time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	acks := m.acks[p]
	for i := 1; i < len(acks); i++ {
		if acks[i].After(at) && acks[i-1].Before(end) {
			gap = max(gap, acks[i].Sub(acks[i-1]))
		}
	}
	return gap
}

// again starts the victim and forgets what was measured.
func (m *failover) again(n *node) error {
	if err := n.start(); err != nil {
		return err
	}
	if pending := m.require(wholeWithin, func() string {
		if what := m.serving(); what != "" {
			return what
		}
		return m.whole()
	}); pending != "" {
		return fmt.Errorf("node %d does not come back: %s", n.id, pending)
	}
	if err := m.preferred(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for p := range failoverPartitions {
		m.acks[p], m.sent[p] = nil, nil
	}
	return nil
}

// preferred gives every partition back to its first replica, so that every node leads some.
func (m *failover) preferred() error {
	req := kmsg.NewPtrElectLeadersRequest()
	req.Version, req.TimeoutMillis = 2, 10_000
	if pending := m.require(serveWithin, func() string {
		if _, err := m.ask(m.nodes[0].broker, req); err != nil {
			return err.Error()
		}
		for _, n := range m.nodes {
			if len(m.led(n)) == 0 {
				return fmt.Sprintf("node %d leads nothing", n.id)
			}
		}
		return ""
	}); pending != "" {
		return fmt.Errorf("electing preferred leaders: %s", pending)
	}
	return nil
}

// distribution is least, median, ninth decile and greatest.
func distribution(all []time.Duration) string {
	if len(all) == 0 {
		return "nothing was measured"
	}
	all = slices.Sorted(slices.Values(all))
	at := func(q float64) time.Duration {
		return all[min(int(q*float64(len(all))), len(all)-1)].Round(time.Millisecond)
	}
	return fmt.Sprintf("n=%d min %v median %v p90 %v max %v", len(all), at(0), at(0.5), at(0.9), at(1))
}

// loadAverage is the machine's, of the last minute.
func loadAverage() string {
	one, _, _ := strings.Cut(readText("/proc/loadavg"), " ")
	return one
}

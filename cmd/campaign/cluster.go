package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/checker"
	"seedlog/clock/live"
	"seedlog/clock/task"
	"seedlog/cmd/campaign/links"
	"seedlog/net/tcp"
	"seedlog/scenarios"
	"seedlog/scenarios/client"
)

// The limits of what follows the last fault, on a machine that others use too.
const (
	serveWithin = time.Minute
	wholeWithin = 3 * time.Minute
	doneWithin  = 3 * time.Minute
	readWithin  = 3 * time.Minute
	equalWithin = time.Minute
	stopWithin  = time.Minute
)

// clusterRun is a run of several processes.
type clusterRun struct {
	seed    uint64
	rng     *rand.Rand
	verbose bool
	rec     *client.Recorder
	nodes   []*node
	rules   *links.Rules
	exits   chan nodeExit
	net     *tcp.Network
	rt      *live.Runtime
	pace    time.Duration
	clients int
	stopped atomic.Bool

	interval map[string]int64
	segment  map[string]int64
	topics   []*client.Topic
	faults   *faultPlan
	began    time.Time
	story    []string // what was done, for the report
}

// stream is a random stream of the seed.
func stream(seed uint64, name string) *rand.Rand {
	h := seed
	for _, b := range []byte(name) {
		h = h*1099511628211 + uint64(b)
	}
	return rand.New(rand.NewPCG(seed, h))
}

func newClusterRun(seed uint64, duration time.Duration, verbose bool) *clusterRun {
	rec := client.NewRecorder()
	rec.Unwatched = true
	return &clusterRun{
		seed: seed, rng: stream(seed, "real"), verbose: verbose, rec: rec, exits: make(chan nodeExit, 64),
		net: tcp.New(tcp.Config{}), rt: live.New(live.Options{}), interval: make(map[string]int64), segment: make(map[string]int64), began: time.Now(),
		// A long run has slower clients, so that its history stays about as long.
		pace: 4*time.Millisecond + duration/60_000,
	}
}

// say notes what was done.
func (r *clusterRun) say(format string, args ...any) {
	line := fmt.Sprintf("%7.2f s, %d operations: ", time.Since(r.began).Seconds(), r.rec.Ops()) + fmt.Sprintf(format, args...)
	r.story = append(r.story, line)
	if r.verbose {
		fmt.Println(line)
	}
}

// drawSettings draws what decides how fast the cluster notices.
func (r *clusterRun) drawSettings() []string {
	settings := []string{
		"group.min.session.timeout.ms=100", "offsets.topic.num.partitions=3", "log.flush.offset.checkpoint.interval.ms=2000",
	}
	if r.rng.IntN(4) == 0 {
		return settings // the defaults
	}
	session := 2000 + r.rng.IntN(5000)
	return append(settings,
		fmt.Sprintf("broker.session.timeout.ms=%d", session), fmt.Sprintf("broker.heartbeat.interval.ms=%d", session/5),
		fmt.Sprintf("replica.lag.time.max.ms=%d", 1000+r.rng.IntN(9000)),
		fmt.Sprintf("controller.quorum.fetch.timeout.ms=%d", 1000+r.rng.IntN(1500)),
		fmt.Sprintf("controller.quorum.election.timeout.ms=%d", 500+r.rng.IntN(1000)),
		fmt.Sprintf("num.replica.fetchers=%d", 1+r.rng.IntN(3)),
		fmt.Sprintf("leader.imbalance.check.interval.seconds=%d", 5+r.rng.IntN(60)),
	)
}

// start lays the cluster out and starts it.
func (r *clusterRun) start(binary, dir string, network links.Network, count int) error {
	static, settings := r.rng.IntN(3) == 0, r.drawSettings()
	fmt.Printf("real: seed=%d nodes=%d static-voters=%v %s\n", r.seed, count, static, strings.Join(settings, " "))
	var err error
	if r.nodes, err = newNodes(binary, dir, network, count, static, settings, r.exits); err != nil {
		return err
	}
	for _, n := range r.nodes {
		r.rec.Boot(n.broker)
		if err := n.start(); err != nil {
			return err
		}
	}
	if what := r.require(serveWithin, r.serving); what != "" {
		return fmt.Errorf("the cluster does not come up: %s\n%s", what, r.nodes[0].lastWords())
	}
	return nil
}

// env is a new client's surroundings.
func (r *clusterRun) env(timeout time.Duration) (client.Env, *task.Group) {
	r.clients++
	name := fmt.Sprintf("client%d", r.clients)
	routes := new(client.Routes)
	for _, n := range r.nodes {
		routes.Bootstrap = append(routes.Bootstrap, n.broker)
	}
	return client.Env{
		Net: r.net, Routes: routes, Rand: stream(r.seed, name), Rec: r.rec, ID: r.clients, Name: name,
		RequestTimeout: max(timeout, 2*time.Second), Pace: r.pace,
		GiveUp: func(int) bool { return false }, Enough: r.stopped.Load,
	}, task.NewGroup(r.rt, name)
}

func (r *clusterRun) createTopics() error {
	for i := range 3 {
		t := &client.Topic{Name: fmt.Sprintf("t%d", i), Partitions: 1 + r.rng.Int32N(4), Replication: int16(min(3, len(r.nodes))), MinInsync: min(2, len(r.nodes))}
		segment := int64(32<<10) << r.rng.IntN(6)
		configs := [][2]string{{"internal.segment.bytes", fmt.Sprint(segment)}, {"index.interval.bytes", "512"}, {"min.insync.replicas", fmt.Sprint(t.MinInsync)}}
		if i == 0 && r.rng.IntN(3) == 0 {
			t.Synced = true
			configs = append(configs, [2]string{"flush.messages", "1"})
		}
		var err error
		env, group := r.env(5 * time.Second)
		group.Go("create", func(k *task.T) { err = client.Create(k, &env, t, configs) })
		if !within(30*time.Second, func() bool { return group.Len() == 0 }) || err != nil {
			return fmt.Errorf("creating %s: %v", t.Name, err)
		}
		r.interval[t.Name], r.segment[t.Name] = 512, segment
		r.topics = append(r.topics, t)
		for p := range t.Partitions {
			r.rec.Replicate(r.rec.Log(t.Name, t.ID, p), t.Replicated())
		}
	}
	return nil
}

// run runs everything and judges it.
func (r *clusterRun) run(duration time.Duration) (v checker.Verdict, err error) {
	if err := r.createTopics(); err != nil {
		return v, err
	}
	w := scenarios.DrawDurableWorkload(r.rng, r.topics, r.env)
	fmt.Printf("real: seed=%d %s\n", r.seed, w)
	w.Start()
	r.faults = newFaultPlan(r)
	if err := r.faults.run(duration); err != nil {
		return v, err
	}
	r.stopped.Store(true)
	if err := r.faults.heal(); err != nil {
		return v, err
	}
	reader := 0
	for _, step := range []struct {
		what  string
		limit time.Duration
		cond  func() string
	}{
		{"a controller is elected and every node serves", serveWithin, r.serving},
		{"every partition has a leader and a full ISR", wholeWithin, r.whole},
		{"every client gets its answers", doneWithin, r.answered(w)},
		{"every partition has a leader and a full ISR, with nobody writing", wholeWithin, r.whole},
		{"the replicas become equal", equalWithin, r.equal},
		{"every record can be read", readWithin, r.reading(&reader)},
	} {
		if pending := r.require(step.limit, step.cond); pending != "" {
			_, _, _, seen := r.rec.Take()
			v.Merge(seen)
			v.Failf("liveness", step.what, "not within %v of the last fault: %s", step.limit, pending)
			return v, nil
		}
	}
	last, err := r.metadata(r.nodes[0].broker)
	if err != nil {
		return v, err
	}
	if err := r.stopAll(); err != nil {
		v.Failf("clean-stop", "nodes", "%v", err)
	}
	judgeCatalog(last, r.nodes, &v)
	j := scenarios.ClusterJudge{Rec: r.rec, Dead: map[int]bool{}, StartsKept: true, Interval: r.interval, Segment: r.segment, Reader: reader}
	for _, n := range r.nodes {
		j.Nodes = append(j.Nodes, &scenarios.Judge{Files: osFiles{}, LogDirs: []string{n.data()}, Rec: r.rec, Dead: map[int]bool{}})
	}
	v.Merge(j.Verdict())
	return v, nil
}

// require waits until a condition has nothing pending; it returns what still is. A node that
// ends meanwhile is an error that counts as pending.
func (r *clusterRun) require(limit time.Duration, cond func() string) (pending string) {
	for end := time.Now().Add(limit); ; time.Sleep(50 * time.Millisecond) {
		select {
		case x := <-r.exits:
			if err := x.n.ended(x.err); err != nil {
				return err.Error()
			}
			return fmt.Sprintf("node %d ended", x.n.id)
		default:
		}
		if pending = cond(); pending == "" || time.Now().After(end) {
			return pending
		}
	}
}

// serving asks each node for the brokers that are alive.
func (r *clusterRun) serving() string {
	for _, n := range r.nodes {
		m, err := r.metadata(n.broker)
		if err != nil {
			return fmt.Sprintf("node %d: %v", n.id, err)
		}
		if len(m.Brokers) != len(r.nodes) {
			return fmt.Sprintf("node %d knows of %d nodes", n.id, len(m.Brokers))
		}
	}
	return ""
}

// whole asks each node for leaders and ISRs.
func (r *clusterRun) whole() string {
	for _, n := range r.nodes {
		m, err := r.metadata(n.broker)
		if err != nil {
			return fmt.Sprintf("node %d: %v", n.id, err)
		}
		for _, t := range m.Topics {
			for _, p := range t.Partitions {
				if p.Leader < 0 || len(p.ISR) != len(p.Replicas) {
					return fmt.Sprintf("%s-%d: replicas %v, ISR %v, leader %d in epoch %d, by node %d", *t.Topic, p.Partition, p.Replicas, p.ISR, p.Leader, p.LeaderEpoch, n.id)
				}
			}
		}
	}
	return ""
}

// metadata asks one node about everything.
func (r *clusterRun) metadata(addr string) (*kmsg.MetadataResponse, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 12
	resp, err := r.ask(addr, req)
	if err != nil {
		return nil, err
	}
	return resp.(*kmsg.MetadataResponse), nil
}

// ask asks one node, within two seconds.
func (r *clusterRun) ask(addr string, req kmsg.Request) (resp kmsg.Response, err error) {
	group := task.NewGroup(r.rt, "ask")
	done := make(chan struct{})
	group.Go("ask", func(t *task.T) {
		defer close(done)
		until := t.Now().Add(2 * time.Second)
		var conn *client.Conn
		if conn, err = client.Dial(t, r.net, addr, "campaign", until); err != nil {
			return
		}
		defer conn.Close()
		resp, err = conn.Call(t, req, until)
	})
	<-done
	return resp, err
}

// answered waits for the clients, and says who waits for what.
func (r *clusterRun) answered(w *scenarios.Workload) func() string {
	return func() string {
		if w.Done() {
			return ""
		}
		var waits []string
		for id, note := range r.rec.Notes() {
			waits = append(waits, fmt.Sprintf("client%d was told last: %s", id, note))
		}
		slices.Sort(waits)
		return "some client has no answer; " + strings.Join(waits, "; ")
	}
}

// equal compares where the copies of each partition end. Nobody writes any more.
func (r *clusterRun) equal() string {
	for _, t := range r.topics {
		for p := range t.Partitions {
			name := fmt.Sprintf("%s-%d", t.Name, p)
			var ends []int64
			for _, n := range r.nodes {
				ends = append(ends, n.logEnd(name))
			}
			if slices.Min(ends) != slices.Max(ends) || ends[0] < 0 {
				return fmt.Sprintf("%s ends at %v", name, ends)
			}
		}
	}
	return ""
}

// reading reads everything with one client, to where the copies end.
func (r *clusterRun) reading(id *int) func() string {
	var group *task.Group
	return func() string {
		if group == nil {
			ends := make(map[int]int64)
			for _, t := range r.topics {
				for p := range t.Partitions {
					ends[r.rec.Log(t.Name, t.ID, p)] = r.nodes[0].logEnd(fmt.Sprintf("%s-%d", t.Name, p))
				}
			}
			var env client.Env
			env, group = r.env(20 * time.Second)
			env.Pace, *id = 0, env.ID
			c := &client.Consumer{Env: env, Topics: r.topics, Version: 18, MaxWait: 100 * time.Millisecond, MinBytes: 1, MaxBytes: 1 << 20, ToEnd: true, Ends: ends}
			group.Go("final reader", c.Run)
		}
		if group.Len() > 0 {
			return "the reader: " + r.rec.Notes()[*id]
		}
		return ""
	}
}

// stopAll stops every node cleanly, all at once.
func (r *clusterRun) stopAll() error {
	var failed error
	left := 0
	for _, n := range r.nodes {
		if n.state == nodeUp {
			n.stop()
			left++
		}
	}
	timeout := time.After(stopWithin)
	for left > 0 {
		select {
		case x := <-r.exits:
			failed = errors.Join(failed, x.n.ended(x.err))
			left--
		case <-timeout:
			for _, n := range r.nodes {
				if n.state == nodeStopping {
					failed = errors.Join(failed, fmt.Errorf("node %d does not stop within %v\n%s", n.id, stopWithin, n.lastWords()))
					n.kill()
				}
			}
		}
	}
	return failed
}

// killAll leaves no process behind.
func (r *clusterRun) killAll() {
	for _, n := range r.nodes {
		if n.state != nodeDown {
			n.kill()
		}
	}
}

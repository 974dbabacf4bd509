package node_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"seedlog/clock/live"
	"seedlog/clock/task"
	"seedlog/disk/osfs"
	"seedlog/net/tcp"
	"seedlog/node"
	"seedlog/node/config"
	"seedlog/node/event"
	"seedlog/node/meta"
	"seedlog/node/quorum"
	"seedlog/storage/record"
)

// cluster is some nodes in this process, each with its own runtime, directory and network.
type cluster struct {
	t       *testing.T
	members []*member
	events  *memberEvents
}

// member is one node of a cluster, running or not.
type member struct {
	c        *cluster
	id       int32
	dir      string
	settings map[string]string
	broker   string // host:port
	control  string
	n        *node.Node
	done     chan error
}

// loopback is an address of the loopback interface that is this process's own: a node that
// is down finds its port free when it comes back, for no other process draws ports here, and
// connections leave from 127.0.0.1.
var loopback = net.IPv4(127, byte(1+mathrand.IntN(254)), byte(mathrand.IntN(256)), byte(1+mathrand.IntN(254)))

// drawn are the ports of it that a test has had.
var drawn = struct {
	mu    sync.Mutex
	ports map[string]bool
}{ports: map[string]bool{}}

// freePorts are addresses that nobody listens on, and that no test was given before.
func freePorts(t testing.TB, n int) (out []string) {
	t.Helper()
	drawn.mu.Lock()
	defer drawn.mu.Unlock()
	for len(out) < n {
		l, err := net.Listen("tcp", net.JoinHostPort(loopback.String(), "0"))
		if err != nil {
			t.Fatal(err)
		}
		addr := l.Addr().String()
		l.Close()
		if !drawn.ports[addr] {
			drawn.ports[addr] = true
			out = append(out, addr)
		}
	}
	return out
}

// newCluster formats n nodes that are brokers and voters. static has the settings name the
// voters (kraft.version 0). The test runs beside others: it waits more than it works.
func newCluster(t *testing.T, n int, static bool, settings map[string]string) *cluster {
	t.Helper()
	t.Parallel()
	c := &cluster{t: t, events: &memberEvents{began: time.Now()}}
	ports := freePorts(t, 2*n)
	var voters []string
	var initial []record.Voter
	for i := range n {
		id := int32(i + 1)
		m := &member{c: c, id: id, dir: filepath.Join(t.TempDir(), fmt.Sprint("node-", id)), broker: ports[2*i], control: ports[2*i+1]}
		c.members = append(c.members, m)
		voters = append(voters, fmt.Sprintf("%d@%s", id, m.control))
		initial = append(initial, quorumVoter(t, id, m.control))
	}
	for _, m := range c.members {
		m.settings = map[string]string{
			"node.id": fmt.Sprint(m.id), "process.roles": "broker,controller", "log.dirs": m.dir,
			"listeners":                 fmt.Sprintf("PLAINTEXT://%s,CONTROLLER://%s", m.broker, m.control),
			"controller.listener.names": "CONTROLLER", "default.replication.factor": fmt.Sprint(min(n, 3)),
			"offsets.topic.num.partitions": "4", "group.initial.rebalance.delay.ms": "0", "num.partitions": "3",
			// The tests wait for these; nothing else depends on them.
			"broker.heartbeat.interval.ms": "400", "controller.quorum.election.timeout.ms": "500",
			// No test waits for a session to end, and one that ends because the machine stood
			// still is not what they are about.
			"broker.session.timeout.ms": fmt.Sprint(patience.Milliseconds()),
		}
		dirs := []string{m.dir}
		for _, sub := range config.SplitList(settings[subdirs]) {
			dirs = append(dirs, filepath.Join(m.dir, sub))
		}
		if len(dirs) > 1 {
			dirs = dirs[1:]
			m.settings["log.dirs"] = strings.Join(dirs, ",")
		}
		spec := quorum.FormatSpec{NodeID: m.id, LogDirs: dirs, ClusterID: clusterID, Voters: quorum.InitialVoters, Initial: initial}
		if static {
			m.settings["controller.quorum.voters"] = strings.Join(voters, ",")
			spec.Voters = quorum.NoVoters
		} else {
			m.settings["controller.quorum.bootstrap.servers"] = c.controllers()
		}
		for k, v := range settings {
			if k != subdirs {
				m.settings[k] = v
			}
		}
		format(t, spec)
	}
	t.Cleanup(func() {
		c.stop()
		if t.Failed() {
			t.Log(c.events.text.String())
		}
	})
	return c
}

// addBroker formats a node that is a broker only, and finds the quorum as the others do.
func (c *cluster) addBroker(id int32, addr string) *member {
	c.t.Helper()
	m := &member{c: c, id: id, dir: filepath.Join(c.t.TempDir(), fmt.Sprint("node-", id)), broker: addr, settings: map[string]string{}}
	for k, v := range c.members[0].settings {
		m.settings[k] = v
	}
	m.settings["node.id"], m.settings["process.roles"], m.settings["log.dirs"] = fmt.Sprint(id), "broker", m.dir
	m.settings["listeners"] = "PLAINTEXT://" + addr
	format(c.t, quorum.FormatSpec{NodeID: id, LogDirs: []string{m.dir}, ClusterID: clusterID, Voters: quorum.NoVoters})
	c.members = append(c.members, m)
	return m
}

// subdirs is a setting of newCluster alone: the log directories below a node's own.
const subdirs = "subdirs"

const clusterID = "AAAAAAAAQACAAAAAAAAAAA"

func quorumVoter(t testing.TB, id int32, addr string) record.Voter {
	t.Helper()
	text := fmt.Sprintf("%d@%s:%s", id, addr, meta.UUIDString(meta.UUID{6: 0x40, 8: 0x80, 14: 7, 15: byte(id)}))
	v, err := quorum.ParseInitialVoters(text, "CONTROLLER")
	if err != nil {
		t.Fatal(err)
	}
	return v[0]
}

func format(t testing.TB, spec quorum.FormatSpec) {
	t.Helper()
	rt := live.New(live.Options{})
	live.Main(rt, func(tk *task.T) {
		spec.Entropy, spec.UnixMilli = func(b []byte) { _, _ = rand.Read(b) }, tk.UnixMilli()
		if _, err := quorum.Format(tk, osfs.New(osfs.Options{}), spec); err != nil {
			t.Error(err)
		}
	})
}

func (c *cluster) controllers() string {
	var all []string
	for _, m := range c.members {
		all = append(all, m.control)
	}
	return strings.Join(all, ",")
}

func (c *cluster) brokers() []string {
	var all []string
	for _, m := range c.members {
		if m.isBroker() {
			all = append(all, m.broker)
		}
	}
	return all
}

// run starts the process; ready waits for it.
func (m *member) run() {
	t := m.c.t
	t.Helper()
	cfg, unknown, err := config.Parse(m.settings)
	if err != nil || len(unknown) > 0 {
		t.Fatal(err, unknown)
	}
	rt := live.New(live.Options{})
	m.done = make(chan error, 1)
	m.n = node.New(node.Host{
		RT: rt, Disk: osfs.New(osfs.Options{}), Net: tcp.New(tcp.Config{}),
		Rand: func(string) *mathrand.Rand {
			return mathrand.New(mathrand.NewPCG(uint64(m.id), uint64(time.Now().UnixNano())))
		},
		Entropy: func(b []byte) { _, _ = rand.Read(b) },
		Events:  sink{m.id, m.c.events},
	}, *cfg)
	n, done := m.n, m.done
	go live.Main(rt, func(tk *task.T) { done <- n.Run(tk) })
}

// memberEvents keeps what all nodes say, and shows it if the test fails.
type memberEvents struct {
	mu    sync.Mutex
	began time.Time
	text  bytes.Buffer
}

// sink is one node's.
type sink struct {
	id  int32
	all *memberEvents
}

func (s sink) Emit(e event.Event) {
	var f event.Fields
	e.Fields(&f)
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	fmt.Fprintf(&s.all.text, "%8.3f node %d %s", time.Since(s.all.began).Seconds(), s.id, e.Name())
	for _, x := range f.List {
		if x.IsNum {
			fmt.Fprintf(&s.all.text, " %s=%d", x.Key, x.Num)
		} else {
			fmt.Fprintf(&s.all.text, " %s=%s", x.Key, x.Text)
		}
	}
	s.all.text.WriteByte('\n')
}

// said counts the events of a name that have all the words in their text.
func (s *memberEvents) said(name string, words ...string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for line := range strings.Lines(s.text.String()) {
		has := strings.Contains(line, " "+name+" ")
		for _, w := range words {
			has = has && strings.Contains(line, w)
		}
		if has {
			n++
		}
	}
	return n
}

// ready waits until the node serves.
func (m *member) ready() {
	m.c.t.Helper()
	deadline := time.Now().Add(patience)
	for !m.isReady() {
		select {
		case err := <-m.done:
			m.done <- err
			m.c.t.Fatalf("node %d ended: %v", m.id, err)
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			m.c.t.Fatalf("node %d is not ready after %v", m.id, patience)
		}
	}
}

func (m *member) isBroker() bool { return strings.Contains(m.settings["process.roles"], "broker") }

func (m *member) isReady() bool { return m.n.Ready().IsSet() }

// stop stops the node cleanly and returns how it ended.
func (m *member) stop() error {
	if m.n == nil {
		return nil
	}
	m.n.Stop()
	return m.ended()
}

// ended waits for the process to end.
func (m *member) ended() error {
	m.c.t.Helper()
	select {
	case err := <-m.done:
		m.n = nil
		return err
	case <-time.After(patience):
		m.c.t.Fatalf("node %d does not end", m.id)
		return nil
	}
}

func (c *cluster) start() {
	c.t.Helper()
	for _, m := range c.members {
		m.run()
	}
	for _, m := range c.members {
		m.ready()
	}
}

func (c *cluster) stop() {
	for _, m := range c.members {
		if m.n != nil {
			m.n.Stop()
		}
	}
	for _, m := range c.members {
		if m.n != nil {
			if err := m.ended(); err != nil {
				c.t.Errorf("node %d: %v", m.id, err)
			}
		}
	}
}

func (c *cluster) client(opts ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	// A broker may not have heard yet of a topic that another has.
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.brokers()...), kgo.RetryTimeout(patience), kgo.UnknownTopicRetries(-1)}, opts...)...)
	if err != nil {
		c.t.Fatal(err)
	}
	return cl
}

// admin's metadata is of now: by itself a client takes it from a cache that is 5 s old.
func (c *cluster) admin() *kadm.Client {
	return kadm.NewClient(c.client(kgo.MetadataMinAge(10 * time.Millisecond)))
}

// createTopic creates a topic as soon as there are brokers for it. One that is there
// already was made by an attempt whose answer got lost with the controller that gave it.
func (c *cluster) createTopic(topic string, partitions int32, replicas int16, configs map[string]*string) {
	c.t.Helper()
	adm := c.admin()
	defer adm.Close()
	c.await("topic "+topic+" created", func() bool {
		_, err := adm.CreateTopic(timeout(c.t), partitions, replicas, configs, topic)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) && !kerr.IsRetriable(err) {
			c.t.Fatalf("creating %s: %v", topic, err)
		}
		return !kerr.IsRetriable(err)
	})
}

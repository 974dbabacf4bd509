package node_test

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"seedlog/clock"
	"seedlog/clock/live"
	"seedlog/clock/task"
	"seedlog/disk/osfs"
	"seedlog/net/tcp"
	"seedlog/node"
	"seedlog/node/config"
	"seedlog/node/event"
)

// patience is for how long a test waits for what takes milliseconds on an idle machine. It
// only says when to give up: no test that passes takes longer for it.
const patience = 2 * time.Minute

// A goroutine that is about to end needs a processor for it, and others may have them.
func TestMain(m *testing.M) {
	// What runs side by side are clusters that mostly wait.
	_ = flag.Set("test.parallel", "4")
	code := m.Run()
	if code == 0 {
		err := goleak.Find()
		for until := time.Now().Add(patience); err != nil && time.Now().Before(until); err = goleak.Find() {
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// running is a node in production's world.
type running struct {
	t    testing.TB
	n    *node.Node
	done chan error
	addr string
	net  *tcp.Network
}

// events fails the test on an event that says something went wrong, unless it is expected.
type events struct {
	t   testing.TB
	mu  sync.Mutex
	on  func(event.Event) bool
	all func(event.Event) // sees every event
}

func (s *events) Emit(e event.Event) {
	if s.all != nil {
		s.mu.Lock()
		s.all(e)
		s.mu.Unlock()
	}
	l, ok := e.(event.Leveled)
	if !ok || l.Level() != event.Error {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.on != nil && s.on(e) {
		return
	}
	var f event.Fields
	e.Fields(&f)
	s.t.Errorf("event %s: %+v", e.Name(), f.List)
}

// start brings a node up on dir and returns when it serves.
func start(t testing.TB, dir string, settings map[string]string, sink *events) *running {
	t.Helper()
	props := map[string]string{
		"log.dirs": dir, "listeners": "PLAINTEXT://127.0.0.1:0", "group.initial.rebalance.delay.ms": "0",
		"offsets.topic.replication.factor": "1", "offsets.topic.num.partitions": "4",
	}
	for k, v := range settings {
		props[k] = v
	}
	cfg, _, err := config.Parse(props)
	if err != nil {
		t.Fatal(err)
	}
	if sink == nil {
		sink = &events{t: t}
	}
	rt := live.New(live.Options{})
	r := &running{t: t, done: make(chan error, 1), net: tcp.New(tcp.Config{})}
	r.n = node.New(node.Host{
		RT: rt, Disk: osfs.New(osfs.Options{}), Net: r.net,
		Rand:    func(string) *mathrand.Rand { return mathrand.New(mathrand.NewPCG(1, 2)) },
		Entropy: func(b []byte) { _, _ = rand.Read(b) },
		Events:  sink, Format: true,
	}, *cfg)
	ready := make(chan struct{})
	go live.Main(rt, func(tk *task.T) {
		g := task.NewGroup(rt, "test")
		g.Go("ready", func(tk *task.T) {
			if r.n.Ready().Wait(tk, clock.Never) == task.Woken {
				close(ready)
			}
		})
		r.done <- r.n.Run(tk)
		g.Stop()
		g.Wait(tk)
	})
	select {
	case <-ready:
	case err := <-r.done:
		t.Fatalf("the node does not start: %v", err)
	case <-time.After(patience):
		t.Fatalf("the node is not ready after %v", patience)
	}
	r.addr = r.n.Addr()
	return r
}

// stop stops the node cleanly.
func (r *running) stop() {
	r.t.Helper()
	r.n.Stop()
	select {
	case err := <-r.done:
		if err != nil {
			r.t.Errorf("stopping: %v", err)
		}
	case <-time.After(patience):
		r.t.Fatal("the node does not stop")
	}
}

func (r *running) client(opts ...kgo.Opt) *kgo.Client {
	r.t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(r.addr), kgo.RetryTimeout(patience)}, opts...)...)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

func timeout(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func (r *running) createTopic(name string, partitions int32, configs map[string]string) {
	r.t.Helper()
	c := r.client()
	defer c.Close()
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, 1
	for k, v := range configs {
		tc := kmsg.NewCreateTopicsRequestTopicConfig()
		tc.Name, tc.Value = k, &v
		topic.Configs = append(topic.Configs, tc)
	}
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(timeout(r.t), c)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := kerr.ErrorForCode(resp.Topics[0].ErrorCode); err != nil {
		r.t.Fatalf("creating %s: %v", name, err)
	}
}

// produce writes n records with the values prefix-0 ... and returns when all are
// acknowledged.
func (r *running) produce(topic, prefix string, n int, opts ...kgo.Opt) {
	r.t.Helper()
	c := r.client(append([]kgo.Opt{kgo.DefaultProduceTopic(topic), kgo.AllowAutoTopicCreation()}, opts...)...)
	defer c.Close()
	ctx := timeout(r.t)
	var records []*kgo.Record
	for i := range n {
		records = append(records, &kgo.Record{
			Key: fmt.Appendf(nil, "key-%d", i), Value: fmt.Appendf(nil, "%s-%d", prefix, i),
			Headers: []kgo.RecordHeader{{Key: "h", Value: []byte{byte(i)}}},
		})
	}
	if err := c.ProduceSync(ctx, records...).FirstErr(); err != nil {
		r.t.Fatalf("producing to %s: %v", topic, err)
	}
}

// consume reads n records of a topic from the beginning.
func (r *running) consume(topic string, n int, opts ...kgo.Opt) []*kgo.Record {
	r.t.Helper()
	c := r.client(append([]kgo.Opt{kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}, opts...)...)
	defer c.Close()
	return r.poll(c, n)
}

func (r *running) poll(c *kgo.Client, n int) []*kgo.Record {
	r.t.Helper()
	ctx := timeout(r.t)
	var got []*kgo.Record
	for len(got) < n {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			r.t.Fatalf("after %d of %d records: %v", len(got), n, err)
		}
		got = append(got, fetches.Records()...)
	}
	return got
}

// values checks that the records are prefix-0 ... in order, one partition.
func values(t *testing.T, got []*kgo.Record, prefix string, n int) {
	t.Helper()
	if len(got) != n {
		t.Fatalf("%d records, want %d", len(got), n)
	}
	for i, rec := range got {
		if want := fmt.Sprintf("%s-%d", prefix, i); string(rec.Value) != want || rec.Offset != int64(i) {
			t.Fatalf("record %d is %q at offset %d, want %q", i, rec.Value, rec.Offset, want)
		}
		if len(rec.Headers) != 1 || rec.Headers[0].Key != "h" || rec.Headers[0].Value[0] != byte(i) {
			t.Fatalf("record %d has the headers %v", i, rec.Headers)
		}
	}
}

func TestEveryCodecComesBackAsItWasWritten(t *testing.T) {
	r := start(t, t.TempDir(), nil, nil)
	defer r.stop()
	for name, codec := range map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	} {
		t.Run(name, func(t *testing.T) {
			r.t = t
			r.produce("codec-"+name, "v", 1000, kgo.ProducerBatchCompression(codec))
			values(t, r.consume("codec-"+name, 1000), "v", 1000)
		})
	}
	r.t = t
}

func TestAcknowledgementLevels(t *testing.T) {
	r := start(t, t.TempDir(), nil, nil)
	defer r.stop()
	for name, acks := range map[string]kgo.Acks{"none": kgo.NoAck(), "leader": kgo.LeaderAck(), "all": kgo.AllISRAcks()} {
		t.Run(name, func(t *testing.T) {
			r.t = t
			r.createTopic("acks-"+name, 1, nil)
			r.produce("acks-"+name, "v", 50, kgo.RequiredAcks(acks), kgo.DisableIdempotentWrite())
			values(t, r.consume("acks-"+name, 50), "v", 50)
		})
	}
	r.t = t
}

func TestARestartServesTheSameOffsets(t *testing.T) {
	dir := t.TempDir()
	r := start(t, dir, nil, nil)
	r.createTopic("orders", 1, nil)
	r.produce("orders", "v", 500)
	values(t, r.consume("orders", 500), "v", 500)
	r.stop()
	if _, err := os.Stat(filepath.Join(dir, ".kafka_cleanshutdown")); err != nil {
		t.Errorf("no marker of a clean stop: %v", err)
	}

	r = start(t, dir, nil, nil)
	defer r.stop()
	values(t, r.consume("orders", 500), "v", 500)
	r.produce("orders", "more", 1)
	got := r.consume("orders", 501)
	if last := got[500]; last.Offset != 500 || string(last.Value) != "more-0" {
		t.Errorf("after the restart the next record is %q at %d", last.Value, last.Offset)
	}
}

// A copy of the directory taken while the node runs is what a kill would leave: the files
// without the marker. It comes up by itself, with everything that was acknowledged.
func TestAKilledNodeComesUpByItself(t *testing.T) {
	dir, copied := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	r := start(t, dir, nil, nil)
	r.createTopic("orders", 1, nil)
	r.produce("orders", "v", 500)
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	r.stop()
	r = start(t, copied, nil, nil)
	defer r.stop()
	values(t, r.consume("orders", 500), "v", 500)
}

func TestFlushedMessagesAreAcknowledgedWhenSynced(t *testing.T) {
	r := start(t, t.TempDir(), nil, nil)
	defer r.stop()
	r.createTopic("safe", 1, map[string]string{"flush.messages": "1"})
	r.produce("safe", "v", 200, kgo.ProducerBatchMaxBytes(1024))
	values(t, r.consume("safe", 200), "v", 200)
}

func TestAGroupGoesOnWhereItCommitted(t *testing.T) {
	dir := t.TempDir()
	r := start(t, dir, nil, nil)
	r.createTopic("orders", 3, nil)
	r.produce("orders", "v", 300)
	member := func() *kgo.Client {
		return r.client(kgo.ConsumeTopics("orders"), kgo.ConsumerGroup("workers"), kgo.DisableAutoCommit(),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	}
	c := member()
	r.poll(c, 300)
	if err := c.CommitUncommittedOffsets(timeout(t)); err != nil {
		t.Fatal(err)
	}
	c.Close()
	r.stop()

	r = start(t, dir, nil, nil)
	defer r.stop()
	r.produce("orders", "w", 30)
	c = member()
	defer c.Close()
	for _, rec := range r.poll(c, 30) {
		if rec.Value[0] != 'w' {
			t.Fatalf("%q came again", rec.Value)
		}
	}
}

func TestDeletedTopicsAreGoneAndComeBackEmpty(t *testing.T) {
	r := start(t, t.TempDir(), nil, nil)
	defer r.stop()
	r.createTopic("orders", 1, nil)
	r.produce("orders", "v", 10)
	c := r.client()
	defer c.Close()
	del := kmsg.NewPtrDeleteTopicsRequest()
	topic := kmsg.NewDeleteTopicsRequestTopic()
	topic.Topic = kmsg.StringPtr("orders")
	del.Topics = append(del.Topics, topic)
	del.TopicNames = []string{"orders"}
	resp, err := del.RequestWith(timeout(t), c)
	if err != nil || resp.Topics[0].ErrorCode != 0 {
		t.Fatalf("deleting: %v, %+v", err, resp)
	}
	r.createTopic("orders", 1, nil)
	r.produce("orders", "new", 5)
	values(t, r.consume("orders", 5), "new", 5)
}

func TestATakenPortAndALockedDirectoryAreErrors(t *testing.T) {
	dir := t.TempDir()
	r := start(t, dir, nil, nil)
	defer r.stop()
	for _, c := range []struct {
		name, dir, listen string
	}{{"port", t.TempDir(), "PLAINTEXT://" + r.addr}, {"directory", dir, "PLAINTEXT://127.0.0.1:0"}} {
		cfg, _, err := config.Parse(map[string]string{"log.dirs": c.dir, "listeners": c.listen})
		if err != nil {
			t.Fatal(err)
		}
		rt := live.New(live.Options{})
		live.Main(rt, func(tk *task.T) {
			n := node.New(node.Host{
				RT: rt, Disk: osfs.New(osfs.Options{}), Net: tcp.New(tcp.Config{}), Format: true,
				Rand:    func(string) *mathrand.Rand { return mathrand.New(mathrand.NewPCG(1, 2)) },
				Entropy: func(b []byte) { _, _ = rand.Read(b) },
			}, *cfg)
			if err := n.Run(tk); err == nil {
				t.Errorf("taken %s: the node ran", c.name)
			} else {
				t.Logf("taken %s: %v", c.name, err)
			}
		})
	}
}

// lostDirs are log directories on disks of their own: the metadata's is the first.
func lostDirs(t *testing.T) (paths []string, settings map[string]string) {
	root := t.TempDir()
	for _, sub := range []string{"meta", "a", "b"} {
		paths = append(paths, filepath.Join(root, sub))
	}
	return paths, map[string]string{"metadata.log.dir": paths[0], "log.dirs": paths[1] + "," + paths[2]}
}

// breakDir makes a directory one that cannot be read: it is a file.
func breakDir(t *testing.T, path string) {
	t.Helper()
	if err := errors.Join(os.Rename(path, path+".away"), os.WriteFile(path, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
}

// A directory that cannot be read when the node starts is offline, with one line, and the
// others serve; it is back with the next start.
func TestADirectoryThatCannotBeReadIsOfflineFromTheStart(t *testing.T) {
	dirs, settings := lostDirs(t)
	r := start(t, "", settings, nil)
	r.createTopic("t", 4, nil)
	r.produce("t", "t", 32, kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	r.stop()
	breakDir(t, dirs[2])
	var lines []string
	sink := &events{t: t, on: func(e event.Event) bool {
		if e.Name() == "partition-failed" {
			return true // those that it has
		}
		if e.Name() != "dir-offline" {
			return false
		}
		var f event.Fields
		e.Fields(&f)
		lines = append(lines, fmt.Sprintf("%+v", f.List))
		return true
	}}
	r = start(t, "", settings, sink)
	c := r.client()
	online, err := kadm.NewClient(c).DescribeBrokerLogDirs(timeout(t), 1, nil)
	c.Close()
	if err != nil || online[dirs[1]].Err != nil || !errors.Is(online[dirs[2]].Err, kerr.KafkaStorageError) {
		t.Errorf("directories: %+v %v", online, err)
	}
	r.produce("t", "more", 8, kgo.RecordPartitioner(kgo.RoundRobinPartitioner())) // to those with a leader
	r.stop()
	if len(lines) != 1 || !strings.Contains(lines[0], dirs[2]) {
		t.Errorf("lines of the directory: %q", lines)
	}
	if err := errors.Join(os.Remove(dirs[2]), os.Rename(dirs[2]+".away", dirs[2])); err != nil {
		t.Fatal(err)
	}
	r = start(t, "", settings, nil)
	r.consume("t", 40)
	r.stop()
}

// Without the metadata's directory, or without any for data, there is no node.
func TestANodeDoesNotStartWithoutItsMetadataOrAnyData(t *testing.T) {
	for _, lost := range [][]int{{0}, {1, 2}} {
		dirs, settings := lostDirs(t)
		start(t, "", settings, nil).stop()
		for _, i := range lost {
			breakDir(t, dirs[i])
		}
		settings["listeners"] = "PLAINTEXT://127.0.0.1:0"
		cfg, _, err := config.Parse(settings)
		if err != nil {
			t.Fatal(err)
		}
		rt := live.New(live.Options{})
		live.Main(rt, func(tk *task.T) {
			n := node.New(node.Host{
				RT: rt, Disk: osfs.New(osfs.Options{}), Net: tcp.New(tcp.Config{}), Format: true,
				Rand:    func(string) *mathrand.Rand { return mathrand.New(mathrand.NewPCG(1, 2)) },
				Entropy: func(b []byte) { _, _ = rand.Read(b) },
			}, *cfg)
			if err := n.Run(tk); err == nil || !strings.Contains(err.Error(), dirs[lost[len(lost)-1]]) {
				t.Errorf("without %v: %v", lost, err)
			}
		})
	}
}

func TestAnUnformattedDirectoryIsRefusedUnlessAllowed(t *testing.T) {
	cfg, _, err := config.Parse(map[string]string{"log.dirs": t.TempDir(), "listeners": "PLAINTEXT://127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	rt := live.New(live.Options{})
	live.Main(rt, func(tk *task.T) {
		n := node.New(node.Host{
			RT: rt, Disk: osfs.New(osfs.Options{}), Net: tcp.New(tcp.Config{}),
			Rand:    func(string) *mathrand.Rand { return mathrand.New(mathrand.NewPCG(1, 2)) },
			Entropy: func(b []byte) { _, _ = rand.Read(b) },
		}, *cfg)
		if err := n.Run(tk); !errors.Is(err, node.ErrNotFormatted) {
			t.Errorf("got %v, want ErrNotFormatted", err)
		}
	})
}

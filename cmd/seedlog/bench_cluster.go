package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/cmd/port"
)

type clusterBenchFlags struct {
	memory, format string
	rounds         int
	bytes          int64
	recordSize     int
	requests       int
	window         time.Duration
	only           []string
}

func benchClusterCommand() *cobra.Command {
	var f clusterBenchFlags
	c := &cobra.Command{
		Use:   "cluster",
		Short: "Compare a cluster of three nodes on this machine with one node",
		Long: `Cluster runs a node and a cluster of three in turn, round by round, on one machine in one run:

  throughput  acks=all, three copies, min.insync.replicas=2, against the node's acks=1
  latency     the same with one request in flight
  follower    what the other partitions of a node lose when one partition loses a follower

All nodes are child processes of this one, with their data in memory; the client sends frames
built beforehand.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	fl := c.Flags()
	fl.StringVar(&f.memory, "memory-dir", "/dev/shm", "a directory in memory: three copies on one disk would measure the disk")
	fl.StringVar(&f.format, "format", "text", "text or markdown")
	fl.IntVar(&f.rounds, "rounds", 7, "rounds of every loop")
	fl.Int64Var(&f.bytes, "bytes", 128<<20, "bytes that a loop moves in a round of 1 MiB requests; smaller ones move less")
	fl.IntVar(&f.recordSize, "record-size", 1024, "bytes of a record's value")
	fl.IntVar(&f.requests, "requests", 2000, "requests of a round that measures latency")
	fl.DurationVar(&f.window, "window", 2*time.Second, "how long each look at the other partitions is")
	fl.StringSliceVar(&f.only, "only", []string{"throughput", "latency", "follower"}, "what to measure")
	return c
}

// clusterBench is one run of the command.
type clusterBench struct {
	clusterBenchFlags
	ctx   context.Context
	note  io.Writer
	out   io.Writer
	one   *benchBroker
	nodes []*benchBroker
}

// What the goals name: see docs/performance.md.
const (
	clusterShare  = 0.2
	followerShare = 0.95
)

func (f *clusterBenchFlags) run(c *cobra.Command) error {
	if f.format != "text" && f.format != "markdown" {
		return usagef("--format is %q: use text or markdown", f.format)
	}
	ctx, stop := signalContext(c.Context())
	defer stop()
	r := &clusterBench{clusterBenchFlags: *f, ctx: ctx, note: c.ErrOrStderr(), out: c.OutOrStdout()}
	dir, remove, err := benchDir(f.memory)
	if err != nil {
		return err
	}
	defer remove()
	defer r.kill()
	if err := r.start(dir); err != nil {
		return err
	}
	fmt.Fprintf(r.out, "%s, %d cores, %d rounds, records of %d bytes, no codec\n", runtime.GOOS+"/"+runtime.GOARCH, runtime.NumCPU(), r.rounds, r.recordSize)
	for _, step := range []struct {
		name string
		run  func() error
	}{{"throughput", r.throughput}, {"latency", r.latency}, {"follower", r.follower}} {
		if !containsText(f.only, step.name) {
			continue
		}
		if err := step.run(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return r.stop()
}

// start starts the node and the cluster, with the time-outs that they have by default.
func (r *clusterBench) start(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var err error
	if r.one, err = startBenchBroker(filepath.Join(dir, "one")); err != nil {
		return err
	}
	at, err := port.Free(6)
	if err != nil {
		return err
	}
	f := devFlags{nodes: 3, dir: dir, port: at}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	nodes, err := f.prepare(self)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		b, err := runBenchBroker(n.broker, n.dir, []string{self, "start", "--config", n.file})
		if err != nil {
			return err
		}
		r.nodes = append(r.nodes, b)
	}
	return r.until("every node serves and knows of all others", func() (bool, error) {
		for _, b := range r.nodes {
			if m, err := r.metadata(b); err != nil || len(m.Brokers) != len(r.nodes) {
				return false, nil // it starts
			}
		}
		return true, nil
	})
}

func (r *clusterBench) stop() error {
	var failed error
	for _, b := range append(slices.Clone(r.nodes), r.one) {
		failed = errors.Join(failed, b.stop())
	}
	return failed
}

// kill ends who still runs.
func (r *clusterBench) kill() {
	for _, b := range append(slices.Clone(r.nodes), r.one) {
		if b != nil {
			b.kill()
		}
	}
}

// until polls a condition for up to two minutes.
func (r *clusterBench) until(what string, cond func() (bool, error)) error {
	for end := time.Now().Add(2 * time.Minute); ; {
		ok, err := cond()
		if ok || err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s: not within two minutes", what)
		}
		select {
		case <-r.ctx.Done():
			return r.ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// metadata asks one node about everything, over a connection of its own.
func (r *clusterBench) metadata(b *benchBroker) (*kmsg.MetadataResponse, error) {
	c, err := b.dial(r.ctx)
	if err != nil {
		return nil, err
	}
	defer c.close()
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 12
	resp, err := c.ask(req)
	if err != nil {
		return nil, err
	}
	return resp.(*kmsg.MetadataResponse), nil
}

// create makes a topic of one partition whose copies are on these nodes, the first of which
// leads it, and waits until that takes records with all of them in sync.
func (r *clusterBench) create(topic string, settings [][2]string, replicas ...int32) error {
	c, err := r.nodes[0].dial(r.ctx)
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.createPlaced(topic, replicas, slices.Concat([][2]string{{"min.insync.replicas", "2"}}, benchTopicSettings, settings)...); err != nil {
		return err
	}
	return r.until(topic+" is whole", func() (bool, error) { return r.inSync(topic, replicas[0], replicas...) })
}

// inSync asks a partition's leader whether it leads with just these replicas in sync.
func (r *clusterBench) inSync(topic string, leader int32, replicas ...int32) (bool, error) {
	m, err := r.metadata(r.nodes[leader-1])
	if err != nil {
		return false, err
	}
	for _, t := range m.Topics {
		if *t.Topic == topic && len(t.Partitions) == 1 {
			isr := slices.Sorted(slices.Values(t.Partitions[0].ISR))
			return t.Partitions[0].Leader == leader && slices.Equal(isr, slices.Sorted(slices.Values(replicas))), nil
		}
	}
	return false, nil
}

func (r *clusterBench) remove(topic string) error {
	c, err := r.nodes[0].dial(r.ctx)
	if err != nil {
		return err
	}
	defer c.close()
	return c.deleteTopic(topic)
}

// createPlaced makes a topic of one partition on given nodes; on any if there are none.
func (c *benchConn) createPlaced(name string, replicas []int32, settings ...[2]string) error {
	if len(replicas) == 0 {
		return c.createTopic(name, settings...)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, 10_000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, -1, -1
	a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
	a.Replicas = replicas
	t.ReplicaAssignment = append(t.ReplicaAssignment, a)
	for _, s := range settings {
		cfg := kmsg.NewCreateTopicsRequestTopicConfig()
		cfg.Name, cfg.Value = s[0], &s[1]
		t.Configs = append(t.Configs, cfg)
	}
	req.Topics = append(req.Topics, t)
	resp, err := c.ask(req)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode); err != nil {
		return fmt.Errorf("topic %s: %w", name, err)
	}
	return nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// devFlags describe a cluster on this machine.
type devFlags struct {
	nodes   int
	dir     string
	port    int
	set     []string
	restart time.Duration
}

func devCommand() *cobra.Command {
	var f devFlags
	c := &cobra.Command{
		Use:   "dev",
		Short: "Run a cluster on this machine",
		Long: `Run a cluster on this machine: so many node processes on the loopback interface, each broker and
controller, each with a directory of its own below --data-dir.

Node 1 listens on --port for clients and on the next port for the quorum, node 2 on the two
after these, and so on. The nodes are formatted on the first start. A node that dies, by
kill -9 or by itself, is started again after --restart; Ctrl-C stops all of them cleanly.`,
		Example: "  seedlog dev --nodes 3\n  seedlog dev --nodes 5 --port 19092 --data-dir /tmp/five --set min.insync.replicas=2",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	c.Flags().IntVar(&f.nodes, "nodes", 3, "number of nodes")
	c.Flags().StringVar(&f.dir, "data-dir", "seedlog-dev", "directory of the nodes' directories")
	c.Flags().IntVar(&f.port, "port", 9092, "the first of two ports a node")
	c.Flags().StringArrayVar(&f.set, "set", nil, "a setting of every node, name=value; may be repeated")
	c.Flags().DurationVar(&f.restart, "restart", time.Second, "how long a node that died stays down; negative: for good")
	return c
}

func (f *devFlags) run(c *cobra.Command) error {
	if f.nodes < 1 || f.port < 1 || f.port+2*f.nodes > 65536 {
		return usagef("--nodes %d from --port %d: there are no such ports", f.nodes, f.port)
	}
	for _, kv := range f.set {
		if !strings.Contains(kv, "=") {
			return usagef("--set %q: write name=value", kv)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	nodes, err := f.prepare(self)
	if err != nil {
		return err
	}
	ctx, stop := signalContext(c.Context())
	defer stop()
	var running sync.WaitGroup
	said := &lines{w: c.ErrOrStderr()}
	failures := make([]error, len(nodes))
	for i, n := range nodes {
		running.Go(func() {
			if failures[i] = n.keep(ctx, said, f.restart); failures[i] != nil {
				stop() // without one of them it is not the cluster that was asked for
			}
		})
	}
	if err := f.announce(ctx, c, nodes); err != nil && ctx.Err() == nil {
		stop()
		failures = append(failures, err)
	}
	running.Wait()
	return errors.Join(failures...)
}

// devNode is one node of the cluster.
type devNode struct {
	id              int
	dir, file       string
	broker, control string // host:port
	self            string // the binary
}

// prepare writes each node's settings, and formats the nodes if none is.
func (f *devFlags) prepare(self string) ([]*devNode, error) {
	nodes := make([]*devNode, f.nodes)
	for i := range nodes {
		dir := filepath.Join(f.dir, fmt.Sprintf("node-%d", i+1))
		nodes[i] = &devNode{
			id: i + 1, dir: dir, file: filepath.Join(dir, "server.properties"), self: self,
			broker: fmt.Sprintf("127.0.0.1:%d", f.port+2*i), control: fmt.Sprintf("127.0.0.1:%d", f.port+2*i+1),
		}
	}
	more := filepath.Join(f.dir, fmt.Sprintf("node-%d", f.nodes+1))
	if isFormatted(more) {
		return nil, fmt.Errorf("%s is formatted: name as many --nodes as there are, for fewer would wait for the others, or begin anew in another --data-dir", more)
	}
	var unformatted []*devNode
	for _, n := range nodes {
		if err := os.MkdirAll(n.dir, 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(n.file, []byte(n.properties(nodes, f.set)), 0o644); err != nil {
			return nil, err
		}
		if !isFormatted(n.dir) {
			unformatted = append(unformatted, n)
		}
	}
	switch len(unformatted) {
	case 0:
		return nodes, nil
	case len(nodes):
		return nodes, format(nodes)
	}
	return nil, fmt.Errorf("%s is not formatted and other nodes are: bring its directory back, or begin anew in another --data-dir", unformatted[0].dir)
}

// isFormatted reports whether a node's directory has an identity, or one that cannot be read.
func isFormatted(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "data", "meta.properties"))
	return !errors.Is(err, os.ErrNotExist)
}

// properties is the file of a node's settings.
func (n *devNode) properties(all []*devNode, set []string) string {
	var controllers []string
	for _, o := range all {
		controllers = append(controllers, o.control)
	}
	copies := min(3, len(all))
	lines := []string{
		"# Written by seedlog dev at each start.",
		"process.roles=broker,controller",
		fmt.Sprintf("node.id=%d", n.id),
		fmt.Sprintf("listeners=PLAINTEXT://%s,CONTROLLER://%s", n.broker, n.control),
		"controller.listener.names=CONTROLLER",
		"controller.quorum.bootstrap.servers=" + strings.Join(controllers, ","),
		"log.dirs=" + filepath.Join(n.dir, "data"),
		fmt.Sprintf("default.replication.factor=%d", copies),
		fmt.Sprintf("offsets.topic.replication.factor=%d", copies),
		fmt.Sprintf("min.insync.replicas=%d", max(1, copies-1)),
		"group.initial.rebalance.delay.ms=0",
	}
	return strings.Join(append(lines, set...), "\n") + "\n"
}

// format formats a new cluster with all nodes as its voters.
func format(nodes []*devNode) error {
	cluster, voters := randomID(), make([]string, len(nodes))
	for i, n := range nodes {
		voters[i] = fmt.Sprintf("%d@%s:%s", n.id, n.control, randomID())
	}
	for _, n := range nodes {
		cmd := exec.Command(n.self, "storage", "format", "--config", n.file, "--cluster-id", cluster, "--initial-controllers", strings.Join(voters, ","))
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("formatting %s: %s", n.dir, strings.TrimSpace(string(out)))
		}
	}
	return nil
}

// randomID is an id as Kafka writes them. None begins with a dash: that is a flag.
func randomID() string {
	for {
		var id [16]byte
		entropy(id[:])
		id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
		if s := topicID(id); s[0] != '-' {
			return s
		}
	}
}

// keep runs the node until ctx ends, and again when it dies.
func (n *devNode) keep(ctx context.Context, said *lines, pause time.Duration) error {
	for {
		began := time.Now()
		err := n.once(ctx, said)
		switch {
		case ctx.Err() != nil:
			return err
		case time.Since(began) < time.Second && endedBy(err) == 0:
			return fmt.Errorf("node %d ended at once (%v): see %s", n.id, err, n.log())
		case pause < 0:
			said.printf("node %d ended: %s; it stays down\n", n.id, ending(err))
			<-ctx.Done()
			return nil
		}
		said.printf("node %d ended: %s; it starts again in %v\n", n.id, ending(err), pause)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// ending says how a process ended.
func ending(err error) string {
	if err == nil {
		return "stopped cleanly"
	}
	return err.Error()
}

// endedBy is the signal that ended a process, or 0.
func endedBy(err error) syscall.Signal {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return 0
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return status.Signal()
	}
	return 0
}

func (n *devNode) log() string { return filepath.Join(n.dir, "log") }

// once runs one process to its end; the end of ctx stops it cleanly.
func (n *devNode) once(ctx context.Context, said *lines) error {
	log, err := os.OpenFile(n.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(n.self, "start", "--config", n.file)
	cmd.Stdout, cmd.Stderr = log, log
	// A terminal's Ctrl-C is this process's to pass on; and no node outlives it, which the
	// kernel ties to the thread that starts the node.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		return err
	}
	said.printf("node %d: %s, process %d, log in %s\n", n.id, n.broker, cmd.Process.Pid, n.log())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err = <-ended:
		return err
	case <-ctx.Done():
	}
	_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended this moment
	if err = <-ended; endedBy(err) == syscall.SIGTERM {
		return nil // it had not come as far as to handle it: nothing was open
	}
	return err
}

// announce waits until every broker serves and knows of all others, and prints where the
// cluster is.
func (f *devFlags) announce(ctx context.Context, c *cobra.Command, nodes []*devNode) error {
	var brokers []string
	for _, n := range nodes {
		brokers = append(brokers, n.broker)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ClientID("seedlog"), kgo.RequestRetries(0))
	if err != nil {
		return err
	}
	defer cl.Close()
	for ctx.Err() == nil {
		if allKnow(ctx, cl, len(nodes)) {
			_, err = fmt.Fprintf(c.OutOrStdout(), "bootstrap.servers=%s\n", strings.Join(brokers, ","))
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	return ctx.Err()
}

// allKnow reports whether each of the client's brokers names n brokers that are alive.
func allKnow(ctx context.Context, cl *kgo.Client, n int) bool {
	for _, b := range cl.SeedBrokers() {
		// Asked directly: the client's own cache would go on with the first answer.
		req := kmsg.NewPtrMetadataRequest()
		req.Topics = []kmsg.MetadataRequestTopic{}
		resp, err := b.Request(ctx, req)
		if err != nil || len(resp.(*kmsg.MetadataResponse).Brokers) != n {
			return false
		}
	}
	return true
}

// lines writes whole lines from several goroutines.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lines) printf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.w, format, args...)
}

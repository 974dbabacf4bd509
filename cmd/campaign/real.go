package main

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"seedlog/checker"
	"seedlog/clock/live"
	"seedlog/clock/task"
	"seedlog/cmd/campaign/links"
	"seedlog/cmd/port"
	"seedlog/disk"
	"seedlog/net/tcp"
	"seedlog/scenarios"
	"seedlog/scenarios/client"
)

// realFlags are those of campaign real.
type realFlags struct {
	seed             uint64
	duration         time.Duration
	binary, dir, net string
	nodes, failover  int
	verbose          bool
}

// realCommand runs the simulator's workload and checkers against real processes on a real
// disk, with kill -9, SIGSTOP and clean restarts, and what cuts and delays a network if there
// are several.
func realCommand(args []string) error {
	var o realFlags
	f := flag.NewFlagSet("real", flag.ExitOnError)
	f.Uint64Var(&o.seed, "seed", 1, "seed of workload and faults")
	f.DurationVar(&o.duration, "duration", time.Minute, "how long faults go on")
	f.StringVar(&o.binary, "binary", "", "the broker; built with -race if not given, and without for -failover")
	f.StringVar(&o.dir, "dir", "", "data directory; a temporary one if not given")
	f.StringVar(&o.net, "network", "auto", "between nodes: auto, namespaces or relay")
	f.IntVar(&o.nodes, "nodes", 1, "how many nodes")
	f.IntVar(&o.failover, "failover", 0, "measure so many failovers of each kind instead")
	f.BoolVar(&o.verbose, "v", false, "say what is done")
	if err := parseFlags(f, args); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "seedlog-real")
	if err != nil {
		return err
	}
	kept := false
	defer func() {
		if !kept {
			os.RemoveAll(tmp)
		}
	}()
	if o.dir == "" {
		o.dir = filepath.Join(tmp, "data")
	}
	if o.binary == "" {
		o.binary = filepath.Join(tmp, "seedlog")
		build := []string{"build", "-o", o.binary, "./cmd/seedlog"}
		if o.failover == 0 {
			build = []string{"build", "-race", "-o", o.binary, "./cmd/seedlog"}
		}
		if out, err := exec.Command("go", build...).CombinedOutput(); err != nil {
			return fmt.Errorf("building the broker: %w\n%s", err, out)
		}
	}
	switch {
	case o.failover > 0:
		return measureFailover(o)
	case o.nodes > 1:
		kept, err = realCluster(o)
		return err
	}
	return realOne(o, tmp)
}

// realOne is campaign real of one node.
func realOne(o realFlags, tmp string) error {
	r := &realRun{
		seed: o.seed, dir: o.dir, rec: client.NewRecorder(), interval: make(map[string]int64),
		broker: &process{binary: o.binary, dir: o.dir, log: filepath.Join(tmp, "broker.log")},
		net:    tcp.New(tcp.Config{}), rt: live.New(live.Options{}),
	}
	v, err := r.run(o.duration)
	if err != nil {
		return err
	}
	fmt.Printf("real: seed=%d duration=%v ops=%d kills=%d stops=%d pauses=%d verdict=%s\n", o.seed, o.duration, r.rec.Ops(), r.kills, r.stops, r.pauses, verdictText(v))
	if !v.OK() {
		printViolations(v)
		return fmt.Errorf("the broker's last words:\n%s", r.broker.lastWords())
	}
	return nil
}

// realCluster is campaign real of several nodes. It reports whether its directory is worth
// keeping.
func realCluster(o realFlags) (kept bool, err error) {
	if !links.Alone() && o.net != "relay" {
		// Once more, in a network namespace of its own; the binary and the directory are made.
		args := []string{"real", "-seed", fmt.Sprint(o.seed), "-duration", o.duration.String(), "-binary", o.binary, "-dir", o.dir, "-network", o.net,
			"-nodes", fmt.Sprint(o.nodes), fmt.Sprintf("-v=%v", o.verbose)}
		started, err := links.Again(args)
		if started || o.net == "namespaces" {
			if err != nil && started {
				return true, errors.New("it did not pass: see above")
			}
			return false, err
		}
		fmt.Printf("real: no network namespace: %v\n", err)
	}
	r := newClusterRun(o.seed, o.duration, o.verbose)
	network, err := r.between(o)
	if err != nil {
		return false, err
	}
	defer network.Close()
	defer r.killAll()
	if err := r.start(o.binary, o.dir, network, o.nodes); err != nil {
		return true, err
	}
	v, err := r.run(o.duration)
	if err == nil && v.OK() {
		fmt.Printf("real: seed=%d nodes=%d duration=%v ops=%d %v verdict=ok\n", o.seed, o.nodes, o.duration, r.rec.Ops(), r.faults)
		return false, nil
	}
	r.report(o, v, err)
	return true, errors.New("the run did not pass")
}

// between makes the network, and says which it is.
func (r *clusterRun) between(o realFlags) (network links.Network, err error) {
	r.rules = links.NewRules(o.nodes, stream(o.seed, "loss"))
	if links.Alone() {
		if err := links.Loopback(); err != nil {
			return nil, err
		}
		if network, err = links.NewNamespaces(r.rules, o.nodes); err == nil || o.net == "namespaces" {
			if err == nil {
				fmt.Printf("real: network: %v\n", network)
			}
			return network, err
		}
		fmt.Printf("real: no network namespaces: %v\n", err)
	}
	if network, err = links.NewRelays(r.rules, o.nodes); err == nil {
		fmt.Printf("real: network: %v\n", network)
	}
	return network, err
}

// report says what was found, what was done before, and where everything is.
func (r *clusterRun) report(o realFlags, v checker.Verdict, err error) {
	fmt.Println("what was done last:")
	for _, line := range r.story[max(0, len(r.story)-60):] {
		fmt.Println("  " + line)
	}
	fmt.Printf("real: seed=%d nodes=%d duration=%v ops=%d %v verdict=%s\n", o.seed, o.nodes, o.duration, r.rec.Ops(), r.faults, verdictText(v))
	printViolations(v)
	if err != nil {
		fmt.Printf("  %v\n", err)
	}
	fmt.Printf("the nodes' directories and logs are kept in %s\n", o.dir)
}

func verdictText(v checker.Verdict) string {
	if !v.OK() {
		return v.Violations[0].Invariant
	}
	return "ok"
}

func printViolations(v checker.Verdict) {
	for i, x := range v.Violations {
		if i == 20 {
			fmt.Printf("  and %d more\n", len(v.Violations)-i)
			break
		}
		fmt.Printf("  %v\n", x)
	}
}

type realRun struct {
	seed     uint64
	dir      string
	rec      *client.Recorder
	interval map[string]int64
	broker   *process
	net      *tcp.Network
	rt       *live.Runtime
	clients  int
	stopped  atomic.Bool

	kills, stops, pauses int
}

func (r *realRun) env(timeout time.Duration) (client.Env, *task.Group) {
	r.clients++
	name := fmt.Sprintf("client%d", r.clients)
	return client.Env{
		Net: r.net, Addr: r.broker.addr, Rand: stream(r.seed, name), Rec: r.rec, ID: r.clients, Name: name,
		RequestTimeout: max(timeout, 2*time.Second), Pace: 4 * time.Millisecond,
		GiveUp: func(int) bool { return false }, Enough: r.stopped.Load,
	}, task.NewGroup(r.rt, name)
}

func (r *realRun) run(duration time.Duration) (v checker.Verdict, err error) {
	rng := stream(r.seed, "real")
	if err := r.broker.start(); err != nil {
		return v, err
	}
	defer r.broker.signal(syscall.SIGKILL)
	topics, err := r.createTopics(rng)
	if err != nil {
		return v, err
	}
	w := scenarios.DrawWorkload(rng, topics, r.env)
	fmt.Printf("real: seed=%d %s\n", r.seed, w)
	w.Start()
	if err := r.disturb(rng, duration); err != nil {
		return v, err
	}
	r.stopped.Store(true)
	if !within(time.Minute, w.Done) {
		v.Failf("liveness", "clients", "some client has no answer a minute after the last fault")
		return v, nil
	}
	reader, ok := r.readAll(topics)
	if !ok {
		v.Failf("liveness", "reader", "not everything could be read within a minute")
		return v, nil
	}
	if err := r.broker.stop(); err != nil {
		v.Failf("clean-stop", "broker", "%v", err)
		return v, nil
	}
	j := scenarios.Judge{Files: osFiles{}, LogDirs: []string{r.dir}, Rec: r.rec, Dead: map[int]bool{}, Interval: r.interval, Reader: reader, Final: true}
	return j.Verdict(), nil
}

func (r *realRun) createTopics(rng *rand.Rand) ([]*client.Topic, error) {
	var topics []*client.Topic
	for i := range 3 {
		t := &client.Topic{Name: fmt.Sprintf("t%d", i), Partitions: 1 + rng.Int32N(4)}
		configs := [][2]string{{"internal.segment.bytes", fmt.Sprint(4096 << rng.IntN(8))}, {"index.interval.bytes", "512"}}
		if i == 0 {
			t.Synced = true
			configs = append(configs, [2]string{"flush.messages", "1"})
		}
		var err error
		env, group := r.env(5 * time.Second)
		group.Go("create", func(k *task.T) { err = client.Create(k, &env, t, configs) })
		if !within(30*time.Second, func() bool { return group.Len() == 0 }) || err != nil {
			return nil, fmt.Errorf("creating %s: %v", t.Name, err)
		}
		r.interval[t.Name] = 512
		topics = append(topics, t)
	}
	return topics, nil
}

// disturb kills, pauses and restarts the broker until the time is over.
func (r *realRun) disturb(rng *rand.Rand, duration time.Duration) error {
	end := time.Now().Add(duration)
	for time.Now().Before(end) {
		time.Sleep(time.Duration(500+rng.IntN(4000)) * time.Millisecond)
		switch rng.IntN(4) {
		case 0, 1:
			r.kills++
			r.broker.signal(syscall.SIGKILL)
			r.broker.wait()
			if rng.IntN(3) == 0 {
				// Once more, while it recovers.
				if err := r.broker.spawn(); err != nil {
					return err
				}
				time.Sleep(time.Duration(rng.IntN(40)) * time.Millisecond)
				r.broker.signal(syscall.SIGKILL)
				r.broker.wait()
			}
			if err := r.broker.start(); err != nil {
				return err
			}
		case 2:
			r.pauses++
			r.broker.signal(syscall.SIGSTOP)
			time.Sleep(time.Duration(10+rng.IntN(3000)) * time.Millisecond)
			r.broker.signal(syscall.SIGCONT)
		default:
			r.stops++
			if err := r.broker.stop(); err != nil {
				return err
			}
			if err := r.broker.start(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *realRun) readAll(topics []*client.Topic) (id int, ok bool) {
	env, group := r.env(20 * time.Second)
	env.Pace = 0
	c := &client.Consumer{Env: env, Topics: topics, Version: 18, MaxWait: 100 * time.Millisecond, MinBytes: 1, MaxBytes: 1 << 20, ToEnd: true}
	group.Go("final reader", c.Run)
	return env.ID, within(time.Minute, func() bool { return group.Len() == 0 })
}

// within polls a condition of the real world.
func within(limit time.Duration, cond func() bool) bool {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if cond() {
			return true
		}
	}
	return cond()
}

// osFiles is the real disk as the judge reads it.
type osFiles struct{}

func (osFiles) List(path string) []disk.Info {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil
	}
	var out []disk.Info
	for _, e := range entries {
		out = append(out, disk.Info{Name: e.Name(), Dir: e.IsDir()})
	}
	return out
}

func (osFiles) ReadFile(path string) ([]byte, bool) {
	b, err := os.ReadFile(path)
	return b, err == nil
}

// process is the broker's.
type process struct {
	binary, dir, log string
	addr             string
	cmd              *exec.Cmd
}

// start runs the broker and waits until it takes connections.
func (p *process) start() error {
	if p.addr == "" {
		at, err := port.Free(1)
		if err != nil {
			return err
		}
		p.addr = fmt.Sprintf("127.0.0.1:%d", at)
	}
	if err := p.spawn(); err != nil {
		return err
	}
	if !within(30*time.Second, func() bool { return reachable(p.addr) }) {
		return fmt.Errorf("the broker does not come up:\n%s", p.lastWords())
	}
	return nil
}

func (p *process) spawn() error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd = exec.Command(p.binary, "start", "--listen", p.addr, "--data-dir", p.dir, "--set", "group.min.session.timeout.ms=100",
		"--set", "offsets.topic.num.partitions=3", "--set", "log.flush.offset.checkpoint.interval.ms=2000")
	p.cmd.Stdout, p.cmd.Stderr = log, log
	return p.cmd.Start()
}

func (p *process) signal(s syscall.Signal) {
	if p.cmd != nil && p.cmd.Process != nil {
		_ = p.cmd.Process.Signal(s)
	}
}

func (p *process) wait() error { return p.cmd.Wait() }

// stop stops cleanly; a broker that does not within half a minute is killed.
func (p *process) stop() error {
	p.signal(syscall.SIGTERM)
	timer := time.AfterFunc(30*time.Second, func() { p.signal(syscall.SIGKILL) })
	defer timer.Stop()
	return p.wait()
}

func (p *process) lastWords() string {
	b, _ := os.ReadFile(p.log)
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-40):], "\n")
}

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"seedlog/cmd/port"
)

// devCluster is a `seedlog dev` in a process of its own: this binary.
type devCluster struct {
	t       *testing.T
	dir     string
	port    int
	brokers []string
	cmd     *exec.Cmd
	said    syncedText // what it says on standard error
}

// syncedText takes text from one goroutine and gives it to others.
type syncedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *syncedText) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *syncedText) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// patience is for how long a test waits for what an idle machine does in no time. It only
// says when to give up: no test that passes takes longer for it.
const patience = 2 * time.Minute

// portRow is the first of n ports in a row that nobody listens on.
func portRow(t *testing.T, n int) int {
	t.Helper()
	first, err := port.Free(n)
	if err != nil {
		t.Fatal(err)
	}
	return first
}

// startDev starts n nodes, waits until they serve, and stops them at the end of the test. A
// node that dies is down for the pause.
func startDev(t *testing.T, n int, pause string, settings ...string) *devCluster {
	t.Helper()
	d := &devCluster{t: t, dir: t.TempDir(), port: portRow(t, 2*n)}
	for i := range n {
		d.brokers = append(d.brokers, fmt.Sprintf("127.0.0.1:%d", d.port+2*i))
	}
	args := []string{"dev", "--nodes", strconv.Itoa(n), "--port", strconv.Itoa(d.port), "--data-dir", d.dir, "--restart", pause}
	for _, s := range settings {
		args = append(args, "--set", s)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	d.cmd = exec.Command(self, args...)
	d.cmd.Stderr = &d.said
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.stop)
	line, err := bufio.NewReader(out).ReadString('\n')
	if want := "bootstrap.servers=" + strings.Join(d.brokers, ",") + "\n"; line != want {
		t.Fatalf("it says %q (%v), want %q", line, err, want)
	}
	return d
}

// stop ends the cluster if it runs; a clean stop exits with 0.
func (d *devCluster) stop() {
	if d.cmd.ProcessState != nil {
		return
	}
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	late := time.AfterFunc(patience, func() { d.cmd.Process.Kill() })
	defer late.Stop()
	if err := d.cmd.Wait(); err != nil {
		d.t.Errorf("dev ended with %v", err)
	}
	if d.t.Failed() {
		d.t.Logf("%s", &d.said)
		for i := range d.brokers {
			d.t.Logf("node %d:\n%s", i+1, d.log(i+1))
		}
	}
}

func (d *devCluster) node(id int) string { return filepath.Join(d.dir, fmt.Sprint("node-", id)) }

// log is what a node has logged so far.
func (d *devCluster) log(id int) string {
	text, err := os.ReadFile(filepath.Join(d.node(id), "log"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// kill ends a node as a crash does.
func (d *devCluster) kill(id int) {
	d.t.Helper()
	if err := syscall.Kill(d.process(id), syscall.SIGKILL); err != nil {
		d.t.Fatal(err)
	}
}

// process is a node's process, by what dev said of it last.
func (d *devCluster) process(id int) int {
	d.t.Helper()
	all := regexp.MustCompile(fmt.Sprintf(`(?m)^node %d: .* process (\d+),`, id)).FindAllStringSubmatch(d.said.String(), -1)
	if len(all) == 0 {
		d.t.Fatalf("dev does not say which process node %d is: %s", id, &d.said)
	}
	pid, err := strconv.Atoi(all[len(all)-1][1])
	if err != nil {
		d.t.Fatal(err)
	}
	return pid
}

// start starts a node that stays down, as an operator does, and stops it with the test.
func (d *devCluster) start(id int) {
	d.t.Helper()
	n := startNode(d.t, filepath.Join(d.node(id), "server.properties"))
	d.t.Cleanup(func() {
		_ = n.cmd.Process.Signal(syscall.SIGTERM)
		if code, line := n.ended(); code != 0 {
			d.t.Errorf("node %d ended with %d: %s", id, code, line)
		}
	})
}

// devNodeProcess is a node that the test started itself.
type devNodeProcess struct {
	t    *testing.T
	cmd  *exec.Cmd
	said syncedText
}

// startNode starts a node of a file with settings.
func startNode(t *testing.T, file string, args ...string) *devNodeProcess {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	n := &devNodeProcess{t: t, cmd: exec.Command(self, append([]string{"start", "--config", file}, args...)...)}
	n.cmd.Stderr = &n.said
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.cmd.Process.Kill() })
	return n
}

// ended waits for the process to end and returns its last line.
func (n *devNodeProcess) ended() (code int, line string) {
	n.t.Helper()
	late := time.AfterFunc(patience, func() { _ = n.cmd.Process.Kill() })
	defer late.Stop()
	_ = n.cmd.Wait() // the code says it
	text := strings.TrimSpace(n.said.String())
	return n.cmd.ProcessState.ExitCode(), text[strings.LastIndexByte(text, '\n')+1:]
}

// active reports whether a broker is there and not fenced.
func (d *devCluster) active(id int32) bool {
	d.t.Helper()
	return slices.ContainsFunc(d.state().Brokers, func(b clusterBroker) bool { return b.ID == id && !b.Fenced })
}

// state is the cluster as it says it is now.
func (d *devCluster) state() (s clusterState) {
	d.t.Helper()
	out, code := d.run("", "cluster", "info", "--format", "json")
	if out == "" && code == 1 {
		return s // nobody answers
	}
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		d.t.Fatalf("%v: %s", err, out)
	}
	return s
}

// run runs a verb against the cluster and returns what it prints and its exit code.
func (d *devCluster) run(stdin string, args ...string) (out string, code int) {
	d.t.Helper()
	out, errs, code := ran(d.t, stdin, append(args, "-b", strings.Join(d.brokers, ","))...)
	if code != 0 && args[0] != "cluster" { // that is asked until it is well
		d.t.Logf("%v: exit code %d: %s%s", args, code, out, errs)
	}
	return out, code
}

// ran runs this binary to its end.
func ran(t *testing.T, stdin string, args ...string) (out, errs string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var o, e strings.Builder
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &o, &e
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return o.String(), e.String(), cmd.ProcessState.ExitCode()
}

// health asks for the cluster's health, by its exit code and by its lists, which must agree.
func (d *devCluster) health() health {
	d.t.Helper()
	out, code := d.run("", "cluster", "health", "--format", "json")
	var h health
	if out == "" && code == 1 {
		return h // nobody answers
	}
	if err := json.Unmarshal([]byte(out), &h); err != nil {
		d.t.Fatalf("%v: %s", err, out)
	}
	if h.Healthy != (code == 0) {
		d.t.Fatalf("exit code %d with %s", code, out)
	}
	return h
}

// await asks until the health is as it should be.
func (d *devCluster) await(what string, holds func(health) bool) {
	d.t.Helper()
	began := time.Now()
	for until := began.Add(patience); ; {
		h := d.health()
		if holds(h) {
			d.t.Logf("%s after %v", what, time.Since(began).Round(time.Millisecond))
			return
		}
		if time.Now().After(until) {
			d.t.Fatalf("after %v: not %s: %+v", patience, what, h)
		}
		<-time.After(100 * time.Millisecond)
	}
}

// A node of three is killed under a writer: nothing that was acknowledged is lost, the health
// says what is wrong while it is, and is good again when the node is back.
func TestDevThroughAKill(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT TESTED: three nodes and a session that runs out take seconds; leave -short out")
	}
	t.Parallel()
	d := startDev(t, 3, "-1s", "broker.session.timeout.ms=1500", "broker.heartbeat.interval.ms=200")
	d.await("healthy", func(h health) bool { return h.Healthy })
	victim := d.info().Controller // the hardest to lose: it leads the quorum too
	if _, code := d.run("", "topic", "create", "t", "-p", "3", "-r", "3"); code != 0 {
		t.Fatal("no topic")
	}
	if _, code := d.run(numbered(0, 500), "produce", "t"); code != 0 {
		t.Fatal("the first records were not written")
	}
	d.kill(int(victim))
	if _, code := d.run(numbered(500, 1000), "produce", "t"); code != 0 {
		t.Error("the records after the kill were not written")
	}
	d.await("unhealthy", func(h health) bool {
		return !h.Healthy && slices.Equal(h.FencedBrokers, []int32{victim}) && len(h.UnderReplicated) == 3 && len(h.Offline)+len(h.UnderMinISR) == 0
	})
	// While it is away, for afterwards it may be elected again.
	d.await("led by another controller", func(health) bool {
		now := d.state().Controller
		if now == victim {
			t.Errorf("the controller was %d, was killed, and is %d", victim, now)
		}
		return now >= 1
	})
	d.start(int(victim))
	d.await("healthy again", func(h health) bool { return h.Healthy })
	out, _ := d.run("", "consume", "t", "-o", "start", "-e")
	if got, want := slices.Sorted(strings.Lines(out)), slices.Sorted(strings.Lines(numbered(0, 1000))); !slices.Equal(got, want) {
		t.Errorf("%d records came back, want %d, each once", len(got), len(want))
	}
}

// Two of three nodes are killed: the one that is left says that there is no controller, and what
// has no leader.
func TestHealthWithoutAController(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT TESTED: a leader that gives up takes seconds; leave -short out")
	}
	t.Parallel()
	d := startDev(t, 3, "-1s", longSession)
	leader := int(d.info().Controller)
	left := leader%3 + 1
	d.kill(leader)
	d.kill(left%3 + 1)
	d.await("without a controller", func(h health) bool { return !h.Healthy && h.NoController })
	if s := d.state(); s.Controller != -1 || len(s.Brokers) != 3 {
		t.Errorf("the cluster is %+v", s)
	}
	mistake(t, 1, []string{"quorum", "describe", "-b", d.brokers[left-1]}, "no leader")
}

// Partitions are moved away from a broker that is down, with a throttle; and a plan that is refused
// leaves no throttle behind.
func TestReassignFromABrokerThatIsDown(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT TESTED: a session that runs out takes seconds; leave -short out")
	}
	t.Parallel()
	d := startDev(t, 3, "-1s", "broker.session.timeout.ms=1500", "broker.heartbeat.interval.ms=200")
	if _, code := d.run("", "topic", "create", "t", "-r", "3"); code != 0 {
		t.Fatal("no topic")
	}
	victim := int32(d.info().Controller%3 + 1)
	d.kill(int(victim))
	d.await("fenced", func(h health) bool { return slices.Equal(h.FencedBrokers, []int32{victim}) })
	others := slices.DeleteFunc([]int32{1, 2, 3}, func(id int32) bool { return id == victim })
	execute := func(replicas string) int {
		plan := fmt.Sprintf(`{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[%s]}]}`, replicas)
		_, code := d.run(plan, "topic", "reassign", "--execute", "--reassignment-json-file", "-", "--throttle", "1000000")
		return code
	}
	if execute("9") != 1 {
		t.Error("a broker that nobody knows was taken")
	}
	if out, _ := d.run("", "topic", "describe", "t"); strings.Contains(out, "throttled") {
		t.Errorf("a plan that was refused left its throttle: %s", out)
	}
	if execute(idList(others)) != 0 {
		t.Error("the plan was refused")
	}
	d.await("moved", func(h health) bool { return len(h.UnderReplicated) == 0 && len(h.FencedBrokers) == 1 })
}

// numbered are lines for `produce`.
func numbered(from, to int) string {
	var s strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&s, "record %d\n", i)
	}
	return s.String()
}

// info asks for the cluster, whose brokers are all active, and checks what does not change.
// On a machine that stood still a broker may be fenced, or nobody lead, for a moment.
func (d *devCluster) info() (s clusterState) {
	d.t.Helper()
	d.await("whole", func(health) bool {
		s = d.state()
		return s.Controller >= 1 && !slices.ContainsFunc(s.Brokers, func(b clusterBroker) bool { return b.Fenced })
	})
	if len(s.Brokers) != len(d.brokers) || len(s.ClusterID) != 22 {
		d.t.Fatalf("the cluster is %+v", s)
	}
	for i, b := range s.Brokers {
		if b.ID != int32(i+1) || b.Address != d.brokers[i] {
			d.t.Errorf("broker %+v", b)
		}
	}
	return s
}

// A node that dies is started again, with what it had.
func TestDevStartsANodeAgain(t *testing.T) {
	t.Parallel()
	d := startDev(t, 1, "100ms", longSession)
	if _, code := d.run(numbered(0, 10), "produce", "t"); code != 0 {
		t.Fatal("nothing was written")
	}
	before, id := d.process(1), d.info().ClusterID
	d.kill(1)
	d.await("there again", func(h health) bool { return h.Healthy && d.process(1) != before })
	out, _ := d.run("", "consume", "t", "-o", "start", "-e")
	if out != numbered(0, 10) || d.info().ClusterID != id {
		t.Errorf("it came back with %q: %s", out, &d.said)
	}
}

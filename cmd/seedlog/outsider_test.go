package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// outsider writes the settings of a broker that would join the cluster, and formats its
// directory.
func (d *devCluster) outsider(id int, cluster string, settings ...string) (file, data string) {
	d.t.Helper()
	dir := d.t.TempDir()
	data = filepath.Join(dir, "data")
	var controllers []string
	for i := range d.brokers {
		controllers = append(controllers, fmt.Sprintf("127.0.0.1:%d", d.port+2*i+1))
	}
	lines := append([]string{
		"process.roles=broker", fmt.Sprintf("node.id=%d", id), "log.dirs=" + data,
		fmt.Sprintf("listeners=PLAINTEXT://127.0.0.1:%d", portRow(d.t, 1)), "controller.listener.names=CONTROLLER",
		"controller.quorum.bootstrap.servers=" + strings.Join(controllers, ","),
		"broker.heartbeat.interval.ms=200", "initial.broker.registration.timeout.ms=500", "controller.quorum.fetch.timeout.ms=700",
	}, settings...)
	file = write(d.t, filepath.Join(dir, "server.properties"), strings.Join(lines, "\n")+"\n")
	if _, errs, code := ran(d.t, "", "storage", "format", "--config", file, "--cluster-id", cluster, "--no-initial-controllers"); code != 0 {
		d.t.Fatalf("formatting: %s", errs)
	}
	return file, data
}

// longSession has no broker fenced because the machine stood still: what a test is about may
// depend on who is there.
var longSession = fmt.Sprint("broker.session.timeout.ms=", patience.Milliseconds())

// Who does not belong to a cluster ends with 1 and one line that says why, and harms nobody.
func TestAnOutsiderIsOneLine(t *testing.T) {
	t.Parallel()
	d := startDev(t, 3, "-1s", longSession)
	cluster := d.info().ClusterID

	const foreign = "BBBBBBBBQBCBBBBBBBBBBB"
	file, _ := d.outsider(7, foreign)
	mistake(t, 1, []string{"start", "--config", file}, "INCONSISTENT_CLUSTER_ID", foreign)

	file, data := d.outsider(8, cluster)
	mistake(t, 1, []string{"start", "--config", file, "--set", "node.id=9"}, data, "has node.id 8, and this node is 9")

	for id := range 3 { // one of them leads the quorum
		file, _ = d.outsider(id+1, cluster)
		mistake(t, 1, []string{"start", "--config", file}, fmt.Sprint(id+1), "give each node a node.id of its own")
	}

	file, data = d.outsider(11, cluster)
	props, err := os.ReadFile(filepath.Join(d.node(1), "data", "meta.properties"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(data, "meta.properties"), strings.Replace(string(props), "node.id=1\n", "node.id=11\n", 1))
	mistake(t, 1, []string{"start", "--config", file}, "INVALID_REGISTRATION", "was a directory copied?")
	mistake(t, 1, []string{"start", "--config", file, "--data-dir", t.TempDir()}, "not formatted")

	d.await("healthy", func(h health) bool { return h.Healthy })
}

// unregister takes a broker out of the cluster, as an operator does.
func (d *devCluster) unregister(id int32) {
	d.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(d.brokers...))
	if err != nil {
		d.t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	req := kmsg.NewPtrUnregisterBrokerRequest()
	req.BrokerID = id
	// Not through any broker: the client might choose the one that hangs.
	resp, err := cl.SeedBrokers()[0].Request(ctx, req)
	if err != nil || resp.(*kmsg.UnregisterBrokerResponse).ErrorCode != 0 {
		d.t.Fatalf("unregistering %d: %+v, %v", id, resp, err)
	}
}

// A broker that hung and was given up, and whose successor runs with a copy of its directory,
// ends when it wakes up: its incarnation is stale.
func TestAStaleIncarnationIsOneLine(t *testing.T) {
	t.Parallel()
	d := startDev(t, 1, "-1s", longSession)
	file, data := d.outsider(7, d.info().ClusterID)
	first := startNode(t, file)
	d.await("joined by a broker", func(health) bool { return d.active(7) })
	if err := first.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	d.unregister(7)
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	second := startNode(t, file, "--data-dir", copied, "--listen", fmt.Sprintf("127.0.0.1:%d", portRow(t, 1)))
	d.await("joined by its successor", func(health) bool { return d.active(7) })
	if err := first.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	code, line := first.ended()
	t.Log(line)
	if code != 1 || !strings.Contains(line, "broker 7") || !strings.Contains(line, "another process is registered as this broker") {
		t.Errorf("exit code %d, and it said %q", code, line)
	}
	d.await("left to its successor", func(health) bool { return d.active(7) })
	_ = second.cmd.Process.Signal(syscall.SIGTERM)
	if code, line := second.ended(); code != 0 {
		t.Errorf("the successor ended with %d: %s", code, line)
	}
}

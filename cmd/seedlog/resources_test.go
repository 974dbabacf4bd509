package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var statusKB = regexp.MustCompile(`(?m)^VmRSS:\s+(\d+) kB$`)

// resources are the resident memory in bytes and the descriptors of the broker.
func (b *benchBroker) resources(t *testing.T) (rss int64, descriptors int) {
	t.Helper()
	proc := fmt.Sprintf("/proc/%d/", b.cmd.Process.Pid)
	status, err := os.ReadFile(proc + "status")
	if err != nil {
		t.Fatal(err)
	}
	m := statusKB.FindSubmatch(status)
	if m == nil {
		t.Fatalf("no VmRSS in %s", status)
	}
	kb, _ := strconv.ParseInt(string(m[1]), 10, 64)
	fds, err := os.ReadDir(proc + "fd")
	if err != nil {
		t.Fatal(err)
	}
	return kb << 10, len(fds)
}

// eventually waits until ok, for things that end by themselves soon after.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// runningBroker is a broker that serves: it listens before it opens its files.
func runningBroker(t *testing.T, settings ...string) (*benchBroker, *benchConn) {
	t.Helper()
	b, err := startBenchBroker(filepath.Join(t.TempDir(), "data"), settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.kill)
	c, err := b.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	ask(t, c, kmsg.NewPtrMetadataRequest())
	return b, c
}

func TestFiveThousandIdleConnectionsAreCheap(t *testing.T) {
	const conns = 5000
	b, _ := runningBroker(t)
	before, descriptors := b.resources(t)
	hello := kmsg.NewPtrApiVersionsRequest()
	hello.Version, hello.ClientSoftwareName, hello.ClientSoftwareVersion = 3, "idle", "1"
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("idle")).AppendRequest(nil, hello, 1)
	open := make([]net.Conn, 0, conns)
	closeAll := func() {
		for _, c := range open {
			c.Close()
		}
		open = nil
	}
	defer closeAll()
	answer := make([]byte, 4<<10)
	for range conns {
		c, err := net.Dial("tcp", b.addr)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
		if _, err := c.Write(frame); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(answer); err != nil || n < 20 {
			t.Fatalf("%d bytes, %v", n, err)
		}
	}
	after, _ := b.resources(t)
	each := (after - before) / conns
	t.Logf("%d MB before, %d MB with %d connections: %d bytes each", before>>20, after>>20, conns, each)
	if each > 16<<10 {
		t.Errorf("an idle connection takes %d bytes", each)
	}
	closeAll()
	eventually(t, "descriptors are given back", func() bool {
		_, now := b.resources(t)
		return now <= descriptors+2
	})
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
}

// Partitions that were created and deleted leave no descriptor, no memory and no directory.
func TestDeletedPartitionsLeaveNothing(t *testing.T) {
	t.Parallel()
	partitions := int32(500)
	if os.Getenv("SEEDLOG_LONG") != "" {
		partitions = 10_000
	} else {
		t.Log("with 500 partitions; SEEDLOG_LONG=1 takes 10,000")
	}
	b, c := runningBroker(t, "log.segment.delete.delay.ms=500")
	before, descriptors := b.resources(t)
	var rss int64
	for round := range 3 {
		began := time.Now()
		name := "t" + strconv.Itoa(round)
		create := kmsg.NewPtrCreateTopicsRequest()
		create.Version, create.TimeoutMillis = 6, 120_000
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions-1, 1
		create.Topics = append(create.Topics, topic)
		resp := ask(t, c, create).(*kmsg.CreateTopicsResponse)
		if err := kerr.ErrorForCode(resp.Topics[0].ErrorCode); err != nil {
			t.Fatal(err)
		}
		eventually(t, "all partitions are there", func() bool { return dirsOf(t, b.dir, name) == int(partitions)-1 })
		created := time.Since(began)
		full, open := b.resources(t)
		began = time.Now()
		del := kmsg.NewPtrDeleteTopicsRequest()
		del.Version, del.TimeoutMillis, del.TopicNames = 5, 120_000, []string{name}
		if resp := ask(t, c, del).(*kmsg.DeleteTopicsResponse); resp.Topics[0].ErrorCode != 0 {
			t.Fatal(kerr.ErrorForCode(resp.Topics[0].ErrorCode))
		}
		eventually(t, "all directories are gone", func() bool { return dirsOf(t, b.dir, name) == 0 })
		var left int
		rss, left = b.resources(t)
		t.Logf("%d partitions: created in %v, %d MB and %d descriptors; deleted in %v, %d MB and %d descriptors",
			partitions-1, created, full>>20, open, time.Since(began), rss>>20, left)
		if left > descriptors+8 {
			t.Errorf("round %d: %d descriptors, %d before", round, left, descriptors)
		}
	}
	if grown := rss - before; grown > 64<<20+int64(partitions)*(16<<10) {
		t.Errorf("the memory grew by %d MB", grown>>20)
	}
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && e.Name() != "__cluster_metadata-0" {
			t.Errorf("a directory is left: %s", e.Name())
		}
	}
	for _, name := range []string{"recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint"} {
		if text, err := os.ReadFile(filepath.Join(b.dir, name)); err == nil && bytes.Contains(text, []byte("t0 ")) {
			t.Errorf("%s names what is deleted", name)
		}
	}
}

func ask(t *testing.T, c *benchConn, req kmsg.Request) kmsg.Response {
	t.Helper()
	resp, err := c.ask(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// dirsOf counts the directories of a topic, those being deleted included.
func dirsOf(t *testing.T, dir, topic string) (n int) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), topic+"-") {
			n++
		}
	}
	return n
}

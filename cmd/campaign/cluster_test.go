package main

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/checker"
	"seedlog/scenarios/client"
)

// write writes a file of a test, with its directories.
func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestTheControllerIsThatOfTheNewestEpoch(t *testing.T) {
	dir := t.TempDir()
	var nodes []*node
	for i, state := range []string{`{"leaderId":1,"leaderEpoch":4}`, `{"leaderId":-1,"leaderEpoch":7}`, `{"leaderId":2,"leaderEpoch":7}`, ``} {
		n := &node{id: i + 1, root: filepath.Join(dir, fmt.Sprint(i))}
		if state != "" {
			write(t, filepath.Join(n.data(), "__cluster_metadata-0", "quorum-state"), []byte(state))
		}
		nodes = append(nodes, n)
	}
	if got := controller(nodes); got != nodes[1] {
		t.Errorf("the controller is %+v, want node 2", got)
	}
	if got := controller(nodes[3:]); got != nil {
		t.Errorf("nobody wrote anything down, and the controller is %+v", got)
	}
}

func TestWhereALogEnds(t *testing.T) {
	n := &node{root: t.TempDir()}
	if end := n.logEnd("t-0"); end != -1 {
		t.Errorf("a log that is not there ends at %d", end)
	}
	dir := filepath.Join(n.data(), "t-0")
	records := []client.Record{{Value: []byte("a")}, {Value: []byte("b")}}
	batch := client.Encode(client.BatchSpec{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1}, records)
	write(t, filepath.Join(dir, "00000000000000000000.log"), batch)
	if end := n.logEnd("t-0"); end != 2 {
		t.Errorf("a batch of two records ends at %d", end)
	}
	write(t, filepath.Join(dir, "00000000000000000002.log"), batch[:10]) // half written
	if end := n.logEnd("t-0"); end != 2 {
		t.Errorf("half a batch ends at %d", end)
	}
	write(t, filepath.Join(dir, "00000000000000000007.log"), nil)
	if end := n.logEnd("t-0"); end != 7 {
		t.Errorf("an empty last segment ends at %d", end)
	}
}

func TestACatalogOfDirectories(t *testing.T) {
	name := "t"
	topic := kmsg.NewMetadataResponseTopic()
	topic.Topic, topic.TopicID = &name, [16]byte{6: 0x40, 8: 0x80, 15: 1}
	for i := range int32(2) {
		p := kmsg.NewMetadataResponseTopicPartition()
		p.Partition, p.Replicas = i, []int32{1}
		topic.Partitions = append(topic.Partitions, p)
	}
	m := kmsg.NewPtrMetadataResponse()
	m.Topics = append(m.Topics, topic)
	n := &node{id: 1, root: t.TempDir()}
	put := func(n *node, dir string, id [16]byte) {
		write(t, filepath.Join(n.data(), dir, "partition.metadata"), []byte("version: 0\ntopic_id: "+base64.RawURLEncoding.EncodeToString(id[:])+"\n"))
	}
	judge := func(n *node) (found string) {
		var v checker.Verdict
		judgeCatalog(m, []*node{n}, &v)
		for _, x := range v.Violations {
			found += fmt.Sprintln(x)
		}
		return found
	}
	put(n, "t-0", topic.TopicID)
	if found := judge(n); !strings.Contains(found, "t-1: has no directory") {
		t.Errorf("a missing directory: %q", found)
	}
	put(n, "t-1", topic.TopicID)
	if found := judge(n); found != "" {
		t.Errorf("a sound catalog: %q", found)
	}
	put(n, "t-2", topic.TopicID)
	put(n, "t-1", [16]byte{15: 9})
	if found := judge(n); !strings.Contains(found, "t-2: is the directory of a partition that the metadata does not have") || !strings.Contains(found, "t-1: belongs to topic id") {
		t.Errorf("a stray directory and one of another topic: %q", found)
	}
	other := &node{id: 2, root: t.TempDir()}
	put(other, "t-0", topic.TopicID)
	if found := judge(other); !strings.Contains(found, "belongs to no replica") {
		t.Errorf("a directory of nobody's replica: %q", found)
	}
}

func TestADistributionIsOfAll(t *testing.T) {
	var all []time.Duration
	for i := range 10 {
		all = append(all, time.Duration(10-i)*time.Second)
	}
	if got, want := distribution(all), "n=10 min 1s median 6s p90 10s max 10s"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := distribution(nil); got != "nothing was measured" {
		t.Errorf("of nothing: %s", got)
	}
}

// What a seed draws for the plan does not depend on the machine.
func TestAgendasAreDrawnFromTheSeed(t *testing.T) {
	draw := func(seed uint64) string {
		p := newFaultPlan(&clusterRun{seed: seed})
		return fmt.Sprint(p.calm, p.single, p.between(0, time.Hour), p.rng.IntN(1000))
	}
	first, again, other := draw(1), draw(1), draw(2)
	if first != again || first == other {
		t.Errorf("seed 1 draws %s and %s, seed 2 %s", first, again, other)
	}
}

// A gap is the time between two acknowledgements, also if it began before what is looked at
// or ends after.
func TestTheLongestGap(t *testing.T) {
	at := time.Now()
	m := &failover{}
	for _, ms := range []int{-500, -10, 100, 130, 900, 950, 2000} {
		m.acks[0] = append(m.acks[0], at.Add(time.Duration(ms)*time.Millisecond))
		m.sent[0] = append(m.sent[0], at.Add(time.Duration(ms-5)*time.Millisecond))
	}
	for _, c := range []struct{ end, want time.Duration }{{50, 110}, {500, 770}, {920, 770}, {960, 1050}} {
		if got := m.longestGap(0, at, at.Add(c.end*time.Millisecond)); got != c.want*time.Millisecond {
			t.Errorf("up to %d ms the longest gap is %v, want %d ms", c.end, got, c.want)
		}
	}
	if got := m.firstAfter(0, at); got != 100*time.Millisecond {
		t.Errorf("the first acknowledgement after is %v later", got)
	}
}

// A campaign that would run nothing is a mistake, and no success.
func TestCampaignsThatWouldRunNothingAreRefused(t *testing.T) {
	t.Chdir("../..")
	for _, c := range []struct {
		run  func([]string) error
		args string
		want string
	}{
		{mutantsCommand, "-compile -only no-such-bug", "no-such-bug"},
		{runCommand, "-seeds 1-1 -workers 0", "-workers"},
		{runCommand, "-seeds 1-1 -scenario no-such-story", "no-such-story"},
		{verifyCommand, "-seeds 1-1 -scenario no-such-story", "no-such-story"},
		{verifyCommand, "-seeds 1-1 1-1000", "1-1000"},
	} {
		if err := c.run(strings.Fields(c.args)); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "found something") {
			t.Errorf("%s: %v, want %s", c.args, err, c.want)
		}
	}
}

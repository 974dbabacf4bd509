package node_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
)

// in lists the partitions of a topic that a node has in one of its directories.
func (c *cluster) in(m *member, sub, topic string) (ids []int32) {
	c.t.Helper()
	adm := c.admin()
	defer adm.Close()
	all, err := adm.DescribeBrokerLogDirs(timeout(c.t), m.id, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	for path, d := range all {
		if strings.HasSuffix(path, "/"+sub) {
			d.Topics.Each(func(p kadm.DescribedLogDirPartition) {
				if p.Topic == topic {
					ids = append(ids, p.Partition)
				}
			})
		}
	}
	slices.Sort(ids)
	return ids
}

// A directory that fails takes its partitions out of leadership, and no others: the
// controller knows which are in it, though the broker chose the directory.
func TestAFailedDirectoryLosesItsLeadershipAndNothingElse(t *testing.T) {
	c := newCluster(t, 3, false, map[string]string{subdirs: "meta,a,b", "min.insync.replicas": "2"})
	c.start()
	adm := c.admin()
	defer adm.Close()
	small := "3000"
	if _, err := adm.CreateTopic(timeout(t), 12, 3, map[string]*string{"internal.segment.bytes": &small}, "t"); err != nil {
		t.Fatal(err)
	}
	m := c.members[0]
	// A new partition has its ISR before it has its logs.
	c.await("all there", func() bool { return len(c.in(m, "meta", "t"))+len(c.in(m, "a", "t"))+len(c.in(m, "b", "t")) == 12 })
	lost := c.in(m, "b", "t")
	if len(lost) == 0 || len(lost) == 12 {
		t.Fatalf("partitions %v in directory b", lost)
	}
	w := c.writer("t")
	c.await("written to", func() bool { return w.count() > 0 })
	if err := os.Rename(filepath.Join(m.dir, "b"), filepath.Join(m.dir, "gone")); err != nil {
		t.Fatal(err)
	}
	c.await("led and held in sync elsewhere", func() bool {
		got, err := adm.ListTopics(timeout(t), "t")
		if err != nil || len(got["t"].Partitions) != 12 {
			return false
		}
		for _, p := range got["t"].Partitions {
			gone := slices.Contains(lost, p.Partition)
			if p.Leader < 0 || gone && (p.Leader == m.id || slices.Contains(p.ISR, m.id)) || !gone && len(p.ISR) != 3 || gone != slices.Contains(p.OfflineReplicas, m.id) {
				return false
			}
		}
		return true
	})
	if !m.isReady() || c.events.said("node-state", fmt.Sprintf("node %d ", m.id), "stage=stopping") > 0 {
		t.Error("the node did not stay up")
	}
	c.finish(w)
}

// moves asks for the replicas of a topic that a node has in one of its directories to be moved
// to another, and returns which.
func (c *cluster) moves(m *member, topic, from, to string) []int32 {
	c.t.Helper()
	adm := c.admin()
	defer adm.Close()
	ids := c.in(m, from, topic)
	req := kadm.AlterReplicaLogDirsReq{}
	set := kadm.TopicsSet{}
	set.Add(topic, ids...)
	req.Add(filepath.Join(m.dir, to), set)
	got, err := adm.AlterBrokerReplicaLogDirs(timeout(c.t), m.id, req)
	if err != nil {
		c.t.Fatal(err)
	}
	n := 0
	got.Each(func(r kadm.AlterReplicaLogDirsResponse) {
		n++
		if r.Err != nil {
			c.t.Errorf("%s-%d: %v", r.Topic, r.Partition, r.Err)
		}
	})
	if n != len(ids) || n == 0 {
		c.t.Errorf("%d answers for %d partitions", n, len(ids))
	}
	return ids
}

// Replicas move between the directories of their broker while they are written to, leaders and
// followers; nobody leaves the ISR, the controller knows where they are, and a start finds them.
func TestReplicasMoveBetweenDirectories(t *testing.T) {
	c := newCluster(t, 3, false, map[string]string{subdirs: "meta,a,b", "min.insync.replicas": "2"})
	c.start()
	adm := c.admin()
	defer adm.Close()
	small := "20000"
	if _, err := adm.CreateTopic(timeout(t), 6, 3, map[string]*string{"internal.segment.bytes": &small}, "t"); err != nil {
		t.Fatal(err)
	}
	c.await("in sync", func() bool { return c.inSync("t", 3) })
	c.await("hosted", func() bool { // the metadata is there before the replicas are
		n := 0
		for _, m := range c.members {
			n += len(c.in(m, "meta", "t")) + len(c.in(m, "a", "t")) + len(c.in(m, "b", "t"))
		}
		return n == 18
	})
	w := c.writer("t")
	moved := map[int32][]int32{}
	for _, m := range c.members {
		moved[m.id] = c.moves(m, "t", "a", "b")
	}
	c.await("moved", func() bool {
		for _, m := range c.members {
			if len(c.in(m, "a", "t")) > 0 {
				return false
			}
		}
		return c.events.said("move-done", "topic=t") == len(moved[1])+len(moved[2])+len(moved[3])
	})
	if n := c.events.said("isr-shrunk", "topic=t"); n > 0 {
		t.Errorf("the ISR shrank %d times", n)
	}
	// Where the controller believes the replicas to be is what fails with their directory.
	m := c.members[0]
	if err := m.stop(); err != nil {
		t.Fatal(err)
	}
	m.run()
	m.ready()
	c.await("in sync after a start", func() bool { return c.inSync("t", 3) })
	if got := c.in(m, "a", "t"); len(got) > 0 {
		t.Errorf("after a start %v are where they were", got)
	}
	c.finish(w)
}

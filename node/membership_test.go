package node_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/node/quorum"
)

// A node that serves has seen itself in the metadata, and the others may have not yet.
func (c *cluster) await(what string, holds func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(patience); !holds(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.t.Fatalf("after %v: not %s", patience, what)
		}
	}
}

func TestThreeNodesComeUp(t *testing.T) {
	for _, static := range []bool{false, true} {
		t.Run(fmt.Sprint("static=", static), func(t *testing.T) {
			c := newCluster(t, 3, static, nil)
			c.start()
			for _, m := range c.members {
				c.await(fmt.Sprint("all brokers known to ", m.id), func() bool {
					req := kmsg.NewPtrMetadataRequest()
					req.Topics = []kmsg.MetadataRequestTopic{}
					md := m.request(req).(*kmsg.MetadataResponse) // the admin client's may be of a minute ago
					return len(md.Brokers) == 3 && md.ClusterID != nil && *md.ClusterID == clusterID
				})
			}
		})
	}
}

// leaders are the leaders of a topic's partitions, -1 where there is none.
func (c *cluster) leaders(topic string) (ids []int32) {
	c.t.Helper()
	adm := c.admin()
	defer adm.Close()
	got, err := adm.ListTopics(timeout(c.t), topic)
	if err != nil {
		return nil
	}
	for _, p := range got[topic].Partitions.Sorted() {
		ids = append(ids, p.Leader)
	}
	return ids
}

// Any broker takes what is for the controller, and shows at once what it answered.
func TestAnyBrokerCreatesTopicsAndShowsThem(t *testing.T) {
	c := newCluster(t, 3, false, nil)
	c.start()
	for i, m := range c.members {
		cl := c.client(kgo.SeedBrokers(m.broker))
		topic := fmt.Sprint("made-through-", m.id)
		create := kmsg.NewPtrCreateTopicsRequest()
		create.TimeoutMillis = int32(patience.Milliseconds())
		x := kmsg.NewCreateTopicsRequestTopic()
		x.Topic, x.NumPartitions, x.ReplicationFactor = topic, int32(i+1), 3
		create.Topics = append(create.Topics, x)
		resp, err := cl.SeedBrokers()[0].Request(timeout(t), create)
		if err != nil || resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode != 0 {
			t.Fatalf("through %d: %v %v", m.id, resp, err)
		}
		md := kmsg.NewPtrMetadataRequest()
		want := kmsg.NewMetadataRequestTopic()
		want.Topic = &topic
		md.Topics = append(md.Topics, want)
		resp, err = cl.SeedBrokers()[0].Request(timeout(t), md)
		if err != nil {
			t.Fatal(err)
		}
		got := resp.(*kmsg.MetadataResponse).Topics[0]
		if got.ErrorCode != 0 || len(got.Partitions) != i+1 || len(got.Partitions[0].Replicas) != 3 || got.Partitions[0].Leader < 0 {
			t.Errorf("broker %d shows %+v", m.id, got)
		}
		del := kmsg.NewPtrDeleteTopicsRequest()
		del.TimeoutMillis = int32(patience.Milliseconds())
		del.TopicNames = []string{topic}
		dt := kmsg.NewDeleteTopicsRequestTopic()
		dt.Topic = &topic
		del.Topics = append(del.Topics, dt)
		if resp, err = cl.SeedBrokers()[0].Request(timeout(t), del); err != nil || resp.(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode != 0 {
			t.Errorf("deleting: %v %v", resp, err)
		}
		if resp, err = cl.SeedBrokers()[0].Request(timeout(t), md); err != nil || resp.(*kmsg.MetadataResponse).Topics[0].ErrorCode != kerr.UnknownTopicOrPartition.Code {
			t.Errorf("broker %d shows the deleted topic: %+v %v", m.id, resp, err)
		}
		cl.Close()
	}
}

func TestControllersDescribeThemselves(t *testing.T) {
	c := newCluster(t, 3, false, nil)
	c.start()
	ask := func(addr string, kind int8) *kmsg.DescribeClusterResponse {
		cl := c.client(kgo.SeedBrokers(addr))
		defer cl.Close()
		req := kmsg.NewPtrDescribeClusterRequest()
		req.EndpointType = kind
		resp, err := cl.SeedBrokers()[0].Request(timeout(t), req)
		if err != nil {
			t.Fatal(err)
		}
		return resp.(*kmsg.DescribeClusterResponse)
	}
	for _, m := range c.members {
		var got *kmsg.DescribeClusterResponse
		c.await("all controllers registered, and one active", func() bool {
			got = ask(m.control, 2)
			return len(got.Brokers) == 3 && got.ControllerID >= 0
		})
		for i, b := range got.Brokers {
			if b.NodeID != c.members[i].id || fmt.Sprintf("%s:%d", b.Host, b.Port) != c.members[i].control {
				t.Errorf("%d: %+v", i, b)
			}
		}
		if got.ControllerID < 1 || got.ControllerID > 3 || got.EndpointType != 2 || got.ClusterID != clusterID {
			t.Errorf("%+v", got)
		}
		if got := ask(m.control, 1); got.ErrorCode != kerr.MismatchedEndpointType.Code {
			t.Errorf("brokers of a controller: %+v", got)
		}
		if got := ask(m.broker, 2); got.ErrorCode != kerr.MismatchedEndpointType.Code {
			t.Errorf("controllers of a broker: %+v", got)
		}
		if got := ask(m.broker, 3); got.ErrorCode != kerr.UnsupportedEndpointType.Code {
			t.Errorf("what is no type: %+v", got)
		}
	}
}

// A broker that stops has its leadership moved first, and comes back within the session of
// its former life.
func TestACleanStopMovesLeadershipFirst(t *testing.T) {
	c := newCluster(t, 3, false, nil)
	c.start()
	c.createTopic("t", 6, 3, nil)
	for _, m := range c.members {
		began := time.Now()
		if err := m.stop(); err != nil {
			t.Fatalf("node %d: %v", m.id, err)
		}
		stopped := time.Since(began)
		if n := c.events.said("node-state", fmt.Sprintf("node %d ", m.id), "stage=leadership moved"); n != 1 {
			t.Errorf("node %d moved its leadership %d times", m.id, n)
		}
		c.await("led by the others", func() bool {
			ids := c.leaders("t")
			return len(ids) == 6 && !slices.Contains(ids, m.id) && !slices.Contains(ids, -1)
		})
		began = time.Now()
		m.run()
		m.ready()
		// Whoever stops next leaves its partitions to those who are in sync by then.
		c.await("all in sync", func() bool { return c.inSync("t", 3) })
		t.Logf("node %d stopped within %v and was in sync again within %v", m.id, stopped, time.Since(began))
	}
}

func TestBrokersAndControllersApart(t *testing.T) {
	for _, static := range []bool{false, true} {
		t.Run(fmt.Sprint("static=", static), func(t *testing.T) {
			c := newCluster(t, 3, static, map[string]string{"process.roles": "controller"})
			for _, m := range c.members {
				m.settings["listeners"] = "CONTROLLER://" + m.control
			}
			for i, addr := range freePorts(t, 2) {
				c.addBroker(int32(10+i), addr)
			}
			c.start()
			c.createTopic("t", 4, 2, nil)
			c.await("led", func() bool { ids := c.leaders("t"); return len(ids) == 4 && !slices.Contains(ids, -1) })
			// A controller goes and comes back; brokers do not care.
			if err := c.members[0].stop(); err != nil {
				t.Error(err)
			}
			c.createTopic("u", 1, 2, nil)
			c.members[0].run()
			c.members[0].ready()
		})
	}
}

// refusedToStart runs a node that must end by itself, with an error that has the words in it,
// in one line.
func (c *cluster) refusedToStart(m *member, words ...string) {
	c.t.Helper()
	m.run()
	err := m.ended()
	if err == nil {
		c.t.Fatal("the node ended without an error")
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			c.t.Errorf("no %q in %q", w, err)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		c.t.Errorf("more than one line: %q", err)
	}
	c.t.Log(err)
}

func TestWhoDoesNotBelongIsRefused(t *testing.T) {
	c := newCluster(t, 3, false, nil)
	c.start()
	outsider := func(id int32) *member {
		m := c.addBroker(id, freePorts(t, 1)[0])
		c.members = c.members[:3]
		// It loses patience sooner; the cluster does not.
		m.settings["initial.broker.registration.timeout.ms"], m.settings["controller.quorum.fetch.timeout.ms"] = "500", "700"
		return m
	}
	// The twin of a node that leads the quorum hears of a leader with its own id, the others'
	// twins are told by the controller.
	for _, m := range c.members {
		c.refusedToStart(outsider(m.id), fmt.Sprint(m.id), "give each node a node.id of its own")
	}

	foreign := outsider(7)
	foreign.dir = filepath.Join(t.TempDir(), "foreign")
	foreign.settings["log.dirs"] = foreign.dir
	format(t, quorum.FormatSpec{NodeID: 7, LogDirs: []string{foreign.dir}, ClusterID: "BBBBBBBBQBCBBBBBBBBBBB", Voters: quorum.NoVoters})
	c.refusedToStart(foreign, "INCONSISTENT_CLUSTER_ID", "BBBBBBBBQBCBBBBBBBBBBB")

	wrong := outsider(8)
	wrong.settings["node.id"] = "9" // the directory is node 8's
	c.refusedToStart(wrong, "has node.id 8, and this node is 9")

	copied := outsider(11)
	props, err := os.ReadFile(filepath.Join(c.members[0].dir, "meta.properties"))
	if err != nil {
		t.Fatal(err)
	}
	props = bytes.Replace(props, []byte("node.id=1"), []byte("node.id=11"), 1)
	if err := os.WriteFile(filepath.Join(copied.dir, "meta.properties"), props, 0o644); err != nil {
		t.Fatal(err)
	}
	c.refusedToStart(copied, "INVALID_REGISTRATION", "was a directory copied?")

	empty := outsider(12)
	empty.settings["log.dirs"] = filepath.Join(t.TempDir(), "unmounted")
	c.refusedToStart(empty, "not formatted", "unmounted")

	for _, m := range c.members { // nobody was harmed
		if !m.isReady() {
			t.Errorf("node %d is not ready any more", m.id)
		}
	}
}

package scenarios

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"seedlog/checker/cluster"
	"seedlog/checker/history"
	"seedlog/clock/task"
	"seedlog/scenarios/client"
	"seedlog/sim"
)

// tale is a story of a cluster. Its first three nodes are the quorum; what it does to the data
// it does to the others, so that there is a controller all the time.
type tale struct {
	*story
}

// tellCluster sets a calm world with a cluster up and tells the story. The online checks of
// package cluster watch every story.
func tellCluster(r *Run, sh shape, fn func(s *tale)) {
	for name, value := range map[string]string{ //order: into a map
		"broker.heartbeat.interval.ms": "200", "broker.session.timeout.ms": "1500", "controller.quorum.election.timeout.ms": "300",
		"controller.quorum.fetch.timeout.ms": "1000", "auto.leader.rebalance.enable": "false",
	} {
		if _, ok := r.props[name]; !ok {
			r.Set(name, value)
		}
	}
	s := &tale{&story{Run: r}}
	r.prompt = false
	if !r.startCluster(sh) {
		return
	}
	if s.until("every node serves", readyWithin, func() bool { return r.allReady() }) {
		fn(s)
	}
	if s.failed || r.over() {
		s.Failf("scenario", "last", "%s", r.Rec.Notes()[0])
		if r.World.Failure() == nil {
			r.fates()
		}
		r.complain()
	}
	r.cluster.ghost.check()
}

func (r *Run) allReady() bool {
	for _, s := range r.servers {
		if !s.Ready() {
			return false
		}
	}
	return true
}

// six is the cluster of most stories: a quorum of three, and three brokers.
func six(elr int16) shape { return shape{nodes: 6, voters: 3, elr: elr, racks: 6} }

// until lets time pass until the condition holds.
func (s *tale) until(what string, limit time.Duration, cond func() bool) bool {
	if s.failed {
		return false
	}
	next := s.World.Now()
	ok := s.World.Run(func() bool {
		if s.over() {
			return true
		}
		if s.World.Now() < next {
			return false
		}
		next = s.World.Now().Add(20 * time.Millisecond)
		return cond()
	}, limit)
	return s.must(ok && !s.over(), "liveness", "%s: not within %v", what, limit)
}

// node is one by its id.
func (s *tale) node(id int32) *server { return s.servers[id-1] }

// replicated makes a topic of one partition on these nodes.
func (s *tale) replicated(name string, replicas []int32, configs ...[2]string) *client.Topic {
	topic := &client.Topic{Name: name, Partitions: 1, Replication: int16(len(replicas)), Assignment: [][]int32{replicas}}
	s.failed = s.failed || !s.CreateTopic(topic, configs)
	s.until(name+" is led by its first replica", 20*time.Second, func() bool {
		p := s.partition(topic)
		return p != nil && p.Leader == replicas[0] && len(p.ISR) == len(replicas) && len(s.ends(topic)) == len(replicas)
	})
	return topic
}

// partition is what the committed metadata says of the topic's only partition now, or nil.
func (s *tale) partition(topic *client.Topic) *cluster.Partition {
	s.cluster.ghost.look()
	return s.cluster.ghost.quorum.State.Find(topic.ID, 0)
}

// ends is where the replicas end, by node.
func (s *tale) ends(topic *client.Topic) map[int32]int64 {
	s.cluster.ghost.look()
	return s.cluster.ghost.replicas.Ends(topic.Name + "-0")
}

// equal waits until the replicas end at an offset, with the same batches.
func (s *tale) equal(topic *client.Topic, end int64) bool {
	ok := s.until(topic.Name+" has the same records on all replicas", 30*time.Second, func() bool {
		p := s.partition(topic)
		if p == nil || s.cluster.ghost.replicas.Differ(p) != "" || len(p.ISR) != len(p.Replicas) {
			return false
		}
		return s.ends(topic)[p.Replicas[0]] == end
	})
	if p := s.partition(topic); !ok && p != nil {
		s.Failf("liveness", topic.Name, "wanted %d; ends %v; ISR %v, ELR %v, leader %d in epoch %d", end, s.ends(topic), p.ISR, p.ELR, p.Leader, p.LeaderEpoch)
	}
	return ok
}

// led waits until one of the nodes leads.
func (s *tale) led(topic *client.Topic, by ...int32) bool {
	return s.until(topic.Name+" is led", 30*time.Second, func() bool {
		p := s.partition(topic)
		for _, id := range by {
			if p.Leader == id {
				return true
			}
		}
		return false
	})
}

// isr waits until it has so many members.
func (s *tale) isr(topic *client.Topic, n int) bool {
	ok := s.until(topic.Name+" has its ISR", 40*time.Second, func() bool { return len(s.partition(topic).ISR) == n })
	if p := s.partition(topic); !ok && p != nil {
		s.Failf("liveness", topic.Name, "wanted %d; ISR %v, ELR %v, leader %d in epoch %d", n, p.ISR, p.ELR, p.Leader, p.LeaderEpoch)
	}
	s.wait(200 * time.Millisecond) // what the controller has written, the leader has yet to hear
	return ok
}

// at runs fn as a client's task with one connection to a node.
func (s *tale) at(id int32, what string, fn func(t *task.T, p *client.Plain)) bool {
	if s.failed {
		return false
	}
	ok := s.Do(what, 2*time.Minute, func(t *task.T, e *client.Env) {
		e.RequestTimeout = 20 * time.Second
		p := client.OpenAt(t, e, s.node(id).Addr())
		defer p.Close()
		fn(t, p)
	})
	s.failed = s.failed || !ok
	return !s.failed
}

// produce sends batches of one record to a node and expects the code of each.
func (s *tale) produce(id int32, topic *client.Topic, acks int16, n int, want *kerr.Error) bool {
	return s.at(id, "produce", func(t *task.T, p *client.Plain) {
		p.Within = 10 * time.Second
		for i := range n {
			s.Rec.Note(0, "%s: record %d of %d with acks=%d", topic.Name, i, n, acks)
			var a client.Produced
			var err error
			settled(t, func() int16 {
				a, err = p.Produce(t, topic, 0, 9, acks, batch(t.UnixMilli(), nobody, 1, 20, i))
				return a.Code
			})
			if err == nil && a.Code == 0 && acks == -1 {
				s.cluster.ghost.promised(topic.Name+"-0", a.Base+1)
			}
			if !s.ok(err, "produce") || !s.code(a.Code, want, "produce") {
				return
			}
		}
	})
}

// highWatermark asks a node for it, with a fetch at an offset; it returns what could be read.
func (s *tale) highWatermark(id int32, topic *client.Topic, from int64) (hw int64, records int) {
	s.at(id, "fetch", func(t *task.T, p *client.Plain) {
		var got client.Fetched
		var err error
		var asked history.Stamp
		settled(t, func() int16 {
			asked = s.Rec.Stamp()
			got, err = p.Fetch(t, topic, 0, 11, from, -1)
			return got.Code
		})
		if s.ok(err, "fetch") && s.code(got.Code, nil, "fetch") {
			s.cluster.ghost.heardOf(voice{id, s.node(id).Boots, topic.Name + "-0", topic.ID}, got.HighWatermark, asked, s.Rec.Stamp())
			hw = got.HighWatermark
			for _, b := range got.Batches {
				records += int(b.Count)
			}
		}
	})
	return hw, records
}

// reaches waits until a node says that the high watermark is there.
func (s *tale) reaches(id int32, topic *client.Topic, want int64) bool {
	hw := int64(-1)
	for range 60 {
		if hw, _ = s.highWatermark(id, topic, 0); hw == want || s.failed {
			break
		}
		s.wait(500 * time.Millisecond)
	}
	return s.must(hw == want, "R2", "the high watermark of %s is %d, not %d", topic.Name, hw, want)
}

// settled calls ask again while a broker has not heard of what the controller decided.
func settled(t *task.T, ask func() int16) {
	for until := t.Now().Add(10 * time.Second); ; {
		switch kerr.ErrorForCode(ask()) {
		case kerr.UnknownTopicOrPartition, kerr.NotLeaderForPartition:
			if t.Now() < until && t.Sleep(t.Now().Add(50*time.Millisecond)) {
				continue
			}
		}
		return
	}
}

// apart cuts a node off from others, both ways, and waits until no question of theirs is left
// that it could answer later.
func (s *tale) apart(id int32, from ...int32) {
	for _, o := range from {
		s.World.Net.Partition(s.node(id).Name, s.node(o).Name)
		s.World.Net.Partition(s.node(o).Name, s.node(id).Name)
	}
	s.wait(time.Second)
}

// together ends all cuts.
func (s *tale) together() { s.World.Net.HealAll() }

// kill ends nodes as kill -9 does, at one instant.
func (s *tale) kill(ids ...int32) {
	for _, id := range ids {
		s.node(id).end(false)
	}
}

// power takes the power of nodes at one instant, with everything that was not synced.
func (s *tale) power(ids ...int32) {
	for _, id := range ids {
		s.node(id).Disk.SetPower(loseAll)
		s.node(id).end(true)
	}
}

// start starts a node that is down and waits until it serves.
func (s *tale) start(ids ...int32) bool {
	for _, id := range ids {
		if s.failed || !s.node(id).boot() {
			s.failed = true
			return false
		}
	}
	return s.until("the node serves again", readyWithin, func() bool {
		for _, id := range ids {
			if !s.node(id).Ready() {
				return false
			}
		}
		return true
	})
}

// stopNode stops a node cleanly.
func (s *tale) stopNode(id int32) bool {
	inc := s.node(id).Incarnation()
	s.node(id).Stop()
	return s.stopped(id, inc)
}

// stopped waits until an incarnation of a node that was asked to stop has done so, cleanly.
func (s *tale) stopped(id int32, inc *sim.Incarnation) bool {
	if !s.until("the node stops", stopWithin, func() bool { ended, _ := inc.Ended(); return ended }) {
		return false
	}
	_, err := inc.Ended()
	s.node(id).end(false)
	return s.ok(err, "clean stop")
}

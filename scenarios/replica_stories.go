package scenarios

import (
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"seedlog/clock/task"
	"seedlog/scenarios/client"
)

// spreadReplicas is SPEC R8: whom the controller chooses. No two replicas of a partition stand on
// one node or, while there are racks enough, in one rack; each node leads as many as any other.
func spreadReplicas(r *Run) {
	sh := six(1)
	sh.racks = 3
	tellCluster(r, sh, func(s *tale) {
		topic := &client.Topic{Name: "spread", Partitions: 12, Replication: 3}
		if s.failed = !s.CreateTopic(topic, nil); s.failed {
			return
		}
		s.cluster.ghost.look()
		leads := make(map[int32]int)
		for i := range topic.Partitions {
			p := s.cluster.ghost.quorum.State.Find(topic.ID, i)
			if !s.must(p != nil && len(p.Replicas) == 3, "R8", "partition %d is %+v", i, p) {
				return
			}
			var racks []string
			for _, id := range p.Replicas {
				racks = append(racks, s.node(id).rack)
			}
			slices.Sort(racks)
			s.must(len(slices.Compact(racks)) == 3, "R8", "partition %d is on %v, which are in the racks %v alone", i, p.Replicas, racks)
			leads[p.Replicas[0]]++
		}
		for id := int32(1); id <= 6; id++ {
			s.must(leads[id] == 2, "R8", "node %d is the first replica of %d partitions, of 12 on six nodes", id, leads[id])
		}
		s.passesFenced(6)
	})
}

// passesFenced: who is fenced gets no replica while there are others enough.
func (s *tale) passesFenced(id int32) {
	s.kill(id)
	s.until("it is fenced", 20*time.Second, func() bool {
		s.cluster.ghost.look()
		b := s.cluster.ghost.quorum.State.Broker(id)
		return b != nil && b.Fenced
	})
	topic := &client.Topic{Name: "unfenced", Partitions: 12, Replication: 3}
	if s.failed = s.failed || !s.CreateTopic(topic, nil); s.failed {
		return
	}
	s.cluster.ghost.look()
	for i := range topic.Partitions {
		p := s.cluster.ghost.quorum.State.Find(topic.ID, i)
		s.must(p != nil && !slices.Contains(p.Replicas, id), "R8", "node %d is fenced, five others are not, and partition %d is %+v", id, i, p)
	}
}

// throttled are the sizes of the story of throttles: so many records of so many bytes, at a rate
// that is measured over ten seconds, so that ten seconds' worth goes at once.
const (
	throttledRecords = 60
	throttledBytes   = 1000
	throttledRate    = 1000 // bytes per second
)

// throttledReplicas is the byte rate of SPEC R9, on the side of the leader and on that of the
// follower: who is behind gets no more than the rate, and gets there; members of the ISR are not
// held up.
func throttledReplicas(r *Run) {
	for _, side := range []string{"leader", "follower"} {
		r.Set(side+".replication.throttled.rate", fmt.Sprint(throttledRate))
	}
	r.Set("replica.fetch.max.bytes", fmt.Sprint(throttledBytes))
	tellCluster(r, six(1), func(s *tale) {
		s.throttles("out", [2]string{"leader.replication.throttled.replicas", "0:4"})
		s.throttles("in", [2]string{"follower.replication.throttled.replicas", "0:6"})
	})
}

// throttles has a replica added under the setting.
func (s *tale) throttles(name string, setting [2]string) {
	topic := s.replicated(name, []int32{4, 5}, setting)
	s.produce(4, topic, -1, 1, nil)
	s.at(4, "produce", func(t *task.T, p *client.Plain) {
		for i := range throttledRecords {
			a, err := p.Produce(t, topic, 0, 9, -1, batch(t.UnixMilli(), nobody, 1, throttledBytes, i))
			if !s.ok(err, "produce") || !s.code(a.Code, nil, "produce") {
				return
			}
		}
	})
	s.assign(topic, []int32{4, 5, 6})
	began := s.World.Now()
	for range 10 {
		s.wait(2 * time.Second)
		s.answered(s.ask(4, topic), nil, "a produce request that waits for members of the ISR alone")
	}
	s.until(name+" has its third replica", 2*time.Minute, func() bool { return len(s.partition(topic).ISR) == 3 })
	took := s.World.Now().Sub(began)
	// Ten seconds' worth at once, one fetch more, and some slack for the windows of a second.
	least := time.Duration(throttledRecords*throttledBytes/throttledRate-10-1-5) * time.Second
	s.must(took >= least, "R9", "%s: %d bytes are copied in %v, at %d bytes a second", name, throttledRecords*throttledBytes, took, throttledRate)
	s.equal(topic, 1+throttledRecords+10)
}

// slowFollower is SPEC R3: a follower that asks all the time, and gets less than is written, is
// behind all the time. It leaves the ISR, and comes back when it has everything.
func slowFollower(r *Run) {
	r.Set("replica.lag.time.max.ms", "2000")
	r.Set("replica.fetch.max.bytes", "1") // a batch for each request
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("slow", []int32{4, 5})
		s.produce(4, topic, -1, 10, nil)
		cfg := s.World.Net.Config()
		calm := cfg
		cfg.LatencyMinNs, cfg.LatencyMaxNs = int64(20*time.Millisecond), int64(21*time.Millisecond)
		s.World.Net.SetConfig(cfg)
		w := s.write(topic, 6)
		from, began := s.ends(topic)[5], s.World.Now()
		s.until("the follower leaves the ISR", 10*time.Second, func() bool { return len(s.partition(topic).ISR) == 1 })
		took := s.World.Now().Sub(began)
		s.must(took >= 2*time.Second, "R3", "the follower left the ISR after %v, and may be behind for 2s", took)
		ends := s.ends(topic)
		s.must(ends[5] > from, "scenario", "the follower had %d, and has %d: it does not ask", from, ends[5])
		w.enough = true
		s.World.Net.SetConfig(calm)
		s.until("the writers end", 10*time.Second, func() bool { return w.writing == 0 })
		s.equal(topic, 10+int64(w.written))
	})
}

// writers write one record after the other, each of them.
type writers struct {
	enough           bool
	writing, written int
}

// write lets so many clients write with acks=1 at node 4.
func (s *tale) write(topic *client.Topic, n int) *writers {
	w := &writers{writing: n}
	for range n {
		e, group := s.Env(20 * time.Second)
		group.Go("write", func(t *task.T) {
			p := client.OpenAt(t, &e, s.node(4).Addr())
			for !w.enough && !s.failed {
				a, err := p.Produce(t, topic, 0, 9, 1, batch(t.UnixMilli(), nobody, 1, 20, 0))
				if !s.ok(err, "produce") || !s.code(a.Code, nil, "produce") {
					break
				}
				w.written++
			}
			p.Close()
			w.writing--
		})
	}
	return w
}

// nextController is SPEC R12 for brokers: who leads the quorum changes, and they go on as they
// were. A new controller has not heard of any of them yet.
func nextController(r *Run) {
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("steady", []int32{4, 5, 6})
		epoch := s.partition(topic).LeaderEpoch
		for range 3 {
			old := s.cluster.controller()
			if !s.must(old != nil, "liveness", "nobody leads the quorum") {
				return
			}
			s.kill(old.id)
			s.until("another leads the quorum", 20*time.Second, func() bool { c := s.cluster.controller(); return c != nil && c != old })
			for range 150 {
				s.wait(20 * time.Millisecond)
				p := s.partition(topic)
				for _, id := range p.Replicas {
					b := s.cluster.ghost.quorum.State.Broker(id)
					s.must(b != nil && !b.Fenced, "R12", "broker %d, which runs, is fenced: %+v", id, b)
				}
				s.must(p.LeaderEpoch == epoch && len(p.ISR) == 3, "R12", "the partition is in leader epoch %d, not %d, with the ISR %v", p.LeaderEpoch, epoch, p.ISR)
			}
			s.start(old.id)
		}
	})
}

// twiceEligible is KIP-966 for an ISR that shrinks twice below min.insync.replicas: who left
// first has everything that was committed, too.
func twiceEligible(r *Run) {
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("twice", []int32{4, 5, 6}, [2]string{"min.insync.replicas", "3"})
		s.produce(4, topic, -1, 10, nil)
		s.stopNode(6)
		s.isr(topic, 2)
		s.produce(4, topic, -1, 1, kerr.NotEnoughReplicas)
		s.stopNode(5)
		s.isr(topic, 1)
		s.kill(4)
		s.until("nobody leads", 20*time.Second, func() bool { return s.partition(topic).Leader == -1 })
		p := s.partition(topic)
		s.must(len(p.ELR) == 3, "I8", "eligible are %v, the ISR is %v", p.ELR, p.ISR)
		s.start(6)
		s.led(topic, 6)
		s.start(4, 5)
		s.equal(topic, 10)
	})
}

package scenarios

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/scenarios/client"
)

// prefer has the first replica of every partition elected.
func (s *tale) prefer() {
	s.at(1, "elect", func(t *task.T, p *client.Plain) {
		req := kmsg.NewPtrElectLeadersRequest()
		req.Version, req.TimeoutMillis = 2, 10_000
		_, err := p.Call(t, req)
		s.ok(err, "elect")
	})
}

// again connects two nodes that were cut off from each other.
func (s *tale) again(id int32, to ...int32) {
	for _, o := range to {
		s.World.Net.Heal(s.node(id).Name, s.node(o).Name)
		s.World.Net.Heal(s.node(o).Name, s.node(id).Name)
	}
}

// twoFailovers is KAFKA-6361 and KIP-279: what a leader of one epoch wrote lies where the next
// leader has records of the epoch before, and more of them. Where the logs part only the epochs
// tell.
func twoFailovers(r *Run) {
	r.Set("replica.lag.time.max.ms", "60000")
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("failovers", []int32{4, 5, 6})
		s.produce(4, topic, -1, 10, nil)
		s.apart(5, 4, 6)
		s.produce(4, topic, 1, 5, nil)
		s.until("node 6 has them", 10*time.Second, func() bool { return s.ends(topic)[6] == 15 })
		s.kill(4)
		s.led(topic, 5)
		s.begins(5, topic, 10)
		s.produce(5, topic, 1, 6, nil)
		s.kill(5)
		s.led(topic, 6)
		s.together()
		s.produce(6, topic, 1, 2, nil)
		s.start(5)
		s.isr(topic, 2)
		s.produce(6, topic, -1, 1, nil)
		s.cluster.ghost.check()
		s.equalOn(topic, 18, 5, 6)
		s.start(4)
		s.equal(topic, 18)
	})
}

// unknownEpoch is KIP-279 for who does not know the epoch that its leader names: all that it has of
// later ones goes, though that epoch ends further on at the leader than its own log does. Three
// leaders have records of their own behind the same ten.
func unknownEpoch(r *Run) {
	r.Set("replica.lag.time.max.ms", "60000")
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("unknown", []int32{4, 5, 6}, [2]string{"min.insync.replicas", "3"}) // who leaves stays eligible
		s.produce(4, topic, -1, 10, nil)
		s.stopNode(4)
		s.led(topic, 5)
		s.produce(5, topic, 1, 10, nil)
		s.until("node 6 has them", 10*time.Second, func() bool { return s.ends(topic)[6] == 20 })
		s.apart(4, 5, 6)
		s.start(4)
		s.stopNode(6)
		s.stopNode(5)
		s.led(topic, 4)
		s.produce(4, topic, 1, 5, nil)
		s.start(6)
		s.stopNode(4)
		s.led(topic, 6)
		s.produce(6, topic, 1, 2, nil)
		s.together()
		s.start(4, 5)
		s.equal(topic, 22)
	})
}

// begins is I12: a leader knows where its own epoch begins before it writes anything
// (KAFKA-7415).
func (s *tale) begins(id int32, topic *client.Topic, at int64) {
	epoch := s.partition(topic).LeaderEpoch
	s.at(id, "OffsetForLeaderEpoch", func(t *task.T, p *client.Plain) {
		var got kmsg.OffsetForLeaderEpochResponseTopicPartition
		settled(t, func() int16 {
			req := kmsg.NewPtrOffsetForLeaderEpochRequest()
			req.Version, req.ReplicaID = 4, -1
			part := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			part.CurrentLeaderEpoch, part.LeaderEpoch = -1, epoch
			rt := kmsg.NewOffsetForLeaderEpochRequestTopic()
			rt.Topic = topic.Name
			rt.Partitions = append(rt.Partitions, part)
			req.Topics = append(req.Topics, rt)
			resp, err := p.Call(t, req)
			if s.ok(err, "OffsetForLeaderEpoch") {
				got = resp.(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions[0]
			}
			return got.ErrorCode
		})
		_ = s.code(got.ErrorCode, nil, "OffsetForLeaderEpoch") &&
			s.must(got.LeaderEpoch == epoch && got.EndOffset == at, "I12", "epoch %d is said to be %d and to end at %d, not %d", epoch, got.LeaderEpoch, got.EndOffset, at)
	})
}

// equalOn waits until two replicas are equal.
func (s *tale) equalOn(topic *client.Topic, end int64, a, b int32) {
	s.until("two replicas are equal", 20*time.Second, func() bool {
		ends := s.ends(topic)
		p := *s.partition(topic)
		p.Replicas = []int32{a, b}
		return ends[a] == end && ends[b] == end && s.cluster.ghost.replicas.Differ(&p) == ""
	})
}

// idleThenElected is KAFKA-15510: a follower had nothing to fetch for a while, led, wrote what
// nobody got, and follows again: it must still know the epoch of its last record.
func idleThenElected(r *Run) {
	r.Set("replica.lag.time.max.ms", "60000")
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("idle", []int32{4, 5})
		s.produce(4, topic, -1, 10, nil)
		s.wait(3 * time.Second)
		s.kill(4)
		s.led(topic, 5)
		s.start(4)
		s.isr(topic, 2)
		s.apart(5, 4)
		s.produce(5, topic, 1, 3, nil)
		s.prefer()
		s.led(topic, 4)
		s.produce(4, topic, 1, 5, nil)
		s.together()
		s.produce(4, topic, -1, 1, nil)
		s.cluster.ghost.check()
		s.equal(topic, 16)
	})
}

// ledBefore is what went wrong in KIP-320's first try: a leader must not count what a follower
// had when it led before, for the follower has cut it off since.
func ledBefore(r *Run) {
	r.Set("replica.lag.time.max.ms", "60000")
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("before", []int32{4, 5, 6})
		s.produce(4, topic, -1, 10, nil)
		s.apart(5, 4)
		s.produce(4, topic, 1, 5, nil)
		s.until("node 6 has them", 10*time.Second, func() bool { return s.ends(topic)[6] == 15 })
		s.apart(4, 1, 2, 3, 6)
		s.led(topic, 5)
		s.equalOn(topic, 10, 5, 6)
		s.again(4, 1, 2, 3, 5, 6)
		s.isr(topic, 3)
		s.equal(topic, 10)
		s.apart(6, 4)
		s.prefer()
		s.led(topic, 4)
		s.produce(4, topic, -1, 1, kerr.RequestTimedOut)
		s.together()
		s.equal(topic, 11)
	})
}

// uncommittedTail is KAFKA-14704 and KIP-392: nobody reads from a follower what its leader has
// not committed, neither while it is behind nor as it is cut off.
func uncommittedTail(r *Run) {
	r.Set("replica.lag.time.max.ms", "60000")
	r.Set("replica.selector.class", "org.apache.kafka.common.replica.RackAwareReplicaSelector")
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("tail", []int32{4, 5, 6})
		s.produce(4, topic, -1, 10, nil)
		s.apart(6, 4)
		s.produce(4, topic, 1, 5, nil)
		s.until("node 5 has them", 10*time.Second, func() bool { return s.ends(topic)[5] == 15 })
		s.wait(time.Second)
		for _, id := range []int32{4, 5} {
			hw, n := s.highWatermark(id, topic, 0)
			s.must(hw == 10 && n == 10, "I5", "node %d says %d, and %d records can be read; 10 are committed", id, hw, n)
		}
		// Node 6 leads and commits more than the others' tails; a consumer waits at the old leader.
		s.apart(4, 1, 2, 3, 5)
		s.kill(5)
		s.led(topic, 6)
		s.produce(6, topic, -1, 8, nil)
		over, epoch := false, s.partition(topic).LeaderEpoch
		e, group := s.Env(time.Minute)
		group.Go("wait", func(t *task.T) {
			p := client.OpenAt(t, &e, s.node(4).Addr())
			for !over && !s.failed {
				got, err := p.Await(t, topic, 0, 10, 2*time.Second)
				if err != nil || got.Code != 0 {
					t.Sleep(t.Now().Add(5 * time.Millisecond))
					continue
				}
				for _, b := range got.Batches {
					s.must(b.Epoch >= epoch, "I5", "a consumer of node 4 read offset %d of epoch %d, which was never committed", b.Base, b.Epoch)
				}
			}
			p.Close()
		})
		s.together()
		s.start(5)
		s.equal(topic, 18)
		over = true
	})
}

// unheardController: a leader does not hear what became of its proposal. Whoever may be in the
// ISR by it counts, until the metadata says what it is.
func unheardController(r *Run) {
	r.Set("broker.session.timeout.ms", "60000")
	r.Set("replica.lag.time.max.ms", "3000")
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("unheard", []int32{4, 5})
		s.produce(4, topic, -1, 10, nil)
		s.apart(5, 4)
		s.produce(4, topic, 1, 1, nil)
		s.isr(topic, 1) // by a proposal: they have a connection now
		s.produce(4, topic, -1, 9, nil)
		s.again(5, 4)
		// At the instant at which it has everything, and its leader is about to propose it.
		s.World.Run(func() bool { return s.over() || s.ends(topic)[5] == 20 }, 20*time.Second)
		for id := int32(1); id <= 3; id++ {
			s.World.Net.Partition(s.node(id).Name, s.node(4).Name) // what they say, not what they hear
		}
		s.isr(topic, 2)
		s.apart(5, 4)
		s.produce(4, topic, -1, 1, kerr.RequestTimedOut)
		s.together()
		s.equal(topic, 21)
	})
}

// deafController: the controller does not hear that a follower is to leave the ISR, and may
// elect it: it counts until the controller said otherwise. And the proposal is made again.
func deafController(r *Run) {
	r.Set("broker.session.timeout.ms", "60000")
	r.Set("replica.lag.time.max.ms", "2000")
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("deaf", []int32{4, 5, 6})
		s.produce(4, topic, -1, 10, nil)
		s.stopNode(6)
		s.isr(topic, 2)
		s.apart(4, 1, 2, 3, 5)
		s.produce(4, topic, -1, 1, kerr.RequestTimedOut)
		s.again(4, 1, 2, 3)
		s.isr(topic, 1)
		s.reaches(4, topic, 11)
		s.together()
		s.start(6)
		s.equal(topic, 11)
	})
}

// returnedLeader: a leader comes back without what it had, sooner than anybody noticed, and
// reads from its own disk that it leads. It does not, before the controller knows of it.
func returnedLeader(r *Run) {
	r.Set("broker.session.timeout.ms", "8000")
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("returned", []int32{4, 5, 6}, [2]string{"min.insync.replicas", "2"})
		s.produce(4, topic, -1, 20, nil)
		began := s.World.Probes()["leader-began"]
		s.power(4)
		s.start(4)
		s.led(topic, 5, 6)
		n := s.World.Probes()["leader-began"] - began
		s.must(n == 1, "I9", "%d leaders began, and one was elected", n)
		s.equal(topic, 20)
	})
}

// followedStart: records are deleted when every living replica has deleted them.
func followedStart(r *Run) {
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("start", []int32{4, 5, 6})
		s.produce(4, topic, -1, 10, nil)
		s.at(4, "DeleteRecords", func(t *task.T, p *client.Plain) {
			req := kmsg.NewPtrDeleteRecordsRequest()
			req.TimeoutMillis = 10_000
			part := kmsg.NewDeleteRecordsRequestTopicPartition()
			part.Partition, part.Offset = 0, 7
			rt := kmsg.NewDeleteRecordsRequestTopic()
			rt.Topic = topic.Name
			rt.Partitions = append(rt.Partitions, part)
			req.Topics = append(req.Topics, rt)
			resp, err := p.Call(t, req)
			if s.ok(err, "DeleteRecords") {
				s.code(resp.(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0].ErrorCode, nil, "DeleteRecords")
			}
		})
		s.kill(4)
		s.led(topic, 5, 6)
		got := int64(-1)
		s.at(s.partition(topic).Leader, "fetch", func(t *task.T, p *client.Plain) {
			f, err := p.Fetch(t, topic, 0, 11, 8, -1)
			if s.ok(err, "fetch") {
				got = f.LogStart
			}
		})
		s.must(got == 7, "I24", "the next leader's log starts at %d, and all below 7 was deleted", got)
		s.start(4)
		s.equal(topic, 10)
	})
}

// zombieController is KAFKA-14154: a controller that others have replaced, and does not know,
// lets nobody out of an ISR.
func zombieController(r *Run) {
	r.Set("controller.quorum.fetch.timeout.ms", "4000")
	r.Set("replica.lag.time.max.ms", "1000")
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("zombie", []int32{4, 5})
		s.produce(4, topic, -1, 10, nil)
		old := s.cluster.controller()
		if !s.must(old != nil, "liveness", "nobody leads the quorum") {
			return
		}
		for id := int32(1); id <= 3; id++ {
			if id != old.id {
				s.World.Net.Partition(old.Name, s.node(id).Name)
				s.World.Net.Partition(s.node(id).Name, old.Name)
			}
		}
		s.World.Net.Partition(s.node(4).Name, s.node(5).Name)
		s.World.Net.Partition(s.node(5).Name, s.node(4).Name)
		a := s.ask(4, topic)
		s.until("it is answered", 30*time.Second, func() bool { return a.done })
		// The next controller lets node 5 out, or elects it.
		if p := s.partition(topic); s.ok(a.err, "produce") && a.code == 0 {
			s.must(len(p.ISR) == 1, "I3", "the record was acknowledged while node 5 is in the ISR %v, and the replicas end at %v", p.ISR, s.ends(topic))
		}
		s.together()
		s.isr(topic, 2)
	})
}

// behindTheEpoch is KAFKA-7128: a new leader does not know yet what is committed. Who has all
// below its high watermark, and not all of before its epoch, may not join the ISR.
func behindTheEpoch(r *Run) {
	r.Set("replica.lag.time.max.ms", "60000")
	r.Set("leader.replication.throttled.rate", "0")
	tellCluster(r, six(1), func(s *tale) {
		throttled := [2]string{"leader.replication.throttled.replicas", "0:5"}
		topic := s.replicated("behind", []int32{4, 5, 6, 1}, throttled)
		other := s.replicated("other", []int32{5, 6}, throttled)
		s.produce(4, topic, -1, 19, nil)
		s.stopNode(1)
		s.isr(topic, 3)
		s.produce(5, other, -1, 10, nil) // so that node 5 has sent more than it may
		s.produce(4, topic, -1, 1, nil)
		s.World.Net.Partition(s.node(5).Name, s.node(6).Name)
		s.World.Net.Partition(s.node(6).Name, s.node(5).Name)
		s.kill(4)
		s.led(topic, 5)
		s.ends20(topic)
		s.start(1)
		s.wait(2 * time.Second)
		p := s.partition(topic)
		s.must(len(p.ISR) == 2, "I3", "the ISR is %v, the replicas end at %v, and 20 is committed", p.ISR, s.ends(topic))
		s.together()
		s.start(4)
		s.equal(topic, 20)
	})
}

// ends20 is KIP-207: whoever asks a new leader for the end of what is committed is not told
// less than what its predecessor had committed, which is 20.
func (s *tale) ends20(topic *client.Topic) {
	s.at(5, "ListOffsets", func(t *task.T, p *client.Plain) {
		var got kmsg.ListOffsetsResponseTopicPartition
		settled(t, func() int16 {
			req := kmsg.NewPtrListOffsetsRequest()
			req.Version, req.ReplicaID = 7, -1
			part := kmsg.NewListOffsetsRequestTopicPartition()
			part.CurrentLeaderEpoch, part.Timestamp = -1, -1
			rt := kmsg.NewListOffsetsRequestTopic()
			rt.Topic = topic.Name
			rt.Partitions = append(rt.Partitions, part)
			req.Topics = append(req.Topics, rt)
			resp, err := p.Call(t, req)
			if s.ok(err, "ListOffsets") {
				got = resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
			}
			return got.ErrorCode
		})
		s.must(got.ErrorCode == kerr.OffsetNotAvailable.Code || got.Offset == 20, "I6", "the committed end is said to be %d (code %d), and 20 is committed", got.Offset, got.ErrorCode)
	})
}

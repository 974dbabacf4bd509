package scenarios

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/scenarios/client"
)

// fastFailovers is KIP-279: two leaders in a row fail with records that nobody else has. Both
// come back to a leader that never heard of their last epoch, and are cut where it parts.
func fastFailovers(r *Run) {
	r.Set("replica.lag.time.max.ms", "60000")
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("fast", []int32{4, 5, 6})
		s.produce(4, topic, -1, 10, nil)
		s.apart(4, 5, 6)
		s.produce(4, topic, 1, 5, nil)
		s.apart(5, 6)
		s.kill(4)
		s.led(topic, 5)
		s.produce(5, topic, 1, 3, nil)
		ends := s.ends(topic)
		s.must(ends[4] == 15 && ends[5] == 13 && ends[6] == 10, "I1", "the replicas end at %v", ends)
		s.kill(5)
		s.led(topic, 6)
		s.produce(6, topic, -1, 2, nil)
		s.together()
		// The one with the epoch that the leader does not know comes first: what it is told must
		// name an epoch that both have.
		s.start(5)
		s.start(4)
		s.equal(topic, 12)
		s.must(s.World.Probes()["log-diverged"] >= 2, "I1", "the logs were cut %d times", s.World.Probes()["log-diverged"])
	})
}

// fencedReaders is KIP-320: a reader says which leader epoch it knows. An older one is fenced, a
// newer one unknown to who was replaced and has not heard; and where it read what is gone, it
// is told where the logs part.
func fencedReaders(r *Run) {
	r.Set("replica.lag.time.max.ms", "60000")
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("fenced", []int32{4, 5, 6})
		s.produce(4, topic, -1, 10, nil)
		before := s.partition(topic).LeaderEpoch
		s.apart(4, 1, 2, 3, 5, 6)
		s.produce(4, topic, 1, 5, nil)
		s.led(topic, 5, 6)
		p := s.partition(topic)
		leader, now := p.Leader, p.LeaderEpoch
		s.produce(leader, topic, -1, 3, nil)
		ask := func(id int32, offset int64, current, last int32, want *kerr.Error) (got client.Fetched) {
			s.at(id, "fetch", func(t *task.T, p *client.Plain) {
				var err error
				got, err = p.FetchAfter(t, topic, 0, offset, current, last)
				_ = s.ok(err, "fetch") && s.code(got.Code, want, "fetch")
			})
			return got
		}
		ask(leader, 10, before, before, kerr.FencedLeaderEpoch)
		ask(leader, 10, now+1, before, kerr.UnknownLeaderEpoch)
		ask(4, 10, now, before, kerr.UnknownLeaderEpoch)
		ask(11-leader, 10, before, before, kerr.FencedLeaderEpoch) // a follower knows it, too (KIP-392)
		got := ask(leader, 10, now, before, nil)
		s.must(got.DivergingEpoch < 0 && len(got.Batches) == 3, "I5", "who read up to where the logs part gets %d batches, diverging in epoch %d", len(got.Batches), got.DivergingEpoch)
		got = ask(leader, 12, now, before, nil)
		s.must(got.DivergingEpoch == before && got.DivergingEnd == 10 && len(got.Batches) == 0, "I5",
			"who read what is gone is told epoch %d, which ends at %d, and gets %d batches", got.DivergingEpoch, got.DivergingEnd, len(got.Batches))
		s.at(leader, "epochs", func(t *task.T, p *client.Plain) {
			epoch, end, code, err := client.EpochEnd(t, p.Env, p.Conn, topic, 0, before)
			_ = s.ok(err, "epochs") && s.code(code, nil, "epochs")
			s.must(epoch == before && end == 10, "I12", "epoch %d ends at %d", epoch, end)
		})
		s.together()
		s.equal(topic, 13)
	})
}

// propose sends an AlterPartition in the name of the partition's leader to the active
// controller: the ISR with the brokers' epochs.
func (s *tale) propose(topic *client.Topic, isr []int32, epochs []int64) (code int16) {
	return s.proposeAs(topic, isr, epochs, nil)
}

// proposeAs is propose with something wrong about it.
func (s *tale) proposeAs(topic *client.Topic, isr []int32, epochs []int64, spoil func(*kmsg.AlterPartitionRequest, *kmsg.AlterPartitionRequestTopicPartition)) (code int16) {
	c := s.cluster.controller()
	p := s.partition(topic)
	if c == nil || p == nil || s.failed {
		s.must(s.failed, "scenario", "there is no controller, or no partition")
		return 0
	}
	req := kmsg.NewPtrAlterPartitionRequest()
	req.Version, req.BrokerID, req.BrokerEpoch = 3, p.Leader, s.cluster.ghost.quorum.State.Broker(p.Leader).Epoch
	part := kmsg.NewAlterPartitionRequestTopicPartition()
	part.LeaderEpoch, part.PartitionEpoch = p.LeaderEpoch, p.Epoch
	for i, id := range isr {
		b := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
		b.BrokerID, b.BrokerEpoch = id, epochs[i]
		part.NewEpochISR = append(part.NewEpochISR, b)
	}
	if spoil != nil {
		spoil(req, &part)
	}
	rt := kmsg.NewAlterPartitionRequestTopic()
	rt.TopicID = topic.ID
	rt.Partitions = append(rt.Partitions, part)
	req.Topics = append(req.Topics, rt)
	ok := s.Do("propose", time.Minute, func(t *task.T, e *client.Env) {
		conn := client.OpenAt(t, e, c.Name+":9093")
		defer conn.Close()
		resp, err := conn.Call(t, req)
		if !s.ok(err, "propose") {
			return
		}
		r := resp.(*kmsg.AlterPartitionResponse)
		if code = r.ErrorCode; code == 0 && len(r.Topics) == 1 && len(r.Topics[0].Partitions) == 1 {
			code = r.Topics[0].Partitions[0].ErrorCode
		}
	})
	s.failed = s.failed || !ok
	return code
}

// epochs are the broker epochs of nodes.
func (s *tale) epochs(ids ...int32) (out []int64) {
	s.cluster.ghost.look()
	for _, id := range ids {
		epoch := int64(-1)
		if b := s.cluster.ghost.quorum.State.Broker(id); b != nil {
			epoch = b.Epoch
		}
		out = append(out, epoch)
	}
	return out
}

// fencedReplica is KIP-841: who is fenced, or shuts down, does not join the ISR, however well it
// follows; neither does its leader propose that, nor does the controller take it.
func fencedReplica(r *Run) {
	r.Set("replica.lag.time.max.ms", "3000")
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("fenced", []int32{4, 5, 6}, [2]string{"min.insync.replicas", "2"})
		s.produce(4, topic, -1, 10, nil)
		s.apart(6, 1, 2, 3) // it follows, and the controller does not hear of it
		s.isr(topic, 2)
		s.produce(4, topic, -1, 10, nil)
		s.until("who is fenced follows", 10*time.Second, func() bool { return s.ends(topic)[6] == 20 })
		s.wait(10 * time.Second)
		p := s.partition(topic)
		s.must(len(p.ISR) == 2 && !slices.Contains(p.ISR, 6), "I8", "node 6 is fenced, and the ISR is %v", p.ISR)
		ids := []int32{4, 5, 6}
		s.code(s.propose(topic, ids, s.epochs(ids...)), kerr.IneligibleReplica, "an ISR with a fenced broker")
		s.together()
		s.isr(topic, 3)
		// Node 5 shuts down, and follows until it ends.
		inc := s.node(5).Incarnation()
		s.node(5).Stop()
		s.until("it leaves the ISR", 20*time.Second, func() bool { return !slices.Contains(s.partition(topic).ISR, 5) })
		if ended, _ := inc.Ended(); !ended {
			code := s.propose(topic, ids, s.epochs(ids...))
			s.must(code == kerr.IneligibleReplica.Code || code == kerr.InvalidUpdateVersion.Code, "I8", "an ISR with who shuts down: %s", client.CodeName(code))
		}
		s.until("it stops", stopWithin, func() bool { ended, _ := inc.Ended(); return ended })
		p = s.partition(topic)
		s.must(!slices.Contains(p.ISR, 5), "I8", "node 5 has shut down, and the ISR is %v", p.ISR)
		s.node(5).Reap()
		s.start(5)
		s.equal(topic, 20)
	})
}

// staleReplica is KIP-903: who restarted is another, and what its leader saw of the one before
// lets it into no ISR.
func staleReplica(r *Run) {
	r.Set("replica.lag.time.max.ms", "2000")
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("stale", []int32{4, 5, 6})
		s.produce(4, topic, -1, 10, nil)
		ids := []int32{4, 5, 6}
		old := s.epochs(ids...)
		s.kill(6)
		s.isr(topic, 2)
		s.apart(6, 4) // so that the leader does not let it in before we ask
		s.start(6)
		s.wait(2 * time.Second)
		now := s.epochs(ids...)
		s.must(now[2] > old[2] && now[0] == old[0], "I10", "broker epochs were %v and are %v", old, now)
		s.code(s.propose(topic, ids, old), kerr.IneligibleReplica, "an ISR with the epoch of an earlier incarnation")
		s.must(len(s.partition(topic).ISR) == 2, "I8", "the ISR is %v", s.partition(topic).ISR)
		// A fetch of the earlier incarnation that comes late counts for nothing.
		s.at(4, "fetch", func(t *task.T, p *client.Plain) {
			got, err := p.FetchAs(t, topic, 0, 10, s.partition(topic).LeaderEpoch, 6, old[2])
			if s.ok(err, "fetch") {
				s.must(got.Code != 0, "I3", "the leader answers who is gone")
			}
		})
		s.wait(3 * time.Second)
		s.must(len(s.partition(topic).ISR) == 2, "I3", "the ISR is %v, by a fetch of who is gone", s.partition(topic).ISR)
		s.code(s.propose(topic, ids, now), nil, "an ISR with the epochs of now")
		s.isr(topic, 3)
		s.together()
		s.equal(topic, 10)
	})
}

// keptReassignment is a reassignment whose only member in sync is one that it adds: taking it
// back would leave nobody who has everything, and is refused (docs/decisions/0009). So is another
// target that drops it, where unclean elections are allowed, too.
func keptReassignment(r *Run) {
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("kept", []int32{4})
		bold := s.replicated("bold", []int32{4}, [2]string{"unclean.leader.election.enable", "true"})
		s.produce(4, topic, -1, 20, nil)
		s.apart(6, 4, 5)
		s.assign(topic, []int32{5, 6})
		s.assign(bold, []int32{5, 6})
		s.isr(topic, 2)
		s.isr(bold, 2)
		s.kill(4)
		s.isr(topic, 1)
		s.led(topic, 5)
		s.led(bold, 5)
		s.produce(5, topic, -1, 5, nil)
		s.assignAt(5, topic, nil, kerr.InvalidReplicaAssignment)
		s.assignAt(5, topic, []int32{4, 6}, kerr.InvalidReplicaAssignment)
		s.assignAt(5, bold, []int32{4, 6}, kerr.InvalidReplicaAssignment)
		s.produce(5, topic, -1, 5, nil)
		s.together()
		s.start(4)
		s.until("it ends", time.Minute, func() bool {
			p := s.partition(topic)
			return len(p.Adding)+len(p.Removing) == 0 && slices.Equal(p.Replicas, []int32{5, 6})
		})
		s.equal(topic, 30)
	})
}

// takenBackUncleanly is SPEC R6 for a reassignment that is taken back where only what it added is in
// sync, and an unclean election is allowed: who leads then loses lawfully what it has not got.
func takenBackUncleanly(r *Run) {
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("back", []int32{4}, [2]string{"unclean.leader.election.enable", "true"})
		s.produce(4, topic, -1, 20, nil)
		s.apart(6, 4, 5)
		s.assign(topic, []int32{5, 6})
		s.isr(topic, 2)
		s.kill(4)
		s.isr(topic, 1)
		s.led(topic, 5)
		s.produce(5, topic, -1, 5, nil)
		s.apart(4, 5)
		s.start(4)
		s.assignAt(5, topic, nil, nil)
		s.led(topic, 4)
		s.together()
		s.equal(topic, 20)
	})
}

// failedOverReassignment is SPEC R9 over a change of controllers: what one began goes on under
// the next, which takes it back when it is asked to; nothing of the new replica stays (B79).
func failedOverReassignment(r *Run) {
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("over", []int32{4, 5})
		s.produce(4, topic, -1, 20, nil)
		s.apart(6, 4, 5)
		s.assign(topic, []int32{4, 6})
		s.until("the new replica has its directory", 20*time.Second, func() bool { return len(s.ends(topic)) == 3 })
		first := s.cluster.controller()
		s.kill(first.id)
		s.until("another controller", 30*time.Second, func() bool { c := s.cluster.controller(); return c != nil && c != first })
		p := s.partition(topic)
		s.must(slices.Equal(p.Adding, []int32{6}) && slices.Equal(p.Removing, []int32{5}) && p.Leader == 4, "R9",
			"under the next controller: adding %v, removing %v, leader %d", p.Adding, p.Removing, p.Leader)
		s.produce(4, topic, -1, 5, nil)
		s.wait(2 * time.Second) // what node 4 sends to the killed controller is in doubt (decision 0015)
		s.assign(topic, nil)
		s.until("it is taken back", 20*time.Second, func() bool {
			p := s.partition(topic)
			return len(p.Adding)+len(p.Removing) == 0 && slices.Equal(p.Replicas, []int32{4, 5})
		})
		s.together()
		s.until("the new replica's directory goes", 2*time.Minute, func() bool { return len(s.ends(topic)) == 2 })
		s.must(s.World.Probes()["reassignment-cancelled-after-failover"] == 1, "R9", "the next controller did not take it back")
		s.start(first.id)
		s.equal(topic, 25)
	})
}

package scenarios

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/scenarios/client"
)

// refusedProposals: an AlterPartition is fenced by three epochs, and by what an ISR may be. Each
// proposal of this story would do without the one thing that is wrong about it.
func refusedProposals(r *Run) {
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("proposed", []int32{4, 5, 6})
		s.kill(4)
		s.led(topic, 5)
		s.start(4)
		s.isr(topic, 3)
		p := s.partition(topic)
		leader, others := p.Leader, slices.DeleteFunc(slices.Clone(p.ISR), func(id int32) bool { return id == p.Leader })
		refused := func(isr []int32, want *kerr.Error, what string, spoil func(*kmsg.AlterPartitionRequest, *kmsg.AlterPartitionRequestTopicPartition)) {
			before := *s.partition(topic)
			s.code(s.proposeAs(topic, isr, s.epochs(isr...), spoil), want, what)
			now := s.partition(topic)
			s.must(now.Epoch == before.Epoch && slices.Equal(now.ISR, before.ISR), "I10", "%s: the partition was in epoch %d with the ISR %v, and is in %d with %v", what, before.Epoch, before.ISR, now.Epoch, now.ISR)
		}
		two := []int32{leader, others[0]}
		type request = kmsg.AlterPartitionRequest
		type part = kmsg.AlterPartitionRequestTopicPartition
		refused(two, kerr.NotController, "a leader epoch that is not yet", func(_ *request, x *part) { x.LeaderEpoch++ })
		refused(two, kerr.NotController, "a partition epoch that is not yet", func(_ *request, x *part) { x.PartitionEpoch++ })
		refused(two, kerr.FencedLeaderEpoch, "an older leader epoch", func(_ *request, x *part) { x.LeaderEpoch-- })
		refused(two, kerr.InvalidUpdateVersion, "an older partition epoch", func(_ *request, x *part) { x.PartitionEpoch-- })
		refused(two, kerr.InvalidRequest, "of who does not lead", func(q *request, _ *part) {
			q.BrokerID, q.BrokerEpoch = others[0], s.epochs(others[0])[0]
		})
		refused(two, kerr.StaleBrokerEpoch, "of an earlier incarnation of the leader", func(q *request, _ *part) { q.BrokerEpoch-- })
		refused(others, kerr.InvalidRequest, "an ISR without the leader", nil)
		refused([]int32{leader, 1}, kerr.InvalidRequest, "an ISR with who has no replica", nil)
		refused([]int32{leader, others[0], others[0]}, kerr.InvalidRequest, "an ISR with somebody twice", nil)
		refused([]int32{leader}, kerr.InvalidRequest, "a leader that recovers once more", func(_ *request, x *part) { x.LeaderRecoveryState = 1 })
		refused(two, kerr.IneligibleReplica, "an ISR with an earlier incarnation", func(_ *request, x *part) { x.NewEpochISR[1].BrokerEpoch-- })
	})
}

// unknownDirectory is KIP-858: a replica that its broker says to be in a directory which it has not, for
// that failed meanwhile, is not in sync until the broker says better.
func unknownDirectory(r *Run) {
	r.Set("replica.lag.time.max.ms", "60000")
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("assigned", []int32{4, 5, 6})
		s.produce(4, topic, -1, 10, nil)
		before := s.partition(topic).Epoch
		s.control("assign", func(ask func(kmsg.Request) kmsg.Response) {
			req := kmsg.NewPtrAssignReplicasToDirsRequest()
			req.BrokerID, req.BrokerEpoch = 6, s.epochs(6)[0]
			part := kmsg.NewAssignReplicasToDirsRequestDirectoryTopicPartition()
			rt := kmsg.NewAssignReplicasToDirsRequestDirectoryTopic()
			rt.TopicID = topic.ID
			rt.Partitions = append(rt.Partitions, part)
			dir := kmsg.NewAssignReplicasToDirsRequestDirectory()
			dir.ID = [16]byte{0: 0x77, 6: 0x40, 8: 0x80, 15: 0x77}
			dir.Topics = append(dir.Topics, rt)
			req.Directories = append(req.Directories, dir)
			if resp, ok := ask(req).(*kmsg.AssignReplicasToDirsResponse); ok {
				s.code(resp.ErrorCode, nil, "assign")
			}
		})
		s.must(s.partition(topic).Epoch > before, "scenario", "the partition did not change")
		s.equal(topic, 10)
		s.produce(4, topic, -1, 10, nil)
		s.equal(topic, 20)
	})
}

// unreadSetting: whoever leaves an ISR that is too small is eligible, for the high watermark stands
// still from then on. It would not where the leader has not read that min.insync.replicas was
// raised, so the leader gets no such ISR: not until it is known to have read, be it that the setting
// is new or the controller.
func unreadSetting(r *Run) {
	r.Set("broker.heartbeat.interval.ms", "4000") // so long nobody hears what brokers have read
	r.Set("broker.session.timeout.ms", "30000")
	r.Set("replica.lag.time.max.ms", "60000")
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("unread", []int32{4, 5, 6})
		two := func() int16 { return s.propose(topic, []int32{4, 5}, s.epochs(4, 5)) }
		postponed := func(code int16, when string) {
			p := s.partition(topic)
			s.must(len(p.ISR) == 3, "I3", "the ISR is %v and eligible are %v %s: the leader is not known to have read what it is to wait for", p.ISR, p.ELR, when)
			s.code(code, kerr.OperationNotAttempted, "an ISR of two "+when)
		}
		made := func() {
			s.wait(10 * time.Second)
			s.code(two(), nil, "an ISR of two")
			p := s.partition(topic)
			s.must(slices.Equal(p.ELR, []int32{6}), "I8", "the ISR is %v and eligible are %v", p.ISR, p.ELR)
			s.isr(topic, 3)
		}
		s.produce(4, topic, -1, 10, nil)
		s.wait(10 * time.Second)
		s.alter(kmsg.ConfigResourceTypeTopic, topic.Name, [2]string{"min.insync.replicas", "3"})
		postponed(two(), "after the setting")
		made()
		s.wait(10 * time.Second)
		s.apart(4, 1, 2, 3) // it tells the next controller nothing
		old := s.cluster.controller()
		s.kill(old.id)
		s.until("another controller", 30*time.Second, func() bool { c := s.cluster.controller(); return c != nil && c != old })
		code := two()
		for i := 0; i < 100 && code == kerr.NotController.Code; i++ { // elected, and not active yet
			s.wait(10 * time.Millisecond)
			code = two()
		}
		postponed(code, "after the election")
		s.together()
		made()
		s.start(old.id)
		s.equal(topic, 10)
	})
}

// settingWithISR: a leader that was cut off from the controllers hears at once that
// min.insync.replicas was raised and that a replica left the ISR, which is too small now and leaves
// that one eligible. What the leader has waited for meanwhile is not to be committed without it.
func settingWithISR(r *Run) {
	r.Set("broker.session.timeout.ms", "30000")
	r.Set("replica.lag.time.max.ms", "60000")
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("behind", []int32{4, 5, 6}, [2]string{"min.insync.replicas", "2"})
		s.produce(4, topic, -1, 10, nil)
		s.apart(4, 1, 2, 3, 6)
		s.apart(6, 1, 2, 3) // it stays fenced
		a := s.ask(4, topic)
		s.wait(time.Second)
		s.at(5, "alter", func(t *task.T, p *client.Plain) {
			s.alterBy(t, p, kmsg.ConfigResourceTypeTopic, topic.Name, [2]string{"min.insync.replicas", "3"})
		})
		s.wantsFence(6)
		p := s.partition(topic)
		s.must(slices.Equal(p.ISR, []int32{4, 5}) && slices.Equal(p.ELR, []int32{6}), "scenario", "the ISR is %v and eligible are %v", p.ISR, p.ELR)
		s.again(4, 1, 2, 3)
		s.wait(5 * time.Second)
		hw, _ := s.highWatermark(4, topic, 0)
		s.must(hw == 10 && !a.done, "I3", "the high watermark is %d, and 6 may lead, which has 10 records", hw)
		s.together()
		s.isr(topic, 3)
		s.answered(a, nil, "all are in sync")
		s.equal(topic, 11)
	})
}

// wantsFence reports in the name of a broker that it wants to be fenced. Its own next report takes
// that back.
func (s *tale) wantsFence(id int32) {
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.Version, req.BrokerID, req.BrokerEpoch, req.CurrentMetadataOffset, req.WantFence = 1, id, s.epochs(id)[0], -1, true
	s.control("heartbeat", func(ask func(kmsg.Request) kmsg.Response) {
		if resp, ok := ask(req).(*kmsg.BrokerHeartbeatResponse); ok {
			s.code(resp.ErrorCode, nil, "heartbeat")
		}
	})
}

// lateProposal: a proposal lies in a connection that its leader has given up, and is refused when it
// comes again, for the replica that is to join is fenced. It counts no more from then on, and is not
// to be taken when the first one arrives: what was committed meanwhile the replica does not have.
func lateProposal(r *Run) {
	r.Set("broker.session.timeout.ms", "30000")
	r.Set("replica.lag.time.max.ms", "6000")
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("late", []int32{4, 5, 6})
		s.produce(4, topic, -1, 10, nil)
		s.apart(6, 4)
		s.produce(4, topic, 1, 1, nil)
		s.isr(topic, 2)
		s.World.Net.StallAll(s.node(4).Name, s.cluster.controller().Name)
		s.again(6, 4)
		s.until("6 has it", 10*time.Second, func() bool { return s.ends(topic)[6] == 11 })
		s.wait(500 * time.Millisecond)
		s.apart(6, 1, 2, 3, 4) // it stays fenced
		s.wantsFence(6)
		s.wait(15 * time.Second) // it was proposed again
		s.produce(4, topic, -1, 5, nil)
		s.again(6, 1, 2, 3)
		s.wait(10 * time.Second) // it is not fenced any more
		s.together()             // the first one arrives
		s.apart(6, 4)
		s.wait(5 * time.Second)
		p := s.partition(topic)
		s.must(!slices.Contains(p.ISR, 6), "I3", "the ISR is %v, and 6 ends at %d of 16", p.ISR, s.ends(topic)[6])
		s.together()
		s.isr(topic, 3)
		s.equal(topic, 16)
	})
}

// deletesRecords asks a node to delete records, and waits in the background.
func (s *tale) deletesRecords(id int32, topic *client.Topic, before int64, within time.Duration) *asked {
	a := &asked{}
	e, group := s.Env(2 * time.Minute)
	group.Go("delete records", func(t *task.T) {
		p := client.OpenAt(t, &e, s.node(id).Addr())
		req := kmsg.NewPtrDeleteRecordsRequest()
		req.TimeoutMillis = int32(within.Milliseconds())
		part := kmsg.NewDeleteRecordsRequestTopicPartition()
		part.Offset = before
		rt := kmsg.NewDeleteRecordsRequestTopic()
		rt.Topic = topic.Name
		rt.Partitions = append(rt.Partitions, part)
		req.Topics = append(req.Topics, rt)
		resp, err := p.Call(t, req)
		if a.err = err; err == nil {
			a.code = resp.(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0].ErrorCode
		}
		a.done = true
		p.Close()
	})
	return a
}

// waitingDeletion: records are deleted when no living replica has them, be it in the ISR or not,
// and whether its leader has heard from it or not. Who is fenced is not waited for.
func waitingDeletion(r *Run) {
	r.Set("replica.lag.time.max.ms", "2000")
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("deleted", []int32{4, 5, 6})
		s.produce(4, topic, -1, 10, nil)
		s.apart(6, 4, 5)
		s.produce(4, topic, 1, 1, nil)
		s.isr(topic, 2)
		s.wait(time.Second)
		a := s.deletesRecords(4, topic, 7, time.Minute)
		s.wait(3 * time.Second)
		s.must(!a.done, "I24", "records are said to be deleted that node 6 has, which lives")
		s.apart(6, 1, 2, 3)
		s.until("node 6 is fenced", 10*time.Second, func() bool {
			s.cluster.ghost.look()
			return s.cluster.ghost.quorum.State.Broker(6).Fenced
		})
		s.answered(a, nil, "the only replica that has the records was fenced")
		s.together()
		s.equal(topic, 11)
		// The next leader has not heard from one of its followers.
		s.wait(time.Second)
		s.apart(6, 5)
		s.kill(4)
		s.led(topic, 5)
		s.isr(topic, 1)
		hw, _ := s.highWatermark(5, topic, 7)
		s.must(hw == 11, "R2", "the high watermark of an ISR of one is %d", hw)
		a = s.deletesRecords(5, topic, 9, 2*time.Second)
		s.World.Run(func() bool { return a.done || s.over() }, 10*time.Second)
		_ = s.must(a.done, "I30", "no answer") && s.ok(a.err, "delete records") && s.code(a.code, kerr.RequestTimedOut, "a deletion that a living replica has not heard of")
		s.together()
		s.start(4)
		s.equal(topic, 11)
	})
}

// waitingReassignment is SPEC R9 with min.insync.replicas: what it adds is in sync, and who stays is
// not. Until two are that stay, the one that leaves is one of two copies of what is acknowledged.
func waitingReassignment(r *Run) {
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("waits", []int32{4, 5}, [2]string{"min.insync.replicas", "2"})
		s.produce(4, topic, -1, 10, nil)
		s.stopNode(6)
		s.assign(topic, []int32{4, 6})
		s.kill(4)
		s.led(topic, 5)
		s.start(6)
		s.until("what is added is in sync", 30*time.Second, func() bool { return slices.Contains(s.partition(topic).ISR, 6) })
		s.wait(3 * time.Second)
		p := s.partition(topic)
		s.must(slices.Equal(p.Removing, []int32{5}) && len(p.ISR) == 2, "I33", "node 4 is away, and the ISR is %v of %v, removing %v", p.ISR, p.Replicas, p.Removing)
		s.start(4)
		s.until("it ends", time.Minute, func() bool { return len(s.partition(topic).Replicas) == 2 })
		s.equal(topic, 10)
	})
}

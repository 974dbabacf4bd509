package scenarios

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/scenarios/client"
	"seedlog/sim/simdisk"
)

// loseAll is a power loss that keeps nothing unsynced.
var loseAll = simdisk.Power{None: 1}

// highWatermarkExample is SPEC R1 and R2: the leader at 5, followers at 5 and 4, and the high
// watermark is 4: that is what a consumer can read. It is 5 when the last one has come.
func highWatermarkExample(r *Run) {
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("hw", []int32{4, 5, 6})
		s.produce(4, topic, -1, 4, nil)
		s.apart(6, 4)
		began := int64(0)
		s.at(4, "what time is it", func(t *task.T, p *client.Plain) { began = t.UnixMilli() })
		s.produce(4, topic, 1, 1, nil)
		s.until("one follower has it", 10*time.Second, func() bool { return s.ends(topic)[5] == 5 })
		s.wait(time.Second)
		ends := s.ends(topic)
		s.must(ends[4] == 5 && ends[5] == 5 && ends[6] == 4, "R1", "the replicas end at %v", ends)
		hw, n := s.highWatermark(4, topic, 0)
		s.must(hw == 4 && n == 4, "R1", "the high watermark is %d, and %d records can be read", hw, n)
		s.at(4, "look up", func(t *task.T, p *client.Plain) {
			for _, when := range []int64{began, -3} { // the time, and the largest
				got, err := client.ListOffset(t, p.Env, p.Conn, topic, 0, when)
				if s.ok(err, "ListOffsets") {
					s.must(got == -1, "I5", "ListOffsets of %d names offset %d, which is not committed", when, got)
				}
			}
		})
		s.together()
		s.reaches(4, topic, 5)
	})
}

// acksTable is SPEC R4, the five rows of acks × min.insync.replicas with three replicas.
func acksTable(r *Run) {
	tellCluster(r, six(1), func(s *tale) {
		min := func(n string) [2]string { return [2]string{"min.insync.replicas", n} }
		one, two, three := s.replicated("one", []int32{4, 5, 6}), s.replicated("two", []int32{4, 5, 6}, min("2")), s.replicated("three", []int32{4, 5, 6}, min("3"))
		for _, topic := range []*client.Topic{one, two, three} {
			s.produce(4, topic, -1, 1, nil)
		}
		// Three replicas and all of them asked for: one that is gone and still in the ISR holds
		// the answer up, and when it has left the high watermark does not move (KIP-966).
		s.kill(5)
		s.produce(4, three, -1, 1, kerr.RequestTimedOut)
		s.isr(three, 2)
		s.produce(4, three, -1, 1, kerr.NotEnoughReplicas)
		s.isr(two, 2)
		s.produce(4, two, -1, 1, nil)
		s.kill(6)
		s.isr(two, 1)
		s.isr(one, 1)
		s.produce(4, two, -1, 1, kerr.NotEnoughReplicas)
		s.produce(4, one, -1, 1, nil) // all of one
		hw, _ := s.highWatermark(4, one, 0)
		s.must(hw == 2, "R4", "all with one: the high watermark is %d", hw)
		// acks=1 below min.insync.replicas succeeds, and stays invisible (R1).
		s.produce(4, two, 1, 1, nil)
		hw, n := s.highWatermark(4, two, 0)
		s.must(hw == 2 && n == 2, "R1", "below min.insync.replicas the high watermark is %d, and %d records can be read", hw, n)
		s.start(5)
		s.reaches(4, two, 3)
		s.start(6)
		s.equal(one, 2)
		s.equal(two, 3)
		s.equal(three, 2)
	})
}

// cutAfterFailover is SPEC R5 and KIP-101: 200 records that were never replicated are cut off
// the old leader when it comes back, and the epochs say where.
func cutAfterFailover(r *Run) {
	r.Set("replica.lag.time.max.ms", "30000")
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("cut", []int32{4, 5, 6})
		s.produce(4, topic, -1, 100, nil)
		s.apart(4, 5, 6)
		s.produce(4, topic, 1, 200, nil)
		ends := s.ends(topic)
		s.must(ends[4] == 300 && ends[5] == 100 && ends[6] == 100, "R5", "the replicas end at %v", ends)
		s.kill(4)
		s.together()
		s.led(topic, 5, 6)
		leader := s.partition(topic).Leader
		s.produce(leader, topic, -1, 50, nil)
		s.start(4)
		s.equal(topic, 150)
		s.must(s.World.Probes()["log-truncated"] > 0, "R5", "nothing was truncated")
	})
}

// uncleanOff is SPEC R6: the partition waits for the one replica that has everything.
func uncleanOff(r *Run) { unclean(r, "false") }

// uncleanOn is the other side: it does not wait, and loses lawfully what only the old leader had.
func uncleanOn(r *Run) { unclean(r, "true") }

func unclean(r *Run, allowed string) {
	r.Set("replica.lag.time.max.ms", "1000")
	r.Set("unclean.leader.election.interval.ms", "500")
	tellCluster(r, six(0), func(s *tale) {
		topic := s.replicated("unclean", []int32{4, 5, 6}, [2]string{"unclean.leader.election.enable", allowed})
		s.produce(4, topic, -1, 10, nil)
		s.apart(4, 5, 6)
		s.produce(4, topic, 1, 1, nil) // who has everything stays in the ISR, however silent
		s.isr(topic, 1)
		s.produce(4, topic, -1, 9, nil)
		s.kill(4)
		s.together()
		if allowed == "true" {
			s.led(topic, 5, 6)
			s.produce(s.partition(topic).Leader, topic, -1, 3, nil)
			s.start(4)
			s.equal(topic, 13)
			return
		}
		s.wait(10 * time.Second)
		p := s.partition(topic)
		s.must(p.Leader == -1 && len(p.ISR) == 1, "R6", "the leader is %d, the ISR %v", p.Leader, p.ISR)
		s.start(4)
		s.led(topic, 4)
		s.equal(topic, 20)
	})
}

// lastKnownLeader is SPEC R6 and KIP-966: ISR and eligible leaders are both empty after an
// unclean restart of the last one, and it leads again by itself.
func lastKnownLeader(r *Run) {
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("last", []int32{4})
		s.produce(4, topic, -1, 10, nil)
		s.kill(4)
		s.until("nobody leads", 20*time.Second, func() bool { return s.partition(topic).Leader == -1 })
		s.start(4)
		s.led(topic, 4)
		hw, n := s.highWatermark(4, topic, 0)
		s.must(hw == 10 && n == 10, "R6", "the high watermark is %d, and %d records can be read", hw, n)
	})
}

// eligibleLeaders is KIP-966: the ISR shrinks below min.insync.replicas, those who leave stay
// eligible, the last member loses its tail, and nothing that is committed is lost.
func eligibleLeaders(r *Run) {
	r.Set("replica.lag.time.max.ms", "1000")
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("elr", []int32{4, 5, 6}, [2]string{"min.insync.replicas", "2"})
		s.produce(4, topic, -1, 10, nil)
		s.stopNode(6)
		s.isr(topic, 2)
		s.produce(4, topic, -1, 10, nil)
		s.stopNode(5)
		s.isr(topic, 1)
		p := s.partition(topic)
		s.must(len(p.ELR) == 1 && p.ELR[0] == 5, "I8", "eligible are %v, the ISR is %v", p.ELR, p.ISR)
		s.power(4) // with all 20 records: nothing was synced
		s.until("nobody leads", 20*time.Second, func() bool { return s.partition(topic).Leader == -1 })
		s.start(4)
		s.wait(3 * time.Second)
		p = s.partition(topic)
		s.must(p.Leader != 4, "I4", "the node that lost its log leads again: ISR %v, eligible %v", p.ISR, p.ELR)
		s.start(5, 6)
		s.equal(topic, 20)
	})
}

// preferredLeader is SPEC R7: the first replica leads again by command, and by timer.
func preferredLeader(r *Run) {
	r.Set("auto.leader.rebalance.enable", "true")
	r.Set("leader.imbalance.check.interval.seconds", "30")
	r.Set("leader.imbalance.per.broker.percentage", "0")
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("preferred", []int32{4, 5, 6})
		bounce := func() {
			s.kill(4)
			s.led(topic, 5, 6)
			s.start(4)
			s.isr(topic, 3)
		}
		bounce()
		s.at(1, "elect", func(t *task.T, p *client.Plain) {
			req := kmsg.NewPtrElectLeadersRequest()
			req.Version, req.TimeoutMillis = 2, 10_000
			rt := kmsg.NewElectLeadersRequestTopic()
			rt.Topic, rt.Partitions = topic.Name, []int32{0}
			req.Topics = append(req.Topics, rt)
			resp, err := p.Call(t, req)
			if s.ok(err, "elect") {
				s.code(resp.(*kmsg.ElectLeadersResponse).ErrorCode, nil, "elect")
			}
		})
		s.led(topic, 4)
		bounce()
		s.until("the timer moves it back", 2*time.Minute, func() bool { return s.partition(topic).Leader == 4 })
	})
}

// controlledShutdown is SPEC R10: leadership moves before the node stops, and the partition is
// unavailable for a second at most.
func controlledShutdown(r *Run) {
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("shutdown", []int32{4, 5, 6})
		s.produce(4, topic, -1, 10, nil)
		began := s.World.Now()
		moved := time.Duration(-1)
		inc := s.node(4).Incarnation()
		s.node(4).Stop()
		s.until("leadership moves", 20*time.Second, func() bool {
			p := s.partition(topic)
			if p.Leader != 4 && p.Leader >= 0 {
				moved = s.World.Now().Sub(began)
			}
			return moved >= 0
		})
		ended, _ := inc.Ended()
		s.must(!ended, "R10", "the node was gone before its leadership moved")
		s.must(moved <= time.Second, "R10", "leadership moved after %v", moved)
		s.stopped(4, inc)
		p := s.partition(topic)
		s.must(len(p.ISR) == 2, "I8", "the ISR is %v after the shutdown of node 4", p.ISR)
		s.produce(p.Leader, topic, -1, 10, nil)
		s.start(4)
		s.equal(topic, 20)
	})
}

// assign asks for a reassignment, or, for nil, that one is taken back.
func (s *tale) assign(topic *client.Topic, target []int32) { s.assignAt(4, topic, target, nil) }

// assignAt asks a node, and expects the code for the partition.
func (s *tale) assignAt(id int32, topic *client.Topic, target []int32, want *kerr.Error) {
	s.at(id, "reassign", func(t *task.T, p *client.Plain) {
		req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		req.TimeoutMillis = 10_000
		part := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		part.Replicas = target
		rt := kmsg.NewAlterPartitionAssignmentsRequestTopic()
		rt.Topic = topic.Name
		rt.Partitions = append(rt.Partitions, part)
		req.Topics = append(req.Topics, rt)
		resp, err := p.Call(t, req)
		if s.ok(err, "reassign") {
			r := resp.(*kmsg.AlterPartitionAssignmentsResponse)
			s.code(r.ErrorCode, nil, "reassign")
			s.code(r.Topics[0].Partitions[0].ErrorCode, want, "reassign")
		}
	})
}

// reassignmentStory is SPEC R9: replicas move, old ones serve until the new ones have
// everything, offsets stay; one that is taken back ends as it began.
func reassignmentStory(r *Run) {
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("move", []int32{4, 5})
		s.produce(4, topic, -1, 100, nil)
		// Nobody comes to node 6's replica: the reassignment goes on until it is taken back.
		s.apart(6, 4)
		s.assign(topic, []int32{6, 2})
		s.wait(2 * time.Second)
		p := s.partition(topic)
		s.must(len(p.Adding) == 2 && len(p.Removing) == 2, "R9", "adding %v, removing %v", p.Adding, p.Removing)
		s.must(p.Leader == 4, "R9", "node %d leads while the new replicas are empty", p.Leader)
		s.produce(4, topic, -1, 10, nil)
		s.assign(topic, nil)
		s.until("it is taken back", 10*time.Second, func() bool {
			p := s.partition(topic)
			return len(p.Adding)+len(p.Removing) == 0 && len(p.Replicas) == 2 && p.Replicas[0] == 4
		})
		s.wait(2 * time.Minute)
		ends := s.ends(topic)
		s.must(len(ends) == 2, "I32", "the replicas that were taken back are still there: %v", ends)
		s.together()
		s.assign(topic, []int32{6, 2})
		s.until("it ends", time.Minute, func() bool {
			p := s.partition(topic)
			return len(p.Adding)+len(p.Removing) == 0 && len(p.Replicas) == 2 && p.Replicas[0] == 6
		})
		s.led(topic, 6, 2)
		s.equal(topic, 110)
		hw, n := s.highWatermark(s.partition(topic).Leader, topic, 0)
		s.must(hw == 110 && n == 110, "R9", "the high watermark is %d, and %d records can be read", hw, n)
		s.until("the old directories go", 2*time.Minute, func() bool { ends := s.ends(topic); return len(ends) == 2 })
	})
}

// shortenedReplica: a replica that came back cuts off what its leader does not have, and takes nothing
// else from the answer that said so. It hears again how much is committed, though nothing more is
// written: its readers would wait.
func shortenedReplica(r *Run) {
	r.Set("replica.lag.time.max.ms", "60000")
	r.Set("replica.high.watermark.checkpoint.interval.ms", "3600000")
	r.Set("replica.selector.class", "org.apache.kafka.common.replica.RackAwareReplicaSelector")
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("shortened", []int32{4, 5, 6})
		s.produce(4, topic, -1, 10, nil)
		s.apart(5, 4, 6)
		s.produce(4, topic, 1, 2, nil)
		s.until("6 has what 5 has not", 10*time.Second, func() bool { return s.ends(topic)[6] == 12 })
		s.kill(4, 6)
		s.together()
		s.led(topic, 5)
		s.start(6)
		s.isr(topic, 2)
		s.reaches(6, topic, 10)
		s.start(4)
		s.equal(topic, 10)
	})
}

// closestReplica is SPEC R11 and KIP-392: the leader sends a client of a rack to the replica
// there, which answers up to what it knows committed.
func closestReplica(r *Run) {
	r.Set("replica.lag.time.max.ms", "6000")
	r.Set("replica.selector.class", "org.apache.kafka.common.replica.RackAwareReplicaSelector")
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("close", []int32{4, 5, 6})
		s.produce(4, topic, -1, 10, nil)
		s.wait(2 * time.Second)
		ask := func(id int32, offset int64) (got client.Fetched) {
			s.at(id, "fetch", func(t *task.T, p *client.Plain) {
				p.Routes.Rack = s.node(5).rack
				var err error
				got, err = p.Fetch(t, topic, 0, 11, offset, -1)
				_ = s.ok(err, "fetch") && s.code(got.Code, nil, "fetch")
			})
			return got
		}
		got := ask(4, 0)
		s.must(got.Preferred == 5 && len(got.Batches) == 0, "R11", "the leader sends to %d, with %d batches", got.Preferred, len(got.Batches))
		got = ask(5, 0)
		s.must(got.HighWatermark == 10 && len(got.Batches) == 10, "R11", "the replica says %d, with %d batches", got.HighWatermark, len(got.Batches))
		// Nobody is sent to a replica that does not have the offset, or is not in sync.
		s.apart(5, 4)
		s.produce(4, topic, 1, 5, nil)
		got = ask(4, 12)
		s.must(got.Preferred < 0, "R11", "who reads from offset 12 is sent to %d, which ends at %d", got.Preferred, s.ends(topic)[5])
		s.isr(topic, 2)
		got = ask(4, 0)
		s.must(got.Preferred < 0 && len(got.Batches) == 15, "R11", "the leader sends to %d, which is not in the ISR %v, with %d batches", got.Preferred, s.partition(topic).ISR, len(got.Batches))
		s.together()
		s.equal(topic, 15)
		for range 20 {
			if got = ask(4, 0); got.Preferred == 5 || s.failed {
				break
			}
			s.wait(500 * time.Millisecond)
		}
		s.must(got.Preferred == 5, "R11", "the replica is in sync again, and the leader sends to %d", got.Preferred)
	})
}

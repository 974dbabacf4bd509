package scenarios

import (
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/raft"
	"seedlog/scenarios/client"
	"seedlog/sim/simdisk"
)

// voterChanges is invariant I35 for who votes: a leader changes the voters only when something
// of its own epoch is committed, and one at a time.
func voterChanges(r *Run) {
	sh := six(1)
	sh.dynamic = true
	tellCluster(r, sh, func(s *tale) {
		old := s.cluster.controller()
		if !s.must(old != nil, "liveness", "nobody leads the quorum") {
			return
		}
		s.wait(time.Second)
		// Whoever leads next is cut off from the other voters as it begins.
		var leader *server
		s.cluster.onLeader = func(l *server, n raft.Note) {
			if leader == nil && l != old {
				leader = l
				for id := int32(1); id <= 3; id++ {
					if o := s.node(id); o != l {
						s.World.Net.Partition(l.Name, o.Name)
						s.World.Net.Partition(o.Name, l.Name)
					}
				}
			}
		}
		s.kill(old.id)
		s.until("another leads", 20*time.Second, func() bool { return leader != nil })
		if s.failed {
			return
		}
		s.removeVoter(leader, old.id, 100*time.Millisecond)
		s.together()
		s.until("somebody leads and is heard", 30*time.Second, func() bool { c := s.cluster.controller(); return c != nil && c.Up() })
		s.start(old.id)
		s.makes("one", "two", "three", "four", "five", "six", "seven", "eight")
		s.wait(2 * time.Second)
		// Two changes, of which the first cannot be committed.
		if leader = s.cluster.controller(); s.failed || !s.must(leader != nil, "liveness", "nobody leads the quorum") {
			return
		}
		first, second := int32(0), int32(0)
		for id := int32(1); id <= 3; id++ {
			if s.node(id) != leader {
				first, second = second, id
			}
		}
		s.World.Net.Partition(s.node(first).Name, leader.Name)
		s.World.Net.Partition(leader.Name, s.node(first).Name)
		s.World.Net.Partition(s.node(second).Name, leader.Name)
		s.World.Net.Partition(leader.Name, s.node(second).Name)
		s.removeVoter(leader, first, 200*time.Millisecond)
		s.removeVoter(leader, second, 200*time.Millisecond)
		s.leads(func(c *server) bool { return c != leader })
		s.together()
		s.makes("nine", "ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen")
		s.returns(leader)
		s.removesItself()
	})
}

// snapshotVoters is a voter that was away while the others were replaced, and hears of that from a
// snapshot alone: it asks those for their votes who vote now, when nobody but it can be elected.
func snapshotVoters(r *Run) {
	r.Set("metadata.log.max.record.bytes.between.snapshots", "4000")
	sh := six(1)
	sh.dynamic = true
	tellCluster(r, sh, func(s *tale) {
		c := s.leads(func(c *server) bool { return true })
		if s.failed {
			return
		}
		away, first := s.node(s.others(c)[0]), s.others(c)[1]
		s.kill(away.id)
		had := s.cluster.ghost.quorum.Committed()
		s.adds(s.named(4, 5)...)
		s.removes(s.named(first, c.id)...)
		want := s.named(away.id, 4, 5)
		s.votesAre(want...)
		start := func(id int32) int64 {
			return s.node(id).guard.offsets("/data/log-start-offset-checkpoint")[metadataDir]
		}
		for i := 0; i < 200 && min(start(4), start(5)) <= had && !s.failed; i++ {
			s.makesAt(6, fmt.Sprintf("a%d", i), fmt.Sprintf("b%d", i), fmt.Sprintf("c%d", i))
		}
		installed := s.World.Probes()["snapshot-installed-on-voter"]
		s.start(away.id)
		s.until("it installs a snapshot", readyWithin, func() bool { return s.World.Probes()["snapshot-installed-on-voter"] > installed })
		s.kill(first, c.id)
		leader := s.leads(func(now *server) bool { return now.id == 4 || now.id == 5 })
		if s.failed {
			return
		}
		behind := int32(4 + 5 - leader.id)
		s.kill(behind)
		s.makesAt(6, "five", "six")
		s.kill(leader.id)
		s.node(behind).boot()
		s.leads(func(now *server) bool { return now == away })
		s.start(leader.id, first, c.id)
		s.votesAre(want...)
	})
}

// anotherDirectory is KIP-853 for a voter whose disk is replaced: under its id it comes back with a
// directory that nobody named, and has no vote, neither in elections nor for what is committed. It
// is given one with the new directory in place of the old.
func anotherDirectory(r *Run) {
	sh := six(1)
	sh.dynamic = true
	tellCluster(r, sh, func(s *tale) {
		c := s.leads(func(c *server) bool { return true })
		if s.failed {
			return
		}
		away, wiped := s.others(c)[0], s.others(c)[1]
		old := s.named(wiped)
		s.kill(away)
		s.replaceDisk(wiped)
		for i := range 3 {
			code := s.create(4, fmt.Sprintf("t%d", i), 2000)
			s.must(code != 0, "I35", "a topic is made, and of three voters %d alone is there: %d is away, and the disk of %d is new", c.id, away, wiped)
		}
		s.start(away)
		s.makes("one", "two", "three")
		s.removes(old...)
		s.adds(s.named(wiped)...)
		s.kill(away)
		s.makes("four", "five", "six", "seven")
		s.start(away)
	})
}

// replaceDisk ends a node and starts it with a new disk.
func (s *tale) replaceDisk(id int32) {
	n := s.node(id)
	n.end(false)
	n.Disk.Wipe()
	n.Disk.SetCapacity(diskBytes)
	s.cluster.ghost.wiped(n)
	s.failed = s.failed || !s.cluster.format(n) || !n.boot()
}

// returns lets the leaders of the quorum fail until the old one leads again: the voters that it
// wanted, and that were cut off its log, are not those that it asks then.
func (s *tale) returns(old *server) {
	for range 6 {
		c := s.leads(func(c *server) bool { return true })
		if s.failed || c == old {
			return
		}
		s.kill(c.id)
		s.leads(func(now *server) bool { return now != c })
		if s.start(c.id); s.failed {
			return
		}
		s.wait(2 * time.Second)
	}
}

// removesItself: a leader of the quorum that is asked to remove itself does so, and ends with
// the commit of that. Its own log does not count for it: of two others both must have it.
func (s *tale) removesItself() {
	c := s.leads(func(c *server) bool { return true })
	if s.failed {
		return
	}
	others := s.others(c)
	s.apart(others[0], c.id, others[1])
	s.removeVoter(c, c.id, 300*time.Millisecond)
	s.together()
	s.leads(func(now *server) bool { return now != c })
	s.until("it is no voter", 20*time.Second, func() bool {
		s.cluster.ghost.look()
		return !s.cluster.ghost.quorum.Votes(c.id)
	})
	s.makes("seventeen", "eighteen", "nineteen", "twenty")
}

// leads waits for a leader of the quorum that will do.
func (s *tale) leads(will func(c *server) bool) (c *server) {
	s.until("somebody leads the quorum", 30*time.Second, func() bool {
		c = s.cluster.controller()
		return c != nil && c.Up() && will(c)
	})
	return c
}

// makes tries to make a topic by several names, one after the other, until one is made.
func (s *tale) makes(names ...string) { s.makesAt(4, names...) }

func (s *tale) makesAt(id int32, names ...string) {
	code := int16(-1)
	for _, name := range names {
		if code = s.create(id, name, 2000); code == 0 || s.failed {
			return
		}
		s.wait(time.Second)
	}
	s.must(code == 0, "liveness", "no topic can be made: %s", client.CodeName(code))
}

// joiningVoter is a node that is to become a voter and has not caught up with the log, for its disk is
// slow. A majority with it could commit nothing until it has, so it is refused until then.
func joiningVoter(r *Run) {
	sh := six(1)
	sh.dynamic = true
	tellCluster(r, sh, func(s *tale) {
		joiner := s.named(4)[0]
		s.node(4).Disk.HoldFor(simdisk.OpWrite, 10*time.Second, ofMetadata)
		s.makesAt(6, "one")
		s.wait(3 * time.Second)
		code := int16(0)
		s.at(6, "add", func(t *task.T, p *client.Plain) {
			resp, err := p.Call(t, s.addition(joiner))
			if s.ok(err, "add") {
				code = resp.(*kmsg.AddRaftVoterResponse).ErrorCode
			}
		})
		s.cluster.ghost.look()
		s.must(!s.cluster.ghost.quorum.Votes(4), "I35", "node 4 is a voter, and was seconds behind")
		s.code(code, kerr.RequestTimedOut, "a voter that is seconds behind")
		s.node(4).Disk.HoldFor(simdisk.OpWrite, 0, nil)
		s.wait(12 * time.Second)
		s.adds(joiner)
		s.votesAre(s.named(1, 2, 3, 4)...)
	})
}

// ofMetadata are the segments of the metadata log.
func ofMetadata(path string) bool {
	return strings.Contains(path, "/"+metadataDir+"/") && strings.HasSuffix(path, ".log")
}

// slowVoter is a voter whose disk is slow: DescribeQuorum tells when it asked last, and that it had
// everything long before that.
func slowVoter(r *Run) {
	tellCluster(r, six(1), func(s *tale) {
		c := s.leads(func(c *server) bool { return true })
		if s.failed {
			return
		}
		slow := s.node(s.others(c)[0])
		slow.Disk.HoldFor(simdisk.OpSync, 3*time.Second, ofMetadata)
		behind := func(at kmsg.DescribeQuorumResponseTopicPartitionReplicaState) bool {
			return at.LastFetchTimestamp-at.LastCaughtUpTimestamp > 2000
		}
		told := false
		for i := range 20 {
			s.makesAt(4, fmt.Sprintf("t%d", i))
			s.wait(300 * time.Millisecond)
			for _, at := range s.described(c) {
				told = told || at.ReplicaID == slow.id && behind(at)
				s.must(at.ReplicaID == slow.id || !behind(at), "R12", "voter %d is said to be behind: %+v", at.ReplicaID, at)
			}
		}
		s.must(told, "R12", "a voter that has never had everything for seconds is said to have had it at each fetch")
		slow.Disk.HoldFor(simdisk.OpSync, 0, nil)
	})
}

// described is what the leader of the quorum says of its voters.
func (s *tale) described(c *server) (voters []kmsg.DescribeQuorumResponseTopicPartitionReplicaState) {
	s.control("describe", func(ask func(kmsg.Request) kmsg.Response) {
		req := kmsg.NewPtrDescribeQuorumRequest()
		req.Version = 1
		rt := kmsg.NewDescribeQuorumRequestTopic()
		rt.Topic = "__cluster_metadata"
		rt.Partitions = append(rt.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
		req.Topics = append(req.Topics, rt)
		if resp, ok := ask(req).(*kmsg.DescribeQuorumResponse); ok && s.code(resp.ErrorCode, nil, "describe") {
			p := resp.Topics[0].Partitions[0]
			if s.code(p.ErrorCode, nil, "describe") {
				voters = p.CurrentVoters
			}
		}
	})
	return voters
}

// restartedController is KAFKA-10527: a leader of the quorum that restarts at once does not lead
// on in its epoch, of which it may have lost something.
func restartedController(r *Run) {
	tellCluster(r, six(1), func(s *tale) {
		for range 3 {
			c := s.leads(func(c *server) bool { return true })
			if s.failed {
				return
			}
			s.power(c.id)
			s.start(c.id)
		}
		s.makes("one", "two", "three", "four", "five", "six")
	})
}

// removeVoter asks a leader of the quorum to remove a voter, and waits for so long; what it
// answers, and whether it does, depends on how long it leads. If it says that it is done, it is.
func (s *tale) removeVoter(leader *server, id int32, within time.Duration) {
	e, group := s.Env(within)
	done := false
	group.Go("remove a voter", func(t *task.T) {
		req := kmsg.NewPtrRemoveRaftVoterRequest()
		req.VoterID, req.VoterDirectoryID = id, directoryID(id)
		p := client.OpenAt(t, &e, leader.Name+":9093")
		resp, err := p.Call(t, req)
		s.Rec.Note(0, "node %d asked to remove voter %d: %v", leader.id, id, err)
		if err == nil && resp.(*kmsg.RemoveRaftVoterResponse).ErrorCode == 0 {
			s.cluster.ghost.voted(id, directoryID(id), false)
		}
		p.Close()
		done = true
	})
	s.World.Run(func() bool { return done || s.over() }, 2*within)
}

// syncedFollowers is SPEC R4 with flush.messages=1: what a follower has not synced does not
// count for anybody.
func syncedFollowers(r *Run) {
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("synced", []int32{4, 5, 6}, [2]string{"flush.messages", "1"}, [2]string{"min.insync.replicas", "2"})
		s.produce(4, topic, -1, 8, nil)
		s.power(5, 6)
		s.kill(4)
		s.start(4, 5, 6)
		s.equal(topic, 8)
	})
}

// laggingLeader is invariant I6 for a follower that consumers read from: a new leader knows less
// of what is committed than it does, and takes nothing of that back.
func laggingLeader(r *Run) {
	r.Set("replica.lag.time.max.ms", "60000")
	r.Set("leader.replication.throttled.rate", "0")
	r.Set("replica.selector.class", "org.apache.kafka.common.replica.RackAwareReplicaSelector")
	sh := six(1)
	sh.nodes = 7
	tellCluster(r, sh, func(s *tale) {
		topic := s.replicated("lagging", []int32{4, 5, 6, 7})
		s.produce(4, topic, -1, 10, nil)
		// Node 5 gets the last one and does not hear that it is committed.
		s.World.Net.Partition(s.node(7).Name, s.node(4).Name)
		s.wait(time.Second)
		a := s.ask(4, topic)
		s.until("node 5 has it", 10*time.Second, func() bool { e := s.ends(topic); return e[5] == 11 && e[6] == 11 })
		s.wait(time.Second)
		s.apart(5, 4, 7)
		s.again(4, 7)
		s.World.Run(func() bool { return a.done || s.over() }, 10*time.Second)
		s.must(a.done && a.code == 0, "liveness", "the record is not committed")
		s.reaches(6, topic, 11)
		s.kill(4)
		s.led(topic, 5)
		for range 4 {
			s.highWatermark(6, topic, 0)
			s.wait(500 * time.Millisecond)
		}
		s.together()
		s.start(4)
		s.equal(topic, 11)
		s.reaches(6, topic, 11)
	})
}

// lostMark is invariant I5 after a lawful loss: the high watermark that was stored before it says
// nothing of what is appended since, to whoever starts again before another one is stored.
func lostMark(r *Run) {
	markedLog(r, func(s *tale, topic *client.Topic) (leader, follower int32) {
		s.kill(5)
		s.isr(topic, 1)
		s.produce(4, topic, 1, 40, nil)
		s.wait(25 * time.Second) // its high watermark is stored
		s.power(4)
		s.start(4)
		s.led(topic, 4)
		s.start(5)
		return 4, 5
	})
}

// cutMark is the same of who did not lose it, and is cut to what the next leader has.
func cutMark(r *Run) {
	markedLog(r, func(s *tale, topic *client.Topic) (leader, follower int32) {
		s.produce(4, topic, -1, 40, nil)
		s.wait(25 * time.Second)
		s.kill(5)
		s.isr(topic, 1)
		s.power(4)
		s.start(4)
		s.led(topic, 4)
		s.start(5) // it is cut
		s.isr(topic, 2)
		s.kill(4)
		s.led(topic, 5)
		s.start(4)
		return 5, 4
	})
}

// markedLog has one replica's stored high watermark be above the end of its log, and that replica
// lead and append what the other one does not get. When it is back it must not hand that out.
func markedLog(r *Run, lose func(s *tale, topic *client.Topic) (leader, follower int32)) {
	r.Set("replica.lag.time.max.ms", "60000")
	r.Set("replica.high.watermark.checkpoint.interval.ms", "20000")
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("marked", []int32{4, 5})
		s.produce(4, topic, -1, 2, nil)
		leader, follower := lose(s, topic)
		s.isr(topic, 2)
		left, _ := s.highWatermark(leader, topic, 0)
		s.apart(follower, leader)
		s.produce(leader, topic, 1, 5, nil)
		s.kill(leader)
		s.led(topic, follower)
		s.start(leader)
		hw, records := s.highWatermark(leader, topic, left)
		s.must(hw <= left && records == 0, "I5", "node %d hands out %d records from %d on and says that %d are committed: nobody else has them", leader, records, left, hw)
		s.together()
		s.isr(topic, 2)
	})
}

// olderLeader is invariant I1 for what is under way: an answer that an older leader gives to
// who follows another by then is not copied.
func olderLeader(r *Run) {
	r.Set("replica.fetch.wait.max.ms", "10000")
	r.Set("replica.lag.time.max.ms", "60000")
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("older", []int32{4, 5, 6})
		s.produce(4, topic, -1, 10, nil)
		s.wait(time.Second)
		s.apart(4, 1, 2, 3) // and it goes on to answer nodes 5 and 6
		s.led(topic, 5)
		s.wait(time.Second)
		s.produce(4, topic, 1, 3, nil)
		s.wait(time.Second)
		s.produce(5, topic, -1, 2, nil)
		s.together()
		s.equal(topic, 12)
	})
}

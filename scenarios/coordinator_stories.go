package scenarios

import (
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/scenarios/client"
	"seedlog/sim/simdisk"
)

// ofOffsets are the segments of the topic of the groups.
func ofOffsets(path string) bool {
	return strings.Contains(path, "/"+offsetsTopic+"-") && strings.HasSuffix(path, ".log")
}

// deletedWhileLoading is a topic that is deleted while the coordinator loads, which takes long:
// what was committed for it goes, too.
func deletedWhileLoading(r *Run) {
	r.Set("offsets.topic.num.partitions", "1")
	tell(r, func(s *story) {
		s.topic("t", 1)
		s.client("commit", func(t *task.T, p *client.Plain) {
			if s.findCoordinator(t, p) {
				s.code(s.commitOffset(t, p, "", -1, 5), nil, "commit")
			}
		})
		if s.failed || !s.stop() {
			return
		}
		s.Broker.Disk.HoldFor(simdisk.OpRead, 5*time.Second, ofOffsets)
		if !s.boot() {
			return
		}
		s.client("delete", func(t *task.T, p *client.Plain) {
			code, err := p.Delete(t, "t")
			if !s.ok(err, "delete") || !s.code(code, nil, "delete") {
				return
			}
			t.Sleep(t.Now().Add(100 * time.Millisecond))
			resp, err := p.Call(t, s.offsetFetch())
			if s.ok(err, "OffsetFetch") {
				got := resp.(*kmsg.OffsetFetchResponse).ErrorCode
				s.must(got == kerr.CoordinatorLoadInProgress.Code, "scenario", "the coordinator answers %s, and was to load still", client.CodeName(got))
			}
		})
		s.Broker.Disk.HoldFor(simdisk.OpRead, 0, nil)
		s.topic("t", 1)
		s.wait(10 * time.Second)
		s.client("read", func(t *task.T, p *client.Plain) {
			got, code := s.readOffset(t, p)
			s.must(code == 0 && got == -1, "I28", "the offset is %d (%s) in a new topic of the same name", got, client.CodeName(code))
		})
	})
}

// overtakenCoordinator is a coordinator that waits for its disk, with more to write, when its broker
// leads on in the next epoch, in which another coordinator has loaded what there is. That one is not
// told of anything, so nothing may be written but by it.
func overtakenCoordinator(r *Run) {
	r.Set("offsets.topic.num.partitions", "1")
	tellCluster(r, six(1), func(s *tale) {
		offsets := s.replicated(offsetsTopic, []int32{4, 5, 6}, [2]string{"flush.messages", "2"})
		s.replicated("t", []int32{1})
		s.replicated("v", []int32{1})
		s.failed = s.failed || !s.CreateTopic(&client.Topic{Name: "u", Partitions: 3, Replication: 1, Assignment: [][]int32{{1}, {1}, {1}}}, nil)
		commit := func(what string, done *bool, topic string, partitions ...int32) {
			e, group := s.Env(time.Minute)
			group.Go(what, func(t *task.T) {
				p := client.OpenAt(t, &e, s.node(4).Addr())
				code := s.commitOf(t, p, 9, topic, partitions...)
				s.Rec.Note(0, "%s is answered with %s", what, client.CodeName(code))
				*done = true
				p.Close()
			})
		}
		s.at(4, "commit", func(t *task.T, p *client.Plain) {
			if s.findCoordinator(t, p) {
				settled(t, func() int16 { return s.commitOf(t, p, 5, "t", 0) })
				s.code(s.commitOf(t, p, 5, "v", 0), nil, "commit")
			}
		})
		s.wait(time.Second)
		var first, second bool
		s.node(4).Disk.HoldFor(simdisk.OpSync, 4*time.Second, ofOffsets)
		commit("the first commit", &first, "u", 0, 1, 2)
		s.wait(time.Second)
		s.at(1, "delete", func(t *task.T, p *client.Plain) {
			for _, name := range []string{"u", "v"} { // of the second it writes when that of the first is synced
				code, err := p.Delete(t, name)
				if s.ok(err, "delete") {
					s.code(code, nil, "delete")
				}
			}
		})
		commit("the second commit", &second, "t", 0)
		had := s.ends(offsets)[4]
		s.until("the deletion is written", 20*time.Second, func() bool { return s.ends(offsets)[4] > had })
		epoch := s.partition(offsets).LeaderEpoch
		s.assignAt(1, offsets, []int32{4, 5}, nil)
		s.until("the next epoch", 10*time.Second, func() bool {
			p := s.partition(offsets)
			return p.LeaderEpoch > epoch && p.Leader == 4 && slices.Equal(p.Replicas, []int32{4, 5})
		})
		s.wait(time.Second) // the broker is to hear of it
		end := int64(0)
		s.at(4, "read", func(t *task.T, p *client.Plain) {
			got, code := s.readOffset(t, p)
			s.must(code == 0 && got == 5, "I27", "the offset is said to be %d (%s), and 5 was committed", got, client.CodeName(code))
			end = s.ends(offsets)[4]
		})
		s.must(!second, "scenario", "the second commit is answered before the next coordinator has loaded")
		s.until("the second commit is answered", 30*time.Second, func() bool { return second })
		s.wait(5 * time.Second)
		ends := s.ends(offsets)
		s.must(ends[4] == end, "I27", "a coordinator had loaded the log up to %d, and one of an earlier epoch has written up to %d", end, ends[4])
		s.node(4).Disk.HoldFor(simdisk.OpSync, 0, nil)
	})
}

// lateTombstone is a topic that is deleted and made again while its coordinator can write nothing:
// who asks for the offset by the new topic's id is not told that of the old one.
func lateTombstone(r *Run) {
	r.Set("offsets.topic.num.partitions", "1")
	r.Set("replica.lag.time.max.ms", "1000")
	tellCluster(r, six(1), func(s *tale) {
		offsets := s.replicated(offsetsTopic, []int32{4, 5}, [2]string{"min.insync.replicas", "2"})
		old := s.replicated("t", []int32{1})
		s.at(4, "commit", func(t *task.T, p *client.Plain) {
			if !s.findCoordinator(t, p) {
				return
			}
			req := kmsg.NewPtrOffsetCommitRequest()
			req.Version, req.Group, req.Generation = 10, "g", -1
			part := kmsg.NewOffsetCommitRequestTopicPartition()
			part.Offset = 5
			rt := kmsg.NewOffsetCommitRequestTopic()
			rt.TopicID, rt.Partitions = old.ID, append(rt.Partitions, part)
			req.Topics = append(req.Topics, rt)
			code := func(r kmsg.Response) int16 { return r.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode }
			if resp := s.call(t, p, req, code); resp != nil {
				s.code(code(resp), nil, "commit")
			}
		})
		s.kill(5)
		s.isr(offsets, 1)
		s.at(1, "delete", func(t *task.T, p *client.Plain) {
			code, err := p.Delete(t, "t")
			if s.ok(err, "delete") {
				s.code(code, nil, "delete")
			}
		})
		again := s.replicated("t", []int32{1})
		s.at(4, "read by name", func(t *task.T, p *client.Plain) {
			got, code := s.readOffset(t, p)
			s.must(code == 0 && got == 5, "scenario", "the offset is %d (%s), and its tombstone was not to be written yet", got, client.CodeName(code))
		})
		s.at(4, "read by id", func(t *task.T, p *client.Plain) {
			req := kmsg.NewPtrOffsetFetchRequest()
			req.Version = 10
			rt := kmsg.NewOffsetFetchRequestGroupTopic()
			rt.TopicID, rt.Partitions = again.ID, []int32{0}
			g := kmsg.NewOffsetFetchRequestGroup()
			g.Group, g.Topics = "g", append(g.Topics, rt)
			req.Groups = append(req.Groups, g)
			resp, err := p.Call(t, req)
			if !s.ok(err, "OffsetFetch") {
				return
			}
			got := resp.(*kmsg.OffsetFetchResponse).Groups[0]
			if s.code(got.ErrorCode, nil, "OffsetFetch") {
				o := got.Topics[0].Partitions[0]
				s.must(o.ErrorCode == 0 && o.Offset == -1, "I28", "the offset is %d (%s) in a new topic of the same name", o.Offset, client.CodeName(o.ErrorCode))
			}
		})
		s.start(5)
		s.isr(offsets, 2)
	})
}

// endedCoordinator is a coordinator whose broker leads on in the next epoch: who waits for other
// members there is sent to the next one at once, and so is who is queued behind an append that
// waits for the disk.
func endedCoordinator(r *Run) {
	r.Set("offsets.topic.num.partitions", "1")
	r.Set("group.initial.rebalance.delay.ms", "0")
	tellCluster(r, six(1), func(s *tale) {
		offsets := s.replicated(offsetsTopic, []int32{4, 5, 6}, [2]string{"flush.messages", "2"})
		s.replicated("t", []int32{1})
		s.failed = s.failed || !s.CreateTopic(&client.Topic{Name: "u", Partitions: 3, Replication: 1, Assignment: [][]int32{{1}, {1}, {1}}}, nil)
		answered := 0
		ask := func(what string, fn func(t *task.T, p *client.Plain) int16) {
			e, group := s.Env(time.Minute)
			e.RequestTimeout = 50 * time.Second
			group.Go(what, func(t *task.T) {
				p := client.OpenAt(t, &e, s.node(4).Addr())
				s.Rec.Note(0, "%s is answered with %s", what, client.CodeName(fn(t, p)))
				answered++
				p.Close()
			})
		}
		nextEpoch := func(replicas ...int32) {
			epoch := s.partition(offsets).LeaderEpoch
			s.assignAt(1, offsets, replicas, nil)
			s.until("the next epoch", 10*time.Second, func() bool {
				p := s.partition(offsets)
				return p.LeaderEpoch > epoch && p.Leader == 4 && slices.Equal(p.Replicas, replicas)
			})
		}
		s.at(4, "join", func(t *task.T, p *client.Plain) {
			if s.findCoordinator(t, p) {
				s.join(t, p, "", time.Minute)
			}
		})
		ask("who joins, too,", func(t *task.T, p *client.Plain) int16 {
			resp, err := p.Call(t, joinRequest(time.Minute, time.Minute))
			if !s.ok(err, "join") {
				return -1
			}
			return resp.(*kmsg.JoinGroupResponse).ErrorCode
		})
		s.wait(time.Second)
		s.must(answered == 0, "scenario", "nobody waits for the first member")
		nextEpoch(4, 5)
		s.until("who waits for a member is answered", 5*time.Second, func() bool { return answered == 1 })
		s.at(4, "wait for the coordinator", func(t *task.T, p *client.Plain) { s.readOffset(t, p) })
		s.node(4).Disk.HoldFor(simdisk.OpSync, 8*time.Second, ofOffsets)
		commit := func(topic string, partitions ...int32) {
			ask("a commit", func(t *task.T, p *client.Plain) int16 { return s.commitIn(t, p, "of its own", 5, topic, partitions...) })
			s.wait(500 * time.Millisecond)
		}
		commit("u", 0, 1, 2)
		commit("t", 0)
		commit("t", 0)
		s.must(answered == 1, "scenario", "no commit waits for the disk")
		nextEpoch(4)
		s.until("who is queued is answered", 15*time.Second, func() bool { return answered == 4 })
		s.node(4).Disk.HoldFor(simdisk.OpSync, 0, nil)
	})
}

// coordinatorsDisk is a coordinator whose disk fails as it writes that the offsets of a deleted topic
// are gone: who is queued behind that is told, and the broker can still be stopped.
func coordinatorsDisk(r *Run) {
	r.Set("log.dirs", strings.Join(twoDirs, ","))
	r.Set("offsets.topic.num.partitions", "1")
	tell(r, func(s *story) {
		s.topic("t", 1)
		s.topic("u", 2) // the next partition goes to the other directory than that of the metadata
		s.client("find", func(t *task.T, p *client.Plain) {
			if s.findCoordinator(t, p) {
				s.readOffset(t, p)
			}
		})
		dir, _, _ := s.server(s.Broker).place(offsetsTopic + "-0")
		s.must(dir == twoDirs[1], "scenario", "the coordinator's log is in %q", dir)
		s.Broker.Disk.HoldFor(simdisk.OpWrite, 4*time.Second, ofOffsets)
		var codes []int16
		commit := func(topic string, partitions ...int32) {
			e, group := s.Env(time.Minute)
			e.RequestTimeout = 50 * time.Second
			group.Go("commit", func(t *task.T) {
				p := client.Open(t, &e)
				codes = append(codes, s.commitOf(t, p, 5, topic, partitions...))
				p.Close()
			})
			s.wait(500 * time.Millisecond)
		}
		commit("u", 0, 1)
		s.client("delete", func(t *task.T, p *client.Plain) {
			code, err := p.Delete(t, "u")
			if s.ok(err, "delete") {
				s.code(code, nil, "delete")
			}
		})
		commit("t", 0)
		commit("t", 0)
		before := 1 // writes: that of the first commit, unless the disk has it and only has yet to say so
		s.Broker.Disk.Walk(func(path string, size int64) {
			if ofOffsets(path) && size > 0 {
				before = 0
			}
		})
		in := s.Broker.Disk.Arm(&simdisk.Injection{Fault: simdisk.WriteError, Match: ofOffsets, Skip: before})
		s.must(len(codes) == 0, "scenario", "no commit waits for the disk")
		s.wait(8 * time.Second)
		s.must(in.Fired && len(codes) == 3, "liveness", "of three commits %d are answered when the disk has failed", len(codes))
		s.Broker.Disk.HoldFor(simdisk.OpWrite, 0, nil)
		s.stop()
	})
}

// longTexts: no string is so long that it harms a coordinator. What fits into no record is
// refused; an id that begins with a long name fits, and what is kept of a group with a long
// id can be written away.
func longTexts(r *Run) {
	r.Set("offsets.topic.num.partitions", "1")
	r.Set("group.initial.rebalance.delay.ms", "0")
	const most = 1<<15 - 1
	tell(r, func(s *story) {
		s.topic("t", 40)
		s.client("join a group whose id fits into no record", func(t *task.T, p *client.Plain) {
			req := joinRequest(10*time.Second, 10*time.Second)
			req.Version, req.Group = 6, strings.Repeat("g", most+1)
			_, err := p.Call(t, req)
			s.must(err != nil, "codes", "a group id of %d bytes is taken", most+1)
		})
		s.client("join as a client with a long name", func(t *task.T, p *client.Plain) {
			if !s.findCoordinator(t, p) {
				return
			}
			e := *p.Env
			e.Name = strings.Repeat("c", most)
			q := client.Open(t, &e)
			defer q.Close()
			req := joinRequest(10*time.Second, 10*time.Second)
			req.Version = 5
			resp := s.call(t, q, req, func(r kmsg.Response) int16 { return r.(*kmsg.JoinGroupResponse).ErrorCode })
			if resp == nil || !s.code(resp.(*kmsg.JoinGroupResponse).ErrorCode, kerr.MemberIDRequired, "join") {
				return
			}
			if member, generation, ok := s.join(t, q, resp.(*kmsg.JoinGroupResponse).MemberID, 10*time.Second); ok {
				s.code(s.commitOffset(t, q, member, generation, 5), nil, "commit")
			}
		})
		id := strings.Repeat("g", most)
		s.client("commit much in a group with a long id", func(t *task.T, p *client.Plain) {
			for from := int32(0); from < 40; from += 20 {
				var partitions []int32
				for i := range int32(20) {
					partitions = append(partitions, from+i)
				}
				s.code(s.commitIn(t, p, id, 5, "t", partitions...), nil, "commit")
			}
			code, err := p.Delete(t, "t")
			if s.ok(err, "delete") {
				s.code(code, nil, "delete")
			}
		})
		s.wait(5 * time.Second)
		s.topic("t", 40)
		s.client("read", func(t *task.T, p *client.Plain) {
			req := s.offsetFetch()
			req.Group = id
			if resp, err := p.Call(t, req); s.ok(err, "OffsetFetch") {
				got := resp.(*kmsg.OffsetFetchResponse).Topics[0].Partitions[0].Offset
				s.must(got == -1, "I28", "the offset is %d in a new topic of the same name", got)
			}
		})
	})
}

// commitOf commits an offset of each of the partitions.
func (s *story) commitOf(t *task.T, p *client.Plain, offset int64, topic string, partitions ...int32) int16 {
	return s.commitIn(t, p, "g", offset, topic, partitions...)
}

func (s *story) commitIn(t *task.T, p *client.Plain, group string, offset int64, topic string, partitions ...int32) int16 {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = 7, group, -1
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic = topic
	for _, index := range partitions {
		part := kmsg.NewOffsetCommitRequestTopicPartition()
		part.Partition, part.Offset, part.LeaderEpoch = index, offset, -1
		rt.Partitions = append(rt.Partitions, part)
	}
	req.Topics = append(req.Topics, rt)
	resp, err := p.Call(t, req)
	if !s.ok(err, "commit") {
		return -1
	}
	return resp.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
}

package scenarios

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/scenarios/client"
)

// joinAlone makes a generation of one member, which gets no assignment yet.
func (s *story) joinAlone(t *task.T, p *client.Plain, session, rebalance time.Duration) *kmsg.JoinGroupResponse {
	resp := s.call(t, p, joinRequest(session, rebalance), func(r kmsg.Response) int16 { return r.(*kmsg.JoinGroupResponse).ErrorCode })
	if resp == nil || !s.code(resp.(*kmsg.JoinGroupResponse).ErrorCode, nil, "join") {
		return nil
	}
	return resp.(*kmsg.JoinGroupResponse)
}

// joinRequest is of a member without an id.
func joinRequest(session, rebalance time.Duration) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.ProtocolType = 3, "g", "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = int32(session.Milliseconds()), int32(rebalance.Milliseconds())
	proto := kmsg.NewJoinGroupRequestProtocol()
	proto.Name = "all"
	req.Protocols = append(req.Protocols, proto)
	return req
}

// unassignedMember: a generation without an assignment is no stable one, in half of the runs for a
// broker that loads it: nobody commits in it, and a member that lives and never asks for its share is put out
// when the time of the rebalance is up.
func unassignedMember(r *Run) {
	r.Set("group.initial.rebalance.delay.ms", "0")
	tell(r, func(s *story) {
		s.topic("t", 1)
		const session, rebalance = 30 * time.Second, 6 * time.Second
		var j *kmsg.JoinGroupResponse
		s.client("join", func(t *task.T, p *client.Plain) {
			if !s.findCoordinator(t, p) {
				return
			}
			if j = s.joinAlone(t, p, session, rebalance); j != nil {
				s.code(s.commitOffset(t, p, j.MemberID, j.Generation, 5), kerr.RebalanceInProgress, "commit before there is an assignment")
				s.state(t, p, "CompletingRebalance", "before there is an assignment")
			}
		})
		if s.failed || j == nil || s.Rand("restart").IntN(2) == 0 && !s.crash(false) {
			return
		}
		s.client("live on", func(t *task.T, p *client.Plain) {
			if !s.findCoordinator(t, p) || s.committed(t, p) != -1 {
				return
			}
			s.state(t, p, "CompletingRebalance", "still before there is an assignment")
			code := int16(0)
			for range 8 {
				if code = s.heartbeat(t, p, j.MemberID, nil, j.Generation); code != 0 || s.failed {
					break
				}
				t.Sleep(t.Now().Add(time.Second))
			}
			s.must(code == kerr.UnknownMemberID.Code, "liveness", "a member that never asks for its share is in the group 8 s after a rebalance with a time-out of %v: %s", rebalance, client.CodeName(code))
			s.state(t, p, "Empty", "without its only member")
		})
	})
}

// abandonedSync: whoever waits for its share is told at once when there will be none, for the
// leader of the generation has left.
func abandonedSync(r *Run) {
	r.Set("group.initial.rebalance.delay.ms", "500")
	tell(r, func(s *story) {
		s.topic("t", 1)
		s.client("make the coordinator", func(t *task.T, p *client.Plain) { s.findCoordinator(t, p) })
		const patience = 30 * time.Second
		members, answered := 0, false
		s.client("join in twos", func(t *task.T, p *client.Plain) {
			for range 2 {
				t.Go("member", func(t *task.T) {
					q := client.Open(t, p.Env)
					defer q.Close()
					j := s.joinAlone(t, q, patience, patience)
					members++
					if j == nil {
						return
					}
					if j.LeaderID == j.MemberID {
						t.Sleep(t.Now().Add(time.Second))
						s.leave(t, q, j.MemberID)
						return
					}
					sync := kmsg.NewPtrSyncGroupRequest()
					sync.Version, sync.Group, sync.MemberID, sync.Generation = 2, "g", j.MemberID, j.Generation
					resp, err := q.Call(t, sync)
					if s.ok(err, "sync") {
						s.code(resp.(*kmsg.SyncGroupResponse).ErrorCode, kerr.RebalanceInProgress, "sync without a leader")
						answered = true
					}
				})
			}
			t.Sleep(t.Now().Add(3 * time.Second))
			s.must(members == 2, "scenario", "%d members have joined", members)
			s.must(answered, "I30", "who waits for its share waits 1.5 s after the leader has left")
		})
	})
}

// uncommittedOffset is invariant I27 for a coordinator that has taken over: what it loaded and is
// not committed yet is told to nobody.
func uncommittedOffset(r *Run) {
	r.Set("replica.lag.time.max.ms", "60000")
	r.Set("offsets.topic.num.partitions", "1")
	tellCluster(r, six(1), func(s *tale) {
		offsets := s.replicated(offsetsTopic, []int32{4, 5, 6})
		s.replicated("t", []int32{1})
		commit := func(offset int64) (code int16) {
			s.at(4, "commit", func(t *task.T, p *client.Plain) {
				if s.findCoordinator(t, p) {
					settled(t, func() int16 {
						code = s.commitOffset(t, p, "", -1, offset)
						return code
					})
				}
			})
			return code
		}
		s.code(commit(5), nil, "commit")
		s.wait(time.Second)
		s.apart(6, 4, 5)
		had := s.ends(offsets)[5]
		s.must(commit(9) != 0, "I27", "a commit is acknowledged, and the replicas end at %v", s.ends(offsets))
		s.must(s.ends(offsets)[5] > had && s.ends(offsets)[6] == had, "scenario", "the replicas end at %v, and %d is committed", s.ends(offsets), had)
		s.kill(4)
		s.led(offsets, 5)
		s.at(5, "read", func(t *task.T, p *client.Plain) {
			got, code := s.readOffset(t, p)
			ends := s.ends(offsets)
			s.must(code != 0 || got == 5, "I27", "the offset is said to be %d (%s), and the replicas end at %v", got, client.CodeName(code), ends)
		})
		s.together()
		s.start(4)
		s.until("all is committed", time.Minute, func() bool { return s.settledOn(offsets) })
		s.at(5, "read", func(t *task.T, p *client.Plain) {
			got := s.committed(t, p)
			s.must(got == 9, "I27", "the offset is %d, and 9 was committed", got)
		})
	})
}

// recreatedOffsets is invariant I32 for coordinators: the topic of the groups is deleted and made
// again while a broker that leads it hears nothing of the metadata, and then of both at once. It
// coordinates what is in the new one, which is nothing.
func recreatedOffsets(r *Run) {
	r.Set("broker.session.timeout.ms", "60000")
	r.Set("offsets.topic.num.partitions", "1")
	tellCluster(r, six(1), func(s *tale) {
		offsets := s.replicated(offsetsTopic, []int32{4, 5})
		s.replicated("t", []int32{1})
		commit := func(offset int64) {
			s.at(4, "commit", func(t *task.T, p *client.Plain) {
				if s.findCoordinator(t, p) {
					code := int16(0)
					for range 100 {
						code = s.commitOffset(t, p, "", -1, offset)
						if code != kerr.NotCoordinator.Code && code != kerr.UnknownTopicOrPartition.Code { // of which it has yet to hear
							break
						}
						t.Sleep(t.Now().Add(100 * time.Millisecond))
					}
					s.code(code, nil, "commit")
				}
			})
		}
		commit(5)
		s.apart(4, 1, 2, 3)
		s.at(5, "delete", func(t *task.T, p *client.Plain) {
			code, err := p.Delete(t, offsetsTopic)
			if s.ok(err, "delete") {
				s.code(code, nil, "delete")
			}
		})
		again := &client.Topic{Name: offsetsTopic, Partitions: 1, Replication: 2, Assignment: offsets.Assignment}
		s.failed = s.failed || !s.CreateTopic(again, nil)
		s.together()
		s.isr(again, 2)
		s.at(4, "read", func(t *task.T, p *client.Plain) {
			got, code := s.readOffset(t, p)
			for i := 0; i < 100 && got != -1 && !s.failed; i++ { // it has yet to hear of that
				t.Sleep(t.Now().Add(100 * time.Millisecond))
				got, code = s.readOffset(t, p)
			}
			s.must(code == 0, "liveness", "nobody coordinates by a topic that was made again: %s", client.CodeName(code))
			s.must(got == -1, "I32", "the offset is said to be %d, by a topic that was made again", got)
		})
		commit(9)
		s.at(4, "read", func(t *task.T, p *client.Plain) {
			got := s.committed(t, p)
			s.must(got == 9, "I28", "the offset is %d, and 9 was committed", got)
		})
	})
}

// offsetFetch asks for the offset of "t".
func (s *story) offsetFetch() *kmsg.OffsetFetchRequest {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group = 5, "g"
	rt := kmsg.NewOffsetFetchRequestTopic()
	rt.Topic, rt.Partitions = "t", []int32{0}
	req.Topics = append(req.Topics, rt)
	return req
}

// readOffset asks a coordinator, again while it loads, and returns what it says of its own then.
func (s *story) readOffset(t *task.T, p *client.Plain) (offset int64, code int16) {
	for range 100 {
		resp, err := p.Call(t, s.offsetFetch())
		if !s.ok(err, "OffsetFetch") {
			return -1, -1
		}
		r := resp.(*kmsg.OffsetFetchResponse)
		switch kerr.ErrorForCode(r.ErrorCode) {
		case nil:
			return r.Topics[0].Partitions[0].Offset, r.Topics[0].Partitions[0].ErrorCode
		case kerr.CoordinatorLoadInProgress, kerr.NotCoordinator:
			t.Sleep(t.Now().Add(100 * time.Millisecond))
		default:
			return -1, r.ErrorCode
		}
	}
	return -1, kerr.NotCoordinator.Code
}

// settledOn reports whether all replicas of a topic are in sync and equal.
func (s *tale) settledOn(topic *client.Topic) bool {
	p := s.partition(topic)
	return len(p.ISR) == len(p.Replicas) && s.cluster.ghost.replicas.Differ(p) == ""
}

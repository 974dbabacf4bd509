package scenarios

import (
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/scenarios/client"
	"seedlog/sim/simdisk"
)

// call asks the group coordinator, again while it is being made or loads.
func (s *story) call(t *task.T, p *client.Plain, req kmsg.Request, code func(kmsg.Response) int16) kmsg.Response {
	for range 100 {
		resp, err := p.Call(t, req)
		if !s.ok(err, kmsg.NameForKey(req.Key())) {
			return nil
		}
		switch kerr.ErrorForCode(code(resp)) {
		case kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, kerr.NotCoordinator:
			t.Sleep(t.Now().Add(100 * time.Millisecond))
		default:
			return resp
		}
	}
	s.must(false, "liveness", "no group coordinator")
	return nil
}

// findCoordinator has the offsets topic made.
func (s *story) findCoordinator(t *task.T, p *client.Plain) bool {
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.Version, find.CoordinatorKey = 3, "g"
	return s.call(t, p, find, func(r kmsg.Response) int16 { return r.(*kmsg.FindCoordinatorResponse).ErrorCode }) != nil
}

// join makes a generation of one member, which hands everything to itself.
func (s *story) join(t *task.T, p *client.Plain, member string, session time.Duration) (id string, generation int32, ok bool) {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID, req.ProtocolType = 3, "g", member, "consumer"
	req.SessionTimeoutMillis = int32(session.Milliseconds())
	req.RebalanceTimeoutMillis = req.SessionTimeoutMillis
	proto := kmsg.NewJoinGroupRequestProtocol()
	proto.Name = "all"
	req.Protocols = append(req.Protocols, proto)
	resp := s.call(t, p, req, func(r kmsg.Response) int16 { return r.(*kmsg.JoinGroupResponse).ErrorCode })
	if resp == nil {
		return "", 0, false
	}
	joined := resp.(*kmsg.JoinGroupResponse)
	if !s.code(joined.ErrorCode, nil, "join") {
		return "", 0, false
	}
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Version, sync.Group, sync.MemberID, sync.Generation = 2, "g", joined.MemberID, joined.Generation
	share := kmsg.NewSyncGroupRequestGroupAssignment()
	share.MemberID, share.MemberAssignment = joined.MemberID, []byte("everything")
	sync.GroupAssignment = append(sync.GroupAssignment, share)
	answer := s.call(t, p, sync, func(r kmsg.Response) int16 { return r.(*kmsg.SyncGroupResponse).ErrorCode })
	if answer == nil || !s.code(answer.(*kmsg.SyncGroupResponse).ErrorCode, nil, "sync") {
		return "", 0, false
	}
	return joined.MemberID, joined.Generation, true
}

func (s *story) commitOffset(t *task.T, p *client.Plain, member string, generation int32, offset int64) int16 {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.MemberID, req.Generation = 7, "g", member, generation
	part := kmsg.NewOffsetCommitRequestTopicPartition()
	part.Offset, part.LeaderEpoch = offset, -1
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic = "t"
	rt.Partitions = append(rt.Partitions, part)
	req.Topics = append(req.Topics, rt)
	resp, err := p.Call(t, req)
	if !s.ok(err, "commit") {
		return -1
	}
	return resp.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
}

func (s *story) committed(t *task.T, p *client.Plain) int64 {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group = 5, "g"
	rt := kmsg.NewOffsetFetchRequestTopic()
	rt.Topic, rt.Partitions = "t", []int32{0}
	req.Topics = append(req.Topics, rt)
	resp := s.call(t, p, req, func(r kmsg.Response) int16 { return r.(*kmsg.OffsetFetchResponse).ErrorCode })
	if resp == nil {
		return -2
	}
	return resp.(*kmsg.OffsetFetchResponse).Topics[0].Partitions[0].Offset
}

// silentMember: who says nothing for longer than its session is put out of the group, and
// the group is empty.
func silentMember(r *Run) {
	r.Set("group.min.session.timeout.ms", "100")
	tell(r, func(s *story) {
		s.topic("t", 1)
		s.client("join, and say nothing", func(t *task.T, p *client.Plain) {
			if !s.findCoordinator(t, p) {
				return
			}
			if _, _, ok := s.join(t, p, "", time.Second); !ok {
				return
			}
			s.state(t, p, "Stable", "after the join")
			t.Sleep(t.Now().Add(1500 * time.Millisecond))
			s.state(t, p, "Empty", "half a session after the session of its only member")
		})
	})
}

func (s *story) state(t *task.T, p *client.Plain, want, when string) {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Version, req.Groups = 3, []string{"g"}
	resp, err := p.Call(t, req)
	if s.ok(err, "describe") {
		got := resp.(*kmsg.DescribeGroupsResponse).Groups[0].State
		s.must(got == want, "liveness", "the group is %s %s, not %s", got, when, want)
	}
}

// staleMember: commits are fenced by generation and member.
func staleMember(r *Run) {
	r.Set("group.min.session.timeout.ms", "100")
	tell(r, func(s *story) {
		s.topic("t", 1)
		s.client("commit in old generations", func(t *task.T, p *client.Plain) {
			if !s.findCoordinator(t, p) {
				return
			}
			member, first, ok := s.join(t, p, "", 10*time.Second)
			if !ok {
				return
			}
			s.code(s.commitOffset(t, p, member, first, 5), nil, "commit in the first generation")
			_, second, ok := s.join(t, p, member, 10*time.Second)
			if !ok || !s.must(second > first, "I26", "generation %d follows generation %d", second, first) {
				return
			}
			s.must(s.commitOffset(t, p, member, first, 6) == kerr.IllegalGeneration.Code, "I28", "a commit of generation %d was taken in generation %d", first, second)
			s.must(s.commitOffset(t, p, "nobody", second, 7) == kerr.UnknownMemberID.Code, "I28", "a commit of a member that is none was taken")
			s.must(s.commitOffset(t, p, "", -1, 8) != 0, "I28", "a commit from outside was taken by a group with members")
			s.code(s.heartbeat(t, p, member, nil, first), kerr.IllegalGeneration, "heartbeat of an older generation")
			sync := kmsg.NewPtrSyncGroupRequest()
			sync.Version, sync.Group, sync.MemberID, sync.Generation = 2, "g", member, first
			if answer, err := p.Call(t, sync); s.ok(err, "sync") {
				s.code(answer.(*kmsg.SyncGroupResponse).ErrorCode, kerr.IllegalGeneration, "sync of an older generation")
			}
			s.must(s.committed(t, p) == 5, "I28", "refused commits changed the offset to %d", s.committed(t, p))
			s.leave(t, p, member)
			if _, next, ok := s.join(t, p, "", 10*time.Second); ok {
				s.must(next == second+2, "I26", "generation %d follows generation %d and the one without members", next, second)
			}
		})
	})
}

// coordinatorDurability: with every topic synced (log.flush.interval.messages=1) what the
// coordinator has answered survives a power loss.
func coordinatorDurability(r *Run) {
	r.Set("log.flush.interval.messages", "1")
	r.Set("group.min.session.timeout.ms", "100")
	tell(r, func(s *story) {
		s.topic("t", 1)
		var code int16
		s.client("commit, and commit while the sync fails", func(t *task.T, p *client.Plain) {
			if !s.findCoordinator(t, p) {
				return
			}
			member, generation, ok := s.join(t, p, "", 10*time.Second)
			if !ok {
				return
			}
			s.code(s.commitOffset(t, p, member, generation, 5), nil, "commit")
			s.Broker.Disk.Arm(&simdisk.Injection{Fault: simdisk.SyncError, Match: func(path string) bool {
				return strings.Contains(path, "/__consumer_offsets-") && strings.HasSuffix(path, ".log")
			}})
			code = s.commitOffset(t, p, member, generation, 9)
		})
		s.Broker.Disk.SetPower(simdisk.Power{None: 1})
		if s.failed || !s.crash(true) {
			return
		}
		s.client("read the offset", func(t *task.T, p *client.Plain) {
			got := s.committed(t, p)
			s.must(got == 9 || got == 5 && code != 0, "I27", "the second commit was answered with %s, and after a power loss the offset is %d", client.CodeName(code), got)
		})
	})
}

package scenarios

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/scenarios/client"
)

func (s *story) heartbeat(t *task.T, p *client.Plain, member string, instance *string, generation int32) int16 {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.InstanceID, req.Generation = 3, "g", member, instance, generation
	resp, err := p.Call(t, req)
	if !s.ok(err, "heartbeat") {
		return -1
	}
	return resp.(*kmsg.HeartbeatResponse).ErrorCode
}

func (s *story) leave(t *task.T, p *client.Plain, member string) {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version, req.Group, req.MemberID = 1, "g", member
	resp, err := p.Call(t, req)
	if s.ok(err, "leave") {
		s.code(resp.(*kmsg.LeaveGroupResponse).ErrorCode, nil, "leave")
	}
}

// livingMember: heartbeats and commits, and each of them alone, keep a member in its group;
// after a restart it has its session again, and not for ever.
func livingMember(r *Run) {
	r.Set("group.min.session.timeout.ms", "100")
	tell(r, func(s *story) {
		s.topic("t", 1)
		s.client("live by heartbeats, then by commits", func(t *task.T, p *client.Plain) {
			if !s.findCoordinator(t, p) {
				return
			}
			member, generation, ok := s.join(t, p, "", time.Second)
			for i := 0; ok && i < 8; i++ {
				t.Sleep(t.Now().Add(600 * time.Millisecond))
				code := int16(0)
				if i < 4 {
					code = s.heartbeat(t, p, member, nil, generation)
				} else {
					code = s.commitOffset(t, p, member, generation, int64(i))
				}
				ok = s.must(code == 0, "liveness", "sign of life %d, 600 ms after the last with a session of 1 s: %s", i, client.CodeName(code))
			}
		})
		if s.failed || !s.crash(false) {
			return
		}
		s.client("say nothing after the restart", func(t *task.T, p *client.Plain) {
			if s.findCoordinator(t, p) && s.committed(t, p) == 7 {
				t.Sleep(t.Now().Add(1500 * time.Millisecond))
				s.state(t, p, "Empty", "half a session after a session from the restart on")
			}
		})
	})
}

// told heartbeats until the member hears of a rebalance.
func (s *story) told(t *task.T, p *client.Plain, member string, generation int32, why string) bool {
	for range 15 {
		code := s.heartbeat(t, p, member, nil, generation)
		if code == kerr.RebalanceInProgress.Code {
			return true
		}
		if !s.code(code, nil, "heartbeat before "+why) {
			return false
		}
		t.Sleep(t.Now().Add(100 * time.Millisecond))
	}
	return s.must(false, "liveness", "%s makes no rebalance that the other member hears of", why)
}

// rebalances: joining and leaving make one that the others hear of, and it does not wait
// longer for a member that lives and does not join than the member asked for.
func rebalances(r *Run) {
	r.Set("group.min.session.timeout.ms", "100")
	r.Set("group.initial.rebalance.delay.ms", "0")
	tell(r, func(s *story) {
		s.topic("t", 1)
		s.client("join, be joined, be left", func(t *task.T, p *client.Plain) {
			if !s.findCoordinator(t, p) {
				return
			}
			const session = 2 * time.Second
			first, generation, ok := s.join(t, p, "", session)
			if !ok {
				return
			}
			var other string
			var otherGeneration int32
			var joined bool
			t.Go("another member", func(t *task.T) {
				q := client.Open(t, p.Env)
				defer q.Close()
				other, otherGeneration, joined = s.join(t, q, "", session)
			})
			if !s.told(t, p, first, generation, "a member that joins") {
				return
			}
			// It says that it lives and does not join.
			for i := 0; i < 40 && !joined && !s.failed; i++ {
				t.Sleep(t.Now().Add(100 * time.Millisecond))
				s.heartbeat(t, p, first, nil, generation)
			}
			if !s.must(joined, "liveness", "a rebalance with a time-out of %v goes on after 4 s", session) {
				return
			}
			s.must(otherGeneration > generation, "I26", "generation %d follows generation %d", otherGeneration, generation)
			var back string
			var again bool
			t.Go("the first member", func(t *task.T) {
				q := client.Open(t, p.Env)
				defer q.Close()
				back, _, again = s.join(t, q, "", session)
			})
			if !s.told(t, p, other, otherGeneration, "the member that comes back") {
				return
			}
			if other, otherGeneration, ok = s.join(t, p, other, session); !ok {
				return
			}
			for i := 0; i < 10 && !again && !s.failed; i++ {
				t.Sleep(t.Now().Add(100 * time.Millisecond))
			}
			if s.must(again, "liveness", "the second member did not get into its generation") {
				s.leave(t, p, back)
				s.told(t, p, other, otherGeneration, "the member that leaves")
			}
		})
	})
}

// joinStatic takes the instance's place, and returns the share that it was given.
func (s *story) joinStatic(t *task.T, p *client.Plain, instance string) (id string, generation int32, share string, ok bool) {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.InstanceID, req.ProtocolType = 5, "g", &instance, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 30_000, 5_000
	proto := kmsg.NewJoinGroupRequestProtocol()
	proto.Name = "all"
	req.Protocols = append(req.Protocols, proto)
	resp := s.call(t, p, req, func(r kmsg.Response) int16 { return r.(*kmsg.JoinGroupResponse).ErrorCode })
	if resp == nil {
		return "", 0, "", false
	}
	j := resp.(*kmsg.JoinGroupResponse)
	if !s.code(j.ErrorCode, nil, "join of a static member") {
		return "", 0, "", false
	}
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Version, sync.Group, sync.MemberID, sync.InstanceID, sync.Generation = 3, "g", j.MemberID, &instance, j.Generation
	if j.LeaderID == j.MemberID {
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = j.MemberID, []byte("everything")
		sync.GroupAssignment = append(sync.GroupAssignment, a)
	}
	answer := s.call(t, p, sync, func(r kmsg.Response) int16 { return r.(*kmsg.SyncGroupResponse).ErrorCode })
	if answer == nil {
		return "", 0, "", false
	}
	got := answer.(*kmsg.SyncGroupResponse)
	return j.MemberID, j.Generation, string(got.MemberAssignment), s.code(got.ErrorCode, nil, "sync of a static member")
}

// staticMember: one that restarts gets its place, its share and no rebalance, its older self
// is fenced; a restart of the broker changes nothing of that. Who sleeps through a rebalance is a
// member as long as its session.
func staticMember(r *Run) {
	r.Set("group.initial.rebalance.delay.ms", "0")
	instance := "one"
	var old string
	var generation int32
	tell(r, func(s *story) {
		s.topic("t", 1)
		takeOver := func(t *task.T, p *client.Plain) {
			id, g, share, ok := s.joinStatic(t, p, instance)
			if !ok {
				return
			}
			s.must(share == "everything", "I25", "the static member was given %q", share)
			if old != "" {
				s.must(g == generation, "I26", "a static member that restarted found generation %d, not %d", g, generation)
				s.must(id != old, "I25", "two processes are one member")
				s.code(s.heartbeat(t, p, old, &instance, g), kerr.FencedInstanceID, "heartbeat of the older self")
			}
			s.code(s.heartbeat(t, p, id, &instance, g), nil, "heartbeat of the newer self")
			old, generation = id, g
		}
		s.client("start, and start again", func(t *task.T, p *client.Plain) {
			if s.findCoordinator(t, p) {
				takeOver(t, p)
				takeOver(t, p)
			}
		})
		if s.failed || !s.crash(false) {
			return
		}
		s.client("start after the broker's restart", takeOver)
		s.client("a rebalance without it", func(t *task.T, p *client.Plain) {
			p.RequestTimeout = 20 * time.Second
			_, next, ok := s.join(t, p, "", 6*time.Second)
			if ok && s.must(next > generation, "I26", "generation %d follows generation %d", next, generation) {
				s.code(s.heartbeat(t, p, old, &instance, generation), kerr.IllegalGeneration, "heartbeat of a static member that slept through a rebalance, in its generation")
				s.code(s.heartbeat(t, p, old, &instance, next), nil, "heartbeat of a static member that slept through a rebalance, in the next generation")
			}
		})
	})
}

// offsetsRetention: offsets outlive their retention while the group has members, and that
// long after the last has left; with their topic they go at once.
func offsetsRetention(r *Run) {
	r.Set("offsets.retention.minutes", "1")
	r.Set("offsets.retention.check.interval.ms", "1000")
	tell(r, func(s *story) {
		s.topic("t", 1)
		var member string
		var generation int32
		s.client("commit", func(t *task.T, p *client.Plain) {
			ok := false
			if s.findCoordinator(t, p) {
				if member, generation, ok = s.join(t, p, "", 30*time.Second); ok {
					s.code(s.commitOffset(t, p, member, generation, 5), nil, "commit")
				}
			}
		})
		for range 6 {
			s.wait(15 * time.Second)
			s.client("live", func(t *task.T, p *client.Plain) {
				s.code(s.heartbeat(t, p, member, nil, generation), nil, "heartbeat")
			})
		}
		stored := func(want int64, when string) {
			s.client("look", func(t *task.T, p *client.Plain) {
				got := s.committed(t, p)
				s.must(got == want, "I28", "the offset is %d, not %d, %s", got, want, when)
			})
		}
		stored(5, "90 s after the commit, in a group with a member and a retention of one minute")
		s.client("leave", func(t *task.T, p *client.Plain) { s.leave(t, p, member) })
		s.wait(30 * time.Second)
		stored(5, "30 s after the group's last member left, with a retention of one minute")
		s.wait(40 * time.Second)
		stored(-1, "70 s after the group's last member left, with a retention of one minute")
		s.client("commit from outside, and delete the topic", func(t *task.T, p *client.Plain) {
			s.code(s.commitOffset(t, p, "", -1, 8), nil, "commit from outside")
			code, err := p.Delete(t, "t")
			if s.ok(err, "delete") {
				s.code(code, nil, "delete")
			}
		})
		s.topic("t", 1)
		s.wait(5 * time.Second)
		stored(-1, "in a new topic of the same name")
	})
}

// idleConnection: one that is used stays, one that is not is closed.
func idleConnection(r *Run) {
	r.Set("connections.max.idle.ms", "1000")
	tell(r, func(s *story) {
		topic := s.topic("t", 1)
		s.client("send without an answer", func(t *task.T, p *client.Plain) {
			for range 8 {
				if err := p.Conn.Send(t, client.ProduceRequest(topic, 0, 9, 0, batch(t.UnixMilli(), nobody, 1, 50, 0)), t.Now().Add(time.Second)); err != nil {
					break // the question below tells
				}
				t.Sleep(t.Now().Add(600 * time.Millisecond))
			}
			_, err := p.Call(t, kmsg.NewPtrApiVersionsRequest())
			s.must(err == nil, "liveness", "a connection with a request without an answer every 600 ms is not served, with an idle time-out of 1 s: %v", err)
		})
		s.client("ask, and fall silent", func(t *task.T, p *client.Plain) {
			ask := func() error {
				req := kmsg.NewPtrApiVersionsRequest()
				_, err := p.Call(t, req)
				return err
			}
			for i := range 8 {
				err := ask()
				if !s.must(err == nil, "liveness", "request %d, 600 ms after the last with an idle time-out of 1 s: %v", i, err) {
					return
				}
				t.Sleep(t.Now().Add(600 * time.Millisecond))
			}
			t.Sleep(t.Now().Add(2 * time.Second))
			s.must(ask() != nil, "liveness", "a connection that was silent for 2.6 s is served, with an idle time-out of 1 s")
		})
	})
}

// sharedMemory: requests that together are larger than the memory of requests wait for each
// other, and all are answered. A fetch that waits for news has given its share back, and so has one
// whose answer nobody reads.
func sharedMemory(r *Run) {
	r.Set("queued.max.request.bytes", "65536")
	tell(r, func(s *story) {
		topic := s.topic("t", 1, [2]string{"flush.messages", "1"})
		quiet := s.topic("quiet", 1)
		produce := func(t *task.T, p *client.Plain, i int) bool {
			a, err := p.Produce(t, topic, 0, 9, -1, batch(t.UnixMilli(), nobody, 4, 10_000, 4*i))
			return s.must(err == nil, "liveness", "a request waits for memory that others have given back: %v", err) && s.code(a.Code, nil, "produce")
		}
		s.client("produce at once", func(t *task.T, p *client.Plain) {
			left := 4
			for range left {
				t.Go("a producer", func(t *task.T) {
					q := client.Open(t, p.Env)
					defer q.Close()
					for i := range 8 {
						if !produce(t, q, i) {
							break
						}
					}
					left--
				})
			}
			for left > 0 {
				t.Sleep(t.Now().Add(10 * time.Millisecond))
			}
		})
		s.client("produce beside a fetch that waits", func(t *task.T, p *client.Plain) {
			answered := false
			t.Go("a consumer", func(t *task.T) {
				q := client.Open(t, p.Env)
				defer q.Close()
				q.RequestTimeout = 20 * time.Second
				_, err := q.Call(t, q.Wide(quiet, 2500, 9*time.Second))
				s.ok(err, "fetch")
				answered = true
			})
			for i := 0; !answered; i++ {
				if began := t.Now(); !produce(t, p, i) || !s.must(t.Now().Sub(began) < 5*time.Second, "liveness", "a fetch that waits keeps a producer waiting for %v", t.Now().Sub(began)) {
					return
				}
				t.Sleep(t.Now().Add(200 * time.Millisecond))
			}
		})
		s.client("produce beside an answer that nobody reads", func(t *task.T, deaf *client.Plain) {
			all := deaf.Wide(topic, 2500, 0)
			all.MaxBytes = 4 << 20 // more than the network holds
			if !s.ok(deaf.Conn.Send(t, all, t.Now().Add(deaf.RequestTimeout)), "fetch") {
				return
			}
			p := client.Open(t, deaf.Env)
			defer p.Close()
			for i := range 3 { // the first may overtake the fetch
				if !produce(t, p, i) {
					return
				}
				t.Sleep(t.Now().Add(200 * time.Millisecond))
			}
		})
	})
}

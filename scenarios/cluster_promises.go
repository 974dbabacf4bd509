package scenarios

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/scenarios/client"
)

// asked is a produce request that somebody waits for while the story goes on.
type asked struct {
	done bool
	code int16
	err  error
}

// ask produces one record at a node in the background, with acks=all and a minute for it.
func (s *tale) ask(id int32, topic *client.Topic) *asked {
	a := &asked{}
	e, group := s.Env(2 * time.Minute)
	group.Go("ask", func(t *task.T) {
		p := client.OpenAt(t, &e, s.node(id).Addr())
		p.Within = time.Minute
		var got client.Produced
		got, a.err = p.Produce(t, topic, 0, 9, -1, batch(t.UnixMilli(), nobody, 1, 20, 0))
		a.done, a.code = true, got.Code
		p.Close()
	})
	return a
}

// answered expects the answer within a second.
func (s *tale) answered(a *asked, want *kerr.Error, after string) {
	s.World.Run(func() bool { return a.done || s.over() }, time.Second)
	_ = s.must(a.done, "I30", "no answer a second after %s", after) && s.ok(a.err, "produce") && s.code(a.code, want, "produce")
}

// shrunkISR is KAFKA-13091: when a silent follower has left the ISR, what waited for it is
// committed at once, though nobody produces or fetches any more.
func shrunkISR(r *Run) {
	r.Set("replica.lag.time.max.ms", "8000")
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("shrunk", []int32{4, 5})
		s.produce(4, topic, -1, 3, nil)
		s.apart(4, 5)
		a := s.ask(4, topic)
		s.isr(topic, 1)
		s.answered(a, nil, "the ISR shrank")
	})
}

// killedFollower: who is fenced is waited for no longer, though it had everything a moment ago and
// would have a minute to come back with more.
func killedFollower(r *Run) {
	r.Set("replica.lag.time.max.ms", "60000")
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("killed", []int32{4, 5, 6})
		s.produce(4, topic, -1, 3, nil)
		s.kill(5)
		a := s.ask(4, topic)
		s.isr(topic, 2)
		s.answered(a, nil, "the follower left the ISR")
	})
}

// hiddenRecords: who waits for records that are in the log and not committed is woken when they
// are, though nothing more is appended.
func hiddenRecords(r *Run) {
	r.Set("replica.lag.time.max.ms", "60000")
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("hidden", []int32{4, 5, 6})
		s.produce(4, topic, -1, 10, nil)
		s.apart(6, 4, 5)
		s.produce(4, topic, 1, 3, nil)
		const patience = time.Minute
		e, group := s.Env(2 * time.Minute)
		e.RequestTimeout = 2 * patience
		done := false
		group.Go("wait", func(t *task.T) {
			p := client.OpenAt(t, &e, s.node(4).Addr())
			got, err := p.Await(t, topic, 0, 10, patience)
			if s.ok(err, "fetch") && s.code(got.Code, nil, "fetch") {
				s.must(len(got.Batches) > 0, "I30", "who waits for records that are committed meanwhile gets none")
			}
			done = true
			p.Close()
		})
		s.wait(3 * time.Second)
		s.must(!done, "I5", "who waits for records that are not committed is answered")
		s.together()
		s.reaches(4, topic, 13)
		s.World.Run(func() bool { return done || s.over() }, time.Second)
		s.must(done, "I30", "no answer a second after the records were committed")
	})
}

// demotedLeader is KAFKA-2960: whoever waits for a leader is told at once that it leads no more.
func demotedLeader(r *Run) {
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("demoted", []int32{4, 5, 6})
		s.kill(4)
		s.led(topic, 5)
		s.start(4)
		s.isr(topic, 3)
		s.apart(5, 4, 6)
		a := s.ask(5, topic)
		s.wait(500 * time.Millisecond)
		s.must(!a.done, "R4", "acks=all was answered with code %d, and nobody has the record", a.code)
		s.prefer()
		s.led(topic, 4)
		s.answered(a, kerr.NotLeaderForPartition, "another leads")
		s.together()
		s.equal(topic, 0)
	})
}

// isolatedController is KAFKA-15489: a leader of the quorum that no majority hears of resigns,
// and brokers that still hear of it find the new one.
func isolatedController(r *Run) {
	tellCluster(r, six(1), func(s *tale) {
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
		// What it decides alone is not decided.
		code := s.create(4, "alone", 1000)
		known := func(name string) bool {
			s.cluster.ghost.look()
			return s.cluster.ghost.quorum.State.Named(name+"-0") != nil
		}
		s.must(code != 0 || known("alone"), "I31", "a topic was made, and no majority has it")
		// Nor is what rests on that.
		code = s.create(4, "alone", 300)
		s.must(code != kerr.TopicAlreadyExists.Code || known("alone"), "I31", "a topic is said to exist, and no majority has it")
		s.wait(5 * time.Second)
		for until := s.World.Now().Add(20 * time.Second); code != 0 && s.World.Now() < until && !s.failed; {
			if code = s.create(4, "new", 2000); code == kerr.TopicAlreadyExists.Code {
				code = 0 // an answer was lost
			}
		}
		s.must(code == 0, "liveness", "the metadata does not change 25 seconds after its leader was cut off: %s", client.CodeName(code))
		s.must(code != 0 || known("new") || known("alone"), "I31", "a topic was made, and no majority has it")
		s.together()
	})
}

// minorityController is isolatedController for a leader that still hears of somebody: of five
// voters one other is not enough.
func minorityController(r *Run) {
	tellCluster(r, shape{nodes: 6, voters: 5, elr: 1}, func(s *tale) {
		old := s.cluster.controller()
		if !s.must(old != nil, "liveness", "nobody leads the quorum") {
			return
		}
		friend := old.id%5 + 1
		for id := int32(1); id <= 5; id++ {
			if id != old.id && id != friend {
				s.apart(id, old.id, friend)
			}
		}
		s.until("another leads the quorum", 20*time.Second, func() bool { c := s.cluster.controller(); return c != nil && c != old })
		code := int16(-1)
		for until := s.World.Now().Add(20 * time.Second); code != 0 && s.World.Now() < until && !s.failed; {
			if code = s.create(6, "new", 2000); code == kerr.TopicAlreadyExists.Code {
				code = 0 // an answer was lost
			}
		}
		s.must(code == 0, "liveness", "a broker that all voters reach changes nothing 20 seconds after its leader was left with one of five: %s", client.CodeName(code))
		s.together()
	})
}

// create asks a node for a topic and returns the code of its answer.
func (s *tale) create(id int32, name string, timeoutMillis int32) (code int16) {
	s.at(id, "create", func(t *task.T, p *client.Plain) {
		var err error
		code, err = createOne(t, p, name, timeoutMillis)
		s.ok(err, "create")
	})
	return code
}

func createOne(t *task.T, p *client.Plain, name string, timeoutMillis int32) (code int16, err error) {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, timeoutMillis
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
	req.Topics = append(req.Topics, topic)
	resp, err := p.Call(t, req)
	if err != nil {
		return 0, err
	}
	return resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode, nil
}

// steadyStream: a follower joins the ISR while its leader is written to without a pause: by so
// many that there is always something that it has not got when it asks.
func steadyStream(r *Run) {
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("stream", []int32{4, 5})
		s.stopNode(5)
		s.isr(topic, 1)
		over, rng := false, s.Rand("stream")
		for range 48 {
			e, group := s.Env(time.Minute)
			group.Go("stream", func(t *task.T) {
				p := client.OpenAt(t, &e, s.node(4).Addr())
				for !over {
					if _, err := p.Produce(t, topic, 0, 9, 1, batch(t.UnixMilli(), nobody, 1, 20, 0)); err != nil {
						break
					}
					t.Sleep(t.Now().Add(time.Duration(rng.Int64N(int64(300 * time.Microsecond)))))
				}
				p.Close()
			})
		}
		s.start(5)
		ok := s.until("the follower joins under a stream of records", time.Second, func() bool { return len(s.partition(topic).ISR) == 2 })
		over = true
		s.must(ok, "liveness", "the ISR is %v, the replicas end at %v", s.partition(topic).ISR, s.ends(topic))
	})
}

// oldIncarnation is KIP-903: a proposal that names an incarnation which is gone by the time
// that the controller hears of it does not let the present one into the ISR.
func oldIncarnation(r *Run) {
	r.Set("broker.session.timeout.ms", "30000")
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("old", []int32{4, 5})
		s.produce(4, topic, -1, 10, nil)
		s.stopNode(5)
		s.isr(topic, 1)
		s.produce(4, topic, -1, 10, nil)
		// The leader knows that node 5 is back, and then says nothing to the controller.
		s.apart(5, 4)
		s.start(5)
		s.wait(time.Second)
		s.apart(4, 1, 2, 3)
		s.again(4, 5)
		s.until("node 5 has caught up", 20*time.Second, func() bool { return s.ends(topic)[5] == 20 })
		s.wait(time.Second)
		s.apart(5, 4)
		s.stopNode(5)
		s.start(5)
		s.wait(time.Second)
		s.again(4, 1, 2, 3)
		s.wait(5 * time.Second)
		p := s.partition(topic)
		s.must(!slices.Contains(p.ISR, 5), "I8", "node 5 is in the ISR %v and has fetched nothing since it registered", p.ISR)
		s.together()
		s.equal(topic, 20)
	})
}

// shrinkingReassignment is invariant I33: copies go only when all that stay are in sync.
func shrinkingReassignment(r *Run) {
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("fewer", []int32{4, 5, 6})
		s.produce(4, topic, -1, 10, nil)
		s.stopNode(5)
		s.isr(topic, 2)
		s.assign(topic, []int32{4, 5})
		s.wait(3 * time.Second)
		p := s.partition(topic)
		s.must(len(p.Removing) == 1 && len(p.ISR) == 2, "I33", "removing %v, the ISR is %v of %v, and node 5 is down", p.Removing, p.ISR, p.Replicas)
		s.start(5)
		s.until("it ends", time.Minute, func() bool { return len(s.partition(topic).Replicas) == 2 })
		s.equal(topic, 10)
	})
}

package scenarios

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/scenarios/client"
	"seedlog/sim/sched"
)

// crowd is clients that all ask at once, and each of whose answers must come promptly: long
// before it has to, for nothing is slow.
type crowd struct {
	*story
	left int
}

const (
	crowdDeadline = 20 * time.Second
	crowdPrompt   = 3 * time.Second
)

// jostle lets tasks interleave: locks let others go first, and tasks come a little late;
// nothing takes long.
func (s *story) jostle(name string) *crowd {
	rng := s.Rand(name)
	cfg := sched.Calm()
	cfg.YieldEvery, cfg.HoldEvery, cfg.HoldMaxNs, cfg.StepMaxNs = 1+rng.IntN(3), 2+rng.IntN(8), int64(2*time.Millisecond), 2_000+rng.Int64N(30_000)
	s.World.Sched.SetConfig(cfg)
	return &crowd{story: s}
}

// spawn asks n times.
func (c *crowd) spawn(what string, n int, fn func(t *task.T, p *client.Plain, i int) error) {
	c.left++
	e, group := c.Env(crowdDeadline)
	group.Go(what, func(t *task.T) {
		p := client.Open(t, &e)
		for i := range n {
			began := t.Now()
			err := fn(t, p, i)
			took := t.Now().Sub(began)
			if c.failed || !c.must(took < crowdPrompt, "I30", "%s %d took %v of the %v it may take, and nothing is slow", what, i, took, crowdDeadline) || !c.ok(err, what) {
				break
			}
		}
		p.Close()
		c.left--
	})
}

// wait waits until all have asked.
func (c *crowd) wait() {
	c.World.Run(func() bool { return c.left == 0 }, time.Minute)
	c.must(c.left == 0, "I30", "%d clients still wait", c.left)
}

// promptAnswers: who waits is woken by what it waits for, not by its deadline, however the
// tasks interleave. Producers wait for syncs that they share, a consumer for their records.
func promptAnswers(r *Run) {
	rng := r.Rand("prompt")
	tell(r, func(s *story) {
		topic := s.topic("t", 2, [2]string{"flush.messages", "1"})
		if s.failed {
			return
		}
		const each = 80
		c := s.jostle("jostle")
		producers := 1 + rng.IntN(3) // one alone is woken by nobody else's append
		next := int64(0)
		for range producers {
			c.spawn("produce", each, func(t *task.T, p *client.Plain, _ int) error {
				_, err := p.Produce(t, topic, 0, 9, -1, batch(t.UnixMilli(), nobody, 1, 50, 0))
				return err
			})
		}
		c.spawn("fetch", each, func(t *task.T, p *client.Plain, _ int) error {
			if next >= int64(producers)*each { // the producers may be done
				return nil
			}
			got, err := p.Await(t, topic, 0, next, crowdDeadline)
			if n := len(got.Batches); n > 0 {
				next = got.Batches[n-1].Last + 1
			}
			return err
		})
		c.spawn("produce and ask", each/2, func(t *task.T, p *client.Plain, _ int) error {
			return produceAndAsk(t, p, topic)
		})
		c.wait()
		c.queue(topic, int64(producers)*each)
		c.goes(topic, int64(producers)*each+1)
	})
}

// queue is many who wait for one record, after which nothing comes that could wake those who were
// passed by.
func (c *crowd) queue(topic *client.Topic, end int64) {
	for range 60 {
		c.spawn("wait", 1, func(t *task.T, p *client.Plain, _ int) error {
			_, err := p.Await(t, topic, 0, end, crowdDeadline)
			return err
		})
	}
	c.story.wait(500 * time.Millisecond)
	c.spawn("produce for all", 1, func(t *task.T, p *client.Plain, _ int) error {
		_, err := p.Produce(t, topic, 0, 9, -1, batch(t.UnixMilli(), nobody, 1, 50, 0))
		return err
	})
	c.wait()
}

// goes is who waits for records of a topic that is deleted.
func (c *crowd) goes(topic *client.Topic, end int64) {
	for range 3 {
		c.spawn("wait for what goes", 1, func(t *task.T, p *client.Plain, _ int) error {
			_, err := p.Await(t, topic, 0, end, crowdDeadline)
			return err
		})
	}
	c.story.wait(500 * time.Millisecond)
	c.spawn("delete", 1, func(t *task.T, p *client.Plain, _ int) error {
		code, err := p.Delete(t, topic.Name)
		c.code(code, nil, "delete")
		return err
	})
	c.wait()
}

// produceAndAsk sends batches and a question behind them, which is answered in its turn: once
// the last of their answers, which come late, is written.
func produceAndAsk(t *task.T, p *client.Plain, topic *client.Topic) error {
	until := t.Now().Add(crowdDeadline)
	for range 2 {
		req := client.ProduceRequest(topic, 1, 9, -1, batch(t.UnixMilli(), nobody, 1, 50, 0))
		if err := p.Conn.Send(t, req, until); err != nil {
			return err
		}
	}
	if err := p.Conn.Send(t, kmsg.NewPtrApiVersionsRequest(), until); err != nil {
		return err
	}
	for range 3 {
		if _, _, err := p.Conn.Receive(t, until); err != nil {
			return err
		}
	}
	return nil
}

// promptGroups: commits, joins and leaves wait for the coordinator's log to be synced, and
// are answered when it is.
func promptGroups(r *Run) {
	r.Set("log.flush.interval.messages", "1")
	r.Set("offsets.topic.num.partitions", "1")
	rng := r.Rand("prompt")
	tell(r, func(s *story) {
		s.topic("t", 1)
		s.client("make the coordinator", func(t *task.T, p *client.Plain) { s.findCoordinator(t, p) })
		if s.failed {
			return
		}
		c := s.jostle("jostle")
		for range 1 + rng.IntN(2) { // one alone is woken by nobody else's request
			c.spawn("commit", 60, func(t *task.T, p *client.Plain, i int) error {
				s.code(s.commitOffset(t, p, "", -1, int64(i)), nil, "commit from outside")
				return nil
			})
		}
		if rng.IntN(2) == 0 {
			c.spawn("join and leave", 10, func(t *task.T, p *client.Plain, _ int) error {
				return joinAndLeave(t, p, "h")
			})
		}
		c.wait()
	})
}

// joinAndLeave is a short life in a group of its own.
func joinAndLeave(t *task.T, p *client.Plain, group string) error {
	join := kmsg.NewPtrJoinGroupRequest()
	join.Version, join.Group, join.ProtocolType, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = 3, group, "consumer", 30_000, 30_000
	proto := kmsg.NewJoinGroupRequestProtocol()
	proto.Name = "all"
	join.Protocols = append(join.Protocols, proto)
	resp, err := p.Call(t, join)
	if err != nil {
		return err
	}
	j := resp.(*kmsg.JoinGroupResponse)
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Version, sync.Group, sync.MemberID, sync.Generation = 2, group, j.MemberID, j.Generation
	share := kmsg.NewSyncGroupRequestGroupAssignment()
	share.MemberID, share.MemberAssignment = j.MemberID, []byte("everything")
	sync.GroupAssignment = append(sync.GroupAssignment, share)
	if resp, err = p.Call(t, sync); err != nil {
		return err
	}
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Version, leave.Group, leave.MemberID = 1, group, j.MemberID
	if code := resp.(*kmsg.SyncGroupResponse).ErrorCode; code != 0 {
		return fmt.Errorf("sync: %s", client.CodeName(code))
	}
	_, err = p.Call(t, leave)
	return err
}

// promptControl: whoever changes the metadata is told when the change is committed, and a
// change is seen right after it was told.
func promptControl(r *Run) {
	rng := r.Rand("prompt")
	tell(r, func(s *story) {
		topic := s.topic("t", 1)
		s.fill(topic, 30)
		if s.failed {
			return
		}
		c := s.jostle("jostle")
		for who := range 1 + rng.IntN(3) {
			c.spawn("create and delete", 12, func(t *task.T, p *client.Plain, i int) error {
				name := fmt.Sprintf("c%d-%d", who, i)
				if err := client.Create(t, p.Env, &client.Topic{Name: name, Partitions: 2}, nil); err != nil {
					return err
				}
				code, err := p.Delete(t, name)
				s.code(code, nil, "delete of a topic that was just created")
				return err
			})
		}
		if rng.IntN(2) == 0 {
			c.spawn("producer id", 20, func(t *task.T, p *client.Plain, _ int) error {
				_, _, err := p.ProducerID(t)
				return err
			})
		}
		if rng.IntN(2) == 0 {
			c.spawn("delete records", 20, func(t *task.T, p *client.Plain, i int) error {
				s.code(s.deleteRecords(t, p, topic, int64(2*i+1)), nil, "delete records")
				return nil
			})
		}
		c.wait()
	})
}

package scenarios

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/meta"
	"seedlog/scenarios/client"
)

// settledSettings: what a setting means for a partition that waits for it counts at once, though
// nothing else happens to the partition: fewer that must be in sync need no eligible leaders beside
// them (KIP-966), and where an unclean election is allowed it is held (SPEC R6).
func settledSettings(r *Run) {
	r.Set("unclean.leader.election.interval.ms", "600000")
	tellCluster(r, six(1), func(s *tale) {
		three := s.replicated("three", []int32{4, 5, 6}, [2]string{"min.insync.replicas", "3"})
		two := s.replicated("two", []int32{5, 6})
		s.produce(4, three, -1, 10, nil)
		s.produce(5, two, -1, 10, nil)
		s.kill(6)
		s.isr(three, 2)
		s.isr(two, 1)
		s.kill(5)
		s.until("nobody leads", 20*time.Second, func() bool { return s.partition(two).Leader == -1 })
		s.start(6)
		s.until("node 6 is back", 20*time.Second, func() bool { return len(s.partition(three).ISR) == 2 })
		p := s.partition(three)
		s.must(len(p.ELR) > 0, "scenario", "the ISR is %v and eligible are %v", p.ISR, p.ELR)
		s.wait(2 * time.Second)
		s.must(s.partition(two).Leader == -1, "R6", "node %d leads, which lacks what may be lost nowhere", s.partition(two).Leader)

		s.alter(kmsg.ConfigResourceTypeTopic, three.Name, [2]string{"min.insync.replicas", "2"})
		p = s.partition(three)
		s.must(len(p.ELR) == 0, "I8", "two must be in sync, the ISR is %v, and eligible are %v", p.ISR, p.ELR)
		s.alter(kmsg.ConfigResourceTypeTopic, two.Name, [2]string{"unclean.leader.election.enable", "true"})
		s.led(two, 6)
		s.start(5)
		s.equal(two, 10)
		s.equal(three, 10)
	})
}

// committedAnew: a topic takes its offsets along when it is deleted, and none that was committed
// since for the next topic of its name.
func committedAnew(r *Run) {
	r.Set("offsets.retention.check.interval.ms", "20000")
	tell(r, func(s *story) {
		s.topic("t", 1)
		s.client("commit, and delete the topic", func(t *task.T, p *client.Plain) {
			if !s.findCoordinator(t, p) {
				return
			}
			s.code(s.commitOffset(t, p, "", -1, 5), nil, "commit")
			code, err := p.Delete(t, "t")
			if s.ok(err, "delete") {
				s.code(code, nil, "delete")
			}
		})
		s.topic("t", 1)
		s.wait(2 * time.Second)
		stored := func(want int64, when string) {
			s.client("look", func(t *task.T, p *client.Plain) {
				got := s.committed(t, p)
				s.must(got == want, "I28", "the offset is %d, not %d, %s", got, want, when)
			})
		}
		stored(-1, "in a new topic of the same name")
		s.client("commit anew", func(t *task.T, p *client.Plain) {
			s.code(s.commitOffset(t, p, "", -1, 7), nil, "commit anew")
		})
		stored(7, "after a commit for the new topic")
		s.wait(45 * time.Second)
		stored(7, "when the offsets of deleted topics were looked for twice more")
	})
}

// keptOrNot is KIP-966 where it ends, and where it begins, while nobody of a partition is there:
// the best of those that were eligible is the last member of the ISR then, which a cluster without
// eligible leaders keeps, and where they are kept again it is in no ISR, but eligible.
func keptOrNot(r *Run) {
	tellCluster(r, six(1), func(s *tale) {
		topic := s.replicated("kept", []int32{4, 5}, [2]string{"min.insync.replicas", "2"})
		s.produce(4, topic, -1, 10, nil)
		s.kill(5)
		s.isr(topic, 1)
		s.kill(4)
		s.until("nobody leads", 20*time.Second, func() bool { return s.partition(topic).Leader == -1 })
		p := s.partition(topic)
		s.must(len(p.ISR) == 0 && len(p.ELR) == 2, "scenario", "the ISR is %v and eligible are %v", p.ISR, p.ELR)
		s.levelOfELR(0)
		p = s.partition(topic)
		s.must(len(p.ISR) == 1 && len(p.ELR) == 0, "I8", "the ISR is %v and eligible are %v, which are kept no more", p.ISR, p.ELR)
		s.levelOfELR(1)
		p = s.partition(topic)
		s.must(len(p.ISR) == 0 && len(p.ELR) == 1, "I8", "the ISR is %v and eligible are %v, and nobody is there", p.ISR, p.ELR)
		s.levelOfELR(0)
		s.start(4, 5)
		s.equal(topic, 10)
	})
}

// levelOfELR raises or lowers the level of eligible.leader.replicas.version.
func (s *tale) levelOfELR(level int16) {
	s.at(1, "finalize", func(t *task.T, p *client.Plain) {
		req := kmsg.NewPtrUpdateFeaturesRequest()
		req.Version, req.TimeoutMillis = 1, 10_000
		u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		u.Feature, u.MaxVersionLevel, u.UpgradeType = meta.ELRVersionFeature, level, 2-int8(level)
		req.FeatureUpdates = append(req.FeatureUpdates, u)
		resp, err := p.Call(t, req)
		if s.ok(err, "finalize") {
			s.code(resp.(*kmsg.UpdateFeaturesResponse).ErrorCode, nil, "finalize")
		}
	})
}

// ledReassignment is invariant I33 where nobody in sync is there: one who was added was the last
// member of the ISR, and is away, and an unclean election puts another in its place. The
// reassignment does not end in the same change, for who was added is not in sync any more.
func ledReassignment(r *Run) {
	r.Set("unclean.leader.election.interval.ms", "600000")
	tellCluster(r, six(0), func(s *tale) {
		topic := s.replicated("led", []int32{4, 5}, [2]string{"min.insync.replicas", "2"}, [2]string{"unclean.leader.election.enable", "true"})
		s.produce(4, topic, -1, 10, nil)
		s.stopNode(6)
		s.assign(topic, []int32{4, 6})
		s.kill(4)
		s.led(topic, 5)
		s.start(6)
		s.until("what is added is in sync", 30*time.Second, func() bool { return slices.Contains(s.partition(topic).ISR, 6) })
		s.kill(5)
		s.isr(topic, 1)
		s.kill(6)
		s.until("nobody leads", 20*time.Second, func() bool { return s.partition(topic).Leader == -1 })
		p := s.partition(topic)
		s.must(slices.Equal(p.ISR, []int32{6}) && slices.Equal(p.Removing, []int32{5}), "scenario", "the ISR is %v, removing %v", p.ISR, p.Removing)
		s.start(4)
		s.led(topic, 4)
		p = s.partition(topic)
		s.must(len(p.Replicas) == 3, "I33", "the reassignment ended with %v, and the ISR is %v", p.Replicas, p.ISR)
		s.start(5, 6)
		s.until("it ends", time.Minute, func() bool { return len(s.partition(topic).Replicas) == 2 })
		s.equal(topic, 10)
	})
}

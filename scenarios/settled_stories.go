package scenarios

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
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

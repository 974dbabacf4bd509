package scenarios

import (
	"time"

	"seedlog/clock/task"
	"seedlog/scenarios/client"
)

// rejoiningLeader is SPEC G for who joins a stable group again: the leader does so when there is
// something else to share, and gets the next generation; another member has missed the answer, and
// gets it once more.
func rejoiningLeader(r *Run) {
	r.Set("group.initial.rebalance.delay.ms", "0")
	tell(r, func(s *story) {
		s.topic("t", 1)
		s.client("join, and join again", func(t *task.T, p *client.Plain) {
			if !s.findCoordinator(t, p) {
				return
			}
			id, generation, ok := s.join(t, p, "", 10*time.Second)
			for range 3 {
				before := generation
				if ok {
					_, generation, ok = s.join(t, p, id, 10*time.Second)
				}
				if !ok || !s.must(generation > before, "I26", "the leader joins again, and generation %d follows %d", generation, before) {
					return
				}
			}
			s.code(s.commitOffset(t, p, id, generation, 5), nil, "commit")
		})
	})
}

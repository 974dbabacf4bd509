package scenarios

import (
	"bytes"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

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

// refusedGeneration is invariant I27 for a generation that the log does not take: its group is what
// the log says, and those go on who were in it.
func refusedGeneration(r *Run) {
	r.Set("group.min.session.timeout.ms", "100")
	r.Set("group.initial.rebalance.delay.ms", "0")
	tell(r, func(s *story) {
		s.topic("t", 1)
		s.client("join with too much", func(t *task.T, p *client.Plain) {
			if !s.findCoordinator(t, p) {
				return
			}
			id, generation, ok := s.join(t, p, "", 2*time.Second)
			if !ok {
				return
			}
			code, answered := int16(0), false
			t.Go("another member", func(t *task.T) {
				q := client.Open(t, p.Env)
				defer q.Close()
				req := joinRequest(2*time.Second, 2*time.Second)
				req.Version = 3
				req.Protocols[0].Metadata = bytes.Repeat([]byte("much"), 1<<19)
				if resp, err := q.Call(t, req); s.ok(err, "join") {
					code, answered = resp.(*kmsg.JoinGroupResponse).ErrorCode, true
				}
			})
			if !s.told(t, p, id, generation, "a member that joins") {
				return
			}
			for i := 0; i < 40 && !answered && !s.failed; i++ { // the first one lives, and does not join
				t.Sleep(t.Now().Add(100 * time.Millisecond))
				s.heartbeat(t, p, id, nil, generation)
			}
			if s.must(answered, "liveness", "a member that joins hears nothing in 4 s, with a rebalance time-out of 2 s") &&
				s.code(code, kerr.UnknownServerError, "a member that is too large for the log") {
				s.code(s.heartbeat(t, p, id, nil, generation), nil, "the group is what it was, heartbeat")
				s.code(s.commitOffset(t, p, id, generation, 5), nil, "commit")
			}
			if id, generation, ok = s.join(t, p, id, 2*time.Second); ok {
				s.code(s.commitOffset(t, p, id, generation, 6), nil, "commit in the next generation")
			}
		})
	})
}

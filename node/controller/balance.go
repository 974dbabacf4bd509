package controller

import (
	"time"

	"seedlog/clock"
	"seedlog/node/meta"
)

// electionsAtOnce bounds how many leaders one look moves; the next follows at once.
const electionsAtOnce = 1000

func (s *State) balanceInterval() time.Duration {
	return time.Duration(s.brokerConfig().LeaderImbalanceCheckMs) * time.Millisecond
}

// balance gives partitions back to their preferred leaders, where more of a broker's than
// leader.imbalance.per.broker.percentage are led by others, and looks again for a leader
// where there is none and an unclean election is allowed. next is when to look again.
func (s *State) balance(now clock.Instant) (records []meta.Record, next clock.Instant) {
	cfg := s.brokerConfig()
	if now < s.balanceAt {
		return nil, s.balanceAt
	}
	s.balanceAt = now.Add(s.balanceInterval())
	var moved map[int32]bool
	if cfg.AutoLeaderRebalance {
		moved = s.imbalanced(int64(cfg.LeaderImbalancePercentage))
	}
	for t := range s.image.Topics() {
		for id, p := range t.Partitions {
			if len(records) >= electionsAtOnce {
				s.balanceAt = now
				return records, now
			}
			c := s.begin(t, int32(id))
			switch preferred := p.Replicas[0]; {
			case p.Leader < 0 && c.election == electUnclean:
				records = s.appendChange(records, c)
			case p.Leader != preferred && moved[preferred] && c.mayBeElected(preferred):
				c.election = electPreferred
				records = s.appendChange(records, c)
			}
		}
	}
	return records, s.balanceAt
}

// imbalanced are the brokers that too many of their partitions are led without.
func (s *State) imbalanced(percentage int64) map[int32]bool {
	preferred, elsewhere := make(map[int32]int64), make(map[int32]int64)
	for t := range s.image.Topics() {
		for _, p := range t.Partitions {
			preferred[p.Replicas[0]]++
			if p.Leader != p.Replicas[0] {
				elsewhere[p.Replicas[0]]++
			}
		}
	}
	out := make(map[int32]bool)
	for broker, n := range elsewhere { //order: a set
		out[broker] = n*100 > preferred[broker]*percentage
	}
	return out
}

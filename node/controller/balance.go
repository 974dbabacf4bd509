package controller

import (
	"time"

	"seedlog/clock"
	"seedlog/node/meta"
)

// electionsAtOnce bounds how many leaders one look moves; the next follows at once.
const electionsAtOnce = 1000

// timers are what the active controller looks after by time, beside sessions.
type timers struct {
	balanceAt clock.Instant // leaders that are not the preferred ones
	rescueAt  clock.Instant // partitions without a leader that may have an unclean one
}

func (s *State) startTimers(now clock.Instant) {
	s.timers = timers{balanceAt: now.Add(s.balanceInterval()), rescueAt: now.Add(s.rescueInterval())}
	if !s.brokerConfig().AutoLeaderRebalance {
		s.timers.balanceAt = clock.Never
	}
}

func (s *State) balanceInterval() time.Duration {
	return time.Duration(s.brokerConfig().LeaderImbalanceCheckMs) * time.Millisecond
}

func (s *State) rescueInterval() time.Duration {
	return time.Duration(s.brokerConfig().UncleanElectionIntervalMs) * time.Millisecond
}

// elections are those that are due. next is when to look again.
func (s *State) elections(now clock.Instant) (records []meta.Record, next clock.Instant) {
	x := &s.timers
	if now >= x.rescueAt {
		records, x.rescueAt = s.rescue(), now.Add(s.rescueInterval())
		if len(records) >= electionsAtOnce {
			x.rescueAt = now
		}
	}
	if len(records) == 0 && now >= x.balanceAt {
		records, x.balanceAt = s.balance(), now.Add(s.balanceInterval())
		if len(records) >= electionsAtOnce {
			x.balanceAt = now
		}
	}
	return records, min(x.balanceAt, x.rescueAt)
}

// rescue looks for a leader where there is none and an unclean election is allowed. What
// happens to brokers is looked at when it happens; this is for settings of this process.
func (s *State) rescue() (records []meta.Record) {
	for t := range s.image.Topics() {
		for id, p := range t.Partitions {
			if p.Leader >= 0 || len(records) >= electionsAtOnce {
				continue
			}
			if c := s.begin(t, int32(id)); c.election == electUnclean {
				records = s.appendChange(records, c)
			}
		}
	}
	return records
}

// balance gives partitions back to their preferred leaders, where more of a broker's than
// leader.imbalance.per.broker.percentage are led by others.
func (s *State) balance() (records []meta.Record) {
	moved := s.imbalanced(int64(s.brokerConfig().LeaderImbalancePercentage))
	for t := range s.image.Topics() {
		for id, p := range t.Partitions {
			preferred := p.Replicas[0]
			if p.Leader == preferred || !moved[preferred] || len(records) >= electionsAtOnce {
				continue
			}
			if c := s.begin(t, int32(id)); c.mayBeElected(preferred) {
				c.election = electPreferred
				records = s.appendChange(records, c)
			}
		}
	}
	return records
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

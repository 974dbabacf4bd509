package cluster

import "slices"

// Unclean reports whether a topic allows to elect who is no member.
func (s *State) Unclean(topic string) bool {
	v, ok := s.Config(topic, "unclean.leader.election.enable")
	return v == "true" || !ok && s.DefaultUnclean
}

// elected is I3 for elections: who is elected was in the ISR or eligible, unless there was
// nobody left who did not just come back from a crash, or the topic allows others and none of
// those who are left may lead. Such a leader is marked as recovering (R6, KIP-704).
func (s *State) elected(was, p *Partition, at int64) {
	if ended(was, p) && same(p.Replicas, target(was)) {
		return // a reassignment is done, which lets in and elects at once
	}
	if p.Leader < 0 || slices.Contains(was.ISR, p.Leader) || slices.Contains(was.ELR, p.Leader) {
		return
	}
	p.stranger = p.LeaderEpoch
	if !p.recovering {
		s.v.Failf("R6", p.Name(), "broker %d, which was neither in the ISR %v nor eligible %v, is elected in epoch %d and not recovering (metadata offset %d)", p.Leader, was.ISR, was.ELR, p.LeaderEpoch, at)
	}
	p.strange = append(p.strange, epochSpan{p.LeaderEpoch - 1, p.LeaderEpoch})
	left := slices.DeleteFunc(slices.Concat(was.ISR, was.ELR), func(id int32) bool { return slices.Contains(s.came, id) })
	switch alive := s.mayLead(p, left); {
	case s.Unclean(p.Topic) && len(alive) > 0:
		s.passed = append(s.passed, passedOver{p, p.Leader, p.LeaderEpoch, alive, at})
	case len(left) > 0 && !s.Unclean(p.Topic):
		s.v.Failf("I3", p.Name(), "broker %d is elected in epoch %d, and was neither in the ISR %v nor eligible %v (metadata offset %d)", p.Leader, p.LeaderEpoch, was.ISR, was.ELR, at)
	}
}

// passedOver is an unclean election, and the members that could have been elected.
type passedOver struct {
	p             *Partition
	leader, epoch int32
	alive         []int32
	at            int64
}

// mayLead are those of some brokers that can be elected: they have a replica still, for a
// reassignment that is taken back drops what it added, run, and stay, and have not lost the
// directory.
func (s *State) mayLead(p *Partition, brokers []int32) []int32 {
	return slices.DeleteFunc(slices.Clone(brokers), func(id int32) bool {
		b := s.Broker(id)
		return !slices.Contains(p.Replicas, id) || b == nil || b.Fenced || b.Shutting || p.lost(b)
	})
}

// checkPassed is I3 for unclean elections: no member could have been elected, neither when the
// leader was nor when the batch ends. That a broker goes is written behind the elections that
// come of it.
func (s *State) checkPassed() {
	for _, e := range s.passed {
		if alive := s.mayLead(e.p, e.alive); len(alive) > 0 {
			s.v.Failf("I3", e.p.Name(), "broker %d is elected in epoch %d, uncleanly, and the members %v may lead (metadata offset %d)", e.leader, e.epoch, alive, e.at)
		}
	}
}

// reassigned is I33: a reassignment that ends, and is not taken back, ends with the added
// replicas in the ISR, and with all targets there where the replication factor shrinks. Nobody who
// has everything goes while fewer than min.insync.replicas stay.
func (s *State) reassigned(was, now *Partition, at int64) {
	target := target(was)
	if !ended(was, now) || !same(now.Replicas, target) {
		return // it goes on, or is taken back
	}
	goes := slices.ContainsFunc(was.Removing, func(id int32) bool { return slices.Contains(was.ISR, id) || slices.Contains(was.ELR, id) })
	if least := min(s.MinISR(now), len(target)); goes && len(now.ISR) < least {
		s.v.Failf("I33", now.Name(), "the reassignment to %v ends with the ISR %v, of %d at least, and lets go who has everything: the ISR was %v, eligible were %v (metadata offset %d)",
			now.Replicas, now.ISR, least, was.ISR, was.ELR, at)
	}
	need := was.Adding
	if len(target) < len(without(was.Replicas, was.Adding)) {
		need = target
	}
	for _, id := range need {
		if !slices.Contains(now.ISR, id) {
			s.v.Failf("I33", now.Name(), "the reassignment to %v ends with the ISR %v, without %d (metadata offset %d)", now.Replicas, now.ISR, id, at)
		}
	}
}

// ended reports whether a reassignment is over, done or taken back.
func ended(was, now *Partition) bool {
	return len(was.Adding)+len(was.Removing) > 0 && len(now.Adding)+len(now.Removing) == 0
}

// target is what the replicas are when a reassignment is done.
func target(p *Partition) []int32 { return without(p.Replicas, p.Removing) }

func without(list, gone []int32) []int32 {
	return slices.DeleteFunc(slices.Clone(list), func(id int32) bool { return slices.Contains(gone, id) })
}

// same compares as sets.
func same(a, b []int32) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(id int32) bool { return !slices.Contains(b, id) })
}

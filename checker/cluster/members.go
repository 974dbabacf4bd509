package cluster

import (
	"fmt"
	"slices"
)

// checkPartition is I8, I9 for partitions, and that each replica has a broker of its own (R8), after a batch of records that changed it.
func (s *State) checkPartition(p *Partition, at int64) {
	fail := func(invariant, format string, args ...any) {
		s.v.Failf(invariant, p.Name(), "%s (metadata offset %d: replicas %v, ISR %v, ELR %v, leader %d in epoch %d, partition epoch %d)",
			fmt.Sprintf(format, args...), at, p.Replicas, p.ISR, p.ELR, p.Leader, p.LeaderEpoch, p.Epoch)
	}
	if leader, ok := p.leaders[p.LeaderEpoch]; ok && leader != p.Leader {
		fail("I9", "broker %d led in this epoch before", leader)
	}
	p.leaders[p.LeaderEpoch] = p.Leader
	for i, id := range p.Replicas {
		if slices.Contains(p.Replicas[i+1:], id) {
			fail("R8", "two replicas are on broker %d", id)
		}
	}
	for i, id := range p.ISR {
		if !slices.Contains(p.Replicas, id) {
			fail("I8", "%d of the ISR is no replica", id)
		}
		if slices.Contains(p.ISR[i+1:], id) || slices.Contains(p.ELR, id) {
			fail("I8", "%d is in the ISR twice, or eligible as well", id)
		}
	}
	for _, id := range p.ELR {
		if !slices.Contains(p.Replicas, id) {
			fail("I8", "eligible leader %d is no replica", id)
		}
	}
	for _, id := range slices.Concat(p.wasISR, p.wasELR) {
		if s.forgets(p, id) {
			fail("I8", "broker %d was in the ISR %v or eligible %v, nothing happened to it, and it may not lead any more", id, p.wasISR, p.wasELR)
		}
	}
	if len(p.ISR) >= s.MinISR(p) && len(p.ELR) > 0 {
		fail("I8", "there are eligible leaders beside an ISR of min.insync.replicas %d", s.MinISR(p))
	}
	if p.Leader >= 0 && !slices.Contains(p.ISR, p.Leader) {
		fail("I8", "the leader is not in the ISR")
	}
	for _, id := range p.ISR {
		b := s.Broker(id)
		switch joins := !s.loading && !slices.Contains(p.wasISR, id); {
		case joins && s.elrEnds && p.staysLast(id):
		case joins && (b == nil || b.Fenced || b.Shutting):
			fail("I8", "broker %d joins the ISR, which was %v, fenced or shutting down: %+v", id, p.wasISR, b)
		case joins && p.lost(b):
			fail("I8", "broker %d joins the ISR, which was %v, and has lost the directory of its replica", id, p.wasISR)
		case p.Leader == id && (b == nil || b.Fenced):
			fail("I8", "the leader is fenced: %+v", b)
		case b != nil && p.lost(b) && len(p.ISR) > 1: // the last member stays where nobody keeps eligible leaders
			fail("I8", "broker %d is in the ISR, and its replica is in a directory that it has not", id)
		}
	}
}

// forgets reports whether a broker that was in the ISR or eligible is neither without a reason: an
// ISR that is large enough, its new start, a reassignment or an unclean election in the same batch.
func (s *State) forgets(p *Partition, id int32) bool {
	switch {
	case s.loading, !s.ELR(), s.elrEnds, len(p.ISR) >= s.MinISR(p), p.stranger == p.LeaderEpoch && p.LeaderEpoch > p.wasEpoch:
		return false
	case slices.Contains(p.ELR, id), slices.Contains(p.ISR, id), !slices.Contains(p.Replicas, id):
		return false
	}
	return s.Broker(id) != nil && !slices.Contains(s.came, id)
}

// lost reports whether the broker's replica is in a directory that it does not have: one that
// it did not register, or that it reported since. Ids below 100 name none, but for 2, lost.
func (p *Partition) lost(b *Broker) bool {
	at := slices.Index(p.Replicas, b.ID)
	if at < 0 || at >= len(p.dirs) {
		return false
	}
	dir := p.dirs[at]
	if (ID{15: dir[15]}) == dir && dir[15] < 100 {
		return dir[15] == 2
	}
	return len(b.dirs) > 0 && !slices.Contains(b.dirs, dir)
}

// staysLast reports whether a broker is the last member of the ISR that it would have been all
// along without eligible leader replicas: nobody else was in it, nobody leads, and it was the
// one that could be elected.
func (p *Partition) staysLast(id int32) bool {
	return len(p.wasISR) == 0 && len(p.ISR) == 1 && p.Leader < 0 && slices.Contains(p.wasEligible, id)
}

// checkFenced is I8 for brokers that are fenced: they are in no ISR, unless they are the last
// member of one and nobody keeps eligible leaders.
func (s *State) checkFenced(at int64) {
	for _, p := range s.Partitions {
		for _, id := range p.ISR {
			if b := s.Broker(id); (b == nil || b.Fenced) && (len(p.ISR) > 1 || s.ELR()) {
				s.v.Failf("I8", p.Name(), "broker %d is fenced or gone and in the ISR %v (metadata offset %d)", id, p.ISR, at)
			}
		}
	}
}

// checkReturned is I8 for brokers that come back: without the directory of a replica they have
// nothing of it, however cleanly they stopped, and are not eligible.
func (s *State) checkReturned(at int64) {
	for _, p := range s.Partitions {
		for _, id := range p.ELR {
			if b := s.Broker(id); b != nil && slices.Contains(s.anew, id) && p.lost(b) {
				s.v.Failf("I8", p.Name(), "broker %d came back without the directory of its replica, and is eligible: the ISR is %v, the ELR %v (metadata offset %d)", id, p.ISR, p.ELR, at)
			}
		}
	}
}

package controller

import (
	"slices"

	"seedlog/node/meta"
)

// Eligible leader replicas (KIP-966): who surely has everything below the high watermark,
// although it is not in the ISR.
//
//	ISR member leaves, ISR stays ≥ min.insync.replicas    gone
//	ISR member leaves, ISR below it                        joins the ELR
//	stopped uncleanly                                      leaves ISR and ELR
//	ISR ≥ min.insync.replicas again                        the ELR is empty
//	ISR and ELR empty                                      the last known leader is remembered,
//	                                                       and elected when it comes back
//
// It works because the high watermark stands still while the ISR is too small. A leader that
// has not read a higher min.insync.replicas yet would move it nevertheless, once its proposal is
// accepted. So no leader gets an ISR that is too small before it is known to have read the
// setting; it asks again. Leaders that come by the log have read it.

// elrEnabled reports whether eligible leader replicas are kept.
func (s *State) elrEnabled() bool {
	return s.image.Feature(meta.ELRVersionFeature) >= 1 && s.image.MetadataVersion() >= meta.MetadataVersion40IV1
}

// isrSuffices reports whether the high watermark may move with this ISR.
func (c *change) isrSuffices() bool { return len(c.isr) >= c.effectiveMinISR() }

// effectiveMinISR is min.insync.replicas, to which the number of replicas is a limit.
func (c *change) effectiveMinISR() int { return min(c.minISR, len(c.replicas)) }

// lags reports whether the broker, as far as it said, has not read all that was set of
// min.insync.replicas. A new controller has heard nothing yet, and takes all for lagging.
func (s *State) lags(broker int32) bool {
	x := s.sessions[broker]
	return x == nil || x.offset < s.minISRSetAt
}

// populateELR moves those who leave an ISR that is too small into the ELR.
func (c *change) populateELR() {
	if !c.elr || c.isrSuffices() {
		c.targetELR = nil
		return
	}
	candidates := slices.Concat(c.partition.ELR, c.partition.ISR)
	slices.Sort(candidates)
	var elr []int32
	for _, b := range slices.Compact(candidates) {
		if !slices.Contains(c.isr, b) && b != c.uncleanlyStopped && slices.Contains(c.replicas, b) {
			elr = append(elr, b)
		}
	}
	c.targetELR = elr
}

// dropNeedlessELR empties the ELR where one in-sync replica is all that is asked for.
func (c *change) dropNeedlessELR() {
	if c.isrSuffices() {
		c.targetELR = nil
	}
}

// keepLastMember: without ELR the last member stays in the ISR, for nobody else would know
// who it was.
func (c *change) keepLastMember() {
	if !c.elr && len(c.isr) == 0 {
		c.isr = within(c.partition.ISR, c.replicas)
	}
}

// lastKnown is who led when the ISR became empty, forgotten with a new leader. Where the ISR
// had no leader any more, each of its members is as good; so is who was eligible last, where the
// one who led is no replica any more.
func (c *change) lastKnown(leader int32) []int32 {
	p := c.partition
	switch {
	case !c.elr || leader >= 0:
		return nil
	case len(c.isr) == 0 && len(p.ISR) > 0 && p.Leader >= 0:
		return within([]int32{p.Leader}, c.replicas)
	case len(c.isr) == 0 && len(p.ISR) > 0:
		return within(p.ISR[:1], c.replicas)
	}
	last := within(p.LastKnownELR, c.replicas)
	if eligible := within(p.ELR, c.replicas); len(last)+len(c.isr)+len(c.targetELR) == 0 && len(eligible) > 0 {
		return eligible[:1]
	}
	return last
}

// elrBegins is what the cluster needs when eligible leader replicas begin to be kept: one
// value of min.insync.replicas for all, and no fenced member in an ISR.
func (s *State) elrBegins() []meta.Record {
	var out []meta.Record
	if _, set := s.image.Config(meta.BrokerResource, "").Get(minISRName); !set {
		value := decimal(s.defaults.MinInsyncReplicas)
		out = append(out, minISRRecord("", &value))
	}
	for r, c := range s.image.Configs() {
		if _, set := c.Get(minISRName); set && r.Type == meta.BrokerResource && r.Name != "" {
			out = append(out, minISRRecord(r.Name, nil))
		}
	}
	return out
}

func minISRRecord(broker string, value *string) meta.Record {
	return meta.Record{Body: &meta.ConfigRecord{ResourceType: meta.BrokerResource, ResourceName: broker, Name: minISRName, Value: value}}
}

// fencedLeaveISR takes the last members that are away out of the ISR: they are eligible.
func (s *State) fencedLeaveISR() []meta.Record {
	var out []meta.Record
	for t := range s.image.Topics() {
		for id, p := range t.Partitions {
			c := s.begin(t, int32(id))
			c.isr = slices.DeleteFunc(slices.Clone(p.ISR), func(b int32) bool { return !s.active(b) })
			out = s.appendChange(out, c)
		}
	}
	return out
}

// elrEnds is what becomes of the ELR when it is kept no more. Where it was all there was,
// the best of those that may lead is the last member of the ISR again; the last known
// leader, of whom nobody knows whether it has everything, recovers.
func (s *State) elrEnds() []meta.Record {
	var out []meta.Record
	for t := range s.image.Topics() {
		for id, p := range t.Partitions {
			if len(p.ELR) == 0 && len(p.LastKnownELR) == 0 {
				continue
			}
			r := meta.NewPartitionChange(t.ID, int32(id))
			r.EligibleLeaderReplicas, r.LastKnownELR = changed(p.ELR, nil), changed(p.LastKnownELR, nil)
			if len(p.ISR) == 0 {
				if eligible := within(p.Replicas, p.ELR); len(eligible) > 0 {
					r.ISR = eligible[:1]
				} else if len(p.LastKnownELR) > 0 {
					r.ISR = p.LastKnownELR[:1]
					r.LeaderRecoveryState = 1
				}
			}
			out = append(out, s.partitionRecord(r))
		}
	}
	return out
}

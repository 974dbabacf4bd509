package controller

import (
	"slices"

	"seedlog/node/meta"
)

// election is how far a change may go to find a leader.
type election uint8

const (
	// electOnline keeps a leader that may lead, and else takes the first replica that may.
	electOnline election = iota
	// electPreferred takes the first replica wherever it may lead.
	electPreferred
	// electUnclean takes any live replica before none.
	electUnclean
)

// elect finds a leader, and adapts ISR, ELR and recovery to how it was found.
func (c *change) elect() (leader int32) {
	leader, unclean := c.leader()
	switch {
	case unclean:
		c.isr, c.targetELR, c.recovery = []int32{leader}, nil, 1
	case leader >= 0 && len(c.isr) == 0: // from the ELR
		c.isr, c.targetELR = []int32{leader}, without(c.targetELR, leader)
		c.dropNeedlessELR()
	}
	return leader
}

// leader is who should lead, or NoLeader, and whether it may have lost records.
func (c *change) leader() (broker int32, unclean bool) {
	if c.election == electPreferred && c.mayBeElected(c.replicas[0]) {
		return c.replicas[0], false
	}
	if c.mayBeElected(c.partition.Leader) {
		return c.partition.Leader, false
	}
	for _, b := range c.replicas {
		if c.mayBeElected(b) {
			return b, false
		}
	}
	if b, ok := c.lastKnownLeader(); ok {
		return b, true
	}
	if c.election == electUnclean {
		for _, b := range c.replicas {
			if c.acceptable(b) {
				return b, true
			}
		}
	}
	return meta.NoLeader, false
}

// mayBeElected reports whether the broker may lead without losing anything: it is in the
// ISR, or in the ELR while the ISR is empty.
func (c *change) mayBeElected(b int32) bool {
	eligible := slices.Contains(c.isr, b) || len(c.isr) == 0 && slices.Contains(c.targetELR, b)
	return b >= 0 && eligible && c.acceptable(b)
}

// lastKnownLeader is who led last, once nobody is left who surely has everything.
func (c *change) lastKnownLeader() (int32, bool) {
	last := c.partition.LastKnownELR
	if !c.elr || len(c.isr) > 0 || len(c.targetELR) > 0 || len(last) != 1 {
		return 0, false
	}
	return last[0], slices.Contains(c.replicas, last[0]) && c.acceptable(last[0])
}

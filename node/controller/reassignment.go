package controller

import (
	"slices"

	"seedlog/node/meta"
)

// A reassignment (KIP-455) takes three steps:
//
//	begin      replicas = target, then those to leave; adding and removing say which
//	wait       the leaders bring the added replicas into the ISR with AlterPartition
//	complete   the removed replicas go, in the change that brings the last one in
//
// While it runs, the replicas it began with stay; cancelling drops the added ones.

func reassigning(p *meta.Partition) bool {
	return len(p.AddingReplicas) > 0 || len(p.RemovingReplicas) > 0
}

// origin is what the replicas were before the reassignment.
func origin(p *meta.Partition) []int32 { return without(p.Replicas, p.AddingReplicas...) }

// target is what the replicas will be.
func target(p *meta.Partition) []int32 { return without(p.Replicas, p.RemovingReplicas...) }

// reassign makes replicas the target, whatever the target was before. Replicas that an
// earlier reassignment added and this one does not want are dropped at once.
func (c *change) reassign(replicas []int32) {
	was := origin(c.partition)
	c.removing = without(was, replicas...)
	c.adding = without(replicas, was...)
	c.replicas = slices.Concat(replicas, c.removing)
	c.isr = within(c.isr, c.replicas)
}

// completeReassignment ends the reassignment once nothing depends on those that leave.
func (c *change) completeReassignment() {
	if len(c.adding) == 0 && len(c.removing) == 0 {
		return
	}
	stay := without(c.replicas, c.removing...)
	isr := without(c.isr, c.removing...)
	if !c.mayComplete(stay, isr) {
		return
	}
	c.replicas, c.isr = stay, isr
	c.adding, c.removing = nil, nil
}

// mayComplete: every added replica is in sync, and all of them where they become fewer, for
// then copies are lost. While fewer than min.insync.replicas are in sync, nobody goes who
// surely has everything: of a record that so many have, so many keep a copy. And someone in
// sync leads then: an unclean election would put another in its place.
func (c *change) mayComplete(stay, isr []int32) bool {
	shrinks := len(c.removing) > len(c.adding)
	needed := within(c.removing, slices.Concat(c.partition.ISR, c.partition.ELR, c.isr))
	enough := len(isr) >= min(c.minISR, len(stay)) || len(needed) == 0
	led := slices.ContainsFunc(isr, c.acceptable)
	return led && enough && containsAll(isr, c.adding) && (!shrinks || containsAll(isr, stay))
}

// losesData reports whether nobody is left, of those that the change keeps, who surely has
// everything, although there is someone now.
func (c *change) losesData() bool {
	p := c.partition
	kept := func(list []int32) bool { return len(within(list, c.replicas)) > 0 }
	switch {
	case len(p.ISR) > 0:
		// Those in the ELR have everything, too; but it must be one that can serve.
		return !kept(p.ISR) && !slices.ContainsFunc(within(p.ELR, c.replicas), c.acceptable)
	case len(p.ELR) > 0:
		return !kept(p.ELR)
	}
	return len(p.LastKnownELR) > 0 && !kept(p.LastKnownELR)
}

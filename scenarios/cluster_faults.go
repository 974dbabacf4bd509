package scenarios

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"seedlog/disk"
	"seedlog/sim/simdisk"
)

// moreClasses are the faults of a cluster.
func (r *Run) moreClasses(p *plan) []*class {
	if r.cluster == nil || len(r.servers) < 2 {
		return nil
	}
	c := &clusterPlan{plan: p, c: r.cluster}
	classes := []*class{
		{name: "broker-partition", once: c.cut},
		{name: "isolated-broker", once: c.isolate},
		{name: "broker-clog", once: c.clogBrokers},
		{name: "controller-kill", once: c.killController},
		{name: "controller-pause", once: c.pauseController},
		{name: "kill-several", once: c.killSeveral},
		{name: "power-loss-of-several", once: c.powerLossOfSeveral},
		{name: "rolling-restart", once: c.roll},
	}
	if slices.ContainsFunc(r.servers, c.mayWipe) {
		classes = append(classes, &class{name: "wiped-disk", once: c.wipe})
	}
	return append(classes, c.levelClasses()...)
}

// mayWipe reports whether a machine's disk may be replaced in this run at all: one of a static
// quorum cannot be told from itself with an empty disk, and would vote again; nor could voters
// that change at will be told from those that went with their disks.
func (c *clusterPlan) mayWipe(s *server) bool {
	return !s.voter && c.c.voting != changingVoters || c.c.voting == replacedVoters
}

// spares reports whether the metadata quorum can do without the machine's disk: it has no vote,
// or all first voters have theirs with the disks of now, so that whatever of an operator's
// changes comes late changes nothing.
func (c *clusterPlan) spares(s *server) bool {
	q := c.c.ghost.quorum
	if !s.voter {
		return true
	}
	for _, o := range c.r.servers {
		if o.voter && (!q.Votes(o.id) || o.formatting) {
			return false
		}
	}
	return true
}

// clusterPlan is the part of a plan that strikes several nodes, or what is between them.
type clusterPlan struct {
	*plan
	c       *clusterRun
	rolling bool
}

// two draws two servers.
func (c *clusterPlan) two(rng *rand.Rand) (a, b *server) {
	n := len(c.r.servers)
	i := rng.IntN(n)
	j := (i + 1 + rng.IntN(n-1)) % n
	return c.r.servers[i], c.r.servers[j]
}

// cut cuts the link between two brokers, one way or both.
func (c *clusterPlan) cut(rng *rand.Rand) (fired, effective bool) {
	a, b := c.two(rng)
	net := c.r.World.Net
	net.Partition(a.Name, b.Name)
	if rng.IntN(2) == 0 {
		net.Partition(b.Name, a.Name)
	}
	c.after(drawn(rng, 50*time.Millisecond, 15*time.Second), func() {
		net.Heal(a.Name, b.Name)
		net.Heal(b.Name, a.Name)
	})
	return true, a.Up() && b.Up()
}

// isolate cuts a broker off from all others: what it says, what it hears, or both. Clients may
// still reach it.
func (c *clusterPlan) isolate(rng *rand.Rand) (fired, effective bool) {
	s := c.pick(rng)
	if k := rng.IntN(2); k == 0 {
		if leader := c.c.controller(); leader != nil {
			s = leader
		}
	}
	how, net := rng.IntN(3), c.r.World.Net
	for _, o := range c.r.servers {
		if o == s {
			continue
		}
		if how != 1 {
			net.Partition(s.Name, o.Name)
		}
		if how != 0 {
			net.Partition(o.Name, s.Name)
		}
	}
	c.after(drawn(rng, 100*time.Millisecond, 20*time.Second), func() {
		for _, o := range c.r.servers {
			net.Heal(s.Name, o.Name)
			net.Heal(o.Name, s.Name)
		}
	})
	return true, s.Up()
}

func (c *clusterPlan) clogBrokers(rng *rand.Rand) (fired, effective bool) {
	a, b := c.two(rng)
	c.r.World.Net.Clog(a.Name, b.Name)
	c.after(drawn(rng, 50*time.Millisecond, 15*time.Second), func() { c.r.World.Net.Heal(a.Name, b.Name) })
	return true, a.Up() && b.Up()
}

func (c *clusterPlan) killController(*rand.Rand) (fired, effective bool) {
	s := c.c.controller()
	if s == nil || !s.Up() {
		return false, false
	}
	c.down(s, false)
	return true, true
}

func (c *clusterPlan) pauseController(rng *rand.Rand) (fired, effective bool) {
	s := c.c.controller()
	if s == nil || !s.Up() {
		return false, false
	}
	s.Pause()
	c.after(drawn(rng, 200*time.Millisecond, 15*time.Second), s.Resume)
	return true, true
}

// some draws two servers or more.
func (c *clusterPlan) some(rng *rand.Rand) []*server {
	list := make([]*server, 0, len(c.r.servers))
	for _, i := range rng.Perm(len(c.r.servers))[:2+rng.IntN(len(c.r.servers)-1)] {
		list = append(list, c.r.servers[i])
	}
	return list
}

func (c *clusterPlan) killSeveral(rng *rand.Rand) (fired, effective bool) {
	n := 0
	for _, s := range c.some(rng) {
		if s.Up() {
			c.down(s, false)
			n++
		}
	}
	return n > 1, n > 1
}

// powerLossOfSeveral takes the power of several machines at one instant. Within the budget it
// is only those whose copies are not needed.
func (c *clusterPlan) powerLossOfSeveral(rng *rand.Rand) (fired, effective bool) {
	n, before, after := 0, int64(0), int64(0)
	for _, s := range c.some(rng) {
		if !s.Up() || !c.r.afford(s) {
			continue
		}
		before += s.Disk.Count(simdisk.PowerLost).Effective
		c.down(s, true)
		after += s.Disk.Count(simdisk.PowerLost).Effective
		n++
	}
	return n > 1, n > 1 && after > before
}

// wipe replaces a disk, of one of those whose copies are not needed.
func (c *clusterPlan) wipe(rng *rand.Rand) (fired, effective bool) {
	c.c.ghost.look()
	var able []*server
	for _, s := range c.r.servers {
		if c.mayWipe(s) && c.spares(s) && s.Up() && c.r.afford(s) {
			able = append(able, s)
		}
	}
	if len(able) == 0 {
		return false, false
	}
	s := able[rng.IntN(len(able))]
	if c.c.ghost.quorum.Votes(s.id) {
		c.r.World.Probe("voter-wiped")
	}
	s.guard.crashing(false)
	s.Kill()
	s.Disk.Wipe()
	s.Disk.SetCapacity(diskBytes)
	s.Disk.SetReadOnly(false)
	c.c.ghost.wiped(s)
	s.formatting = true
	c.formatAgain(s, drawn(rng, 100*time.Millisecond, 3*time.Second))
	return true, true
}

// formatAgain formats a new disk and starts the node after a rest. Where a fault of the disk
// strikes, the operator tries once more, with nothing of the first attempt.
func (c *clusterPlan) formatAgain(s *server, rest time.Duration) {
	spec, err := c.c.formatSpec(s)
	if err != nil {
		c.r.Failf("scenario", s.Name, "format: %v", err)
		return
	}
	s.StartFormat(spec, func(err error) {
		switch {
		case err == nil:
			s.formatting = false
			c.bootIn(s, rest)
		case errors.Is(err, disk.ErrIO) || errors.Is(err, disk.ErrNoSpace) || errors.Is(err, disk.ErrReadOnly):
			c.r.World.Sched.At(c.r.World.Now().Add(rest), func() {
				s.Disk.Wipe()
				c.formatAgain(s, rest)
			})
		default:
			c.r.Failf("scenario", s.Name, "format: %v", err)
		}
	})
}

// roll restarts one node after the other, cleanly.
func (c *clusterPlan) roll(rng *rand.Rand) (fired, effective bool) {
	if c.rolling {
		return false, false
	}
	c.rolling = true
	c.rollFrom(rng, 0)
	return true, true
}

func (c *clusterPlan) rollFrom(rng *rand.Rand, i int) {
	if i == len(c.r.servers) {
		c.rolling = false
		return
	}
	s := c.r.servers[i]
	if s.Ready() {
		s.Stop()
		c.r.World.Probe("rolling-restart")
	}
	c.after(drawn(rng, 500*time.Millisecond, 5*time.Second), func() { c.rollFrom(rng, i+1) })
}

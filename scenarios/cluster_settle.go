package scenarios

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"seedlog/checker"
)

// wholeWithin is how long a healed cluster has to elect leaders and to fill every ISR.
const wholeWithin = 3 * time.Minute

// settleCluster is settle for several nodes: heal, require named conditions, compare the
// replicas, stop, judge.
func (r *Run) settleCluster(w *Workload) {
	if r.over() {
		r.complain()
		return
	}
	r.World.Phase("liveness")
	r.stopped = true
	r.heal()
	c := r.cluster
	if !r.require("a controller is elected and every node serves", readyWithin, r.serving) {
		return
	}
	if !r.requireThat("every partition has a leader and a full ISR", wholeWithin, c.whole) {
		return
	}
	if w != nil && !r.require("every client gets its answers", finishWithin, r.mended(w.Done)) {
		return
	}
	if !r.drain() || !r.requireThat("every partition has a leader and a full ISR, with nobody writing", wholeWithin, c.whole) {
		return
	}
	final, ok := r.readAll()
	if !ok {
		return
	}
	topics, ok := r.readCatalog()
	if !ok {
		r.complain()
		return
	}
	if !r.requireThat("the replicas become equal", wholeWithin, c.equal) {
		return
	}
	r.World.Phase("judgement")
	c.ghost.check()
	if !r.stopCleanly() {
		r.complain()
		return
	}
	c.ghost.check()
	r.verdict.Merge(c.judge(final))
	c.judgeCatalog(topics)
}

// requireThat is require for a condition that says what is pending.
func (r *Run) requireThat(what string, limit time.Duration, pending func() []string) bool {
	var last []string
	step := r.World.Now()
	ok := r.require(what, limit, r.mended(func() bool {
		if now := r.World.Now(); now >= step {
			last, step = pending(), now.Add(100*time.Millisecond)
		}
		return last != nil && len(last) == 0
	}))
	if !ok && r.World.Failure() == nil {
		for i, s := range last {
			if i == 5 {
				break
			}
			r.Failf("liveness", what, "%s", s)
		}
	}
	return ok
}

// whole lists the partitions that lack a leader or a member of the ISR, or whose reassignment
// goes on.
func (c *clusterRun) whole() []string {
	c.ghost.look()
	pending := []string{}
	state := c.ghost.quorum.State
	if len(state.Partitions) == 0 {
		pending = append(pending, "no partition is known")
	}
	for _, p := range state.Partitions {
		if p.Leader < 0 || len(p.ISR) != len(p.Replicas) || len(p.Adding)+len(p.Removing) > 0 {
			pending = append(pending, fmt.Sprintf("%s: replicas %v, ISR %v, ELR %v, leader %d in epoch %d, adding %v, removing %v; logs end at %v",
				p.Name(), p.Replicas, p.ISR, p.ELR, p.Leader, p.LeaderEpoch, p.Adding, p.Removing, c.ghost.replicas.Ends(p.Name())))
		}
	}
	return pending
}

// equal lists the partitions whose replicas are not equal yet. Nobody writes any more.
func (c *clusterRun) equal() []string {
	c.ghost.look()
	pending := []string{}
	for _, p := range c.ghost.quorum.State.Partitions {
		if why := c.ghost.replicas.Differ(p); why != "" {
			pending = append(pending, why)
		}
	}
	return pending
}

// judge compares the stopped brokers' disks with each other and with the history.
func (c *clusterRun) judge(final int) checker.Verdict {
	r := c.r
	j := ClusterJudge{
		Rec: r.Rec, Dead: r.dead, Interval: r.interval, Segment: r.segment, Reader: final,
		StartsKept:      !slices.ContainsFunc(r.servers, func(s *server) bool { return s.replaced || s.forgotStarts() }),
		Unclean:         make(map[string]bool),
		Anew:            make(map[string]map[int32]int64),
		ProducersExpire: r.Config.ProducerIDExpirationMs <= r.World.Now().Sub(0).Milliseconds()+c.jumped()+clocksApart.Milliseconds(),
	}
	for _, s := range r.servers {
		j.Nodes = append(j.Nodes, s.guard.Judge)
	}
	for _, p := range c.ghost.quorum.State.Partitions {
		j.Anew[p.Name()] = c.ghost.replicas.LedAnew(p.Name())
		j.Unclean[p.Name()] = p.Strange()
	}
	return j.Verdict()
}

// jumped is the most that jumps put two of the clocks apart: with LogAppendTime a leader stamps a
// producer's batch by one, and whoever replicates it finds the producer idle by another.
func (c *clusterRun) jumped() int64 {
	most, second := int64(0), int64(0)
	for _, s := range c.r.servers {
		ms := s.JumpedMs()
		most, second = max(most, ms), max(second, min(most, ms))
	}
	return most + second
}

// judgeCatalog is I32 for directories of a cluster: each belongs to a replica that the metadata
// assigns to the node, by topic id, and each replica has one.
func (c *clusterRun) judgeCatalog(topics catalog) {
	state := c.ghost.quorum.State
	for _, s := range c.r.servers {
		found := make(map[string]bool)
		for _, path := range s.guard.Dirs() {
			name := base(path)
			found[name] = true
			id, stored := s.guard.topicID(path)
			p := state.Named(name)
			switch {
			case p == nil:
				c.r.Failf("I32", s.where(path), "is the directory of a partition that the metadata does not have")
			case stored && id != p.ID:
				c.r.Failf("I32", s.where(path), "belongs to topic id %x, the metadata says %x", id, p.ID)
			case !slices.Contains(p.Replicas, s.id):
				c.r.Failf("I32", s.where(path), "belongs to no replica: these are %v", p.Replicas)
			}
		}
		for _, p := range state.Partitions {
			if slices.Contains(p.Replicas, s.id) && !found[p.Name()] && !s.gone {
				c.r.Failf("I32", s.where(p.Name()), "has no directory")
			}
		}
	}
	for name := range topics { //order: any that is wrong
		if state.Named(name) == nil && !strings.HasPrefix(name, "__") {
			c.r.Failf("I32", name, "is in an answer and not in the metadata log")
		}
	}
}

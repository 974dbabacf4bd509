package scenarios

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"seedlog/checker"
	"seedlog/checker/history"
	"seedlog/checker/linear"
	"seedlog/checker/logfile"
	"seedlog/checker/store"
	"seedlog/scenarios/client"
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
func (c *clusterRun) judge(final int) (v checker.Verdict) {
	r := c.r
	h, topics, offsets, seen := r.Rec.Take()
	v.Merge(seen)
	expire := r.Config.ProducerIDExpirationMs <= r.World.Now().Sub(0).Milliseconds()+c.jumped()+clocksApart.Milliseconds()
	parsed := make(map[string][]*store.Partition) // by name, by server
	starts := make(map[string]int64)
	for _, s := range r.servers {
		g := s.guard
		for _, dir := range g.LogDirs {
			for name, off := range g.offsets(dir + "/log-start-offset-checkpoint") { //order: the largest of each
				starts[name] = max(starts[name], off)
			}
		}
		for _, path := range g.Dirs() {
			p, pv := g.Parse(path)
			v.Merge(pv)
			start := g.offsets(parent(path) + "/log-start-offset-checkpoint")[base(path)]
			v.Merge(p.Check(store.Options{
				IndexIntervalBytes: r.interval[topicOf(p.Name)], SegmentBytes: r.segment[topicOf(p.Name)], LogStartOffset: start, Closed: true, ProducersExpire: expire,
			}))
			parsed[p.Name] = append(parsed[p.Name], p)
		}
	}
	for i, hp := range h.Partitions {
		name := client.PartitionName(hp)
		h.Deleted[i] = r.dead[i]
		p := c.leaderCopy(name, parsed[name], &v)
		h.Logs[i] = resolve(p, starts[name])
		h.Epochs[i] = c.epochs(name)
	}
	h.Final, h.FinalClient, h.ProducersExpire = true, final, expire
	v.Merge(h.Check())
	v.Merge(linear.CheckTopics(topics))
	if r.Rec.PowerLosses() == 0 {
		v.Merge(linear.CheckOffsets(offsets))
	}
	return v
}

// jumped is the most that a clock jumped.
func (c *clusterRun) jumped() (ms int64) {
	for _, s := range c.r.servers {
		ms = max(ms, s.JumpedMs())
	}
	return ms
}

// leaderCopy takes a copy and compares the others with it, byte for byte (I1).
func (c *clusterRun) leaderCopy(name string, copies []*store.Partition, v *checker.Verdict) *store.Partition {
	if len(copies) == 0 {
		return nil
	}
	var first [][]byte
	for i, p := range copies {
		var raw [][]byte
		p.Batches(func(b *logfile.Batch) { raw = append(raw, b.Raw) })
		if i == 0 {
			first = raw
			continue
		}
		// Their log starts may differ, not their ends.
		n := min(len(first), len(raw))
		if !slices.EqualFunc(first[len(first)-n:], raw[len(raw)-n:], bytes.Equal) || p.LogEndOffset() != copies[0].LogEndOffset() {
			v.Failf("I1", name, "two replicas differ in the end: they end at %d and %d", copies[0].LogEndOffset(), p.LogEndOffset())
		}
	}
	longest := copies[0]
	for _, p := range copies {
		if len(p.Segments) > 0 && (len(longest.Segments) == 0 || p.Segments[0].Base < longest.Segments[0].Base) {
			longest = p
		}
	}
	return longest
}

// epochs are where the leader epochs of a partition begin.
func (c *clusterRun) epochs(name string) []history.EpochStart {
	for _, logs := range c.ghost.logs {
		for path, w := range logs { //order: all copies say the same
			if base(path) == name {
				return epochStarts(w.entries)
			}
		}
	}
	return nil
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

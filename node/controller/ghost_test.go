package controller

import (
	"fmt"
	"slices"

	"seedlog/node/meta"
)

// ghost is what the brokers of a cluster hold, beside what the controller decides about
// them: the records of each replica, as a number, and the true high watermark. It is the
// judge of the controller's decisions: whoever may be elected must have everything.
type ghost struct {
	*world
	nodes map[int32]*node
	logs  map[partitionKey]*ghostLog
	// joined is the epoch a member of an ISR had when it joined.
	joined map[memberKey]int64
	// proposed: the present command is a leader's, which has the answer before the metadata.
	proposed bool
	// voluntary is the partition whose reassignment the present command replaces or cancels.
	voluntary partitionKey
	before    *meta.Image
}

type partitionKey struct {
	topic meta.UUID
	id    int32
}

type memberKey struct {
	partitionKey
	broker int32
}

// node is a broker's machine.
type node struct {
	incarnation byte
	running     bool
	lossy       bool // lost something in its last crash, and has not registered since
	dirs        []meta.UUID
	broken      []meta.UUID
	// knows is what it has read of the metadata, as far as it matters: the settings.
	knows *meta.Image
}

// ghostLog is a partition's truth.
type ghostLog struct {
	hw   int
	leo  map[int32]int
	seen map[int32]int // what the leader knows of the others' logs
}

func (g *ghost) truth(k partitionKey) *ghostLog {
	l := g.logs[k]
	if l == nil {
		l = &ghostLog{leo: map[int32]int{}, seen: map[int32]int{}}
		g.logs[k] = l
	}
	return l
}

// serves reports whether the broker's replica can be written and read.
func (g *ghost) serves(p *meta.Partition, b int32) bool {
	n := g.nodes[b]
	if n == nil || !n.running || n.lossy {
		return false
	}
	dir, _ := p.Dir(b)
	return dir != meta.DirLost && !slices.Contains(n.broken, dir)
}

// produce appends to the leader and moves the high watermark by what it knows.
func (g *ghost) produce(k partitionKey, p *meta.Partition, n int) {
	if p.Leader < 0 || !g.serves(p, p.Leader) {
		return
	}
	l := g.truth(k)
	l.leo[p.Leader] += n
	l.seen[p.Leader] = l.leo[p.Leader]
	g.advance(k, p)
}

// fetch copies the leader's log to a replica, which first truncates what the leader has not.
func (g *ghost) fetch(k partitionKey, p *meta.Partition, b int32) {
	if p.Leader < 0 || b == p.Leader || !g.serves(p, p.Leader) || !g.serves(p, b) {
		return
	}
	l := g.truth(k)
	l.leo[b] = l.leo[p.Leader]
	l.seen[b] = l.leo[b]
	g.advance(k, p)
}

func (g *ghost) advance(k partitionKey, p *meta.Partition) {
	l, t := g.truth(k), g.state.image.TopicByID(k.topic)
	if len(p.ISR) < min(g.minISRKnownTo(p.Leader, t.Name), len(p.Replicas)) {
		return
	}
	low := l.seen[p.ISR[0]]
	for _, b := range p.ISR {
		low = min(low, l.seen[b])
	}
	l.hw = max(l.hw, low)
}

// minISRKnownTo is the setting that the leader goes by: it may lag.
func (g *ghost) minISRKnownTo(leader int32, topic string) int {
	view := *g.state
	view.image = g.nodes[leader].knows
	return view.minISR(topic)
}

// lose cuts what a broker has in the directories that match.
func (g *ghost) lose(b int32, keep func(leo int) int, match func(dir meta.UUID) bool) {
	for t := range g.state.image.Topics() {
		for id, p := range t.Partitions {
			dir, _ := p.Dir(b)
			if slices.Contains(p.Replicas, b) && match(dir) {
				l := g.truth(partitionKey{t.ID, int32(id)})
				l.leo[b] = min(l.leo[b], keep(l.leo[b]))
			}
		}
	}
}

// judge looks at what the last batch made of each partition.
func (g *ghost) judge(records []meta.Record) {
	changes := make(map[partitionKey][]*meta.PartitionChangeRecord)
	for _, r := range records {
		if c, ok := r.Body.(*meta.PartitionChangeRecord); ok {
			k := partitionKey{c.TopicID, c.PartitionID}
			changes[k] = append(changes[k], c)
		}
	}
	for t := range g.state.image.Topics() {
		for id, p := range t.Partitions {
			k := partitionKey{t.ID, int32(id)}
			old := g.before.Partition(t.ID, int32(id))
			if byLog := old == nil || old.Leader != p.Leader || old != p && !g.proposed; byLog && p.Leader >= 0 {
				g.nodes[p.Leader].knows = g.state.image // it leads, or has another ISR, because it read so
			}
			if old != nil {
				g.judgeEpochs(k, old, p, changes[k])
				g.judgeReassignment(k, t.Name, old, p)
				g.follow(k, old, p)
			}
			g.judgeMembers(k, p)
			g.judgeLeader(p)
		}
	}
	for b := range g.state.image.Brokers() {
		if old := g.before.Broker(b.ID); old != nil && b.Epoch < old.Epoch {
			g.t.Fatalf("broker %d: epoch %d after %d", b.ID, b.Epoch, old.Epoch)
		}
	}
	g.before = g.state.image
}

// judgeEpochs is I10, and that an epoch rises exactly when it must.
func (g *ghost) judgeEpochs(k partitionKey, old, now *meta.Partition, changes []*meta.PartitionChangeRecord) {
	if int(now.PartitionEpoch) != int(old.PartitionEpoch)+len(changes) {
		g.t.Fatalf("%v: partition epoch %d after %d and %d changes", k, now.PartitionEpoch, old.PartitionEpoch, len(changes))
	}
	bump := old.Leader != now.Leader || len(without(old.Replicas, now.Replicas...)) > 0
	rose := now.LeaderEpoch - old.LeaderEpoch
	if rose < 0 || bump != (rose > 0) || len(changes) == 1 && rose > 1 {
		g.t.Fatalf("%v: leader epoch %d after %d, with leader %d after %d and replicas %v after %v",
			k, now.LeaderEpoch, old.LeaderEpoch, now.Leader, old.Leader, now.Replicas, old.Replicas)
	}
}

// judgeReassignment is I33.
func (g *ghost) judgeReassignment(k partitionKey, topic string, old, now *meta.Partition) {
	if k == g.voluntary || !reassigning(old) {
		return
	}
	if reassigning(now) {
		if !slices.Equal(old.Replicas, now.Replicas) {
			g.t.Fatalf("%v: replicas %v after %v without being asked", k, now.Replicas, old.Replicas)
		}
		return
	}
	fail := func(why string) {
		g.t.Fatalf("%v: reassignment of %v (adding %v, removing %v) ended with ISR %v after %v: %s",
			k, old.Replicas, old.AddingReplicas, old.RemovingReplicas, now.ISR, old.ISR, why)
	}
	switch {
	case !slices.Equal(now.Replicas, target(old)):
		fail(fmt.Sprintf("with replicas %v", now.Replicas))
	case !containsAll(now.ISR, old.AddingReplicas):
		fail("an added replica is not in sync")
	case len(old.RemovingReplicas) > len(old.AddingReplicas) && !containsAll(now.ISR, target(old)):
		fail("there are fewer copies")
	case len(now.ISR) < min(g.state.minISR(topic), len(now.Replicas)) && len(within(slices.Concat(old.ISR, old.ELR), old.RemovingReplicas)) > 0:
		fail("below min.insync.replicas")
	}
}

// follow moves the ghost along: who leaves the replicas forgets, a new leader knows nothing
// of the others yet, and an election that may lose says so.
func (g *ghost) follow(k partitionKey, old, now *meta.Partition) {
	l := g.truth(k)
	for _, b := range without(old.Replicas, now.Replicas...) {
		delete(l.leo, b)
		delete(l.seen, b)
	}
	if now.LeaderEpoch == old.LeaderEpoch || now.Leader < 0 {
		return
	}
	if now.Leader != old.Leader {
		if now.LeaderRecoveryState == 1 || !g.state.elrEnabled() {
			l.hw = min(l.hw, l.leo[now.Leader]) // lawful, and marked; or the hole that ELR closes
		}
		l.seen = map[int32]int{now.Leader: l.leo[now.Leader]}
	}
}

// judgeMembers is I3, and that nobody stays in an ISR over a restart.
func (g *ghost) judgeMembers(k partitionKey, p *meta.Partition) {
	l := g.truth(k)
	elr := g.state.elrEnabled()
	for _, b := range slices.Concat(p.ISR, p.ELR) {
		n := g.nodes[b]
		if !elr || n.lossy || p.LeaderRecoveryState == 1 {
			continue
		}
		if l.leo[b] < l.hw {
			g.t.Fatalf("%v: %d may lead and has %d of %d records: %+v", k, b, l.leo[b], l.hw, *p)
		}
	}
	for b := range g.nodes {
		m := memberKey{k, b}
		if !slices.Contains(p.ISR, b) {
			delete(g.joined, m)
			continue
		}
		epoch := int64(-1) // the last member may even be unregistered
		if x := g.state.image.Broker(b); x != nil {
			epoch = x.Epoch
		}
		if was, in := g.joined[m]; in && was != epoch && (elr || len(p.ISR) > 1) {
			g.t.Fatalf("%v: %d stays in the ISR %v with epoch %d after %d", k, b, p.ISR, epoch, was)
		}
		g.joined[m] = epoch
	}
}

// judgeLeader: nobody waits while somebody may lead.
func (g *ghost) judgeLeader(p *meta.Partition) {
	if p.Leader >= 0 {
		return
	}
	candidates := p.ISR
	if len(candidates) == 0 {
		candidates = p.ELR
	}
	if len(candidates) == 0 {
		candidates = p.LastKnownELR
	}
	for _, b := range candidates {
		if g.state.active(b) && g.state.dirOnline(p, b) {
			g.t.Fatalf("%d could lead and does not: %+v", b, *p)
		}
	}
}

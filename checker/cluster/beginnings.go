package cluster

import "slices"

// Loss is what a new leader does not have.
type Loss struct {
	Name   string
	Offset int64
	Epoch  int32
	// Unclean: the leader, or one before it whose beginning was not judged, was no member, and the
	// topic allows that.
	Unclean bool
	// Wiped: the leader's disk was replaced.
	Wiped bool
	// Empty: the leader's log begins at Offset, with nothing: it knows of no producer either.
	Empty bool
	// At is when the leader began, as [Replicas.Began] was told.
	At uint64
}

// beginning is that of a leadership.
type beginning struct {
	node, epoch int32
	offset      int64
	leaves      int64 // the log of the leader before
	told        int64 // by then
	at          uint64
}

// Began takes the beginning of a leadership at an offset: one leader an epoch (I9). What the
// leader does not have is judged when the committed metadata has come as far as the leader's:
// what a look finds on the disks may lag behind. A leader of an epoch that is over already
// does not count: nobody follows it.
func (r *Replicas) Began(node int32, name string, epoch int32, offset int64, at uint64) {
	p := r.parts[name]
	if p == nil {
		return
	}
	if other, ok := p.began[epoch]; ok && other.node != node {
		r.v.Failf("I9", name, "nodes %d and %d lead in epoch %d", other.node, node, epoch)
	} else if !ok {
		p.began[epoch] = term{node, at, p.log(node).anew}
	}
	m := r.State.Find(p.id, index(name))
	switch {
	case m == nil:
		return
	case m.LeaderEpoch > epoch:
		r.leads(m, node, epoch)
		return
	}
	p.extend(m)
	p.unjudged = append(p.unjudged, beginning{node, epoch, offset, p.succeeds(node, epoch, offset), p.told, at})
}

// leads is I9 for who begins to lead: it is whom the metadata names, which may be nobody.
func (r *Replicas) leads(m *Partition, node, epoch int32) {
	if leader, ok := m.leaders[epoch]; ok && leader != node {
		r.v.Failf("I9", m.Name(), "node %d leads in epoch %d, and the metadata names %d", node, epoch, leader)
	}
}

// Losses judges the beginnings that the metadata has come to, and returns what was lost
// lawfully. A leader that begins below what was told to be committed lost it (I4), unless that
// is lawful:
//
//   - the topic allows unclean elections, and the leader was not a member before, or one was not
//     that was elected since the last beginning that was judged;
//   - or the leader itself crashed and lost it, and either as many replicas crashed since they
//     were last in the ISR as min.insync.replicas asks for, or there are no eligible leader
//     replicas to keep the last member out of the ISR, or were none as the others left.
func (r *Replicas) Losses() (losses []Loss) {
	for _, p := range r.list {
		m := r.State.Find(p.id, index(p.name))
		for len(p.unjudged) > 0 {
			b := p.unjudged[0]
			if m != nil && m.LeaderEpoch < b.epoch {
				break
			}
			p.unjudged = p.unjudged[1:]
			if m == nil {
				continue
			}
			r.leads(m, b.node, b.epoch)
			if loss, lost := r.lost(p, m, b); lost {
				losses = append(losses, loss)
			}
		}
	}
	return losses
}

// lost judges a beginning.
func (r *Replicas) lost(p *replicated, m *Partition, b beginning) (loss Loss, lost bool) {
	unclean := r.State.Unclean(m.Topic) && m.strangers(p.leads, b.epoch)
	p.leads = max(p.leads, b.epoch)
	lawful := p.crashed(b.node) && len(p.lossy) >= r.State.lossNeeds(m)
	offset := min(b.offset, p.agrees(b.node))
	if unclean { // who led before may still be told of, and tell, more
		// The leader may have records of its own where others committed: what was told there is gone, too.
		offset = min(offset, b.leaves)
	}
	if offset >= b.told && !lawful && !unclean {
		return loss, false
	}
	offset = min(offset, p.log(b.node).end())
	switch {
	case unclean, lawful: // of what is gone some may have been told to nobody yet
	default:
		r.v.Failf("I4", p.name, "node %d leads in epoch %d from %d on, and %d was told to be committed; min.insync.replicas %d, kept by %d, crashed: %s",
			b.node, b.epoch, offset, b.told, r.State.MinISR(m), m.kept, p.crashes())
	}
	p.told, p.cuts = min(p.told, offset), p.cuts+1
	p.committed = p.committed[:position(p.committed, offset)]
	for i := range p.logs {
		p.logs[i].checked = min(p.logs[i].checked, offset)
	}
	wiped := slices.ContainsFunc(p.lossy, func(c crash) bool { return c.node == b.node && c.wiped })
	l := p.log(b.node)
	empty := l.there && len(l.entries) == 0 && l.start == offset
	return Loss{Name: p.name, Offset: offset, Epoch: b.epoch, Unclean: unclean, Wiped: wiped, Empty: empty, At: b.at}, true
}

// LedIn is who has led a partition in an epoch, or -1.
func (r *Replicas) LedIn(name string, epoch int32) int32 {
	if p := r.parts[name]; p != nil {
		if t, ok := p.began[epoch]; ok {
			return t.node
		}
	}
	return -1
}

// Leader is who began the newest epoch of a partition, or -1.
func (r *Replicas) Leader(name string) int32 {
	newest, leader := int32(-1), int32(-1)
	if p := r.parts[name]; p != nil {
		for epoch, t := range p.began { //order: the largest
			if epoch > newest {
				newest, leader = epoch, t.node
			}
		}
	}
	return leader
}

// term is who leads in an epoch, and since when, as [Replicas.Began] was told.
type term struct {
	node int32
	at   uint64
	anew int64 // where its log had begun with nothing
}

// Anew notes that a replica's log has nothing, and no producer, and goes on at an offset: a
// follower without anything that its leader still has begins at the leader's log start, and one
// that a power loss left nothing at its own. What others have below, it does not know.
func (r *Replicas) Anew(node int32, name string, at int64) {
	if p := r.parts[name]; p != nil {
		p.log(node).anew = at
	}
}

// LedAnew are the leaders' epochs of a partition in which the leader's log had begun anew above
// offset 0, and where.
func (r *Replicas) LedAnew(name string) map[int32]int64 {
	led := make(map[int32]int64)
	if p := r.parts[name]; p != nil {
		for epoch, t := range p.began { //order: a map is made of it
			if t.anew > 0 {
				led[epoch] = t.anew
			}
		}
	}
	return led
}

// LedBefore is the newest epoch of a partition in which a node had begun to lead before at, or -1.
func (r *Replicas) LedBefore(name string, id ID, node int32, at uint64) int32 {
	newest := int32(-1)
	if p := r.parts[name]; p != nil && p.id == id {
		for epoch, t := range p.began { //order: the largest
			if t.node == node && t.at < at {
				newest = max(newest, epoch)
			}
		}
	}
	return newest
}

// Led reports whether a node had begun to lead a partition in some epoch from one on before at.
func (r *Replicas) Led(name string, node, from int32, at uint64) bool {
	p := r.parts[name]
	if p == nil {
		return false
	}
	for epoch, t := range p.began { //order: any of them
		if epoch >= from && t.node == node && t.at < at {
			return true
		}
	}
	return false
}

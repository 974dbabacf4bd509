package cluster

import (
	"cmp"
	"fmt"
	"slices"

	"seedlog/checker"
)

// Entry is one batch of a partition's log, by what names its content.
type Entry struct {
	Base, Last int64
	Epoch      int32
	CRC        uint32 // over all but offset and epoch
}

// Replicas is the partition logs of all machines, one committed log of each, and what was
// lost lawfully.
type Replicas struct {
	State *State
	v     *checker.Verdict
	parts map[string]*replicated
	list  []*replicated
}

// replicated is one partition, by the name of its directory and its topic's id.
type replicated struct {
	name  string
	id    ID
	named map[[2]int64]uint32
	logs  []replica
	// told is the largest high watermark that anybody was told of; committed is the log below it.
	told      int64
	committed []Entry
	// lossy are crashed replicas that have not come back to the ISR, in the order of their crashes.
	lossy    []crash
	began    map[int32]term // by epoch
	unjudged []beginning    // the committed metadata has not come to them
	leads    int32          // the newest epoch of a leader that others follow
	lineage  []origin       // the epochs of the newest leader's log, its own included
	// Cuts counts lawful losses.
	cuts int
}

type replica struct {
	entries []Entry
	start   int64 // of the first segment: where a log that is empty begins and ends
	there   bool
	checked int64 // compared with the committed log up to here
	floor   int64 // what lies below is deleted
	anew    int64 // where it began with nothing: of producers below it knows none
}

// crash is an unclean end of a replica.
type crash struct {
	node  int32
	epoch int64 // broker epoch when it came
	lost  bool  // it took some of the log
	wiped bool  // it took all, synced or not
	leads int32 // the newest epoch that somebody led in when it came
}

// NewReplicas watches partitions under a state of the metadata.
func NewReplicas(state *State, v *checker.Verdict) *Replicas {
	return &Replicas{State: state, v: v, parts: make(map[string]*replicated)}
}

func (r *Replicas) part(name string, id ID) *replicated {
	p := r.parts[name]
	if p == nil || p.id != id {
		p = &replicated{name: name, id: id, named: make(map[[2]int64]uint32), began: make(map[int32]term)}
		r.parts[name] = p
		r.list = append(slices.DeleteFunc(r.list, func(o *replicated) bool { return o.name == name }), p)
	}
	return p
}

func (p *replicated) log(node int32) *replica {
	for int(node) > len(p.logs) {
		p.logs = append(p.logs, replica{})
	}
	return &p.logs[node-1]
}

// See takes a replica's log as it is now, whose first segment begins at start: entries[:kept]
// are those of the last time. It is I2.
//
// What is left of a topic that was deleted, on the disk of a node that is down or has not come to
// that, is nothing of another one of its name.
func (r *Replicas) See(node int32, name string, id ID, start int64, entries []Entry, kept int) {
	if p := r.parts[name]; p != nil && p.id != id && r.State.deleted[id] {
		return
	}
	p := r.part(name, id)
	l := p.log(node)
	if kept < len(entries) {
		l.checked = min(l.checked, entries[kept].Base)
	}
	l.checked = min(l.checked, max(start, end(entries)))
	for _, e := range entries[kept:] {
		key := [2]int64{e.Base, int64(e.Epoch)}
		if crc, ok := p.named[key]; ok && crc != e.CRC {
			r.v.Failf("I2", name, "offset %d in epoch %d names two batches; one of them is node %d's", e.Base, e.Epoch, node)
		}
		p.named[key] = e.CRC
	}
	l.entries, l.start, l.there = entries, start, true
	if len(entries) > 0 && entries[0].Base < l.anew {
		l.anew = 0 // a crash brought back what was there before
	}
}

func end(entries []Entry) int64 {
	if n := len(entries); n > 0 {
		return entries[n-1].Last + 1
	}
	return 0
}

// end is where the log ends.
func (l *replica) end() int64 { return max(l.start, end(l.entries)) }

// Starts says where a replica's log starts: what its files have below is deleted, and need not be
// what others had there.
func (r *Replicas) Starts(node int32, name string, offset int64) {
	if p := r.parts[name]; p != nil {
		l := p.log(node)
		l.floor = max(l.floor, offset)
	}
}

// Gone says that a replica's directory is not there.
func (r *Replicas) Gone(node int32, name string, id ID) {
	if p := r.parts[name]; p != nil && p.id == id {
		*p.log(node) = replica{}
	}
}

// ID is the topic's of the log of a name.
func (r *Replicas) ID(name string) (id ID, ok bool) {
	if p := r.parts[name]; p != nil {
		return p.id, true
	}
	return id, false
}

// Told takes a high watermark that a client was told of, or the end of a record that it was
// told is committed.
func (r *Replicas) Told(name string, highWatermark int64) {
	if p := r.parts[name]; p != nil {
		p.told = max(p.told, highWatermark)
	}
}

// HighWatermark is the largest one that anybody was told of.
func (r *Replicas) HighWatermark(name string) int64 {
	if p := r.parts[name]; p != nil {
		return p.told
	}
	return 0
}

// Crashed notes the unclean end of a node: lost says of which of its replicas some of the log
// is gone.
func (r *Replicas) Crashed(node int32, lost func(name string) bool) {
	epoch := int64(-1)
	if b := r.State.Broker(node); b != nil {
		epoch = b.Epoch
	}
	for _, m := range r.State.Partitions {
		if !slices.Contains(m.Replicas, node) {
			continue
		}
		p := r.part(m.Name(), m.ID)
		was := false
		for i := range p.lossy {
			if p.lossy[i].node == node {
				was = true
				p.lossy[i].leads = p.leads
				p.lossy[i].epoch, p.lossy[i].lost = epoch, p.lossy[i].lost || lost(p.name)
			}
		}
		if !was {
			p.lossy = append(p.lossy, crash{node: node, epoch: epoch, lost: lost(p.name), leads: p.leads})
		}
	}
}

// Wiped notes that a node's disk was replaced by an empty one.
func (r *Replicas) Wiped(node int32) {
	r.Crashed(node, func(string) bool { return true })
	for _, p := range r.list {
		*p.log(node) = replica{}
		for i := range p.lossy {
			p.lossy[i].wiped = p.lossy[i].wiped || p.lossy[i].node == node
		}
	}
}

// Affords reports whether a loss of the node's unsynced data takes nothing that is committed:
// of each of its partitions so many other replicas keep it as the protocol needs.
func (r *Replicas) Affords(node int32) bool {
	for _, p := range r.list {
		m := r.State.Find(p.id, index(p.name))
		if m == nil || !slices.Contains(m.Replicas, node) {
			continue
		}
		others := 0
		for _, c := range p.lossy {
			if c.node != node && slices.Contains(m.Replicas, c.node) {
				others++
			}
		}
		if others+1 >= min(r.State.MinISR(m), m.kept) || !r.State.ELR() && len(m.ISR) < 2 {
			return false
		}
	}
	return true
}

// Check compares, for partitions without a pending change, each member of ISR and ELR that
// no crash has touched: its log reaches what was told to be committed, and holds it (I3, I1).
func (r *Replicas) Check(pending func(topic ID, index int32) bool, usable func(node int32) bool) {
	for _, p := range r.list {
		m := r.State.Find(p.id, index(p.name))
		if m == nil || pending(p.id, m.Index) {
			continue
		}
		if m.stranger > p.leads || len(p.unjudged) > 0 {
			continue // what it lost is seen where it, or who leads after it, begins
		}
		p.heal(r.State, m)
		p.extend(m)
		for node := int32(1); int(node) <= len(p.logs); node++ {
			if m.Member(node) && !p.crashed(node) && usable(node) {
				p.hold(r.v, node, "I3")
			}
		}
	}
}

// crashed reports whether a crash of the replica may have taken some of its log.
func (p *replicated) crashed(node int32) bool {
	return slices.ContainsFunc(p.lossy, func(c crash) bool { return c.node == node && c.lost })
}

// heal forgets the crashes of replicas that hold what is committed and are in the ISR again.
func (p *replicated) heal(s *State, m *Partition) {
	p.lossy = slices.DeleteFunc(p.lossy, func(c crash) bool {
		return !slices.Contains(m.Replicas, c.node) || p.back(s, m, c) && p.log(c.node).end() >= p.told
	})
}

// back reports whether another leader took a replica back into the ISR after it had registered anew.
// One that is elected itself, as the last member, which never left, or as the last that was eligible,
// is back when others follow it.
func (p *replicated) back(s *State, m *Partition, c crash) bool {
	b := s.Broker(c.node)
	if b == nil || b.Epoch <= c.epoch || !slices.Contains(m.ISR, c.node) || m.Leader < 0 {
		return false
	}
	return m.Leader != c.node && m.joined[c.node] > b.Epoch || p.leads > c.leads && p.began[p.leads].node == c.node
}

// extend makes the committed log longer, from a member that reaches far enough. While a stranger
// has been elected whose beginning is not judged yet, that is who led last: the stranger's log may
// be as long, and another.
func (p *replicated) extend(m *Partition) {
	from := end(p.committed)
	if m == nil || from >= p.told {
		return
	}
	members := m.ISR
	if m.stranger > p.leads {
		members = nil
		if t, ok := p.began[p.leads]; ok {
			members = []int32{t.node}
		}
	}
	for _, id := range members {
		l := p.log(id)
		if l.end() < p.told || p.crashed(id) {
			continue
		}
		for i := position(l.entries, from); i < len(l.entries) && l.entries[i].Last < p.told; i++ {
			p.committed = append(p.committed, l.entries[i])
		}
		return
	}
}

// position is the number of entries below an offset.
func position(entries []Entry, off int64) int {
	i, _ := slices.BinarySearchFunc(entries, off, func(e Entry, off int64) int { return cmp.Compare(e.Last+1, off+1) })
	return i
}

// hold compares a replica with the committed log.
func (p *replicated) hold(v *checker.Verdict, node int32, invariant string) {
	l := p.log(node)
	if e := l.end(); e < p.told {
		v.Failf(invariant, p.name, "node %d may be elected and ends at %d; %d was told to be committed", node, e, p.told)
		p.told = e // once
		p.committed = p.committed[:position(p.committed, e)]
		return
	}
	for i := position(l.entries, max(l.checked, l.floor)); i < len(l.entries); i++ {
		e := l.entries[i]
		if e.Last >= end(p.committed) {
			return
		}
		j := position(p.committed, e.Base)
		if c := p.committed[j]; c != e && c.Base <= e.Last && j >= 0 {
			v.Failf("I1", p.name, "node %d has batch %d-%d of epoch %d where the committed log has %d-%d of epoch %d", node, e.Base, e.Last, e.Epoch, c.Base, c.Last, c.Epoch)
			return
		}
		l.checked = e.Last + 1
	}
}

// agrees is up to where a replica has the committed log, what is not known of it included.
func (p *replicated) agrees(node int32) int64 {
	l := p.log(node)
	for i := 0; i < len(p.committed); i++ {
		c := p.committed[i]
		if c.Last < l.floor {
			continue
		}
		j := position(l.entries, c.Base)
		switch {
		case j == len(l.entries):
			return max(c.Base, l.end())
		case l.entries[j] != c && l.entries[j].Base <= c.Last:
			return c.Base
		}
	}
	return noOffset
}

// noOffset lies above all.
const noOffset = int64(1) << 62

func (p *replicated) crashes() string {
	out := ""
	for _, c := range p.lossy {
		out += fmt.Sprintf(" node %d (lost some: %v)", c.node, c.lost)
	}
	return "[" + out + " ]"
}

// index is the partition's number in a directory's name.
func index(name string) int32 {
	n := int32(0)
	for i := len(name) - 1; i >= 0 && name[i] >= '0' && name[i] <= '9'; i-- {
		n = 0
		for _, c := range name[i:] {
			n = n*10 + int32(c-'0')
		}
	}
	return n
}

// Ends is where the log of each node ends, by node id, of those that have one.
func (r *Replicas) Ends(name string) map[int32]int64 {
	out := make(map[int32]int64)
	if p := r.parts[name]; p != nil {
		for i, l := range p.logs {
			if l.there {
				out[int32(i+1)] = l.end()
			}
		}
	}
	return out
}

// Differ says how the replicas of a partition differ, or nothing: all end at one offset, with
// the same batches, though some may begin later than others, and what a log's files have below
// where it starts is deleted and need not be what others had there.
func (r *Replicas) Differ(m *Partition) string {
	p := r.parts[m.Name()]
	if p == nil || p.id != m.ID {
		return m.Name() + " has no directory"
	}
	first := p.log(m.Replicas[0])
	for _, id := range m.Replicas {
		l := p.log(id)
		if !l.there {
			return fmt.Sprintf("%s has no directory on node %d", m.Name(), id)
		}
		from := max(first.begins(), l.begins())
		if first.end() != l.end() || !slices.Equal(first.above(from), l.above(from)) {
			return fmt.Sprintf("%s ends at %d on node %d and at %d on node %d, or differs below", m.Name(), first.end(), m.Replicas[0], l.end(), id)
		}
	}
	return ""
}

// begins is where the log has its first record that is not deleted.
func (l *replica) begins() int64 {
	if len(l.entries) == 0 {
		return max(l.start, l.floor)
	}
	return max(l.entries[0].Base, l.floor)
}

// above lists the batches that reach an offset.
func (l *replica) above(offset int64) []Entry { return l.entries[position(l.entries, offset):] }

// Synced is I4 for a topic that acknowledges only what is synced: everything below an offset
// was told to be committed, so every member of the ISR has it durably, but for who crashed and
// was not taken back yet. Nothing is said while a change of the partition, or what a new leader
// lost, is still to be judged.
func (r *Replicas) Synced(m *Partition, below int64, pending func(topic ID, index int32) bool, durable func(node int32) bool) {
	p := r.parts[m.Name()]
	if p == nil || p.id != m.ID || pending(m.ID, m.Index) || m.stranger > p.leads || len(p.unjudged) > 0 || below > p.told {
		return
	}
	for _, id := range m.ISR {
		if !slices.ContainsFunc(p.lossy, func(c crash) bool { return c.node == id }) && !durable(id) {
			r.v.Failf("I4", m.Name(), "everything below %d was acknowledged as synced, and a power loss of node %d, of the ISR %v, would take it", below, id, m.ISR)
			return
		}
	}
}

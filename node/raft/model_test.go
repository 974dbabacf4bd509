package raft

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"seedlog/clock"
)

// The model is a few nodes with the simplest host there can be, on a network that loses,
// repeats, reorders and holds back, and disks that lose what was not synced. ghost is what is
// true of all of them together.

type entry struct {
	epoch  int32
	id     int // unique, so that agreement means the same record
	voters []Voter
}

type snapshot struct {
	id     SnapshotID
	voters *VoterSet // nil: as configured
}

// store is a node's disk: what is in it is the log of the core.
type store struct {
	start   int64
	entries []entry
	synced  int // entries that survive a crash
	snap    *snapshot
	state   ElectionState
}

func (d *store) Start() int64 { return d.start }

func (d *store) End() (int64, int32) {
	if n := len(d.entries); n > 0 {
		return d.start + int64(n), d.entries[n-1].epoch
	}
	if d.snap != nil {
		return d.start, d.snap.id.Epoch
	}
	return 0, 0
}

func (d *store) EpochEnd(epoch int32) (EpochEnd, bool) {
	for i := len(d.entries) - 1; i >= 0; i-- {
		if d.entries[i].epoch <= epoch {
			return EpochEnd{d.entries[i].epoch, d.start + int64(i) + 1}, true
		}
	}
	if d.snap != nil && d.snap.id.EndOffset == d.start && d.snap.id.Epoch <= epoch {
		return EpochEnd{d.snap.id.Epoch, d.start}, true
	}
	return EpochEnd{}, false
}

func (d *store) Snapshot() (SnapshotID, bool) {
	if d.snap == nil {
		return SnapshotID{}, false
	}
	return d.snap.id, true
}

func (d *store) end() int64 { return d.start + int64(len(d.entries)) }

type node struct {
	m     *model
	key   ReplicaKey
	disk  store
	core  *Core // nil: down
	boot  int
	queue []Event
	// pending are requests that wait for their answer: who asked.
	pending map[uint64]envelope
	nextID  uint64
	install *Install
}

type envelope struct {
	from, to int32
	boot     int // of the sender of the request
	seq      uint64
	body     Message // a request
	reply    *Reply  // or an answer
	records  []entry
	snap     *snapshot
}

type model struct {
	rnd     *rand.Rand
	now     clock.Instant
	nodes   []*node
	initial []Voter
	level   int16
	net     []envelope
	cut     map[[2]int32]bool
	calm    bool // no faults
	busy    bool // more changes of the voters, no snapshots
	nextRec int
	ghost   ghost
	stat    map[string]int
	log     []string
}

type voteKey struct {
	node  ReplicaKey
	epoch int32
}

type ghost struct {
	committed []entry
	leaders   map[int32]int32
	votes     map[voteKey]ReplicaKey
}

func newModel(seed uint64) *model {
	m := &model{rnd: rand.New(rand.NewPCG(seed, 7)), cut: map[[2]int32]bool{}, stat: map[string]int{}}
	m.ghost = ghost{leaders: map[int32]int32{}, votes: map[voteKey]ReplicaKey{}}
	voters, spares := 1+m.rnd.IntN(5), m.rnd.IntN(3)
	m.level = int16(min(1, m.rnd.IntN(4)))
	m.busy = m.rnd.IntN(2) == 0
	for i := range voters + spares {
		n := &node{m: m, key: ReplicaKey{int32(i + 1), [16]byte{byte(i + 1)}}}
		n.disk.state = NoElection()
		m.nodes = append(m.nodes, n)
		if i < voters {
			v := n.voter()
			if m.level == 0 {
				v = Voter{Key: ReplicaKey{ID: n.key.ID}, Endpoints: v.Endpoints}
			}
			m.initial = append(m.initial, v)
		}
	}
	for _, n := range m.nodes {
		n.start()
	}
	return m
}

func (n *node) voter() Voter {
	return Voter{Key: n.key, Endpoints: []Endpoint{{"C", fmt.Sprint("n", n.key.ID), 1}}, MaxKRaftVersion: 1}
}

func (m *model) failf(format string, args ...any) {
	panic(modelFailure(fmt.Sprintf(format, args...)))
}

type modelFailure string

func (m *model) trace(format string, args ...any) {
	m.log = append(m.log, fmt.Sprintf("%8.3f ", time.Duration(m.now).Seconds())+fmt.Sprintf(format, args...))
	if len(m.log) > 400 {
		m.log = m.log[200:]
	}
}

func (n *node) start() {
	n.boot++
	n.queue, n.install = nil, nil
	n.pending = map[uint64]envelope{}
	d := &n.disk
	d.synced = len(d.entries) // the host syncs before Start
	sets, levels := []VoterSet{}, []Level{}
	level := int16(0)
	if n.m.level == 0 || int(n.key.ID) <= len(n.m.initial) {
		sets = append(sets, VoterSet{-1, n.m.initial})
		level = n.m.level
	}
	if d.snap != nil && d.snap.voters != nil {
		sets, levels = []VoterSet{*d.snap.voters}, []Level{{d.snap.voters.Offset, 1}}
	}
	for i, e := range d.entries {
		if e.voters != nil && (d.snap == nil || d.start+int64(i) >= d.snap.id.EndOffset) {
			at := d.start + int64(i)
			sets, levels = append(sets, VoterSet{at, e.voters}), append(levels, Level{at, 1})
		}
	}
	cfg := Config{Self: n.key, Endpoints: n.voter().Endpoints, MaxKRaftVersion: 1, CanVote: true, State: d.state, Log: d, Voters: sets, Levels: levels, KRaftVersion: level}
	if d.snap != nil {
		cfg.HighWatermark = d.snap.id.EndOffset
	}
	core, err := New(cfg)
	if err != nil {
		n.m.failf("node %d: %v", n.key.ID, err)
	}
	n.core = core
	n.m.trace("node %d boots as %s in epoch %d, log %d..%d", n.key.ID, core.Role(), core.Epoch(), d.start, d.end())
	n.step(Start{}, nil)
}

// checkVoters: the node counts the voters, in the directories, that its log names, and has the
// level of kraft.version at which a log names some.
func (n *node) checkVoters(after Event) {
	named, level := n.named(), int16(1)
	if len(named) == 0 || named[0].Key.Directory == [16]byte{} {
		level = 0
	}
	if !slices.EqualFunc(n.core.Voters(), named, Voter.equal) {
		n.m.failf("node %d counts voters %v, and its log names %v, after %T", n.key.ID, keysOf(n.core.Voters()), keysOf(named), after)
	}
	if n.core.KRaftVersion() != level {
		n.m.failf("node %d has kraft.version %d, and its log names the voters %v, after %T", n.key.ID, n.core.KRaftVersion(), keysOf(named), after)
	}
}

// named are the voters that the node's log, its snapshot or its configuration names.
func (n *node) named() []Voter {
	d := &n.disk
	for i := len(d.entries) - 1; i >= 0; i-- {
		if d.entries[i].voters != nil {
			return d.entries[i].voters
		}
	}
	switch {
	case d.snap != nil && d.snap.voters != nil:
		return d.snap.voters.Voters
	case n.m.level == 0 || int(n.key.ID) <= len(n.m.initial):
		return n.m.initial
	}
	return nil
}

// crash loses what was not synced, or a part of it.
func (n *node) crash() {
	if n.core == nil {
		return
	}
	n.core = nil
	d := &n.disk
	keep := d.synced + n.m.rnd.IntN(len(d.entries)-d.synced+1)
	d.entries = d.entries[:keep]
	n.m.trace("node %d crashes, log end %d", n.key.ID, d.end())
	n.m.stat["crash"]++
}

// step steps an event and all that follow from it. records came with the event.
func (n *node) step(e Event, records *envelope) {
	n.queue = append(n.queue, e)
	for len(n.queue) > 0 && n.core != nil {
		e := n.queue[0]
		n.queue = n.queue[1:]
		before := n.core.Epoch()
		out := n.core.Step(e, n.m.now, n.m.rnd)
		if n.core.Epoch() < before {
			n.m.failf("node %d: epoch %d after %d (I10)", n.key.ID, n.core.Epoch(), before)
		}
		for _, note := range out.Notes {
			n.m.stat[note.Kind.String()]++
			n.m.trace("node %d: %s %v epoch %d offset %d", n.key.ID, note.Kind, note.Replica, note.Epoch, note.Offset)
			if note.Kind == TruncationRefused {
				n.m.failf("node %d would truncate to %d below its high watermark %d (I35)", n.key.ID, note.Offset, n.core.HighWatermark())
			}
		}
		n.carry(out, records)
		if n.core != nil && len(n.queue) == 0 {
			n.checkVoters(e)
		}
		if n.core != nil && n.core.HighWatermark() > n.disk.end() {
			n.m.failf("node %d: high watermark %d, log end %d after %T", n.key.ID, n.core.HighWatermark(), n.disk.end(), e)
		}
	}
}

// carry does what the core asks for, and may be killed between any two of it.
func (n *node) carry(out Effects, records *envelope) {
	stages := []func(){
		func() { n.persist(out.Persist) },
		func() { n.resigned(out) },
		func() { n.cutLog(out, records) },
		func() { n.begin(out) },
		func() { n.committed(out.HighWatermark) },
		func() { n.send(out) },
	}
	for _, stage := range stages {
		if !n.m.calm && n.m.rnd.IntN(3000) == 0 {
			n.crash()
		}
		if n.core == nil {
			return
		}
		stage()
	}
}

func (n *node) persist(s *ElectionState) {
	if s == nil {
		return
	}
	if s.Epoch < n.disk.state.Epoch {
		n.m.failf("node %d persists epoch %d after %d (I10)", n.key.ID, s.Epoch, n.disk.state.Epoch)
	}
	n.disk.state = *s
	if s.Voted.ID != None {
		n.m.vote(n.key, s.Epoch, s.Voted)
	}
	if s.LeaderID == n.key.ID {
		n.m.vote(n.key, s.Epoch, n.key)
	}
}

// vote checks that a node votes once in an epoch (I9).
func (m *model) vote(node ReplicaKey, epoch int32, for_ ReplicaKey) {
	k := voteKey{node, epoch}
	if old, ok := m.ghost.votes[k]; ok && old != for_ {
		m.failf("node %v votes for %v and %v in epoch %d (I9)", node, old, for_, epoch)
	}
	m.ghost.votes[k] = for_
}

func (n *node) resigned(out Effects) {
	if out.Resigned {
		n.disk.synced = len(n.disk.entries)
	}
	if out.CancelInstall {
		n.install = nil
	}
	if out.Install != nil {
		n.install = out.Install
		n.m.stat["install"]++
	}
}

// cutLog truncates, or appends what was fetched.
func (n *node) cutLog(out Effects, records *envelope) {
	d := &n.disk
	if out.Truncate != nil {
		at := *out.Truncate
		for o := at; o < d.end(); o++ {
			if o < int64(len(n.m.ghost.committed)) && n.m.ghost.committed[o].id == d.entries[o-d.start].id {
				n.m.failf("node %d truncates to %d, and what it has at %d is committed (I35)", n.key.ID, at, o)
			}
		}
		d.entries = d.entries[:at-d.start]
		d.synced = len(d.entries)
		n.queue = append(n.queue, Synced{d.end()})
	}
	if out.Append {
		for _, e := range records.records {
			if e.voters != nil {
				n.namesVoters(d.end(), e.voters)
			}
			d.entries = append(d.entries, e)
		}
		if !n.m.calm && n.m.rnd.IntN(500) == 0 {
			n.crash()
			return
		}
		d.synced = len(d.entries)
		n.queue = append(n.queue, Synced{d.end()})
	}
}

func (n *node) namesVoters(offset int64, voters []Voter) {
	if n.core.KRaftVersion() < 1 {
		n.queue = append(n.queue, KRaftVersionChanged{offset, 1})
	}
	n.queue = append(n.queue, VotersChanged{offset, voters})
}

func (n *node) append(epoch int32, voters []Voter) {
	n.m.nextRec++
	n.disk.entries = append(n.disk.entries, entry{epoch, n.m.nextRec, voters})
}

func (n *node) begin(out Effects) {
	d := &n.disk
	if b := out.Begin; b != nil {
		if old, ok := n.m.ghost.leaders[b.Epoch]; ok {
			n.m.failf("node %d begins epoch %d, and node %d did (I9)", n.key.ID, b.Epoch, old)
		}
		n.m.ghost.leaders[b.Epoch] = n.key.ID
		n.m.checkGranting(n, b)
		for o := d.start; o < int64(len(n.m.ghost.committed)); o++ {
			if o >= d.end() || d.entries[o-d.start].id != n.m.ghost.committed[o].id {
				n.m.failf("leader %d of epoch %d lacks the committed offset %d", n.key.ID, b.Epoch, o)
			}
		}
		n.append(b.Epoch, nil)
		if b.Change != nil {
			n.namesVoters(d.end(), b.Change.Voters)
			n.append(b.Epoch, b.Change.Voters)
		}
	}
	if ch := out.Change; ch != nil {
		n.namesVoters(d.end(), ch.Voters)
		n.append(ch.Epoch, ch.Voters)
	}
	if out.Begin != nil || out.Change != nil {
		n.syncLater()
	}
}

// syncLater syncs now, or leaves it to a later step of the model.
func (n *node) syncLater() {
	if n.m.calm || n.m.rnd.IntN(3) > 0 {
		n.sync()
	}
}

func (n *node) sync() {
	n.disk.synced = len(n.disk.entries)
	n.queue = append(n.queue, Synced{n.disk.end()})
}

// checkGranting: a majority voted for the leader, each only for it.
func (m *model) checkGranting(n *node, b *Begin) {
	if len(b.Granting) <= len(b.Voters)/2 {
		m.failf("leader %d of epoch %d has %d votes of %d", n.key.ID, b.Epoch, len(b.Granting), len(b.Voters))
	}
	for _, g := range b.Granting {
		for _, o := range m.nodes {
			if g.Matches(o.key) && m.ghost.votes[voteKey{o.key, b.Epoch}] != n.key {
				m.failf("leader %d of epoch %d counts a vote of %v, which voted for %v (I9)", n.key.ID, b.Epoch, g, m.ghost.votes[voteKey{o.key, b.Epoch}])
			}
		}
	}
}

// committed checks a high watermark: what is below is the same everywhere, and a majority
// of the voters has it durably (I35).
func (n *node) committed(hw int64) {
	if hw < 0 {
		return
	}
	d, g := &n.disk, &n.m.ghost
	if hw > d.end() {
		n.m.failf("node %d: high watermark %d beyond the log's end %d", n.key.ID, hw, d.end())
	}
	for o := d.start; o < min(hw, int64(len(g.committed))); o++ {
		if d.entries[o-d.start].id != g.committed[o].id {
			n.m.failf("node %d: what it has at %d is not what is committed there", n.key.ID, o)
		}
	}
	if hw <= int64(len(g.committed)) {
		return
	}
	if n.core.Role() != Leader && n.core.Role() != Resigned {
		n.m.failf("node %d, a %s, commits %d, and %d is committed", n.key.ID, n.core.Role(), hw, len(g.committed))
	}
	have, voters := 0, n.core.Voters()
	for _, v := range voters {
		for _, o := range n.m.nodes {
			if v.Key.Matches(o.key) && o.disk.has(hw-1, d.entries[hw-1-d.start].id) {
				have++
			}
		}
	}
	if have <= len(voters)/2 {
		n.m.failf("leader %d commits %d, and %d of %v have it durably (I35)", n.key.ID, hw, have, ids(voters))
	}
	for o := int64(len(g.committed)); o < hw; o++ {
		g.committed = append(g.committed, d.entries[o-d.start])
	}
	n.m.stat["committed"]++
}

func (d *store) has(offset int64, id int) bool {
	i := int(offset - d.start)
	return i < 0 || i < d.synced && d.entries[i].id == id
}

func (n *node) send(out Effects) {
	for _, a := range out.Answers {
		n.answer(a)
	}
	sends := out.Sends
	if out.Fetch != nil {
		sends = append(slices.Clone(sends), *out.Fetch)
	}
	for _, s := range sends {
		to := s.To.ID
		if to == None {
			to = int32(1 + n.m.rnd.IntN(len(n.m.nodes)))
		}
		n.m.post(envelope{from: n.key.ID, to: to, boot: n.boot, seq: s.Seq, body: s.Body})
	}
}

func (n *node) answer(a Answer) {
	q, ok := n.pending[a.ID]
	if !ok {
		n.m.failf("node %d: a second answer to request %d", n.key.ID, a.ID)
	}
	delete(n.pending, a.ID)
	back := envelope{from: n.key.ID, to: q.from, boot: q.boot, seq: q.seq, reply: &a.Reply}
	switch b := q.body.(type) {
	case Fetch:
		if a.Reply.Code == 0 && a.Reply.Diverging == nil && a.Reply.Snapshot == nil {
			all := n.disk.entries[b.Offset-n.disk.start:]
			back.records = slices.Clone(all[:min(len(all), 1+n.m.rnd.IntN(4))])
		}
	case FetchSnapshot:
		if s := n.disk.snap; a.Reply.Code == 0 && (s == nil || s.id != b.Snapshot) {
			back.reply.Code = 98 // SNAPSHOT_NOT_FOUND
		}
		back.snap = n.disk.snap
	}
	if q.from == 0 { // an administrator
		n.m.stat[fmt.Sprintf("%T=%d", q.body, a.Reply.Code)]++
		return
	}
	n.m.post(back)
}

func (m *model) post(e envelope) {
	m.net = append(m.net, e)
	if !m.calm && m.rnd.IntN(20) == 0 {
		m.net = append(m.net, e)
	}
}

func keysOf(voters []Voter) (out []ReplicaKey) {
	for _, v := range voters {
		out = append(out, v.Key)
	}
	return out
}

// ids are the node ids of the voters, for messages.
func ids(voters []Voter) []int32 {
	var out []int32
	for _, v := range voters {
		out = append(out, v.Key.ID)
	}
	return out
}

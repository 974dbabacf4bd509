package raft

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"seedlog/clock"
)

var (
	modelSeed  = flag.Uint64("model.seed", 0, "run this seed of the model only, and show its end")
	modelSeeds = flag.Uint64("model.seeds", 400, "how many seeds of the model to run")
)

// deliver hands over the i-th message on the network.
func (m *model) deliver(i int) {
	e := m.net[i]
	m.net = slices.Delete(m.net, i, i+1)
	to := m.nodes[e.to-1]
	if to.core == nil || m.cut[[2]int32{e.from, e.to}] {
		return
	}
	if e.reply != nil {
		if e.boot == to.boot {
			to.arrived(e)
		}
		return
	}
	to.nextID++
	to.pending[to.nextID] = e
	to.step(Request{to.nextID, e.body}, nil)
}

// snapshotSeq marks the answers to FetchSnapshot, which the host sends by itself.
const snapshotSeq = 1 << 60

func (n *node) arrived(e envelope) {
	if e.seq != snapshotSeq {
		r := *e.reply
		r.Records = len(e.records) > 0
		n.step(Response{e.seq, r}, &e)
		return
	}
	n.step(SnapshotPart{*e.reply}, nil)
	if n.core == nil || n.install == nil {
		return
	}
	id := n.install.ID
	if e.reply.Code != 0 {
		n.install = nil
		n.step(SnapshotFailed{id}, nil)
		return
	}
	if e.snap.id != id {
		return
	}
	n.install = nil
	n.disk = store{start: id.EndOffset, snap: e.snap, state: n.disk.state}
	done := SnapshotInstalled{ID: id, KRaftVersion: n.m.level}
	if e.snap.voters != nil {
		done.Voters, done.KRaftVersion = e.snap.voters.Voters, 1
	}
	n.m.trace("node %d installs %v", n.key.ID, id)
	n.step(done, nil)
}

// chaos does one thing.
func (m *model) chaos() {
	n := m.nodes[m.rnd.IntN(len(m.nodes))]
	switch p := m.rnd.IntN(1000); {
	case p < 600 && len(m.net) > 0:
		i := m.rnd.IntN(min(len(m.net), 8))
		if m.rnd.IntN(15) == 0 {
			if e := m.net[i]; e.reply == nil && e.from != 0 && m.rnd.IntN(2) == 0 {
				m.lost(e)
			}
			m.net = slices.Delete(m.net, i, i+1)
			return
		}
		m.deliver(i)
	case p < 780:
		long := 40
		if m.rnd.IntN(30) == 0 {
			long = 1500
		}
		m.now = m.now.Add(time.Duration(m.rnd.IntN(long)) * time.Millisecond)
	case p < 900:
		m.work(n)
	case p < 910 && m.busy:
		m.admin()
	case p < 910:
		m.snapshot(n)
	case p < 915:
		n.crash()
	case p < 940 && n.core == nil:
		n.start()
	case p < 944:
		other := m.nodes[m.rnd.IntN(len(m.nodes))]
		m.cut[[2]int32{n.key.ID, other.key.ID}] = true
	case p < 960:
		clear(m.cut)
	case p < 964 && n.core != nil:
		n.step(Resign{}, nil)
		n.crash()
	case p < 980:
		m.admin()
	}
	m.tick()
}

func (m *model) lost(e envelope) {
	if n := m.nodes[e.from-1]; n.core != nil && n.boot == e.boot && e.seq != snapshotSeq {
		n.step(NoResponse{e.seq}, nil)
	}
}

// tick steps the nodes whose deadline has passed.
func (m *model) tick() {
	for _, n := range m.nodes {
		if n.core != nil && n.core.NextDeadline() <= m.now {
			n.step(Tick{}, nil)
		}
		if n.core != nil && n.install != nil && (m.calm || m.rnd.IntN(5) == 0) {
			in := n.install
			m.net = append(m.net, envelope{from: n.key.ID, to: in.To.ID, boot: n.boot, seq: snapshotSeq, body: FetchSnapshot{in.Epoch, n.key, in.ID, 0}})
		}
	}
}

// work appends on a leader, and syncs what it left.
func (m *model) work(n *node) {
	if n.core == nil || n.core.Role() != Leader {
		return
	}
	if m.rnd.IntN(2) == 0 {
		n.append(n.core.Epoch(), nil)
	}
	if m.rnd.IntN(3) > 0 || m.calm {
		n.disk.synced = len(n.disk.entries)
		n.step(Synced{n.disk.end()}, nil)
	}
}

// snapshot takes one at the node's high watermark, and removes the log below it or less.
func (m *model) snapshot(n *node) {
	d := &n.disk
	if n.core == nil || n.core.HighWatermark() <= d.start {
		return
	}
	end := n.core.HighWatermark()
	s := &snapshot{id: SnapshotID{end, d.entries[end-1-d.start].epoch}}
	if n.core.KRaftVersionAt(end) > 0 {
		s.voters = &VoterSet{end - 1, n.core.VotersAt(end)}
	}
	if d.synced < int(end-d.start) {
		return // a leader may be behind the majority with its sync
	}
	d.snap = s
	gone := end - d.start
	d.entries, d.start, d.synced = slices.Clone(d.entries[gone:]), end, d.synced-int(gone)
	m.stat["snapshot"]++
}

// admin changes the voters, mostly at the leader and mostly in a way that makes sense.
func (m *model) admin() {
	leader := m.nodes[m.rnd.IntN(len(m.nodes))]
	for _, n := range m.nodes {
		if n.core != nil && n.core.Role() == Leader && m.rnd.IntN(4) > 0 {
			leader = n
		}
	}
	who := m.nodes[m.rnd.IntN(len(m.nodes))]
	if leader.core == nil {
		return
	}
	body := Message(AddVoter{Voter: Voter{Key: who.key, Endpoints: who.voter().Endpoints}, Timeout: time.Second})
	if isIn(leader.core.Voters(), who.key) != (m.rnd.IntN(5) == 0) {
		body = RemoveVoter{Voter: who.key, Timeout: time.Second}
	}
	if m.level == 0 && m.rnd.IntN(3) == 0 {
		body = RaiseVersion{Epoch: leader.core.Epoch(), Version: 1, ValidateOnly: m.rnd.IntN(5) == 0}
	}
	leader.nextID++
	leader.pending[leader.nextID] = envelope{body: body}
	leader.step(Request{leader.nextID, body}, nil)
}

// heal ends the faults and waits until the cluster works: one leader that commits, and all
// others with its log and its high watermark.
func (m *model) heal() {
	m.calm = true
	clear(m.cut)
	for _, n := range m.nodes {
		n.crash() // also who was asked to shut down comes back
		n.start()
	}
	until := m.now.Add(120 * time.Second)
	for i := 0; m.now < until; i++ {
		for range min(len(m.net), 200) {
			m.deliver(0)
		}
		next := clock.Never
		for _, n := range m.nodes {
			next = min(next, n.core.NextDeadline())
		}
		if next < m.now.Add(-time.Second) {
			m.failf("a deadline does not move: %v at %v", next, m.now)
		}
		m.now = max(m.now.Add(time.Millisecond), min(next, m.now.Add(50*time.Millisecond)))
		m.tick()
		if i%20 == 0 {
			for _, n := range m.nodes {
				m.work(n)
			}
		}
		if i > 200 && m.settled() {
			return
		}
	}
	var state []string
	for _, n := range m.nodes {
		state = append(state, fmt.Sprintf("%d: %s epoch %d leader %d log %d..%d hw %d voters %v", n.key.ID, n.core.Role(), n.core.Epoch(), n.core.LeaderID(),
			n.disk.start, n.disk.end(), n.core.HighWatermark(), ids(n.core.Voters())))
	}
	m.failf("no progress after healing:\n%s", strings.Join(state, "\n"))
}

func (m *model) settled() bool {
	var leader *node
	for _, n := range m.nodes {
		if n.core.Role() == Leader {
			leader = n
		}
	}
	if leader == nil || leader.core.HighWatermark() != leader.disk.end() {
		return false
	}
	if _, why := leader.core.raised(1); why != "" { // it hears of all static voters
		return false
	}
	for _, n := range m.nodes {
		if n != leader && (n.core.LeaderID() != leader.key.ID || n.core.HighWatermark() != leader.disk.end() || n.disk.end() != leader.disk.end()) {
			return false
		}
	}
	return true
}

func (m *model) run(steps int) (failure string) {
	defer func() {
		if p := recover(); p != nil {
			if f, ok := p.(modelFailure); ok {
				failure = string(f)
				return
			}
			failure = fmt.Sprint("panic: ", p)
			if *modelSeed != 0 {
				panic(p)
			}
		}
	}()
	for range steps {
		m.chaos()
	}
	m.heal()
	return ""
}

// TestModel runs clusters through crashes, losses and changes of their voters: I9, I10, I35,
// agreement on what is committed, and progress after healing.
func TestModel(t *testing.T) {
	total := map[string]int{}
	from, to := uint64(1), *modelSeeds
	if *modelSeed != 0 {
		from, to = *modelSeed, *modelSeed
	}
	for seed := from; seed <= to; seed++ {
		m := newModel(seed)
		failure := m.run(3000)
		if failure != "" {
			if *modelSeed != 0 {
				t.Log(strings.Join(m.log, "\n"))
			}
			t.Fatalf("seed %d, %d nodes, voters %v, kraft.version %d: %s\nreplay: go test ./node/raft -run TestModel -model.seed=%d -v",
				seed, len(m.nodes), ids(m.initial), m.level, failure, seed)
		}
		for k, n := range m.stat {
			total[k] += n
		}
	}
	t.Log(total)
	if *modelSeed != 0 {
		return
	}
	for _, k := range []string{"crash", "diverged", "install", "snapshot", "committed", "leader", "quorum-lost", "removed", "voter-added", "voter-removed", "version-raised", "raft.AddVoter=0", "raft.RaiseVersion=95"} {
		if total[k] < 10 {
			t.Errorf("the model hardly reaches %q: %d", k, total[k])
		}
	}
}

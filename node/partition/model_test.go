package partition

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"seedlog/clock"
	"seedlog/storage/epoch"
)

// The model: three replicas whose logs are lists of (epoch, value), a controller, and the
// real cores in between. Metadata reaches each replica in its own time, answers are late,
// proposals' answers are lost, brokers lose their tails. After every step:
//
//	I1  below both high watermarks two logs are the same
//	I2  (offset, epoch) names one value, ever
//	I3  every member of the ISR has all that is committed
//	I6  what was committed stays what it is
//	I7  the high watermark passes nobody of the maximal ISR
//
// It leaves the disk, the wire and the clock out: those are the simulator's.
type model struct {
	t          *rapid.T
	nodes      [3]*modelNode
	reg        Registration // the controller's
	brokers    cluster
	committed  []modelEntry
	named      map[modelKey]int
	next       int
	minISR     int
	now        clock.Instant
	diverged   int
	reelection int
}

type modelEntry struct {
	epoch int32
	value int
}

type modelKey struct {
	offset int64
	epoch  int32
}

type modelNode struct {
	id      int32
	log     []modelEntry
	epochs  epoch.Cache
	hw      int64
	reg     Registration // as far as it has heard
	leader  *Leader
	inbox   *modelAnswer
	fetched map[int32]int64 // by leader: what each follower asked for in this epoch
}

// modelAnswer is a leader's answer on its way.
type modelAnswer struct {
	epoch  int32 // of the leadership it was asked in
	offset int64
	answer Answer
	data   []modelEntry
}

func (n *modelNode) end() int64 { return int64(len(n.log)) }

func (n *modelNode) EndOffsetForEpoch(e int32) (int32, int64) {
	return n.epochs.EndOffsetFor(e, n.end())
}

func newModel(t *rapid.T) *model {
	m := &model{t: t, named: map[modelKey]int{}, brokers: cluster{}, minISR: rapid.IntRange(1, 2).Draw(t, "min isr")}
	m.reg = Registration{Leader: 0, LeaderEpoch: 0, PartitionEpoch: 0, Replicas: []int32{0, 1, 2}, ISR: []int32{0, 1, 2}}
	for i := range m.nodes {
		m.nodes[i] = &modelNode{id: int32(i), reg: Registration{Leader: -1, LeaderEpoch: -1, PartitionEpoch: -1}}
		m.brokers[int32(i)] = Standing{Known: true, Epoch: 1}
		m.hear(m.nodes[i])
	}
	return m
}

func (m *model) pick(what string) *modelNode {
	return m.nodes[rapid.IntRange(0, 2).Draw(m.t, what)]
}

// leading is a node that believes to lead, or nil.
func (m *model) leading() *modelNode {
	var all []*modelNode
	for _, n := range m.nodes {
		if n.leader != nil {
			all = append(all, n)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return rapid.SampledFrom(all).Draw(m.t, "leader")
}

// hear lets a node learn the newest metadata.
func (m *model) hear(n *modelNode) {
	reg := m.reg
	reg.ISR = slices.Clone(reg.ISR)
	switch {
	case reg.PartitionEpoch <= n.reg.PartitionEpoch:
		return
	case reg.Leader == n.id && n.leader != nil && n.leader.LeaderEpoch() == reg.LeaderEpoch:
		n.leader.Update(reg, m.now)
	case reg.Leader == n.id:
		n.epochs.Assign(reg.LeaderEpoch, n.end())
		n.leader = NewLeader(n.id, reg, n.end(), n.hw, m.now)
		n.fetched, n.inbox = map[int32]int64{}, nil
	default:
		n.leader, n.inbox = nil, nil
	}
	n.reg = reg
	m.advance(n)
}

// produce appends at a node that believes to lead.
func (m *model) produce(n *modelNode) {
	if n == nil {
		return
	}
	for range rapid.IntRange(1, 3).Draw(m.t, "records") {
		m.next++
		m.write(n, modelEntry{n.leader.LeaderEpoch(), m.next})
	}
	m.advance(n)
}

func (m *model) write(n *modelNode, e modelEntry) {
	if e.epoch > n.epochs.Latest() {
		n.epochs.Assign(e.epoch, n.end())
	}
	k := modelKey{n.end(), e.epoch}
	if v, ok := m.named[k]; ok && v != e.value {
		m.t.Fatalf("I2: offset %d of epoch %d is %d and %d", k.offset, k.epoch, v, e.value)
	}
	m.named[k] = e.value
	n.log = append(n.log, e)
}

// fetch lets a follower ask whom it believes to lead; the answer waits in its inbox.
func (m *model) fetch(n *modelNode) {
	if n.leader != nil || n.reg.Leader < 0 || n.inbox != nil {
		return
	}
	l := m.nodes[n.reg.Leader]
	if l.leader == nil || l.leader.CheckEpoch(n.reg.LeaderEpoch) != nil {
		return
	}
	in := &modelAnswer{epoch: n.reg.LeaderEpoch, offset: n.end()}
	n.inbox = in
	last := n.epochs.Latest()
	if last >= 0 {
		e, end := l.EndOffsetForEpoch(last)
		if e < last || end < in.offset {
			in.answer = Answer{HighWatermark: l.hw, Diverges: true, DivergeEpoch: e, DivergeEnd: end}
			return
		}
	}
	upTo := min(l.end(), in.offset+int64(rapid.IntRange(0, 3).Draw(m.t, "batch")))
	in.data = slices.Clone(l.log[in.offset:upTo])
	l.leader.FollowerFetched(FollowerFetch{Replica: n.id, BrokerEpoch: m.brokers[n.id].Epoch, Offset: in.offset, LeaderEnd: l.end(), Now: m.now})
	l.fetched[n.id] = in.offset
	m.advance(l)
	in.answer = Answer{HighWatermark: l.hw}
}

// receive lets a follower act on the answer.
func (m *model) receive(n *modelNode) {
	in := n.inbox
	n.inbox = nil
	if in == nil || n.leader != nil || in.epoch != n.reg.LeaderEpoch || in.offset != n.end() {
		return
	}
	mine := Replica{LogEnd: n.end(), HighWatermark: n.hw}
	switch d := AfterAnswer(mine, in.answer, n); d.Step {
	case Truncate:
		m.diverged++
		n.log = n.log[:min(d.Offset, n.end())]
		n.epochs.TruncateFromEnd(n.end())
		n.hw = min(n.hw, n.end())
	case Append:
		for _, e := range in.data {
			m.write(n, e)
		}
		mine.LogEnd = n.end()
		n.hw = FollowerHighWatermark(mine, in.answer.HighWatermark)
	default:
		m.t.Fatalf("%v after an answer without an error", d)
	}
}

// advance moves a leader's high watermark and the ghost's committed log.
func (m *model) advance(n *modelNode) {
	if n.leader == nil {
		return
	}
	before := n.leader.HighWatermark()
	hw, moved := n.leader.AdvanceHighWatermark(n.end(), m.minISR, alone)
	n.hw = max(n.hw, hw)
	if !moved {
		return
	}
	for _, id := range n.leader.MaximalISR() {
		if id != n.id && n.fetched[id] < hw {
			m.t.Fatalf("I7: %d moved its high watermark to %d, and %d has fetched %d in this epoch", n.id, hw, id, n.fetched[id])
		}
	}
	if hw < before {
		m.t.Fatalf("the high watermark of %d moved from %d to %d", n.id, before, hw)
	}
	for i := int64(0); i < hw; i++ {
		switch {
		case i == int64(len(m.committed)):
			m.committed = append(m.committed, n.log[i])
		case m.committed[i] != n.log[i]:
			m.t.Fatalf("I6: offset %d was committed as %v, and again as %v", i, m.committed[i], n.log[i])
		}
	}
}

// alter lets a leader propose an ISR; the controller decides; the answer may be lost.
func (m *model) alter(n *modelNode) {
	if n == nil {
		return
	}
	p, ok := n.leader.Pending()
	if !ok {
		p, ok = n.leader.Propose(n.end(), time.Second, m.brokers, m.brokers[n.id].Epoch, m.now)
	}
	if !ok {
		return
	}
	code, now := m.decide(n.id, p)
	if rapid.Bool().Draw(m.t, "answer lost") {
		code = 7 // REQUEST_TIMED_OUT
	}
	n.leader.Answered(p, code, now, m.now)
	n.reg.PartitionEpoch = n.leader.Registration().PartitionEpoch
	m.advance(n)
}

func (m *model) decide(leader int32, p Proposal) (int16, Registration) {
	switch {
	case p.LeaderEpoch < m.reg.LeaderEpoch:
		return 74, Registration{} // FENCED_LEADER_EPOCH
	case p.PartitionEpoch != m.reg.PartitionEpoch:
		return 95, Registration{} // INVALID_UPDATE_VERSION
	}
	for _, x := range p.ISR {
		if b := m.brokers[x.ID]; x.BrokerEpoch != -1 && x.BrokerEpoch != b.Epoch {
			return 107, Registration{} // INELIGIBLE_REPLICA
		}
	}
	m.reg.ISR = ids(p)
	m.reg.PartitionEpoch++
	return 0, m.reg
}

// elect moves the leadership to a member of the ISR, maybe to the same again.
func (m *model) elect(to int32) {
	if !slices.Contains(m.reg.ISR, to) {
		return
	}
	if to == m.reg.Leader {
		m.reelection++
	}
	m.reg.Leader = to
	m.reg.LeaderEpoch++
	m.reg.PartitionEpoch++
}

// lose restarts a node without its tail: the controller takes it out of the ISR, where it
// cannot be the last.
func (m *model) lose(n *modelNode) {
	if slices.Contains(m.reg.ISR, n.id) {
		if len(m.reg.ISR) == 1 {
			return
		}
		m.reg.ISR = slices.DeleteFunc(slices.Clone(m.reg.ISR), func(id int32) bool { return id == n.id })
		m.reg.PartitionEpoch++
	}
	if m.reg.Leader == n.id {
		m.elect(m.reg.ISR[0])
	}
	m.brokers.change(n.id, func(s *Standing) { s.Epoch++ })
	n.log = n.log[:rapid.Int64Range(0, n.end()).Draw(m.t, "left")]
	n.epochs.TruncateFromEnd(n.end())
	n.hw = min(n.hw, n.end())
	n.leader, n.inbox = nil, nil
	n.reg.PartitionEpoch = -1
	m.hear(n)
}

func (m *model) check() {
	for _, a := range m.nodes {
		for _, b := range m.nodes {
			for i := range min(a.hw, b.hw) {
				if a.log[i] != b.log[i] {
					m.t.Fatalf("I1: offset %d is %v on %d and %v on %d, below both high watermarks", i, a.log[i], a.id, b.log[i], b.id)
				}
			}
		}
	}
	for _, id := range m.reg.ISR {
		n := m.nodes[id]
		if n.end() < int64(len(m.committed)) || !slices.Equal(n.log[:len(m.committed)], m.committed) {
			m.t.Fatalf("I3: %d is in the ISR with %v, committed is %v", id, n.log, m.committed)
		}
	}
}

func (m *model) String() string {
	return fmt.Sprintf("leader %d in epoch %d, ISR %v, committed %v", m.reg.Leader, m.reg.LeaderEpoch, m.reg.ISR, m.committed)
}

func TestReplicasAgreeWhateverHappens(t *testing.T) {
	var diverged, committed, reelected int
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		for range rapid.IntRange(50, 400).Draw(t, "steps") {
			switch rapid.IntRange(0, 15).Draw(t, "do") {
			case 0, 1, 2:
				m.produce(m.leading())
			case 3, 4, 5:
				m.fetch(m.pick("follower"))
			case 6, 7, 8:
				m.receive(m.pick("follower"))
			case 9, 10, 11:
				m.hear(m.pick("listener"))
			case 12, 13:
				m.now = m.now.Add(400 * time.Millisecond)
				m.alter(m.leading())
			case 14:
				m.elect(m.pick("elected").id)
			case 15:
				m.lose(m.pick("loser"))
			}
			m.check()
		}
		diverged += m.diverged
		committed += len(m.committed)
		reelected += m.reelection
	})
	t.Logf("%d truncations by epoch, %d records committed, %d re-elections", diverged, committed, reelected)
	if diverged == 0 || committed == 0 || reelected == 0 {
		t.Error("the model never came to what it is about")
	}
}

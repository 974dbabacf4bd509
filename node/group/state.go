package group

import (
	"bytes"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock"
)

// State is where a group of the classic protocol stands.
type State uint8

const (
	// Empty has no members; it may have offsets.
	Empty State = iota
	// PreparingRebalance waits for the members to (re)join.
	PreparingRebalance
	// CompletingRebalance waits for the leader's assignment.
	CompletingRebalance
	// Stable has an assignment.
	Stable
	// Dead is a group that does not exist.
	Dead
)

func (s State) String() string {
	return [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"}[s]
}

// consumerType is the protocol type whose subscriptions the coordinator can read.
const consumerType = "consumer"

// waiter is a parked JoinGroup or SyncGroup.
type waiter struct {
	ticket  Ticket
	version int16
	parked  bool
}

// protocol is one assignment strategy that a member offers, with its subscription.
type protocol struct {
	name     string
	metadata []byte
}

type member struct {
	id          string
	instance    *string // static membership
	clientID    string
	clientHost  string
	sessionMs   int32
	rebalanceMs int32
	protocols   []protocol // in the member's order of preference
	assignment  []byte
	// isNew: has not been through a rebalance, so that waiting for one is no sign of life.
	isNew bool
	join  waiter
	sync  waiter
	// sessionAt is when the member is removed.
	sessionAt clock.Instant
}

func (m *member) metadata(name string) []byte {
	for _, p := range m.protocols {
		if p.name == name {
			return p.metadata
		}
	}
	return nil
}

func (m *member) offers(ps []protocol) bool {
	return slices.EqualFunc(m.protocols, ps, func(a, b protocol) bool {
		return a.name == b.name && bytes.Equal(a.metadata, b.metadata)
	})
}

// alive: a member that is not new and waits for us cannot be late.
func (m *member) alive() bool { return !m.isNew && (m.join.parked || m.sync.parked) }

type topicPartition struct {
	topic     string
	partition int32
}

// stored is a committed offset and where its record stands, by which a transaction that
// commits later does not overwrite a plain commit that came after it.
type stored struct {
	Offset
	at int64
}

// group is one group: hard state from durable and the offset records, and soft state.
type group struct {
	id string

	// durable is the group's last GroupMetadataValue, nil if it has none. The following
	// fields come from it, and Refused puts them back to it.
	durable      []byte
	generation   int32
	protocolType string  // empty: a group that only holds offsets
	protocol     *string // nil while empty
	leader       string  // empty: none
	stateAtMs    int64   // -1: unknown
	subscribed   []string
	subscribedOK bool // subscribed is what the members read; sorted

	offsets map[topicPartition]stored
	// open holds the producers with offsets in open transactions.
	open map[int64]struct{}

	// Soft state.
	state       State
	members     []*member // in order of joining
	byID        map[string]*member
	static      map[string]string // instance id to member id
	support     map[string]int    // protocol to how many members offer it
	pendingJoin map[string]clock.Instant
	pendingSync map[string]struct{}
	// initial: the group was empty before this rebalance, so that it waits a little for more
	// members; newMember: one came since the last look.
	initial     bool
	newMember   bool
	delayMs     int64
	remainingMs int64
	joinAt      clock.Instant
	syncAt      clock.Instant
}

func newGroup(id string) *group {
	g := &group{id: id, offsets: map[topicPartition]stored{}}
	g.clear()
	return g
}

// clear forgets everything but offsets.
func (g *group) clear() {
	g.durable, g.generation, g.protocolType, g.protocol, g.leader, g.stateAtMs = nil, 0, "", nil, "", -1
	g.subscribed, g.subscribedOK = nil, false
	g.state, g.members, g.initial, g.newMember = Empty, nil, false, false
	g.byID, g.static, g.support = map[string]*member{}, map[string]string{}, map[string]int{}
	g.pendingJoin, g.pendingSync = map[string]clock.Instant{}, map[string]struct{}{}
	g.joinAt, g.syncAt = clock.Never, clock.Never
}

// unused: nothing hard or soft is left of the group.
func (g *group) unused() bool {
	return g.durable == nil && len(g.offsets) == 0 && len(g.open) == 0 && len(g.members) == 0 && len(g.pendingJoin) == 0
}

func (g *group) isLeader(id string) bool { return g.leader != "" && g.leader == id }

func (g *group) pending(id string) bool {
	_, ok := g.pendingJoin[id]
	return ok
}

// add appends a member; the first one gives the group its protocol type and leader.
func (g *group) add(m *member, protocolType string) {
	if len(g.members) == 0 {
		g.protocolType = protocolType
	}
	if g.leader == "" {
		g.leader = m.id
	}
	g.members = append(g.members, m)
	g.byID[m.id] = m
	if m.instance != nil {
		g.static[*m.instance] = m.id
	}
	g.count(m, 1)
	delete(g.pendingJoin, m.id)
}

func (g *group) count(m *member, by int) {
	for _, p := range m.protocols {
		if g.support[p.name] += by; g.support[p.name] == 0 {
			delete(g.support, p.name)
		}
	}
}

// remove takes a member, or a pending one, out. The next in line leads if it led.
func (g *group) remove(id string) {
	delete(g.pendingJoin, id)
	delete(g.pendingSync, id)
	m := g.byID[id]
	if m == nil {
		return
	}
	delete(g.byID, id)
	g.members = slices.DeleteFunc(g.members, func(o *member) bool { return o == m })
	g.count(m, -1)
	if m.instance != nil && g.static[*m.instance] == id {
		delete(g.static, *m.instance)
	}
	if g.leader == id {
		g.leader = ""
		if len(g.members) > 0 {
			g.leader = g.members[0].id
		}
	}
}

// awaitingJoin counts the members whose JoinGroup is parked.
func (g *group) awaitingJoin() int {
	n := 0
	for _, m := range g.members {
		if m.join.parked {
			n++
		}
	}
	return n
}

func (g *group) allJoined() bool {
	return len(g.pendingJoin) == 0 && g.awaitingJoin() == len(g.members)
}

// rebalanceMs is the longest that a member asked to be waited for.
func (g *group) rebalanceMs() int64 {
	var ms int32
	for _, m := range g.members {
		ms = max(ms, m.rebalanceMs)
	}
	return int64(ms)
}

// electJoined makes sure that the leader has joined; false if there is none who could lead.
func (g *group) electJoined() bool {
	if m := g.byID[g.leader]; m != nil && m.join.parked {
		return true
	}
	for _, m := range g.members {
		if m.join.parked {
			g.leader = m.id
			return true
		}
	}
	return false
}

// supports tells whether a member with these protocols fits in.
func (g *group) supports(protocolType string, ps []protocol) bool {
	if g.state == Empty {
		return protocolType != "" && len(ps) > 0
	}
	return g.protocolType == protocolType && slices.ContainsFunc(ps, func(p protocol) bool {
		return g.support[p.name] == len(g.members)
	})
}

// vote chooses the protocol: every member votes for its first among those that all offer;
// a tie goes to the one voted for first, in order of joining.
func (g *group) vote() string {
	var order []string
	votes := map[string]int{}
	for _, m := range g.members {
		for _, p := range m.protocols {
			if g.support[p.name] == len(g.members) {
				if votes[p.name]++; votes[p.name] == 1 {
					order = append(order, p.name)
				}
				break
			}
		}
	}
	best := ""
	for _, name := range order {
		if best == "" || votes[name] > votes[best] {
			best = name
		}
	}
	return best
}

// subscriptions reads what the members of a consumer group subscribe to; ok is false if it
// cannot be told, and then no offset of the group is taken for unused.
func (g *group) subscriptions() (topics []string, ok bool) {
	if g.protocolType != consumerType {
		return nil, false
	}
	if len(g.members) == 0 {
		return nil, true
	}
	if g.protocol == nil {
		return nil, false
	}
	for _, m := range g.members {
		sub := kmsg.NewConsumerMemberMetadata()
		if err := sub.ReadFrom(m.metadata(*g.protocol)); err != nil {
			return nil, false
		}
		topics = append(topics, sub.Topics...)
	}
	slices.Sort(topics)
	return slices.Compact(topics), true
}

func (g *group) readsTopic(topic string) bool {
	if !g.subscribedOK {
		return g.protocolType == consumerType
	}
	_, ok := slices.BinarySearch(g.subscribed, topic)
	return ok
}

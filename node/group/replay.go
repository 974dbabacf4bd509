package group

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Replay applies one record: the only way in which hard state changes. producer is the
// producer id of a transactional batch, or -1. Records of kinds that are not served are
// counted and passed over; one that does not decode is an error. Whatever legal compaction
// has left is accepted: a tombstone of something unknown, an offset of a group without a
// record, in any order between keys.
func (s *Shard) Replay(offset, producer int64, key, value []byte) error {
	ok, gid, err := ParseKey(key)
	switch {
	case err != nil:
		return fmt.Errorf("offset %d: %w", offset, err)
	case ok != nil:
		err = s.replayOffset(offset, producer, *ok, value)
	case gid != nil:
		err = s.replayGroup(*gid, value)
	default:
		s.Unserved++
	}
	if err != nil {
		return fmt.Errorf("offset %d: %w", offset, err)
	}
	return nil
}

// ReplayMarker ends a producer's transaction.
func (s *Shard) ReplayMarker(producer int64, commit bool) {
	pending := s.txns[producer]
	delete(s.txns, producer)
	for _, k := range sortedOffsets(pending) {
		g := s.group(k.Group)
		delete(g.open, producer)
		tp, o := topicPartition{k.Topic, k.Partition}, pending[k]
		if have, ok := g.offsets[tp]; commit && (!ok || have.at < o.at) {
			g.offsets[tp] = o
		}
		s.dropUnused(g)
	}
}

func sortedOffsets(m map[OffsetKey]stored) []OffsetKey {
	keys := make([]OffsetKey, 0, len(m))
	for k := range m { //order: sorted below
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b OffsetKey) int {
		if c := strings.Compare(a.Group, b.Group); c != 0 {
			return c
		}
		if c := strings.Compare(a.Topic, b.Topic); c != 0 {
			return c
		}
		return int(a.Partition) - int(b.Partition)
	})
	return keys
}

func (s *Shard) replayOffset(at, producer int64, k OffsetKey, value []byte) error {
	if value == nil {
		if g := s.groups[k.Group]; g != nil {
			delete(g.offsets, topicPartition{k.Topic, k.Partition})
			for p := range g.open { //order: each deletion is independent
				delete(s.txns[p], k)
			}
			s.dropUnused(g)
		}
		return nil
	}
	o, err := ParseOffset(value)
	if err != nil {
		return err
	}
	g := s.group(k.Group)
	if producer < 0 {
		g.offsets[topicPartition{k.Topic, k.Partition}] = stored{o, at}
		return nil
	}
	if s.txns[producer] == nil {
		s.txns[producer] = map[OffsetKey]stored{}
	}
	s.txns[producer][k] = stored{o, at}
	if g.open == nil {
		g.open = map[int64]struct{}{}
	}
	g.open[producer] = struct{}{}
	return nil
}

func (s *Shard) replayGroup(id string, value []byte) error {
	if value == nil {
		if g := s.groups[id]; g != nil {
			g.clear()
			s.dropUnused(g)
		}
		return nil
	}
	value = bytes.Clone(value)
	v, err := ParseGroup(value)
	if err != nil {
		return err
	}
	s.group(id).apply(v, value)
	return nil
}

// reset puts a group back to its last record.
func (s *Shard) reset(g *group) {
	durable := g.durable
	g.clear()
	if durable == nil {
		return
	}
	v, err := ParseGroup(durable)
	if err != nil {
		panic(fmt.Sprintf("group: %s: a record that was replayed does not decode: %v", g.id, err))
	}
	g.apply(v, durable)
	s.resume(g)
}

// apply makes v, whose encoding is value, the group's hard state. Members that v does not
// have are gone; members that it has keep their soft state.
func (g *group) apply(v *kmsg.GroupMetadataValue, value []byte) {
	g.durable = value
	g.generation, g.protocolType, g.protocol, g.leader = v.Generation, v.ProtocolType, v.Protocol, str(v.Leader)
	g.stateAtMs = v.CurrentStateTimestamp
	if v.Version < 2 {
		g.stateAtMs = -1
	}
	old := g.byID
	g.members, g.byID, g.static, g.support = nil, map[string]*member{}, map[string]string{}, map[string]int{}
	assigned := false
	for i := range v.Members {
		vm := &v.Members[i]
		m := old[vm.MemberID]
		if m == nil {
			m = new(member)
		}
		m.load(v, vm)
		assigned = assigned || len(vm.Assignment) > 0
		g.restore(m)
	}
	switch {
	case len(g.members) == 0:
		g.state = Empty
	case !assigned && g.stateAtMs < 0 && v.Version >= 2:
		g.state = CompletingRebalance
	default:
		g.state = Stable
	}
	g.initial, g.newMember = false, false
	g.subscribed, g.subscribedOK = g.subscriptions()
}

// restore appends a member of the record, unless a damaged record names it twice.
func (g *group) restore(m *member) {
	if g.byID[m.id] != nil {
		return
	}
	g.members = append(g.members, m)
	g.byID[m.id] = m
	if m.instance != nil {
		g.static[*m.instance] = m.id
	}
	g.count(m, 1)
	delete(g.pendingJoin, m.id)
}

// load takes over what the record says of the member. What it offers beside the chosen
// protocol is soft state, and stays if it is of the same joining as the record.
func (m *member) load(v *kmsg.GroupMetadataValue, vm *kmsg.GroupMetadataValueMember) {
	m.id, m.instance, m.clientID, m.clientHost = vm.MemberID, vm.InstanceID, vm.ClientID, vm.ClientHost
	m.sessionMs, m.rebalanceMs = vm.SessionTimeoutMillis, vm.RebalanceTimeoutMillis
	if v.Version < 1 || m.rebalanceMs == -1 {
		m.rebalanceMs = m.sessionMs
	}
	name := str(v.Protocol)
	if !slices.ContainsFunc(m.protocols, func(p protocol) bool { return p.name == name && bytes.Equal(p.metadata, vm.Subscription) }) {
		m.protocols = []protocol{{name, vm.Subscription}}
	}
	m.assignment = vm.Assignment
}

// metadataRecord is the group as it is to be: the next generation or an assignment.
func (g *group) metadataRecord(generation int32, proto *string, stateAtMs int64, assignment func(*member) []byte) Record {
	v := kmsg.NewGroupMetadataValue()
	v.Version = valueGroupMetadata
	v.ProtocolType, v.Generation, v.Protocol = g.protocolType, generation, proto
	v.CurrentStateTimestamp = stateAtMs
	if len(g.members) > 0 {
		leader := g.leader
		v.Leader = &leader
	}
	for _, m := range g.members {
		vm := kmsg.NewGroupMetadataValueMember()
		vm.MemberID, vm.InstanceID, vm.ClientID, vm.ClientHost = m.id, m.instance, m.clientID, m.clientHost
		vm.RebalanceTimeoutMillis, vm.SessionTimeoutMillis = m.rebalanceMs, m.sessionMs
		vm.Subscription, vm.Assignment = m.metadata(str(proto)), assignment(m)
		v.Members = append(v.Members, vm)
	}
	return Record{groupKey(g.id), v.AppendTo(nil)}
}

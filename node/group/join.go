package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Kafka's error codes that the protocol is made of; a test holds them against kerr.
const (
	codeNone                int16 = 0
	codeIllegalGeneration   int16 = 22
	codeInconsistent        int16 = 23
	codeInvalidGroupID      int16 = 24
	codeUnknownMember       int16 = 25
	codeRebalanceInProgress int16 = 27
	codeFencedInstance      int16 = 82
)

// Versions of JoinGroup that changed what a member is told.
const (
	versionMemberIDRequired = 4
	versionSkipAssignment   = 9
)

func joinError(version int16, memberID string, code int16) *kmsg.JoinGroupResponse {
	r := kmsg.NewPtrJoinGroupResponse()
	none := ""
	r.Version, r.ErrorCode, r.MemberID, r.Generation, r.Protocol = version, code, memberID, -1, &none
	return r
}

// joinResponse is the current generation as told to the member; only the leader sees the
// others.
func (g *group) joinResponse(m *member, version int16) *kmsg.JoinGroupResponse {
	r := kmsg.NewPtrJoinGroupResponse()
	protocolType := g.protocolType
	r.Version, r.Generation, r.MemberID, r.LeaderID = version, g.generation, m.id, g.leader
	r.ProtocolType, r.Protocol = &protocolType, g.protocol
	if g.isLeader(m.id) {
		r.Members = g.joinMembers()
	}
	return r
}

func (g *group) joinMembers() []kmsg.JoinGroupResponseMember {
	var ms []kmsg.JoinGroupResponseMember
	for _, m := range g.members {
		jm := kmsg.NewJoinGroupResponseMember()
		jm.MemberID, jm.InstanceID, jm.ProtocolMetadata = m.id, m.instance, m.metadata(str(g.protocol))
		ms = append(ms, jm)
	}
	return ms
}

// protocols copies what a member offers; a name that comes twice counts once.
func protocols(req *kmsg.JoinGroupRequest) []protocol {
	ps := make([]protocol, 0, len(req.Protocols))
	seen := map[string]bool{}
	for _, p := range req.Protocols {
		if !seen[p.Name] {
			seen[p.Name] = true
			ps = append(ps, protocol{p.Name, clone(p.Metadata)})
		}
	}
	return ps
}

func (s *Shard) join(c Join) {
	req := c.Req
	fail := func(memberID string, code int16) { s.reply(c.Ticket, joinError(req.Version, memberID, code)) }
	switch {
	case req.Group == "":
		fail(req.MemberID, codeInvalidGroupID)
		return
	case req.SessionTimeoutMillis < s.cfg.MinSessionTimeoutMs || req.SessionTimeoutMillis > s.cfg.MaxSessionTimeoutMs:
		fail(req.MemberID, kerr.InvalidSessionTimeout.Code)
		return
	case s.groups[req.Group] == nil && req.MemberID != "":
		fail(req.MemberID, codeUnknownMember)
		return
	}
	g := s.group(req.Group)
	ps := protocols(req)
	switch {
	case !s.accepts(g, req.MemberID):
		s.evict(g, req.MemberID)
		fail("", kerr.GroupMaxSizeReached.Code)
	case !g.supports(req.ProtocolType, ps):
		fail(req.MemberID, codeInconsistent)
	case req.MemberID == "":
		s.joinNew(g, c, ps)
	default:
		s.joinKnown(g, c, ps)
	}
	if s.staged == nil {
		s.dropUnused(g)
	}
}

// accepts: the group has room, or the member is in it already.
func (s *Shard) accepts(g *group, memberID string) bool {
	m := g.byID[memberID]
	switch g.state {
	case PreparingRebalance:
		return m != nil && m.join.parked || g.awaitingJoin() < int(s.cfg.MaxSize)
	case CompletingRebalance, Stable:
		return m != nil || len(g.members) < int(s.cfg.MaxSize)
	default:
		return true
	}
}

func (s *Shard) evict(g *group, id string) {
	if g.byID[id] != nil || g.pending(id) {
		s.cancelSession(g, id)
		g.remove(id)
		s.emit(MemberRemoved{g.id, id, "the group is full"})
	}
}

// joinNew gives a member its id: a static one takes its place at once, a dynamic one is
// asked to come back with the id (from version 4), so that a client that gives up while
// waiting leaves no member behind (KIP-394).
func (s *Shard) joinNew(g *group, c Join, ps []protocol) {
	req := c.Req
	id := s.newMemberID(g, c.ClientID, req.InstanceID)
	if req.InstanceID != nil {
		if old, ok := g.static[*req.InstanceID]; ok {
			s.replaceStatic(g, c, ps, old, id)
			return
		}
		s.addMember(g, c, ps, id)
		return
	}
	if req.Version >= versionMemberIDRequired {
		g.pendingJoin[id] = s.after(int64(req.SessionTimeoutMillis))
		s.setTimer(TimerKey{TimerSession, g.id, id}, g.pendingJoin[id])
		s.reply(c.Ticket, joinError(req.Version, id, kerr.MemberIDRequired.Code))
		return
	}
	s.addMember(g, c, ps, id)
}

func (s *Shard) addMember(g *group, c Join, ps []protocol, id string) {
	m := &member{id: id, clientID: c.ClientID, clientHost: c.ClientHost, isNew: true}
	if c.Req.InstanceID != nil {
		instance := *c.Req.InstanceID
		m.instance = &instance
	}
	m.protocols = ps
	if g.state == PreparingRebalance && g.initial {
		g.newMember = true
	}
	g.add(m, c.Req.ProtocolType)
	s.park(g, m, c, ps)
	s.touchFor(g, m, s.cfg.NewMemberJoinTimeoutMs)
	s.rebalance(g)
}

// park renews what the member offers and keeps its request until the generation is made.
// An earlier request of the same member is answered, for nobody else would.
func (s *Shard) park(g *group, m *member, c Join, ps []protocol) {
	s.answerJoin(m, joinError(m.join.version, m.id, codeRebalanceInProgress))
	g.count(m, -1)
	m.protocols = ps
	g.count(m, 1)
	m.sessionMs, m.rebalanceMs = c.Req.SessionTimeoutMillis, c.Req.RebalanceTimeoutMillis
	if c.Req.Version < 1 {
		m.rebalanceMs = m.sessionMs
	}
	m.join = waiter{c.Ticket, c.Req.Version, true}
}

func (s *Shard) joinKnown(g *group, c Join, ps []protocol) {
	req := c.Req
	if g.pending(req.MemberID) && req.InstanceID == nil {
		s.addMember(g, c, ps, req.MemberID)
		return
	}
	if code := g.check(req.MemberID, req.InstanceID); code != codeNone {
		s.reply(c.Ticket, joinError(req.Version, req.MemberID, code))
		return
	}
	m := g.byID[req.MemberID]
	again := g.state == CompletingRebalance && m.offers(ps) ||
		g.state == Stable && m.offers(ps) && !g.isLeader(m.id)
	if again {
		// It missed the reply, or asks without news: the generation stands.
		s.reply(c.Ticket, g.joinResponse(m, req.Version))
		return
	}
	s.park(g, m, c, ps)
	s.rebalance(g)
}

// check validates a member id, and that its instance is its own.
func (g *group) check(id string, instance *string) int16 {
	if instance != nil {
		switch owner, ok := g.static[*instance]; {
		case !ok:
			return codeUnknownMember
		case owner != id:
			return codeFencedInstance
		}
	}
	if g.byID[id] == nil {
		return codeUnknownMember
	}
	return codeNone
}

// replaceStatic lets a restarted static member take the place of its older self. In a
// stable group whose protocol stays the same nothing else happens: no rebalance.
func (s *Shard) replaceStatic(g *group, c Join, ps []protocol, oldID, newID string) {
	oldLeader := g.leader
	m := s.rename(g, *c.Req.InstanceID, oldID, newID)
	s.park(g, m, c, ps)
	s.touch(g, m)
	switch {
	case g.state == Stable && g.vote() == str(g.protocol):
		at := g.stateAtMs
		if at < 0 {
			at = s.stamp()
		}
		s.propose(stage{
			records: []Record{g.metadataRecord(g.generation, g.protocol, at, func(m *member) []byte { return m.assignment })},
			group:   g.id,
			applied: func() { s.replaced(g, m, oldLeader) },
		})
	case g.state == Stable || g.state == CompletingRebalance:
		s.prepareRebalance(g)
	default:
		s.tryComplete(g)
	}
}

// replaced answers the restarted member. If it leads, a client that understands
// skipAssignment learns so; an older one is told of its former id as the leader, lest it
// computes an assignment that nobody expects.
func (s *Shard) replaced(g *group, m *member, oldLeader string) {
	r := g.joinResponse(m, m.join.version)
	if m.join.version >= versionSkipAssignment {
		r.SkipAssignment = g.isLeader(m.id)
	} else {
		r.LeaderID, r.Members = oldLeader, nil
	}
	s.answerJoin(m, r)
}

// rename gives a static member's place to a new id and fences the old one.
func (s *Shard) rename(g *group, instance, oldID, newID string) *member {
	old := g.byID[oldID]
	s.answerJoin(old, joinError(old.join.version, oldID, codeFencedInstance))
	s.answerSync(old, syncError(old.sync.version, codeFencedInstance))
	s.cancelSession(g, oldID)
	s.emit(MemberFenced{g.id, instance, oldID, newID})

	m := *old
	m.id = newID
	g.members[slices.Index(g.members, old)] = &m
	delete(g.byID, oldID)
	g.byID[newID] = &m
	g.static[instance] = newID
	if g.leader == oldID {
		g.leader = newID
	}
	s.synced(g, oldID)
	return &m
}

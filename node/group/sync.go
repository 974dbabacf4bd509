package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

func syncError(version int16, code int16) *kmsg.SyncGroupResponse {
	r := kmsg.NewPtrSyncGroupResponse()
	r.Version, r.ErrorCode, r.MemberAssignment = version, code, []byte{}
	return r
}

func (g *group) syncResponse(m *member, version int16) *kmsg.SyncGroupResponse {
	r := kmsg.NewPtrSyncGroupResponse()
	protocolType := g.protocolType
	r.Version, r.ProtocolType, r.Protocol, r.MemberAssignment = version, &protocolType, g.protocol, clone(m.assignment)
	return r
}

// sync hands the leader's assignment to the group, and to each member its own.
func (s *Shard) sync(c Sync) {
	req := c.Req
	fail := func(code int16) { s.reply(c.Ticket, syncError(req.Version, code)) }
	if req.Group == "" {
		fail(codeInvalidGroupID)
		return
	}
	if req.Version >= 5 && (req.ProtocolType == nil || req.Protocol == nil) {
		fail(codeInconsistent)
		return
	}
	g := s.groups[req.Group]
	if g == nil || g.state == Empty {
		fail(codeUnknownMember)
		return
	}
	if code := g.checkSync(req); code != codeNone {
		fail(code)
		return
	}
	m := g.byID[req.MemberID]
	switch g.state {
	case PreparingRebalance:
		fail(codeRebalanceInProgress)
	case CompletingRebalance:
		s.answerSync(m, syncError(m.sync.version, codeRebalanceInProgress))
		m.sync = waiter{c.Ticket, req.Version, true}
		s.synced(g, m.id)
		if g.isLeader(m.id) {
			s.assign(g, req)
		}
	default:
		s.synced(g, m.id)
		s.touch(g, m)
		s.reply(c.Ticket, g.syncResponse(m, req.Version))
	}
}

func (g *group) checkSync(req *kmsg.SyncGroupRequest) int16 {
	differ := func(a *string, b string) bool { return a != nil && b != "" && *a != b }
	if code := g.check(req.MemberID, req.InstanceID); code != codeNone {
		return code
	}
	switch {
	case req.Generation != g.generation:
		return codeIllegalGeneration
	case differ(req.ProtocolType, g.protocolType) || differ(req.Protocol, str(g.protocol)):
		return codeInconsistent
	}
	return codeNone
}

// synced takes a member off the list of those who have not synced.
func (s *Shard) synced(g *group, id string) {
	delete(g.pendingSync, id)
	if len(g.pendingSync) == 0 {
		s.cancelSync(g)
	}
}

// assign writes the leader's assignment; a member that it leaves out gets nothing.
func (s *Shard) assign(g *group, req *kmsg.SyncGroupRequest) {
	to := map[string][]byte{}
	for _, a := range req.GroupAssignment {
		to[a.MemberID] = a.MemberAssignment
	}
	s.propose(stage{
		records: []Record{g.metadataRecord(g.generation, g.protocol, s.stamp(), func(m *member) []byte { return to[m.id] })},
		group:   g.id,
		applied: func() {
			for _, m := range g.members {
				if s.answerSync(m, g.syncResponse(m, m.sync.version)) {
					s.touch(g, m)
				}
			}
			s.emit(Stabilized{g.id, g.generation, len(g.members)})
		},
	})
}

// heartbeat renews a member's session, and tells it of a rebalance.
func (s *Shard) heartbeat(c Heartbeat) {
	req := c.Req
	r := kmsg.NewPtrHeartbeatResponse()
	r.Version = req.Version
	r.ErrorCode = s.beat(req)
	s.reply(c.Ticket, r)
}

func (s *Shard) beat(req *kmsg.HeartbeatRequest) int16 {
	if req.Group == "" {
		return codeInvalidGroupID
	}
	g := s.groups[req.Group]
	if g == nil {
		return codeUnknownMember
	}
	if code := g.check(req.MemberID, req.InstanceID); code != codeNone {
		return code
	}
	if req.Generation != g.generation {
		return codeIllegalGeneration
	}
	s.touch(g, g.byID[req.MemberID])
	if g.state == PreparingRebalance {
		return codeRebalanceInProgress
	}
	return codeNone
}

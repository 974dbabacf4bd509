package group

import "github.com/twmb/franz-go/pkg/kmsg"

// leave removes members at their own, or at an administrator's, wish. Before version 3 a
// request names one member, and its error is the response's.
func (s *Shard) leave(c Leave) {
	req := c.Req
	r := kmsg.NewPtrLeaveGroupResponse()
	r.Version = req.Version
	if req.Group == "" {
		r.ErrorCode = codeInvalidGroupID
		s.reply(c.Ticket, r)
		return
	}
	g, left := s.groups[req.Group], false
	for _, id := range leaving(req) {
		rm := kmsg.NewLeaveGroupResponseMember()
		rm.MemberID, rm.InstanceID, rm.ErrorCode = id.MemberID, id.InstanceID, codeUnknownMember
		if g != nil {
			rm.ErrorCode = s.leaveOne(g, id)
		}
		left = left || rm.ErrorCode == codeNone
		r.Members = append(r.Members, rm)
	}
	if req.Version < 3 {
		r.ErrorCode = r.Members[0].ErrorCode
		r.Members = nil
	}
	if left {
		switch g.state {
		case Stable, CompletingRebalance:
			s.prepareRebalance(g)
		case PreparingRebalance:
			s.tryComplete(g)
		default:
		}
	}
	if s.staged == nil {
		s.reply(c.Ticket, r)
		if g != nil {
			s.dropUnused(g)
		}
		return
	}
	s.staged.reply(s, c.Ticket, r, func(code int16) any {
		e := kmsg.NewPtrLeaveGroupResponse()
		e.Version, e.ErrorCode = req.Version, code
		return e
	})
}

// reply adds an answer that leaves if the records are taken, and another if not.
func (st *stage) reply(s *Shard, t Ticket, msg any, failed func(code int16) any) {
	applied := st.applied
	st.applied = func() {
		if applied != nil {
			applied()
		}
		s.reply(t, msg)
	}
	st.refused = func(code int16) { s.reply(t, failed(code)) }
}

func leaving(req *kmsg.LeaveGroupRequest) []kmsg.LeaveGroupRequestMember {
	if req.Version >= 3 {
		return req.Members
	}
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID = req.MemberID
	return []kmsg.LeaveGroupRequestMember{m}
}

// leaveOne takes one member out. An empty member id with an instance id stands for whoever
// holds the instance.
func (s *Shard) leaveOne(g *group, who kmsg.LeaveGroupRequestMember) int16 {
	id := who.MemberID
	if id == "" {
		if who.InstanceID == nil {
			return codeUnknownMember
		}
		owner, ok := g.static[*who.InstanceID]
		if !ok {
			return codeUnknownMember
		}
		id = owner
	} else if !g.pending(id) {
		if code := g.check(id, who.InstanceID); code != codeNone {
			return code
		}
	}
	reason := "left"
	if who.Reason != nil && *who.Reason != "" {
		reason = "left: " + *who.Reason
	}
	s.emit(MemberRemoved{g.id, id, reason})
	if m := g.byID[id]; m != nil {
		s.answerJoin(m, joinError(m.join.version, "", codeUnknownMember))
		s.answerSync(m, syncError(m.sync.version, codeUnknownMember))
	}
	s.cancelSession(g, id)
	g.remove(id)
	return codeNone
}

package group

import "github.com/twmb/franz-go/pkg/kmsg"

// canRebalance: a rebalance is not already gathering members.
func (g *group) canRebalance() bool { return g.state != PreparingRebalance }

// rebalance starts one, or lets the one that gathers members see whether it is complete.
func (s *Shard) rebalance(g *group) {
	if g.canRebalance() {
		s.prepareRebalance(g)
		return
	}
	s.tryComplete(g)
}

// tryComplete ends the gathering if all are here. One that started from an empty group
// waits for its delay whatever happens.
func (s *Shard) tryComplete(g *group) {
	if g.state == PreparingRebalance && !g.initial && g.allJoined() {
		s.completeJoin(g)
	}
}

func (s *Shard) prepareRebalance(g *group) {
	if g.state == CompletingRebalance {
		for _, m := range g.members {
			m.assignment = nil
			if s.answerSync(m, syncError(m.sync.version, codeRebalanceInProgress)) {
				s.touch(g, m) // it was not late: we let it wait
			}
		}
	}
	s.cancelSync(g)
	g.initial = g.state == Empty
	g.state = PreparingRebalance
	if g.initial {
		g.newMember = false
		g.delayMs = s.cfg.InitialRebalanceDelayMs
		g.remainingMs = max(g.rebalanceMs()-g.delayMs, 0)
		s.setJoin(g, g.delayMs)
		return
	}
	if g.allJoined() {
		s.completeJoin(g)
		return
	}
	s.setJoin(g, g.rebalanceMs())
}

// expireJoin: the initial delay is over, or the rebalance time-out.
func (s *Shard) expireJoin(g *group) {
	if g.state != PreparingRebalance {
		return
	}
	if g.initial && g.newMember && g.remainingMs != 0 {
		g.newMember = false
		delay := min(s.cfg.InitialRebalanceDelayMs, g.remainingMs)
		g.remainingMs = max(g.remainingMs-g.delayMs, 0)
		g.delayMs = delay
		s.setJoin(g, delay)
		return
	}
	s.completeJoin(g)
}

// completeJoin makes the next generation of those who joined. Static members that did not
// stay: their session decides.
func (s *Shard) completeJoin(g *group) {
	s.cancelJoin(g)
	for _, m := range append([]*member(nil), g.members...) {
		if m.instance == nil && !m.join.parked {
			s.cancelSession(g, m.id)
			g.remove(m.id)
			s.emit(MemberRemoved{g.id, m.id, "did not rejoin in time"})
		}
	}
	if len(g.members) == 0 {
		s.becomeEmpty(g)
		return
	}
	if !g.electJoined() {
		s.setJoin(g, g.rebalanceMs())
		return
	}
	proto := g.vote()
	none := func(*member) []byte { return []byte{} }
	s.propose(stage{
		records: []Record{g.metadataRecord(g.generation+1, &proto, -1, none)},
		group:   g.id,
		applied: func() { s.joined(g) },
	})
}

func (s *Shard) becomeEmpty(g *group) {
	none := func(*member) []byte { return []byte{} }
	s.propose(stage{
		records: []Record{g.metadataRecord(g.generation+1, nil, s.stamp(), none)},
		group:   g.id,
		applied: func() {
			s.cancelSync(g)
			s.emit(Rebalanced{g.id, g.generation, 0, ""})
		},
	})
}

// joined tells the members of a generation that is written.
func (s *Shard) joined(g *group) {
	s.cancelSync(g)
	for _, m := range g.members {
		s.answerJoin(m, g.joinResponse(m, m.join.version))
		m.isNew = false
		s.touch(g, m)
		g.pendingSync[m.id] = struct{}{}
	}
	s.setSync(g)
	s.emit(Rebalanced{g.id, g.generation, len(g.members), str(g.protocol)})
}

// stamp is the wall clock for a state timestamp, in milliseconds, which -1 would unset.
func (s *Shard) stamp() int64 { return max(s.now.UnixMs, 0) }

// answerJoin answers a parked JoinGroup; resp may be nil if none is parked.
func (s *Shard) answerJoin(m *member, resp *kmsg.JoinGroupResponse) {
	if m.join.parked {
		s.reply(m.join.ticket, resp)
		m.join = waiter{}
	}
}

// answerSync answers a parked SyncGroup.
func (s *Shard) answerSync(m *member, resp *kmsg.SyncGroupResponse) bool {
	if !m.sync.parked {
		return false
	}
	s.reply(m.sync.ticket, resp)
	m.sync = waiter{}
	return true
}

// expireSync puts out the members that took part in the rebalance but never asked for
// their assignment.
func (s *Shard) expireSync(g *group) {
	if g.state != CompletingRebalance && g.state != Stable || len(g.pendingSync) == 0 {
		return
	}
	for _, id := range sortedKeys(g.pendingSync) {
		if m := g.byID[id]; m != nil {
			s.answerJoin(m, joinError(m.join.version, "", codeUnknownMember))
		}
		s.cancelSession(g, id)
		g.remove(id)
		s.emit(MemberRemoved{g.id, id, "did not sync in time"})
	}
	s.prepareRebalance(g)
}

// expireSession removes a member, or one that was given an id and did not come back.
func (s *Shard) expireSession(g *group, id string) {
	if at, ok := g.pendingJoin[id]; ok {
		if at > s.now.Mono {
			return
		}
		g.remove(id)
		s.emit(MemberRemoved{g.id, id, "did not join with its new id in time"})
		if g.state == PreparingRebalance && g.allJoined() {
			s.completeJoin(g)
		}
		s.dropUnused(g)
		return
	}
	m := g.byID[id]
	if m == nil || m.sessionAt > s.now.Mono || m.alive() {
		return
	}
	s.emit(MemberRemoved{g.id, id, "session timed out"})
	s.answerJoin(m, joinError(m.join.version, "", codeUnknownMember))
	s.answerSync(m, syncError(m.sync.version, codeUnknownMember))
	g.remove(id)
	switch {
	case g.state == Stable || g.state == CompletingRebalance:
		s.prepareRebalance(g)
	case g.state == PreparingRebalance && g.allJoined():
		s.completeJoin(g)
	}
}

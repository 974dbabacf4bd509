package raft

import (
	"slices"
	"time"

	"seedlog/clock"
)

// leading is what a leader keeps.
type leading struct {
	// epochStart is the offset of the epoch's first record, end that up to which the log is
	// durable here.
	epochStart, end int64
	replicas        []replica
	// quorumAt is when to resign, unless a majority has fetched before; fetched are the voters
	// that have since it was set.
	quorumAt clock.Instant
	fetched  []ReplicaKey
	parked   []parked
	change   *change
	// said is what the static voters have said about themselves in this epoch.
	said []Voter
}

// becomeLeader is what a majority of votes makes of a candidate. That it leads says whom it
// voted for.
func (c *Core) becomeLeader(s *step) {
	granting := c.granted
	c.leave(s)
	c.role, c.roleAt, c.elections = Leader, clock.Never, 0
	c.leaderEndpoints = c.cfg.Endpoints
	c.persist(ElectionState{Epoch: c.state.Epoch, LeaderID: c.cfg.Self.ID, Voted: NoReplica()}, s)
	end, _ := c.cfg.Log.End()
	c.lead = &leading{epochStart: end, end: end, quorumAt: clock.Never}
	c.restartCheckQuorum(s)
	c.askVoters(s)
	s.out.Follow = &Follow{c.state.Epoch, c.cfg.Self.ID, c.cfg.Endpoints}
	s.out.Begin = &Begin{Epoch: c.state.Epoch, Granting: granting, Change: c.firstChange()}
	for _, v := range c.Voters() {
		s.out.Begin.Voters = append(s.out.Begin.Voters, v.Key)
	}
	c.note(BecameLeader, c.cfg.Self, end, s)
}

// firstChange is the voter set that begins the epoch, if the log has none yet, or has this
// node with other endpoints.
func (c *Core) firstChange() *Change {
	v := c.voter(c.cfg.Self)
	if c.KRaftVersion() < 1 || v == nil || len(c.cfg.Endpoints) == 0 {
		return nil
	}
	first := c.lastSet().Offset < 0
	if !first && v.equal(c.self()) {
		return nil
	}
	change := &Change{Epoch: c.state.Epoch, Voters: c.withVoter(c.self()), KRaftVersion: -1}
	if first {
		change.KRaftVersion = c.KRaftVersion()
	}
	return change
}

// stopLeading ends a leadership; who waits for it gets code.
func (c *Core) stopLeading(code int16, s *step) {
	l := c.lead
	if l == nil {
		return
	}
	c.role, c.lead = Resigned, nil
	s.out.Resigned = true
	for _, p := range l.parked {
		c.refuse(p.id, code, s)
	}
	if l.change != nil {
		c.abandonChange(l.change, code, s)
	}
}

// resign ends the leadership and asks the others to elect one of them, first who has most.
func (c *Core) resign(s *step) {
	preferred := c.successors()
	c.becomeResigned(s)
	c.preferred = preferred
	c.askVoters(s)
}

// becomeResigned: this node takes no further part in its own epoch.
func (c *Core) becomeResigned(s *step) {
	c.leave(s)
	c.role = Resigned
	c.roleAt = clock.Never
	if c.canStand() {
		c.roleAt = c.electionTimeout(s)
	}
	s.out.Follow = &Follow{Epoch: c.state.Epoch, LeaderID: None}
}

// shutdown hands over.
func (c *Core) shutdown(s *step) {
	c.stopping = true
	switch c.role {
	case Leader:
		c.resign(s)
	case Prospective, Candidate:
		c.becomeUnattached(c.state.Epoch, s)
	case Unattached, Resigned:
		c.roleAt = clock.Never
	}
}

// advance moves the high watermark to what a majority has, once that reaches into the
// leader's own epoch: what former leaders left may only be committed with it.
func (c *Core) advance(s *step) {
	voters := c.Voters()
	ends := make([]int64, 0, len(voters))
	for _, v := range voters {
		end := int64(0)
		if v.Key.Matches(c.cfg.Self) {
			end = c.lead.end
		} else if r := c.replica(v.Key); r != nil {
			end = r.end
		}
		ends = append(ends, end)
	}
	hw := majorityEnd(ends)
	if hw <= c.lead.epochStart || hw <= c.highWatermark {
		return
	}
	c.highWatermark = hw
	s.out.HighWatermark = hw
	c.forgetOldSets()
	c.changeCommitted(s)
	if set := c.lastSet(); !c.IsVoter() && set.Offset < hw {
		c.note(Removed, c.cfg.Self, set.Offset, s)
		c.resign(s)
	}
}

// majorityEnd is the largest end that a majority of the voters has reached.
func majorityEnd(ends []int64) int64 {
	if len(ends) == 0 {
		return 0
	}
	slices.Sort(ends)
	return ends[(len(ends)-1)/2]
}

// committedInEpoch reports whether something of the leader's own epoch is committed: from then
// on it knows which voter changes of former leaders count.
func (c *Core) committedInEpoch() bool { return c.highWatermark > c.lead.epochStart }

// successors are the other voters, first who has most of the log.
func (c *Core) successors() []ReplicaKey {
	var out []ReplicaKey
	for _, v := range c.Voters() {
		if !v.Key.Matches(c.cfg.Self) {
			out = append(out, v.Key)
		}
	}
	end := func(k ReplicaKey) int64 {
		if r := c.replica(k); r != nil {
			return r.end
		}
		return -1
	}
	slices.SortStableFunc(out, func(a, b ReplicaKey) int {
		if x, y := end(a), end(b); x != y {
			return int(min(max(y-x, -1), 1))
		}
		return int(a.ID - b.ID)
	})
	return out
}

// leaderVotersChanged: the leader's log names other voters.
func (c *Core) leaderVotersChanged(offset int64, s *step) {
	if ch := c.lead.change; ch != nil && ch.asked && ch.offset < 0 {
		c.changeAppended(offset, s)
	}
	c.knowDirectories()
	c.askVoters(s)
	c.lead.fetched = slices.DeleteFunc(c.lead.fetched, func(k ReplicaKey) bool { return c.voter(k) == nil })
	if c.lead.quorumAt == clock.Never || c.quorumFetched() {
		c.restartCheckQuorum(s)
	}
}

// checkQuorumTimeout is how long a leader goes on without a majority: longer than followers
// wait for it.
func (c *Core) checkQuorumTimeout() time.Duration { return c.cfg.FetchTimeout + c.cfg.FetchTimeout/2 }

func (c *Core) restartCheckQuorum(s *step) {
	c.lead.fetched = c.lead.fetched[:0]
	c.lead.quorumAt = s.now.Add(c.checkQuorumTimeout())
	if c.othersNeeded() == 0 {
		c.lead.quorumAt = clock.Never
	}
}

// othersNeeded is how many other voters make a majority with this node, if it is one.
func (c *Core) othersNeeded() int {
	n := len(c.Voters())/2 + 1
	if c.IsVoter() {
		n--
	}
	return n
}

func (c *Core) quorumFetched() bool { return len(c.lead.fetched) >= c.othersNeeded() }

// heardFrom notes that a replica follows this leader.
func (c *Core) heardFrom(k ReplicaKey, s *step) {
	for i := range c.asks {
		if a := &c.asks[i]; a.to.Key == k && a.seq == 0 {
			a.due, a.failures = s.now.Add(c.cfg.FetchTimeout/2), 0
		}
	}
	if c.voter(k) == nil || slices.Contains(c.lead.fetched, k) {
		return
	}
	c.lead.fetched = append(c.lead.fetched, k)
	if c.quorumFetched() {
		c.restartCheckQuorum(s)
	}
}

func (c *Core) expireLeader(s *step) {
	if c.lead.quorumAt <= s.now {
		c.note(QuorumLost, c.cfg.Self, -1, s)
		c.resign(s)
		return
	}
	c.answerParked(s)
	c.expireChange(s)
}

func (c *Core) leaderDeadline() clock.Instant {
	next := c.lead.quorumAt
	for _, p := range c.lead.parked {
		next = min(next, p.until)
	}
	if c.lead.change != nil {
		next = min(next, c.lead.change.until)
	}
	return next
}

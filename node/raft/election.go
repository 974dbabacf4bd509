package raft

import (
	"cmp"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// electionBackoffBase is the unit of the exponential back-off after a lost election.
const electionBackoffBase = 50 * time.Millisecond

// standProspective begins an election: would a majority vote for this node? Nothing is
// durable before that is known, so that a node that cannot win disturbs nobody (KIP-996).
func (c *Core) standProspective(s *step) {
	leader := c.LeaderID()
	endpoints := c.leaderEndpoints
	c.leave(s)
	c.role, c.leaderEndpoints = Prospective, endpoints
	c.granted = c.ownVote()
	c.note(BecameProspective, ReplicaKey{ID: leader}, -1, s)
	if c.majority(len(c.granted)) {
		c.standCandidate(s)
		return
	}
	c.roleAt = c.electionTimeout(s)
	c.askVoters(s)
}

// lostProspective: a majority would not vote for this node, or did not say.
func (c *Core) lostProspective(s *step) {
	switch {
	case c.state.LeaderID == c.cfg.Self.ID:
		c.becomeResigned(s)
	case c.state.LeaderID == None || !c.IsVoter():
		c.becomeUnattached(c.state.Epoch, s)
	default:
		c.follow(c.state.Epoch, c.state.LeaderID, c.leaderEndpoints, s)
	}
}

// standCandidate asks for votes in the next epoch. Its own is durable first.
func (c *Core) standCandidate(s *step) {
	c.leave(s)
	c.role = Candidate
	c.persist(ElectionState{Epoch: c.state.Epoch + 1, LeaderID: None, Voted: c.cfg.Self}, s)
	s.out.Follow = &Follow{Epoch: c.state.Epoch, LeaderID: None}
	c.granted = c.ownVote()
	c.note(BecameCandidate, c.cfg.Self, -1, s)
	if c.majority(len(c.granted)) {
		c.becomeLeader(s)
		return
	}
	c.roleAt = c.electionTimeout(s)
	c.askVoters(s)
}

// lostElection waits a drawn time, longer after each election that was lost, and then begins
// another: two candidates that split the votes part.
func (c *Core) lostElection(s *step) {
	c.elections++
	c.asks = nil
	c.backingOff = true
	wait := electionBackoffBase * time.Duration(s.rnd.Int64N(2<<min(20, c.elections-1)))
	c.roleAt = s.now.Add(min(wait, c.cfg.ElectionBackoffMax))
}

// voted: a voter answered a Vote.
func (c *Core) voted(a *ask, r Reply, s *step) {
	// A voter that knows no pre-vote cannot object to an election.
	unknown := c.role == Prospective && r.Code == kerr.UnsupportedVersion.Code
	if !unknown && (r.Code != 0 || r.Epoch != c.state.Epoch) {
		c.askFailed(a, s)
		return
	}
	a.seq, a.done = 0, true
	if r.Granted || unknown {
		c.granted = append(c.granted, a.to.Key)
	} else {
		c.rejected = append(c.rejected, a.to.Key)
	}
	won, lost := c.majority(len(c.granted)), len(c.rejected) >= (len(c.Voters())+1)/2
	switch {
	case won && c.role == Prospective:
		c.standCandidate(s)
	case won:
		c.becomeLeader(s)
	case lost && c.role == Prospective:
		c.lostProspective(s)
	case lost:
		c.lostElection(s)
	}
}

// majority reports whether n voters are one.
func (c *Core) majority(n int) bool { return n > len(c.Voters())/2 }

// onVote answers a candidate. A granted vote is durable first.
func (c *Core) onVote(id uint64, m Vote, s *step) {
	switch {
	case m.EndOffset < 0 || m.LastEpoch < 0 || m.LastEpoch > m.Epoch || !m.PreVote && m.LastEpoch == m.Epoch,
		m.Candidate.ID < 0, m.Candidate.ID == c.cfg.Self.ID:
		c.refuse(id, kerr.InvalidRequest.Code, s)
		return
	case m.Epoch < c.state.Epoch:
		c.refuse(id, kerr.FencedLeaderEpoch.Code, s)
		return
	}
	if m.Epoch > c.state.Epoch {
		c.becomeUnattached(m.Epoch, s)
	}
	if !c.isSelf(m.Voter) {
		c.refuse(id, kerr.InvalidVoterKey.Code, s)
		return
	}
	granted := c.cfg.CanVote && c.upToDate(m)
	if granted && m.PreVote {
		granted = c.grantsPreVote()
	} else if granted {
		granted = c.grantsVote(m.Candidate, s)
	}
	r := c.reply(0)
	r.Granted = granted
	c.answer(id, r, s)
}

// isSelf reports whether a request is for this node; an old one does not say.
func (c *Core) isSelf(k ReplicaKey) bool { return k.ID == None || k.Matches(c.cfg.Self) }

// upToDate reports whether the candidate has all that this node has.
func (c *Core) upToDate(m Vote) bool {
	end, epoch := c.cfg.Log.End()
	return cmp.Or(cmp.Compare(m.LastEpoch, epoch), cmp.Compare(m.EndOffset, end)) >= 0
}

// grantsPreVote: only who hears from a leader, or is it, objects to an election.
func (c *Core) grantsPreVote() bool {
	return c.role != Leader && (c.role != Follower || !c.fetch.heard)
}

// grantsVote gives this node's one vote of the epoch, unless the epoch has a leader.
func (c *Core) grantsVote(candidate ReplicaKey, s *step) bool {
	if c.state.LeaderID != None || c.role == Leader {
		return false
	}
	if c.state.Voted.ID != None {
		return c.state.Voted == candidate
	}
	// Whoever votes for another waits for it.
	c.becomeUnattached(c.state.Epoch, s)
	c.roleAt = c.electionTimeout(s)
	next := c.state
	next.Voted = candidate
	c.persist(next, s)
	c.note(VoteGranted, candidate, -1, s)
	return true
}

// onBegin: somebody says that it leads.
func (c *Core) onBegin(id uint64, m BeginQuorumEpoch, s *step) {
	code := c.checkLeader(m.Epoch, m.LeaderID)
	if code == 0 {
		c.observe(m.Epoch, m.LeaderID, m.Endpoints, s)
		if c.role == Prospective { // the leader is not lost
			c.follow(m.Epoch, m.LeaderID, m.Endpoints, s)
		}
		if !c.isSelf(m.Voter) {
			code = kerr.InvalidVoterKey.Code
		}
	}
	c.refuse(id, code, s)
}

// onEnd: the leader resigns. The first of those it prefers stands at once, the others a
// little later each.
func (c *Core) onEnd(id uint64, m EndQuorumEpoch, s *step) {
	code := c.checkLeader(m.Epoch, m.LeaderID)
	if code == 0 {
		c.observe(m.Epoch, m.LeaderID, m.Endpoints, s)
		if c.Role() == Follower {
			c.fetch.heard = false
			c.roleAt = s.now.Add(c.successionDelay(m.Preferred))
		}
	}
	c.refuse(id, code, s)
}

// checkLeader is the error of a request by who calls itself the leader of epoch.
func (c *Core) checkLeader(epoch, leader int32) int16 {
	switch {
	case epoch < c.state.Epoch:
		return kerr.FencedLeaderEpoch.Code
	case leader < 0 || leader == c.cfg.Self.ID,
		epoch == c.state.Epoch && c.state.LeaderID != None && c.state.LeaderID != leader:
		return kerr.InvalidRequest.Code
	}
	return 0
}

// successionDelay is how long this node waits before it stands as a successor.
func (c *Core) successionDelay(preferred []ReplicaKey) time.Duration {
	n, at := len(preferred), len(preferred)
	for i, k := range preferred {
		if k.Matches(c.cfg.Self) {
			at = i
			break
		}
	}
	longest := c.cfg.ElectionBackoffMax
	switch at {
	case n:
		return longest
	case 0:
		return 0
	}
	return min(longest, longest>>min(n-1, 30)<<min(at-1, 30))
}

package raft

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"seedlog/clock"
)

// observe takes in what another node says about the epoch and its leader. It reports whether
// that changed the role or the epoch.
func (c *Core) observe(epoch, leader int32, endpoints []Endpoint, s *step) bool {
	if leader < 0 || leader == c.cfg.Self.ID {
		leader = None // nobody else knows whether this node leads
	}
	switch {
	case epoch > c.state.Epoch && leader != None:
		c.follow(epoch, leader, endpoints, s)
	case epoch > c.state.Epoch:
		c.becomeUnattached(epoch, s)
	case epoch < c.state.Epoch || leader == None || c.role == Leader:
		return false
	case c.state.LeaderID != None && c.state.LeaderID != leader:
		return false // an epoch has one leader: somebody is mistaken
	case c.role == Prospective && c.state.LeaderID == leader:
		return false // others still follow the leader that this node has lost
	case c.role == Follower:
		if len(endpoints) > 0 && !slices.Equal(endpoints, c.leaderEndpoints) {
			c.leaderEndpoints = endpoints
			s.out.Follow = &Follow{epoch, leader, endpoints}
		}
		return false
	default:
		c.follow(epoch, leader, endpoints, s)
	}
	return true
}

// follow makes the node a follower of leader.
func (c *Core) follow(epoch, leader int32, endpoints []Endpoint, s *step) {
	c.leave(s)
	c.role = Follower
	next := c.state
	if epoch > next.Epoch {
		next = ElectionState{Epoch: epoch, Voted: NoReplica()}
	}
	next.LeaderID = leader
	c.persist(next, s)
	if len(endpoints) == 0 {
		endpoints = c.endpointsOf(leader)
	}
	c.leaderEndpoints = endpoints
	c.roleAt = s.now.Add(c.cfg.FetchTimeout)
	c.elections = 0
	c.update = updating{due: s.now}
	s.out.Follow = &Follow{epoch, leader, endpoints}
	c.note(BecameFollower, ReplicaKey{ID: leader}, -1, s)
}

// becomeUnattached: nobody is known to lead the epoch. Who was unattached before waits no
// longer than it would have.
func (c *Core) becomeUnattached(epoch int32, s *step) {
	at := c.roleAt
	waits := c.role == Unattached && at != clock.Never
	c.leave(s)
	c.role = Unattached
	if epoch > c.state.Epoch {
		c.persist(ElectionState{Epoch: epoch, LeaderID: None, Voted: NoReplica()}, s)
	}
	c.roleAt = clock.Never
	switch {
	case c.canStand() && waits:
		c.roleAt = at
	case c.canStand():
		c.roleAt = c.electionTimeout(s)
	}
	s.out.Follow = &Follow{Epoch: c.state.Epoch, LeaderID: None}
}

// seek looks for the leader everywhere: the one that this observer knew is silent.
func (c *Core) seek(s *step) { c.becomeUnattached(c.state.Epoch, s) }

// leave ends a role: nothing of it is waited for any more.
func (c *Core) leave(s *step) {
	c.stopLeading(kerr.NotLeaderForPartition.Code, s)
	c.cancelInstall(s)
	c.asks, c.granted, c.rejected = nil, nil, nil
	c.fetch = fetching{due: s.now}
	c.update = updating{due: clock.Never}
	c.backingOff = false
	c.leaderEndpoints = nil
}

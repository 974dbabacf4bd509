package raft

import (
	"math"
	"slices"

	"seedlog/clock"
)

// Voters are the voters in force: the last that the log names, committed or not.
func (c *Core) Voters() []Voter { return c.lastSet().Voters }

func (c *Core) lastSet() VoterSet { return c.sets[len(c.sets)-1] }

// VotersAt are the voters in force for a log that ends at end, as a snapshot needs them.
func (c *Core) VotersAt(end int64) []Voter {
	i := len(c.sets) - 1
	for i > 0 && c.sets[i].Offset >= end {
		i--
	}
	return c.sets[i].Voters
}

// KRaftVersion is the level of kraft.version in force.
func (c *Core) KRaftVersion() int16 { return c.levels[len(c.levels)-1].Version }

// KRaftVersionAt is the level in force for a log that ends at end.
func (c *Core) KRaftVersionAt(end int64) int16 {
	i := len(c.levels) - 1
	for i > 0 && c.levels[i].Offset >= end {
		i--
	}
	return c.levels[i].Version
}

// IsVoter reports whether this node, with this directory, is one of the voters.
func (c *Core) IsVoter() bool { return c.cfg.CanVote && c.voter(c.cfg.Self) != nil }

// canStand reports whether it may be elected. A voter whose removal is not known to be
// committed may, without a vote of its own: the voters that are left may lack its log's last
// record, and could not elect anyone else against its vote if the removal comes undone.
func (c *Core) canStand() bool {
	if c.stopping || c.failed || !c.cfg.CanVote || c.state.Epoch == math.MaxInt32 {
		return false
	}
	return c.IsVoter() || c.lastSet().Offset >= c.highWatermark && len(c.sets) > 1 && isIn(c.sets[len(c.sets)-2].Voters, c.cfg.Self)
}

// ownVote is the candidate's vote for itself, if it has one.
func (c *Core) ownVote() []ReplicaKey {
	if c.IsVoter() {
		return []ReplicaKey{c.cfg.Self}
	}
	return nil
}

func isIn(voters []Voter, k ReplicaKey) bool {
	return slices.ContainsFunc(voters, func(v Voter) bool { return v.Key.Matches(k) })
}

// voter is the voter that a replica is, or nil.
func (c *Core) voter(k ReplicaKey) *Voter {
	voters := c.Voters()
	for i := range voters {
		if voters[i].Key.Matches(k) {
			return &voters[i]
		}
	}
	return nil
}

func (c *Core) endpointsOf(id int32) []Endpoint {
	for _, v := range c.Voters() {
		if v.Key.ID == id {
			return v.Endpoints
		}
	}
	return nil
}

// votersChanged: the log names other voters. They count from now on.
func (c *Core) votersChanged(e VotersChanged, s *step) {
	c.sets = append(c.sets, VoterSet{Offset: e.Offset, Voters: slices.Clone(e.Voters)})
	c.forgetOldSets()
	switch {
	case c.role == Leader:
		c.leaderVotersChanged(e.Offset, s)
	case c.role == Follower:
		c.update.due = min(c.update.due, s.now)
	}
}

// forgetOldSets drops what can neither be truncated to nor be in a snapshot any more: but the
// last set below the high watermark.
func (c *Core) forgetOldSets() {
	start := min(c.highWatermark, c.cfg.Log.Start())
	for len(c.sets) > 1 && c.sets[1].Offset < start {
		c.sets = slices.Delete(c.sets, 0, 1)
	}
	for len(c.levels) > 1 && c.levels[1].Offset < start {
		c.levels = slices.Delete(c.levels, 0, 1)
	}
}

// truncateVoters takes back the voters that the log named from offset on. Whether this voter is
// among those before as it is has to be looked at again.
func (c *Core) truncateVoters(offset int64, s *step) {
	for len(c.sets) > 1 && c.lastSet().Offset >= offset {
		c.sets = c.sets[:len(c.sets)-1]
	}
	for len(c.levels) > 1 && c.levels[len(c.levels)-1].Offset >= offset {
		c.levels = c.levels[:len(c.levels)-1]
	}
	c.update.due = min(c.update.due, s.now)
}

// updating is a follower's message to the leader about its own entry in the voter set.
type updating struct {
	seq uint64
	due clock.Instant // when to look again; Never for who is no follower
	// told: this leader has taken one.
	told bool
}

// pumpUpdate tells the leader where this voter listens now and what it supports, if the voter
// set says something else. Static voters tell every leader: it keeps that in memory.
func (c *Core) pumpUpdate(s *step) {
	if c.update.due > s.now || c.role != Follower {
		return
	}
	c.update.seq, c.update.due = 0, clock.Never
	mine := c.self()
	v := c.voter(c.cfg.Self)
	if v == nil || !c.cfg.CanVote || v.equal(mine) || c.KRaftVersion() < 1 && c.update.told {
		return
	}
	c.seq++
	c.update.seq, c.update.due = c.seq, s.now.Add(c.cfg.FetchTimeout)
	s.out.Sends = append(s.out.Sends, Send{Seq: c.seq, To: c.leaderKey(), Endpoints: c.leaderEndpoints,
		Body: UpdateVoter{Epoch: c.state.Epoch, Voter: mine}})
}

// self is this node as the voter set should have it.
func (c *Core) self() Voter {
	return Voter{Key: c.cfg.Self, Endpoints: c.cfg.Endpoints, MinKRaftVersion: c.cfg.MinKRaftVersion, MaxKRaftVersion: c.cfg.MaxKRaftVersion}
}

// leaderKey is the leader that this node follows; its directory is that of the voter set.
func (c *Core) leaderKey() ReplicaKey {
	for _, v := range c.Voters() {
		if v.Key.ID == c.state.LeaderID {
			return v.Key
		}
	}
	return ReplicaKey{ID: c.state.LeaderID}
}

// updated: the leader answered. Whether it took the update shows in the log, if that names
// voters.
func (c *Core) updated(r Reply, s *step) {
	c.update.seq, c.update.due = 0, s.now.Add(c.cfg.FetchTimeout)
	c.update.told = c.update.told || r.Code == 0
	c.observe(r.Epoch, r.LeaderID, r.Endpoints, s)
}

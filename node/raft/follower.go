package raft

import (
	"seedlog/clock"
)

// fetching is a follower's replication, or the search for a leader.
type fetching struct {
	seq uint64 // of the Fetch under way, 0 if there is none
	// due is when to send the next, or when to give up the one under way.
	due      clock.Instant
	failures int
	// heard: the leader has answered a Fetch since this node follows it.
	heard bool
	// appending: the host appends or truncates; Synced ends that.
	appending bool
	// leaderHW is the high watermark that the leader told last.
	leaderHW   int64
	installing *SnapshotID
}

// fetches reports whether the role fetches: from its leader, or from anyone to find one.
func (c *Core) fetches() bool {
	switch c.role {
	case Follower:
		return true
	case Unattached, Resigned:
		return !c.stopping
	}
	return false
}

func (c *Core) fetchDeadline() clock.Instant {
	if !c.fetches() || c.fetch.appending || c.fetch.installing != nil {
		return clock.Never
	}
	return c.fetch.due
}

// pumpFetch sends the next Fetch when it is due.
func (c *Core) pumpFetch(s *step) {
	if c.fetchDeadline() > s.now {
		return
	}
	if c.fetch.seq != 0 {
		c.fetchFailed(s)
		return
	}
	end, epoch := c.cfg.Log.End()
	c.seq++
	m := Fetch{Epoch: c.state.Epoch, Replica: c.cfg.Self, Offset: end, LastEpoch: epoch, HighWatermark: c.highWatermark}
	send := Send{Seq: c.seq, To: NoReplica()}
	if c.role == Follower {
		m.MaxWait = c.cfg.FetchMaxWait
		send.To, send.Endpoints = c.leaderKey(), c.leaderEndpoints
	}
	send.Body = m
	c.fetch.seq, c.fetch.due = c.seq, s.now.Add(c.cfg.RequestTimeout+m.MaxWait)
	s.out.Fetch = &send
}

// fetchFailed fetches again after a while.
func (c *Core) fetchFailed(s *step) {
	c.fetch.seq, c.fetch.due = 0, s.now.Add(c.backoff(c.fetch.failures))
	c.fetch.failures++
}

// fetched: somebody answered the Fetch. If that was the leader, which this node may not have
// known yet, the answer counts.
func (c *Core) fetched(r Reply, s *step) {
	c.fetch.seq = 0
	moved := c.observe(r.Epoch, r.LeaderID, r.Endpoints, s)
	switch {
	case c.role == Follower && r.Code == 0 && r.Epoch == c.state.Epoch && r.LeaderID == c.state.LeaderID:
		c.replicate(r, s)
	case !moved:
		c.fetchFailed(s)
	}
}

// replicate takes what the leader answered. Divergence comes before everything else: a log
// that is not the leader's learns nothing from its high watermark.
func (c *Core) replicate(r Reply, s *step) {
	c.roleAt = s.now.Add(c.cfg.FetchTimeout)
	c.fetch.heard, c.fetch.failures = true, 0
	switch {
	case r.Diverging != nil:
		c.truncate(*r.Diverging, s)
	case r.Snapshot != nil:
		c.install(*r.Snapshot, s)
	case r.Records:
		c.fetch.leaderHW, c.fetch.appending = r.HighWatermark, true
		s.out.Append = true
	default:
		c.fetch.leaderHW = r.HighWatermark
		c.commitFetched(s)
	}
}

// commitFetched learns what is committed of what this node has, and fetches on.
func (c *Core) commitFetched(s *step) {
	end, _ := c.cfg.Log.End()
	if hw := min(c.fetch.leaderHW, end); hw > c.highWatermark {
		c.highWatermark = hw
		s.out.HighWatermark = hw
		c.forgetOldSets()
	}
	c.fetch.due = s.now
}

// truncate cuts the log where it parts from the leader's: its records of a later epoch than
// diverging's, or beyond that epoch's end, are not the leader's.
func (c *Core) truncate(diverging EpochEnd, s *step) {
	at := c.cfg.Log.Start()
	if own, ok := c.cfg.Log.EpochEnd(diverging.Epoch); ok {
		at = min(own.EndOffset, diverging.EndOffset)
	}
	if end, _ := c.cfg.Log.End(); at < c.highWatermark || at >= end {
		c.note(TruncationRefused, c.leaderKey(), at, s)
		c.fetchFailed(s)
		return
	}
	c.truncateVoters(at, s)
	c.fetch.leaderHW, c.fetch.appending = -1, true
	s.out.Truncate = &at
	c.note(Diverged, c.leaderKey(), at, s)
}

// install fetches the leader's snapshot: the leader has no records left for this log.
func (c *Core) install(id SnapshotID, s *step) {
	if id.EndOffset <= 0 || id.Epoch < 0 || id.EndOffset < c.highWatermark {
		c.note(TruncationRefused, c.leaderKey(), id.EndOffset, s)
		c.fetchFailed(s)
		return
	}
	c.fetch.installing = &id
	s.out.Install = &Install{To: c.leaderKey(), Endpoints: c.leaderEndpoints, Epoch: c.state.Epoch, ID: id}
}

// snapshotPart: the leader answers, so it is there.
func (c *Core) snapshotPart(e SnapshotPart, s *step) {
	if c.fetch.installing == nil || c.observe(e.Reply.Epoch, e.Reply.LeaderID, e.Reply.Endpoints, s) {
		return
	}
	if e.Reply.Code == 0 && e.Reply.Epoch == c.state.Epoch {
		c.roleAt = s.now.Add(c.cfg.FetchTimeout)
		c.fetch.heard = true
	}
}

// installed: the log begins at the snapshot's end.
func (c *Core) installed(e SnapshotInstalled, s *step) {
	if e.Voters != nil {
		c.sets = []VoterSet{{Offset: e.ID.EndOffset - 1, Voters: e.Voters}}
	} else {
		c.sets = c.sets[:1]
	}
	c.levels = []Level{{e.ID.EndOffset - 1, e.KRaftVersion}}
	c.update.due = min(c.update.due, s.now)
	if e.ID.EndOffset > c.highWatermark {
		c.highWatermark = e.ID.EndOffset
		s.out.HighWatermark = e.ID.EndOffset
	}
	c.fetch.installing = nil
	c.fetch.due = s.now
}

func (c *Core) installFailed(id SnapshotID, s *step) {
	if c.fetch.installing != nil && *c.fetch.installing == id {
		c.fetch.installing = nil
		c.fetchFailed(s)
	}
}

func (c *Core) cancelInstall(s *step) {
	if c.fetch.installing != nil {
		c.fetch.installing = nil
		s.out.CancelInstall = true
	}
}

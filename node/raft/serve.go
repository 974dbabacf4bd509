package raft

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"seedlog/clock"
)

// parked is a Fetch that waits for news.
type parked struct {
	id    uint64
	fetch Fetch
	until clock.Instant
}

// leaderOnly is the error of a request that only the leader of epoch answers; epoch -1 is not
// checked.
func (c *Core) leaderOnly(epoch int32) int16 {
	switch {
	case epoch >= 0 && epoch < c.state.Epoch:
		return kerr.FencedLeaderEpoch.Code
	case epoch > c.state.Epoch:
		return kerr.UnknownLeaderEpoch.Code
	case c.role != Leader:
		return kerr.NotLeaderForPartition.Code
	}
	return 0
}

// onFetch answers a Fetch at once or when there is news.
func (c *Core) onFetch(id uint64, m Fetch, s *step) {
	if m.Offset < 0 || m.LastEpoch < 0 || m.Epoch >= 0 && m.LastEpoch > m.Epoch || m.MaxWait < 0 || m.Replica.ID == c.cfg.Self.ID {
		c.refuse(id, kerr.InvalidRequest.Code, s)
		return
	}
	if code := c.leaderOnly(m.Epoch); code != 0 {
		c.refuse(id, code, s)
		return
	}
	from := m.Replica.Directory
	m.Replica = c.canonical(m.Replica)
	c.unpark(m.Replica, s)
	r := c.fetchReply(m)
	if r.Code != 0 || r.Diverging != nil || r.Snapshot != nil {
		c.answer(id, r, s)
		return
	}
	c.replicaFetched(m, from, s)
	if c.role != Leader { // what this committed was the removal of the leader
		c.refuse(id, kerr.NotLeaderForPartition.Code, s)
		return
	}
	p := parked{id, m, s.now.Add(min(m.MaxWait, c.cfg.FetchTimeout/2))}
	if c.news(m) || m.MaxWait == 0 {
		c.answerFetch(p, s)
		return
	}
	c.lead.parked = append(c.lead.parked, p)
}

// unpark answers an older Fetch of the same replica, which has given it up.
func (c *Core) unpark(k ReplicaKey, s *step) {
	if k.ID < 0 {
		return
	}
	c.lead.parked = slices.DeleteFunc(c.lead.parked, func(p parked) bool {
		if p.fetch.Replica == k {
			c.answerFetch(p, s)
			return true
		}
		return false
	})
}

// answerParked answers who waited long enough, or for what is there now.
func (c *Core) answerParked(s *step) {
	c.lead.parked = slices.DeleteFunc(c.lead.parked, func(p parked) bool {
		if p.until <= s.now || c.news(p.fetch) {
			c.answerFetch(p, s)
			return true
		}
		return false
	})
}

func (c *Core) answerFetch(p parked, s *step) {
	r := c.fetchReply(p.fetch)
	if rep := c.replica(p.fetch.Replica); rep != nil {
		rep.toldHW = r.HighWatermark
	}
	c.answer(p.id, r, s)
}

// news reports whether there is something that the replica does not have or know.
func (c *Core) news(m Fetch) bool {
	if m.Replica.ID < 0 {
		return c.highWatermark > m.Offset
	}
	if end, _ := c.cfg.Log.End(); end > m.Offset {
		return true
	}
	known := m.HighWatermark
	if rep := c.replica(m.Replica); known < 0 && rep != nil {
		known = rep.toldHW
	}
	return c.knownHW() > known
}

// knownHW is the high watermark as a leader's answers have it, -1 until something of its own epoch
// is committed: what it knew before may be less than what former leaders committed, and a
// follower that starts must not take it for all that there is.
func (c *Core) knownHW() int64 {
	if !c.committedInEpoch() {
		return -1
	}
	return c.highWatermark
}

// fetchReply is the answer to a Fetch: whether the replica's log is this one up to its end.
func (c *Core) fetchReply(m Fetch) Reply {
	r := c.reply(0)
	r.HighWatermark, r.LogStart = c.knownHW(), c.cfg.Log.Start()
	snapshot, has := c.cfg.Log.Snapshot()
	end, known := c.cfg.Log.EpochEnd(m.LastEpoch)
	switch {
	case m.Offset == 0 && !has && r.LogStart == 0:
	case has && (m.Offset == 0 || m.Offset < r.LogStart || !known):
		r.Snapshot = &snapshot
	case m.Offset < r.LogStart:
		r.Code = kerr.OffsetOutOfRange.Code
	case !known:
		r.Diverging = &EpochEnd{m.LastEpoch, r.LogStart}
	case end.Epoch != m.LastEpoch || end.EndOffset < m.Offset:
		r.Diverging = &end
	}
	return r
}

// onFetchSnapshot lets the host answer with a part of a snapshot, if this node leads.
func (c *Core) onFetchSnapshot(id uint64, m FetchSnapshot, s *step) {
	code := c.leaderOnly(m.Epoch)
	switch {
	case m.Snapshot.EndOffset < 0 || m.Snapshot.Epoch < 0 || m.Replica.ID == c.cfg.Self.ID:
		code = kerr.InvalidRequest.Code
	case code == 0 && m.Position < 0:
		code = kerr.PositionOutOfRange.Code
	}
	if code == 0 && m.Replica.ID >= 0 {
		c.heardFrom(c.canonical(m.Replica), s)
	}
	c.refuse(id, code, s)
}

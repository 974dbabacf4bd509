package raft

import (
	"slices"
	"time"

	"seedlog/clock"
)

const (
	// observerSession is how long an observer that does not fetch is still named.
	observerSession = 5 * time.Minute
	// observersMax bounds what strangers can make the leader remember.
	observersMax = 1000
)

// replica is what the leader knows of another replica, a voter or an observer.
type replica struct {
	key ReplicaKey
	// directory is the one that it fetched from last, which is not in the key of a static voter.
	directory [16]byte
	// end is its durable end, -1 if it has not fetched in this epoch.
	end int64
	// When it fetched last, and when it last had all that the leader had. Never if never.
	lastFetch, caughtUp clock.Instant
	// leaderEnd was the end of the leader's log at its last fetch.
	leaderEnd int64
	// toldHW is the high watermark that it was told last.
	toldHW int64
}

// canonical is the key under which a replica is kept: that of the voter that it is.
func (c *Core) canonical(k ReplicaKey) ReplicaKey {
	if v := c.voter(k); v != nil {
		return v.Key
	}
	return k
}

// replica is what is known of a replica, or nil.
func (c *Core) replica(k ReplicaKey) *replica {
	for i := range c.lead.replicas {
		if c.lead.replicas[i].key == k {
			return &c.lead.replicas[i]
		}
	}
	return nil
}

// replicaFetched notes what a valid Fetch says: all below its offset is durable there, in the
// directory from.
func (c *Core) replicaFetched(m Fetch, from [16]byte, s *step) {
	if m.Replica.ID < 0 {
		return
	}
	r := c.replica(m.Replica)
	if r == nil {
		c.forgetObservers(s)
		c.lead.replicas = append(c.lead.replicas, replica{key: m.Replica, end: -1, lastFetch: clock.Never, caughtUp: clock.Never, leaderEnd: -1, toldHW: -1})
		r = &c.lead.replicas[len(c.lead.replicas)-1]
	}
	end, _ := c.cfg.Log.End()
	switch {
	case m.Offset >= end:
		r.caughtUp = s.now
	case r.leaderEnd >= 0 && m.Offset >= r.leaderEnd:
		r.caughtUp = r.lastFetch // it had then all that there was at its last fetch
	}
	r.directory, r.end, r.lastFetch, r.leaderEnd = from, m.Offset, s.now, end
	c.heardFrom(m.Replica, s)
	if c.voter(m.Replica) != nil {
		c.advance(s)
	}
}

// forgetObservers makes room for another.
func (c *Core) forgetObservers(s *step) {
	l := c.lead
	if len(l.replicas) < observersMax {
		l.replicas = slices.DeleteFunc(l.replicas, func(r replica) bool {
			return c.voter(r.key) == nil && s.now.Sub(r.lastFetch) >= observerSession
		})
		return
	}
	oldest := -1
	for i, r := range l.replicas {
		if c.voter(r.key) == nil && (oldest < 0 || r.lastFetch < l.replicas[oldest].lastFetch) {
			oldest = i
		}
	}
	if oldest >= 0 {
		l.replicas = slices.Delete(l.replicas, oldest, oldest+1)
	}
}

// ReplicaState is a replica as DescribeQuorum names it.
type ReplicaState struct {
	Key ReplicaKey
	// End is its log end, -1 if it did not fetch in this epoch.
	End int64
	// When it fetched last, and when it last had everything; Never if it did not.
	LastFetch, LastCaughtUp clock.Instant
}

// Quorum is what a leader knows of the others: DescribeQuorum.
type Quorum struct {
	Epoch, LeaderID   int32
	HighWatermark     int64 // -1 if unknown
	Voters, Observers []ReplicaState
}

// Describe is the state of the quorum; ok is false if this node does not lead.
func (c *Core) Describe(now clock.Instant) (q Quorum, ok bool) {
	if c.role != Leader {
		return Quorum{}, false
	}
	q = Quorum{Epoch: c.state.Epoch, LeaderID: c.cfg.Self.ID, HighWatermark: c.knownHW()}
	end, _ := c.cfg.Log.End()
	mine := ReplicaState{c.cfg.Self, end, now, now}
	for _, v := range c.Voters() {
		st := ReplicaState{v.Key, -1, clock.Never, clock.Never}
		if v.Key.Matches(c.cfg.Self) {
			st = mine
		} else if r := c.replica(v.Key); r != nil {
			st = ReplicaState{v.Key, r.end, r.lastFetch, r.caughtUp}
		}
		q.Voters = append(q.Voters, st)
	}
	if !c.IsVoter() {
		q.Observers = append(q.Observers, mine)
	}
	for _, r := range c.lead.replicas {
		if c.voter(r.key) == nil && now.Sub(r.lastFetch) < observerSession {
			q.Observers = append(q.Observers, ReplicaState{r.key, r.end, r.lastFetch, r.caughtUp})
		}
	}
	return q, true
}

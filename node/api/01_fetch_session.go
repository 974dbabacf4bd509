package api

import (
	"math/rand/v2"
	"slices"

	"seedlog/clock"
	"seedlog/clock/task"
)

// Fetch sessions (KIP-227): the broker remembers what a client fetches, requests name only
// what changed, and replies carry only partitions that have something new.
//
// epoch 0 with id 0 asks for a session, -1 asks for none, and n goes on with one. Each
// request that a session accepts moves its epoch on, so that a lost reply is noticed.
const (
	sessionEpochInitial = 0
	sessionEpochFinal   = -1
	// sessionIdleMs is after how long without use, or of life, a session may give way.
	sessionIdleMs = 120_000
	// sessionPartitions bounds the partitions of all sessions, on average per slot.
	sessionPartitions = 1000
)

// sessionKey names a partition in a session, by name or by id as its client does.
type sessionKey struct {
	topic string
	id    [16]byte
	index int32
}

// sessionPart is what a session remembers of a partition: what the client asks, and what it
// was told last.
type sessionPart struct {
	key   sessionKey
	asked fetchPart // name unset

	hw, logStart int64
}

// fetchSession belongs to the connection that serves its current request; the cache only
// looks at its counters, under its lock.
type fetchSession struct {
	id       int32
	byID     bool
	parts    []*sessionPart // in the order in which they are to be fetched
	index    map[sessionKey]*sessionPart
	epoch    int32         // under the cache's mu
	size     int           // partitions accounted for, under the cache's mu
	lastUsed clock.Instant // under the cache's mu
	created  clock.Instant
	busy     bool // a request is being served, under the cache's mu
	evicted  bool // under the cache's mu
	replica  bool // of a follower: no consumer takes its place
}

// sessionCache holds at most max.incremental.fetch.session.cache.slots sessions.
type sessionCache struct {
	mu       task.Mutex
	rand     *rand.Rand
	slots    int
	byID     map[int32]*fetchSession
	list     []*fetchSession // in the order of creation
	partsMax int
	parts    int
}

func (c *sessionCache) init(rt task.Runtime, rand *rand.Rand, slots int) {
	c.mu.Init(rt, "api.sessionCache")
	c.rand, c.slots = rand, slots
	c.partsMax = slots * sessionPartitions
	c.byID = map[int32]*fetchSession{}
}

// begin makes a session for n partitions, or returns nil if the cache has no room. replica
// tells that a follower asks.
func (c *sessionCache) begin(n int, replica bool, now clock.Instant) *fetchSession {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.slots <= 0 || c.parts+n > c.partsMax && !c.evict(n, replica, now) {
		return nil
	}
	if len(c.list) >= c.slots && !c.evict(n, replica, now) {
		return nil
	}
	if c.parts+n > c.partsMax {
		return nil
	}
	s := &fetchSession{id: c.newID(), epoch: 1, size: n, replica: replica, lastUsed: now, created: now, busy: true, index: map[sessionKey]*sessionPart{}}
	c.byID[s.id] = s
	c.list = append(c.list, s)
	c.parts += n
	return s
}

func (c *sessionCache) newID() int32 {
	for {
		id := c.rand.Int32N(1<<31-2) + 1
		if c.byID[id] == nil {
			return id
		}
	}
}

// evict makes room: the least recently used session goes if it was idle for long enough, or
// else the smallest of those old enough that is smaller than the newcomer, or a consumer's
// where a follower comes.
func (c *sessionCache) evict(n int, replica bool, now clock.Instant) bool {
	idle := millis(sessionIdleMs)
	var stalest, smallest *fetchSession
	for _, s := range c.list {
		if s.busy {
			continue
		}
		if now.Sub(s.lastUsed) > idle && (stalest == nil || s.lastUsed < stalest.lastUsed) {
			stalest = s
		}
		lesser := s.size < n && s.replica == replica || replica && !s.replica
		if now.Sub(s.created) > idle && lesser && (smallest == nil || s.size < smallest.size) {
			smallest = s
		}
	}
	victim := stalest
	if victim == nil {
		victim = smallest
	}
	if victim == nil {
		return false
	}
	c.remove(victim)
	return true
}

func (c *sessionCache) remove(s *fetchSession) {
	if s.evicted {
		return
	}
	s.evicted = true
	delete(c.byID, s.id)
	c.list = slices.DeleteFunc(c.list, func(o *fetchSession) bool { return o == s })
	c.parts -= s.size
}

// end removes a session by its id.
func (c *sessionCache) end(id int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.byID[id]; s != nil && !s.busy {
		c.remove(s)
	}
}

// resume returns the session for the next request in order. stale tells that the epoch is
// not the one that comes next, or that another request of the session is being served.
func (c *sessionCache) resume(id, epoch int32, now clock.Instant) (s *fetchSession, stale bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s = c.byID[id]
	if s == nil {
		return nil, false
	}
	if s.epoch != epoch || s.busy {
		return nil, true
	}
	s.busy = true
	s.epoch = nextSessionEpoch(s.epoch)
	s.lastUsed = now
	return s, false
}

// release ends the serving of a request and accounts for the session's size. A session
// without partitions is over.
func (c *sessionCache) release(s *fetchSession) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.busy = false
	if s.evicted {
		return
	}
	c.parts += len(s.parts) - s.size
	s.size = len(s.parts)
	if s.size == 0 || c.parts > c.partsMax {
		c.remove(s)
	}
}

func nextSessionEpoch(e int32) int32 {
	switch {
	case e < 0:
		return sessionEpochFinal
	case e == 1<<31-1:
		return 1
	}
	return e + 1
}

// update takes over what a request adds, changes and forgets.
func (s *fetchSession) update(q *fetchRequest) {
	for i := range q.parts {
		p := &q.parts[i]
		part := s.find(&p.fetchKey)
		if part == nil {
			part = &sessionPart{key: ownedKey(&p.fetchKey), hw: -1, logStart: -1}
			s.index[part.key] = part
			s.parts = append(s.parts, part)
		}
		if part.asked.currentEpoch != p.currentEpoch {
			part.hw = -1 // a follower drops the answers that it asked for in an earlier epoch
		}
		part.asked = *p
		part.asked.name = nil
	}
	if len(q.forgotten) == 0 {
		return
	}
	for i := range q.forgotten {
		if part := s.find(&q.forgotten[i]); part != nil {
			delete(s.index, part.key)
		}
	}
	s.parts = slices.DeleteFunc(s.parts, func(p *sessionPart) bool { return s.index[p.key] != p })
}

func (s *fetchSession) find(k *fetchKey) *sessionPart {
	return s.index[sessionKey{unsafeText(k.name), k.id, k.index}]
}

func ownedKey(k *fetchKey) sessionKey { return sessionKey{string(k.name), k.id, k.index} }

// rotate moves the partitions that got data to the end, so that the others come first next
// time.
func (s *fetchSession) rotate(got func(*sessionPart) bool) {
	var later []*sessionPart
	kept := s.parts[:0]
	for _, p := range s.parts {
		if got(p) {
			later = append(later, p)
		} else {
			kept = append(kept, p)
		}
	}
	s.parts = append(kept, later...)
}

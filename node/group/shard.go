package group

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"seedlog/clock"
	"seedlog/node/event"
)

// Shard is the groups and offsets of one partition of __consumer_offsets. It is used by one
// task at a time.
type Shard struct {
	cfg    Config
	rand   *rand.Rand
	now    Now
	groups map[string]*group
	// txns holds the offsets of open transactions by producer id.
	txns   map[int64]map[OffsetKey]stored
	staged *stage
	// doomed holds the offsets of deleted topics whose tombstones are not written yet.
	doomed []doomed
	fx     Effects
	// Unserved counts the records of kinds that this version does not serve.
	Unserved int64
}

// stage is a step between Handle and Appended.
type stage struct {
	records []Record
	// group is reset if the records are refused; empty: none is.
	group string
	// applied goes on when the records are replayed; refused answers what applied would have.
	applied func()
	refused func(code int16)
}

// NewShard returns an empty shard; r gives the member ids.
func NewShard(cfg Config, r *rand.Rand) *Shard {
	return &Shard{cfg: cfg, rand: r, groups: map[string]*group{}, txns: map[int64]map[OffsetKey]stored{}}
}

// SetConfig changes the settings; what already runs keeps its deadlines.
func (s *Shard) SetConfig(cfg Config) { s.cfg = cfg }

// Handle decides one command. If the effects have records, the caller appends them and
// calls Appended or Refused next.
func (s *Shard) Handle(c Command, now Now) Effects {
	s.begin(now)
	switch c := c.(type) {
	case Join:
		s.join(c)
	case Sync:
		s.sync(c)
	case Heartbeat:
		s.heartbeat(c)
	case Leave:
		s.leave(c)
	case Commit:
		s.commit(c)
	case Fetch:
		s.fetch(c)
	case List:
		s.list(c)
	case Describe:
		s.describe(c)
	case Expired:
		s.expired(c.Key)
	case TopicsDeleted:
		s.topicsDeleted(c)
	}
	return s.end()
}

// Appended replays the staged records, the first of which is at offset base, and goes on.
func (s *Shard) Appended(base int64, now Now) Effects {
	st := s.staged
	s.staged = nil
	s.begin(now)
	for i, r := range st.records {
		if err := s.Replay(base+int64(i), -1, r.Key, r.Value); err != nil {
			panic(fmt.Sprintf("group: own record does not replay: %v", err))
		}
	}
	if st.applied != nil {
		st.applied()
	}
	return s.end()
}

// Refused gives the staged records up, for the log did not take them: the group returns to
// its last record, and whoever waits in it is answered with the code.
func (s *Shard) Refused(code int16, now Now) Effects {
	st := s.staged
	s.staged = nil
	s.begin(now)
	if st.refused != nil {
		st.refused(code)
	}
	if g := s.groups[st.group]; g != nil && st.group != "" {
		s.dismiss(g, code)
		s.cancelAll(g)
		s.reset(g)
		s.dropUnused(g)
	}
	return s.end()
}

// Loaded starts a shard whose log was replayed: members have a session from now on, and
// whoever was in a rebalance finds it running.
func (s *Shard) Loaded(now Now) Effects {
	s.begin(now)
	for _, id := range s.sortedGroups() {
		s.resume(s.groups[id])
	}
	s.scheduleRetention()
	return s.end()
}

// Unloaded answers all that wait with the code; the shard is not used afterwards.
func (s *Shard) Unloaded(code int16, now Now) Effects {
	s.staged = nil
	s.begin(now)
	for _, id := range s.sortedGroups() {
		s.dismiss(s.groups[id], code)
	}
	return s.end()
}

// dismiss answers every parked request of the group.
func (s *Shard) dismiss(g *group, code int16) {
	for _, m := range g.members {
		s.answerJoin(m, joinError(m.join.version, m.id, code))
		s.answerSync(m, syncError(m.sync.version, code))
	}
}

// resume starts a loaded group's timers.
func (s *Shard) resume(g *group) {
	for _, m := range g.members {
		s.touch(g, m)
	}
	if g.state == CompletingRebalance {
		for _, m := range g.members {
			g.pendingSync[m.id] = struct{}{}
		}
		s.setSync(g)
	}
	if len(g.members) > int(s.cfg.MaxSize) {
		s.prepareRebalance(g)
	}
}

func (s *Shard) begin(now Now) {
	if s.staged != nil {
		panic("group: a step begins while records of the last are neither appended nor refused")
	}
	s.now, s.fx = now, Effects{}
}

func (s *Shard) end() Effects {
	fx := s.fx
	s.fx = Effects{}
	if s.staged != nil {
		fx.Records = s.staged.records
	}
	return fx
}

// propose stages records; a step proposes at most once.
func (s *Shard) propose(st stage) {
	if s.staged != nil {
		panic("group: a step proposes twice")
	}
	s.staged = &st
}

func (s *Shard) reply(t Ticket, msg any) { s.fx.Replies = append(s.fx.Replies, Reply{t, msg}) }

func (s *Shard) emit(e event.Event) { s.fx.Events = append(s.fx.Events, e) }

func (s *Shard) setTimer(k TimerKey, at clock.Instant) {
	s.fx.Timers = append(s.fx.Timers, Timer{k, at})
}

func (s *Shard) after(ms int64) clock.Instant {
	return s.now.Mono.Add(time.Duration(ms) * time.Millisecond)
}

// touch gives the member a new session.
func (s *Shard) touch(g *group, m *member) { s.touchFor(g, m, int64(m.sessionMs)) }

func (s *Shard) touchFor(g *group, m *member, ms int64) {
	m.sessionAt = s.after(ms)
	s.setTimer(TimerKey{TimerSession, g.id, m.id}, m.sessionAt)
}

func (s *Shard) cancelSession(g *group, id string) {
	s.setTimer(TimerKey{TimerSession, g.id, id}, clock.Never)
}

func (s *Shard) setJoin(g *group, ms int64) {
	g.joinAt = s.after(ms)
	s.setTimer(TimerKey{TimerJoin, g.id, ""}, g.joinAt)
}

func (s *Shard) cancelJoin(g *group) {
	if g.joinAt != clock.Never {
		g.joinAt = clock.Never
		s.setTimer(TimerKey{TimerJoin, g.id, ""}, clock.Never)
	}
}

func (s *Shard) setSync(g *group) {
	g.syncAt = s.after(g.rebalanceMs())
	s.setTimer(TimerKey{TimerSync, g.id, ""}, g.syncAt)
}

// cancelSync forgets who has not synced.
func (s *Shard) cancelSync(g *group) {
	clear(g.pendingSync)
	if g.syncAt != clock.Never {
		g.syncAt = clock.Never
		s.setTimer(TimerKey{TimerSync, g.id, ""}, clock.Never)
	}
}

// cancelAll cancels every timer of the group.
func (s *Shard) cancelAll(g *group) {
	for _, m := range g.members {
		s.cancelSession(g, m.id)
	}
	for _, id := range sortedKeys(g.pendingJoin) {
		s.cancelSession(g, id)
	}
	s.cancelJoin(g)
	s.cancelSync(g)
}

// expired acts on a timer, unless it was moved since.
func (s *Shard) expired(k TimerKey) {
	if k.Kind == TimerRetention {
		s.expireOffsets()
		return
	}
	g := s.groups[k.Group]
	if g == nil {
		return
	}
	switch k.Kind {
	case TimerSession:
		s.expireSession(g, k.Member)
	case TimerJoin:
		if g.joinAt <= s.now.Mono {
			s.expireJoin(g)
		}
	case TimerSync:
		if g.syncAt <= s.now.Mono {
			s.expireSync(g)
		}
	}
}

func (s *Shard) group(id string) *group {
	g := s.groups[id]
	if g == nil {
		g = newGroup(id)
		s.groups[id] = g
	}
	return g
}

func (s *Shard) dropUnused(g *group) {
	if g.unused() {
		delete(s.groups, g.id)
	}
}

func (s *Shard) sortedGroups() []string { return sortedKeys(s.groups) }

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m { //order: sorted below
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Lengths in bytes: of the longest string of a record, and of a UUID as text.
const (
	textMax = 1<<15 - 1
	uuidLen = 36
)

// newMemberID is the client's, or the instance's, name and a random UUID (version 4), which
// nobody in the group has. Of a name that is too long it has what fits.
func (s *Shard) newMemberID(g *group, clientID string, instance *string) string {
	if instance != nil {
		clientID = *instance
	}
	if most := textMax - uuidLen - len("-"); len(clientID) > most {
		clientID = strings.ToValidUTF8(clientID[:most], "")
	}
	for {
		id := clientID + "-" + s.uuid()
		if g.byID[id] == nil && !g.pending(id) {
			return id
		}
	}
}

func (s *Shard) uuid() string {
	var b [16]byte
	for i := range 2 {
		n := s.rand.Uint64()
		for j := range 8 {
			b[i*8+j] = byte(n >> (8 * j))
		}
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func str(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

func clone(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return bytes.Clone(b)
}

package group

// Bounds of one batch of tombstones. A key may be as long as the id of its group, and a batch
// that the log finds too large would be tried again and again, and nothing behind it swept.
const (
	sweepMax   = 1000
	sweepBytes = 256 << 10
)

func (s *Shard) scheduleRetention() {
	s.setTimer(TimerKey{Kind: TimerRetention}, s.after(s.cfg.OffsetsRetentionCheckMs))
}

// doomed is an offset of a deleted topic; at tells it from one committed since.
type doomed struct {
	key OffsetKey
	at  int64
}

// sweep collects the tombstones of one batch.
type sweep struct {
	records []Record
	bytes   int // of the keys
	offsets int
	groups  int
}

func (w *sweep) full() bool { return len(w.records) >= sweepMax || w.bytes >= sweepBytes }

func (w *sweep) offset(k OffsetKey) {
	w.add(offsetTombstone(k))
	w.offsets++
}

func (w *sweep) group(id string) {
	w.add(groupTombstone(id))
	w.groups++
}

func (w *sweep) add(r Record) {
	w.records = append(w.records, r)
	w.bytes += len(r.Key)
}

// expireOffsets writes tombstones for offsets past their retention, for offsets of deleted
// topics, and for empty groups that have none left. More than a batch of them: the rest
// comes at once afterwards.
func (s *Shard) expireOffsets() {
	w := &sweep{}
	s.sweepDoomed(w)
	for _, id := range s.sortedGroups() {
		if w.full() {
			break
		}
		s.sweepGroup(s.groups[id], w)
	}
	if w.full() {
		s.setTimer(TimerKey{Kind: TimerRetention}, s.now.Mono)
	} else {
		s.scheduleRetention()
	}
	s.proposeSweep(w)
}

func (s *Shard) proposeSweep(w *sweep) {
	if len(w.records) == 0 {
		return
	}
	s.propose(stage{
		records: w.records,
		applied: func() { s.emit(OffsetsExpired{w.offsets, w.groups}) },
		refused: func(int16) { s.scheduleRetention() },
	})
}

// topicsDeleted dooms the offsets of topics that are gone.
func (s *Shard) topicsDeleted(c TopicsDeleted) {
	gone := map[string]bool{}
	for _, t := range c.Topics {
		gone[t] = true
	}
	for _, id := range s.sortedGroups() {
		g := s.groups[id]
		for _, tp := range g.sortedOffsets() {
			if gone[tp.topic] {
				s.doomed = append(s.doomed, doomed{OffsetKey{id, tp.topic, tp.partition}, g.offsets[tp].at})
			}
		}
	}
	w := &sweep{}
	s.sweepDoomed(w)
	if w.full() {
		s.setTimer(TimerKey{Kind: TimerRetention}, s.now.Mono)
	}
	s.proposeSweep(w)
}

// sweepDoomed takes what fits; what is swept leaves the list when it is found gone.
func (s *Shard) sweepDoomed(w *sweep) {
	rest := s.doomed[:0]
	for _, d := range s.doomed {
		g := s.groups[d.key.Group]
		if g == nil {
			continue
		}
		if o, ok := g.offsets[topicPartition{d.key.Topic, d.key.Partition}]; !ok || o.at != d.at {
			continue
		}
		rest = append(rest, d)
		if !w.full() {
			w.offset(d.key)
		}
	}
	s.doomed = rest
}

// sweepGroup expires a group's offsets that it does not use, and the group itself when it is
// empty and nothing of it is left.
func (s *Shard) sweepGroup(g *group, w *sweep) {
	left := len(g.open) > 0
	for _, tp := range g.sortedOffsets() {
		o := g.offsets[tp]
		if !s.expiredOffset(g, tp.topic, o) || s.inTransaction(g, OffsetKey{g.id, tp.topic, tp.partition}) {
			left = true
			continue
		}
		if w.full() {
			return
		}
		w.offset(OffsetKey{g.id, tp.topic, tp.partition})
	}
	if !left && g.durable != nil && g.state == Empty && len(g.pendingJoin) == 0 {
		w.group(g.id)
	}
}

// expiredOffset: a group without members keeps an offset for the retention after the later
// of its last member's leaving and the commit; a stable consumer group keeps those of the
// topics it reads for ever; a group in a rebalance, or one whose subscription we cannot
// read, keeps all.
func (s *Shard) expiredOffset(g *group, topic string, o stored) bool {
	since := o.CommitTimestampMs
	switch {
	case g.state == Empty:
		since = max(since, g.stateAtMs)
	case g.state != Stable || g.protocolType != consumerType || !g.subscribedOK || g.readsTopic(topic):
		return false
	}
	if o.ExpireTimestampMs >= 0 {
		return s.now.UnixMs >= o.ExpireTimestampMs
	}
	return s.now.UnixMs-since >= s.cfg.OffsetsRetentionMs
}

package storage

import (
	"fmt"

	"seedlog/clock/task"
	"seedlog/storage/record"
)

// inflatedMaxBytes bounds the work that one batch may cost a look-up by time.
const inflatedMaxBytes = 1 << 30

// OffsetForTime finds the first record with a timestamp at or above ts: by the time index
// and the offset index to a batch, and in the batch by looking at its records. Nothing found
// is offset -1.
func (l *Log) OffsetForTime(t *task.T, ts int64) (TimeOffset, error) {
	return l.lookupTime(t, func(segs []*segment, start int64) (TimeOffset, error) {
		for i, s := range segs {
			if i+1 < len(segs) && segs[i+1].base <= start {
				continue
			}
			if err := l.loadSegment(t, s); err != nil {
				return noTime(), err
			}
			s.mu.Lock()
			maxTs := s.maxTs
			s.mu.Unlock()
			if maxTs < ts {
				continue
			}
			found, err := l.searchTime(t, s, max(start, s.base), ts)
			if err != nil || found.Offset >= 0 {
				return found, err
			}
		}
		return noTime(), nil
	})
}

// MaxTimestamp finds the first record with the largest timestamp, offset -1 if none has one.
func (l *Log) MaxTimestamp(t *task.T) (TimeOffset, error) {
	return l.lookupTime(t, func(segs []*segment, start int64) (TimeOffset, error) {
		var best *segment
		var bestTs int64 = record.NoTimestamp
		for _, s := range segs {
			if err := l.loadSegment(t, s); err != nil {
				return noTime(), err
			}
			s.mu.Lock()
			if s.maxTs > bestTs {
				best, bestTs = s, s.maxTs
			}
			s.mu.Unlock()
		}
		if best == nil {
			return noTime(), nil
		}
		found, err := l.searchTime(t, best, max(start, best.base), bestTs)
		if err == nil && found.Offset < 0 {
			// The segment's largest lies below the log start: look at what is left.
			return l.scanMax(t, segs, start)
		}
		return found, err
	})
}

// noTime is "nothing found".
func noTime() TimeOffset { return TimeOffset{Timestamp: -1, Offset: -1, LeaderEpoch: -1} }

// lookupTime runs a search, again if a truncation came between.
func (l *Log) lookupTime(t *task.T, search func(segs []*segment, start int64) (TimeOffset, error)) (TimeOffset, error) {
	if err := l.readable(); err != nil {
		return noTime(), err
	}
	for {
		l.mu.Lock()
		generation, start := l.truncations, l.start
		segs := *l.segs.Load()
		l.mu.Unlock()
		found, err := search(segs, start)
		if l.moved(generation) {
			continue
		}
		if err != nil {
			return noTime(), fmt.Errorf("%s: look-up by time: %w", l.Name(), err)
		}
		if found.Offset >= 0 && found.LeaderEpoch < 0 {
			found.LeaderEpoch = l.EpochAt(found.Offset)
		}
		return found, nil
	}
}

// searchTime finds the first record at or above offset from with a timestamp at or above ts.
func (l *Log) searchTime(t *task.T, s *segment, from, ts int64) (TimeOffset, error) {
	indexed, err := s.floorTime(t, ts)
	if err != nil {
		return noTime(), err
	}
	var buf []byte
	pos, err := s.floor(t, max(indexed, from), &buf)
	if err != nil {
		return noTime(), err
	}
	out := noTime()
	err = s.walk(t, pos, s.size.Load(), lookupChunk, func(sc *scanner, b *batch) (bool, error) {
		if b.MaxTimestamp < ts || b.LastOffset() < from {
			return true, nil
		}
		whole, err := sc.bytes(t, b)
		if err != nil {
			return false, err
		}
		out, err = l.searchRecords(b, whole, from, ts)
		return out.Offset < 0, err
	})
	return out, err
}

// searchRecords looks into one batch.
func (l *Log) searchRecords(b *batch, whole []byte, from, ts int64) (TimeOffset, error) {
	if b.Magic < record.MagicV2 {
		return searchLegacy(whole, from, ts)
	}
	l.mu.Lock()
	d := l.decoders.Get()
	l.mu.Unlock()
	it := record.NewRecords(whole, d, inflatedMaxBytes)
	out := noTime()
	for it.Next() {
		if r := it.Record(); r.Offset >= from && r.Timestamp >= ts {
			out = TimeOffset{r.Timestamp, r.Offset, b.LeaderEpoch}
			break
		}
	}
	err := it.Err()
	it.Close()
	l.mu.Lock()
	l.decoders.Put(d)
	l.mu.Unlock()
	return out, err
}

// searchLegacy looks into a message of magic 0 or 1 and what it wraps.
func searchLegacy(whole []byte, from, ts int64) (TimeOffset, error) {
	m, err := record.ParseMessage(whole)
	if err != nil {
		return noTime(), err
	}
	list, err := m.Records(new(record.Decompressor), inflatedMaxBytes)
	if err != nil {
		return noTime(), err
	}
	for _, r := range list {
		if r.Offset >= from && r.Timestamp >= ts {
			return TimeOffset{r.Timestamp, r.Offset, record.NoLeaderEpoch}, nil
		}
	}
	return noTime(), nil
}

// scanMax walks all batches from start on for the largest timestamp. The batch that the start
// cuts through is looked into, for its largest may lie below.
func (l *Log) scanMax(t *task.T, segs []*segment, start int64) (TimeOffset, error) {
	best, bestTs := -1, int64(record.NoTimestamp)
	for i, s := range segs {
		err := s.walk(t, 0, s.size.Load(), replayChunk, func(sc *scanner, b *batch) (bool, error) {
			if b.LastOffset() < start {
				return true, nil
			}
			ts := b.MaxTimestamp
			if b.BaseOffset < start {
				whole, err := sc.bytes(t, b)
				if err != nil {
					return false, err
				}
				if ts, err = l.maxFrom(b, whole, start, ts); err != nil {
					return false, err
				}
			}
			if ts > bestTs {
				best, bestTs = i, ts
			}
			return true, nil
		})
		if err != nil {
			return noTime(), err
		}
	}
	if best < 0 {
		return noTime(), nil
	}
	return l.searchTime(t, segs[best], start, bestTs)
}

// maxFrom is the largest timestamp of the batch's records from an offset on, at most limit.
func (l *Log) maxFrom(b *batch, whole []byte, from, limit int64) (int64, error) {
	best := int64(record.NoTimestamp)
	for best < limit {
		found, err := l.searchRecords(b, whole, from, best+1)
		if err != nil || found.Offset < 0 {
			return best, err
		}
		best = found.Timestamp
	}
	return best, nil
}

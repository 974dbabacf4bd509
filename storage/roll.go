package storage

import (
	"errors"
	"fmt"

	"seedlog/clock/task"
	"seedlog/disk"
)

// rollIfDue begins a new segment if the append of size bytes with the offsets [first, last]
// demands one. Under the Gate.
func (l *Log) rollIfDue(t *task.T, first, last, timestamp, size int64, cfg *Config) error {
	s := l.active()
	have := s.size.Load()
	switch {
	case !s.fits(last):
		if have == 0 {
			return l.replaceEmpty(t, first)
		}
		return l.roll(t, l.rollBase(first, last))
	case have == 0:
		return nil
	case have > int64(cfg.SegmentBytes)-size, s.full(), l.segmentExpired(s, timestamp, t.UnixMilli(), cfg):
		return l.roll(t, l.rollBase(first, last))
	}
	return nil
}

// rollBase is the new segment's name: the first offset that can be in it, which is the log
// end unless a gap is too wide for relative offsets.
func (l *Log) rollBase(first, last int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last-l.leo.offset > 1<<31-1 {
		return first
	}
	return l.leo.offset
}

// segmentExpired compares the batch's timestamp with the segment's first one, or, where
// there is none, the clock with the time the segment was begun.
func (l *Log) segmentExpired(s *segment, timestamp, nowMs int64, cfg *Config) bool {
	l.mu.Lock()
	limit := cfg.SegmentMs - l.jitterMs
	l.mu.Unlock()
	if s.rollTs >= 0 && timestamp >= 0 {
		return timestamp-s.rollTs > limit
	}
	return nowMs-s.createdMs > limit
}

// drawJitter draws how much earlier than segment.ms the active segment ends.
func (l *Log) drawJitter() {
	l.mu.Lock()
	most := min(l.cfg.SegmentJitterMs, l.cfg.SegmentMs)
	l.mu.Unlock()
	jitter := l.Dir().random(most)
	l.mu.Lock()
	l.jitterMs = jitter
	l.mu.Unlock()
}

// Roll begins a new segment unless the active one is empty.
func (l *Log) Roll(t *task.T) error {
	l.gate.Enter(t)
	defer l.gate.Leave(t)
	if err := l.Err(); err != nil {
		return err
	}
	if l.active().size.Load() == 0 {
		return nil
	}
	l.mu.Lock()
	base := l.leo.offset
	l.mu.Unlock()
	return l.roll(t, base)
}

// roll seals the active segment and begins one at base. Syncing what was sealed is left to
// a task, for appends must not wait for it. Under the Gate.
func (l *Log) roll(t *task.T, base int64) error {
	old := l.active()
	if base <= l.loadedPoint {
		// A clean stop says that all is durable up to its end; this segment is not, once it ends there.
		if err := l.Dir().CheckpointRecoveryPoints(t); err != nil {
			return l.failed(t, err)
		}
		l.loadedPoint = -1
	}
	if err := old.seal(t); err != nil {
		return l.failed(t, err)
	}
	old.unpin(t)
	if err := l.writeSnapshot(t, base); err != nil {
		return l.failed(t, err)
	}
	s, err := l.newActive(t, base)
	if err != nil {
		return l.failed(t, err)
	}
	l.mu.Lock()
	// Not earlier: who syncs finds the snapshot of the old one by the name of the new one.
	l.unsealed = append(l.unsealed, old)
	l.addSegment(s)
	l.mu.Unlock()
	l.drawJitter()
	l.observe(Event{Kind: SegmentRolled, Offset: base})
	l.flushRolled()
	return nil
}

// newActive makes the files of a segment to be appended to.
func (l *Log) newActive(t *task.T, base int64) (*segment, error) {
	l.mu.Lock()
	cfg := l.cfg
	l.mu.Unlock()
	s := newSegment(l.env.RT, &l.Dir().files, l.path, base, &cfg)
	s.createdMs = t.UnixMilli()
	if err := s.activate(t, true); err != nil {
		return nil, errors.Join(err, s.close(t)) // nobody else knows it
	}
	return s, nil
}

// addSegment publishes a list with s at its end. Under mu.
func (l *Log) addSegment(s *segment) {
	old := *l.segs.Load()
	list := make([]*segment, len(old)+1)
	copy(list, old)
	list[len(old)] = s
	l.namesDirty = true
	l.segs.Store(&list)
	// The end moves along: a reader at it must not look into the sealed segment.
	l.leo = position{max(l.leo.offset, s.base), s.base, 0}
}

// replaceEmpty begins anew at base where the active segment has nothing and cannot name the
// offsets to come.
func (l *Log) replaceEmpty(t *task.T, base int64) error {
	// The segment before may wait for being synced, with a snapshot that bears this one's name.
	if err := l.writeSnapshot(t, base); err != nil {
		return l.failed(t, err)
	}
	s, err := l.newActive(t, base)
	if err != nil {
		return l.failed(t, err)
	}
	l.mu.Lock()
	old := *l.segs.Load()
	gone := old[len(old)-1]
	list := append(append(make([]*segment, 0, len(old)), old[:len(old)-1]...), s)
	l.namesDirty = true
	l.segs.Store(&list)
	l.truncations++
	l.leo = position{max(l.leo.offset, base), base, 0}
	if len(list) == 1 {
		l.start = max(l.start, base)
	}
	l.mu.Unlock()
	if err := l.discard(t, gone, true); err != nil {
		return l.failed(t, err)
	}
	return nil
}

// flushRolled starts a task that syncs sealed segments, unless one is at it.
func (l *Log) flushRolled() {
	l.mu.Lock()
	start := !l.flushing
	l.flushing = true
	l.mu.Unlock()
	if start {
		l.Dir().group.Go("flush "+l.Name(), l.flushSealed)
	}
}

func (l *Log) flushSealed(t *task.T) {
	for {
		l.mu.Lock()
		if len(l.unsealed) == 0 || l.errLocked() != nil {
			l.flushing = false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		if err := l.syncUntil(t, func() bool { return len(l.unsealed) == 0 }); err != nil {
			l.mu.Lock()
			l.flushing = false
			l.mu.Unlock()
			return
		}
	}
}

// writeSnapshot writes the producers' state at the offset into <offset>.snapshot. It is
// synced with the segment that it ends.
func (l *Log) writeSnapshot(t *task.T, offset int64) error {
	return l.writeSnapshotAs(t, offset, snapshotSuffix, l.encodeProducers())
}

// encodeProducers is a snapshot of the producers' state now.
func (l *Log) encodeProducers() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.producers.Snapshot()
}

func (l *Log) writeSnapshotAs(t *task.T, offset int64, suffix string, b []byte) error {
	if err := putFile(t, l.env.Disk, segmentName(l.path, offset, suffix), b); err != nil {
		return fmt.Errorf("producer snapshot: %w", err)
	}
	return nil
}

// replaceSnapshot makes b the snapshot at the offset, durable and all at once: there may be one of
// that name already, below a recovery point that says it is durable. The caller syncs the directory.
func (l *Log) replaceSnapshot(t *task.T, offset int64, b []byte) error {
	const suffix = snapshotSuffix + cleanedSuffix // a start removes what is left of it, Kafka's too
	if err := l.writeSnapshotAs(t, offset, suffix, b); err != nil {
		return err
	}
	temp := segmentName(l.path, offset, suffix)
	if err := syncPath(t, l.env.Disk, temp); err != nil {
		return err
	}
	return l.env.Disk.Rename(t, temp, segmentName(l.path, offset, snapshotSuffix))
}

// putFile replaces the content of a small file, in place.
func putFile(t *task.T, d disk.Disk, path string, b []byte) error {
	f, err := d.Open(t, path, disk.Create)
	if err != nil {
		return err
	}
	defer f.Close(t)
	if err := f.Truncate(t, 0); err != nil {
		return err
	}
	_, err = f.WriteAt(t, b, 0)
	return err
}

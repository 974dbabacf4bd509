package storage

import (
	"fmt"
	"slices"

	"seedlog/clock/task"
	"seedlog/storage/epoch"
	"seedlog/storage/index"
	"seedlog/storage/producer"
	"seedlog/storage/record"
)

// TruncateTo removes every batch that reaches offset or beyond; at or above the log end there
// is none, and what goes is an epoch that began at the log end and got no record: its leader
// was replaced before its first append. The log then ends behind the last batch that is left, which may be below
// offset; if none is left above the log start, it begins anew at offset. Connections that are sending what is cut are ended. The cut is durable when
// it returns: a power loss must not bring half of the old tail back behind what is appended
// next.
func (l *Log) TruncateTo(t *task.T, offset int64) error {
	l.gate.Enter(t)
	defer l.gate.Leave(t)
	if err := l.Err(); err != nil {
		return err
	}
	end := l.LogEndOffset()
	if offset >= end {
		return l.dropEmptyEpochs(t, end)
	}
	segs := *l.segs.Load()
	if offset < segs[0].base {
		return l.truncateFully(t, offset)
	}
	cut, err := l.cutAt(t, segs, offset)
	if err != nil {
		return l.failed(t, err)
	}
	if cut.offset < l.LogStartOffset() {
		return l.truncateFully(t, offset)
	}
	if err := l.lowerRecoveryPoint(t, cut.offset, cut.offset-1); err != nil {
		return err
	}
	committed := l.HighWatermark()
	keep, gone := l.hideAbove(segs, cut)
	l.wakeSyncWaiters()
	if err := l.truncateFiles(t, keep, gone, cut); err != nil {
		return l.failed(t, err)
	}
	if err := l.afterTruncation(t, cut.offset); err != nil {
		return err
	}
	if err := l.lowerMark(t, committed); err != nil {
		return err
	}
	l.observe(Event{Kind: LogTruncated, From: end, Offset: cut.offset})
	return nil
}

// dropEmptyEpochs forgets epochs that have no record.
func (l *Log) dropEmptyEpochs(t *task.T, end int64) error {
	l.mu.Lock()
	next := l.epochs.Clone()
	l.mu.Unlock()
	if !next.TruncateFromEnd(end) {
		return nil
	}
	return l.storeEpochs(t, next)
}

// cutAt finds where the log ends once it is cut at offset: a batch that straddles it goes.
func (l *Log) cutAt(t *task.T, segs []*segment, offset int64) (position, error) {
	s := segs[floorSegment(segs, offset)]
	if err := l.loadSegment(t, s); err != nil {
		return position{}, err
	}
	var buf []byte
	pos, err := s.floor(t, offset-1, &buf)
	if err != nil {
		return position{}, err
	}
	cut := position{s.base, s.base, pos}
	err = s.walk(t, pos, s.size.Load(), lookupChunk, func(_ *scanner, b *batch) (bool, error) {
		if b.LastOffset() >= offset {
			return false, nil
		}
		cut.offset, cut.pos = b.NextOffset(), b.end()
		return true, nil
	})
	return cut, err
}

// lowerRecoveryPoint makes durable that nothing above offset was synced, before it goes:
// otherwise the next start would take the new tail, lost, for damage to synced bytes. Until that is
// lifted the point stays at most where it is put. It is put there even if all that goes was not
// synced: the point on disk may be just at offset, and no log end may be one (see recoveryPoint).
func (l *Log) lowerRecoveryPoint(t *task.T, offset, most int64) error {
	l.mu.Lock()
	lower := most < l.synced
	l.synced = min(l.synced, offset)
	l.pointMax = most
	l.truncations++
	l.mu.Unlock()
	if !lower {
		return nil
	}
	if err := l.Dir().CheckpointRecoveryPoints(t); err != nil {
		l.liftRecoveryPoint() // nothing is cut, and the metadata log goes on where the disk is merely full
		return l.failed(t, err)
	}
	return nil
}

// liftRecoveryPoint ends what lowerRecoveryPoint began.
func (l *Log) liftRecoveryPoint() {
	l.mu.Lock()
	l.pointMax = noPointMax
	l.mu.Unlock()
	l.wakeSyncWaiters()
}

// lowerMark makes durable that a truncation took some of what was committed, before anything is
// appended there: see Dir.markAbove.
func (l *Log) lowerMark(t *task.T, before int64) error {
	if l.HighWatermark() >= before {
		return nil
	}
	if err := l.Dir().CheckpointHighWatermarks(t); err != nil {
		return l.failed(t, err)
	}
	return nil
}

// hideAbove takes what lies above the cut out of the readers' sight.
func (l *Log) hideAbove(segs []*segment, cut position) (keep *segment, gone []*segment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := floorSegment(segs, cut.base) + 1
	keep, gone = segs[n-1], segs[n:]
	list := slices.Clone(segs[:n])
	l.segs.Store(&list)
	l.truncations++
	l.synced, l.pointMax = min(l.synced, cut.offset), noPointMax
	l.recent.reset()
	keep.size.Store(cut.pos)
	l.leo = cut
	l.lso = unresolved(-1)
	if l.hw.offset >= cut.offset {
		l.hw = cut
	}
	l.unsealed = slices.DeleteFunc(l.unsealed, func(s *segment) bool { return s == keep || slices.Contains(gone, s) })
	return keep, gone
}

// truncateFiles removes the segments above the cut, the last one first, so that whatever is
// left after a crash is one piece, and then cuts the segment that it falls into.
// A snapshot of producers that came back would speak of another history.
func (l *Log) truncateFiles(t *task.T, keep *segment, gone []*segment, cut position) error {
	for _, s := range slices.Backward(gone) {
		// Readers that already have the file must not send what is no longer the log.
		if err := l.discard(t, s, true); err != nil {
			return err
		}
	}
	if err := l.removeSnapshots(t, func(o int64) bool { return o > cut.offset }); err != nil {
		return err
	}
	if err := l.env.Disk.SyncDir(t, l.path); err != nil {
		return err
	}
	if err := keep.truncate(t, cut.pos, l.Config().IndexIntervalBytes); err != nil {
		return err
	}
	return keep.file.Sync(t)
}

// truncate cuts the segment to size, which is a batch's beginning, and makes it the active
// one. Under the Gate.
func (s *segment) truncate(t *task.T, size int64, intervalBytes int32) error {
	if s.file == nil {
		f, err := s.files.acquire(t, &s.log)
		if err != nil {
			return err
		}
		s.file = f
	}
	if err := s.file.Truncate(t, size); err != nil {
		return err
	}
	if err := s.truncateTxns(t, size); err != nil {
		return err
	}
	return s.reindex(t, intervalBytes)
}

// reindex rebuilds the indexes of a segment from its batches, for appending.
func (s *segment) reindex(t *task.T, intervalBytes int32) error {
	s.mu.Lock()
	s.offsets.Table.Init(index.OffsetEntrySize)
	s.times.Table.Init(index.TimeEntrySize)
	s.offsets.loaded, s.times.loaded, s.maxKnown = true, true, true
	s.maxTs, s.maxTsOffset = record.NoTimestamp, 0
	s.mu.Unlock()
	s.rollTs, s.lastIndexTs, s.sinceIndex = record.NoTimestamp, record.NoTimestamp, 0
	if s.size.Load() == 0 {
		s.createdMs = t.UnixMilli()
	}
	err := s.walk(t, 0, s.size.Load(), replayChunk, func(_ *scanner, b *batch) (bool, error) {
		s.note(b, intervalBytes)
		return true, nil
	})
	if err != nil {
		return err
	}
	if err := s.activate(t, false); err != nil {
		return err
	}
	return s.writeIndexes(t, true)
}

// truncateTxns drops the aborted transactions whose marker was cut off.
func (s *segment) truncateTxns(t *task.T, size int64) error {
	list, err := s.loadTxns(t)
	if err != nil || len(list) == 0 {
		return err
	}
	end := s.base
	err = s.walk(t, 0, size, replayChunk, func(_ *scanner, b *batch) (bool, error) {
		end = b.NextOffset()
		return true, nil
	})
	if err != nil {
		return err
	}
	n := len(list)
	for n > 0 && list[n-1].LastOffset >= end {
		n--
	}
	if n == len(list) {
		return nil
	}
	return s.txns.reset(t, s.files, &s.mu, n)
}

// afterTruncation makes the epochs and the producers what they were at the new end.
func (l *Log) afterTruncation(t *task.T, end int64) error {
	l.mu.Lock()
	next := l.epochs.Clone()
	hw := l.hw.offset
	l.mu.Unlock()
	if next.TruncateFromEnd(end) {
		if err := l.storeEpochs(t, next); err != nil {
			return err
		}
	}
	state, err := l.loadProducers(t, *l.segs.Load(), end, hw)
	if err != nil {
		return l.failed(t, err)
	}
	l.mu.Lock()
	state.OnHighWatermark(l.hw.offset)
	l.producers = state
	l.mu.Unlock()
	return nil
}

// TruncateFullyAt empties the log and lets it begin again at offset, with no epochs and no
// producers.
func (l *Log) TruncateFullyAt(t *task.T, offset int64) error {
	l.gate.Enter(t)
	defer l.gate.Leave(t)
	if err := l.Err(); err != nil {
		return err
	}
	return l.truncateFully(t, offset)
}

func (l *Log) truncateFully(t *task.T, offset int64) error {
	if offset < 0 {
		panic(fmt.Sprintf("storage: %s: truncating to offset %d", l.Name(), offset))
	}
	end, committed := l.LogEndOffset(), l.HighWatermark()
	// All goes, one file after the other: of what a crash leaves nothing may be said to be durable.
	if err := l.lowerRecoveryPoint(t, offset, 0); err != nil {
		return err
	}
	defer l.liftRecoveryPoint()
	segs := *l.segs.Load()
	// The old segments go first: a new one could bear the name of one of them.
	for _, s := range slices.Backward(segs) {
		if err := l.discard(t, s, true); err != nil {
			return l.failed(t, err)
		}
	}
	s, err := l.newActive(t, offset)
	if err != nil {
		return l.failed(t, err)
	}
	l.mu.Lock()
	list := []*segment{s}
	l.segs.Store(&list)
	l.truncations++
	l.recent.reset()
	l.unsealed = nil
	l.leo = position{offset, offset, 0}
	l.hw, l.lso, l.start = l.leo, l.leo, offset
	l.synced = min(l.synced, offset)
	l.producers = producer.NewState(offset)
	l.mu.Unlock()
	if err := l.removeSnapshots(t, func(int64) bool { return true }); err != nil {
		return l.failed(t, err)
	}
	if err := l.storeEpochs(t, epoch.Cache{}); err != nil {
		return err
	}
	if err := l.env.Disk.SyncDir(t, l.path); err != nil {
		return l.failed(t, err)
	}
	// A log start above what is there would empty the log at the next start.
	if err := l.Dir().CheckpointLogStarts(t); err != nil {
		return l.failed(t, err)
	}
	if err := l.lowerMark(t, committed); err != nil {
		return err
	}
	l.observe(Event{Kind: LogTruncated, From: end, Offset: offset})
	return nil
}

// DeleteRecords moves the log start up to before, which must not be above the high
// watermark; -1 means there. It returns the log start, durable.
func (l *Log) DeleteRecords(t *task.T, before int64) (int64, error) {
	l.gate.Enter(t)
	defer l.gate.Leave(t)
	if err := l.Err(); err != nil {
		return -1, err
	}
	l.mu.Lock()
	start, hw := l.start, l.hw.offset
	l.mu.Unlock()
	if before == -1 {
		before = hw
	}
	if before < 0 || before > hw {
		return -1, fmt.Errorf("%w: %s: deleting below %d, high watermark %d", ErrOffsetOutOfRange, l.Name(), before, hw)
	}
	if before <= start {
		return start, nil
	}
	return before, l.moveStart(t, before)
}

// MoveLogStart raises the log start, as a follower does when its leader's moved: not above
// the log end, and never back. It is durable: the leader will be told of it, and tells its
// client that nobody has what was deleted.
func (l *Log) MoveLogStart(t *task.T, to int64) error {
	l.gate.Enter(t)
	defer l.gate.Leave(t)
	if err := l.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	to = min(to, l.leo.offset)
	up := to > l.start
	l.mu.Unlock()
	if !up {
		return nil
	}
	return l.moveStart(t, to)
}

// moveStart raises the log start and removes the segments below it. The start is durable
// before anybody sees it, for it never goes back; before the epochs below it go, which the next
// start does not make again; and before the segments go: a power loss may bring some of them
// back, and not the others.
func (l *Log) moveStart(t *task.T, to int64) error {
	segs := *l.segs.Load()
	n := 0
	for n < len(segs)-1 && segs[n+1].base <= to {
		n++
	}
	l.mu.Lock()
	l.nextStart = to
	l.mu.Unlock()
	if err := l.Dir().CheckpointLogStarts(t); err != nil {
		return l.failed(t, err)
	}
	l.mu.Lock()
	l.start, l.nextStart = to, 0
	if l.hw.offset < to {
		l.hw = l.locate(to)
		l.producers.OnHighWatermark(to)
	}
	l.producers.OnLogStart(to)
	next := l.epochs.Clone()
	l.mu.Unlock()
	l.observe(Event{Kind: LogStartMoved, Offset: to})
	if next.TruncateFromStart(to) {
		if err := l.storeEpochs(t, next); err != nil {
			return err
		}
	}
	if n == 0 {
		return nil
	}
	return l.removeFront(t, segs, n)
}

// removeFront takes the first n segments out of the log. Readers that have them go on.
func (l *Log) removeFront(t *task.T, segs []*segment, n int) error {
	list := slices.Clone(segs[n:])
	l.mu.Lock()
	pending := slices.Contains(l.unsealed, segs[n-1])
	l.mu.Unlock()
	if pending {
		// The snapshot that the last of them ended with stays, and nobody else would sync it.
		if err := syncPath(t, l.env.Disk, segmentName(l.path, list[0].base, snapshotSuffix)); err != nil {
			return l.failed(t, err)
		}
	}
	l.mu.Lock()
	l.segs.Store(&list)
	l.truncations++
	l.unsealed = slices.DeleteFunc(l.unsealed, func(s *segment) bool { return slices.Contains(segs[:n], s) })
	l.mu.Unlock()
	for _, s := range segs[:n] {
		if err := l.discard(t, s, false); err != nil {
			return l.failed(t, err)
		}
	}
	first := list[0].base
	if err := l.removeSnapshots(t, func(o int64) bool { return o < first }); err != nil {
		return l.failed(t, err)
	}
	return nil
}

package storage

import (
	"errors"
	"fmt"
	"slices"

	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/storage/epoch"
	"seedlog/storage/producer"
	"seedlog/storage/record"
)

// Log is one partition's batches in order. It is made by its Dir.
//
// Offsets, always: LogStartOffset ≤ LastStableOffset ≤ HighWatermark ≤ LogEndOffset, and
// SyncedEnd ≤ LogEndOffset.
type Log struct {
	env       *Env
	dir       task.Published[Dir] // changes with an Exchange, under the gate; without an exploration point of its own
	topic     string
	id        [16]byte
	partition int32
	path      string
	future    bool // a copy that is being made, beside the log itself in another directory

	// gate orders everything that changes files. It is held across disk calls.
	gate        task.Gate
	loadedPoint int64 // the recovery point on disk when the log was loaded, or -1. Gate

	// segs is in the order of offsets, the last is active. Copied on write, under mu.
	segs task.Published[[]*segment]

	mu          task.Mutex // guards what follows, for a few statements
	cfg         Config
	start       int64
	nextStart   int64 // what start is about to be, once that is durable
	leo         position
	hw          position
	lso         position // of the last stable offset, if resolved
	synced      int64    // everything below is durable
	pointMax    int64    // bounds the recovery point while a truncation is under way
	truncations int64    // generation: readers and syncs that straddle one start over
	recent      recent
	epochs      epoch.Cache
	fence       int32 // leaders' appends of earlier epochs are refused
	producers   *producer.State
	decoders    record.Decoders
	err         error
	closed      bool
	syncing     bool
	syncWaiters []*task.T
	unsealed    []*segment // sealed, their derived files not yet durable
	namesDirty  bool       // the directory has names that are not durable
	onSynced    func(int64)
	lastFlushMs int64
	dueAt       dueTimes // what housekeeping owes the log
	jitterMs    int64    // of the active segment's roll
	unclean     bool
	flushing    bool // a task that syncs rolled segments runs
}

// position is an offset and where it is: in the segment that begins at base, pos bytes in.
// A negative base means that the place is not known.
type position struct {
	offset int64
	base   int64
	pos    int64
}

// noPointMax bounds nothing.
const noPointMax = 1<<63 - 1

func unresolved(offset int64) position { return position{offset, -1, -1} }

// Topic, Partition and TopicID name the log.
func (l *Log) Topic() string     { return l.topic }
func (l *Log) Partition() int32  { return l.partition }
func (l *Log) TopicID() [16]byte { return l.id }

// Dir is the directory that the log is in.
func (l *Log) Dir() *Dir { return l.dir.Load() }

// Name is "<topic>-<partition>".
func (l *Log) Name() string { return logName(l.topic, l.partition) }

func logName(topic string, partition int32) string { return fmt.Sprintf("%s-%d", topic, partition) }

// Path is the log's directory.
func (l *Log) Path() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.path
}

// dirErr is why the log's directory is offline, or nil. A disk that is merely full does not
// take the metadata log with it: the deletions that would make room are written there, into
// the room that the ballast gave back, and a failed write of its own ends it all the same.
func (l *Log) dirErr() error {
	err := l.Dir().Err()
	if err != nil && l.topic == MetadataTopic && errors.Is(err, disk.ErrNoSpace) {
		return nil
	}
	return err
}

// Err is nil while the log serves; otherwise it wraps ErrOffline or ErrClosed.
func (l *Log) Err() error {
	if err := l.dirErr(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.errLocked()
}

func (l *Log) errLocked() error {
	if l.err != nil {
		return l.err
	}
	if l.closed {
		return fmt.Errorf("%w: %s", ErrClosed, l.Name())
	}
	return nil
}

// Config is the log's settings, with the defaults filled in.
func (l *Log) Config() Config {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cfg
}

// SetConfig replaces the settings. Index sizes apply from the next segment on.
func (l *Log) SetConfig(c Config) {
	l.mu.Lock()
	l.cfg = c.withDefaults()
	l.mu.Unlock()
	l.drawJitter()
}

// WasUnclean tells that the log was checked at loading, for the stop before was not clean.
func (l *Log) WasUnclean() bool { return l.unclean }

// LogStartOffset is the first offset that may be read.
func (l *Log) LogStartOffset() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.start
}

// LogEndOffset is the offset of the next record to be appended.
func (l *Log) LogEndOffset() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leo.offset
}

// HighWatermark is the offset below which consumers read.
func (l *Log) HighWatermark() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hw.offset
}

// LastStableOffset is the offset below which no transaction is undecided.
func (l *Log) LastStableOffset() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lastStable()
}

// SyncedEnd is the offset below which everything is durable.
func (l *Log) SyncedEnd() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.synced
}

// Offsets are the numbers of a log at one instant.
type Offsets struct {
	LogStart, LastStable, HighWatermark, SyncedEnd, LogEnd int64
	LatestEpoch                                            int32
}

// Offsets reads all numbers at one instant.
func (l *Log) Offsets() Offsets {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.offsets()
}

// offsets are the numbers. Under mu.
func (l *Log) offsets() Offsets {
	return Offsets{l.start, l.lastStable(), l.hw.offset, l.synced, l.leo.offset, l.epochs.Latest()}
}

// SetHighWatermark moves the high watermark, within [log start, log end], and returns what
// it became.
func (l *Log) SetHighWatermark(hw int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.setHW(hw)
}

func (l *Log) setHW(hw int64) int64 {
	hw = min(max(hw, l.start), l.leo.offset)
	if hw != l.hw.offset {
		l.hw = l.locate(hw)
		l.producers.OnHighWatermark(hw)
	}
	return hw
}

// lastStable is the smaller of the high watermark and the first undecided offset. Under mu.
func (l *Log) lastStable() int64 {
	if first, ok := l.producers.FirstUnstable(); ok && first < l.hw.offset {
		return max(first, l.start)
	}
	return l.hw.offset
}

// locate finds an offset's place among what is in memory. Under mu.
func (l *Log) locate(offset int64) position {
	if offset == l.leo.offset {
		return l.leo
	}
	if offset == l.hw.offset && l.hw.base >= 0 {
		return l.hw
	}
	if p, ok := l.recent.find(offset); ok && p.offset == offset {
		return p
	}
	return unresolved(offset)
}

// OnSynced registers what is called when the synced end moved on: without locks held, by
// the task that synced. It must not wait.
func (l *Log) OnSynced(fn func(syncedEnd int64)) {
	l.mu.Lock()
	l.onSynced = fn
	l.mu.Unlock()
}

// LatestEpoch is the leader epoch of the log's end, -1 if there is none.
func (l *Log) LatestEpoch() int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epochs.Latest()
}

// EndOffsetForEpoch is the largest known epoch at or below epoch, and where it ended: what
// OffsetsForLeaderEpoch answers. Unknown is (-1, -1).
func (l *Log) EndOffsetForEpoch(e int32) (int32, int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epochs.EndOffsetFor(e, l.leo.offset)
}

// EpochAt is the leader epoch of the record at offset, -1 if unknown.
func (l *Log) EpochAt(offset int64) int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epochs.EpochFor(offset)
}

// Epochs are the entries of the leader-epoch cache.
func (l *Log) Epochs() []epoch.Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epochs.Entries()
}

// AssignEpochStart records that leadership epoch begins at the log's end, durably, and returns
// that. A new leader does so before its first append; appends of an earlier epoch that are under
// way come before it, those that come later are refused.
func (l *Log) AssignEpochStart(t *task.T, e int32) (start int64, err error) {
	l.gate.Enter(t)
	defer l.gate.Leave(t)
	if err := l.Err(); err != nil {
		return -1, err
	}
	if latest := l.LatestEpoch(); e < latest {
		return -1, fmt.Errorf("%w: %s: epoch %d begins, log is at %d", ErrEpoch, l.Name(), e, latest)
	}
	start = l.LogEndOffset()
	return start, l.assignEpoch(t, e, start)
}

// assignEpoch changes the cache and its file. Under the Gate.
func (l *Log) assignEpoch(t *task.T, e int32, offset int64) error {
	l.mu.Lock()
	next := l.epochs.Clone()
	l.mu.Unlock()
	if !next.Assign(e, offset) {
		return nil
	}
	return l.storeEpochs(t, next)
}

// storeEpochs writes the cache's file and then publishes the cache. Under the Gate.
func (l *Log) storeEpochs(t *task.T, next epoch.Cache) error {
	if err := writeEpochs(t, l.env.Disk, l.path, &next); err != nil {
		return l.failed(t, err)
	}
	l.mu.Lock()
	l.epochs = next
	l.mu.Unlock()
	return nil
}

// Size is the bytes of all segments.
func (l *Log) Size() int64 {
	var n int64
	for _, s := range *l.segs.Load() {
		n += s.size.Load()
	}
	return n
}

// Segments describes the segments in the order of their offsets.
func (l *Log) Segments() []SegmentInfo {
	segs := *l.segs.Load()
	out := make([]SegmentInfo, len(segs))
	for i, s := range segs {
		s.mu.Lock()
		out[i] = SegmentInfo{BaseOffset: s.base, Size: s.size.Load(), MaxTimestamp: s.maxTs, Active: i == len(segs)-1}
		s.mu.Unlock()
	}
	return out
}

// active is the last segment.
func (l *Log) active() *segment {
	segs := *l.segs.Load()
	return segs[len(segs)-1]
}

// floorSegment is the index of the segment that offset falls into, or -1.
func floorSegment(segs []*segment, offset int64) int {
	i, exact := slices.BinarySearchFunc(segs, offset, func(s *segment, o int64) int {
		switch {
		case s.base < o:
			return -1
		case s.base > o:
			return 1
		}
		return 0
	})
	if exact {
		return i
	}
	return i - 1
}

// failed takes the log and its directory offline because of err, before anything else can
// happen to them, and returns what callers are told.
func (l *Log) failed(t *task.T, err error) error {
	out := l.fail(err)
	l.Dir().failed(t, err)
	return out
}

// fail takes the log offline.
func (l *Log) fail(err error) error {
	if errors.Is(err, ErrOffline) {
		return err
	}
	l.mu.Lock()
	first := l.err == nil
	if first {
		l.err = fmt.Errorf("%w: %s in %s: %w", ErrOffline, l.Name(), l.Dir().path, err)
	}
	out := l.err
	wake := l.syncWaiters
	l.syncWaiters = nil
	l.mu.Unlock()
	for _, w := range wake {
		w.Wake()
	}
	if first {
		l.observe(Event{Kind: LogOffline, Err: err})
	}
	return out
}

// observe completes an event and passes it on. No lock is held.
func (l *Log) observe(e Event) {
	e.Dir, e.Topic, e.Partition = l.Dir().path, l.topic, l.partition
	l.env.observe(e)
}

// observe passes an event on.
func (e *Env) observe(ev Event) {
	if e.Events != nil {
		e.Events.Observe(ev)
	}
}

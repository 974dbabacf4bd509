package storage

import (
	"errors"
	"fmt"
	"math"

	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/storage/index"
	"seedlog/storage/record"
)

// File suffixes.
const (
	logSuffix       = ".log"
	offsetsSuffix   = ".index"
	timesSuffix     = ".timeindex"
	txnsSuffix      = ".txnindex"
	snapshotSuffix  = ".snapshot"
	deletedSuffix   = ".deleted"
	cleanedSuffix   = ".cleaned"
	swapSuffix      = ".swap"
	deleteDirSuffix = "-delete"
	futureDirSuffix = "-future"
	strayDirSuffix  = "-stray"
)

// segment is a run of batches in one .log file and its derived files. All but the last of a
// log are sealed: nothing is appended to them.
type segment struct {
	base  int64
	files *fileCache

	log  fileHandle
	size task.Int64 // of the whole batches that readers may see
	file disk.File  // pinned while active. Gate

	mu          task.Mutex // guards what follows
	offsetsFile fileHandle
	timesFile   fileHandle
	offsets     indexFile
	times       indexFile
	txns        txnFile
	maxTs       int64 // largest timestamp, -1 if there is none; known once loaded
	maxTsOffset int64 // last offset of the first batch that has it
	maxKnown    bool

	// Owned by whoever holds the log's Gate.
	rollTs      int64 // largest timestamp of the first batch, -1 if unknown
	createdMs   int64
	sinceIndex  int64 // bytes appended since the last index entry's batch began
	lastIndexTs int64 // timestamp of the last time entry
}

// segmentName is "<dir>/<base in 20 digits><suffix>".
func segmentName(dir string, base int64, suffix string) string {
	return fmt.Sprintf("%s/%020d%s", dir, base, suffix)
}

// newSegment describes the segment of the base offset; no file is touched.
func newSegment(rt task.Runtime, c *fileCache, dir string, base int64, cfg *Config) *segment {
	s := &segment{base: base, files: c, maxTs: record.NoTimestamp, rollTs: record.NoTimestamp, lastIndexTs: record.NoTimestamp}
	s.mu.Init(rt, "storage.segment")
	s.log = fileHandle{path: segmentName(dir, base, logSuffix), mode: disk.Write}
	s.offsetsFile = fileHandle{path: segmentName(dir, base, offsetsSuffix), mode: disk.Write}
	s.timesFile = fileHandle{path: segmentName(dir, base, timesSuffix), mode: disk.Write}
	s.txns.h = fileHandle{path: segmentName(dir, base, txnsSuffix), mode: disk.Create}
	s.offsets.init(&s.offsetsFile, index.OffsetEntrySize, cfg.SegmentIndexBytes)
	s.times.init(&s.timesFile, index.TimeEntrySize, cfg.SegmentIndexBytes)
	return s
}

// activate opens the segment's files for appending. With create the .log is made anew.
func (s *segment) activate(t *task.T, create bool) error {
	if create {
		if err := s.files.setMode(t, &s.log, disk.Create); err != nil {
			return err
		}
	}
	if s.file == nil {
		f, err := s.files.acquire(t, &s.log)
		if err != nil {
			return err
		}
		s.file = f
	}
	if create {
		if err := s.files.setMode(t, &s.log, disk.Write); err != nil {
			return err
		}
		if err := s.file.Truncate(t, 0); err != nil {
			return err
		}
		s.maxKnown = true
		s.txns.loaded = true
	}
	if err := s.offsets.activate(t, s.files); err != nil {
		return err
	}
	return s.times.activate(t, s.files)
}

// note records a batch that was written, or found while rebuilding. Under the Gate.
func (s *segment) note(b *batch, intervalBytes int32) {
	last := b.LastOffset()
	s.mu.Lock()
	if b.pos == 0 {
		s.rollTs = b.MaxTimestamp
	}
	if b.MaxTimestamp > s.maxTs {
		s.maxTs, s.maxTsOffset = b.MaxTimestamp, last
	}
	if s.sinceIndex > int64(intervalBytes) && s.offsets.Len() < s.offsets.maxEntries() {
		var e [index.OffsetEntrySize]byte
		o := index.Offset{Rel: int32(last - s.base), Position: int32(b.pos)}
		s.offsets.Append(index.AppendOffset(e[:0], o), offsetKey(o))
		s.noteTime(false)
		s.sinceIndex = 0
	}
	s.sinceIndex += b.size
	s.mu.Unlock()
}

// noteTime adds a time entry if the largest timestamp grew. A full index takes one more
// entry when the segment is sealed. Under the Gate and s.mu.
func (s *segment) noteTime(sealing bool) {
	if s.maxTs <= s.lastIndexTs || !sealing && s.times.Len() >= s.times.maxEntries()-1 {
		return
	}
	var e [index.TimeEntrySize]byte
	s.times.Append(index.AppendTime(e[:0], index.Time{Timestamp: s.maxTs, Rel: int32(s.maxTsOffset - s.base)}), s.maxTs)
	s.lastIndexTs = s.maxTs
}

// offsetKey orders entries by offset and, as both columns grow together, by position.
func offsetKey(e index.Offset) int64 { return int64(e.Rel)<<32 | int64(e.Position) }

// full reports that an index has no room for the next entry.
func (s *segment) full() bool {
	f := s.fill()
	return s.fullAt(&f)
}

func (s *segment) fullAt(f *fill) bool {
	return f.offsets >= s.offsets.maxEntries() || f.times >= s.times.maxEntries()-1
}

// fill is how many entries a segment's indexes have, and what decides on the next one. It
// foretells what [segment.note] makes of batches that are not written yet.
type fill struct {
	offsets, times     int
	sinceIndex         int64
	maxTs, lastIndexTs int64
}

// fill is that of what was noted. Under the Gate, which all who note hold.
func (s *segment) fill() fill {
	return fill{s.offsets.Len(), s.times.Len(), s.sinceIndex, s.maxTs, s.lastIndexTs}
}

// newFill is an empty segment's.
func newFill() fill { return fill{maxTs: -1, lastIndexTs: -1} }

func (f *fill) note(size, maxTs int64, intervalBytes int32) {
	f.maxTs = max(f.maxTs, maxTs)
	if f.sinceIndex > int64(intervalBytes) {
		f.offsets++
		if f.maxTs > f.lastIndexTs {
			f.times++
			f.lastIndexTs = f.maxTs
		}
		f.sinceIndex = 0
	}
	f.sinceIndex += size
}

// fits reports whether an offset can be written relative to the base.
func (s *segment) fits(offset int64) bool {
	return offset >= s.base && offset-s.base <= math.MaxInt32
}

// writeIndexes writes full pages of both indexes, or all that is missing. Under the Gate.
func (s *segment) writeIndexes(t *task.T, all bool) error {
	if err := s.offsets.write(t, s.files, &s.mu, all); err != nil {
		return err
	}
	return s.times.write(t, s.files, &s.mu, all)
}

// seal ends appending: the last time entry, index tails written, files trimmed. Under the
// Gate.
func (s *segment) seal(t *task.T) error {
	s.mu.Lock()
	s.noteTime(true)
	s.mu.Unlock()
	if err := s.offsets.seal(t, s.files, &s.mu); err != nil {
		return err
	}
	return s.times.seal(t, s.files, &s.mu)
}

// unpin lets go of the .log's descriptor.
func (s *segment) unpin(t *task.T) {
	if s.file != nil {
		s.file = nil
		s.files.release(t, &s.log)
	}
}

// handles lists the files that exist under the segment's name.
func (s *segment) handles() []*fileHandle {
	return []*fileHandle{&s.log, &s.offsetsFile, &s.timesFile, &s.txns.h}
}

// close gives all descriptors back.
func (s *segment) close(t *task.T) error {
	s.unpin(t)
	var first error
	for _, h := range s.handles() {
		if err := s.files.drop(t, h); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// load brings the tables of a sealed segment into memory; lost or damaged ones are rebuilt
// from the log, in memory only, for a reader may be doing it. rebuilt tells that.
func (s *segment) load(t *task.T, intervalBytes int32) (rebuilt bool, err error) {
	s.mu.Lock()
	loaded := s.offsets.loaded && s.times.loaded
	s.mu.Unlock()
	if loaded {
		return false, nil
	}
	offsets, times, err := s.readTables(t)
	if errors.Is(err, index.ErrDamaged) || errors.Is(err, disk.ErrNotExist) {
		shadow, err := s.rebuild(t, intervalBytes)
		if err != nil {
			return false, err
		}
		offsets, times, rebuilt = shadow.offsets.Table, shadow.times.Table, true
	} else if err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.offsets.loaded && s.times.loaded {
		return false, nil
	}
	s.offsets.Table, s.times.Table = offsets, times
	s.offsets.loaded, s.times.loaded = true, true
	if !s.maxKnown {
		if e, ok := s.lastTime(); ok {
			s.maxTs, s.maxTsOffset = e.Timestamp, s.base+int64(e.Rel)
		}
		s.maxKnown = true
	}
	return rebuilt, nil
}

// lastTime is the last entry of the time index. Under s.mu.
func (s *segment) lastTime() (index.Time, bool) {
	n := s.times.Len()
	if n == 0 {
		return index.Time{Timestamp: record.NoTimestamp}, false
	}
	p := (n - 1) / s.times.PerPage()
	b, _ := s.times.Page(p)
	return index.TimeAt(b, (n-1)%s.times.PerPage()), true
}

// lastOffsetEntry is the last entry of the offset index. Under s.mu.
func (s *segment) lastOffsetEntry() (index.Offset, bool) {
	n := s.offsets.Len()
	if n == 0 {
		return index.Offset{}, false
	}
	p := (n - 1) / s.offsets.PerPage()
	b, _ := s.offsets.Page(p)
	return index.OffsetAt(b, (n-1)%s.offsets.PerPage()), true
}

// readTables reads both index files and checks them.
func (s *segment) readTables(t *task.T) (offsets, times index.Table, err error) {
	prevO := index.Offset{Rel: -1, Position: -1}
	offsets, err = loadTable(t, s.files, &s.offsetsFile, index.OffsetEntrySize, func(b []byte) (err error) {
		prevO, err = index.CheckOffset(b, prevO, s.size.Load())
		return err
	}, func(b []byte) int64 { return offsetKey(index.OffsetAt(b, 0)) })
	if err != nil {
		return offsets, times, err
	}
	prevT := index.Time{Timestamp: record.NoTimestamp}
	times, err = loadTable(t, s.files, &s.timesFile, index.TimeEntrySize, func(b []byte) (err error) {
		prevT, err = index.CheckTime(b, prevT)
		return err
	}, func(b []byte) int64 { return index.TimeAt(b, 0).Timestamp })
	return offsets, times, err
}

// rebuild makes the tables anew by walking the batches' headers: what it returns is a
// segment that only has tables.
func (s *segment) rebuild(t *task.T, intervalBytes int32) (*segment, error) {
	shadow := &segment{base: s.base, maxTs: record.NoTimestamp, rollTs: record.NoTimestamp, lastIndexTs: record.NoTimestamp}
	shadow.mu.Init(t.Runtime(), "storage.segment.rebuild")
	shadow.offsets.Table.Init(index.OffsetEntrySize)
	shadow.times.Table.Init(index.TimeEntrySize)
	shadow.offsets.entry, shadow.offsets.maxSize = s.offsets.entry, s.offsets.maxSize
	shadow.times.entry, shadow.times.maxSize = s.times.entry, s.times.maxSize
	err := s.walk(t, 0, s.size.Load(), replayChunk, func(_ *scanner, b *batch) (bool, error) {
		shadow.note(b, intervalBytes)
		return true, nil
	})
	shadow.noteTime(true)
	return shadow, err
}

// walk calls fn for each batch from the position on, below limit, until it returns false.
func (s *segment) walk(t *task.T, from, limit int64, chunk int, fn func(sc *scanner, b *batch) (bool, error)) error {
	f, err := s.files.acquire(t, &s.log)
	if err != nil {
		return err
	}
	defer s.files.release(t, &s.log)
	sc := scanner{file: f, pos: from, limit: limit, chunk: chunk}
	for {
		b, ok, err := sc.next(t)
		if err != nil || !ok {
			return err
		}
		if more, err := fn(&sc, &b); err != nil || !more {
			return err
		}
	}
}

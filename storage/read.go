package storage

import (
	"errors"
	"fmt"

	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/storage/index"
)

// snapshot is what a read needs of the log at one instant.
type snapshot struct {
	segs       []*segment
	bound      position
	generation int64
	start      int64
}

// Read finds the batches from offset on and pins them in f: at most max bytes, of one
// segment, never past the bound. With minOne the first batch comes whole even if it is
// larger than max. An offset at the bound is an empty answer; one below the log start or
// above the log end (for ToHighWatermark and below: above the high watermark is empty, too)
// is ErrOffsetOutOfRange.
func (l *Log) Read(t *task.T, offset int64, max int32, bound Bound, minOne bool, f *Fetched) error {
	f.Release()
	f.FirstBatchIncomplete = false
	f.Aborted = f.Aborted[:0]
	if err := l.readable(); err != nil {
		return err
	}
	for {
		v, err := l.view(offset, bound, f)
		if err != nil {
			return err
		}
		if offset >= v.bound.offset {
			return nil
		}
		err = l.readView(t, &v, offset, int64(max), bound, minOne, f)
		if err == nil {
			return nil
		}
		f.Release()
		if !l.moved(v.generation) {
			return fmt.Errorf("%s: read at %d: %w", l.Name(), offset, err)
		}
	}
}

// readable is nil unless the log is closed, holds damage, or has bytes in doubt after a failed
// write or sync. The other logs of a directory that went offline still read.
func (l *Log) readable() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.errLocked()
}

// view takes the log's numbers at one instant, and the place of the bound if it is known.
func (l *Log) view(offset int64, bound Bound, f *Fetched) (snapshot, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f.HighWatermark, f.LogStartOffset, f.LogEndOffset, f.SyncedEnd = l.hw.offset, l.start, l.leo.offset, l.synced
	f.LastStableOffset = l.lastStable()
	if offset < l.start || offset > l.leo.offset {
		return snapshot{}, fmt.Errorf("%w: %s has [%d, %d], asked for %d", ErrOffsetOutOfRange, logName(l.topic, l.partition), l.start, l.leo.offset, offset)
	}
	v := snapshot{segs: *l.segs.Load(), generation: l.truncations, start: l.start}
	switch bound {
	case ToLogEnd:
		v.bound = l.leo
	case ToSynced:
		v.bound = l.locate(l.synced)
	case ToLastStable:
		if f.LastStableOffset == l.hw.offset {
			v.bound = l.hw
		} else if l.lso.offset == f.LastStableOffset && l.lso.base >= 0 {
			v.bound = l.lso
		} else {
			v.bound = l.locate(f.LastStableOffset)
			l.lso = v.bound
		}
	default:
		v.bound = l.hw
	}
	return v, nil
}

// moved reports whether a truncation came since.
func (l *Log) moved(generation int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.truncations != generation
}

// readView answers a read below the bound.
func (l *Log) readView(t *task.T, v *snapshot, offset, max int64, bound Bound, minOne bool, f *Fetched) error {
	if err := l.resolve(t, v, bound, f); err != nil {
		return err
	}
	for i := floorSegment(v.segs, offset); i >= 0 && i < len(v.segs); i++ {
		s := v.segs[i]
		limit := v.limit(s)
		if limit <= 0 {
			return nil
		}
		pos, size, ok, err := l.place(t, v, s, offset, limit, f)
		if err != nil {
			return err
		}
		if !ok {
			continue // a gap at the segment's end: the next one has the first batch
		}
		n := min(max, limit-pos)
		if n < size {
			f.FirstBatchIncomplete = !minOne
			if minOne {
				n = size
			}
		}
		if n <= 0 {
			return nil
		}
		if err := l.pin(t, v, s, pos, n, f); err != nil {
			return err
		}
		if bound == ToLastStable {
			return l.collectAborted(t, v, i, offset, pos+n, f)
		}
		return nil
	}
	return nil
}

// limit is the position in s that the bound allows to read to.
func (v *snapshot) limit(s *segment) int64 {
	switch {
	case v.bound.base > s.base:
		return s.size.Load()
	case v.bound.base == s.base:
		return v.bound.pos
	}
	return 0
}

// resolve finds the place of the bound where it is not known, and remembers it.
func (l *Log) resolve(t *task.T, v *snapshot, bound Bound, f *Fetched) error {
	if v.bound.base >= 0 {
		return nil
	}
	p, err := l.locateOnDisk(t, v.segs, v.bound.offset, &f.scratch)
	if err != nil {
		return err
	}
	v.bound = p
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.truncations != v.generation {
		return errMoved
	}
	if l.hw.offset == p.offset {
		l.hw = p
	}
	if bound == ToLastStable && l.lso.offset == p.offset {
		l.lso = p
	}
	return nil
}

// errMoved tells Read to look again.
var errMoved = errors.New("the log was truncated meanwhile")

// locateOnDisk finds where the first batch that reaches offset begins: everything before
// lies below offset, as long as offset is a batch's first one.
func (l *Log) locateOnDisk(t *task.T, segs []*segment, offset int64, buf *[]byte) (position, error) {
	i := floorSegment(segs, offset)
	if i < 0 {
		return position{offset, segs[0].base, 0}, nil
	}
	s := segs[i]
	if err := l.loadSegment(t, s); err != nil {
		return position{}, err
	}
	size := s.size.Load()
	b, ok, err := s.find(t, offset, size, buf)
	if err != nil {
		return position{}, err
	}
	if !ok {
		return position{offset, s.base, size}, nil
	}
	return position{offset, s.base, b.pos}, nil
}

// place finds the first batch in s that reaches offset, and its size.
func (l *Log) place(t *task.T, v *snapshot, s *segment, offset, limit int64, f *Fetched) (pos, size int64, ok bool, err error) {
	l.mu.Lock()
	p, n, found := l.recent.findSized(offset)
	same := l.truncations == v.generation
	l.mu.Unlock()
	if found && same && p.base == s.base && p.pos+n <= limit {
		return p.pos, n, true, nil
	}
	if err := l.loadSegment(t, s); err != nil {
		return 0, 0, false, err
	}
	b, ok, err := s.find(t, offset, limit, &f.scratch)
	return b.pos, b.size, ok, err
}

// loadSegment brings a segment's indexes into memory.
func (l *Log) loadSegment(t *task.T, s *segment) error {
	rebuilt, err := s.load(t, l.Config().IndexIntervalBytes)
	if rebuilt {
		l.observe(Event{Kind: IndexRebuilt, Offset: s.base})
	}
	return err
}

// pin makes the range, unless a truncation came between: it cuts the ranges there are and
// could not cut this one.
func (l *Log) pin(t *task.T, v *snapshot, s *segment, pos, n int64, f *Fetched) error {
	file, err := s.files.acquire(t, &s.log)
	if err != nil {
		return err
	}
	l.mu.Lock()
	same := l.truncations == v.generation
	var r *disk.Range
	if same {
		r = file.Range(pos, n)
	}
	l.mu.Unlock()
	s.files.release(t, &s.log)
	if !same {
		return errMoved
	}
	f.Ranges = append(f.Ranges, r)
	f.Size += n
	return nil
}

// collectAborted lists the aborted transactions that reach into what is read: from offset
// on, up to position end of segment i.
func (l *Log) collectAborted(t *task.T, v *snapshot, i int, offset, end int64, f *Fetched) error {
	upper := v.bound.offset
	if i+1 < len(v.segs) {
		upper = min(upper, v.segs[i+1].base)
	}
	above, err := v.segs[i].above(t, end, upper, &f.scratch)
	if err != nil {
		return err
	}
	upper = min(upper, above)
	for _, s := range v.segs[i:] {
		list, err := s.loadTxns(t)
		if err != nil {
			return err
		}
		done := collectTxns(list, offset, upper, f)
		if done {
			break
		}
	}
	return nil
}

// collectTxns adds those of list that overlap [offset, upper), and reports whether later ones
// cannot.
func collectTxns(list []index.Txn, offset, upper int64, f *Fetched) bool {
	for _, e := range list {
		if e.LastOffset >= offset && e.FirstOffset < upper {
			f.Aborted = append(f.Aborted, AbortedTxn{e.ProducerID, e.FirstOffset})
		}
		if e.LastStableOffset >= upper {
			return true
		}
	}
	return false
}

// ReadInto is Read into memory: it returns the bytes in dst, grown if need be. For replay.
func (l *Log) ReadInto(t *task.T, offset int64, max int32, bound Bound, minOne bool, dst []byte) ([]byte, error) {
	var f Fetched
	for {
		if err := l.Read(t, offset, max, bound, minOne, &f); err != nil {
			return dst[:0], err
		}
		if int64(cap(dst)) < f.Size {
			dst = make([]byte, f.Size)
		}
		dst = dst[:0]
		err := f.copyTo(t, &dst)
		f.Release()
		if err == nil || !errors.Is(err, disk.ErrClosed) {
			return dst, err
		}
	}
}

// copyTo appends the bytes of the ranges.
func (f *Fetched) copyTo(t *task.T, dst *[]byte) error {
	for _, r := range f.Ranges {
		at := len(*dst)
		*dst = (*dst)[:at+int(r.Len)]
		if n, err := r.ReadAt(t, (*dst)[at:], 0); n < int(r.Len) {
			if err == nil {
				err = fmt.Errorf("%w: %d bytes of %d", disk.ErrIO, n, r.Len)
			}
			*dst = (*dst)[:at]
			return err
		}
	}
	return nil
}

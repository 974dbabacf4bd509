package storage

import (
	"seedlog/clock/task"
	"seedlog/storage/index"
)

// floor is the position of the last indexed batch whose last offset is at or below offset,
// or 0: the first batch that reaches offset begins there or behind. buf is for a page.
func (s *segment) floor(t *task.T, offset int64, buf *[]byte) (int64, error) {
	rel := offset - s.base
	if rel < 0 {
		return 0, nil
	}
	want := int32(min(rel, 1<<31-1))
	s.mu.Lock()
	p := s.offsets.FloorPage(func(key int64) bool { return int32(key>>32) <= want })
	if p < 0 {
		s.mu.Unlock()
		return 0, nil
	}
	if page, ok := s.offsets.Page(p); ok {
		e := index.OffsetAt(page, index.FloorOffset(page, want))
		s.mu.Unlock()
		return int64(e.Position), nil
	}
	off, n := s.offsets.Where(p)
	s.mu.Unlock()
	page, err := s.offsets.read(t, s.files, off, n, *buf)
	if err != nil {
		return 0, err
	}
	*buf = page
	i := index.FloorOffset(page, want)
	if i < 0 {
		return 0, nil // a truncation came between; the caller looks again
	}
	return int64(index.OffsetAt(page, i).Position), nil
}

// above is an offset that the batches below position do not pass: the last offset of the
// first indexed batch at or behind position, or none.
func (s *segment) above(t *task.T, position int64, none int64, buf *[]byte) (int64, error) {
	s.mu.Lock()
	p := s.offsets.FloorPage(func(key int64) bool { return key&(1<<32-1) < position })
	if p < 0 {
		p = 0
	}
	var page []byte
	for ; p*s.offsets.PerPage() < s.offsets.Len(); p++ {
		var ok bool
		if page, ok = s.offsets.Page(p); !ok {
			off, n := s.offsets.Where(p)
			s.mu.Unlock()
			b, err := s.offsets.read(t, s.files, off, n, *buf)
			if err != nil {
				return none, err
			}
			*buf, page = b, b
			s.mu.Lock()
		}
		i := index.FloorPosition(page, int32(position-1)) + 1
		if i*index.OffsetEntrySize < len(page) {
			e := index.OffsetAt(page, i)
			s.mu.Unlock()
			return s.base + int64(e.Rel), nil
		}
	}
	s.mu.Unlock()
	return none, nil
}

// floorTime is the offset of the last time entry at or before ts, or the base.
func (s *segment) floorTime(t *task.T, ts int64) (int64, error) {
	s.mu.Lock()
	p := s.times.FloorPage(func(key int64) bool { return key <= ts })
	if p < 0 {
		s.mu.Unlock()
		return s.base, nil
	}
	page, ok := s.times.Page(p)
	if ok {
		e := index.TimeAt(page, index.FloorTime(page, ts))
		s.mu.Unlock()
		return s.base + int64(e.Rel), nil
	}
	off, n := s.times.Where(p)
	s.mu.Unlock()
	page, err := s.times.read(t, s.files, off, n, nil)
	if err != nil {
		return s.base, err
	}
	i := index.FloorTime(page, ts)
	if i < 0 {
		return s.base, nil
	}
	return s.base + int64(index.TimeAt(page, i).Rel), nil
}

// find is the first batch below limit whose last offset reaches offset.
func (s *segment) find(t *task.T, offset, limit int64, buf *[]byte) (batch, bool, error) {
	pos, err := s.floor(t, offset, buf)
	if err != nil {
		return batch{}, false, err
	}
	f, err := s.files.acquire(t, &s.log)
	if err != nil {
		return batch{}, false, err
	}
	defer s.files.release(t, &s.log)
	sc := scanner{file: f, pos: pos, limit: limit, chunk: lookupChunk, buf: (*buf)[:0]}
	for {
		b, ok, err := sc.next(t)
		if err != nil || !ok || b.LastOffset() >= offset {
			*buf = sc.buf
			return b, ok, err
		}
	}
}

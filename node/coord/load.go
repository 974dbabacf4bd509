package coord

import (
	"fmt"

	"seedlog/clock/task"
	"seedlog/storage/record"
)

const (
	loadBytes     = 1 << 20
	inflatedBytes = 64 << 20
)

// load replays the partition up to its end, which replies wait for from then on. A record
// that does not decode is told and passed over: one bad record must not take all groups of
// its partition away.
func (s *shard) load(t *task.T) error {
	start, end := s.log.Bounds()
	began := t.Now()
	l := loader{s: s, inflate: new(record.Decompressor)}
	for next := start; next < end; {
		if s.ending(t) {
			return nil
		}
		b, err := s.log.Read(t, next, loadBytes)
		if err != nil {
			return fmt.Errorf("loading at offset %d: %w", next, err)
		}
		after, err := l.replay(b, next, end)
		if err != nil {
			return fmt.Errorf("loading at offset %d: %w", next, err)
		}
		if after <= next {
			break // compaction took the rest
		}
		next = after
	}
	s.written = end
	s.c.emit(ShardLoaded{Partition: s.partition, Epoch: s.epoch, Start: start, End: end, Records: l.records,
		Malformed: l.malformed, Unserved: s.core.Unserved, TookMs: t.Now().Sub(began).Milliseconds()})
	return nil
}

type loader struct {
	s         *shard
	inflate   *record.Decompressor
	records   int64
	malformed int64
}

// replay applies the batches' records from offset from up to end, and returns the next
// offset to read.
func (l *loader) replay(b []byte, from, end int64) (next int64, err error) {
	next = from
	batches := record.NewBatches(b)
	for batches.Next() {
		h := batches.Header()
		if h.BaseOffset >= end {
			return end, nil
		}
		if err := l.batch(batches.Bytes(), h, from, end); err != nil {
			return next, err
		}
		next = h.NextOffset()
	}
	return next, batches.Err()
}

func (l *loader) batch(b []byte, h *record.Header, from, end int64) error {
	if err := record.CheckCRC(b); err != nil {
		return err
	}
	if h.IsControl() {
		return l.control(b, h)
	}
	producer := int64(-1)
	if h.IsTransactional() {
		producer = h.ProducerID
	}
	it := record.NewRecords(b, l.inflate, inflatedBytes)
	defer it.Close()
	for it.Next() {
		r := it.Record()
		if r.Offset < from || r.Offset >= end {
			continue
		}
		l.records++
		if err := l.s.core.Replay(r.Offset, producer, r.Key, r.Value); err != nil {
			l.malformed++
			l.s.c.emit(RecordSkipped{Partition: l.s.partition, Offset: r.Offset, Err: err})
		}
	}
	return it.Err()
}

// control ends a transaction; other control records are not the coordinator's.
func (l *loader) control(b []byte, h *record.Header) error {
	it := record.NewRecords(b, l.inflate, inflatedBytes)
	defer it.Close()
	for it.Next() {
		r := it.Record()
		switch typ, err := record.ParseControlKey(r.Key); {
		case err != nil:
			return err
		case typ == record.Commit || typ == record.Abort:
			l.s.core.ReplayMarker(h.ProducerID, typ == record.Commit)
		}
	}
	return it.Err()
}

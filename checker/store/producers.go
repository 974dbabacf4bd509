package store

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"seedlog/checker"
	"seedlog/checker/logfile"
)

// Snapshot is a parsed .snapshot: the producers whose state it keeps, at an offset.
//
//	version 2 | crc-32c 4 | count 4 | count × entry
//	entry: producer id 8 | epoch 2 | last sequence 4 | last offset 8 | offset delta 4 |
//	       timestamp 8 | coordinator epoch 4 | current transaction's first offset 8
type Snapshot struct {
	Offset  int64
	Entries []ProducerEntry
}

// ProducerEntry is one producer of a snapshot.
type ProducerEntry struct {
	ID           int64
	Epoch        int16
	LastSequence int32
	LastOffset   int64
	OffsetDelta  int32
	Timestamp    int64
}

const snapshotEntrySize = 46

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func parseSnapshot(offset int64, b []byte) (Snapshot, error) {
	s := Snapshot{Offset: offset}
	be := binary.BigEndian
	if len(b) < 10 {
		return s, fmt.Errorf("%d bytes", len(b))
	}
	if v := be.Uint16(b); v != 1 {
		return s, fmt.Errorf("version %d", v)
	}
	if want, got := be.Uint32(b[2:]), crc32.Checksum(b[6:], castagnoli); want != got {
		return s, fmt.Errorf("CRC %08x, computed %08x", want, got)
	}
	n, rest := int(be.Uint32(b[6:])), b[10:]
	if n*snapshotEntrySize != len(rest) {
		return s, fmt.Errorf("%d entries in %d bytes", n, len(rest))
	}
	for ; len(rest) > 0; rest = rest[snapshotEntrySize:] {
		s.Entries = append(s.Entries, ProducerEntry{
			ID: int64(be.Uint64(rest)), Epoch: int16(be.Uint16(rest[8:])), LastSequence: int32(be.Uint32(rest[10:])),
			LastOffset: int64(be.Uint64(rest[14:])), OffsetDelta: int32(be.Uint32(rest[22:])), Timestamp: int64(be.Uint64(rest[26:])),
		})
	}
	return s, nil
}

// forgot reports whether the leader that took a batch may have known nothing of one before.
func (o *Options) forgot(last, b *logfile.Batch) bool {
	return o.ProducersExpire || last.Last < o.Anew[b.Epoch] ||
		slices.ContainsFunc(o.Forgot, func(off int64) bool { return last.Base < off && off <= b.Base })
}

// checkSequences is I18: per producer and epoch sequences are contiguous, modulo their wrap,
// and none repeats; the epoch of a producer never goes back. Where producer state may have
// expired, or a leader knew of none, any first sequence is accepted again.
func (p *Partition) checkSequences(v *checker.Verdict, o Options) {
	type state struct {
		id    int64
		epoch int16
		next  int32
		last  logfile.Batch
	}
	var states []state
	p.Batches(func(b *logfile.Batch) {
		if b.ProducerID < 0 || b.IsControl() || b.BaseSequence < 0 || b.Last < o.Shared {
			return
		}
		i := slices.IndexFunc(states, func(s state) bool { return s.id == b.ProducerID })
		if i < 0 {
			states = append(states, state{id: b.ProducerID})
			i = len(states) - 1
		} else if s := states[i]; b.ProducerEpoch < s.epoch {
			v.Failf("I10", p.Name, "producer %d: epoch %d at offset %d follows epoch %d", b.ProducerID, b.ProducerEpoch, b.Base, s.epoch)
		} else if b.ProducerEpoch == s.epoch && b.BaseSequence != s.next && !o.forgot(&s.last, b) {
			v.Failf("I18", p.Name, "producer %d epoch %d: sequence %d at offset %d, %d was next (after batch %d-%d)",
				b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.Base, s.next, s.last.Base, s.last.Last)
		} else if b.ProducerEpoch > s.epoch && b.BaseSequence != 0 && !o.forgot(&s.last, b) {
			v.Failf("I18", p.Name, "producer %d: epoch %d begins with sequence %d at offset %d", b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.Base)
		}
		states[i] = state{b.ProducerID, b.ProducerEpoch, logfile.Add(b.LastSequence(), 1), *b}
	})
}

// checkSnapshots is I17: what a snapshot says of a producer is what a replay of the log up to
// its offset says. Batches below the log's first segment cannot be replayed; producers that
// have none above are passed over.
func (p *Partition) checkSnapshots(v *checker.Verdict, o Options) {
	if end := p.LogEndOffset(); o.Closed && end > 0 && !slices.ContainsFunc(p.Snapshots, func(s Snapshot) bool { return s.Offset == end }) {
		v.Failf("I17", p.Name, "the log was closed at its end %d, and has no producer snapshot there", end)
	}
	for _, s := range p.Snapshots {
		where := fmt.Sprintf("%s/%020d.snapshot", p.Name, s.Offset)
		if len(p.Segments) > 0 && s.Offset < p.Segments[0].Base {
			continue
		}
		if s.Offset > p.LogEndOffset() {
			v.Failf("I17", where, "lies above the log's end %d", p.LogEndOffset())
			continue
		}
		var want []logfile.Batch
		p.Batches(func(b *logfile.Batch) {
			if b.Last >= s.Offset || b.ProducerID < 0 || b.IsControl() || b.BaseSequence < 0 {
				return
			}
			if i := slices.IndexFunc(want, func(w logfile.Batch) bool { return w.ProducerID == b.ProducerID }); i >= 0 {
				want[i] = *b
			} else {
				want = append(want, *b)
			}
		})
		for _, w := range want {
			i := slices.IndexFunc(s.Entries, func(e ProducerEntry) bool { return e.ID == w.ProducerID })
			if i < 0 {
				if !o.ProducersExpire {
					v.Failf("I17", where, "lacks producer %d, which wrote %d-%d", w.ProducerID, w.Base, w.Last)
				}
				continue
			}
			e := s.Entries[i]
			if e.Epoch != w.ProducerEpoch || e.LastSequence != w.LastSequence() || e.LastOffset != w.Last || int64(e.OffsetDelta) != w.Last-w.Base {
				v.Failf("I17", where, "producer %d: epoch %d, sequence %d at offset %d; the log has epoch %d, sequence %d at offset %d",
					e.ID, e.Epoch, e.LastSequence, e.LastOffset, w.ProducerEpoch, w.LastSequence(), w.Last)
			}
		}
	}
}

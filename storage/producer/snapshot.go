package producer

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
)

// The snapshot file, big endian; the CRC covers all that follows it:
//
//	int16 version 1 · uint32 CRC-32C · int32 count · entries of 46 bytes:
//	int64 producer id · int16 epoch · int32 last sequence · int64 last offset ·
//	int32 offset delta · int64 timestamp · int32 coordinator epoch · int64 first offset of the
//	open transaction (-1 none)
const (
	snapshotVersion    = 1
	snapshotCRCAt      = 2
	snapshotCountAt    = 6
	snapshotHeaderSize = 10
	snapshotEntrySize  = 46
)

// castagnoli is a constant table.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Snapshot encodes the state as Kafka's .snapshot file, whose name is End in 20 digits. Producers
// ascend by id; of each there is the last batch alone.
func (s *State) Snapshot() []byte { return EncodeSnapshot(s.Entries()) }

// EncodeSnapshot encodes entries, in their order, as a .snapshot file.
func EncodeSnapshot(entries []Entry) []byte {
	be := binary.BigEndian
	b := make([]byte, snapshotHeaderSize, snapshotHeaderSize+len(entries)*snapshotEntrySize)
	be.PutUint16(b, snapshotVersion)
	be.PutUint32(b[snapshotCountAt:], uint32(len(entries)))
	for i := range entries {
		e := &entries[i]
		last, _ := e.LastBatch()
		b = be.AppendUint64(b, uint64(e.ProducerID))
		b = be.AppendUint16(b, uint16(e.Epoch))
		b = be.AppendUint32(b, uint32(last.LastSeq))
		b = be.AppendUint64(b, uint64(last.LastOffset))
		b = be.AppendUint32(b, uint32(last.OffsetDelta))
		b = be.AppendUint64(b, uint64(e.LastTimestamp))
		b = be.AppendUint32(b, uint32(e.CoordinatorEpoch))
		b = be.AppendUint64(b, uint64(e.TxnFirstOffset))
	}
	be.PutUint32(b[snapshotCRCAt:], crc32.Checksum(b[snapshotCountAt:], castagnoli))
	return b
}

// DecodeSnapshot decodes a .snapshot file. Whatever does not add up is ErrSnapshot: the file is
// to be dropped and an older one used, for the state can be rebuilt from the log.
func DecodeSnapshot(b []byte) ([]Entry, error) {
	be := binary.BigEndian
	if len(b) < snapshotHeaderSize {
		return nil, fmt.Errorf("%w: %d bytes", ErrSnapshot, len(b))
	}
	if v := int16(be.Uint16(b)); v != snapshotVersion {
		return nil, fmt.Errorf("%w: version %d", ErrSnapshot, v)
	}
	if stored, sum := be.Uint32(b[snapshotCRCAt:]), crc32.Checksum(b[snapshotCountAt:], castagnoli); stored != sum {
		return nil, fmt.Errorf("%w: CRC %08x stored, %08x computed", ErrSnapshot, stored, sum)
	}
	count := int32(be.Uint32(b[snapshotCountAt:]))
	if count < 0 || int64(count)*snapshotEntrySize != int64(len(b)-snapshotHeaderSize) {
		return nil, fmt.Errorf("%w: %d entries in %d bytes", ErrSnapshot, count, len(b))
	}
	entries := make([]Entry, 0, count)
	seen := make(map[int64]bool, count)
	for at := snapshotHeaderSize; at < len(b); at += snapshotEntrySize {
		e := decodeEntry(b[at : at+snapshotEntrySize])
		if e.ProducerID < 0 || seen[e.ProducerID] {
			return nil, fmt.Errorf("%w: producer id %d, negative or twice", ErrSnapshot, e.ProducerID)
		}
		seen[e.ProducerID] = true
		entries = append(entries, e)
	}
	return entries, nil
}

func decodeEntry(b []byte) Entry {
	be := binary.BigEndian
	e := newEntry(int64(be.Uint64(b)))
	e.Epoch = int16(be.Uint16(b[8:]))
	last := Batch{
		LastSeq: int32(be.Uint32(b[10:])), LastOffset: int64(be.Uint64(b[14:])),
		OffsetDelta: int32(be.Uint32(b[22:])), Timestamp: int64(be.Uint64(b[26:])),
	}
	if last.LastOffset >= 0 && last.OffsetDelta >= 0 {
		e.add(last)
	}
	e.LastTimestamp = last.Timestamp
	e.CoordinatorEpoch = int32(be.Uint32(b[34:]))
	e.TxnFirstOffset = max(int64(be.Uint64(b[38:])), None)
	return e
}

// Load replaces the state by a snapshot taken at offset, without the producers that have expired
// since (producer.id.expiration.ms).
func (s *State) Load(offset int64, entries []Entry, nowMs, expirationMs int64) {
	s.Reset(offset)
	for i := range entries {
		if entries[i].expired(nowMs, expirationMs) {
			continue
		}
		e := entries[i]
		s.entries[e.ProducerID] = &e
		if e.TxnFirstOffset != None {
			s.ongoing = insertTxn(s.ongoing, Txn{ProducerID: e.ProducerID, FirstOffset: e.TxnFirstOffset, LastOffset: None})
		}
	}
}

// Reset empties the state, which covers the log below offset from then on.
func (s *State) Reset(offset int64) { *s = *NewState(offset) }

// ReloadPlan says what to do with the snapshots, given by their offsets, when the log is cut to
// [logStart, logEnd): which are out of range and to be removed, and which to try to load, the
// best first. If reload is false the state reaches just logEnd and stays as it is; else, when no
// snapshot can be loaded, it begins empty at logStart. What follows it up to logEnd is replayed.
func ReloadPlan(snapshots []int64, logStart, logEnd, stateEnd int64) (remove, load []int64, reload bool) {
	for _, o := range slices.Sorted(slices.Values(snapshots)) {
		if o > logEnd || o <= logStart {
			remove = append(remove, o)
		} else {
			load = append(load, o)
		}
	}
	if stateEnd == logEnd {
		return remove, nil, false
	}
	slices.Reverse(load)
	return remove, load, true
}

// StraySnapshots returns the snapshots that belong to no segment, given by their base offsets:
// none is kept but the highest one if it lies above all segments, for a clean stop wrote it.
func StraySnapshots(snapshots, segments []int64) []int64 {
	var stray []int64
	for _, o := range slices.Sorted(slices.Values(snapshots)) {
		if !slices.Contains(segments, o) {
			stray = append(stray, o)
		}
	}
	if n := len(stray); n > 0 && (len(segments) == 0 || stray[n-1] > slices.Max(segments)) {
		stray = stray[:n-1]
	}
	return stray
}

// Package index owns the layouts of a segment's derived index files and the searches in
// them. It does no I/O: storage reads and writes the bytes.
//
//	.index      8 bytes an entry: relative offset int32 | position int32
//	            (last offset of a batch, where that batch begins)
//	.timeindex 12 bytes an entry: timestamp int64 | relative offset int32
//	            (the largest timestamp so far, the last offset of its batch)
//	.txnindex  34 bytes an entry: version int16 = 0 | producer id | first offset |
//	            last offset | last stable offset, int64 each
//
// All numbers are big-endian, as Kafka's. Relative offsets count from the segment's base.
// An index is sparse: a lookup answers with a floor, from where the log is scanned.
package index

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrDamaged says that an index file is not what an index can be: it is to be rebuilt.
var ErrDamaged = errors.New("index is damaged")

// Entry sizes in bytes.
const (
	OffsetEntrySize = 8
	TimeEntrySize   = 12
	TxnEntrySize    = 34
)

// PageSize is the unit an index is searched by on disk: its first keys are kept in memory.
const PageSize = 4096

// MaxEntries is how many entries an index of maxBytes holds: Kafka rounds down.
func MaxEntries(maxBytes int32, entrySize int) int { return int(maxBytes) / entrySize }

// Offset is an entry of an offset index.
type Offset struct {
	Rel      int32 // last offset of the batch, relative to the segment's base
	Position int32 // where the batch begins in the segment
}

// AppendOffset appends e's bytes to b.
func AppendOffset(b []byte, e Offset) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(e.Rel))
	return binary.BigEndian.AppendUint32(b, uint32(e.Position))
}

// OffsetAt decodes entry i of b.
func OffsetAt(b []byte, i int) Offset {
	e := b[i*OffsetEntrySize:]
	return Offset{int32(binary.BigEndian.Uint32(e)), int32(binary.BigEndian.Uint32(e[4:]))}
}

// FloorOffset is the last entry of b with Rel ≤ rel, or -1.
func FloorOffset(b []byte, rel int32) int {
	return floor(len(b)/OffsetEntrySize, func(i int) bool { return OffsetAt(b, i).Rel <= rel })
}

// FloorPosition is the last entry of b with Position ≤ pos, or -1.
func FloorPosition(b []byte, pos int32) int {
	return floor(len(b)/OffsetEntrySize, func(i int) bool { return OffsetAt(b, i).Position <= pos })
}

// CheckOffset verifies that b can be the index of a segment of logSize bytes, beginning
// after prev (the entry before b, or {-1, -1}), and returns its last entry.
func CheckOffset(b []byte, prev Offset, logSize int64) (Offset, error) {
	if len(b)%OffsetEntrySize != 0 {
		return prev, fmt.Errorf("%w: %d bytes are not a number of %d-byte entries", ErrDamaged, len(b), OffsetEntrySize)
	}
	for i := range len(b) / OffsetEntrySize {
		e := OffsetAt(b, i)
		if e.Rel <= prev.Rel || e.Position <= prev.Position || int64(e.Position) >= logSize {
			return prev, fmt.Errorf("%w: entry %d→%d after %d→%d in a log of %d bytes",
				ErrDamaged, e.Rel, e.Position, prev.Rel, prev.Position, logSize)
		}
		prev = e
	}
	return prev, nil
}

// Time is an entry of a time index.
type Time struct {
	Timestamp int64
	Rel       int32 // last offset of the batch that holds it, relative to the segment's base
}

// AppendTime appends e's bytes to b.
func AppendTime(b []byte, e Time) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(e.Timestamp))
	return binary.BigEndian.AppendUint32(b, uint32(e.Rel))
}

// TimeAt decodes entry i of b.
func TimeAt(b []byte, i int) Time {
	e := b[i*TimeEntrySize:]
	return Time{int64(binary.BigEndian.Uint64(e)), int32(binary.BigEndian.Uint32(e[8:]))}
}

// FloorTime is the last entry of b with Timestamp ≤ ts, or -1: every batch before the one
// that ends at its offset is older than ts.
func FloorTime(b []byte, ts int64) int {
	return floor(len(b)/TimeEntrySize, func(i int) bool { return TimeAt(b, i).Timestamp <= ts })
}

// CheckTime verifies that b can follow prev in a time index, and returns its last entry.
func CheckTime(b []byte, prev Time) (Time, error) {
	if len(b)%TimeEntrySize != 0 {
		return prev, fmt.Errorf("%w: %d bytes are not a number of %d-byte entries", ErrDamaged, len(b), TimeEntrySize)
	}
	for i := range len(b) / TimeEntrySize {
		e := TimeAt(b, i)
		if e.Timestamp <= prev.Timestamp || e.Rel < prev.Rel || e.Rel < 0 {
			return prev, fmt.Errorf("%w: entry %d→%d after %d→%d", ErrDamaged, e.Timestamp, e.Rel, prev.Timestamp, prev.Rel)
		}
		prev = e
	}
	return prev, nil
}

// floor is the last i in [0, n) with ok(i), where ok is true and then false; or -1.
func floor(n int, ok func(i int) bool) int {
	lo, hi := 0, n
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if ok(mid) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo - 1
}

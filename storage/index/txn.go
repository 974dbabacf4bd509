package index

import (
	"encoding/binary"
	"fmt"
)

// Txn is an aborted transaction of one producer in one partition.
type Txn struct {
	ProducerID       int64
	FirstOffset      int64 // of its first record
	LastOffset       int64 // of its abort marker
	LastStableOffset int64 // of the partition once the marker was written
}

// AppendTxn appends e's bytes to b.
func AppendTxn(b []byte, e Txn) []byte {
	b = binary.BigEndian.AppendUint16(b, 0)
	for _, v := range [...]int64{e.ProducerID, e.FirstOffset, e.LastOffset, e.LastStableOffset} {
		b = binary.BigEndian.AppendUint64(b, uint64(v))
	}
	return b
}

// ParseTxn decodes a transaction index of a segment that begins at base.
func ParseTxn(b []byte, base int64) ([]Txn, error) {
	if len(b)%TxnEntrySize != 0 {
		return nil, fmt.Errorf("%w: %d bytes are not a number of %d-byte entries", ErrDamaged, len(b), TxnEntrySize)
	}
	list := make([]Txn, 0, len(b)/TxnEntrySize)
	last := base - 1
	for ; len(b) > 0; b = b[TxnEntrySize:] {
		if v := binary.BigEndian.Uint16(b); v != 0 {
			return nil, fmt.Errorf("%w: transaction index version %d", ErrDamaged, v)
		}
		at := func(i int) int64 { return int64(binary.BigEndian.Uint64(b[2+8*i:])) }
		e := Txn{at(0), at(1), at(2), at(3)}
		if e.LastOffset <= last || e.FirstOffset > e.LastOffset || e.FirstOffset < 0 {
			return nil, fmt.Errorf("%w: aborted transaction [%d, %d] after offset %d", ErrDamaged, e.FirstOffset, e.LastOffset, last)
		}
		last = e.LastOffset
		list = append(list, e)
	}
	return list, nil
}

// Package logfile is the checkers' own reader of .log bytes, written apart from the
// broker's on purpose. It reads record batches of magic 2:
//
//	 0 base offset 8 | length 4 | leader epoch 4 | magic 1 | crc 4
//	21 attributes 2 | last offset delta 4 | base timestamp 8 | max timestamp 8
//	43 producer id 8 | producer epoch 2 | base sequence 4 | count 4 | records
//
// The CRC-32C covers everything from the attributes on. It never repairs anything and
// panics on nothing: what it cannot read ends the scan with a reason.
package logfile

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Batch is one batch at its position in a file.
type Batch struct {
	Pos           int64
	Base, Last    int64
	Epoch         int32
	Attributes    int16
	BaseTs, MaxTs int64
	ProducerID    int64
	ProducerEpoch int16
	BaseSequence  int32
	Count         int32
	Raw           []byte
}

// Size is the batch's size in bytes.
func (b *Batch) Size() int64 { return int64(len(b.Raw)) }

// IsControl reports a control batch.
func (b *Batch) IsControl() bool { return b.Attributes&0x20 != 0 }

// LogAppendTime reports that the batch was stamped by the broker.
func (b *Batch) LogAppendTime() bool { return b.Attributes&0x08 != 0 }

// LastSequence is the sequence of the last record; sequences wrap from 2³¹-1 to 0.
func (b *Batch) LastSequence() int32 { return Add(b.BaseSequence, b.Count-1) }

// Add moves a sequence on by n, wrapping.
func Add(seq, n int32) int32 {
	return int32((int64(seq) + int64(n)) & 0x7fffffff)
}

const headerSize = 61

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Scan reads batches from the beginning of a file until its end or the first bytes that are
// no sound batch; why is then not empty and end is where they are.
func Scan(b []byte) (batches []Batch, end int64, why string) {
	pos := 0
	for pos < len(b) {
		batch, why := one(b[pos:])
		if why != "" {
			return batches, int64(pos), why
		}
		batch.Pos = int64(pos)
		batches = append(batches, batch)
		pos += len(batch.Raw)
	}
	return batches, int64(pos), ""
}

func one(b []byte) (Batch, string) {
	if len(b) < headerSize {
		return Batch{}, fmt.Sprintf("%d bytes are left, a header needs %d", len(b), headerSize)
	}
	be := binary.BigEndian
	length := int64(int32(be.Uint32(b[8:])))
	if length < headerSize-12 || length+12 > int64(len(b)) {
		return Batch{}, fmt.Sprintf("a batch of length %d in %d bytes", length, len(b))
	}
	if b[16] != 2 {
		return Batch{}, fmt.Sprintf("magic %d", int8(b[16]))
	}
	raw := b[:12+length]
	if want, got := be.Uint32(b[17:]), crc32.Checksum(raw[21:], castagnoli); want != got {
		return Batch{}, fmt.Sprintf("CRC %08x, computed %08x", want, got)
	}
	delta := int32(be.Uint32(b[23:]))
	batch := Batch{
		Base: int64(be.Uint64(b)), Epoch: int32(be.Uint32(b[12:])), Attributes: int16(be.Uint16(b[21:])),
		BaseTs: int64(be.Uint64(b[27:])), MaxTs: int64(be.Uint64(b[35:])),
		ProducerID: int64(be.Uint64(b[43:])), ProducerEpoch: int16(be.Uint16(b[51:])),
		BaseSequence: int32(be.Uint32(b[53:])), Count: int32(be.Uint32(b[57:])), Raw: raw,
	}
	batch.Last = batch.Base + int64(delta)
	if delta < 0 || batch.Base < 0 {
		return Batch{}, fmt.Sprintf("base offset %d and last offset delta %d", batch.Base, delta)
	}
	return batch, ""
}

// Record is one decoded record. Key and Value are nil for null.
type Record struct {
	Offset, Timestamp int64
	Key, Value        []byte
	Headers           []Header
}

// Header is one record header.
type Header struct {
	Key   string
	Value []byte
}

// maxInflated bounds what a batch may inflate to; simulated workloads stay far below.
const maxInflated = 64 << 20

var errRecord = errors.New("malformed record")

// Records decodes the batch's records.
func (b *Batch) Records() ([]Record, error) {
	body, err := inflate(b.Attributes&7, b.Raw[headerSize:])
	if err != nil {
		return nil, err
	}
	var out []Record
	for i := int32(0); i < b.Count; i++ {
		r, rest, err := record(body)
		if err != nil {
			return out, fmt.Errorf("record %d of %d: %w", i, b.Count, err)
		}
		r.Offset += b.Base
		r.Timestamp += b.BaseTs
		if b.LogAppendTime() {
			r.Timestamp = b.MaxTs
		}
		out, body = append(out, r), rest
	}
	if len(body) > 0 {
		return out, fmt.Errorf("%d bytes after the last of %d records", len(body), b.Count)
	}
	return out, nil
}

func inflate(codec int16, b []byte) ([]byte, error) {
	switch codec {
	case 0:
		return b, nil
	case 1:
		r, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		return drain(r)
	case 2:
		return unsnappy(b)
	case 3:
		return drain(lz4.NewReader(bytes.NewReader(b)))
	case 4:
		d, err := zstd.NewReader(bytes.NewReader(b), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxInflated))
		if err != nil {
			return nil, err
		}
		defer d.Close()
		return drain(d)
	}
	return nil, fmt.Errorf("codec %d", codec)
}

func drain(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxInflated+1))
	if err == nil && len(b) > maxInflated {
		err = fmt.Errorf("inflates to more than %d bytes", maxInflated)
	}
	return b, err
}

// unsnappy reads raw snappy, or the framing of the Java client: a 16-byte header, then
// blocks with a 4-byte length each.
func unsnappy(b []byte) ([]byte, error) {
	if !bytes.HasPrefix(b, []byte("\x82SNAPPY\x00")) {
		return snappy.Decode(nil, b)
	}
	if len(b) < 16 {
		return nil, errRecord
	}
	var out []byte
	for b = b[16:]; len(b) > 0; {
		if len(b) < 4 {
			return nil, errRecord
		}
		n := int(binary.BigEndian.Uint32(b))
		if n > len(b)-4 {
			return nil, errRecord
		}
		block, err := snappy.Decode(nil, b[4:4+n])
		if err != nil {
			return nil, err
		}
		if out = append(out, block...); len(out) > maxInflated {
			return nil, fmt.Errorf("inflates to more than %d bytes", maxInflated)
		}
		b = b[4+n:]
	}
	return out, nil
}

func record(b []byte) (r Record, rest []byte, err error) {
	size, b, err := varint(b)
	if err != nil || size < 0 || size > int64(len(b)) {
		return r, nil, errRecord
	}
	body, rest := b[:size], b[size:]
	if len(body) < 1 {
		return r, nil, errRecord
	}
	body = body[1:] // attributes, unused
	if r.Timestamp, body, err = varint(body); err != nil {
		return r, nil, err
	}
	if r.Offset, body, err = varint(body); err != nil {
		return r, nil, err
	}
	if r.Key, body, err = field(body); err != nil {
		return r, nil, err
	}
	if r.Value, body, err = field(body); err != nil {
		return r, nil, err
	}
	n, body, err := varint(body)
	if err != nil || n < 0 || n > int64(len(body)) {
		return r, nil, errRecord
	}
	for ; n > 0; n-- {
		var k, v []byte
		if k, body, err = field(body); err != nil || k == nil {
			return r, nil, errRecord
		}
		if v, body, err = field(body); err != nil {
			return r, nil, err
		}
		r.Headers = append(r.Headers, Header{string(k), v})
	}
	if len(body) > 0 {
		return r, nil, errRecord
	}
	return r, rest, nil
}

func varint(b []byte) (int64, []byte, error) {
	v, n := binary.Varint(b)
	if n <= 0 {
		return 0, nil, errRecord
	}
	return v, b[n:], nil
}

func field(b []byte) (value, rest []byte, err error) {
	n, b, err := varint(b)
	if err != nil || n > int64(len(b)) {
		return nil, nil, errRecord
	}
	if n < 0 {
		return nil, b, nil
	}
	return b[:n:n], b[n:], nil
}

// Partial reports that b is the beginning of a batch whose rest was cut off, as the end of a
// fetch response may be.
func Partial(b []byte) bool {
	if len(b) < 12 {
		return true
	}
	length := int64(int32(binary.BigEndian.Uint32(b[8:])))
	return length >= headerSize-12 && length+12 > int64(len(b))
}

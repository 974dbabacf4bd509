package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
)

// Messages of magic 0 and 1, as Kafka wrote them before 0.11. Read only.
//
//	offset  size  field
//	     0     8  offset
//	     8     4  length of what follows
//	    12     4  CRC-32 (IEEE) of [16, end)
//	    16     1  magic
//	    17     1  attributes: codec 0-2, timestamp type 3 (magic 1)
//	    18     8  timestamp, only magic 1
//	     …     4  key length, -1 null; key; value length, -1 null; value
//
// With a codec the value is a message set of its own, compressed. Its messages carry, in magic 1,
// offsets relative to the first, and the wrapper the offset of the last; in magic 0 all offsets
// are absolute. With LogAppendTime the wrapper's timestamp holds for all.

const (
	legacyOverheadV0 = 4 + 1 + 1 + 4 + 4
	legacyOverheadV1 = legacyOverheadV0 + 8
	legacyKeyAtV0    = 18
	legacyKeyAtV1    = 26
)

// Message is one message of magic 0 or 1; with a codec it wraps others.
type Message struct {
	Offset    int64 // of the last message within, if it is a wrapper
	Size      int   // in bytes, offset and length included
	CRC       uint32
	Magic     int8
	Codec     Codec
	Type      TimestampType
	Timestamp int64 // ms, -1 in magic 0
	Key       []byte
	Value     []byte
	valid     bool
}

// Valid reports whether the CRC matches.
func (m *Message) Valid() bool { return m.valid }

// ParseMessage decodes the message of magic 0 or 1 at the start of b; key and value share its
// memory. ErrShort if b holds only a part, ErrMagic for a batch of magic 2, ErrCorrupt if the
// lengths cannot be. A wrong CRC is no error here, see Valid: the lengths say nothing about it.
func ParseMessage(b []byte) (Message, error) {
	offset, size, magic, err := Peek(b)
	if err != nil {
		return Message{}, err
	}
	if magic < 0 || magic > 1 {
		return Message{}, fmt.Errorf("%w nor older: %d at offset %d", ErrMagic, magic, offset)
	}
	if size > len(b) {
		return Message{}, fmt.Errorf("%w: %d bytes of the message of %d at offset %d", ErrShort, len(b), size, offset)
	}
	b = b[:size:size]
	m := Message{
		Offset: offset, Size: size, Magic: magic, CRC: binary.BigEndian.Uint32(b[12:]),
		Codec: Codec(b[17] & byte(codecMask)), Type: NoTimestampType, Timestamp: NoTimestamp,
		valid: crc32.ChecksumIEEE(b[16:]) == binary.BigEndian.Uint32(b[12:]),
	}
	at := legacyKeyAtV0
	if magic == 1 {
		at = legacyKeyAtV1
		if size < LogOverhead+legacyOverheadV1 {
			return m, fmt.Errorf("%w: message of %d bytes at offset %d (magic 1)", ErrCorrupt, size, offset)
		}
		m.Type = Attributes(b[17]).TimestampType()
		m.Timestamp = int64(binary.BigEndian.Uint64(b[18:]))
	}
	var ok bool
	if m.Key, at, ok = takeLegacy(b, at); ok {
		m.Value, at, ok = takeLegacy(b, at)
	}
	if !ok || at != size {
		return m, fmt.Errorf("%w: key and value do not fit the message of %d bytes at offset %d", ErrCorrupt, size, offset)
	}
	return m, nil
}

func takeLegacy(b []byte, at int) (v []byte, next int, ok bool) {
	if len(b)-at < 4 {
		return nil, at, false
	}
	n := int(int32(binary.BigEndian.Uint32(b[at:])))
	at += 4
	if n < 0 {
		return nil, at, n == -1
	}
	if n > len(b)-at {
		return nil, at, false
	}
	return b[at : at+n : at+n], at + n, true
}

// Messages iterates over the messages of magic 0 and 1 in a byte slice, wrappers as they are.
type Messages struct {
	rest []byte
	msg  Message
	pos  int
	next int
	err  error
}

// NewMessages iterates over b. A message that b holds only in part ends the iteration without
// error.
func NewMessages(b []byte) Messages { return Messages{rest: b} }

// Next advances to the next whole message.
func (it *Messages) Next() bool {
	if it.err != nil {
		return false
	}
	m, err := ParseMessage(it.rest)
	if errors.Is(err, ErrShort) {
		return false
	}
	if err != nil {
		it.err = fmt.Errorf("at byte %d: %w", it.next, err)
		return false
	}
	it.msg, it.rest = m, it.rest[m.Size:]
	it.pos, it.next = it.next, it.next+m.Size
	return true
}

// Message is the current message.
func (it *Messages) Message() *Message { return &it.msg }

// Position is where in the slice the current message begins.
func (it *Messages) Position() int { return it.pos }

// Err is what ended the iteration early: ErrMagic or ErrCorrupt.
func (it *Messages) Err() error { return it.err }

// Records returns the records of the message: itself, or those it wraps with absolute offsets and
// their timestamps. What the wrapper inflates to is held in memory, bounded by inflatedMaxBytes
// if that is not 0. d may be nil.
func (m *Message) Records(d *Decompressor, inflatedMaxBytes int64) ([]Record, error) {
	if m.Codec == None {
		return []Record{{Offset: m.Offset, Timestamp: m.Timestamp, Key: m.Key, Value: m.Value}}, nil
	}
	if m.Codec == Zstd || !m.Codec.Valid() {
		return nil, fmt.Errorf("%w: %v in a message of magic %d at offset %d", ErrCodec, m.Codec, m.Magic, m.Offset)
	}
	if m.Value == nil {
		return nil, fmt.Errorf("%w: compressed message without value at offset %d", ErrInvalid, m.Offset)
	}
	if d == nil {
		d = new(Decompressor)
	}
	if err := d.open(m.Codec, m.Magic, m.Value, inflatedMaxBytes); err != nil {
		return nil, fmt.Errorf("message at offset %d: %w", m.Offset, err)
	}
	defer d.close()
	records, err := m.unwrap(d)
	if err != nil {
		return nil, fmt.Errorf("message at offset %d: %w", m.Offset, err)
	}
	return records, m.rebase(records)
}

// unwrap reads the inner messages one by one.
func (m *Message) unwrap(d *Decompressor) ([]Record, error) {
	var records []Record
	for {
		b, err := d.message()
		if err == io.EOF {
			if len(records) == 0 {
				return nil, fmt.Errorf("%w: wraps no messages", ErrInvalid)
			}
			return records, nil
		}
		if err != nil {
			return nil, err
		}
		in, err := ParseMessage(b)
		if err != nil {
			return nil, fmt.Errorf("%w: inner message %d: %w", ErrInvalid, len(records), err)
		}
		if in.Codec != None {
			return nil, fmt.Errorf("%w: inner message %d is compressed", ErrInvalid, len(records))
		}
		if !in.valid {
			return nil, fmt.Errorf("%w: CRC of inner message %d", ErrCorrupt, len(records))
		}
		r := Record{Offset: in.Offset, Timestamp: in.Timestamp, Key: in.Key, Value: in.Value}
		if m.Type == LogAppendTime && in.Magic == 1 {
			r.Timestamp = m.Timestamp
		}
		records = append(records, r)
	}
}

// message reads one inner message into memory of its own. io.EOF at the end.
func (d *Decompressor) message() ([]byte, error) {
	var head [LogOverhead]byte
	for i := range head {
		c, err := d.readByte()
		if err == io.EOF && i > 0 {
			err = d.failed(err)
		}
		if err != nil {
			return nil, err
		}
		head[i] = c
	}
	length := int32(binary.BigEndian.Uint32(head[lengthAt:]))
	if length < legacyOverheadV0 || length > math.MaxInt32-LogOverhead {
		return nil, fmt.Errorf("%w: inner message of length %d", ErrInvalid, length)
	}
	return d.gather(append(make([]byte, 0, LogOverhead), head[:]...), int(length))
}

// rebase makes the inner offsets of magic 1 absolute. A wrapper at offset 0 came from a producer
// that wrote none, and its messages are at their own offsets.
func (m *Message) rebase(records []Record) error {
	if m.Magic != 1 || m.Offset == 0 {
		return nil
	}
	last := records[len(records)-1].Offset
	if last > m.Offset || last < 0 {
		return fmt.Errorf("%w: wrapper at offset %d around a last inner offset %d", ErrInvalid, m.Offset, last)
	}
	for i := range records {
		records[i].Offset += m.Offset - last
	}
	return nil
}

package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/storage/record"
)

// errBadBatch says that the bytes at a position are no whole batch with a right CRC.
var errBadBatch = errors.New("no valid batch")

// castagnoli is a constant table.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// batch is one batch, or one legacy message (set), found in a segment.
type batch struct {
	record.Header       // of magic 2; of older ones the fields that they have
	pos           int64 // in the segment
	size          int64
}

func (b *batch) end() int64 { return b.pos + b.size }

// scanner walks the batches of a file upwards. It reads headers, and more only when asked.
type scanner struct {
	file  disk.File
	pos   int64 // of the next batch
	limit int64 // where the valid part of the file ends
	chunk int   // bytes read at a time
	buf   []byte
	at    int64 // file position of buf[0]
}

// Chunks: a look-up reads about the distance of two index entries, a replay more.
const (
	lookupChunk = 4096 + 1024
	replayChunk = 64 << 10
)

// next finds the batch at s.pos and moves behind it. ok is false at the end of the file. An
// error that is errBadBatch tells of the bytes, every other of the disk.
func (s *scanner) next(t *task.T) (b batch, ok bool, err error) {
	left := s.limit - s.pos
	if left <= 0 {
		return b, false, nil
	}
	head, err := s.peek(t, s.pos, int(min(left, record.HeaderSize)))
	if err != nil {
		return b, false, err
	}
	if b, err = parseBatch(head); err != nil {
		return b, false, fmt.Errorf("%w at position %d: %w", errBadBatch, s.pos, err)
	}
	if b.size > left {
		return b, false, fmt.Errorf("%w at position %d: %d bytes announced, %d left", errBadBatch, s.pos, b.size, left)
	}
	b.pos = s.pos
	s.pos += b.size
	return b, true, nil
}

// parseBatch reads the header of a batch of any magic.
func parseBatch(head []byte) (batch, error) {
	offset, size, magic, err := record.Peek(head)
	if err != nil {
		return batch{}, err
	}
	if magic == record.MagicV2 {
		h, err := record.ParseHeader(head)
		if err == nil && (h.LastOffsetDelta < 0 || h.BaseOffset < 0) {
			err = fmt.Errorf("offsets %d+%d", h.BaseOffset, h.LastOffsetDelta)
		}
		return batch{Header: h, size: int64(size)}, err
	}
	if magic < 0 || magic > 1 || offset < 0 {
		return batch{}, fmt.Errorf("magic %d, offset %d", magic, offset)
	}
	b := batch{size: int64(size)}
	b.Header = record.Header{
		BaseOffset: offset, Length: int32(size - record.LogOverhead), LeaderEpoch: record.NoLeaderEpoch,
		Magic: magic, MaxTimestamp: record.NoTimestamp, ProducerID: record.NoProducerID,
		ProducerEpoch: record.NoProducerEpoch, BaseSequence: record.NoSequence, Count: 1,
	}
	if magic == 1 && len(head) >= legacyTimestampAt+8 {
		b.MaxTimestamp = int64(binary.BigEndian.Uint64(head[legacyTimestampAt:]))
	}
	return b, nil
}

// Where a legacy message has its CRC, what the CRC begins to cover, and its timestamp.
const (
	legacyCRCAt       = 12
	legacyCheckedAt   = 16
	legacyTimestampAt = 18
	checkedAt         = 21 // of magic 2
)

// check compares the CRC of b, reading all of it, in pieces if it is large.
func (s *scanner) check(t *task.T, b *batch) error {
	at, sum := int64(checkedAt), b.CRC
	table := castagnoli
	if b.Magic < record.MagicV2 {
		head, err := s.peek(t, b.pos, legacyCheckedAt)
		if err != nil {
			return err
		}
		at, sum, table = legacyCheckedAt, binary.BigEndian.Uint32(head[legacyCRCAt:]), crc32.IEEETable
	}
	var crc uint32
	for at < b.size {
		piece, err := s.peek(t, b.pos+at, int(min(b.size-at, int64(s.chunk))))
		if err != nil {
			return err
		}
		crc = crc32.Update(crc, table, piece)
		at += int64(len(piece))
	}
	if crc != sum {
		return fmt.Errorf("%w at position %d: CRC %08x stored, %08x computed, offset %d",
			errBadBatch, b.pos, sum, crc, b.BaseOffset)
	}
	return nil
}

// bytes reads all of b. The slice is valid until the next call.
func (s *scanner) bytes(t *task.T, b *batch) ([]byte, error) { return s.peek(t, b.pos, int(b.size)) }

// peek returns n bytes at the position, from the buffer if they are there.
func (s *scanner) peek(t *task.T, pos int64, n int) ([]byte, error) {
	if pos >= s.at && pos+int64(n) <= s.at+int64(len(s.buf)) {
		return s.buf[pos-s.at:][:n], nil
	}
	want := int(min(max(int64(n), int64(s.chunk)), s.limit-pos))
	if cap(s.buf) < want {
		s.buf = make([]byte, want)
	}
	s.buf, s.at = s.buf[:want], pos
	got, err := s.file.ReadAt(t, s.buf, pos)
	s.buf = s.buf[:got]
	if got >= n {
		return s.buf[:n], nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w at position %d: the file ends", errBadBatch, pos)
	}
	return nil, err
}

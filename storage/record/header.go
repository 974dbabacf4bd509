package record

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
)

// Sizes and places of a batch header, in bytes.
const (
	// HeaderSize is the size of a magic-2 batch without records.
	HeaderSize = 61
	// LogOverhead is what the length field does not count: base offset and the field itself.
	LogOverhead = 12
	// PeekSize is how many bytes [Peek] needs to tell size and magic of any version.
	PeekSize = 17
	// MagicV2 is the magic of everything that is written today.
	MagicV2 = 2

	lengthAt          = 8
	leaderEpochAt     = 12
	magicAt           = 16
	crcAt             = 17
	attributesAt      = 21
	lastOffsetDeltaAt = 23
	baseTimestampAt   = 27
	maxTimestampAt    = 35
	producerIDAt      = 43
	producerEpochAt   = 51
	baseSequenceAt    = 53
	countAt           = 57
)

// Values that mean "none" in a batch.
const (
	NoTimestamp     int64 = -1
	NoProducerID    int64 = -1
	NoProducerEpoch int16 = -1
	NoSequence      int32 = -1
	NoLeaderEpoch   int32 = -1
)

// castagnoli is the polynomial of every batch of magic 2; a constant table.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Header is the decoded header of one batch of magic 2. Offsets are in records, timestamps in
// milliseconds since 1970, Length in bytes.
type Header struct {
	BaseOffset      int64
	Length          int32
	LeaderEpoch     int32
	Magic           int8
	CRC             uint32
	Attributes      Attributes
	LastOffsetDelta int32
	BaseTimestamp   int64
	MaxTimestamp    int64
	ProducerID      int64
	ProducerEpoch   int16
	BaseSequence    int32
	Count           int32
}

// Peek reads offset, size in bytes and magic of the batch or message at the start of b, whatever
// its version: the three lie at the same place in all of them. It needs [PeekSize] bytes, else
// ErrShort; a size that no version can have is ErrCorrupt. The size may exceed len(b).
func Peek(b []byte) (offset int64, size int, magic int8, err error) {
	if len(b) < PeekSize {
		return 0, 0, 0, fmt.Errorf("%w: %d bytes where a batch header begins", ErrShort, len(b))
	}
	offset = int64(binary.BigEndian.Uint64(b))
	length := int32(binary.BigEndian.Uint32(b[lengthAt:]))
	magic = int8(b[magicAt])
	least := int32(legacyOverheadV0)
	if magic >= MagicV2 {
		least = HeaderSize - LogOverhead
	}
	if length < least || length > math.MaxInt32-LogOverhead {
		return offset, 0, magic, fmt.Errorf("%w: length %d of the batch at offset %d (magic %d)",
			ErrCorrupt, length, offset, magic)
	}
	return offset, int(length) + LogOverhead, magic, nil
}

// ParseHeader decodes the header at the start of b. It checks that the 61 bytes are there
// (ErrShort), that the magic is 2 (ErrMagic) and that the length can be (ErrCorrupt). It does not
// require the records to be in b, and does not look at the CRC.
func ParseHeader(b []byte) (Header, error) {
	if len(b) >= PeekSize && b[magicAt] != MagicV2 {
		return Header{}, fmt.Errorf("%w: %d", ErrMagic, int8(b[magicAt]))
	}
	if len(b) < HeaderSize {
		return Header{}, fmt.Errorf("%w: %d bytes of a batch header of %d", ErrShort, len(b), HeaderSize)
	}
	if _, _, _, err := Peek(b); err != nil {
		return Header{}, err
	}
	return decodeHeader(b), nil
}

func decodeHeader(b []byte) Header {
	be := binary.BigEndian
	b = b[:HeaderSize]
	return Header{
		BaseOffset:      int64(be.Uint64(b)),
		Length:          int32(be.Uint32(b[lengthAt:])),
		LeaderEpoch:     int32(be.Uint32(b[leaderEpochAt:])),
		Magic:           int8(b[magicAt]),
		CRC:             be.Uint32(b[crcAt:]),
		Attributes:      Attributes(be.Uint16(b[attributesAt:])),
		LastOffsetDelta: int32(be.Uint32(b[lastOffsetDeltaAt:])),
		BaseTimestamp:   int64(be.Uint64(b[baseTimestampAt:])),
		MaxTimestamp:    int64(be.Uint64(b[maxTimestampAt:])),
		ProducerID:      int64(be.Uint64(b[producerIDAt:])),
		ProducerEpoch:   int16(be.Uint16(b[producerEpochAt:])),
		BaseSequence:    int32(be.Uint32(b[baseSequenceAt:])),
		Count:           int32(be.Uint32(b[countAt:])),
	}
}

// encode writes h over the first 61 bytes of b, the CRC as it stands in h.
func (h *Header) encode(b []byte) {
	be := binary.BigEndian
	b = b[:HeaderSize]
	be.PutUint64(b, uint64(h.BaseOffset))
	be.PutUint32(b[lengthAt:], uint32(h.Length))
	be.PutUint32(b[leaderEpochAt:], uint32(h.LeaderEpoch))
	b[magicAt] = byte(h.Magic)
	be.PutUint32(b[crcAt:], h.CRC)
	be.PutUint16(b[attributesAt:], uint16(h.Attributes))
	be.PutUint32(b[lastOffsetDeltaAt:], uint32(h.LastOffsetDelta))
	be.PutUint64(b[baseTimestampAt:], uint64(h.BaseTimestamp))
	be.PutUint64(b[maxTimestampAt:], uint64(h.MaxTimestamp))
	be.PutUint64(b[producerIDAt:], uint64(h.ProducerID))
	be.PutUint16(b[producerEpochAt:], uint16(h.ProducerEpoch))
	be.PutUint32(b[baseSequenceAt:], uint32(h.BaseSequence))
	be.PutUint32(b[countAt:], uint32(h.Count))
}

// Size is the batch's whole size in bytes, header included.
func (h *Header) Size() int { return int(h.Length) + LogOverhead }

// LastOffset is the offset of the last record the batch was written with; compaction may have
// removed that record, the offset stays.
func (h *Header) LastOffset() int64 { return h.BaseOffset + int64(h.LastOffsetDelta) }

// NextOffset is the offset after the batch.
func (h *Header) NextOffset() int64 { return h.LastOffset() + 1 }

// LastSequence is the sequence of the last record, wrapping from 2^31-1 to 0, or NoSequence.
func (h *Header) LastSequence() int32 {
	if h.BaseSequence == NoSequence {
		return NoSequence
	}
	return AddSequence(h.BaseSequence, h.LastOffsetDelta)
}

// HasProducerID reports whether an idempotent or transactional producer wrote the batch.
func (h *Header) HasProducerID() bool { return h.ProducerID > NoProducerID }

// IsControl reports whether the batch holds control records.
func (h *Header) IsControl() bool { return h.Attributes.IsControl() }

// IsTransactional reports whether the batch is part of a transaction (markers are, too).
func (h *Header) IsTransactional() bool { return h.Attributes.IsTransactional() }

// Codec is the compression of the records. It may be a value that no codec has.
func (h *Header) Codec() Codec { return h.Attributes.Codec() }

// TimestampType says what MaxTimestamp means.
func (h *Header) TimestampType() TimestampType { return h.Attributes.TimestampType() }

// DeleteHorizonMs is the time from which on compaction may drop the batch's tombstones and
// markers, if it has been set (KIP-534).
func (h *Header) DeleteHorizonMs() (ms int64, ok bool) {
	if !h.Attributes.HasDeleteHorizon() {
		return NoTimestamp, false
	}
	return h.BaseTimestamp, true
}

// AddSequence adds n ≥ 0 to a producer's sequence, which wraps from 2^31-1 to 0.
func AddSequence(seq, n int32) int32 { return int32((uint32(seq) + uint32(n)) & math.MaxInt32) }

// SubSequence subtracts n ≥ 0 from a producer's sequence, which wraps from 0 to 2^31-1.
func SubSequence(seq, n int32) int32 { return int32((uint32(seq) - uint32(n)) & math.MaxInt32) }

// CheckCRC compares the CRC of exactly one batch with its bytes. ErrShort if the slice ends
// before the batch does, ErrCorrupt if they differ.
func CheckCRC(batch []byte) error {
	h, err := ParseHeader(batch)
	if err != nil {
		return err
	}
	if len(batch) < h.Size() {
		return fmt.Errorf("%w: %d bytes of the batch of %d at offset %d", ErrShort, len(batch), h.Size(), h.BaseOffset)
	}
	if sum := checksum(batch[:h.Size()]); sum != h.CRC {
		return fmt.Errorf("%w: CRC %08x stored, %08x computed, batch at offset %d", ErrCorrupt, h.CRC, sum, h.BaseOffset)
	}
	return nil
}

func checksum(batch []byte) uint32 { return crc32.Checksum(batch[attributesAt:], castagnoli) }

func sealCRC(batch []byte) { binary.BigEndian.PutUint32(batch[crcAt:], checksum(batch)) }

// Stamp writes base offset and leader epoch into the header of a batch. Both lie outside the CRC.
func Stamp(batch []byte, baseOffset int64, leaderEpoch int32) {
	binary.BigEndian.PutUint64(batch, uint64(baseOffset))
	binary.BigEndian.PutUint32(batch[leaderEpochAt:], uint32(leaderEpoch))
}

// SetMaxTimestamp corrects the largest timestamp of a batch with create times, and the CRC with
// it. It reports whether anything had to change: where nothing had, nothing is computed.
func SetMaxTimestamp(batch []byte, ms int64) bool {
	return setTimestamp(batch, CreateTime, ms)
}

// SetLogAppendTime stamps a batch with the broker's time: all its records have it from then on.
func SetLogAppendTime(batch []byte, ms int64) bool {
	return setTimestamp(batch, LogAppendTime, ms)
}

func setTimestamp(batch []byte, typ TimestampType, ms int64) bool {
	be := binary.BigEndian
	attrs := Attributes(be.Uint16(batch[attributesAt:]))
	if attrs.TimestampType() == typ && int64(be.Uint64(batch[maxTimestampAt:])) == ms {
		return false
	}
	be.PutUint16(batch[attributesAt:], uint16(attrs.withTimestampType(typ)))
	be.PutUint64(batch[maxTimestampAt:], uint64(ms))
	sealCRC(batch)
	return true
}

package record

import (
	"fmt"
	"math"
)

// Record is one record of a batch. A nil key or value is null, an empty one is not.
type Record struct {
	Offset    int64
	Timestamp int64 // ms; the append time where the batch has LogAppendTime; -1 none
	Key       []byte
	Value     []byte
	Headers   []RecordHeader
}

// RecordHeader is one header of a record. A nil value is null.
type RecordHeader struct {
	Key   string
	Value []byte
}

// Options is the header of a batch to be built. NewOptions fills in what "none" means.
type Options struct {
	BaseOffset      int64
	LeaderEpoch     int32
	Codec           Codec
	Level           int // of the codec; DefaultLevel
	TimestampType   TimestampType
	LogAppendTimeMs int64 // for TimestampType LogAppendTime
	ProducerID      int64
	ProducerEpoch   int16
	BaseSequence    int32
	Transactional   bool
	Control         bool
	DeleteHorizonMs int64 // -1 none
}

// NewOptions returns options for a batch at baseOffset without codec, producer or epoch.
func NewOptions(baseOffset int64) Options {
	return Options{
		BaseOffset: baseOffset, LeaderEpoch: NoLeaderEpoch, ProducerID: NoProducerID,
		ProducerEpoch: NoProducerEpoch, BaseSequence: NoSequence, DeleteHorizonMs: NoTimestamp,
	}
}

// Builder builds one batch of magic 2. Offsets may have gaps, as a compacted batch has. Errors
// stick, and Build returns them.
type Builder struct {
	opts    Options
	comp    *Compressor
	records []byte
	base    int64 // timestamp
	max     int64
	last    int64 // offset
	count   int32
	err     error
}

// NewBuilder begins a batch. comp may be nil if there is no codec, or if one made for this batch
// alone will do.
func NewBuilder(opts Options, comp *Compressor) *Builder {
	b := &Builder{comp: comp}
	b.Reset(opts)
	return b
}

// Reset begins another batch and keeps the buffers.
func (b *Builder) Reset(opts Options) {
	*b = Builder{opts: opts, comp: b.comp, records: b.records[:0], base: NoTimestamp, max: NoTimestamp, last: opts.BaseOffset - 1}
	if opts.DeleteHorizonMs >= 0 {
		b.base = opts.DeleteHorizonMs
	}
}

// Count is how many records were appended.
func (b *Builder) Count() int { return int(b.count) }

// EstimatedSize is the size in bytes that the batch has without compression.
func (b *Builder) EstimatedSize() int { return HeaderSize + len(b.records) }

// NextOffset is the offset that Append gives to the next record.
func (b *Builder) NextOffset() int64 { return b.last + 1 }

// Append adds a record at the next offset; r.Offset is not looked at.
func (b *Builder) Append(r Record) {
	r.Offset = b.last + 1
	b.AppendAt(r)
}

// AppendAt adds a record at r.Offset, which must be above all earlier ones.
func (b *Builder) AppendAt(r Record) {
	delta := r.Offset - b.opts.BaseOffset
	if r.Offset <= b.last || delta < 0 || delta > math.MaxInt32 {
		b.fail(fmt.Errorf("%w: offset %d after %d in a batch from %d", ErrInvalid, r.Offset, b.last, b.opts.BaseOffset))
		return
	}
	if b.count == 0 && b.opts.DeleteHorizonMs < 0 {
		b.base = r.Timestamp
	}
	b.records = appendRecord(b.records, &r, int32(delta), r.Timestamp-b.base)
	if len(b.records) > math.MaxInt32-HeaderSize {
		b.fail(fmt.Errorf("%w: %d bytes of records", ErrTooLarge, len(b.records)))
	}
	b.last = r.Offset
	b.max = max(b.max, r.Timestamp)
	b.count++
}

// KeepLastOffset gives the batch a last offset beyond that of its last record, as compaction does
// when it drops the last ones.
func (b *Builder) KeepLastOffset(offset int64) { b.last = max(b.last, offset) }

func (b *Builder) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// Build appends the finished batch to dst. A batch without records is an error; see
// [AppendEmptyBatch].
func (b *Builder) Build(dst []byte) ([]byte, error) {
	if b.count == 0 {
		b.fail(fmt.Errorf("%w: a batch without records", ErrInvalid))
	}
	if b.err != nil {
		return dst, b.err
	}
	if b.comp == nil {
		b.comp = new(Compressor)
	}
	at := len(dst)
	dst = append(dst, make([]byte, HeaderSize)...)
	dst, err := b.comp.compress(dst, b.opts.Codec, b.opts.Level, b.records)
	if err != nil {
		return dst[:at], err
	}
	h := b.header()
	h.Length = int32(len(dst) - at - LogOverhead)
	h.encode(dst[at:])
	sealCRC(dst[at:])
	return dst, nil
}

func (b *Builder) header() Header {
	o := &b.opts
	h := Header{
		BaseOffset: o.BaseOffset, LeaderEpoch: o.LeaderEpoch, Magic: MagicV2,
		Attributes:      makeAttributes(o.Codec, o.TimestampType, o.Transactional, o.Control, o.DeleteHorizonMs >= 0),
		LastOffsetDelta: int32(b.last - o.BaseOffset),
		BaseTimestamp:   b.base, MaxTimestamp: b.max,
		ProducerID: o.ProducerID, ProducerEpoch: o.ProducerEpoch, BaseSequence: o.BaseSequence,
		Count: b.count,
	}
	if o.TimestampType == LogAppendTime {
		h.MaxTimestamp = o.LogAppendTimeMs
	}
	return h
}

// AppendEmptyBatch appends a batch without records, with the header's offsets, producer and
// timestamps: what compaction leaves of a batch to remember its producer's last sequence.
func AppendEmptyBatch(dst []byte, h Header) []byte {
	h.Length, h.Magic, h.Count = HeaderSize-LogOverhead, MagicV2, 0
	h.Attributes = h.Attributes.withCodec(None) &^ deleteHorizonBit
	h.BaseTimestamp = NoTimestamp
	at := len(dst)
	dst = append(dst, make([]byte, HeaderSize)...)
	h.encode(dst[at:])
	sealCRC(dst[at:])
	return dst
}

// AppendBatch builds a batch of records at consecutive offsets in one call.
func AppendBatch(dst []byte, opts Options, comp *Compressor, records ...Record) ([]byte, error) {
	b := NewBuilder(opts, comp)
	for _, r := range records {
		b.Append(r)
	}
	return b.Build(dst)
}

func appendRecord(dst []byte, r *Record, offsetDelta int32, timestampDelta int64) []byte {
	dst = appendVarint(dst, int32(recordBodySize(r, offsetDelta, timestampDelta)))
	dst = append(dst, 0) // attributes
	dst = appendVarlong(dst, timestampDelta)
	dst = appendVarint(dst, offsetDelta)
	dst = appendNullable(dst, r.Key)
	dst = appendNullable(dst, r.Value)
	dst = appendVarint(dst, int32(len(r.Headers)))
	for i := range r.Headers {
		dst = appendVarint(dst, int32(len(r.Headers[i].Key)))
		dst = append(dst, r.Headers[i].Key...)
		dst = appendNullable(dst, r.Headers[i].Value)
	}
	return dst
}

func recordBodySize(r *Record, offsetDelta int32, timestampDelta int64) int {
	n := 1 + varlongSize(timestampDelta) + varintSize(offsetDelta) + nullableSize(r.Key) + nullableSize(r.Value) +
		varintSize(int32(len(r.Headers)))
	for i := range r.Headers {
		k := len(r.Headers[i].Key)
		n += varintSize(int32(k)) + k + nullableSize(r.Headers[i].Value)
	}
	return n
}

func appendNullable(dst, b []byte) []byte {
	if b == nil {
		return append(dst, 1) // -1
	}
	return append(appendVarint(dst, int32(len(b))), b...)
}

func nullableSize(b []byte) int {
	if b == nil {
		return 1
	}
	return varintSize(int32(len(b))) + len(b)
}

package record

import (
	"fmt"
	"io"
	"math"
)

// Limits is what a topic, and the request's version, demand of a produced batch. Times are in
// milliseconds; NowMs is the broker's wall clock.
type Limits struct {
	MaxBytes      int32 // max.message.bytes; 0 means no limit
	TimestampType TimestampType
	NowMs         int64
	BeforeMaxMs   int64 // message.timestamp.before.max.ms
	AfterMaxMs    int64 // message.timestamp.after.max.ms
	RequireKey    bool  // cleanup.policy contains compact
	// ProduceVersion is the version of the Produce request; zstd needs 7.
	ProduceVersion int16
	// InflatedMaxBytes bounds the work spent on a compressed batch, not the memory, which is
	// bounded anyway; 0 means no limit.
	InflatedMaxBytes int64
}

// Info is what a walk found out about a batch.
type Info struct {
	Header Header // as it was sent; Stamp and SetLogAppendTime come later
	Count  int32
	// MaxTimestamp is the largest timestamp of the records, -1 if none has one, and
	// OffsetOfMaxTimestamp the offset delta of the first record that has it.
	MaxTimestamp         int64
	OffsetOfMaxTimestamp int32
	InflatedBytes        int64 // of the records, header not counted
}

const zstdProduceVersion = 7

// ValidateProduce walks the one batch that a producer sent for a partition and says whether it
// may be appended: exactly one batch of magic 2 with base offset 0 that fills the slice, within
// max.message.bytes, CRC right, count = last offset delta + 1 = the records there are, deltas
// consecutive, no control or delete-horizon bit, a sequence where there is a producer id, a key
// where the topic is compacted, every timestamp within its limits.
//
// It changes nothing, and allocates nothing for an uncompressed batch. Compressed ones are
// inflated through d, a window at a time; with a nil d a decompressor is made for the call.
// Errors are of the kinds declared in this package; errors of single records come as a
// *[ValidationError].
func ValidateProduce(batch []byte, lim Limits, d *Decompressor) (Info, error) {
	h, err := checkEnvelope(batch, &lim)
	if err != nil {
		return Info{}, err
	}
	if err := checkHeader(&h); err != nil {
		return Info{}, err
	}
	w := makeWalk(&h, &lim)
	if h.Codec() == None {
		err = w.inPlace(batch[HeaderSize:])
	} else {
		if d == nil {
			d = new(Decompressor)
		}
		err = w.inflating(batch[HeaderSize:], d)
		d.close()
	}
	if err == nil {
		err = w.end()
	}
	if err != nil {
		return Info{}, err
	}
	return w.info, nil
}

// Admit is ValidateProduce followed by what the leader changes in an admitted batch: a wrong
// largest timestamp is corrected, and with message.timestamp.type=LogAppendTime all records get
// lim.NowMs. The CRC is computed anew only where something changed. The returned Info describes
// the batch as it is then.
func Admit(batch []byte, lim Limits, d *Decompressor) (Info, error) {
	info, err := ValidateProduce(batch, lim, d)
	if err != nil {
		return info, err
	}
	if lim.TimestampType == LogAppendTime {
		SetLogAppendTime(batch, lim.NowMs)
		info.MaxTimestamp, info.OffsetOfMaxTimestamp = lim.NowMs, 0
	} else {
		SetMaxTimestamp(batch, info.MaxTimestamp)
	}
	info.Header = decodeHeader(batch)
	return info, nil
}

// checkEnvelope checks what can be said before anything in the batch is believed.
func checkEnvelope(batch []byte, lim *Limits) (Header, error) {
	h, err := ParseHeader(batch)
	if err != nil {
		return h, err
	}
	if h.Size() != len(batch) {
		return h, fmt.Errorf("%w: a batch of %d bytes in a partition's %d; exactly one is allowed",
			ErrInvalid, h.Size(), len(batch))
	}
	codec := h.Codec()
	if !codec.Valid() {
		return h, fmt.Errorf("%w: %v", ErrCodec, codec)
	}
	if codec == Zstd && lim.ProduceVersion < zstdProduceVersion {
		return h, fmt.Errorf("%w: zstd in Produce %d, which is below 7", ErrCodec, lim.ProduceVersion)
	}
	if h.BaseOffset != 0 {
		return h, fmt.Errorf("%w: base offset %d of a produced batch is not 0", ErrInvalid, h.BaseOffset)
	}
	if lim.MaxBytes > 0 && len(batch) > int(lim.MaxBytes) {
		return h, fmt.Errorf("%w: %d bytes, max.message.bytes is %d", ErrTooLarge, len(batch), lim.MaxBytes)
	}
	if sum := checksum(batch); sum != h.CRC {
		return h, fmt.Errorf("%w: CRC %08x stored, %08x computed", ErrCorrupt, h.CRC, sum)
	}
	return h, nil
}

// checkHeader checks what the header says of itself.
func checkHeader(h *Header) error {
	switch {
	case h.Count <= 0:
		return fmt.Errorf("%w: count %d", ErrInvalid, h.Count)
	case h.LastOffsetDelta != h.Count-1:
		return fmt.Errorf("%w: last offset delta %d with %d records", ErrInvalid, h.LastOffsetDelta, h.Count)
	case h.IsControl():
		return fmt.Errorf("%w: clients may not write control records", ErrInvalid)
	case h.Attributes.HasDeleteHorizon():
		return fmt.Errorf("%w: clients may not set a delete horizon", ErrInvalid)
	case h.TimestampType() == LogAppendTime:
		return fmt.Errorf("%w: clients may not set LogAppendTime", ErrInvalidTimestamp)
	case h.HasProducerID() && h.BaseSequence < 0:
		return fmt.Errorf("%w: sequence %d of producer %d", ErrInvalid, h.BaseSequence, h.ProducerID)
	case h.HasProducerID() && h.ProducerEpoch < 0:
		return fmt.Errorf("%w: epoch %d of producer %d", ErrInvalid, h.ProducerEpoch, h.ProducerID)
	case !h.HasProducerID() && h.IsTransactional():
		return fmt.Errorf("%w: transactional batch without producer id", ErrInvalid)
	}
	return nil
}

// walk checks record after record.
type walk struct {
	base     int64
	lo, hi   int64 // timestamps in [lo, hi] are good
	needKey  bool
	inflated int64 // bound
	want     int32
	info     Info
	bad      *ValidationError
}

func makeWalk(h *Header, lim *Limits) walk {
	w := walk{
		base: h.BaseTimestamp, needKey: lim.RequireKey, want: h.Count, inflated: lim.InflatedMaxBytes,
		lo: math.MinInt64, hi: math.MaxInt64,
		info: Info{Header: *h, MaxTimestamp: NoTimestamp},
	}
	if lim.TimestampType == CreateTime {
		// NowMs and both limits are not negative: only the sum can overflow.
		w.lo = lim.NowMs - lim.BeforeMaxMs
		if lim.AfterMaxMs <= math.MaxInt64-lim.NowMs {
			w.hi = lim.NowMs + lim.AfterMaxMs
		}
	}
	return w
}

// inPlace walks records that are not compressed.
func (w *walk) inPlace(b []byte) error {
	w.info.InflatedBytes = int64(len(b))
	for len(b) > 0 {
		size, n := varint(b)
		if n == 0 || size <= 0 || int(size) > len(b)-n {
			return w.malformed(badLength)
		}
		r, bad := walkRecord(b[n : n+int(size)])
		if bad != "" {
			return w.malformed(bad)
		}
		if err := w.record(r); err != nil {
			return err
		}
		b = b[n+int(size):]
	}
	return nil
}

// inflating walks compressed records, a window at a time.
func (w *walk) inflating(b []byte, d *Decompressor) error {
	if err := d.open(w.info.Header.Codec(), MagicV2, b, w.inflated); err != nil {
		return err
	}
	for {
		r, bad, err := d.next()
		if err == io.EOF {
			w.info.InflatedBytes = d.total
			return nil
		}
		if err != nil {
			return err
		}
		if bad != "" {
			return w.malformed(bad)
		}
		if err := w.record(r); err != nil {
			return err
		}
	}
}

func (w *walk) malformed(why string) error {
	return fmt.Errorf("%w: record %d: %s", ErrInvalid, w.info.Count, why)
}

func (w *walk) record(r walked) error {
	i := w.info.Count
	if r.offsetDelta != i {
		return fmt.Errorf("%w: record %d has offset delta %d", ErrInvalid, i, r.offsetDelta)
	}
	if i >= w.want {
		return fmt.Errorf("%w: more records than the %d of the header", ErrInvalid, w.want)
	}
	w.info.Count = i + 1
	ts := w.base + r.timestampDelta
	if ts > w.info.MaxTimestamp {
		w.info.MaxTimestamp, w.info.OffsetOfMaxTimestamp = ts, i
	}
	if w.needKey && !r.keyed {
		w.reject(i, ErrInvalid, ts)
	} else if (ts < w.lo || ts > w.hi) && ts != NoTimestamp {
		w.reject(i, ErrInvalidTimestamp, ts)
	}
	return nil
}

func (w *walk) reject(i int32, kind error, ts int64) {
	if w.bad == nil {
		w.bad = &ValidationError{Kind: kind}
	}
	if kind == ErrInvalidTimestamp {
		w.bad.Kind = kind
	}
	w.bad.Total++
	if len(w.bad.Records) == maxRecordErrors {
		return
	}
	message := "compacted topic cannot accept a record without key"
	if kind == ErrInvalidTimestamp {
		message = fmt.Sprintf("timestamp %d is out of range, it should be within [%d, %d]", ts, w.lo, w.hi)
	}
	w.bad.Records = append(w.bad.Records, RecordError{Index: i, Message: message})
}

func (w *walk) end() error {
	if w.info.Count != w.want {
		return fmt.Errorf("%w: %d records where the header counts %d", ErrInvalid, w.info.Count, w.want)
	}
	if w.bad != nil {
		return w.bad
	}
	return nil
}

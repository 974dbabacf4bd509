package record

import (
	"fmt"
	"io"
)

// Batches iterates over the batches of magic 2 in a byte slice, by their headers alone.
type Batches struct {
	rest  []byte
	pos   int // of the current batch in the slice
	next  int
	h     Header
	batch []byte
	err   error
}

// NewBatches iterates over b. A batch that b holds only in part ends the iteration without error:
// so ends every Fetch; Rest tells how much of it there is.
func NewBatches(b []byte) Batches { return Batches{rest: b} }

// Next advances to the next whole batch.
func (it *Batches) Next() bool {
	if it.err != nil || len(it.rest) < HeaderSize && (len(it.rest) < PeekSize || it.rest[magicAt] == MagicV2) {
		return false
	}
	h, err := ParseHeader(it.rest)
	if err != nil {
		it.err = fmt.Errorf("at byte %d: %w", it.next, err)
		return false
	}
	if h.Size() > len(it.rest) {
		return false
	}
	it.h, it.batch = h, it.rest[:h.Size():h.Size()]
	it.pos, it.next = it.next, it.next+h.Size()
	it.rest = it.rest[h.Size():]
	return true
}

// Header is that of the current batch.
func (it *Batches) Header() *Header { return &it.h }

// Bytes is the current batch, header included; it shares memory with the slice.
func (it *Batches) Bytes() []byte { return it.batch }

// Position is where in the slice the current batch begins.
func (it *Batches) Position() int { return it.pos }

// Rest is what follows the current batch, in the end the partial one.
func (it *Batches) Rest() []byte { return it.rest }

// Err is what ended the iteration early: ErrMagic or ErrCorrupt.
func (it *Batches) Err() error { return it.err }

// Records iterates over the records of one batch of magic 2 with keys, values and headers. Those
// of an uncompressed batch share its memory. Those of a compressed one are inflated a window at
// a time and share the decompressor's: they are good until the next call of Next. A record
// itself has to fit in memory, so the bound on what is inflated bounds it, too.
type Records struct {
	h    Header
	in   []byte // not compressed
	d    *Decompressor
	last int64 // offset
	seen int32
	rec  Record
	err  error
}

// NewRecords iterates over the records of batch, whose CRC the caller has checked or trusts. d
// may be nil if no codec is set; it is in use until Close, or until Next returns false.
// inflatedMaxBytes bounds what a compressed batch may inflate to; 0 means no bound.
func NewRecords(batch []byte, d *Decompressor, inflatedMaxBytes int64) *Records {
	it := new(Records)
	it.Reset(batch, d, inflatedMaxBytes)
	return it
}

// Reset begins another batch; see NewRecords.
func (it *Records) Reset(batch []byte, d *Decompressor, inflatedMaxBytes int64) {
	*it = Records{}
	it.h, it.err = ParseHeader(batch)
	if it.err != nil {
		return
	}
	if it.h.Size() > len(batch) {
		it.err = fmt.Errorf("%w: %d bytes of the batch of %d at offset %d", ErrShort, len(batch), it.h.Size(), it.h.BaseOffset)
		return
	}
	it.last = it.h.BaseOffset - 1
	it.in = batch[HeaderSize:it.h.Size()]
	if it.h.Count == 0 { // compaction left the header alone
		it.in = nil
		return
	}
	if it.h.Codec() == None {
		return
	}
	if it.d = d; d == nil {
		it.d = new(Decompressor)
	}
	it.err = it.d.open(it.h.Codec(), MagicV2, it.in, inflatedMaxBytes)
	it.in = nil
}

// Header is that of the batch.
func (it *Records) Header() *Header { return &it.h }

// Record is the current record, good until Next.
func (it *Records) Record() *Record { return &it.rec }

// Err is what ended the iteration early.
func (it *Records) Err() error { return it.err }

// Close lets go of the decompressor.
func (it *Records) Close() {
	if it.d != nil {
		it.d.close()
		it.d = nil
	}
}

// Next advances to the next record.
func (it *Records) Next() bool {
	if it.err != nil {
		it.Close()
		return false
	}
	body, err := it.body()
	if err == nil {
		err = it.parse(body)
	}
	if err == io.EOF {
		it.Close()
		if it.seen != it.h.Count {
			it.err = fmt.Errorf("%w: %d records where the header counts %d", ErrInvalid, it.seen, it.h.Count)
		}
		return false
	}
	if err != nil {
		it.err = fmt.Errorf("batch at offset %d, record %d: %w", it.h.BaseOffset, it.seen, err)
		it.Close()
		return false
	}
	it.seen++
	return true
}

// body returns the next record without its length. io.EOF at the end.
func (it *Records) body() ([]byte, error) {
	if it.d != nil {
		return it.d.body()
	}
	if len(it.in) == 0 {
		return nil, io.EOF
	}
	size, n := varint(it.in)
	if n == 0 || size <= 0 || int(size) > len(it.in)-n {
		return nil, invalid(badLength)
	}
	b := it.in[n : n+int(size) : n+int(size)]
	it.in = it.in[n+int(size):]
	return b, nil
}

func (it *Records) parse(b []byte) error {
	off, err := parseRecord(b, &it.rec)
	if err != nil {
		return err
	}
	it.rec.Offset = it.h.BaseOffset + int64(off)
	it.rec.Timestamp += it.h.BaseTimestamp
	if it.h.TimestampType() == LogAppendTime {
		it.rec.Timestamp = it.h.MaxTimestamp
	}
	if it.rec.Offset <= it.last || off > it.h.LastOffsetDelta || it.seen >= it.h.Count {
		return fmt.Errorf("%w: offset %d after %d, the batch ends at %d with %d records", ErrInvalid,
			it.rec.Offset, it.last, it.h.LastOffset(), it.h.Count)
	}
	it.last = it.rec.Offset
	return nil
}

func invalid(why string) error { return fmt.Errorf("%w: %s", ErrInvalid, why) }

// body returns the next record of an inflating batch without its length, in the window or, if it
// straddles windows, put together. io.EOF at the end.
func (d *Decompressor) body() ([]byte, error) {
	size, n := varint(d.window)
	if n > 0 && size > 0 && int(size) <= len(d.window)-n {
		b := d.window[n : n+int(size) : n+int(size)]
		d.window = d.window[n+int(size):]
		return b, nil
	}
	long, _, err := d.varlong(5)
	if err != nil {
		return nil, err
	}
	if long <= 0 {
		return nil, invalid(badLength)
	}
	d.record, err = d.gather(d.record[:0], int(long))
	return d.record, err
}

// parseRecord fills r from the bytes after a record's length; Timestamp is the delta. Headers
// are reused.
func parseRecord(b []byte, r *Record) (offsetDelta int32, err error) {
	w, bad := walkRecord(b)
	if bad != "" {
		return 0, invalid(bad)
	}
	// walkRecord has checked every length there is.
	p := 1
	_, n := varlong(b[p:])
	p += n
	_, n = varint(b[p:])
	p += n
	r.Timestamp = w.timestampDelta
	r.Key, p = takeNullable(b, p)
	r.Value, p = takeNullable(b, p)
	count, n := varint(b[p:])
	p += n
	r.Headers = r.Headers[:0]
	for range count {
		var key, value []byte
		key, p = takeNullable(b, p)
		value, p = takeNullable(b, p)
		r.Headers = append(r.Headers, RecordHeader{Key: string(key), Value: value})
	}
	return w.offsetDelta, nil
}

func takeNullable(b []byte, p int) (v []byte, next int) {
	size, n := varint(b[p:])
	p += n
	if size < 0 {
		return nil, p
	}
	end := p + int(size)
	return b[p:end:end], end
}

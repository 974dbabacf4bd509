package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// What a Decompressor may hold in memory, whatever a batch inflates to.
const (
	// DefaultWindowMaxBytes is the largest zstd window that is accepted. Every level up to 20 of
	// the reference encoder stays within it.
	DefaultWindowMaxBytes = 32 << 20
	// DefaultBlockMaxBytes is the largest single snappy block that is accepted. A framed stream
	// has blocks of 32 KiB; without framing the whole batch is one block.
	DefaultBlockMaxBytes = 32 << 20

	inflateWindowBytes = 64 << 10
	keepWindowBytes    = 8 << 20 // a codec that grew beyond this is not kept
)

// SmallWindowBytes is the zstd window of nearly all batches: up to level 19 of the reference
// encoder, and every level of the others.
const SmallWindowBytes = 8 << 20

// InflateNeeds bounds the memory that inflating the batch takes at once, and says which
// WindowMaxBytes its decompressor needs for that. Nothing for a batch that is not compressed.
func InflateNeeds(batch []byte) (bytes int64, windowMaxBytes int) {
	const slack = 256 << 10 // windows of 64 KiB and what surrounds them
	h, err := ParseHeader(batch)
	if err != nil {
		return 0, 0
	}
	switch h.Codec() {
	case Gzip:
		return slack, 0
	case Snappy:
		return slack + min(DefaultBlockMaxBytes, 22*int64(len(batch))), 0
	case Lz4:
		return slack + 2*(4<<20), 0 // the largest block, and the one before
	case Zstd:
		window := SmallWindowBytes
		var z zstd.Header
		if z.Decode(batch[HeaderSize:]) == nil && (z.WindowSize > SmallWindowBytes || z.SingleSegment && z.FrameContentSize > SmallWindowBytes) {
			window = DefaultWindowMaxBytes
		}
		return slack + int64(window)*5/4, window
	}
	return 0, 0
}

// Decompressor inflates the records of compressed batches, a window at a time, and keeps its
// codecs from one batch to the next, for the first use of each costs up to a megabyte. It serves
// one batch at a time and one task at a time; [Decoders] is a free list of them. The zero value
// is ready; codecs run synchronously, without goroutines.
type Decompressor struct {
	// WindowMaxBytes and BlockMaxBytes bound the memory; 0 means the defaults above.
	WindowMaxBytes int
	BlockMaxBytes  int

	gzip   *gzip.Reader
	zstd   *zstd.Decoder
	lz4    *lz4.Reader
	snappy snappyBlocks

	codec  Codec
	src    bytes.Reader
	head   lz4Head // the source of lz4 from magic 0
	reader io.Reader
	buf    []byte
	window []byte // inflated and not yet consumed
	total  int64  // inflated so far
	max    int64  // of total
	large  bool
	record []byte // where a record that straddles windows is put together
}

// Decoders is a free list of decompressors. It has no lock of its own: its owner guards it, and
// takes from it only for a batch that is compressed.
type Decoders struct {
	// Keep bounds how many idle ones are held; 0 means 4.
	Keep int
	// WindowMaxBytes and BlockMaxBytes are given to each new one.
	WindowMaxBytes int
	BlockMaxBytes  int
	idle           []*Decompressor
}

// Get returns an idle decompressor or a new one.
func (l *Decoders) Get() *Decompressor {
	if n := len(l.idle); n > 0 {
		d := l.idle[n-1]
		l.idle[n-1] = nil
		l.idle = l.idle[:n-1]
		return d
	}
	return &Decompressor{WindowMaxBytes: l.WindowMaxBytes, BlockMaxBytes: l.BlockMaxBytes}
}

// Put gives d back. It must not be in use.
func (l *Decoders) Put(d *Decompressor) {
	keep := l.Keep
	if keep == 0 {
		keep = 4
	}
	if d == nil || len(l.idle) >= keep {
		return
	}
	d.close()
	l.idle = append(l.idle, d)
}

// open begins to inflate src. magic is that of the message around it; max bounds what comes out
// in bytes, 0 means no bound.
func (d *Decompressor) open(codec Codec, magic int8, src []byte, max int64) error {
	d.close()
	d.codec, d.total, d.max = codec, 0, max
	if max <= 0 {
		d.max = math.MaxInt64
	}
	d.src.Reset(src)
	if d.buf == nil && codec != Snappy {
		d.buf = make([]byte, inflateWindowBytes)
	}
	var err error
	switch codec {
	case Gzip:
		err = d.openGzip()
	case Snappy:
		d.snappy.reset(src, d.blockMax())
	case Lz4:
		err = d.openLz4(src, magic)
	case Zstd:
		err = d.openZstd(src)
	default:
		return fmt.Errorf("%w: %v", ErrCodec, codec)
	}
	if err != nil {
		return d.failed(err)
	}
	return nil
}

func (d *Decompressor) windowMax() int {
	if d.WindowMaxBytes > 0 {
		return d.WindowMaxBytes
	}
	return DefaultWindowMaxBytes
}

func (d *Decompressor) blockMax() int {
	if d.BlockMaxBytes > 0 {
		return d.BlockMaxBytes
	}
	return DefaultBlockMaxBytes
}

func (d *Decompressor) openGzip() error {
	if d.gzip == nil {
		d.gzip = new(gzip.Reader)
	}
	d.reader = d.gzip
	return d.gzip.Reset(&d.src)
}

func (d *Decompressor) openLz4(src []byte, magic int8) error {
	if err := d.head.reset(src, magic, &d.src); err != nil {
		return err
	}
	if d.lz4 == nil {
		d.lz4 = lz4.NewReader(&d.head)
		if err := d.lz4.Apply(lz4.ConcurrencyOption(1)); err != nil {
			return err
		}
	} else {
		d.lz4.Reset(&d.head)
	}
	d.reader = d.lz4
	return nil
}

func (d *Decompressor) openZstd(src []byte) error {
	var h zstd.Header
	if err := h.Decode(src); err != nil {
		return err
	}
	d.large = max(h.WindowSize, h.FrameContentSize) > keepWindowBytes
	if d.zstd == nil {
		z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(uint64(d.windowMax())), zstd.WithDecodeBuffersBelow(0))
		if err != nil {
			return err
		}
		d.zstd = z
	}
	d.reader = d.zstd
	return d.zstd.Reset(&d.src)
}

// close ends the current batch and lets go of its bytes.
func (d *Decompressor) close() {
	d.window, d.reader = nil, nil
	d.src.Reset(nil)
	d.snappy.src = nil
	if d.zstd != nil && d.codec == Zstd {
		_ = d.zstd.Reset(nil) // never fails for nil
		if d.large {
			d.zstd.Close()
			d.zstd = nil
		}
	}
	if cap(d.snappy.block) > keepWindowBytes {
		d.snappy.block = nil
	}
	if cap(d.record) > keepWindowBytes {
		d.record = nil
	}
	d.codec, d.large = None, false
}

func (d *Decompressor) failed(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: the %v data ends early", ErrInvalid, d.codec)
	}
	return fmt.Errorf("%w: %v data: %w", ErrInvalid, d.codec, err)
}

// more replaces an empty window by the next bytes. io.EOF at the proper end.
func (d *Decompressor) more() error {
	if d.codec == Snappy {
		block, err := d.snappy.next(d.max - d.total)
		if err != nil {
			return d.ended(err)
		}
		return d.count(block)
	}
	for range 100 {
		n, err := d.reader.Read(d.buf)
		if n > 0 {
			return d.count(d.buf[:n]) // an error comes back with the next read
		}
		if err != nil {
			return d.ended(err)
		}
	}
	return d.failed(io.ErrNoProgress)
}

func (d *Decompressor) count(window []byte) error {
	d.total += int64(len(window))
	if d.total > d.max {
		return fmt.Errorf("%w: inflates beyond %d bytes", ErrTooLarge, d.max)
	}
	d.window = window
	return nil
}

func (d *Decompressor) ended(err error) error {
	if err == io.EOF || errors.Is(err, ErrTooLarge) {
		return err
	}
	return d.failed(err)
}

// readByte returns io.EOF at the proper end.
func (d *Decompressor) readByte() (byte, error) {
	for len(d.window) == 0 {
		if err := d.more(); err != nil {
			return 0, err
		}
	}
	b := d.window[0]
	d.window = d.window[1:]
	return b, nil
}

// varlong reads a zigzag varint of at most limit bytes and tells how many it took. io.EOF only
// if there is not even a first byte.
func (d *Decompressor) varlong(limit int) (v int64, n int, err error) {
	var b [10]byte
	for n < limit {
		c, err := d.readByte()
		if err != nil {
			if err == io.EOF && n > 0 {
				err = d.failed(err)
			}
			return 0, 0, err
		}
		b[n] = c
		n++
		if c < 0x80 {
			if limit == 5 {
				v32, k := varint(b[:n])
				return int64(v32), k, orVarint(k)
			}
			v, k := varlong(b[:n])
			return v, k, orVarint(k)
		}
	}
	return 0, 0, orVarint(0)
}

func orVarint(n int) error {
	if n == 0 {
		return fmt.Errorf("%w: varint too long", ErrInvalid)
	}
	return nil
}

// skip passes over n bytes without keeping them.
func (d *Decompressor) skip(n int) error {
	for n > len(d.window) {
		n -= len(d.window)
		d.window = nil
		if err := d.more(); err != nil {
			return d.ended(unexpected(err))
		}
	}
	d.window = d.window[n:]
	return nil
}

// gather appends n bytes to dst, which grows only as they arrive.
func (d *Decompressor) gather(dst []byte, n int) ([]byte, error) {
	for n > len(d.window) {
		dst = append(dst, d.window...)
		n -= len(d.window)
		d.window = nil
		if err := d.more(); err != nil {
			return dst, d.ended(unexpected(err))
		}
	}
	dst = append(dst, d.window[:n]...)
	d.window = d.window[n:]
	return dst, nil
}

// inflate appends all that is left to dst.
func (d *Decompressor) inflate(dst []byte) ([]byte, error) {
	for {
		dst = append(dst, d.window...)
		d.window = nil
		if err := d.more(); err == io.EOF {
			return dst, nil
		} else if err != nil {
			return dst, err
		}
	}
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

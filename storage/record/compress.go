package record

import (
	"fmt"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy/xerial"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// DefaultLevel lets a codec choose its level, as Kafka's defaults do.
const DefaultLevel = 0

// lz4FastLevel is Kafka's default of compression.lz4.level, and means the fast compressor.
const lz4FastLevel = 9

// zstdWindowBytes keeps what we write within the window that every decoder must accept.
const zstdWindowBytes = 8 << 20

// Compressor deflates records, and keeps its codecs from one batch to the next. One task at a
// time uses it. The zero value is ready; codecs run synchronously.
type Compressor struct {
	gzip      *gzip.Writer
	gzipLevel int
	lz4       *lz4.Writer
	lz4Level  int
	zstd      *zstd.Encoder
	zstdLevel int
	out       appender
}

// appender is an io.Writer over a growing slice.
type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}

// compress appends src, compressed, to dst. level is that of compression.<codec>.level, or
// DefaultLevel.
func (c *Compressor) compress(dst []byte, codec Codec, level int, src []byte) ([]byte, error) {
	switch codec {
	case None:
		return append(dst, src...), nil
	case Gzip:
		return c.compressGzip(dst, level, src)
	case Snappy:
		return append(dst, xerial.Encode(nil, src)...), nil
	case Lz4:
		return c.compressLz4(dst, level, src)
	case Zstd:
		return c.compressZstd(dst, level, src)
	}
	return dst, fmt.Errorf("%w: %v", ErrCodec, codec)
}

func (c *Compressor) compressGzip(dst []byte, level int, src []byte) ([]byte, error) {
	if level == DefaultLevel {
		level = gzip.DefaultCompression
	}
	c.out.b = dst
	if c.gzip == nil || c.gzipLevel != level {
		z, err := gzip.NewWriterLevel(&c.out, level)
		if err != nil {
			return dst, fmt.Errorf("%w: %w", ErrCodec, err)
		}
		c.gzip, c.gzipLevel = z, level
	} else {
		c.gzip.Reset(&c.out)
	}
	if _, err := c.gzip.Write(src); err != nil {
		return dst, err
	}
	err := c.gzip.Close()
	return c.take(), err
}

func (c *Compressor) compressLz4(dst []byte, level int, src []byte) ([]byte, error) {
	c.out.b = dst
	if c.lz4 == nil || c.lz4Level != level {
		c.lz4, c.lz4Level = lz4.NewWriter(&c.out), level
		err := c.lz4.Apply(lz4.ConcurrencyOption(1), lz4.BlockSizeOption(lz4.Block64Kb),
			lz4.ChecksumOption(false), lz4.CompressionLevelOption(lz4LevelOf(level)))
		if err != nil {
			c.lz4 = nil
			return dst, fmt.Errorf("%w: %w", ErrCodec, err)
		}
	} else {
		c.lz4.Reset(&c.out)
	}
	if _, err := c.lz4.Write(src); err != nil {
		return dst, err
	}
	err := c.lz4.Close()
	return c.take(), err
}

// lz4LevelOf maps the levels of the reference library to those of ours, which has nine.
func lz4LevelOf(level int) lz4.CompressionLevel {
	if level <= DefaultLevel || level == lz4FastLevel {
		return lz4.Fast
	}
	return lz4.CompressionLevel(1 << (8 + min(level, 9)))
}

func (c *Compressor) compressZstd(dst []byte, level int, src []byte) ([]byte, error) {
	if c.zstd == nil || c.zstdLevel != level {
		speed := zstd.SpeedDefault
		if level != DefaultLevel {
			speed = zstd.EncoderLevelFromZstd(level)
		}
		z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true),
			zstd.WithEncoderLevel(speed), zstd.WithWindowSize(zstdWindowBytes))
		if err != nil {
			return dst, fmt.Errorf("%w: %w", ErrCodec, err)
		}
		c.zstd, c.zstdLevel = z, level
	}
	return c.zstd.EncodeAll(src, dst), nil
}

func (c *Compressor) take() []byte {
	b := c.out.b
	c.out.b = nil
	return b
}

// Recompress appends to dst the batch with its records under another codec (compression.type
// other than producer), at the given level; everything else is kept, the CRC computed anew. The
// batch must have passed [ValidateProduce]. The inflated records are held in memory once, for
// which inflatedMaxBytes are taken, if it is not 0, and no more; maxBytes, if not 0, bounds the
// new batch (ErrTooLarge).
func Recompress(dst, batch []byte, codec Codec, level int, d *Decompressor, c *Compressor,
	inflatedMaxBytes int64, maxBytes int32) ([]byte, error) {
	h, err := ParseHeader(batch)
	if err != nil {
		return dst, err
	}
	records := batch[HeaderSize:h.Size()]
	if h.Codec() != None {
		if codec == None && maxBytes > 0 && (inflatedMaxBytes <= 0 || inflatedMaxBytes > int64(maxBytes)) {
			inflatedMaxBytes = int64(maxBytes)
		}
		if err := d.open(h.Codec(), MagicV2, records, inflatedMaxBytes); err != nil {
			return dst, err
		}
		records, err = d.inflate(make([]byte, 0, max(inflatedMaxBytes, 0)))
		d.close()
		if err != nil {
			return dst, err
		}
	}
	at := len(dst)
	out, err := c.compress(append(dst, batch[:HeaderSize]...), codec, level, records)
	if err != nil {
		return dst, err
	}
	if maxBytes > 0 && len(out)-at > int(maxBytes) {
		return dst, fmt.Errorf("%w: %d bytes as %v, max.message.bytes is %d", ErrTooLarge, len(out)-at, codec, maxBytes)
	}
	h.Length = int32(len(out) - at - LogOverhead)
	h.Attributes = h.Attributes.withCodec(codec)
	h.encode(out[at:])
	sealCRC(out[at:])
	return out, nil
}

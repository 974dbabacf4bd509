package node_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kerr"

	"seedlog/storage/record"
)

// bomb is a batch of one record whose value is n zeros, compressed as well as it can be. A
// lying one has its count of headers missing: it is read to its end for nothing.
func bomb(t *testing.T, codec record.Codec, n int, lying bool) []byte {
	t.Helper()
	var body bytes.Buffer
	var w io.WriteCloser
	var err error
	switch codec {
	case record.Gzip:
		w, err = gzip.NewWriterLevel(&body, 9)
	case record.Lz4:
		z := lz4.NewWriter(&body)
		err = z.Apply(lz4.ConcurrencyOption(1), lz4.BlockSizeOption(lz4.Block4Mb))
		w = z
	case record.Zstd:
		w, err = zstd.NewWriter(&body, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(8<<20))
	case record.Snappy:
		w = &bareSnappy{out: &body}
	}
	if err != nil {
		t.Fatal(err)
	}
	inner := append([]byte{0, 0, 0, 1}, binary.AppendVarint(nil, int64(n))...)
	head := append(binary.AppendVarint(nil, int64(len(inner)+n+1)), inner...)
	write := func(b []byte) {
		if _, err := w.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	write(head)
	zeros := make([]byte, 1<<20)
	for left := n; left > 0; left -= len(zeros) {
		write(zeros[:min(left, len(zeros))])
	}
	if !lying {
		write([]byte{0})
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	now := time.Now().UnixMilli()
	b := batch(t, nil, record.Record{Value: []byte("x"), Timestamp: now})[:record.HeaderSize]
	b = append(b, body.Bytes()...)
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	binary.BigEndian.PutUint16(b[21:], uint16(codec))
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

func str(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// bareSnappy is snappy without framing: all of it is one block.
type bareSnappy struct {
	out *bytes.Buffer
	all []byte
}

func (s *bareSnappy) Write(p []byte) (int, error) { s.all = append(s.all, p...); return len(p), nil }
func (s *bareSnappy) Close() error {
	_, err := s.out.Write(snappy.Encode(nil, s.all))
	return err
}

// Small batches that inflate to gigabytes, of many clients at once, take the memory of some
// windows.
func TestBombsTakeABoundedAmountOfMemory(t *testing.T) {
	r := start(t, t.TempDir(), nil, nil)
	defer r.stop()
	r.createTopic("plain", 1, nil)
	r.createTopic("uncompressed", 1, map[string]string{"compression.type": "uncompressed"})
	r.createTopic("gzip", 1, map[string]string{"compression.type": "gzip"})
	large, invalid := kerr.MessageTooLarge.Code, kerr.InvalidRecord.Code
	for _, c := range []struct {
		codec   record.Codec
		topic   string
		n       int
		lying   bool
		code    int16
		clients int
	}{
		{record.Zstd, "plain", 2<<30 - 1<<10, false, large, 2}, // the limit of the work is a gigabyte
		{record.Zstd, "plain", 64 << 20, false, 0, 12},
		{record.Zstd, "plain", 64 << 20, true, invalid, 12},
		{record.Gzip, "plain", 64 << 20, true, invalid, 12},
		{record.Lz4, "plain", 64 << 20, true, invalid, 12},
		{record.Snappy, "plain", 19 << 20, true, invalid, 12},
		{record.Zstd, "uncompressed", 64 << 20, false, large, 12},
		{record.Zstd, "gzip", 200 << 20, false, large, 12},
		{record.Zstd, "gzip", 50 << 20, false, 0, 12},
	} {
		b := bomb(t, c.codec, c.n, c.lying)
		began := time.Now()
		grew := peak(func() {
			var wg sync.WaitGroup
			for range c.clients {
				w := r.raw()
				wg.Add(1)
				go func() {
					defer wg.Done()
					if p := w.produced(9, 1, c.topic, [16]byte{}, 0, b); p.ErrorCode != c.code {
						t.Errorf("%v of %d bytes to %s: %v (%s), want %v", c.codec, c.n, c.topic, kerr.ErrorForCode(p.ErrorCode), str(p.ErrorMessage), kerr.ErrorForCode(c.code))
					}
				}()
			}
			wg.Wait()
		})
		t.Logf("%d × %v of %d bytes to %d MB, to %s, lying %v: %d MB in %v", c.clients, c.codec, len(b), c.n>>20, c.topic, c.lying, grew>>20, time.Since(began))
		if grew > 350<<20 {
			t.Errorf("%v to %s: %d MB", c.codec, c.topic, grew>>20)
		}
	}
}

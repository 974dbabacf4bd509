package record_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"seedlog/storage/record"
	"seedlog/storage/record/recordtest"
)

func TestEveryTruncationIsAnError(t *testing.T) {
	dec := new(record.Decompressor)
	for _, codec := range codecs {
		batch := golden(t, "batch-"+codec.String())
		for cut := range len(batch) {
			if _, err := record.ValidateProduce(batch[:cut], anyLimits(), dec); err == nil {
				t.Fatalf("%v: the first %d bytes pass", codec, cut)
			}
			// Sealed again, so that the records themselves are cut off.
			if cut < record.HeaderSize {
				continue
			}
			short := bytes.Clone(batch[:cut])
			put32(8, int32(cut-record.LogOverhead))(short)
			if _, err := record.ValidateProduce(short, anyLimits(), dec); !errors.Is(err, record.ErrInvalid) {
				t.Fatalf("%v: records cut to %d bytes: %v", codec, cut, err)
			}
		}
	}
}

// plain builds a sealed batch with one record of these bytes.
func plain(body []byte) []byte {
	b, _ := recordtest.Batch(record.NewOptions(0), []record.Record{{Timestamp: 5}})
	b = append(b[:record.HeaderSize], body...)
	put32(8, int32(len(b)-record.LogOverhead))(b)
	return b
}

func TestLyingLengthsAreRefused(t *testing.T) {
	huge := []byte{0xfe, 0xff, 0xff, 0xff, 0x0f} // 2^31-1
	cat := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	cases := map[string][]byte{
		"record length 0":           {0},
		"record length -1":          {1},
		"record length huge":        cat(huge, make([]byte, 20)),
		"record length beyond":      {0x20, 0, 0, 0, 1, 1, 0},
		"record length short":       {0x0a, 0, 0, 0, 1, 1, 0},
		"varint without end":        {0x0c, 0, 0, 0, 1, 1, 0x80},
		"length varint of 6 bytes":  {0x8c, 0x80, 0x80, 0x80, 0x80, 0, 0, 0, 0, 1, 1, 0},
		"length varint overflowing": {0xfe, 0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 1, 1, 0},
		"timestamp of 11 bytes":     cat([]byte{0x20, 0}, bytes.Repeat([]byte{0x80}, 10), []byte{0, 0, 1, 1, 0}),
		"key length -2":             {0x0c, 0, 0, 0, 3, 1, 0},
		"key length huge":           cat([]byte{0x18, 0, 0, 0}, huge, []byte{1, 0, 0, 0}),
		"value length -2":           {0x0c, 0, 0, 0, 1, 3, 0},
		"value length huge":         cat([]byte{0x18, 0, 0, 0, 1}, huge, []byte{0, 0, 0}),
		"header count -1":           {0x0c, 0, 0, 0, 1, 1, 1},
		"header count huge":         cat([]byte{0x18, 0, 0, 0, 1, 1}, huge, []byte{0, 0}),
		"header key null":           {0x10, 0, 0, 0, 1, 1, 2, 1, 1},
		"header key huge":           cat([]byte{0x1a, 0, 0, 0, 1, 1, 2}, huge, []byte{0}),
		"header value -2":           {0x10, 0, 0, 0, 1, 1, 2, 0, 3},
		"bytes after the record":    {0x0c, 0, 0, 0, 1, 1, 0, 9},
	}
	good := []byte{0x0c, 0, 0, 0, 1, 1, 0}
	if _, err := record.ValidateProduce(plain(good), anyLimits(), nil); err != nil {
		t.Fatalf("the smallest record there is: %v", err)
	}
	for name, body := range cases {
		batch := plain(body)
		if _, err := record.ValidateProduce(batch, anyLimits(), nil); !errors.Is(err, record.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		if it := record.NewRecords(batch, nil, 0); count(it) > 1 || it.Err() == nil {
			t.Errorf("%s: reads without error", name)
		}
		for _, codec := range codecs[1:4] {
			packed := append(batch[:record.HeaderSize:record.HeaderSize], recordtest.Compress(codec, body)...)
			put32(8, int32(len(packed)-record.LogOverhead))(packed)
			put16(21, int16(codec))(packed)
			if _, err := record.ValidateProduce(packed, anyLimits(), nil); !errors.Is(err, record.ErrInvalid) {
				t.Errorf("%s as %v: %v", name, codec, err)
			}
		}
	}
}

// bomb compresses n zero bytes behind the start of a record that claims them as its value.
func bomb(t *testing.T, codec record.Codec, n int) []byte {
	t.Helper()
	var out bytes.Buffer
	var w interface {
		Write([]byte) (int, error)
		Close() error
	}
	var err error
	switch codec {
	case record.Gzip:
		w, err = gzip.NewWriterLevel(&out, 9)
	case record.Lz4:
		z := lz4.NewWriter(&out)
		err = z.Apply(lz4.ConcurrencyOption(1), lz4.BlockSizeOption(lz4.Block4Mb))
		w = z
	case record.Zstd:
		w, err = zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	}
	if err != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, 1<<20)
	for range n >> 20 {
		if _, err := w.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	batch := plain(out.Bytes())
	return put16(21, int16(codec))(batch)
}

func TestABombDoesNotFillTheMemory(t *testing.T) {
	for codec, inflated := range map[record.Codec]int{record.Zstd: 1 << 30, record.Gzip: 1 << 27, record.Lz4: 1 << 28} {
		// Behind a length of 2^31-1 everything is skipped: the worst a batch can ask for.
		head := recordOf(1<<31 - 20)
		batch := bomb(t, codec, inflated)
		packed := chain(t, codec, head, batch)
		d := new(record.Decompressor)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		info, err := record.ValidateProduce(packed, anyLimits(), d)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, record.ErrInvalid) {
			t.Fatalf("%v: %+v %v", codec, info, err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 40<<20 {
			t.Errorf("%v: %d bytes inflating to %d took %d of memory", codec, len(packed), inflated, used)
		}
		lim := anyLimits()
		lim.InflatedMaxBytes = 1 << 20
		if _, err := record.ValidateProduce(packed, lim, d); !errors.Is(err, record.ErrTooLarge) {
			t.Errorf("%v: with a limit: %v", codec, err)
		}
		it := record.NewRecords(packed, d, 1<<20)
		if it.Next() || !errors.Is(it.Err(), record.ErrTooLarge) {
			t.Errorf("%v: iterated with a limit: %v", codec, it.Err())
		}
	}
}

// recordOf is the start of a record whose value is n bytes long.
func recordOf(n int32) []byte {
	var b []byte
	put := func(v int32) {
		u := uint32(v<<1) ^ uint32(v>>31)
		for u >= 0x80 {
			b = append(b, byte(u)|0x80)
			u >>= 7
		}
		b = append(b, byte(u))
	}
	put(n + 10) // attributes, deltas, key and value lengths, headers
	b = append(b, 0, 0, 0, 1)
	put(n)
	return b
}

// chain puts another stream of the codec before that of the batch: each of them allows it.
func chain(t *testing.T, codec record.Codec, head, batch []byte) []byte {
	t.Helper()
	var first []byte
	if codec == record.Zstd {
		z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		first = z.EncodeAll(head, nil)
	} else {
		first = recordtest.Compress(codec, head)
	}
	out := bytes.Join([][]byte{batch[:record.HeaderSize], first, batch[record.HeaderSize:]}, nil)
	return put32(8, int32(len(out)-record.LogOverhead))(out)
}

func TestSnappyBlocksAreBelievedOnlyAsFarAsTheyCanGo(t *testing.T) {
	lie := []byte{0xff, 0xff, 0xff, 0xff, 0x07, 0, 0} // a bare block of 2^31-1 bytes
	big := snappy.Encode(nil, make([]byte, 4<<20))
	for name, body := range map[string][]byte{
		"lying block":      lie,
		"no block":         {},
		"framed, no block": []byte("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"),
		"framed, cut":      []byte("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x09\x00"),
		"framed, negative": []byte("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01\xff\xff\xff\xff"),
		"beyond the bound": big,
	} {
		batch := put16(21, int16(record.Snappy))(plain(body))
		d := &record.Decompressor{BlockMaxBytes: 1 << 20}
		if _, err := record.ValidateProduce(batch, anyLimits(), d); !errors.Is(err, record.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestALyingSnappyBlockGetsNoMemory(t *testing.T) {
	claim := []byte{0x80, 0x80, 0x80, 0x08, 0, 0} // 16 MiB, within the bound
	batch := put16(21, int16(record.Snappy))(plain(claim))
	d := new(record.Decompressor)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := record.ValidateProduce(batch, anyLimits(), d)
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, record.ErrInvalid) || used > 1<<20 {
		t.Errorf("%v, %d bytes taken", err, used)
	}
}

func TestAWindowBeyondTheBoundIsRefused(t *testing.T) {
	z, err := zstd.NewWriter(nil, zstd.WithWindowSize(8<<20), zstd.WithSingleSegment(false))
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(13, 14))
	big := make([]byte, 9<<20)
	for i := range big {
		big[i] = byte(r.IntN(256))
	}
	batch := put16(21, int16(record.Zstd))(plain(z.EncodeAll(big, nil)))
	d := &record.Decompressor{WindowMaxBytes: 1 << 20}
	if _, err := record.ValidateProduce(batch, anyLimits(), d); !errors.Is(err, record.ErrInvalid) {
		t.Errorf("%v", err)
	}
}

func TestADecompressorSurvivesWhatItRefused(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	d := new(record.Decompressor)
	for range 300 {
		codec := codecs[r.IntN(len(codecs))]
		batch := golden(t, "batch-"+codec.String())
		bent := bytes.Clone(batch)
		for range 1 + r.IntN(4) {
			bent[record.HeaderSize+r.IntN(len(bent)-record.HeaderSize)] ^= byte(1 + r.IntN(255))
		}
		_, _ = record.ValidateProduce(reseal(bent), anyLimits(), d) // whatever it says
		if _, err := record.ValidateProduce(batch, anyLimits(), d); err != nil {
			t.Fatalf("%v after a bad batch: %v", codec, err)
		}
	}
}

// count is how many records can be read.
func count(it *record.Records) (n int) {
	for it.Next() {
		n++
	}
	return n
}

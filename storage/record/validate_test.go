package record_test

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"seedlog/storage/record"
	"seedlog/storage/record/recordtest"
)

// reseal computes the CRC of a batch that a test has bent.
func reseal(b []byte) []byte {
	ms := int64(binary.BigEndian.Uint64(b[35:]))
	if binary.BigEndian.Uint16(b[21:])&8 != 0 {
		record.SetLogAppendTime(b, ms^1)
		record.SetLogAppendTime(b, ms)
	} else {
		record.SetMaxTimestamp(b, ms^1)
		record.SetMaxTimestamp(b, ms)
	}
	return b
}

func put16(at int, v int16) func([]byte) []byte {
	return func(b []byte) []byte { binary.BigEndian.PutUint16(b[at:], uint16(v)); return reseal(b) }
}

func put32(at int, v int32) func([]byte) []byte {
	return func(b []byte) []byte { binary.BigEndian.PutUint32(b[at:], uint32(v)); return reseal(b) }
}

func TestWhatAProducerMayNotSend(t *testing.T) {
	cases := []struct {
		name string
		bend func(b []byte) []byte
		lim  func(l *record.Limits)
		want error
	}{
		{"nothing at all", func([]byte) []byte { return nil }, nil, record.ErrShort},
		{"half a header", func(b []byte) []byte { return b[:40] }, nil, record.ErrShort},
		{"magic 1", func(b []byte) []byte { b[16] = 1; return b }, nil, record.ErrMagic},
		{"magic 3", func(b []byte) []byte { b[16] = 3; return b }, nil, record.ErrMagic},
		{"a length below the header", func(b []byte) []byte { b[11] = 48; b[10] = 0; return b }, nil, record.ErrCorrupt},
		{"a negative length", func(b []byte) []byte { b[8] = 0x80; return b }, nil, record.ErrCorrupt},
		{"a byte more", func(b []byte) []byte { return append(b, 0) }, nil, record.ErrInvalid},
		{"a byte less", func(b []byte) []byte { return b[:len(b)-1] }, nil, record.ErrInvalid},
		{"two batches", func(b []byte) []byte { return append(b, b...) }, nil, record.ErrInvalid},
		{"base offset 1", func(b []byte) []byte { b[7] = 1; return b }, nil, record.ErrInvalid},
		{"a flipped bit", func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, nil, record.ErrCorrupt},
		{"a flipped CRC", func(b []byte) []byte { b[17] ^= 1; return b }, nil, record.ErrCorrupt},
		{"codec 5", put16(21, 5), nil, record.ErrCodec},
		{"zstd in Produce 6", put16(21, 4), func(l *record.Limits) { l.ProduceVersion = 6 }, record.ErrCodec},
		{"a control batch", put16(21, 0x20), nil, record.ErrInvalid},
		{"a delete horizon", put16(21, 0x40), nil, record.ErrInvalid},
		{"LogAppendTime", put16(21, 0x08), nil, record.ErrInvalidTimestamp},
		{"a count of 0", put32(57, 0), nil, record.ErrInvalid},
		{"a negative count", put32(57, -4), nil, record.ErrInvalid},
		{"a count that is not last offset delta + 1", put32(57, 3), nil, record.ErrInvalid},
		{"a last offset delta beyond the count", put32(23, 1<<30), nil, record.ErrInvalid},
		{"more counted than there are", func(b []byte) []byte { put32(57, 5)(b); return put32(23, 4)(b) }, nil, record.ErrInvalid},
		{"less counted than there are", func(b []byte) []byte { put32(57, 3)(b); return put32(23, 2)(b) }, nil, record.ErrInvalid},
		{"a negative sequence", put32(53, -1), nil, record.ErrInvalid},
		{"a negative epoch", put16(51, -1), nil, record.ErrInvalid},
		{"a transaction without producer", func(b []byte) []byte {
			copy(b[43:], "\xff\xff\xff\xff\xff\xff\xff\xff")
			return put16(21, 0x10)(b)
		}, nil, record.ErrInvalid},
		{"records without key in a compacted topic", nil, func(l *record.Limits) { l.RequireKey = true }, record.ErrInvalid},
		{"records of the past", nil, func(l *record.Limits) { l.BeforeMaxMs = 5 }, record.ErrInvalidTimestamp},
		{"records of the future", nil, func(l *record.Limits) { l.AfterMaxMs = 5 }, record.ErrInvalidTimestamp},
		{"more than max.message.bytes", nil, func(l *record.Limits) { l.MaxBytes = 100 }, record.ErrTooLarge},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			batch, lim := golden(t, "batch-none"), anyLimits()
			if c.bend != nil {
				batch = c.bend(batch)
			}
			if c.lim != nil {
				c.lim(&lim)
			}
			if _, err := record.ValidateProduce(batch, lim, nil); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestRefusedRecordsAreNamed(t *testing.T) {
	lim := anyLimits()
	lim.RequireKey, lim.AfterMaxMs = true, 5
	_, err := record.ValidateProduce(golden(t, "batch-snappy"), lim, nil)
	var bad *record.ValidationError
	if !errors.As(err, &bad) || bad.Total != 1 || bad.Records[0].Index != 1 {
		t.Fatalf("%v", err) // without key and too new at once: the key is looked at first
	}
	lim.AfterMaxMs = 0
	_, err = record.ValidateProduce(golden(t, "batch-snappy"), lim, nil)
	if !errors.As(err, &bad) || !errors.Is(err, record.ErrInvalidTimestamp) || bad.Total != 2 || bad.Records[1].Index != 3 {
		t.Fatalf("%+v", err) // one timestamp is enough to make it INVALID_TIMESTAMP
	}
}

func TestTheErrorsOfAFullBatchAreBounded(t *testing.T) {
	records := make([]record.Record, 10_000)
	for i := range records {
		records[i].Timestamp = recordtest.NowMs
	}
	batch, _ := recordtest.Batch(record.NewOptions(0), records)
	lim := anyLimits()
	lim.RequireKey = true
	_, err := record.ValidateProduce(batch, lim, nil)
	var bad *record.ValidationError
	if !errors.As(err, &bad) || bad.Total != 10_000 || len(bad.Records) != 128 {
		t.Fatalf("%v", err)
	}
}

func TestTimestampLimitsHoldAtTheirEdges(t *testing.T) {
	const now = recordtest.NowMs
	for _, c := range []struct {
		ts, before, after int64
		ok                bool
	}{
		{now - 10, 10, 5, true}, {now - 11, 10, 5, false}, {now + 5, 10, 5, true}, {now + 6, 10, 5, false},
		{record.NoTimestamp, 0, 0, true}, {0, 1<<63 - 1, 0, true}, {1<<63 - 1, 0, 1<<63 - 1, true}, {-1 << 63, 1<<63 - 1, 0, false},
	} {
		batch, _ := recordtest.Batch(record.NewOptions(0), []record.Record{{Timestamp: c.ts}})
		lim := record.Limits{NowMs: now, BeforeMaxMs: c.before, AfterMaxMs: c.after}
		if _, err := record.ValidateProduce(batch, lim, nil); (err == nil) != c.ok {
			t.Errorf("timestamp now%+d with before %d, after %d: %v", c.ts-now, c.before, c.after, err)
		}
		lim.TimestampType = record.LogAppendTime
		if _, err := record.ValidateProduce(batch, lim, nil); err != nil {
			t.Errorf("with LogAppendTime timestamps do not matter: %v", err)
		}
	}
}

func TestDeltasMustBeConsecutive(t *testing.T) {
	b := record.NewBuilder(record.NewOptions(0), nil)
	b.AppendAt(record.Record{Offset: 0})
	b.AppendAt(record.Record{Offset: 2})
	batch, err := b.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	put32(23, 1)(batch) // count 2, last offset delta 1, but the deltas are 0 and 2
	if _, err := record.ValidateProduce(batch, anyLimits(), nil); !errors.Is(err, record.ErrInvalid) {
		t.Errorf("%v", err)
	}
}

func TestAdmitCorrectsTheLargestTimestamp(t *testing.T) {
	for _, codec := range codecs {
		batch := golden(t, "batch-"+codec.String())
		record.SetMaxTimestamp(batch, 12345)
		info, err := record.Admit(batch, anyLimits(), nil)
		if err != nil || info.Header.MaxTimestamp != 1_700_000_000_007 || info.MaxTimestamp != info.Header.MaxTimestamp {
			t.Fatalf("%v: %+v %v", codec, info, err)
		}
		if err := record.CheckCRC(batch); err != nil {
			t.Fatalf("%v: %v", codec, err)
		}
		lim := anyLimits()
		lim.TimestampType = record.LogAppendTime
		info, err = record.Admit(batch, lim, nil)
		if err != nil || info.MaxTimestamp != lim.NowMs || info.Header.TimestampType() != record.LogAppendTime {
			t.Fatalf("%v: %+v %v", codec, info, err)
		}
		if err := record.CheckCRC(batch); err != nil {
			t.Fatalf("%v: %v", codec, err)
		}
	}
}

func TestTheWalkAllocatesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	batch, _ := recordtest.Batch(record.NewOptions(0), recordtest.Records(r, 500))
	lim := anyLimits()
	n := testing.AllocsPerRun(50, func() {
		if _, err := record.Admit(batch, lim, nil); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations to walk an uncompressed batch", n)
	}
}

func TestACompressedWalkReusesItsCodecs(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, codec := range codecs[1:] {
		o := record.NewOptions(0)
		o.Codec = codec
		batch, _ := recordtest.Batch(o, recordtest.Records(r, 500))
		d, lim := new(record.Decompressor), anyLimits()
		n := testing.AllocsPerRun(50, func() {
			if _, err := record.ValidateProduce(batch, lim, d); err != nil {
				t.Fatal(err)
			}
		})
		if n > 8 { // lz4 makes a block and its hash state anew
			t.Errorf("%v: %v allocations in a warm walk", codec, n)
		}
	}
}

func TestDecodersKeepsAFew(t *testing.T) {
	l := record.Decoders{Keep: 2, BlockMaxBytes: 77}
	a, b, c := l.Get(), l.Get(), l.Get()
	l.Put(a)
	l.Put(b)
	l.Put(c)
	if l.Get() != b || l.Get() != a {
		t.Error("the idle ones were not reused")
	}
	if d := l.Get(); d == c || d.BlockMaxBytes != 77 {
		t.Error("more were kept than asked for, or the bound is lost")
	}
}

func benchmarkWalk(b *testing.B, codec record.Codec, size int) {
	r := rand.New(rand.NewPCG(11, 12))
	records := make([]record.Record, 100_000/size)
	for i := range records {
		records[i] = record.Record{Timestamp: recordtest.NowMs, Value: make([]byte, size)}
		for j := range records[i].Value {
			records[i].Value[j] = byte(r.IntN(16))
		}
	}
	o := record.NewOptions(0)
	o.Codec = codec
	batch, _ := recordtest.Batch(o, records)
	lim, d := anyLimits(), new(record.Decompressor)
	info, err := record.ValidateProduce(batch, lim, d)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(info.InflatedBytes)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := record.ValidateProduce(batch, lim, d); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkValidatePlain100(b *testing.B)  { benchmarkWalk(b, record.None, 100) }
func BenchmarkValidatePlain1000(b *testing.B) { benchmarkWalk(b, record.None, 1000) }
func BenchmarkValidateGzip(b *testing.B)      { benchmarkWalk(b, record.Gzip, 200) }
func BenchmarkValidateSnappy(b *testing.B)    { benchmarkWalk(b, record.Snappy, 200) }
func BenchmarkValidateLz4(b *testing.B)       { benchmarkWalk(b, record.Lz4, 200) }
func BenchmarkValidateZstd(b *testing.B)      { benchmarkWalk(b, record.Zstd, 200) }

func BenchmarkCRC(b *testing.B) {
	batch := make([]byte, 100_000)
	binary.BigEndian.PutUint32(batch[8:], uint32(len(batch)-12))
	batch[16] = 2
	b.SetBytes(int64(len(batch)))
	for b.Loop() {
		_ = record.CheckCRC(batch)
	}
}

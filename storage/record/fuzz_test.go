package record_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"seedlog/storage/record"
	"seedlog/storage/record/recordtest"
)

// FuzzBatch holds the walk and the iterator against each other: whatever the walk admits is read
// in full, with the count and the largest timestamp that the walk found. Nothing panics.
func FuzzBatch(f *testing.F) {
	for _, codec := range codecs {
		f.Add(golden(f, "batch-"+codec.String()))
	}
	r := rand.New(rand.NewPCG(21, 22))
	for range 5 {
		b, _ := recordtest.Produced(r, 20)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := record.ParseHeader(b); err == nil && h.Size() == len(b) {
			reseal(b) // or the CRC would hide the rest
		}
		lim := anyLimits()
		lim.InflatedMaxBytes = 1 << 20
		d := &record.Decompressor{WindowMaxBytes: 1 << 20, BlockMaxBytes: 1 << 20}
		info, err := record.ValidateProduce(b, lim, d)
		it := record.NewRecords(b, d, 1<<20)
		count, maxTs := int32(0), record.NoTimestamp
		for it.Next() {
			count++
			maxTs = max(maxTs, it.Record().Timestamp)
		}
		if err != nil {
			return
		}
		if it.Err() != nil || count != info.Count || maxTs != info.MaxTimestamp {
			t.Fatalf("walk: %+v; iterator: %d records, largest timestamp %d, %v", info, count, maxTs, it.Err())
		}
		out, err := record.Recompress(nil, b, record.Lz4, record.DefaultLevel, d, new(record.Compressor), 1<<20, 0)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := record.ValidateProduce(out, lim, d); err != nil || again.MaxTimestamp != maxTs {
			t.Fatalf("recompressed: %+v %v", again, err)
		}
	})
}

// FuzzMessageSet reads whatever it is given; what it reads has lengths that add up.
func FuzzMessageSet(f *testing.F) {
	for magic := int8(0); magic <= 1; magic++ {
		f.Add(recordtest.AppendMessage(nil, magic, legacyRecords(magic)[0]))
		for _, codec := range codecs[1:4] {
			f.Add(recordtest.AppendWrapper(nil, magic, codec, magic == 1, 5, legacyRecords(magic)))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		it := record.NewMessages(b)
		end := 0
		for it.Next() {
			m := it.Message()
			if it.Position() != end || m.Size < record.LogOverhead+14 {
				t.Fatalf("message of %d bytes at %d, the last ended at %d", m.Size, it.Position(), end)
			}
			end = it.Position() + m.Size
			d := &record.Decompressor{BlockMaxBytes: 1 << 20}
			if _, err := m.Records(d, 1<<20); err != nil && !errors.Is(err, record.ErrInvalid) &&
				!errors.Is(err, record.ErrTooLarge) && !errors.Is(err, record.ErrCodec) && !errors.Is(err, record.ErrCorrupt) {
				t.Fatalf("an error of no kind: %v", err)
			}
		}
	})
}

package record_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"seedlog/storage/record"
	"seedlog/storage/record/recordtest"
)

// go test ./storage/record -run Golden -update regenerates testdata/*.hex from franz-go's encoder.
var update = flag.Bool("update", false, "regenerate testdata from franz-go's encoder")

var codecs = []record.Codec{record.None, record.Gzip, record.Snappy, record.Lz4, record.Zstd}

// anyLimits accepts every batch that is well formed.
func anyLimits() record.Limits {
	return record.Limits{NowMs: recordtest.NowMs, BeforeMaxMs: 1<<63 - 1, AfterMaxMs: 1<<63 - 1, ProduceVersion: 12}
}

// franzBatch builds a batch with franz-go's types and compressors, which share no code with ours.
func franzBatch(t testing.TB, codec record.Codec, records []record.Record, pid int64, epoch int16, seq int32) []byte {
	var body []byte
	base, maxTs := records[0].Timestamp, int64(-1)
	for i, r := range records {
		k := kmsg.NewRecord()
		k.TimestampDelta64, k.OffsetDelta, k.Key, k.Value = r.Timestamp-base, int32(i), r.Key, r.Value
		for _, h := range r.Headers {
			k.Headers = append(k.Headers, kmsg.Header{Key: h.Key, Value: h.Value})
		}
		k.Length = int32(len(k.AppendTo(nil)) - 1) // a length of 0 takes one byte
		body = k.AppendTo(body)
		maxTs = max(maxTs, r.Timestamp)
	}
	if codec != record.None {
		body = franzCompress(t, codec, body)
	}
	b := kmsg.NewRecordBatch()
	b.Magic, b.Attributes, b.PartitionLeaderEpoch = 2, int16(codec), -1
	b.LastOffsetDelta, b.NumRecords = int32(len(records)-1), int32(len(records))
	b.FirstTimestamp, b.MaxTimestamp = base, maxTs
	b.ProducerID, b.ProducerEpoch, b.FirstSequence = pid, epoch, seq
	b.Records = body
	b.Length = int32(record.HeaderSize - record.LogOverhead + len(body))
	out := b.AppendTo(nil)
	record.SetMaxTimestamp(out, maxTs+1) // has the CRC computed
	record.SetMaxTimestamp(out, maxTs)
	return out
}

func franzCompress(t testing.TB, codec record.Codec, body []byte) []byte {
	pick := map[record.Codec]kgo.CompressionCodec{
		record.Gzip: kgo.GzipCompression(), record.Snappy: kgo.SnappyCompression(),
		record.Lz4: kgo.Lz4Compression(), record.Zstd: kgo.ZstdCompression(),
	}
	c, err := kgo.DefaultCompressor(pick[codec])
	if err != nil {
		t.Fatal(err)
	}
	out, got := c.Compress(new(bytes.Buffer), body)
	if int(got) != int(codec) {
		t.Fatalf("franz-go compressed with codec %d, not %v", got, codec)
	}
	return out
}

func goldenRecords() []record.Record {
	return []record.Record{
		{Timestamp: 1_700_000_000_000, Key: []byte("key"), Value: []byte("value")},
		{Timestamp: 1_700_000_000_007, Value: []byte{}},
		{Timestamp: 1_699_999_999_990, Key: []byte{}, Headers: []record.RecordHeader{{Key: "h", Value: []byte("v")}, {Key: "", Value: nil}}},
		{Timestamp: 1_700_000_000_001, Key: []byte("long"), Value: bytes.Repeat([]byte("seedlog "), 300)},
	}
}

func golden(t testing.TB, name string) []byte {
	text, err := os.ReadFile(filepath.Join("testdata", name+".hex"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeGolden(t testing.TB, name string, b []byte) {
	text := hex.EncodeToString(b)
	var lines strings.Builder
	for len(text) > 0 {
		n := min(64, len(text))
		lines.WriteString(text[:n] + "\n")
		text = text[n:]
	}
	if err := os.WriteFile(filepath.Join("testdata", name+".hex"), []byte(lines.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// readBack returns the records of one batch, copied.
func readBack(t testing.TB, batch []byte, d *record.Decompressor) []record.Record {
	t.Helper()
	it := record.NewRecords(batch, d, 1<<30)
	var list []record.Record
	for it.Next() {
		list = append(list, clone(*it.Record()))
	}
	if err := it.Err(); err != nil {
		t.Fatalf("reading a batch back: %v", err)
	}
	return list
}

func clone(r record.Record) record.Record {
	r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
	var hs []record.RecordHeader
	for _, h := range r.Headers {
		hs = append(hs, record.RecordHeader{Key: h.Key, Value: bytes.Clone(h.Value)})
	}
	r.Headers = hs
	return r
}

// diffRecords compares and keeps null and empty apart.
func diffRecords(want, got []record.Record) string {
	return cmp.Diff(want, got, cmp.Comparer(func(a, b []byte) bool {
		return (a == nil) == (b == nil) && bytes.Equal(a, b)
	}))
}

func TestGoldenBatchesOfFranzGoAreReadAndBuiltAlike(t *testing.T) {
	for _, codec := range codecs {
		t.Run(codec.String(), func(t *testing.T) {
			name := "batch-" + codec.String()
			if *update {
				writeGolden(t, name, franzBatch(t, codec, goldenRecords(), 4711, 3, 100))
			}
			batch := golden(t, name)
			info, err := record.ValidateProduce(batch, anyLimits(), nil)
			if err != nil {
				t.Fatalf("a batch of franz-go was refused: %v", err)
			}
			if info.MaxTimestamp != 1_700_000_000_007 || info.OffsetOfMaxTimestamp != 1 || info.Count != 4 {
				t.Errorf("walk found %+v", info)
			}
			want := goldenRecords()
			for i := range want {
				want[i].Offset = int64(i)
			}
			if d := diffRecords(want, readBack(t, batch, nil)); d != "" {
				t.Errorf("records read (-want +got):\n%s", d)
			}
			o := record.NewOptions(0)
			o.Codec, o.ProducerID, o.ProducerEpoch, o.BaseSequence = codec, 4711, 3, 100
			ours, err := record.AppendBatch(nil, o, nil, goldenRecords()...)
			if err != nil {
				t.Fatal(err)
			}
			if codec == record.None && !bytes.Equal(ours, batch) {
				t.Errorf("our bytes differ:\n%x\n%x", ours, batch)
			}
			if d := diffRecords(want, readBack(t, ours, nil)); d != "" {
				t.Errorf("our batch read back (-want +got):\n%s", d)
			}
		})
	}
}

func TestFranzGoReadsWhatWeCompress(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	dec := kgo.DefaultDecompressor()
	for _, codec := range codecs[1:] {
		for _, level := range []int{record.DefaultLevel, 1, 9} {
			records := recordtest.Records(r, 200)
			o := record.NewOptions(0)
			plain, _ := recordtest.Batch(o, records)
			o.Codec, o.Level = codec, level
			packed, _ := recordtest.Batch(o, records)
			got, err := dec.Decompress(packed[record.HeaderSize:], kgo.CompressionCodecType(codec))
			if err != nil {
				t.Fatalf("%v level %d: franz-go cannot read it: %v", codec, level, err)
			}
			if !bytes.Equal(got, plain[record.HeaderSize:]) {
				t.Fatalf("%v level %d: franz-go reads other bytes", codec, level)
			}
		}
	}
}

func TestEveryCodecRoundTrips(t *testing.T) {
	comp, dec := new(record.Compressor), new(record.Decompressor)
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		o := recordtest.Options(r)
		o.BaseOffset = rapid.Int64Range(0, 1<<40).Draw(t, "base")
		o.LeaderEpoch = r.Int32N(100)
		records := recordtest.Records(r, 1+r.IntN(60))
		if rapid.Bool().Draw(t, "large") { // straddles windows
			records[0].Value = bytes.Repeat([]byte("0123456789abcdef"), 5000+r.IntN(5000))
		}
		b := record.NewBuilder(o, comp)
		next := o.BaseOffset
		for i := range records {
			next += int64(r.IntN(3)) // gaps, as compaction leaves them
			records[i].Offset = next
			b.AppendAt(records[i])
			next++
		}
		batch, err := b.Build(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := record.CheckCRC(batch); err != nil {
			t.Fatal(err)
		}
		h, _ := record.ParseHeader(batch)
		if h.NextOffset() != next || h.Size() != len(batch) || int(h.Count) != len(records) || h.LeaderEpoch != o.LeaderEpoch {
			t.Fatalf("header %+v of a batch up to %d", h, next)
		}
		it := record.NewRecords(batch, dec, 0)
		var got []record.Record
		for it.Next() {
			got = append(got, clone(*it.Record()))
		}
		if it.Err() != nil {
			t.Fatal(it.Err())
		}
		if d := diffRecords(records, got); d != "" {
			t.Fatalf("records (-want +got):\n%s", d)
		}
	})
}

func TestRecompressionKeepsEverythingButTheCodec(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	comp, dec := new(record.Compressor), new(record.Decompressor)
	for _, from := range codecs {
		for _, to := range codecs {
			o := recordtest.Options(r)
			o.Codec = from
			batch, records := recordtest.Batch(o, recordtest.Records(r, 50))
			out, err := record.Recompress([]byte("before"), batch, to, record.DefaultLevel, dec, comp, 1<<20, 1<<20)
			if err != nil {
				t.Fatalf("%v to %v: %v", from, to, err)
			}
			out = out[len("before"):]
			if err := record.CheckCRC(out); err != nil {
				t.Fatalf("%v to %v: %v", from, to, err)
			}
			was, _ := record.ParseHeader(batch)
			is, _ := record.ParseHeader(out)
			if is.Codec() != to || is.Size() != len(out) {
				t.Fatalf("%v to %v: header %+v", from, to, is)
			}
			was.CRC, was.Length, was.Attributes, is.CRC, is.Length = 0, 0, is.Attributes, 0, 0
			if was != is {
				t.Fatalf("%v to %v changed the header: %+v, %+v", from, to, was, is)
			}
			if d := diffRecords(records, readBack(t, out, dec)); d != "" {
				t.Fatalf("%v to %v changed records (-want +got):\n%s", from, to, d)
			}
		}
	}
	batch, _ := recordtest.Batch(record.NewOptions(0), recordtest.Records(r, 500))
	if _, err := record.Recompress(nil, batch, record.Gzip, 1, dec, comp, 0, 100); !errors.Is(err, record.ErrTooLarge) {
		t.Errorf("recompressing beyond max.message.bytes: %v", err)
	}
}

func TestStampLeavesTheCRCAlone(t *testing.T) {
	batch := golden(t, "batch-none")
	record.Stamp(batch, 1<<50, 77)
	if err := record.CheckCRC(batch); err != nil {
		t.Fatal(err)
	}
	h, err := record.ParseHeader(batch)
	if err != nil || h.BaseOffset != 1<<50 || h.LeaderEpoch != 77 || h.LastOffset() != 1<<50+3 || h.NextOffset() != 1<<50+4 {
		t.Fatalf("%+v %v", h, err)
	}
	if h.LastSequence() != 103 || !h.HasProducerID() || h.IsControl() || h.IsTransactional() {
		t.Errorf("%+v", h)
	}
}

func TestTimestampsAreOnlyRewrittenWhereTheyDiffer(t *testing.T) {
	batch := golden(t, "batch-gzip")
	if record.SetMaxTimestamp(batch, 1_700_000_000_007) {
		t.Error("a right timestamp was written again")
	}
	if !record.SetLogAppendTime(batch, 1_800_000_000_000) {
		t.Error("append time not written")
	}
	if err := record.CheckCRC(batch); err != nil {
		t.Fatal(err)
	}
	h, _ := record.ParseHeader(batch)
	if h.TimestampType() != record.LogAppendTime || h.MaxTimestamp != 1_800_000_000_000 {
		t.Errorf("%+v", h)
	}
	for _, r := range readBack(t, batch, nil) {
		if r.Timestamp != 1_800_000_000_000 {
			t.Errorf("record at %d has timestamp %d, not the append time", r.Offset, r.Timestamp)
		}
	}
}

func TestSequencesWrap(t *testing.T) {
	const top = 1<<31 - 1
	for _, c := range []struct{ seq, n, sum int32 }{{0, 0, 0}, {5, 3, 8}, {top, 1, 0}, {top - 1, 4, 2}, {top, top, top - 1}} {
		if got := record.AddSequence(c.seq, c.n); got != c.sum {
			t.Errorf("%d + %d = %d, want %d", c.seq, c.n, got, c.sum)
		}
		if got := record.SubSequence(c.sum, c.n); got != c.seq {
			t.Errorf("%d - %d = %d, want %d", c.sum, c.n, got, c.seq)
		}
	}
}

func TestABatchEmptiedByCompactionKeepsItsProducer(t *testing.T) {
	h, _ := record.ParseHeader(golden(t, "batch-zstd"))
	h.BaseOffset = 40
	b := record.AppendEmptyBatch(nil, h)
	if err := record.CheckCRC(b); err != nil || len(b) != record.HeaderSize {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	got, _ := record.ParseHeader(b)
	if got.ProducerID != 4711 || got.LastSequence() != 103 || got.LastOffset() != 43 || got.Count != 0 || got.Codec() != record.None {
		t.Errorf("%+v", got)
	}
	if it := record.NewRecords(b, nil, 0); it.Next() || it.Err() != nil {
		t.Errorf("an empty batch has records, or %v", it.Err())
	}
}

func TestBatchesStopsAtAPartialBatch(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	log := recordtest.Log(r, 100, 4, 5)
	whole := 0
	for it := record.NewBatches(log); it.Next(); whole++ {
		if it.Position()+it.Header().Size() > len(log) || it.Header().LeaderEpoch != 4 {
			t.Fatalf("%+v at %d", it.Header(), it.Position())
		}
	}
	if whole != 5 {
		t.Fatalf("%d batches of 5", whole)
	}
	for cut := range len(log) {
		it := record.NewBatches(log[:cut])
		end := 0
		for it.Next() {
			end = it.Position() + len(it.Bytes())
		}
		if it.Err() != nil || end+len(it.Rest()) != cut {
			t.Fatalf("cut at %d: ends at %d with %d left, %v", cut, end, len(it.Rest()), it.Err())
		}
	}
}

func TestADeleteHorizonReplacesTheBaseTimestamp(t *testing.T) {
	o := record.NewOptions(7)
	o.DeleteHorizonMs = 5_000
	b, records := recordtest.Batch(o, []record.Record{{Timestamp: 1_000, Key: []byte("k")}, {Timestamp: 9_000, Key: []byte("l")}})
	h, _ := record.ParseHeader(b)
	if ms, ok := h.DeleteHorizonMs(); !ok || ms != 5_000 || h.MaxTimestamp != 9_000 {
		t.Errorf("%+v", h)
	}
	if d := diffRecords(records, readBack(t, b, nil)); d != "" {
		t.Error(d)
	}
}

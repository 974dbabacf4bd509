package producer_test

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"hash/crc32"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"seedlog/storage/producer"
)

// go test ./storage/producer -run Golden -update rewrites testdata; the bytes were checked by
// hand against the schema.
var update = flag.Bool("update", false, "rewrite testdata")

func goldenState() *producer.State {
	s := producer.NewState(0)
	s.Apply(&producer.Append{ProducerID: 4711, Epoch: 2, FirstSeq: 10, LastSeq: 13, FirstOffset: 100, LastOffset: 103, MaxTimestamp: 1_700_000_000_000})
	return s
}

func TestGoldenSnapshotOfOneProducerHas56Bytes(t *testing.T) {
	b := goldenState().Snapshot()
	const file = "testdata/one-producer.hex"
	if *update {
		if err := os.WriteFile(file, []byte(hex.EncodeToString(b)+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := hex.EncodeToString(b), strings.TrimSpace(string(text)); got != want || len(b) != 56 {
		t.Errorf("%d bytes\n got %s\nwant %s", len(b), got, want)
	}
	// The same from the schema, field by field.
	var body []byte
	body = binary.BigEndian.AppendUint32(body, 1)
	body = binary.BigEndian.AppendUint64(body, 4711)
	body = binary.BigEndian.AppendUint16(body, 2)
	body = binary.BigEndian.AppendUint32(body, 13)
	body = binary.BigEndian.AppendUint64(body, 103)
	body = binary.BigEndian.AppendUint32(body, 3)
	body = binary.BigEndian.AppendUint64(body, 1_700_000_000_000)
	body = binary.BigEndian.AppendUint32(body, 0xffffffff)
	body = binary.BigEndian.AppendUint64(body, 0xffffffffffffffff)
	want := binary.BigEndian.AppendUint32([]byte{0, 1}, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
	if want = append(want, body...); string(want) != string(b) {
		t.Errorf("by the schema:\n got %x\nwant %x", b, want)
	}
}

func TestASnapshotAnswersARepeatOfItsLastBatch(t *testing.T) {
	entries, err := producer.DecodeSnapshot(goldenState().Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	s := producer.NewState(0)
	s.Load(104, entries, 1_700_000_000_000, 1)
	dup, isDup, err := s.Check(&producer.Append{ProducerID: 4711, Epoch: 2, FirstSeq: 10, LastSeq: 13})
	if err != nil || !isDup || dup.FirstOffset() != 100 || dup.LastOffset != 103 {
		t.Errorf("%+v %v %v", dup, isDup, err)
	}
	// What came before is unknown now: no repeat, no success.
	if _, _, err := s.Check(&producer.Append{ProducerID: 4711, Epoch: 2, FirstSeq: 6, LastSeq: 9}); !errors.Is(err, producer.ErrOutOfOrder) {
		t.Errorf("%v", err)
	}
	s.Load(104, entries, 1_700_000_000_001, 1)
	if s.Len() != 0 || s.End() != 104 {
		t.Errorf("an expired producer was loaded: %d, end %d", s.Len(), s.End())
	}
}

func TestEveryDamageToASnapshotIsNoticed(t *testing.T) {
	good := goldenState().Snapshot()
	for cut := range len(good) {
		if _, err := producer.DecodeSnapshot(good[:cut]); !errors.Is(err, producer.ErrSnapshot) {
			t.Errorf("the first %d bytes: %v", cut, err)
		}
	}
	for i := range len(good) * 8 {
		bad := slices.Clone(good)
		bad[i/8] ^= 1 << (i % 8)
		if _, err := producer.DecodeSnapshot(bad); !errors.Is(err, producer.ErrSnapshot) {
			t.Errorf("bit %d: %v", i, err)
		}
	}
	if _, err := producer.DecodeSnapshot(append(slices.Clone(good), 0)); !errors.Is(err, producer.ErrSnapshot) {
		t.Errorf("a byte more: %v", err)
	}
}

// seal computes the CRC anew.
func seal(b []byte) []byte {
	if len(b) >= 10 {
		binary.BigEndian.PutUint32(b[2:], crc32.Checksum(b[6:], crc32.MakeTable(crc32.Castagnoli)))
	}
	return b
}

func TestASealedLieIsNoticed(t *testing.T) {
	good := goldenState().Snapshot()
	bend := func(at int, v byte) []byte { b := slices.Clone(good); b[at] = v; return seal(b) }
	twice := append(slices.Clone(good), good[10:]...)
	twice[9] = 2
	for name, b := range map[string][]byte{
		"count too large": bend(9, 2), "count negative": bend(6, 0x80), "count zero": bend(9, 0),
		"negative producer": bend(10, 0x80), "producer twice": seal(twice), "version 2": bend(1, 2),
	} {
		if _, err := producer.DecodeSnapshot(b); !errors.Is(err, producer.ErrSnapshot) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReloadPlan(t *testing.T) {
	for _, c := range []struct {
		snapshots            []int64
		start, end, stateEnd int64
		remove, load         []int64
		reload               bool
	}{
		{[]int64{30, 10, 20}, 0, 25, 35, []int64{30}, []int64{20, 10}, true},
		{[]int64{30, 10, 20}, 10, 30, 35, []int64{10}, []int64{30, 20}, true},
		{[]int64{30, 10, 20}, 15, 30, 30, []int64{10}, nil, false},
		{nil, 5, 9, 12, nil, nil, true},
	} {
		remove, load, reload := producer.ReloadPlan(c.snapshots, c.start, c.end, c.stateEnd)
		if !cmp.Equal(remove, c.remove) || len(load)+len(c.load) > 0 && !cmp.Equal(load, c.load) || reload != c.reload {
			t.Errorf("%+v: remove %v, load %v, reload %v", c, remove, load, reload)
		}
	}
}

func TestStraySnapshotsKeepsTheOneOfACleanStop(t *testing.T) {
	for _, c := range []struct{ snapshots, segments, want []int64 }{
		{[]int64{5, 10, 20, 35}, []int64{0, 10, 20}, []int64{5}},
		{[]int64{5, 10, 15}, []int64{0, 10, 20}, []int64{5, 15}},
		{[]int64{25, 35}, []int64{0, 20}, []int64{25}},
		{[]int64{7}, nil, nil},
		{nil, []int64{0}, nil},
	} {
		if got := producer.StraySnapshots(c.snapshots, c.segments); !slices.Equal(got, c.want) {
			t.Errorf("%v beside segments %v: %v, want %v", c.snapshots, c.segments, got, c.want)
		}
	}
}

// FuzzSnapshot decodes what it is given, sealed so that the CRC hides nothing; what decodes is
// encoded to a file that decodes to the same.
func FuzzSnapshot(f *testing.F) {
	f.Add(goldenState().Snapshot())
	f.Add(producer.EncodeSnapshot(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, err := producer.DecodeSnapshot(seal(b))
		if err != nil {
			return
		}
		again, err := producer.DecodeSnapshot(producer.EncodeSnapshot(entries))
		if d := cmp.Diff(entries, again, cmp.AllowUnexported(producer.Entry{})); err != nil || d != "" {
			t.Fatalf("%v (-first +again):\n%s", err, d)
		}
		s := producer.NewState(0)
		s.Load(1, entries, 0, 1)
		s.Expire(1<<40, 1)
	})
}

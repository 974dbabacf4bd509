package store

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"seedlog/checker"
)

// batch builds a batch of n empty records by hand.
func batch(base int64, n int, epoch int32, pid int64, seq int32) []byte {
	var body []byte
	for i := range n {
		rec := binary.AppendVarint([]byte{0}, 0) // attributes, timestamp delta
		rec = binary.AppendVarint(rec, int64(i)) // offset delta
		rec = append(rec, 1, 1)                  // null key, null value
		rec = binary.AppendVarint(rec, 0)        // headers
		body = binary.AppendVarint(body, int64(len(rec)))
		body = append(body, rec...)
	}
	be := binary.BigEndian
	b := make([]byte, headerBytes)
	be.PutUint64(b, uint64(base))
	be.PutUint32(b[8:], uint32(headerBytes-12+len(body)))
	be.PutUint32(b[12:], uint32(epoch))
	b[16] = 2
	be.PutUint32(b[23:], uint32(n-1))
	be.PutUint64(b[27:], 1000)
	be.PutUint64(b[35:], 1000)
	be.PutUint64(b[43:], uint64(pid))
	be.PutUint32(b[53:], uint32(seq))
	be.PutUint32(b[57:], uint32(n))
	b = append(b, body...)
	be.PutUint32(b[17:], crc32.Checksum(b[21:], castagnoli))
	return b
}

const headerBytes = 61

func logName(base int64, ext string) string { return fmt.Sprintf("%020d.%s", base, ext) }

func join(parts ...[]byte) []byte { return slices.Concat(parts...) }

func verdict(t *testing.T, files []File, o Options) checker.Verdict {
	t.Helper()
	p, v := Parse("t-0", files)
	v.Merge(p.Check(o))
	return v
}

func entry8(rel, pos uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, rel), pos)
}

func sound() []File {
	b0, b1, b2 := batch(0, 2, 0, 7, 0), batch(2, 3, 0, 7, 2), batch(5, 1, 3, 7, 5)
	return []File{
		{logName(0, "log"), join(b0, b1)},
		{logName(0, "index"), entry8(4, uint32(len(b0)))},
		{logName(0, "timeindex"), nil},
		{logName(5, "log"), b2},
		{logName(5, "index"), make([]byte, 64)},
		{"leader-epoch-checkpoint", []byte("0\n2\n0 0\n3 5\n")},
	}
}

func TestEachStoredFaultIsNamed(t *testing.T) {
	for _, c := range []struct {
		want  string
		spoil func(f []File) []File
	}{
		{"", func(f []File) []File { return f }},
		{"I11", func(f []File) []File { f[0].Data[70] ^= 1; return f }},
		{"I11", func(f []File) []File { f[3].Name = logName(6, "log"); return f }},
		{"I11", func(f []File) []File { f[3].Data = batch(6, 1, 3, 7, 5); return f }},
		{"I12", func(f []File) []File { f[5].Data = []byte("0\n1\n0 0\n"); return f }},
		{"I12", func(f []File) []File { f[5].Data = []byte("0\n2\n0 0\n3 4\n"); return f }},
		{"I12", func(f []File) []File { f[5].Data = []byte("0\n2\n3 0\n3 5\n"); return f }},
		{"I12", func(f []File) []File { f[5].Data = []byte("0\n3\n0 0\n2 5\n3 5\n"); return f }},
		{"I12", func(f []File) []File { f[5].Data = []byte("0\n9\n0 0\n"); return f }},
		{"I13", func(f []File) []File { f[1].Data = entry8(4, 1); return f }},
		{"I13", func(f []File) []File { f[1].Data = nil; return f }},
		{"I13", func(f []File) []File { return slices.Delete(f, 1, 2) }},
		{"I18", func(f []File) []File { f[3].Data = batch(5, 1, 3, 7, 6); return f }},
		{"I18", func(f []File) []File { f[3].Data = batch(5, 1, 3, 7, 2); return f }},
		{"I17", func(f []File) []File { return append(f, File{logName(5, "snapshot"), []byte("short")}) }},
		{"I13", func(f []File) []File {
			f[2].Data = append(binary.BigEndian.AppendUint64(nil, 999), 0, 0, 0, 1)
			return f
		}},
	} {
		v := verdict(t, c.spoil(sound()), Options{IndexIntervalBytes: 50})
		var got []string
		for _, x := range v.Violations {
			got = append(got, x.Invariant)
		}
		if c.want == "" && len(got) > 0 || c.want != "" && !slices.Contains(got, c.want) {
			t.Errorf("want %q, got %v", c.want, v.Violations)
		}
	}
}

func TestSealedSegmentsAreWholeUnlessTheyWereRemoved(t *testing.T) {
	for _, c := range []struct {
		point, start int64
		spoil        func(f []File) []File
		want         bool
	}{
		{5, 0, func(f []File) []File { return f }, false},
		{5, 4, func(f []File) []File { return slices.Delete(f, 1, 2) }, true},
		{5, 5, func(f []File) []File { return slices.Delete(f, 1, 2) }, false},
		{4, 0, func(f []File) []File { return slices.Delete(f, 1, 2) }, false},
		{5, 5, func(f []File) []File { return append(f, File{logName(5, "snapshot"), nil}) }, true},
	} {
		p, _ := Parse("t-0", c.spoil(sound()))
		v := p.CheckSealed(c.point, Options{IndexIntervalBytes: 50, LogStartOffset: c.start})
		if got := !v.OK(); got != c.want {
			t.Errorf("recovery point %d, log start %d: %v", c.point, c.start, v.Violations)
		}
	}
}

// A leader that began with nothing takes any sequence; only where it began.
func TestALeaderThatForgotTakesAnySequence(t *testing.T) {
	p, _ := Parse("t-0", []File{{logName(0, "log"), join(batch(0, 1, 0, 7, 0), batch(5, 1, 3, 7, 32))}})
	for _, c := range []struct {
		forgot []int64
		ok     bool
	}{{nil, false}, {[]int64{5}, true}, {[]int64{6}, false}, {[]int64{0}, false}} {
		var v checker.Verdict
		if p.checkSequences(&v, Options{Forgot: c.forgot}); v.OK() != c.ok {
			t.Errorf("forgot %v: %v", c.forgot, v.Violations)
		}
	}
}

// A leader whose log had begun anew takes any sequence of a producer that wrote below only, and
// that of no other.
func TestALeaderWhoseLogBeganAnewTakesAnySequence(t *testing.T) {
	p, _ := Parse("t-0", []File{{logName(0, "log"), join(batch(0, 5, 0, 7, 0), batch(5, 1, 3, 7, 32), batch(6, 1, 3, 7, 33))}})
	gap, _ := Parse("t-0", []File{{logName(0, "log"), join(batch(0, 5, 0, 7, 0), batch(5, 1, 3, 7, 32), batch(6, 1, 3, 7, 40))}})
	for _, c := range []struct {
		p    *Partition
		anew map[int32]int64
		ok   bool
	}{
		{p, nil, false}, {p, map[int32]int64{3: 5}, true}, {p, map[int32]int64{3: 4}, false}, {p, map[int32]int64{2: 5, 4: 5}, false},
		{gap, map[int32]int64{3: 5}, false},
	} {
		var v checker.Verdict
		if c.p.checkSequences(&v, Options{Anew: c.anew}); v.OK() != c.ok {
			t.Errorf("anew %v: %v", c.anew, v.Violations)
		}
	}
}

// A directory that failed while it was loaded leaves its logs recovered or as they were; what
// a torn sector made of the last batch's offset then still shows.
func TestALogThatWasNotRecoveredIsAsItWasFound(t *testing.T) {
	torn := join(batch(0, 7, 0, -1, -1), batch(0, 2, 0, -1, -1))
	before, _ := Parse("t-0", []File{{logName(0, "log"), torn}})
	r := before.Recover(0, 0, false)
	after, _ := Parse("t-0", []File{{logName(0, "log"), torn}})
	if v := r.CheckRecovered(after, true); r.LogEndOffset != 7 || !v.OK() {
		t.Errorf("end %d: %v", r.LogEndOffset, v.Violations)
	}
	if v := r.CheckRecovered(after, false); v.OK() {
		t.Error("a log that was to be recovered, and was not, is accepted")
	}
}

func TestRecoveryKeepsThePrefixAndOnlyThePrefix(t *testing.T) {
	before, _ := Parse("t-0", []File{{logName(0, "log"), join(batch(0, 2, 0, -1, -1), batch(2, 1, 0, -1, -1), []byte("torn"))}})
	r := before.Recover(0, 0, false)
	if r.LogEndOffset != 3 || r.Corrupt != "" {
		t.Fatalf("%+v", r)
	}
	ok, _ := Parse("t-0", []File{{logName(0, "log"), join(batch(0, 2, 0, -1, -1), batch(2, 1, 0, -1, -1), batch(3, 1, 1, -1, -1))}})
	if v := r.CheckRecovered(ok, true); !v.OK() {
		t.Error(v.Violations)
	}
	short, _ := Parse("t-0", []File{{logName(0, "log"), batch(0, 2, 0, -1, -1)}})
	if v := r.CheckRecovered(short, true); v.OK() || v.Violations[0].Invariant != "I16" {
		t.Errorf("a cut too deep was accepted: %v", v.Violations)
	}
	if r := before.Recover(9, 0, false); !strings.Contains(r.Corrupt, "below the recovery point 9") {
		t.Errorf("damage below the recovery point: %+v", r)
	}
	if r := before.Recover(0, 0, true); r.Corrupt == "" {
		t.Error("a torn tail under a clean marker is damage")
	}
}

// The segments 0 and 2 were deleted below the log start 3, and a power loss brought 0 back.
func TestRecoveryPassesOverWhatLiesBelowTheLogStart(t *testing.T) {
	before, _ := Parse("t-0", []File{
		{logName(0, "log"), batch(0, 2, 0, -1, -1)},
		{logName(3, "log"), join(batch(3, 1, 0, -1, -1), batch(4, 1, 0, -1, -1))},
	})
	if r := before.Recover(4, 3, false); r.LogEndOffset != 5 || r.Corrupt != "" {
		t.Errorf("%+v", r)
	}
	if r := before.Recover(4, 2, false); r.Corrupt == "" {
		t.Errorf("a gap above the log start was passed over: %+v", r)
	}
	if r := before.Recover(4, 9, false); r.LogEndOffset != 9 || r.Corrupt != "" {
		t.Errorf("a log below its start begins there anew: %+v", r)
	}
	if r := before.Recover(10, 9, false); r.Corrupt == "" {
		t.Errorf("synced batches above the log start are gone: %+v", r)
	}
}

// Offset and epoch lie outside the CRC: a batch torn there is sound by itself, and where it
// stands it ends the log.
func TestRecoveryEndsAtABatchThatDoesNotFollow(t *testing.T) {
	first, second := batch(0, 2, 3, -1, -1), batch(2, 1, 3, -1, -1)
	for what, torn := range map[string][]byte{"offset": batch(0, 1, 3, -1, -1), "epoch": batch(3, 1, 0, -1, -1)} {
		before, _ := Parse("t-0", []File{{logName(0, "log"), join(first, second, torn)}})
		r := before.Recover(3, 0, false)
		if r.LogEndOffset != 3 || r.Corrupt != "" {
			t.Errorf("%s: %+v", what, r)
		}
		after, _ := Parse("t-0", []File{{logName(0, "log"), join(first, second)}})
		if v := r.CheckRecovered(after, false); !v.OK() {
			t.Errorf("%s: the torn batch is missed: %v", what, v.Violations)
		}
		if r := before.Recover(4, 0, false); r.Corrupt == "" {
			t.Errorf("%s: damage below the recovery point was passed over", what)
		}
	}
}

// Batches 0-1 and 2-4 have epoch 0, batch 5 has epoch 3.
func TestWhereEpochsEndIsWhatTheBatchesSay(t *testing.T) {
	for _, c := range []struct {
		told  EpochEnd
		start int64
		want  bool
	}{
		{EpochEnd{Asked: 0, Epoch: 0, End: 5, Closed: true}, 0, true},
		{EpochEnd{Asked: 2, Epoch: 0, End: 5, Closed: true}, 0, true},
		{EpochEnd{Asked: 0, Epoch: 0, End: 2}, 0, true},
		{EpochEnd{Asked: 0, Epoch: 0, End: 2, Committed: 3}, 0, false},
		{EpochEnd{Asked: 0, Epoch: 0, End: 2, Closed: true}, 0, false},
		{EpochEnd{Asked: 0, Epoch: 0, End: 6, Closed: true}, 0, false},
		{EpochEnd{Asked: 0, Epoch: 0, End: 6, Closed: true}, 6, true},
		{EpochEnd{Asked: 3, Epoch: 0, End: 5, Closed: true}, 0, false},
		{EpochEnd{Asked: 2, Epoch: 3, End: 6, Closed: true}, 0, false},
		{EpochEnd{Asked: 3, Epoch: 3, End: 6, Committed: 6}, 0, true},
	} {
		p, _ := Parse("t-0", sound())
		if v := p.CheckEpochEnds([]EpochEnd{c.told}, c.start); v.OK() != c.want {
			t.Errorf("%+v, log start %d: %v", c.told, c.start, v.Violations)
		}
	}
}

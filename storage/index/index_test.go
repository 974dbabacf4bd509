package index

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

func TestLayoutsAreKafkas(t *testing.T) {
	for _, c := range []struct {
		name      string
		got, want []byte
	}{
		{"offset entry", AppendOffset(nil, Offset{Rel: 23, Position: 4485}), []byte{0, 0, 0, 23, 0, 0, 0x11, 0x85}},
		{"time entry", AppendTime(nil, Time{Timestamp: 0x0102030405060708, Rel: 9}), []byte{1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 9}},
		{"txn entry", AppendTxn(nil, Txn{1, 2, 3, 4}), append(append(append(append([]byte{0, 0},
			0, 0, 0, 0, 0, 0, 0, 1), 0, 0, 0, 0, 0, 0, 0, 2), 0, 0, 0, 0, 0, 0, 0, 3), 0, 0, 0, 0, 0, 0, 0, 4)},
	} {
		if !bytes.Equal(c.got, c.want) {
			t.Errorf("%s: %x, want %x", c.name, c.got, c.want)
		}
	}
	if MaxEntries(10<<20, OffsetEntrySize) != 1310720 || MaxEntries(10<<20, TimeEntrySize)*TimeEntrySize != 10485756 {
		t.Error("a full index has another size than Kafka's")
	}
}

// entries draws rising offset entries.
func entries(t *rapid.T) []Offset {
	n := rapid.IntRange(0, 2000).Draw(t, "entries")
	list := make([]Offset, n)
	rel, pos := int32(-1), int32(-1)
	step := rapid.Int32Range(1, 50).Draw(t, "step")
	for i := range list {
		rel += 1 + int32(i)*7%step
		pos += 1 + int32(i)*13%step
		list[i] = Offset{rel, pos}
	}
	return list
}

// A table finds what a search through all entries finds, whatever is written when.
func TestTableFindsWhatAListFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := entries(t)
		var x Table
		x.Init(OffsetEntrySize)
		var file []byte
		write := func(all bool) {
			b, off := x.Unwritten(all)
			if len(b) == 0 {
				return
			}
			if int64(len(file)) != off {
				t.Fatalf("writes at %d, the file has %d bytes", off, len(file))
			}
			file = append(file, b...)
			x.Wrote(len(b))
		}
		for i, e := range list {
			x.Append(AppendOffset(nil, e), int64(e.Rel)<<32|int64(e.Position))
			switch rapid.IntRange(0, 300).Draw(t, "write") {
			case 0:
				write(true)
			case 1, 2, 3:
				write(false)
			}
			if i == len(list)/2 && rapid.Bool().Draw(t, "reload") {
				write(true)
				var again Table
				again.Init(OffsetEntrySize)
				again.Load(file, func(b []byte) int64 { e := OffsetAt(b, 0); return int64(e.Rel)<<32 | int64(e.Position) })
				x = again
			}
		}
		if got := len(x.tail); got > 0 && x.written == x.n && got > x.PageBytes() {
			t.Fatalf("%d bytes stay in memory though the file has them", got)
		}
		for range 20 {
			want := rapid.Int32Range(-1, 60_000).Draw(t, "offset")
			i := floor(len(list), func(i int) bool { return list[i].Rel <= want })
			p := x.FloorPage(func(key int64) bool { return int32(key>>32) <= want })
			if (p < 0) != (i < 0) {
				t.Fatalf("offset %d: page %d, entry %d", want, p, i)
			}
			if i < 0 {
				continue
			}
			page, ok := x.Page(p)
			if !ok {
				off, n := x.Where(p)
				page = file[off : off+int64(n)]
			}
			if got := OffsetAt(page, FloorOffset(page, want)); got != list[i] {
				t.Fatalf("offset %d: %+v, want %+v", want, got, list[i])
			}
		}
	})
}

func TestChecksRefuseWhatDoesNotRise(t *testing.T) {
	two := func(a, b Offset) []byte { return AppendOffset(AppendOffset(nil, a), b) }
	none := Offset{-1, -1}
	for name, b := range map[string][]byte{
		"offsets equal":       two(Offset{5, 10}, Offset{5, 20}),
		"positions fall":      two(Offset{5, 10}, Offset{6, 9}),
		"negative":            two(Offset{-3, 10}, Offset{6, 19}),
		"behind the log":      two(Offset{5, 10}, Offset{6, 1000}),
		"zeros after entries": append(two(Offset{5, 10}, Offset{6, 20}), make([]byte, 8)...),
		"a part":              make([]byte, 7),
	} {
		if _, err := CheckOffset(b, none, 1000); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := CheckOffset(two(Offset{0, 0}, Offset{6, 999}), none, 1000); err != nil {
		t.Error(err)
	}
	if _, err := CheckTime(AppendTime(AppendTime(nil, Time{5, 3}), Time{5, 4}), Time{-1, 0}); !errors.Is(err, ErrDamaged) {
		t.Error("equal timestamps:", err)
	}
	if _, err := ParseTxn(make([]byte, TxnEntrySize), 10); !errors.Is(err, ErrDamaged) {
		t.Error("a zeroed transaction below the base:", err)
	}
}

func FuzzOffsetIndex(f *testing.F) {
	f.Add(AppendOffset(AppendOffset(nil, Offset{1, 2}), Offset{3, 4}), int32(2))
	f.Fuzz(func(t *testing.T, b []byte, want int32) {
		last, err := CheckOffset(b, Offset{-1, -1}, 1<<31)
		if err != nil {
			return
		}
		if i := FloorOffset(b, want); i >= 0 && OffsetAt(b, i).Rel > want {
			t.Fatal("the floor is above")
		}
		if n := len(b) / OffsetEntrySize; n > 0 && OffsetAt(b, n-1) != last {
			t.Fatal("the last entry is another")
		}
	})
}

func FuzzTimeIndex(f *testing.F) {
	f.Add(AppendTime(AppendTime(nil, Time{1, 2}), Time{3, 4}), int64(2))
	f.Fuzz(func(t *testing.T, b []byte, want int64) {
		if _, err := CheckTime(b, Time{-1, 0}); err != nil {
			return
		}
		if i := FloorTime(b, want); i >= 0 && TimeAt(b, i).Timestamp > want {
			t.Fatal("the floor is above")
		}
	})
}

func FuzzTxnIndex(f *testing.F) {
	f.Add(AppendTxn(nil, Txn{1, 2, 3, 4}), int64(0))
	f.Fuzz(func(t *testing.T, b []byte, base int64) {
		list, err := ParseTxn(b, base)
		if err != nil {
			return
		}
		var again []byte
		for _, e := range list {
			again = AppendTxn(again, e)
		}
		if !bytes.Equal(again, b) {
			t.Fatal("what was parsed encodes to other bytes")
		}
	})
}

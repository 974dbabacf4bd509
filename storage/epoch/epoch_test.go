package epoch

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func of(pairs ...int64) Cache {
	var c Cache
	for i := 0; i < len(pairs); i += 2 {
		c.Assign(int32(pairs[i]), pairs[i+1])
	}
	return c
}

// B11: epoch 0 is an epoch.
func TestEpochZeroCounts(t *testing.T) {
	c := of(0, 0)
	if e, end := c.EndOffsetFor(0, 10); e != 0 || end != 10 {
		t.Fatalf("(%d, %d)", e, end)
	}
	var d Cache
	if !d.Confirm(0, 0) || d.Latest() != 0 {
		t.Fatal("a batch of epoch 0 is not noted")
	}
}

func TestEndOffsets(t *testing.T) {
	c := of(2, 10, 4, 20, 7, 30)
	for _, x := range []struct {
		ask, epoch int32
		end        int64
	}{
		{None, None, None}, {0, 0, 10}, {1, 1, 10}, {2, 2, 20}, {3, 2, 20}, {4, 4, 30}, {6, 4, 30}, {7, 7, 44}, {8, None, None},
	} {
		if e, end := c.EndOffsetFor(x.ask, 44); e != x.epoch || end != x.end {
			t.Errorf("epoch %d: (%d, %d), want (%d, %d)", x.ask, e, end, x.epoch, x.end)
		}
	}
}

func TestContradictedEntriesGo(t *testing.T) {
	for _, x := range []struct {
		c    Cache
		e, s int64
		want []Entry
	}{
		{of(1, 0, 2, 10), 3, 10, []Entry{{1, 0}, {3, 10}}},
		{of(1, 0, 2, 10), 2, 5, []Entry{{1, 0}, {2, 5}}},
		{of(1, 0, 2, 10), 2, 15, []Entry{{1, 0}, {2, 10}}},
		{of(1, 5, 2, 10), 3, 0, []Entry{{3, 0}}},
		{of(1, 0, 5, 10), 3, 20, []Entry{{1, 0}, {3, 20}}},
	} {
		x.c.Assign(int32(x.e), x.s)
		if got := x.c.Entries(); !slices.Equal(got, x.want) {
			t.Errorf("assigning (%d, %d): %v, want %v", x.e, x.s, got, x.want)
		}
	}
}

// What a power loss resurrected is corrected by the batches.
func TestConfirmFollowsTheBatches(t *testing.T) {
	c := of(3, 0, 4, 50, 5, 100)
	c.Confirm(4, 100) // the truncation before epoch 5 came undone
	c.Confirm(4, 120)
	if got := c.Entries(); !slices.Equal(got, []Entry{{3, 0}, {4, 50}}) {
		t.Fatal(got)
	}
	c.Confirm(6, 130)
	if got := c.EpochFor(129); got != 4 {
		t.Fatal(got)
	}
}

// I12: whatever is done, both columns rise strictly, and a stored cache reads back.
func TestColumnsRise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Cache
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			e, s := rapid.Int32Range(0, 20).Draw(t, "epoch"), rapid.Int64Range(0, 100).Draw(t, "offset")
			switch rapid.IntRange(0, 3).Draw(t, "op") {
			case 0:
				c.Assign(e, s)
				if c.Latest() < e || c.EpochFor(s) < e && c.Latest() == e {
					t.Fatalf("assigned (%d, %d): %v", e, s, c.Entries())
				}
			case 1:
				c.Confirm(e, s)
			case 2:
				c.TruncateFromEnd(s)
				if l, ok := c.LatestEntry(); ok && l.Start >= s {
					t.Fatalf("truncated at %d: %v", s, c.Entries())
				}
			case 3:
				before := c.EpochFor(s)
				c.TruncateFromStart(s)
				if first, ok := c.Earliest(); ok && before != None && (first.Start < s || first.Epoch != before) {
					t.Fatalf("starting at %d, epoch was %d: %v", s, before, c.Entries())
				}
			}
			again, err := FromEntries(c.Entries())
			if err != nil || !slices.Equal(again.Entries(), c.Entries()) {
				t.Fatalf("%v: %v", c.Entries(), err)
			}
		}
	})
}

func TestStoredEntriesThatFallAreDamage(t *testing.T) {
	for _, list := range [][]Entry{{{1, 0}, {1, 5}}, {{1, 5}, {2, 5}}, {{-1, 0}}, {{2, 0}, {1, 9}}} {
		if _, err := FromEntries(list); !errors.Is(err, ErrDamaged) {
			t.Errorf("%v: %v", list, err)
		}
	}
}

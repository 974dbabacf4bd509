package wheel_test

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"seedlog/wheel"
)

type entry = wheel.Entry[int]

// model is what a wheel means: a list of deadlines.
type model struct {
	now     int64
	pending map[int]int64
}

// due are the ids whose deadline, rounded up to a tick, is at most now, rounded down.
func (m *model) due() (ids []int) {
	for id, d := range m.pending {
		up := d
		if r := d % wheel.TickNs; d > 0 && r != 0 {
			if up = d - r + wheel.TickNs; up < d {
				continue // rounds up past the end of time
			}
		}
		if up <= m.now {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (m *model) earliest() int64 {
	first := int64(math.MaxInt64)
	for _, d := range m.pending {
		first = min(first, d)
	}
	return first
}

// distance draws how far ahead something lies, of any magnitude.
func distance(t *rapid.T) int64 {
	return rapid.Int64Range(0, 1<<rapid.IntRange(0, 50).Draw(t, "magnitude")).Draw(t, "distance")
}

func TestItBehavesLikeASortedList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.SampledFrom([]int64{0, 1, 999_999, 1 << 41, 3_600_000_000_000}).Draw(t, "start")
		w := wheel.New[int](start)
		m := model{now: start, pending: map[int]int64{}}
		entries := make([]entry, 12)
		for i := range entries {
			entries[i].Value = i
		}
		pop := func() (ids []int) {
			for e := w.Pop(); e != nil; e = w.Pop() {
				if e.Pending() {
					t.Fatalf("entry %d is popped and pending", e.Value)
				}
				ids = append(ids, e.Value)
			}
			slices.Sort(ids)
			return ids
		}
		id := rapid.IntRange(0, len(entries)-1)
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				i := id.Draw(t, "id")
				d := m.now + distance(t) - rapid.SampledFrom([]int64{0, 0, 0, 5_000_000}).Draw(t, "past")
				if rapid.IntRange(0, 20).Draw(t, "never") == 0 {
					d = math.MaxInt64
				}
				w.Add(&entries[i], d)
				m.pending[i] = d
			},
			"cancel": func(t *rapid.T) {
				i := id.Draw(t, "id")
				_, want := m.pending[i]
				if got := w.Cancel(&entries[i]); got != want {
					t.Fatalf("Cancel(%d) = %v", i, got)
				}
				delete(m.pending, i)
			},
			"advance": func(t *rapid.T) {
				m.now += distance(t)
				w.Advance(m.now)
				got := pop()
				if want := m.due(); !slices.Equal(got, want) {
					t.Fatalf("at %d expired %v, want %v of %v", m.now, got, want, m.pending)
				}
				for _, i := range got {
					if m.pending[i] > m.now {
						t.Fatalf("entry %d expired %d ns early", i, m.pending[i]-m.now)
					}
					delete(m.pending, i)
				}
				if d := m.earliest(); len(m.pending) > 0 && d <= m.now-wheel.TickNs {
					t.Fatalf("an entry is %d ns late", m.now-d)
				}
			},
			"go back": func(t *rapid.T) { w.Advance(m.now - distance(t)) },
			"": func(t *rapid.T) {
				if w.Len() != len(m.pending) {
					t.Fatalf("Len() = %d of %d", w.Len(), len(m.pending))
				}
				at, ok := w.NextExpiry()
				if ok != (len(m.pending) > 0) {
					t.Fatalf("NextExpiry: %d, %v with %d pending", at, ok, len(m.pending))
				}
				// It comes in time: at most rounded up by a tick.
				if d := m.earliest(); ok && at > m.now && at-wheel.TickNs >= d {
					t.Fatalf("the next expiry is at %d, a deadline at %d", at, d)
				}
				for i := range entries {
					if _, want := m.pending[i]; entries[i].Pending() != want {
						t.Fatalf("entry %d pending: %v", i, !want)
					}
				}
			},
		})
	})
}

// drive advances the wheel only when it asks to be.
func drive(t *testing.T, w *wheel.Wheel[int], deadline func(id int) int64) (advances int, order []int) {
	for {
		at, ok := w.NextExpiry()
		if !ok {
			return advances, order
		}
		w.Advance(at)
		advances++
		n := len(order)
		for e := w.Pop(); e != nil; e = w.Pop() {
			if late := at - deadline(e.Value); late < 0 || late >= wheel.TickNs {
				t.Errorf("entry %d expired %d ns late", e.Value, late)
			}
			order = append(order, e.Value)
		}
		if len(order) == n {
			t.Errorf("the advance to %d had nothing to do", at)
		}
	}
}

func TestNothingTicksWhenNothingIsDue(t *testing.T) {
	w := wheel.New[int](0)
	r := rand.New(rand.NewPCG(1, 2))
	entries := make([]entry, 300)
	deadlines := make([]int64, len(entries))
	ticks := map[int64]bool{}
	for i := range entries {
		entries[i].Value = i
		deadlines[i] = 1 + r.Int64N(1<<(20+r.IntN(40)))
		ticks[(deadlines[i]+wheel.TickNs-1)/wheel.TickNs] = true
		w.Add(&entries[i], deadlines[i])
	}
	advances, order := drive(t, w, func(id int) int64 { return deadlines[id] })
	if advances != len(ticks) || len(order) != len(entries) {
		t.Errorf("%d advances for %d distinct ticks, %d expired", advances, len(ticks), len(order))
	}
	for i := 1; i < len(order); i++ {
		if deadlines[order[i]] < deadlines[order[i-1]]-wheel.TickNs {
			t.Errorf("entry %d came before %d", order[i-1], order[i])
		}
	}
}

func TestOneAdvanceExpiresInTheOrderOfTicks(t *testing.T) {
	w := wheel.New[int](0)
	entries := make([]entry, 1000)
	for i := range entries {
		id := (i * 7919) % len(entries) // a permutation
		entries[i].Value = id
		w.Add(&entries[i], int64(id)*wheel.TickNs*3)
	}
	w.Advance(math.MaxInt64 / 2)
	for i := range entries {
		if e := w.Pop(); e.Value != i {
			t.Fatalf("entry %d came as number %d", e.Value, i)
		}
	}
}

func TestACancelledExpiredEntryIsNotPopped(t *testing.T) {
	w := wheel.New[int](0)
	var e entry
	w.Add(&e, 1)
	w.Advance(wheel.TickNs)
	if !e.Pending() || !w.Cancel(&e) || w.Cancel(&e) || w.Pop() != nil || w.Len() != 0 {
		t.Error("an operation could be completed twice")
	}
}

func TestAddAndCancelAllocateNothing(t *testing.T) {
	w := wheel.New[int](0)
	var e entry
	w.Add(&e, 1<<50)
	i := int64(0)
	if n := testing.AllocsPerRun(1000, func() {
		i += 12345
		w.Add(&e, i*1000)
		w.Cancel(&e)
		w.Advance(i)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

const benchPending = 100_000

// The load of a broker: of a hundred thousand pending requests, one after the other is
// completed before its time and replaced by one with a deadline within half a minute.
func BenchmarkWheelReplace(b *testing.B) {
	w := wheel.New[int](0)
	r := rand.New(rand.NewPCG(1, 2))
	entries := make([]entry, benchPending)
	for i := range entries {
		w.Add(&entries[i], r.Int64N(30e9))
	}
	for i := 0; b.Loop(); i++ {
		now := int64(i) * 1000
		w.Add(&entries[r.IntN(benchPending)], now+r.Int64N(30e9))
		w.Advance(now)
		for e := w.Pop(); e != nil; e = w.Pop() {
			w.Add(e, now+r.Int64N(30e9))
		}
	}
}

// The same with the standard library's heap, and a back reference for cancelling.
func BenchmarkHeapReplace(b *testing.B) {
	var h timers
	r := rand.New(rand.NewPCG(1, 2))
	entries := make([]timer, benchPending)
	for i := range entries {
		entries[i].at = r.Int64N(30e9)
		heap.Push(&h, &entries[i])
	}
	for i := 0; b.Loop(); i++ {
		now := int64(i) * 1000
		e := &entries[r.IntN(benchPending)]
		heap.Remove(&h, e.index)
		e.at = now + r.Int64N(30e9)
		heap.Push(&h, e)
		for h[0].at <= now {
			h[0].at = now + r.Int64N(30e9)
			heap.Fix(&h, 0)
		}
	}
}

type timer struct {
	at    int64
	index int
}

type timers []*timer

func (h timers) Len() int           { return len(h) }
func (h timers) Less(i, j int) bool { return h[i].at < h[j].at }
func (h timers) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].index, h[j].index = i, j }
func (h *timers) Push(x any)        { x.(*timer).index = len(*h); *h = append(*h, x.(*timer)) }
func (h *timers) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	*h = (*h)[:last]
	return t
}

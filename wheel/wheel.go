// Package wheel is a hierarchical timing wheel: many delayed operations, most of which are
// cancelled long before their time, with insertion and cancellation in constant time.
//
// A wheel has twenty slots of one tick, which is a millisecond. What lies further ahead goes
// to the wheel above, whose tick is one whole turn of the one below, made when it is first
// needed; when time gets to a slot of an upper wheel its entries move down:
//
//	level 0   20 slots of 1 ms        reaches 20 ms ahead
//	level 1   20 slots of 20 ms       reaches 400 ms
//	level 2   20 slots of 400 ms      reaches 8 s
//	level 3   20 slots of 8 s         reaches 160 s, and so on
//
// Deadlines are rounded up to a tick and time down, so an entry never expires early, and at
// the latest by the first [Wheel.Advance] that is one tick past its deadline.
//
// The package never reads a clock, starts anything or calls back. Its caller asks
// [Wheel.NextExpiry] when to come again, advances the wheel then, and takes what has expired
// with [Wheel.Pop]; while nothing is due nothing runs. A Wheel has no lock: its owner
// guards it. Instants are nanoseconds of a monotonic clock
// that began at zero or above.
//
// The mechanism is Varghese and Lauck's (1987, scheme 6 and 7); Kafka's purgatory uses it.
package wheel

import "math/bits"

const (
	// TickNs is the resolution in nanoseconds.
	TickNs = 1_000_000
	// Slots is the number of slots of each wheel.
	Slots = 20

	// farthest is how many ticks ahead an entry is filed at most; fourteen levels reach
	// further. One that lies beyond is filed there, and again when its slot comes.
	farthest = 1 << 60
)

// Entry is one delayed operation, embedded in what it delays or pointed to by it. The zero
// Entry is not pending. It must not be copied while it is pending.
type Entry[V any] struct {
	// Value is the owner's.
	Value V

	tick       int64
	in         *slot[V]
	prev, next *Entry[V]
}

// Pending reports whether the entry is in a wheel, or expired and not popped yet.
func (e *Entry[V]) Pending() bool { return e.in != nil }

// slot is a list of entries in the order of their filing.
type slot[V any] struct {
	head, tail *Entry[V]
	earliest   int64 // tick; a lower bound once an entry was cancelled
	level      *level[V]
	index      int
}

type level[V any] struct {
	tick     int64  // the width of a slot, in ticks of the wheel
	occupied uint32 // a bit for each slot
	slots    [Slots]slot[V]
}

// Wheel holds the pending entries. Make it with [New].
type Wheel[V any] struct {
	cur     int64 // the tick that the wheel was advanced to
	n       int
	levels  []*level[V]
	expired slot[V]
}

// New returns an empty wheel that stands at now.
func New[V any](now int64) *Wheel[V] {
	return &Wheel[V]{cur: max(now/TickNs, 0)}
}

// ceil is the first tick that is not before the instant.
func ceil(ns int64) int64 {
	if ns <= 0 {
		return 0
	}
	return (ns-1)/TickNs + 1
}

// Len is the number of pending entries, expired ones that were not popped included.
func (w *Wheel[V]) Len() int { return w.n }

// Add files e under its deadline, or moves it there if it is pending in this wheel.
func (w *Wheel[V]) Add(e *Entry[V], deadline int64) {
	w.Cancel(e)
	e.tick = ceil(deadline)
	w.n++
	w.file(e)
}

// Cancel takes e out. It reports false if e was not pending: it never was, or was popped or
// cancelled before, which is how an operation is completed exactly once.
func (w *Wheel[V]) Cancel(e *Entry[V]) bool {
	if e.in == nil {
		return false
	}
	e.in.remove(e)
	w.n--
	return true
}

// Advance moves the wheel to now, if that is ahead. Entries whose time has come expire.
func (w *Wheel[V]) Advance(now int64) {
	target := now / TickNs
	for {
		s, start := w.first()
		if s == nil || start > target {
			break
		}
		w.cur = max(w.cur, start)
		w.empty(s)
	}
	w.cur = max(w.cur, target)
}

// Pop returns an expired entry, no longer pending, or nil. Entries come in the order of
// their ticks, as far as one Advance saw them; those of one tick in no promised order.
func (w *Wheel[V]) Pop() *Entry[V] {
	e := w.expired.head
	if e != nil {
		w.Cancel(e)
	}
	return e
}

// NextExpiry is the instant at which Advance will next make an entry expire, or false if
// none is pending. If the entry that it was computed from has been cancelled, nothing may
// expire then; the answer after that Advance is a later one.
func (w *Wheel[V]) NextExpiry() (at int64, ok bool) {
	if w.expired.head != nil {
		return w.cur * TickNs, true
	}
	var earliest int64
	for _, l := range w.levels {
		if s, _ := l.first(w.cur); s != nil && (!ok || s.earliest < earliest) {
			earliest, ok = s.earliest, true
		}
	}
	if earliest > (1<<63-1)/TickNs {
		return 1<<63 - 1, ok
	}
	return earliest * TickNs, ok
}

// file puts e where it belongs as seen from the current tick.
func (w *Wheel[V]) file(e *Entry[V]) {
	if e.tick <= w.cur {
		w.expired.add(e)
		return
	}
	at := min(e.tick, w.cur+farthest)
	for i := 0; ; i++ {
		l := w.level(i)
		if at/l.tick-w.cur/l.tick < Slots {
			index := int(at / l.tick % Slots)
			s := &l.slots[index]
			if s.head == nil {
				l.occupied |= 1 << index
				s.level, s.index, s.earliest = l, index, e.tick
			}
			s.earliest = min(s.earliest, e.tick)
			s.add(e)
			return
		}
	}
}

// level is the i-th wheel, made now if there is none.
func (w *Wheel[V]) level(i int) *level[V] {
	if i == len(w.levels) {
		tick := int64(1)
		if i > 0 {
			tick = w.levels[i-1].tick * Slots
		}
		w.levels = append(w.levels, &level[V]{tick: tick})
	}
	return w.levels[i]
}

// first is the occupied slot that begins first, and the tick at which it does.
func (w *Wheel[V]) first() (s *slot[V], start int64) {
	for _, l := range w.levels {
		if o, at := l.first(w.cur); o != nil && (s == nil || at < start) {
			s, start = o, at
		}
	}
	return s, start
}

// first is the level's occupied slot that begins first as seen from the tick cur.
func (l *level[V]) first(cur int64) (*slot[V], int64) {
	if l.occupied == 0 {
		return nil, 0
	}
	turn := cur / l.tick
	from := int(turn % Slots)
	ahead := bits.TrailingZeros32(l.occupied>>from | l.occupied<<(Slots-from)&(1<<Slots-1))
	return &l.slots[(from+ahead)%Slots], (turn + int64(ahead)) * l.tick
}

// empty files every entry of s anew.
func (w *Wheel[V]) empty(s *slot[V]) {
	for s.head != nil {
		e := s.head
		s.remove(e)
		w.file(e)
	}
}

func (s *slot[V]) add(e *Entry[V]) {
	e.in, e.prev, e.next = s, s.tail, nil
	if s.tail == nil {
		s.head = e
	} else {
		s.tail.next = e
	}
	s.tail = e
}

func (s *slot[V]) remove(e *Entry[V]) {
	if e.prev == nil {
		s.head = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		s.tail = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.in, e.prev, e.next = nil, nil, nil
	if s.head == nil && s.level != nil {
		s.level.occupied &^= 1 << s.index
	}
}

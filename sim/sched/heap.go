package sched

import "seedlog/clock"

// event is something that happens at a simulated instant: a deadline, the end of a hold or
// a callback. It knows its place in the heap, so that it can be taken out in O(log n).
type event struct {
	pos int // in the heap, or -1
	gen uint32
	p   *proc    // whose deadline or hold it is, or
	cb  Callback // what is called
	rt  *Runtime // whose death drops the callback, or nil
}

type slot struct {
	at  clock.Instant
	seq uint64
	e   *event
}

func (a slot) before(b slot) bool {
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

// eventHeap is a four-way heap ordered by instant, then by order of insertion.
type eventHeap struct {
	slots []slot
	seq   uint64
}

func (h *eventHeap) push(at clock.Instant, e *event) {
	h.seq++
	h.slots = append(h.slots, slot{})
	h.up(len(h.slots)-1, slot{at, h.seq, e})
}

func (h *eventHeap) remove(e *event) {
	i := e.pos
	if i < 0 {
		return
	}
	e.pos = -1
	last := len(h.slots) - 1
	s := h.slots[last]
	h.slots[last] = slot{}
	h.slots = h.slots[:last]
	if i == last {
		return
	}
	if i > 0 && s.before(h.slots[(i-1)/4]) {
		h.up(i, s)
	} else {
		h.down(i, s)
	}
}

// up puts s into the hole at i or above it.
func (h *eventHeap) up(i int, s slot) {
	for i > 0 {
		parent := (i - 1) / 4
		if !s.before(h.slots[parent]) {
			break
		}
		h.slots[i] = h.slots[parent]
		h.slots[i].e.pos = i
		i = parent
	}
	h.slots[i] = s
	s.e.pos = i
}

// down puts s into the hole at i or below it.
func (h *eventHeap) down(i int, s slot) {
	for {
		child := 4*i + 1
		if child >= len(h.slots) {
			break
		}
		for c := child + 1; c < len(h.slots) && c < 4*i+5; c++ {
			if h.slots[c].before(h.slots[child]) {
				child = c
			}
		}
		if !h.slots[child].before(s) {
			break
		}
		h.slots[i] = h.slots[child]
		h.slots[i].e.pos = i
		i = child
	}
	h.slots[i] = s
	s.e.pos = i
}

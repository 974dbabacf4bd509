package disk

import (
	"sync"

	"seedlog/clock/task"
)

// Range is a part of a file that is to be sent later. Its bytes are bound late: they are
// read piece by piece while it is sent, so whoever overwrites or truncates them changes
// what is sent. A Range pins its file: closing the file waits for the last Release, for a
// reused descriptor would send another file's bytes.
//
// Truncation below the end of a Range cuts it: pieces in progress are waited for, later
// ones are refused (Begin returns false), and the sender has to end its connection, for
// the frame's length was already promised.
type Range struct {
	Off, Len int64

	file   Pinned
	pins   *Pins
	active int // pieces being read now
	cut    bool
	freed  bool
}

// Pinned is a File as its ranges see it.
type Pinned interface {
	File
	// ReadPinned is ReadAt, and works after Close for as long as a Range is pinned.
	ReadPinned(t *task.T, p []byte, off int64) (int, error)
}

// Descriptor is implemented by files of the operating system, for senders that hand the
// descriptor to the kernel (sendfile). Such a call may wait for the device, so it is made
// between Admit and Release, which count it among the file's own calls.
type Descriptor interface {
	FD() int
	Admit(t *task.T)
	Release()
}

// File is the pinned file.
func (r *Range) File() File { return r.file }

// Begin starts the reading of a piece. If it returns false the range was cut and the
// connection must end; otherwise End must follow.
func (r *Range) Begin() bool {
	r.pins.mu.Lock()
	defer r.pins.mu.Unlock()
	if r.cut || r.freed {
		return false
	}
	r.active++
	return true
}

// End ends the piece.
func (r *Range) End() {
	r.pins.mu.Lock()
	r.active--
	var last func()
	if r.freed && r.active == 0 {
		last = r.pins.drop(r)
	}
	wake := r.pins.wakeAll()
	r.pins.mu.Unlock()
	for _, w := range wake {
		w.Wake()
	}
	if last != nil {
		last()
	}
}

// ReadAt copies a piece of the range, for those who cannot send from the file: TLS, and
// the simulated network. off counts from the beginning of the range.
func (r *Range) ReadAt(t *task.T, p []byte, off int64) (int, error) {
	if !r.Begin() {
		return 0, ErrClosed
	}
	defer r.End()
	return r.file.ReadPinned(t, p, r.Off+off)
}

// Cut reports whether a truncation, or a failed sync, cut the range.
func (r *Range) Cut() bool {
	r.pins.mu.Lock()
	defer r.pins.mu.Unlock()
	return r.cut
}

// Release gives the pin back, once the pieces in progress have ended. The second release
// is nothing.
func (r *Range) Release() {
	r.pins.mu.Lock()
	var last func()
	if !r.freed {
		r.freed = true
		if r.active == 0 {
			last = r.pins.drop(r)
		}
	}
	wake := r.pins.wakeAll()
	r.pins.mu.Unlock()
	for _, w := range wake {
		w.Wake()
	}
	if last != nil {
		last()
	}
}

// Pins counts the ranges of one open file for its implementation. Its lock is a plain one,
// for it is also taken by the adapters' goroutines, and never held across anything.
type Pins struct {
	mu      sync.Mutex
	ranges  []*Range
	waiters []*task.T
	closed  bool
	onLast  func()
}

// New pins a range of f. After Close there is nothing left to pin: the range is born cut.
func (p *Pins) New(f Pinned, off, n int64) *Range {
	r := &Range{Off: off, Len: n, file: f, pins: p}
	p.mu.Lock()
	if p.closed {
		r.cut, r.freed = true, true
	} else {
		p.ranges = append(p.ranges, r)
	}
	p.mu.Unlock()
	return r
}

// Any reports whether there are ranges.
func (p *Pins) Any() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.ranges) > 0
}

// Close marks the file closed and calls free now, or when the last range is released.
func (p *Pins) Close(free func()) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.closed = true
	if len(p.ranges) > 0 {
		p.onLast, free = free, nil
	}
	p.mu.Unlock()
	if free != nil {
		free()
	}
}

// Closed reports whether Close was called.
func (p *Pins) Closed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// CutAbove cuts every range that reaches above size and waits for its pieces in progress.
// New ranges above size are the caller's to prevent.
func (p *Pins) CutAbove(t *task.T, size int64) {
	for {
		p.mu.Lock()
		busy := false
		for _, r := range p.ranges {
			if r.Off+r.Len > size {
				r.cut = true
				busy = busy || r.active > 0
			}
		}
		if !busy {
			p.mu.Unlock()
			return
		}
		p.waiters = append(p.waiters, t)
		p.mu.Unlock()
		t.ParkHard()
	}
}

// CutAll cuts every range, and does not wait for pieces in progress: a sync failed.
func (p *Pins) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.ranges {
		r.cut = true
	}
}

func (p *Pins) drop(r *Range) (last func()) {
	for i, o := range p.ranges {
		if o == r {
			p.ranges = append(p.ranges[:i], p.ranges[i+1:]...)
			break
		}
	}
	if len(p.ranges) == 0 {
		last, p.onLast = p.onLast, nil
	}
	return last
}

func (p *Pins) wakeAll() []*task.T {
	w := p.waiters
	p.waiters = nil
	return w
}

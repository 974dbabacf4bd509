package simdisk

import (
	"errors"
	"io"

	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/sim/trace"
)

var (
	errNotDir      = errors.New("not a directory")
	errNotWritable = errors.New("file is open for reading only")
)

// file is a handle of one incarnation.
type file struct {
	m        *Mount
	n        *inode
	path     string
	writable bool
	pins     disk.Pins
}

var _ disk.Pinned = (*file)(nil)

// Path implements disk.File.
func (f *file) Path() string { return f.path }

// begin is Mount.enter for a file that must be open.
func (f *file) begin(t *task.T, op Op, name string, bytes int) (call, error) {
	if f.pins.Closed() {
		return call{}, opErr(name, f.path, disk.ErrClosed)
	}
	return f.m.enter(t, op, f.path, bytes)
}

// finish is Mount.leave, with the error of the call if the incarnation lives.
func (f *file) finish(t *task.T, c call, name string, err error) error {
	if gone := f.m.leave(t, c, f.path); gone != nil {
		return gone
	}
	if err != nil && err != io.EOF {
		return opErr(name, f.path, err)
	}
	return err
}

// ReadAt implements disk.File.
func (f *file) ReadAt(t *task.T, p []byte, off int64) (int, error) {
	c, err := f.begin(t, OpRead, "read", len(p))
	if err != nil {
		return 0, err
	}
	return f.read(t, c, p, off)
}

// ReadPinned implements disk.Pinned.
func (f *file) ReadPinned(t *task.T, p []byte, off int64) (int, error) {
	c, err := f.m.enter(t, OpRead, f.path, len(p))
	if err != nil {
		return 0, err
	}
	return f.read(t, c, p, off)
}

func (f *file) read(t *task.T, c call, p []byte, off int64) (n int, err error) {
	d := f.m.d
	switch {
	case len(p) == 0:
	case d.fires(ReadError, f.path):
		d.effective(ReadError)
		err = disk.ErrIO
	default:
		if d.fires(BitRot, f.path) {
			d.rot(d.faults[BitRot].match)
		}
		if n = f.n.read(d, p, off); n < len(p) {
			err = io.EOF
		}
	}
	d.note(trace.DiskRead, f.n.id, uint64(off), uint64(n))
	if err = f.finish(t, c, "read", err); err != nil && err != io.EOF {
		n = 0
	}
	return n, err
}

// WriteAt implements disk.File.
func (f *file) WriteAt(t *task.T, p []byte, off int64) (int, error) {
	c, err := f.begin(t, OpWrite, "write", len(p))
	if err != nil {
		return 0, err
	}
	f.again(f.n.writeFailed, "written")
	first := f.splitWrite(c, len(p), off)
	n, err := f.write(p[:first], off)
	if first < len(p) && err == nil { // the task is parked, or killed, between two pages
		if gone := f.m.leave(t, c, f.path); gone != nil {
			return n, gone
		}
		c = call{}
		var k int
		k, err = f.write(p[first:], off+int64(first))
		n += k
	}
	err = f.finish(t, c, "write", err)
	if err != nil {
		f.n.writeFailed = f.m
	}
	return n, err
}

// WriteVec implements disk.File.
func (f *file) WriteVec(t *task.T, bufs [][]byte, off int64) (int64, error) {
	if len(bufs) == 1 {
		n, err := f.WriteAt(t, bufs[0], off)
		return int64(n), err
	}
	var all []byte
	for _, b := range bufs {
		all = append(all, b...)
	}
	n, err := f.WriteAt(t, all, off)
	return int64(n), err
}

// splitWrite is how much of a write is done before its time passes: all of it, or, for
// some that span pages, up to one of their boundaries.
func (f *file) splitWrite(c call, n int, off int64) int {
	pages := (off+int64(n)-1)/pageSize - off/pageSize
	if c.after <= 0 || pages <= 0 || f.m.d.sideRng.IntN(4) != 0 {
		return n
	}
	at := off/pageSize + 1 + f.m.d.sideRng.Int64N(pages)
	return int(at*pageSize - off)
}

func (f *file) write(p []byte, off int64) (int, error) {
	d := f.m.d
	if err := f.mayChange(); err != nil {
		return 0, err
	}
	if len(p) == 0 {
		return 0, nil
	}
	if d.trace != nil {
		d.trace.AddBytes(trace.DiskWrite, d.id<<48|f.n.id, uint64(off), p)
	}
	f.n.mtime = f.m.rt.UnixMilli()
	var fault error
	part := p
	switch {
	case d.fires(WriteError, f.path):
		part, fault = f.part(WriteError, p), disk.ErrIO
	case d.fires(WriteFull, f.path):
		part, fault = f.part(WriteFull, p), disk.ErrNoSpace
	case d.fires(Misdirected, f.path):
		d.misdirect(f.n, f.path, p, off)
		return len(p), nil
	}
	n := f.n.write(d, part, off)
	if n < len(part) {
		d.faults[NoSpace].fired++
		d.effective(NoSpace)
		return n, disk.ErrNoSpace
	}
	return n, fault
}

// part draws how much of a failing write is done.
func (f *file) part(why Fault, p []byte) []byte {
	f.m.d.effective(why)
	return p[:f.m.d.faults[why].rng.IntN(len(p)+1)]
}

func (f *file) mayChange() error {
	switch {
	case !f.writable:
		return errNotWritable
	case f.m.d.readOnly:
		f.m.d.effective(ReadOnly)
		return disk.ErrReadOnly
	}
	return nil
}

// Truncate implements disk.File.
func (f *file) Truncate(t *task.T, size int64) error {
	f.pins.CutAbove(t, size)
	c, err := f.begin(t, OpMeta, "truncate", 0)
	if err != nil {
		return err
	}
	if err = f.mayChange(); err == nil {
		f.m.d.note(trace.DiskTruncate, f.n.id, uint64(size), 0)
		f.n.mtime = f.m.rt.UnixMilli()
		f.n.truncate(f.m.d, size)
	}
	return f.finish(t, c, "truncate", err)
}

// Sync implements disk.File.
func (f *file) Sync(t *task.T) error {
	c, err := f.begin(t, OpSync, "sync", 0)
	if err != nil {
		return err
	}
	f.again(f.n.syncFailed, "synced")
	forgets, err := f.sync()
	if err = f.finish(t, c, "sync", err); err == nil {
		return nil
	}
	f.n.syncFailed = f.m
	if forgets {
		f.forget()
	}
	f.pins.CutAll()
	return err
}

// again tells that a file is used once more by an incarnation that was told of its failure.
func (f *file) again(failed *Mount, what string) {
	if failed == f.m && f.m.d.onReuse != nil {
		f.m.d.onReuse(f.path, what)
	}
}

// sync syncs, or fails; whether it forgets then is seen when the caller hears of the failure.
func (f *file) sync() (forgets bool, err error) {
	d := f.m.d
	d.note(trace.DiskSync, f.n.id, uint64(f.n.size), 0)
	switch {
	case d.readOnly && f.n.unsynced():
		d.effective(ReadOnly)
		return false, disk.ErrReadOnly
	case d.fires(SyncError, f.path):
		d.effective(SyncError)
		return false, disk.ErrIO
	case d.fires(SyncForgets, f.path):
		return true, disk.ErrIO
	}
	f.n.sync(d)
	return false, nil
}

// forget marks what is unsynced as clean, and may drop it from the page cache.
func (f *file) forget() {
	d := f.m.d
	if d.onForget != nil {
		d.onForget()
	}
	evict := d.faults[SyncForgets].rng.IntN(2) == 0
	if f.n.forget(d, evict) > 0 {
		d.effective(SyncForgets)
		d.forgotten = append(d.forgotten, f.path)
	}
}

// Size implements disk.File.
func (f *file) Size(t *task.T) (int64, error) {
	c, err := f.begin(t, OpMeta, "stat", 0)
	if err != nil {
		return 0, err
	}
	size := f.n.size
	return size, f.finish(t, c, "stat", nil)
}

// Advise implements disk.File: hints change nothing that can be seen.
func (f *file) Advise(*task.T, disk.Advice, int64, int64) {}

// PunchHole implements disk.File.
func (f *file) PunchHole(t *task.T, off, n int64) error {
	c, err := f.begin(t, OpMeta, "punch hole", 0)
	if err != nil {
		return err
	}
	if err = f.mayChange(); err == nil {
		f.m.d.note(trace.DiskPunch, f.n.id, uint64(off), uint64(n))
		f.n.mtime = f.m.rt.UnixMilli()
		f.n.punch(f.m.d, off, n)
	}
	return f.finish(t, c, "punch hole", err)
}

// Range implements disk.File.
func (f *file) Range(off, n int64) *disk.Range { return f.pins.New(f, off, n) }

// HasRanges implements disk.File.
func (f *file) HasRanges() bool { return f.pins.Any() }

// Peek copies what a reader of the page cache sees now, and returns how many bytes there are.
// It does not wait. The simulated network binds the bytes of a file range with it once more
// when they are delivered, for a real socket refers to the pages.
func (f *file) Peek(p []byte, off int64) int {
	if f.m.dead || f.pins.Closed() {
		return 0
	}
	return f.n.read(f.m.d, p, off)
}

// Evictions counts the pages that the page cache dropped. Who refers to one keeps what it
// held: later writes go to another page.
func (f *file) Evictions() int { return f.n.evictions }

// Close implements disk.File.
func (f *file) Close(t *task.T) error {
	c, err := f.begin(t, OpMeta, "close", 0)
	if err != nil {
		return err
	}
	if f.pins.Closed() { // somebody was faster
		return f.finish(t, c, "close", disk.ErrClosed)
	}
	f.pins.Close(f.free)
	f.m.d.note(trace.DiskClose, f.n.id, 0, 0)
	if f.m.d.fires(CloseError, f.path) {
		f.m.d.effective(CloseError)
		err = disk.ErrIO
	}
	return f.finish(t, c, "close", err)
}

// free gives the handle back, after Close and the last Range.
func (f *file) free() {
	m := f.m
	if m.dead {
		return
	}
	for i, o := range m.files {
		if o == f {
			m.files = append(m.files[:i], m.files[i+1:]...)
			break
		}
	}
	f.n.open--
	m.d.freeIfGone(f.n)
}

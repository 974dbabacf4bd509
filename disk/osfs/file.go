//go:build linux

package osfs

import (
	"io"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"seedlog/clock/task"
	"seedlog/disk"
)

// file is an open file. Calls in progress, pinned ranges and Close meet in users: the
// descriptor is closed when the last of them is done, for a reused descriptor would read
// and write another file.
type file struct {
	fd   int
	path string
	adm  *admission
	pins disk.Pins

	mu     sync.Mutex
	users  int  // calls in progress
	closed bool // by Close
	unpin  bool // closed, and the last Range released
	done   bool // the descriptor is closed
}

var (
	_ disk.Pinned     = (*file)(nil)
	_ disk.Descriptor = (*file)(nil)
)

// Path is the path the file was opened with.
func (f *file) Path() string { return f.path }

// FD is the descriptor, for senders that hold a Range of the file.
func (f *file) FD() int { return f.fd }

// Admit counts a sender's system call among the file's own.
func (f *file) Admit(t *task.T) { f.adm.enter(t) }

// Release ends what Admit began.
func (f *file) Release() { f.adm.leave() }

// begin admits a call; it fails after Close. A pinned call needs no count of its own: its
// Range holds the descriptor.
func (f *file) begin(t *task.T) bool {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return false
	}
	f.users++
	f.mu.Unlock()
	f.adm.enter(t)
	return true
}

func (f *file) end() {
	f.adm.leave()
	f.mu.Lock()
	f.users--
	last := f.lastLocked()
	f.mu.Unlock()
	if last {
		closeFD(f.fd)
	}
}

// lastLocked reports once that nothing uses the descriptor any more.
func (f *file) lastLocked() bool {
	if f.done || !f.unpin || f.users > 0 {
		return false
	}
	f.done = true
	return true
}

// ReadAt reads until p is full or the file ends.
func (f *file) ReadAt(t *task.T, p []byte, off int64) (int, error) {
	if !f.begin(t) {
		return 0, fail("read", f.path, unix.EBADF)
	}
	n, err := f.pread(p, off)
	f.end()
	return n, err
}

// ReadPinned is ReadAt on behalf of a Range.
func (f *file) ReadPinned(t *task.T, p []byte, off int64) (int, error) {
	f.adm.enter(t)
	n, err := f.pread(p, off)
	f.adm.leave()
	return n, err
}

func (f *file) pread(p []byte, off int64) (int, error) {
	n := 0
	for n < len(p) {
		m, err := unix.Pread(f.fd, p[n:], off+int64(n))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return n, fail("read", f.path, err)
		}
		if m == 0 {
			return n, io.EOF
		}
		n += m
	}
	return n, nil
}

// WriteAt writes all of p.
func (f *file) WriteAt(t *task.T, p []byte, off int64) (int, error) {
	if !f.begin(t) {
		return 0, fail("write", f.path, unix.EBADF)
	}
	n, err := f.pwrite(p, off)
	f.end()
	return n, err
}

func (f *file) pwrite(p []byte, off int64) (int, error) {
	n := 0
	for n < len(p) {
		m, err := unix.Pwrite(f.fd, p[n:], off+int64(n))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return n, fail("write", f.path, err)
		}
		if m == 0 {
			return n, fail("write", f.path, unix.EIO)
		}
		n += m
	}
	return n, nil
}

// iovBatch is how many buffers go into one pwritev; the array lives on the stack.
const iovBatch = 64

// WriteVec writes the buffers one after the other.
func (f *file) WriteVec(t *task.T, bufs [][]byte, off int64) (int64, error) {
	if !f.begin(t) {
		return 0, fail("write", f.path, unix.EBADF)
	}
	n, err := f.pwritev(bufs, off)
	f.end()
	return n, err
}

func (f *file) pwritev(bufs [][]byte, off int64) (int64, error) {
	var total int64
	skip := 0 // bytes of bufs[0] that are written
	for {
		for len(bufs) > 0 && skip == len(bufs[0]) {
			bufs, skip = bufs[1:], 0
		}
		if len(bufs) == 0 {
			return total, nil
		}
		var iov [iovBatch]unix.Iovec
		k := fillIovec(&iov, bufs, skip)
		pos := off + total
		r, _, errno := unix.Syscall6(unix.SYS_PWRITEV, uintptr(f.fd), uintptr(unsafe.Pointer(&iov[0])),
			uintptr(k), uintptr(pos), uintptr(pos>>32), 0) // the high word counts where words are short
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return total, fail("write", f.path, errno)
		}
		if r == 0 {
			return total, fail("write", f.path, unix.EIO)
		}
		total += int64(r)
		for m := int(r); m > 0; {
			if left := len(bufs[0]) - skip; m >= left {
				m -= left
				bufs, skip = bufs[1:], 0
			} else {
				skip, m = skip+m, 0
			}
		}
	}
}

func fillIovec(iov *[iovBatch]unix.Iovec, bufs [][]byte, skip int) int {
	k := 0
	for i, b := range bufs {
		if i == 0 {
			b = b[skip:]
		}
		if len(b) == 0 {
			continue
		}
		if k == iovBatch {
			break
		}
		iov[k].Base = &b[0]
		iov[k].SetLen(len(b))
		k++
	}
	return k
}

// Truncate cuts the ranges above size, then the file.
func (f *file) Truncate(t *task.T, size int64) error {
	f.pins.CutAbove(t, size)
	if !f.begin(t) {
		return fail("truncate", f.path, unix.EBADF)
	}
	err := retry(func() error { return unix.Ftruncate(f.fd, size) })
	f.end()
	if err != nil {
		return fail("truncate", f.path, err)
	}
	return nil
}

// Sync is fdatasync, which includes the size.
func (f *file) Sync(t *task.T) error {
	if !f.begin(t) {
		return fail("sync", f.path, unix.EBADF)
	}
	err := retry(func() error { return unix.Fdatasync(f.fd) })
	f.end()
	if err != nil {
		f.pins.CutAll()
		return fail("sync", f.path, err)
	}
	return nil
}

// Size is the size.
func (f *file) Size(t *task.T) (int64, error) {
	if !f.begin(t) {
		return 0, fail("stat", f.path, unix.EBADF)
	}
	var st unix.Stat_t
	err := retry(func() error { return unix.Fstat(f.fd, &st) })
	f.end()
	if err != nil {
		return 0, fail("stat", f.path, err)
	}
	return st.Size, nil
}

// Advise passes a hint on.
func (f *file) Advise(t *task.T, a disk.Advice, off, n int64) {
	if !f.begin(t) {
		return
	}
	advice := unix.FADV_DONTNEED
	if a == disk.WillNeed {
		advice = unix.FADV_WILLNEED
	}
	unix.Fadvise(f.fd, off, n, advice)
	f.end()
}

// PunchHole gives the space of a range back.
func (f *file) PunchHole(t *task.T, off, n int64) error {
	if n <= 0 {
		return nil
	}
	if !f.begin(t) {
		return fail("punch hole", f.path, unix.EBADF)
	}
	err := retry(func() error {
		return unix.Fallocate(f.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n)
	})
	f.end()
	if err != nil {
		return fail("punch hole", f.path, err)
	}
	return nil
}

// Range pins a part of the file.
func (f *file) Range(off, n int64) *disk.Range { return f.pins.New(f, off, n) }

// HasRanges reports whether a part is pinned.
func (f *file) HasRanges() bool { return f.pins.Any() }

// Close refuses further calls. The descriptor is closed when calls in progress and ranges
// are done; if that is now, its error is reported.
func (f *file) Close(t *task.T) error {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return fail("close", f.path, unix.EBADF)
	}
	f.closed = true
	f.mu.Unlock()
	var err error
	f.pins.Close(func() {
		f.mu.Lock()
		f.unpin = true
		last := f.lastLocked()
		f.mu.Unlock()
		if last {
			err = closeFD(f.fd)
		}
	})
	if err != nil {
		return fail("close", f.path, err)
	}
	return nil
}

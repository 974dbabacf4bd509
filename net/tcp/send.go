package tcp

import (
	"io"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/net"
)

const (
	// maxVec is how many byte parts leave in one system call.
	maxVec = 64
	// pieceBytes is the most one sendfile call takes: it holds an admission to the disk and
	// makes a truncation wait.
	pieceBytes = 1 << 20
	// copyBytes is the buffer of those who cannot sendfile.
	copyBytes = 64 << 10
)

// sender does the system calls of one write at a time. Its callbacks are made once, so that
// a write makes none.
type sender struct {
	counters *Counters

	// A vector of bytes: iov[first:n] is what is left of it.
	iov      [maxVec]unix.Iovec
	first, n int
	flags    uintptr
	msg      unix.Msghdr
	sendIov  func(fd uintptr) bool

	// A file range.
	t        *task.T
	r        *disk.Range
	from     disk.Descriptor
	off, end int64
	sendFile func(fd uintptr) bool

	err error
}

func (s *sender) init(c *Counters) {
	s.counters = c
	s.sendIov = s.iovStep
	s.sendFile = s.fileStep
}

// bytes sends byte parts; more tells that the write goes on after them.
func (s *sender) bytes(raw syscall.RawConn, parts []net.Part, more bool) error {
	s.first, s.n, s.err = 0, 0, nil
	s.flags = unix.MSG_NOSIGNAL
	if more {
		s.flags |= unix.MSG_MORE
	}
	for i := range parts {
		if b := parts[i].Bytes; len(b) > 0 {
			s.iov[s.n].Base = unsafe.SliceData(b)
			s.iov[s.n].SetLen(len(b))
			s.n++
		}
	}
	if s.n == 0 {
		return nil
	}
	err := raw.Write(s.sendIov)
	clear(s.iov[:s.n])
	s.msg.Iov = nil
	if err == nil {
		err = s.err
	}
	return err
}

// iovStep writes until everything is out or the socket is full (false).
func (s *sender) iovStep(fd uintptr) bool {
	for s.first < s.n {
		s.msg.Iov = &s.iov[s.first]
		s.msg.SetIovlen(s.n - s.first)
		n, _, errno := unix.Syscall(unix.SYS_SENDMSG, fd, uintptr(unsafe.Pointer(&s.msg)), s.flags)
		switch errno {
		case 0:
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return false
		default:
			s.err = errno
			return true
		}
		s.counters.WriteCalls.Add(1)
		s.counters.WriteBytes.Add(int64(n))
		s.advance(uint64(n))
	}
	return true
}

func (s *sender) advance(n uint64) {
	for n > 0 {
		v := &s.iov[s.first]
		if n < v.Len {
			v.Base = (*byte)(unsafe.Add(unsafe.Pointer(v.Base), n))
			v.Len -= n
			return
		}
		n -= v.Len
		s.first++
	}
}

// file sends a range by sendfile.
func (s *sender) file(t *task.T, raw syscall.RawConn, r *disk.Range, from disk.Descriptor) error {
	s.t, s.r, s.from, s.err = t, r, from, nil
	s.off, s.end = r.Off, r.Off+r.Len
	err := raw.Write(s.sendFile)
	s.t, s.r, s.from = nil, nil, nil
	if err == nil {
		err = s.err
	}
	return err
}

// fileStep sends pieces until everything is out or the socket is full (false). The range is
// not held, and the disk not occupied, while it waits for the socket.
func (s *sender) fileStep(fd uintptr) bool {
	for s.off < s.end {
		if !s.r.Begin() {
			s.err = cutErr(s.r.File().Path(), s.off, s.end-s.off)
			return true
		}
		s.from.Admit(s.t)
		off := s.off
		n, err := unix.Sendfile(int(fd), s.from.FD(), &off, int(min(s.end-s.off, pieceBytes)))
		s.from.Release()
		s.r.End()
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return false
		case err != nil:
			s.err = err
			return true
		case n <= 0:
			s.err = cutErr(s.r.File().Path(), s.off, s.end-s.off)
			return true
		}
		s.counters.SendfileCalls.Add(1)
		s.counters.SendfileBytes.Add(int64(n))
		s.off += int64(n)
	}
	return true
}

// writeRange sends one file range; more tells that the write goes on after it.
func (c *conn) writeRange(t *task.T, r *disk.Range, more bool) error {
	if from, ok := r.File().(disk.Descriptor); ok {
		return c.out.file(t, c.raw, r, from)
	}
	buf := copyPool.Get().(*[copyBytes]byte)
	defer copyPool.Put(buf)
	var one [1]net.Part
	for off := int64(0); off < r.Len; {
		n, err := c.readPiece(t, r, buf[:], off)
		if err != nil {
			return err
		}
		off += int64(n)
		one[0].Bytes = buf[:n]
		if err := c.out.bytes(c.raw, one[:], more || off < r.Len); err != nil {
			return err
		}
	}
	return nil
}

// readPiece reads what fits p of a range from off on.
func (c *conn) readPiece(t *task.T, r *disk.Range, p []byte, off int64) (int, error) {
	if left := r.Len - off; int64(len(p)) > left {
		p = p[:left]
	}
	n, err := r.ReadAt(t, p, off)
	if n < len(p) {
		if err == nil || err == io.EOF || r.Cut() {
			return 0, cutErr(r.File().Path(), r.Off+off, r.Len-off)
		}
		return 0, err
	}
	c.n.counters.CopiedBytes.Add(int64(n))
	return n, nil
}

// copyParts writes everything through one buffer, so that small parts share a TLS record.
func (c *conn) copyParts(t *task.T, parts []net.Part) error {
	buf := copyPool.Get().(*[copyBytes]byte)
	defer copyPool.Put(buf)
	fill := 0
	flush := func() error {
		_, err := c.tls.Write(buf[:fill])
		fill = 0
		return err
	}
	for _, p := range parts {
		for off := int64(0); ; {
			var n int
			var err error
			if p.File != nil {
				if off == p.File.Len {
					break
				}
				n, err = c.readPiece(t, p.File, buf[fill:], off)
			} else {
				if off == int64(len(p.Bytes)) {
					break
				}
				n = copy(buf[fill:], p.Bytes[off:])
			}
			if err != nil {
				return err
			}
			off += int64(n)
			if fill += n; fill == len(buf) {
				if err := flush(); err != nil {
					return err
				}
			}
		}
	}
	if fill > 0 {
		return flush()
	}
	return nil
}

var copyPool = sync.Pool{New: func() any { return new([copyBytes]byte) }}

package conn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/net"
)

const (
	// A connection begins with a buffer of smallMin, and gets one of smallMax when it proves
	// to have more to say. Frames that do not fit take one from the budget.
	smallMin = 1 << 10
	smallMax = 8 << 10
	// graceBytes is from which size on a frame has a time-out of its own.
	graceBytes = 64 << 10
	// graceRate is how many bytes of such a frame have to arrive in a second.
	graceRate = 32 << 10
)

// Why reading ends without it being anybody's fault.
var (
	errIdle    = errors.New("idle")
	errStopped = errors.New("stopped")
)

// refusal is why a client is sent away.
type refusal struct{ why string }

func (r *refusal) Error() string { return r.why }

func refuse(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

// frame is where the bytes of a request lie: in the small buffer of a generation, or in a
// buffer of the budget.
type frame struct {
	big   []byte
	gen   int // of the small buffer; 0 for none
	bytes []byte
}

// input reads frames. It belongs to the reading task, but for live, which is under the
// connection's mu.
type input struct {
	small []byte
	r, w  int // small[r:w] is read and not yet used
	gen   int // counts small buffers
	live  int // frames in use that lie in the present one
	grow  bool
	until clock.Instant // the deadline of reads
}

// read reads something into p. Deadlines are moved lazily: a read that ends by the old one
// goes on if there was activity meanwhile, or a reply is still to come.
func (c *Conn) read(t *task.T, p []byte) (int, error) {
	for {
		n, err := c.nc.Read(t, p, c.in.until)
		if !errors.Is(err, net.ErrTimeout) {
			return n, err
		}
		now := t.Now()
		if now < c.in.until { // not ours: a handshake that timed out says so for ever
			return n, err
		}
		c.mu.Lock()
		idleAt := c.active.Add(c.idle)
		if len(c.queue) > 0 || c.writing {
			idleAt = now.Add(c.idle)
		}
		c.mu.Unlock()
		if now >= idleAt {
			return 0, errIdle
		}
		c.in.until = idleAt
	}
}

// fill reads until n bytes are in the small buffer. n is at most smallMax.
func (c *Conn) fill(t *task.T, n int) error {
	in := &c.in
	if in.r == in.w && in.r > 0 {
		c.mu.Lock()
		if in.live == 0 {
			in.r, in.w = 0, 0
		}
		c.mu.Unlock()
	}
	for in.w-in.r < n {
		if in.r+n > len(in.small) || in.grow && in.r == in.w {
			c.makeRoom(n)
		}
		m, err := c.read(t, in.small[in.w:])
		if err != nil {
			if err == io.EOF && in.w > in.r {
				err = refuse("connection ended within a frame, after %d bytes", in.w-in.r)
			}
			return err
		}
		in.w += m
		in.grow = in.grow || in.w == len(in.small) && in.w < smallMax
	}
	return nil
}

// makeRoom moves what is not used to the beginning of the buffer, or of another one if
// frames in this one are still in use, or it is to grow.
func (c *Conn) makeRoom(n int) {
	in := &c.in
	size := len(in.small)
	if in.grow || n > size {
		size, in.grow = smallMax, false
	}
	rest := in.small[in.r:in.w]
	c.mu.Lock()
	if in.live > 0 || size != len(in.small) {
		in.small = make([]byte, size)
		in.gen, in.live = in.gen+1, 0
	}
	c.mu.Unlock()
	in.r, in.w = 0, copy(in.small, rest)
}

// head waits for the next frame and returns its size, key and version, all checked.
func (c *Conn) head(t *task.T) (size int, key, version int16, err error) {
	in := &c.in
	if err := c.fill(t, 4); err != nil {
		return 0, 0, 0, err
	}
	n := int32(binary.BigEndian.Uint32(in.small[in.r:]))
	if n < headerMin || n > c.s.cfg.FrameMaxBytes {
		return 0, 0, 0, refuse("frame of %d bytes, at least %d and at most %d are allowed", n, headerMin, c.s.cfg.FrameMaxBytes)
	}
	if err := c.fill(t, 8); err != nil {
		return 0, 0, 0, err
	}
	key = int16(binary.BigEndian.Uint16(in.small[in.r+4:]))
	version = int16(binary.BigEndian.Uint16(in.small[in.r+6:]))
	if ok, _ := c.s.svc.Supports(key, version); !ok && key != keyApiVersions {
		return 0, 0, 0, refuse("%s is not served", name(key, version))
	}
	if most := c.s.svc.MaxFrame(key, version); n > most {
		return 0, 0, 0, refuse("frame of %d bytes for %s, at most %d are allowed", n, name(key, version), most)
	}
	return int(n), key, version, nil
}

// body reads the rest of the frame that head announced. Only now its memory is taken.
func (c *Conn) body(t *task.T, size int) (frame, error) {
	in := &c.in
	if 4+size <= smallMax {
		if err := c.fill(t, 4+size); err != nil {
			return frame{}, err
		}
		c.mu.Lock()
		in.live++
		c.mu.Unlock()
		f := frame{gen: in.gen, bytes: in.small[in.r+4 : in.r+4+size]}
		in.r += 4 + size
		return f, nil
	}
	big := c.s.cfg.Budget.take(t, size)
	if big == nil {
		return frame{}, errStopped
	}
	f := frame{big: big, bytes: big}
	n := copy(big, in.small[in.r+4:in.w])
	in.r = in.w
	if err := c.readFull(t, big, n); err != nil {
		c.releaseFrame(&f)
		return frame{}, err
	}
	return f, nil
}

// readFull reads the rest of a large frame, of which n bytes are there.
func (c *Conn) readFull(t *task.T, big []byte, n int) error {
	until := clock.Never
	if len(big) > graceBytes {
		grace := time.Duration(c.s.cfg.FrameGraceMs)*time.Millisecond + time.Duration(len(big)/graceRate)*time.Second
		until = t.Now().Add(grace)
	}
	for n < len(big) {
		var m int
		var err error
		if until == clock.Never {
			m, err = c.read(t, big[n:])
		} else if m, err = c.nc.Read(t, big[n:], until); errors.Is(err, net.ErrTimeout) {
			err = refuse("frame of %d bytes took too long, %d arrived", len(big), n)
		}
		if err != nil {
			if err == io.EOF {
				err = refuse("connection ended within a frame of %d bytes, after %d", len(big), n)
			}
			return err
		}
		n += m
	}
	return nil
}

// releaseFrame gives the memory of a frame back. The second time is nothing.
func (c *Conn) releaseFrame(f *frame) {
	if f.gen > 0 {
		c.mu.Lock()
		c.dropFrame(f)
		c.mu.Unlock()
		return
	}
	if big := c.dropFrame(f); big != nil {
		c.s.cfg.Budget.give(big)
	}
}

// dropFrame ends the use of a frame and returns what the budget gets back. One in a small buffer
// takes mu.
func (c *Conn) dropFrame(f *frame) (big []byte) {
	if f.gen > 0 && f.gen == c.in.gen {
		c.in.live--
	}
	big = f.big
	*f = frame{}
	return big
}

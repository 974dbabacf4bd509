package tcp

import (
	"crypto/tls"
	"fmt"
	"io"
	stdnet "net"
	"syscall"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/net"
)

// conn is one connection. Its reading half is used by one task at a time, its writing half
// by one task at a time.
type conn struct {
	n             *Network
	c             *stdnet.TCPConn
	raw           syscall.RawConn
	tls           *tls.Conn // nil on plaintext
	local, remote string

	// A deadline is a system timer; it is only set when it changes.
	readUntil, writeUntil clock.Instant

	out sender
}

func (n *Network) newConn(c *stdnet.TCPConn, secure *tls.Conn) (*conn, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		c.Close()
		return nil, mapErr("open", c.RemoteAddr().String(), err)
	}
	// The standard library sets TCP_NODELAY on every connection.
	cn := &conn{
		n: n, c: c, raw: raw, tls: secure,
		local: c.LocalAddr().String(), remote: c.RemoteAddr().String(),
		readUntil: clock.Never, writeUntil: clock.Never,
	}
	cn.out.init(&n.counters)
	return cn, nil
}

func (c *conn) LocalAddr() string  { return c.local }
func (c *conn) RemoteAddr() string { return c.remote }

// Read implements net.Conn.
func (c *conn) Read(t *task.T, p []byte, until clock.Instant) (int, error) {
	if until != c.readUntil {
		if err := c.c.SetReadDeadline(deadline(t, until)); err != nil {
			return 0, mapErr("read", c.remote, err)
		}
		c.readUntil = until
	}
	var n int
	var err error
	if c.tls != nil {
		n, err = c.tls.Read(p)
	} else {
		n, err = c.c.Read(p)
	}
	if n > 0 || err == nil {
		return n, nil
	}
	if err == io.EOF {
		return 0, io.EOF
	}
	return 0, mapErr("read", c.remote, err)
}

// Write implements net.Conn.
func (c *conn) Write(t *task.T, parts []net.Part, until clock.Instant) error {
	err := c.write(t, parts, until)
	for i := range parts {
		if parts[i].File != nil {
			parts[i].File.Release()
		}
	}
	if err == nil {
		return nil
	}
	// The peer was promised what it will not get.
	c.c.Close()
	return mapErr("write", c.remote, err)
}

func (c *conn) write(t *task.T, parts []net.Part, until clock.Instant) error {
	if until != c.writeUntil {
		if err := c.c.SetWriteDeadline(deadline(t, until)); err != nil {
			return err
		}
		c.writeUntil = until
	}
	if c.tls != nil {
		return c.copyParts(t, parts)
	}
	for len(parts) > 0 {
		n := 0
		for n < len(parts) && parts[n].File == nil && n < maxVec {
			n++
		}
		var err error
		if n > 0 {
			err = c.out.bytes(c.raw, parts[:n], anyBytes(parts[n:]))
		} else {
			n = 1
			err = c.writeRange(t, parts[0].File, anyBytes(parts[1:]))
		}
		if err != nil {
			return err
		}
		parts = parts[n:]
	}
	return nil
}

// anyBytes tells whether something is left to send. Only then may the bytes before it say
// that more follows, or they would wait for it.
func anyBytes(parts []net.Part) bool {
	for i := range parts {
		if len(parts[i].Bytes) > 0 || parts[i].File != nil && parts[i].File.Len > 0 {
			return true
		}
	}
	return false
}

// Close implements net.Conn.
func (c *conn) Close() {
	if c.tls != nil {
		c.tls.Close() // says goodbye, then closes the socket
		return
	}
	c.c.Close()
}

func cutErr(path string, off, left int64) error {
	return fmt.Errorf("%s at %d, %d bytes short: %w", path, off, left, net.ErrCut)
}

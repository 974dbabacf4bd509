// Package net is the contract for the network: streams of bytes between addresses.
//
// A write may arrive in pieces, late, or never. A connection may die with the tail of what
// was written lost, be half-open, be slow one way. Nothing here says that a byte arrived.
//
// Each connection is read by one task and written by one task at a time. Closing wakes
// whoever waits; that the group of a waiting task stops does not, for a thread in the kernel
// would not hear of it: whoever stops a group closes its listeners and connections.
package net

import (
	"errors"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/disk"
)

// Errors every implementation returns, wrapped with the address.
var (
	// ErrClosed: this side closed the connection or listener.
	ErrClosed = errors.New("use of closed connection")
	// ErrReset: the other side, or the network, ended the connection.
	ErrReset = errors.New("connection reset by peer")
	// ErrTimeout: the deadline passed. A write that timed out has ended the connection.
	ErrTimeout = errors.New("i/o timeout")
	// ErrRefused: nobody listens there.
	ErrRefused = errors.New("connection refused")
	// ErrInUse: somebody else listens there.
	ErrInUse = errors.New("address already in use")
	// ErrCut: a file range came up short or was truncated while it was sent; the connection
	// has ended, for the peer was promised more bytes.
	ErrCut = errors.New("file range cut while sending")
)

// Part is a piece of a write: Bytes, or, if it is not nil, File. Bytes must not change
// until the write returns (the simulator copies them at once). A File range is bound late;
// the connection releases it when it is sent or the write fails, in every case.
type Part struct {
	Bytes []byte
	File  *disk.Range
}

// Network is one machine's network.
type Network interface {
	// Listen opens a listener on "host:port"; port 0 draws one.
	Listen(t *task.T, addr string) (Listener, error)
	// Dial connects to "host:port" until the deadline.
	Dial(t *task.T, addr string, until clock.Instant) (Conn, error)
}

// Listener accepts connections.
type Listener interface {
	// Accept waits for a connection. It returns ErrClosed after Close.
	Accept(t *task.T) (Conn, error)
	// Addr is the bound "host:port".
	Addr() string
	// Close ends the listener and wakes its Accept. Connections live on.
	Close()
}

// Conn is one connection.
type Conn interface {
	// Read reads at least one byte. io.EOF: the peer closed its side after its last byte.
	// ErrTimeout leaves the connection usable; clock.Never waits for ever.
	Read(t *task.T, p []byte, until clock.Instant) (int, error)
	// Write writes all parts in order, or ends the connection. On a plaintext socket a file
	// range leaves by sendfile.
	Write(t *task.T, parts []Part, until clock.Instant) error
	// LocalAddr and RemoteAddr are "host:port".
	LocalAddr() string
	RemoteAddr() string
	// Close ends the connection both ways and wakes its reader and writer. What was written
	// is still delivered if the network can. Closing twice is nothing.
	Close()
}

// Package tcp is the network of production: TCP, and TLS on top of it.
//
// It owns sockets. Reads and dials are the standard library's; a plaintext write goes past
// it, straight to the socket, for two reasons: a file range leaves by sendfile at an
// explicit offset, in pieces that each are announced to the range (so that a truncation can
// wait for them), and the bytes before a range carry MSG_MORE, so that a response header
// and the beginning of its records share a packet. On TLS everything is copied and
// encrypted.
//
//	Write(parts):  bytes bytes | range            | bytes
//	               sendmsg+MORE  sendfile sendfile  sendmsg
//
// What it never does: wait for a task (a task that waits here is a blocked goroutine), or
// notice that a group stops. Whoever stops a group closes its connections.
//
// In the steady state neither Read nor Write allocates.
package tcp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	stdnet "net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/net"
)

// handshakeMax is how long a client may take for its TLS handshake.
const handshakeMax = 30 * time.Second

// Config is how a network is used.
type Config struct {
	// ServerTLS encrypts accepted connections; nil for plaintext.
	ServerTLS *tls.Config
	// ClientTLS encrypts dialled connections; nil for plaintext.
	ClientTLS *tls.Config
}

// Counters tell how bytes left. They only grow.
type Counters struct {
	SendfileCalls atomic.Int64
	SendfileBytes atomic.Int64
	// WriteCalls and WriteBytes count byte parts on plaintext sockets.
	WriteCalls atomic.Int64
	WriteBytes atomic.Int64
	// CopiedBytes are bytes of file ranges that were read and written: on TLS, or from a
	// file without a descriptor.
	CopiedBytes atomic.Int64
}

// Network is the machine's network.
type Network struct {
	cfg      Config
	counters Counters
}

// New returns the machine's network.
func New(cfg Config) *Network { return &Network{cfg: cfg} }

// Counters are the network's.
func (n *Network) Counters() *Counters { return &n.counters }

// Listen implements net.Network.
func (n *Network) Listen(_ *task.T, addr string) (net.Listener, error) {
	l, err := stdnet.Listen("tcp", addr)
	if err != nil {
		return nil, mapErr("listen", addr, err)
	}
	return &listener{n: n, l: l.(*stdnet.TCPListener), addr: l.Addr().String()}, nil
}

// Dial implements net.Network.
func (n *Network) Dial(t *task.T, addr string, until clock.Instant) (net.Conn, error) {
	d := stdnet.Dialer{Deadline: deadline(t, until)}
	c, err := d.DialContext(context.Background(), "tcp", addr)
	if err != nil {
		return nil, mapErr("dial", addr, err)
	}
	cfg := n.cfg.ClientTLS
	if cfg != nil && cfg.ServerName == "" && !cfg.InsecureSkipVerify {
		host, _, err := stdnet.SplitHostPort(addr)
		if err != nil {
			c.Close()
			return nil, mapErr("dial", addr, err)
		}
		cfg = cfg.Clone()
		cfg.ServerName = host
	}
	if cfg == nil {
		return n.newConn(c.(*stdnet.TCPConn), nil)
	}
	secure := tls.Client(c, cfg)
	ctx := context.Background()
	if until != clock.Never {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, d.Deadline)
		defer cancel()
	}
	if err := secure.HandshakeContext(ctx); err != nil {
		c.Close()
		return nil, mapErr("dial", addr, err)
	}
	return n.newConn(c.(*stdnet.TCPConn), secure)
}

type listener struct {
	n    *Network
	l    *stdnet.TCPListener
	addr string
}

func (l *listener) Accept(_ *task.T) (net.Conn, error) {
	c, err := l.l.AcceptTCP()
	if err != nil {
		return nil, mapErr("accept", l.addr, err)
	}
	if l.n.cfg.ServerTLS == nil {
		return l.n.newConn(c, nil)
	}
	secure := tls.Server(c, l.n.cfg.ServerTLS)
	// Accept does not wait for the handshake; the first Read or Write does.
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), handshakeMax)
		defer cancel()
		if secure.HandshakeContext(ctx) != nil {
			c.Close()
		}
	}()
	return l.n.newConn(c, secure)
}

func (l *listener) Addr() string { return l.addr }

func (l *listener) Close() { l.l.Close() }

// deadline is until as the standard library wants it.
func deadline(t *task.T, until clock.Instant) time.Time {
	if until == clock.Never {
		return time.Time{}
	}
	return time.Now().Add(until.Sub(t.Now()))
}

// mapErr says err in the contract's words.
func mapErr(op, addr string, err error) error {
	if err == io.EOF || err == nil {
		return err
	}
	kind := net.ErrReset
	switch {
	case errors.Is(err, net.ErrCut), errors.Is(err, net.ErrClosed):
		return err
	case errors.Is(err, stdnet.ErrClosed):
		kind = net.ErrClosed
	case errors.Is(err, os.ErrDeadlineExceeded), op == "dial" && isTimeout(err):
		kind = net.ErrTimeout
	case errors.Is(err, syscall.EADDRINUSE):
		kind = net.ErrInUse
	case errors.Is(err, syscall.ECONNREFUSED):
		kind = net.ErrRefused
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, syscall.ETIMEDOUT): // keep-alive gave up: that is no deadline of ours
	default:
		return fmt.Errorf("%s %s: %w", op, addr, err)
	}
	return fmt.Errorf("%s %s: %w", op, addr, kind)
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

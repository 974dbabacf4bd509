// Package nettest is the conformance suite of package net. Every implementation runs it, so
// that what the node learns about networks in the simulator is true in production.
//
// It owns the cases, never a world: the factory brings tasks, two networks that reach each
// other, and a disk for file ranges. A case is one task and those it starts; it fails by
// returning an error, because a test must not be ended from within a task.
package nettest

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/net"
)

// patience is longer than anything here takes, on a slow simulated network too.
const patience = 10 * time.Minute

// World is where one case runs.
type World struct {
	// Run runs fn as a task and returns when it and all it started have ended.
	Run func(fn func(t *task.T))
	// Server listens on Addr, which ends in ":0"; Client dials it.
	Server, Client net.Network
	Addr           string
	// Disk has an empty directory Dir; the server sends from it.
	Disk disk.Disk
	Dir  string
	// Window is a number of bytes that no connection takes before its peer reads.
	Window int
	// Close, if there is one, ends the world.
	Close func()
}

// Factory makes a fresh world for a case.
type Factory func(t *testing.T) *World

// env is a case's world and its findings.
type env struct {
	*World
	mu   sync.Mutex
	errs []error
}

func (e *env) fail(err error) {
	if err != nil {
		e.mu.Lock()
		e.errs = append(e.errs, err)
		e.mu.Unlock()
	}
}

// Run runs every case.
func Run(t *testing.T, f Factory) {
	for _, c := range []struct {
		name string
		fn   func(e *env, t *task.T) error
	}{
		{"bytes go both ways", bothWays},
		{"EOF comes after the last byte", eofAfterLast},
		{"nobody listens: refused", refused},
		{"a taken address is in use", inUse},
		{"port 0 draws different ports", portZero},
		{"closing a listener wakes Accept", closeWakesAccept},
		{"closing a listener leaves its connections", closeLeavesConns},
		{"closing wakes the reader", closeWakesReader},
		{"closing wakes the writer", closeWakesWriter},
		{"closing twice is nothing", closeTwice},
		{"writing to a closed peer is a reset", writeToClosed},
		{"a read deadline leaves the connection usable", readDeadline},
		{"a write deadline ends the connection", writeDeadline},
		{"a slow reader holds the writer back", backPressure},
		{"parts arrive in order", partsOrder},
		{"empty parts are nothing", emptyParts},
		{"many connections do not mix", manyConns},
		{"a range larger than the window arrives whole", bigRange},
		{"late binding: overwritten while parked", lateOverwritten},
		{"late binding: truncated while parked", lateTruncated},
		{"late binding: closed and reused while parked", lateClosed},
		{"a short file ends the connection", shortFile},
		{"a failed write releases its ranges", failedReleases},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := &env{World: f(t)}
			if e.Close != nil {
				t.Cleanup(e.Close)
			}
			e.Run(func(t *task.T) { e.fail(c.fn(e, t)) })
			for _, err := range e.errs {
				t.Error(err)
			}
		})
	}
}

// pair is a connection with both its ends.
type pair struct {
	ln             net.Listener
	server, client net.Conn
}

func (p *pair) close() {
	p.server.Close()
	p.client.Close()
	p.ln.Close()
}

// connect makes a connection.
func (e *env) connect(t *task.T) (*pair, error) {
	ln, err := e.Server.Listen(t, e.Addr)
	if err != nil {
		return nil, err
	}
	p, err := e.connectTo(t, ln)
	if err != nil {
		ln.Close()
	}
	return p, err
}

func (e *env) connectTo(t *task.T, ln net.Listener) (*pair, error) {
	p := &pair{ln: ln}
	var err, dialErr error
	dial := e.start(t, "dial", func(t *task.T) {
		p.client, dialErr = e.Client.Dial(t, ln.Addr(), t.Now().Add(patience))
	})
	p.server, err = ln.Accept(t)
	dial.Wait(t)
	return p, errors.Join(err, dialErr)
}

// start starts a task and returns what waits for it.
func (e *env) start(t *task.T, name string, fn func(t *task.T)) *task.Group {
	g := t.Group().Sub(name)
	g.Go(name, fn)
	return g
}

// pattern is n bytes that differ from place to place and from salt to salt.
func pattern(n int, salt byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i) ^ byte(i>>8)*31 ^ byte(i>>16)*7 ^ salt
	}
	return b
}

// readAll reads until the connection ends and returns how it ended.
func readAll(t *task.T, c net.Conn) ([]byte, error) {
	var got []byte
	buf := make([]byte, 32<<10)
	for {
		n, err := c.Read(t, buf, t.Now().Add(patience))
		got = append(got, buf[:n]...)
		if err != nil {
			return got, err
		}
		if n == 0 {
			return got, errors.New("read returned neither bytes nor an error")
		}
	}
}

// readFull reads n bytes.
func readFull(t *task.T, c net.Conn, n int) ([]byte, error) {
	got := make([]byte, n)
	for at := 0; at < n; {
		m, err := c.Read(t, got[at:], t.Now().Add(patience))
		if err != nil {
			return got[:at], fmt.Errorf("after %d of %d bytes: %w", at, n, err)
		}
		at += m
	}
	return got, nil
}

func write(t *task.T, c net.Conn, b []byte) error {
	return c.Write(t, []net.Part{{Bytes: b}}, t.Now().Add(patience))
}

func same(what string, got, want []byte) error {
	if len(got) != len(want) {
		return fmt.Errorf("%s: %d bytes, want %d", what, len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			return fmt.Errorf("%s: byte %d of %d is %#x, want %#x", what, i, len(got), got[i], want[i])
		}
	}
	return nil
}

func is(what string, err, want error) error {
	if !errors.Is(err, want) {
		return fmt.Errorf("%s: %v, want %v", what, err, want)
	}
	return nil
}

// ended tells whether err is how a connection ends for the side that did not end it.
func ended(what string, err error) error {
	if err == io.EOF || errors.Is(err, net.ErrReset) {
		return nil
	}
	return fmt.Errorf("%s: %v, want EOF or %v", what, err, net.ErrReset)
}

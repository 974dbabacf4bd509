package peer

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/net"
	"seedlog/node/event"
)

// Errors of Do, wrapped with the client's name. Those of package net come through as they
// are: ErrRefused and ErrReset say that the node is not there.
var (
	// ErrTimeout: the deadline passed first. Whether the other node acted is unknown.
	ErrTimeout = errors.New("timed out waiting for the other node")
	// ErrClosed: the client was closed, or the caller's group stops.
	ErrClosed = errors.New("client of another node is closed")
	// ErrUnsent: nothing was sent, so the other node did not act. It comes with another one.
	ErrUnsent = errors.New("nothing was sent")
	// ErrProtocol: the answer is not one to the request.
	ErrProtocol = errors.New("malformed answer of another node")
)

const (
	// defaultMaxBytes bounds a response frame.
	defaultMaxBytes = 100 << 20
	// dialMax bounds a dial, for nothing can end it earlier and the node's stop waits for it.
	dialMax = 2 * time.Second
	// keepBytes is how large a buffer is kept for the next request.
	keepBytes = 4 << 20
)

// Env is the world of a Client.
type Env struct {
	RT       task.Runtime
	Net      net.Network
	ClientID string     // in every request header
	Events   event.Sink // may be nil
	// MaxBytes bounds a response frame; 0 is 100 MiB.
	MaxBytes int32
}

// Client talks to one node at a time.
type Client struct {
	env       Env
	name      string
	formatter *kmsg.RequestFormatter

	mu     task.Mutex // guards what follows
	closed bool
	busy   bool      // somebody has the turn
	queue  []*waiter // who waits for it
	conn   net.Conn

	// Of whoever has the turn.
	addr        string // conn's
	correlation int32
	out, in     []byte
	parts       [1]net.Part
}

// waiter is a call of Do that waits for its turn.
type waiter struct{ turn task.Event }

// NewClient returns a client that is not connected. name is what errors and events call it.
func NewClient(env Env, name string) *Client {
	if env.MaxBytes <= 0 {
		env.MaxBytes = defaultMaxBytes
	}
	c := &Client{env: env, name: name, formatter: kmsg.NewRequestFormatter(kmsg.FormatterClientID(env.ClientID))}
	c.mu.Init(env.RT, "peer.Client")
	return c
}

// Do sends req, with its Version set, to the node at addr ("host:port") and waits for the
// answer until the deadline. It dials if it is not connected to addr. Calls of several
// tasks run one after the other. What the response refers to is valid until the next Do.
// Any error closes the connection; then it is unknown whether the other node acted, except
// after ErrUnsent.
func (c *Client) Do(t *task.T, addr string, req kmsg.Request, until clock.Instant) (kmsg.Response, error) {
	return c.DoAs(t, addr, "", req, until)
}

// DoAs is Do with a client id of the request's own; "" is the client's.
func (c *Client) DoAs(t *task.T, addr, clientID string, req kmsg.Request, until clock.Instant) (kmsg.Response, error) {
	if err := c.enter(t, until); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", c.name, ErrUnsent, err)
	}
	conn, err := c.connect(t, addr, until)
	if err != nil {
		err = fmt.Errorf("%s: %w: %w", c.name, ErrUnsent, c.lost(addr, err))
		c.leave()
		return nil, err
	}
	resp, err := c.exchange(t, conn, clientID, req, until)
	if err != nil {
		err = fmt.Errorf("%s: %w", c.name, c.lost(addr, err))
	}
	c.leave()
	return resp, err
}

// Close ends the client for good and wakes everybody in Do, except from a dial, which ends
// by itself soon.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	conn := c.conn
	for _, w := range c.queue {
		w.turn.Set()
	}
	c.queue = nil
	c.mu.Unlock()
	if conn != nil {
		conn.Close()
	}
}

// enter waits for the caller's turn.
func (c *Client) enter(t *task.T, until clock.Instant) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return ErrClosed
	}
	if !c.busy {
		c.busy = true
		c.mu.Unlock()
		return nil
	}
	w := &waiter{}
	w.turn.Init(c.env.RT, "peer.waiter")
	c.queue = append(c.queue, w)
	c.mu.Unlock()
	r := w.turn.Wait(t, until)
	c.mu.Lock()
	i := slices.Index(c.queue, w)
	if i >= 0 {
		c.queue = slices.Delete(c.queue, i, i+1)
	}
	closed := c.closed
	c.mu.Unlock()
	switch {
	case closed:
		return ErrClosed
	case r == task.Woken:
		return nil
	case i < 0: // it became this call's turn when it had given up
		c.leave()
	}
	if r == task.TimedOut {
		return ErrTimeout
	}
	return ErrClosed
}

// leave hands the turn to the longest waiter.
func (c *Client) leave() {
	c.mu.Lock()
	c.busy = len(c.queue) > 0
	if c.busy {
		w := c.queue[0]
		c.queue = slices.Delete(c.queue, 0, 1)
		w.turn.Set()
	}
	c.mu.Unlock()
}

// exchange sends one request and reads its answer.
func (c *Client) exchange(t *task.T, conn net.Conn, clientID string, req kmsg.Request, until clock.Instant) (kmsg.Response, error) {
	c.correlation++
	formatter := c.formatter
	if clientID != "" {
		formatter = kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID))
	}
	c.out = formatter.AppendRequest(kept(c.out), req, c.correlation)
	c.parts[0] = net.Part{Bytes: c.out}
	if err := conn.Write(t, c.parts[:], until); err != nil {
		return nil, err
	}
	frame, err := c.read(t, conn, until)
	if err != nil {
		return nil, err
	}
	return decode(frame, req, c.correlation)
}

// connect returns the connection to addr, a new one if need be.
func (c *Client) connect(t *task.T, addr string, until clock.Instant) (net.Conn, error) {
	if conn := c.current(); conn != nil {
		if c.addr == addr {
			return conn, nil
		}
		c.drop()
	}
	if t.Stopping() {
		return nil, ErrClosed
	}
	conn, err := c.env.Net.Dial(t, addr, min(until, t.Now().Add(dialMax)))
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.conn, c.addr = conn, addr
	}
	c.mu.Unlock()
	if closed {
		conn.Close()
		return nil, ErrClosed
	}
	c.emit(Connected{Client: c.name, Addr: addr})
	return conn, nil
}

func (c *Client) current() net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conn
}

// drop closes the connection, if there is one.
func (c *Client) drop() {
	c.mu.Lock()
	conn := c.conn
	c.conn = nil
	c.mu.Unlock()
	if conn != nil {
		conn.Close()
	}
}

// lost closes the connection because of err, and returns err in the words of Do.
func (c *Client) lost(addr string, err error) error {
	c.drop()
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	switch {
	case closed:
		return ErrClosed
	case errors.Is(err, ErrClosed):
		return err
	}
	if errors.Is(err, net.ErrTimeout) {
		err = fmt.Errorf("%w: %w", ErrTimeout, err)
	}
	c.emit(Lost{Client: c.name, Addr: addr, Err: err})
	return err
}

// kept is an empty buffer: b, unless one answer made it too large to keep.
func kept(b []byte) []byte {
	if cap(b) > keepBytes {
		return nil
	}
	return b[:0]
}

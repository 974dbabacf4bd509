package conn

import (
	"errors"
	"io"
	"time"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/net"
	"seedlog/node/event"
)

// Conn is one connection of a client.
type Conn struct {
	s      *server
	nc     net.Conn
	id     int64
	place  int // in s.conns
	idle   time.Duration
	in     input
	client *string // the client id that was seen last
	writes bool    // the writing task was started

	mu       task.Mutex
	queue    []*Reply // not yet given, or given and not yet taken to be written; oldest first
	queued   int64    // cost of all replies that are not retired
	spare    []*Reply
	requests int64
	active   clock.Instant // when a frame was complete or a write done
	writing  bool          // somebody is in flush
	closed   bool
	waiting  *task.T // the reading task, if it waits for replies
	writer   *task.T // the writing task

	// Of whoever is in flush.
	batch      []*Reply
	out        []net.Part
	writeUntil clock.Instant
}

// ID numbers the connections of a listener from 1.
func (c *Conn) ID() int64 { return c.id }

// Listener is the name of the listener that the connection came through.
func (c *Conn) Listener() string { return c.s.cfg.Name }

// RemoteAddr is the client's "host:port".
func (c *Conn) RemoteAddr() string { return c.nc.RemoteAddr() }

// LocalAddr is the broker's "host:port" of the connection.
func (c *Conn) LocalAddr() string { return c.nc.LocalAddr() }

// run is the reading task.
func (c *Conn) run(t *task.T) {
	for {
		if err := c.one(t); err != nil {
			c.shut(err)
			return
		}
	}
}

// one reads and serves one request.
func (c *Conn) one(t *task.T) error {
	size, key, version, err := c.head(t)
	if err != nil {
		return err
	}
	// A Produce may run behind others that wait; anything else is alone.
	most, bytes := 0, int64(0)
	if key == keyProduce {
		most, bytes = c.s.cfg.PipelineMax-1, max(c.s.cfg.PipelineBytes-int64(size), 0)
	}
	if err := c.await(t, most, bytes); err != nil {
		return err
	}
	f, err := c.body(t, size)
	if err != nil {
		return err
	}
	r, err := c.begin(t, key, version, f)
	if err != nil {
		return err
	}
	c.s.svc.Serve(t, &r.req, r)
	late := c.served(r)
	if err := c.flush(t); err != nil || !late {
		return err
	}
	if key != keyProduce {
		return c.await(t, 0, 0)
	}
	if !c.writes {
		c.writes = true
		c.s.group.Go(c.s.taskName("writer", c.id), c.write)
	}
	return nil
}

// begin parses the header and puts a reply in the queue.
func (c *Conn) begin(t *task.T, key, version int16, f frame) (*Reply, error) {
	ok, flexible := c.s.svc.Supports(key, version)
	var h header
	var body []byte
	var err error
	if ok {
		h, body, err = parseHeader(f.bytes, headerVersion(key, version, flexible))
	} else {
		h, _, err = parseHeader(f.bytes, 0) // ApiVersions from the future
		flexible = false
	}
	if err != nil {
		c.releaseFrame(&f)
		return nil, refuse("%s: %v", name(key, version), err)
	}
	now := t.Now()
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		c.releaseFrame(&f)
		return nil, errStopped
	}
	defer c.mu.Unlock()
	r := c.reply()
	r.frame, r.cost = f, int64(len(f.bytes))
	r.tags = flexible && key != keyApiVersions
	r.req = Request{
		Key: key, Version: version, CorrelationID: h.correlationID,
		ClientID: c.clientID(h), Body: body, Conn: c, Received: now,
	}
	c.requests++
	c.active = now
	c.queued += r.cost
	c.queue = append(c.queue, r)
	return r, nil
}

// reply takes a reply off the spare ones. One that was given late is never used again, so
// that a second answer to it cannot become one to another request.
func (c *Conn) reply() *Reply {
	n := len(c.spare)
	if n == 0 {
		return new(Reply)
	}
	r := c.spare[n-1]
	c.spare = c.spare[:n-1]
	if !r.late {
		r.state, r.served = replyOpen, false
		return r
	}
	fresh := &Reply{buf: r.buf, parts: r.parts}
	r.buf, r.parts = nil, nil
	return fresh
}

// clientID is the client id of a header; the last one is remembered, for it seldom changes.
func (c *Conn) clientID(h header) *string {
	if h.null {
		return nil
	}
	if c.client == nil || *c.client != string(h.client) {
		s := string(h.client)
		c.client = &s
	}
	return c.client
}

// served notes that Serve returned, and tells whether the reply is still to come. If it is not, the
// frame goes back: how long the client takes to read is nothing that others should wait for.
func (c *Conn) served(r *Reply) (late bool) {
	var big []byte
	c.mu.Lock()
	r.served = true
	r.late = r.state == replyOpen
	late = r.late
	dead := c.closed
	if !late {
		r.req.Body = nil
		big = c.dropFrame(&r.frame)
	}
	c.mu.Unlock()
	if big != nil {
		c.s.cfg.Budget.give(big)
	}
	if dead && !late {
		c.retire(r)
	}
	return late
}

// await waits until at most so many requests and bytes are on their way; none means that
// the last reply was written, too.
func (c *Conn) await(t *task.T, most int, bytes int64) error {
	for {
		c.mu.Lock()
		c.waiting = nil
		switch {
		case c.closed:
			c.mu.Unlock()
			return errStopped
		case len(c.queue) == 0 && !c.writing, most > 0 && len(c.queue) <= most && c.queued <= bytes:
			c.mu.Unlock()
			return nil
		}
		if !c.writing && ready(c.queue) {
			c.mu.Unlock()
			if err := c.flush(t); err != nil {
				return err
			}
			continue
		}
		c.waiting = t
		c.mu.Unlock()
		if t.Park(clock.Never) == task.Stopping {
			return errStopped
		}
	}
}

// ready tells whether the oldest reply can leave.
func ready(queue []*Reply) bool {
	return len(queue) > 0 && queue[0].served && queue[0].state != replyOpen
}

// write is the writing task.
func (c *Conn) write(t *task.T) {
	c.mu.Lock()
	c.writer = t
	c.mu.Unlock()
	for {
		if err := c.flush(t); err != nil {
			c.shut(err)
			return
		}
		c.mu.Lock()
		over := c.closed
		c.mu.Unlock()
		if over || t.Park(clock.Never) == task.Stopping {
			return
		}
	}
}

// shut ends the connection; any task may. Replies that were given are dropped now, others
// when they are.
func (c *Conn) shut(why error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed = true
	queue := c.queue
	c.queue = nil
	keep := queue[:0]
	for _, r := range queue {
		if r.served && r.state != replyOpen {
			keep = append(keep, r)
		}
	}
	waiting, writer, requests := c.waiting, c.writer, c.requests
	c.mu.Unlock()
	c.nc.Close()
	for _, r := range keep {
		c.retire(r)
	}
	if waiting != nil {
		waiting.Wake()
	}
	if writer != nil {
		writer.Wake()
	}
	c.s.closed(c)
	if c.s.cfg.Events == nil {
		return
	}
	e := event.ConnectionClosed{Listener: c.s.cfg.Name, Remote: c.nc.RemoteAddr(), Requests: requests, Reason: why.Error()}
	var bad *refusal
	e.Bad = errors.As(why, &bad)
	if why == io.EOF {
		e.Reason = "closed by the client"
	}
	c.s.cfg.Events.Emit(e)
}

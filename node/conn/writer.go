package conn

import (
	"seedlog/clock/task"
	"seedlog/net"
)

const (
	// batchMax and batchBytes bound how many replies leave in one write.
	batchMax   = 64
	batchBytes = 1 << 20
	// bufferKept is the largest encoding buffer that a connection keeps.
	bufferKept = 16 << 10
)

// flush writes all replies that are ready, in order, unless another task does. It returns an
// error if the connection has to end.
func (c *Conn) flush(t *task.T) error {
	for {
		c.mu.Lock()
		if c.writing || c.closed || !ready(c.queue) {
			waiting := c.waiting
			c.mu.Unlock()
			if waiting != nil && waiting != t {
				waiting.Wake()
			}
			return nil
		}
		c.writing = true
		last := c.takeBatch()
		c.mu.Unlock()

		err := c.writeBatch(t)
		for i, r := range c.batch {
			c.retire(r)
			c.batch[i] = nil
		}
		c.batch = c.batch[:0]
		if err == nil && last != nil {
			err = refuse("%s", last.why)
		}
		if last != nil {
			c.retire(last)
		}
		c.mu.Lock()
		c.writing = false
		c.active = t.Now()
		c.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// takeBatch moves ready replies from the queue to the batch, under mu. If the connection is
// to be closed after them it returns the reply that says so.
func (c *Conn) takeBatch() (last *Reply) {
	n, bytes := 0, 0
	for ; n < len(c.queue) && n < batchMax && bytes < batchBytes; n++ {
		r := c.queue[n]
		if !r.served || r.state == replyOpen {
			break
		}
		if r.state == replyClose {
			last = r
			n++
			break
		}
		for _, p := range r.parts {
			bytes += partLen(p)
		}
		c.batch = append(c.batch, r)
	}
	left := copy(c.queue, c.queue[n:])
	clear(c.queue[left:])
	c.queue = c.queue[:left]
	return last
}

// writeBatch writes the batch.
func (c *Conn) writeBatch(t *task.T) error {
	for _, r := range c.batch {
		if r.state == replySend {
			c.out = append(append(c.out, net.Part{Bytes: r.header()}), r.parts...)
		}
	}
	if len(c.out) == 0 {
		return nil
	}
	// A client that does not read is idle. The deadline is moved seldom, for it is a timer.
	if now := t.Now(); c.writeUntil.Sub(now) < c.idle {
		c.writeUntil = now.Add(c.idle + c.idle/8)
	}
	err := c.nc.Write(t, c.out, c.writeUntil)
	clear(c.out)
	c.out = c.out[:0]
	return err
}

// retire is the end of a reply that was given: its memory goes back. Exactly one task does
// it: whoever wrote it, or, on a dead connection, whoever came last of give, Serve's return
// and shut.
func (c *Conn) retire(r *Reply) {
	releaseParts(r.parts)
	c.releaseFrame(&r.frame)
	r.req.Body = nil
	if cap(r.buf) > bufferKept {
		r.buf = nil
	}
	if cap(r.parts) > batchMax {
		r.parts = nil
	}
	c.mu.Lock()
	c.queued -= r.cost
	if len(c.spare) < 4 {
		c.spare = append(c.spare, r)
	}
	c.mu.Unlock()
}

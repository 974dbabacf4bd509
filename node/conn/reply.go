package conn

import (
	"encoding/binary"
	"fmt"
	"math"

	"seedlog/net"
)

// How a reply was given.
const (
	replyOpen  = iota // not yet
	replySend         // with parts
	replyNone         // acks=0
	replyClose        // by closing the connection
)

// Reply takes the answer to one request. Exactly one of Send, None and Close is called,
// once, by any task; none of them waits or touches the network, for the connection's own
// tasks write. An answer to a connection that is gone is dropped, and its file ranges are
// released.
type Reply struct {
	req   Request
	parts []net.Part
	buf   []byte // what Buffer hands out
	why   string // of Close
	tags  bool   // the response header ends with (empty) tags
	head  [9]byte
	frame frame // where the body lies
	cost  int64 // bytes counted against PipelineBytes

	// Under the connection's mu. A reply leaves when it is given and Serve has returned.
	state  int
	served bool
	late   bool // it was not given when Serve returned
}

// Buffer returns an empty slice to encode the answer into, with the capacity that SendBody
// left there last time. It is valid until the reply is given.
func (r *Reply) Buffer() []byte { return r.buf[:0] }

// Parts returns an empty slice to put the answer's parts into, so that a reply needs no new
// one. It is valid until the reply is given.
func (r *Reply) Parts() []net.Part { return r.parts[:0] }

// Send answers with parts, which is what comes after the response header. The bytes in
// them must not change any more.
func (r *Reply) Send(parts []net.Part) {
	n := 1
	for _, p := range parts {
		n += partLen(p)
	}
	if n+4 > math.MaxInt32 {
		releaseParts(parts)
		r.Close(fmt.Sprintf("reply of %d bytes to %s", n, name(r.req.Key, r.req.Version)))
		return
	}
	r.parts = parts
	r.give(replySend)
}

// SendBody answers with one part, and keeps b for the next Buffer.
func (r *Reply) SendBody(b []byte) {
	r.buf = b
	r.Send(append(r.parts[:0], net.Part{Bytes: b}))
}

// Keep keeps b, which the parts of the answer lie in, for the next Buffer.
func (r *Reply) Keep(b []byte) { r.buf = b }

// None ends a request that has no answer (Produce with acks=0).
func (r *Reply) None() { r.give(replyNone) }

// Close closes the connection when the earlier replies are out.
func (r *Reply) Close(reason string) {
	r.why = reason
	r.give(replyClose)
}

// SendParts is Send of parts whose bytes are in b, and keeps b for the next Buffer.
func (r *Reply) SendParts(b []byte, parts []net.Part) {
	r.buf = b
	r.Send(parts)
}

// ReleaseBody tells that the request's Body is no longer needed, so that a request which
// waits for its reply does not hold the memory of its frame. Only the task that runs Serve
// may call it, before Serve returns.
func (r *Reply) ReleaseBody() {
	r.req.Body = nil
	r.req.Conn.releaseFrame(&r.frame)
}

// give is the one end of Send, None and Close.
func (r *Reply) give(state int) {
	c := r.req.Conn
	c.mu.Lock()
	if r.state != replyOpen {
		c.mu.Unlock()
		panic("conn: second reply to " + name(r.req.Key, r.req.Version))
	}
	r.state = state
	if !r.served {
		c.mu.Unlock()
		return // the reading task sees it when Serve returns
	}
	dead := c.closed
	first := len(c.queue) > 0 && c.queue[0] == r
	waiting, writer := c.waiting, c.writer
	c.mu.Unlock()
	switch {
	case dead:
		c.retire(r)
	case first:
		if waiting != nil {
			waiting.Wake()
		}
		if writer != nil {
			writer.Wake()
		}
	}
}

// header encodes size, correlation id and tags.
func (r *Reply) header() []byte {
	n := 4
	if r.tags {
		n = 5
		r.head[8] = 0
	}
	size := n
	for _, p := range r.parts {
		size += partLen(p)
	}
	binary.BigEndian.PutUint32(r.head[:], uint32(size))
	binary.BigEndian.PutUint32(r.head[4:], uint32(r.req.CorrelationID))
	return r.head[:4+n]
}

func partLen(p net.Part) int {
	if p.File != nil {
		return int(p.File.Len)
	}
	return len(p.Bytes)
}

func releaseParts(parts []net.Part) {
	for i := range parts {
		if parts[i].File != nil {
			parts[i].File.Release()
		}
		parts[i] = net.Part{}
	}
}

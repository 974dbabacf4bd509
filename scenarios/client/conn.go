package client

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/net"
)

// maxResponse bounds what a response may claim to be.
const maxResponse = 64 << 20

// ErrProtocol is an answer that no broker may give.
var ErrProtocol = errors.New("protocol violation")

// Conn is one connection of a client. It is used by one task.
type Conn struct {
	c    net.Conn
	form *kmsg.RequestFormatter
	corr int32
	out  []byte
	in   []byte
	have int // bytes of in that were read
	sent []sentRequest
	// broken is told of an answer that no broker may give; nil tells nobody.
	broken func(err error)
}

type sentRequest struct {
	corr int32
	req  kmsg.Request
}

// Dial connects.
func Dial(t *task.T, n net.Network, addr, id string, until clock.Instant) (*Conn, error) {
	c, err := n.Dial(t, addr, until)
	if err != nil {
		return nil, err
	}
	return &Conn{c: c, form: kmsg.NewRequestFormatter(kmsg.FormatterClientID(id))}, nil
}

// Close ends the connection.
func (c *Conn) Close() { c.c.Close() }

// Send writes a request; its response is read by Receive, in order.
func (c *Conn) Send(t *task.T, req kmsg.Request, until clock.Instant) error {
	c.corr++
	c.out = c.form.AppendRequest(c.out[:0], req, c.corr)
	if expectsResponse(req) {
		c.sent = append(c.sent, sentRequest{c.corr, req})
	}
	return c.Raw(t, c.out, until)
}

// Raw writes bytes as they are.
func (c *Conn) Raw(t *task.T, b []byte, until clock.Instant) error {
	return c.c.Write(t, []net.Part{{Bytes: b}}, until)
}

func expectsResponse(req kmsg.Request) bool {
	p, ok := req.(*kmsg.ProduceRequest)
	return !ok || p.Acks != 0
}

// Pending is the number of responses that have not been received.
func (c *Conn) Pending() int { return len(c.sent) }

// Receive reads the next response. Any error but a clean timeout leaves the connection
// useless.
func (c *Conn) Receive(t *task.T, until clock.Instant) (kmsg.Request, kmsg.Response, error) {
	if len(c.sent) == 0 {
		return nil, nil, errors.New("client: no request is pending")
	}
	frame, err := c.frame(t, until)
	if err != nil {
		return nil, nil, err
	}
	next := c.sent[0]
	c.sent = c.sent[1:]
	var resp kmsg.Response
	if corr := int32(binary.BigEndian.Uint32(frame)); corr != next.corr {
		err = fmt.Errorf("%w: correlation id %d where %d is next", ErrProtocol, corr, next.corr)
	} else {
		resp, err = Decode(next.req, frame[4:])
	}
	if errors.Is(err, ErrProtocol) && c.broken != nil {
		c.broken(err)
	}
	return next.req, resp, err
}

// Decode reads a response's body, with the tags of its header.
func Decode(req kmsg.Request, body []byte) (kmsg.Response, error) {
	resp := req.ResponseKind()
	if resp.IsFlexible() && req.Key() != int16(kmsg.ApiVersions) {
		if len(body) < 1 || body[0] != 0 {
			return nil, fmt.Errorf("%w: unexpected header tags", ErrProtocol)
		}
		body = body[1:]
	}
	if err := resp.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("%w: %s version %d: %v", ErrProtocol, kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	return resp, nil
}

// Frame reads one length-prefixed frame, for those who sent something raw.
func (c *Conn) Frame(t *task.T, until clock.Instant) ([]byte, error) { return c.frame(t, until) }

func (c *Conn) frame(t *task.T, until clock.Instant) ([]byte, error) {
	if err := c.fill(t, 4, until); err != nil {
		return nil, err
	}
	n := int32(binary.BigEndian.Uint32(c.in))
	if n < 4 || n > maxResponse {
		return nil, fmt.Errorf("%w: a response of %d bytes", ErrProtocol, n)
	}
	if err := c.fill(t, 4+int(n), until); err != nil {
		return nil, err
	}
	frame := append([]byte(nil), c.in[4:4+n]...)
	c.have = copy(c.in, c.in[4+n:c.have])
	return frame, nil
}

// fill reads until n bytes are there.
func (c *Conn) fill(t *task.T, n int, until clock.Instant) error {
	if len(c.in) < n {
		c.in = append(c.in, make([]byte, max(n, 4096)-len(c.in))...)
	}
	for c.have < n {
		k, err := c.c.Read(t, c.in[c.have:], until)
		c.have += k
		if err != nil && !(errors.Is(err, io.EOF) && c.have >= n) {
			return err
		}
	}
	return nil
}

// Call sends a request and waits for its response; nothing else may be pending.
func (c *Conn) Call(t *task.T, req kmsg.Request, until clock.Instant) (kmsg.Response, error) {
	if err := c.Send(t, req, until); err != nil {
		return nil, err
	}
	_, resp, err := c.Receive(t, until)
	return resp, err
}

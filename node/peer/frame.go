package peer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/net"
	"seedlog/node/conn"
)

const (
	sizeBytes        = 4
	correlationBytes = 4
	// readMin is how much room a read has; a frame's buffer grows as its bytes arrive, so
	// that a length alone takes no memory.
	readMin = 64 << 10
)

// read reads one frame, and returns what is behind its size. It lies in c.in.
func (c *Client) read(t *task.T, conn net.Conn, until clock.Instant) ([]byte, error) {
	c.in = kept(c.in)
	if err := c.fill(t, conn, sizeBytes, until); err != nil {
		return nil, err
	}
	size := int32(binary.BigEndian.Uint32(c.in))
	if size < correlationBytes || size > c.env.MaxBytes {
		return nil, fmt.Errorf("%w: frame of %d bytes, at most %d are read", ErrProtocol, size, c.env.MaxBytes)
	}
	whole := sizeBytes + int(size)
	if err := c.fill(t, conn, whole, until); err != nil {
		return nil, err
	}
	if len(c.in) > whole {
		return nil, fmt.Errorf("%w: %d bytes behind the answer", ErrProtocol, len(c.in)-whole)
	}
	return c.in[sizeBytes:], nil
}

// fill reads until c.in has n bytes.
func (c *Client) fill(t *task.T, conn net.Conn, n int, until clock.Instant) error {
	for len(c.in) < n {
		if len(c.in) == cap(c.in) {
			c.in = slices.Grow(c.in, max(readMin, min(cap(c.in), n-len(c.in))))
		}
		got, err := conn.Read(t, c.in[len(c.in):cap(c.in)], until)
		c.in = c.in[:len(c.in)+got]
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("%w after %d bytes of an answer", net.ErrReset, len(c.in))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// decode decodes the answer to req.
func decode(frame []byte, req kmsg.Request, correlation int32) (kmsg.Response, error) {
	if id := int32(binary.BigEndian.Uint32(frame)); id != correlation {
		return nil, fmt.Errorf("%w: correlation id %d, and the request's is %d", ErrProtocol, id, correlation)
	}
	body := frame[correlationBytes:]
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if resp.IsFlexible() && resp.Key() != int16(kmsg.ApiVersions) {
		var err error
		if body, err = conn.SkipTags(body); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
		}
	}
	if err := resp.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("%w: %s v%d of %d bytes: %w", ErrProtocol, kmsg.NameForKey(req.Key()), req.GetVersion(), len(body), err)
	}
	return resp, nil
}

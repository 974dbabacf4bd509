package conn

import (
	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/node/event"
)

// Request is one request of a client. It belongs to the connection and is reused: neither it
// nor what it points at may be kept after the reply was given, ClientID excepted.
type Request struct {
	Key, Version  int16
	CorrelationID int32
	// ClientID is nil if the client sent null. It may be kept; it is never changed.
	ClientID *string
	// Body is what follows the request header. It is valid until the reply is given or
	// Reply.ReleaseBody is called.
	Body []byte
	// Conn is the connection that the request came on.
	Conn *Conn
	// Received is when the frame was complete.
	Received clock.Instant
}

// Service answers requests.
type Service interface {
	// Serve answers r through reply, exactly once, now or later, from any task. It runs in the
	// connection's reading task and may wait; while it does, the connection reads nothing.
	Serve(t *task.T, r *Request, reply *Reply)
	// MaxFrame limits a frame before its buffer is taken; Config.FrameMaxBytes limits too.
	MaxFrame(key, version int16) int32
	// Supports tells whether the request is served, and whether its headers are flexible. An
	// unsupported version of ApiVersions is served all the same, with an empty Body, for the
	// service to answer with version 0 and UNSUPPORTED_VERSION.
	Supports(key, version int16) (ok, flexible bool)
}

// Config is how connections of one listener are served. Zero limits take the default that
// the field names.
type Config struct {
	// Name is the listener's name (PLAINTEXT, CONTROLLER).
	Name string
	// FrameMaxBytes is socket.request.max.bytes (100 MiB).
	FrameMaxBytes int32
	// IdleMaxMs is connections.max.idle.ms (600,000): a connection without a complete frame or
	// a reply for so long is closed, one on which a reply waits is not.
	IdleMaxMs int64
	// FrameGraceMs (30,000) plus a second per 32 KiB is how long a frame of more than 64 KiB
	// may take to arrive, for it holds memory that others wait for.
	FrameGraceMs int64
	// MaxConnections is what max.connections is now (nil, 0: no limit): beyond it nothing is
	// accepted until one closes, or the limit rises.
	MaxConnections func() int
	// MaxConnectionsPerIP is what max.connections.per.ip is now (nil, 0: no limit): one more is
	// closed at once.
	MaxConnectionsPerIP func() int
	// PipelineMax (64) and PipelineBytes (64 MiB) bound the requests of one connection that
	// run or wait for their reply.
	PipelineMax   int
	PipelineBytes int64
	// Budget bounds the memory of frames; connections of all listeners share it. It must be
	// there.
	Budget *Budget
	// Events hears of closed connections; nil for nobody.
	Events event.Sink
}

func (c Config) withDefaults() Config {
	if c.FrameMaxBytes <= 0 {
		c.FrameMaxBytes = 100 << 20
	}
	if c.MaxConnections == nil {
		c.MaxConnections = func() int { return 0 }
	}
	if c.MaxConnectionsPerIP == nil {
		c.MaxConnectionsPerIP = func() int { return 0 }
	}
	if c.IdleMaxMs <= 0 {
		c.IdleMaxMs = 600_000
	}
	if c.FrameGraceMs <= 0 {
		c.FrameGraceMs = 30_000
	}
	if c.PipelineMax <= 0 {
		c.PipelineMax = 64
	}
	if c.PipelineBytes <= 0 {
		c.PipelineBytes = 64 << 20
	}
	return c
}

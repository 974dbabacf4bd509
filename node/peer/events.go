package peer

import (
	"errors"

	"seedlog/node/event"
)

func (c *Client) emit(e event.Event) {
	if c.env.Events != nil {
		c.env.Events.Emit(e)
	}
}

// Connected: a connection to another node was made.
type Connected struct{ Client, Addr string }

// Name implements event.Event.
func (Connected) Name() string { return "peer-connected" }

// Level implements event.Leveled.
func (Connected) Level() event.Level { return event.Debug }

// Fields implements event.Event.
func (e Connected) Fields(f *event.Fields) {
	f.Str("client", e.Client)
	f.Str("addr", e.Addr)
}

// Lost: a request to another node had no answer, and the connection, if any, was closed.
type Lost struct {
	Client, Addr string
	Err          error
}

// Name implements event.Event.
func (Lost) Name() string { return "peer-lost" }

// Level is Warn where the other node broke the protocol.
func (e Lost) Level() event.Level {
	if errors.Is(e.Err, ErrProtocol) {
		return event.Warn
	}
	return event.Debug
}

// Fields implements event.Event.
func (e Lost) Fields(f *event.Fields) {
	f.Str("client", e.Client)
	f.Str("addr", e.Addr)
	f.Err(e.Err)
}

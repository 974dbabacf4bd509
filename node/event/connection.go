package event

// ConnectionClosed: a client's connection ended. Bad tells that the broker ended it because
// of what the client sent.
type ConnectionClosed struct {
	Listener, Remote string
	Requests         int64
	Reason           string
	Bad              bool
}

func (ConnectionClosed) Name() string { return "connection-closed" }

// Level is Warn for a client that broke the protocol.
func (e ConnectionClosed) Level() Level {
	if e.Bad {
		return Warn
	}
	return Debug
}

func (e ConnectionClosed) Fields(f *Fields) {
	f.Str("listener", e.Listener)
	f.Str("remote", e.Remote)
	f.Int("requests", e.Requests)
	f.Str("reason", e.Reason)
}

// AcceptFailed: a connection could not be accepted, or was one too many.
type AcceptFailed struct {
	Listener, Remote string
	Err              error
}

func (AcceptFailed) Name() string { return "accept-failed" }
func (AcceptFailed) Level() Level { return Warn }
func (e AcceptFailed) Fields(f *Fields) {
	f.Str("listener", e.Listener)
	f.Str("remote", e.Remote)
	f.Err(e.Err)
}

package quorum

import "seedlog/node/event"

func (h *Host) emit(e event.Event) {
	if h.env.Events != nil {
		h.env.Events.Emit(e)
	}
}

// LeaderElected: a node leads the quorum from offset on.
type LeaderElected struct {
	NodeID, Epoch int32
	Offset        int64
}

// Name implements event.Event.
func (LeaderElected) Name() string { return "quorum-leader-elected" }

// Fields implements event.Event.
func (e LeaderElected) Fields(f *event.Fields) {
	f.Int("node", int64(e.NodeID))
	f.Int("epoch", int64(e.Epoch))
	f.Int("offset", e.Offset)
}

// SnapshotWritten: a snapshot of all below Offset was written and the log cleaned, or not.
type SnapshotWritten struct {
	Offset int64
	Epoch  int32
	Bytes  int
	Err    error
}

// Name implements event.Event.
func (SnapshotWritten) Name() string { return "metadata-snapshot" }

// Level implements event.Leveled.
func (e SnapshotWritten) Level() event.Level {
	if e.Err != nil {
		return event.Warn
	}
	return event.Info
}

// Fields implements event.Event.
func (e SnapshotWritten) Fields(f *event.Fields) {
	f.Int("offset", e.Offset)
	f.Int("epoch", int64(e.Epoch))
	f.Int("bytes", int64(e.Bytes))
	f.Err(e.Err)
}

// Failed: this node can take no further part in the quorum.
type Failed struct{ Err error }

// Name implements event.Event.
func (Failed) Name() string { return "quorum-failed" }

// Level implements event.Leveled.
func (Failed) Level() event.Level { return event.Error }

// Fields implements event.Event.
func (e Failed) Fields(f *event.Fields) { f.Err(e.Err) }

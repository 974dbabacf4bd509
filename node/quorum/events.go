package quorum

import (
	"seedlog/node/event"
	"seedlog/node/raft"
)

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

// Failed: this node can take no further part in the quorum. The node ends with the same error
// as its last words, so this is no error of its own in the log.
type Failed struct{ Err error }

// Name implements event.Event.
func (Failed) Name() string { return "quorum-failed" }

// Fields implements event.Event.
func (e Failed) Fields(f *event.Fields) { f.Err(e.Err) }

// LeaderResigned: this node stopped leading the quorum, or cannot go on leading it.
type LeaderResigned struct{ NodeID, Epoch int32 }

// Name implements event.Event.
func (LeaderResigned) Name() string { return "quorum-leader-resigned" }

// Fields implements event.Event.
func (e LeaderResigned) Fields(f *event.Fields) {
	f.Int("node", int64(e.NodeID))
	f.Int("epoch", int64(e.Epoch))
}

// Truncated: the metadata log was cut at To, where it parts from the leader's.
type Truncated struct{ From, To int64 }

// Name implements event.Event.
func (Truncated) Name() string { return "metadata-log-truncated" }

// Fields implements event.Event.
func (e Truncated) Fields(f *event.Fields) {
	f.Int("from", e.From)
	f.Int("to", e.To)
}

// SnapshotInstalled: the leader's snapshot of all below Offset took the place of the log, or
// could not be fetched.
type SnapshotInstalled struct {
	Offset int64
	Epoch  int32
	Err    error
}

// Name implements event.Event.
func (e SnapshotInstalled) Name() string {
	if e.Err != nil {
		return "metadata-snapshot-failed"
	}
	return "metadata-snapshot-installed"
}

// Level implements event.Leveled.
func (e SnapshotInstalled) Level() event.Level {
	if e.Err != nil {
		return event.Warn
	}
	return event.Info
}

// Fields implements event.Event.
func (e SnapshotInstalled) Fields(f *event.Fields) {
	f.Int("offset", e.Offset)
	f.Int("epoch", int64(e.Epoch))
	f.Err(e.Err)
}

// BadRecords: the leader sent records that this log cannot take.
type BadRecords struct {
	Leader int32
	Err    error
}

// Name implements event.Event.
func (BadRecords) Name() string { return "quorum-bad-records" }

// Level implements event.Leveled.
func (BadRecords) Level() event.Level { return event.Warn }

// Fields implements event.Event.
func (e BadRecords) Fields(f *event.Fields) {
	f.Int("leader", int64(e.Leader))
	f.Err(e.Err)
}

// BadAnswer: another member answered what is no answer.
type BadAnswer struct {
	Peer string
	Err  error
}

// Name implements event.Event.
func (BadAnswer) Name() string { return "quorum-bad-answer" }

// Level implements event.Leveled.
func (BadAnswer) Level() event.Level { return event.Warn }

// Fields implements event.Event.
func (e BadAnswer) Fields(f *event.Fields) {
	f.Str("peer", e.Peer)
	f.Err(e.Err)
}

// Noted: something the core decided; Kind says what.
type Noted struct {
	NodeID int32
	Note   raft.Note
}

func (h *Host) note(n raft.Note) { h.emit(Noted{h.cfg.NodeID, n}) }

// Name implements event.Event.
func (e Noted) Name() string { return "quorum-" + e.Note.Kind.String() }

// Level is Warn for a leader that lost its quorum.
func (e Noted) Level() event.Level {
	switch e.Note.Kind {
	case raft.QuorumLost:
		return event.Warn
	case raft.VoteGranted, raft.BecameProspective, raft.BecameCandidate:
		return event.Debug
	}
	return event.Info
}

// Fields implements event.Event.
func (e Noted) Fields(f *event.Fields) {
	f.Int("node", int64(e.NodeID))
	f.Int("epoch", int64(e.Note.Epoch))
	if e.Note.Replica.ID >= 0 {
		f.Int("replica", int64(e.Note.Replica.ID))
	}
	f.Int("offset", e.Note.Offset)
}

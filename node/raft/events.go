package raft

// Event is something that happened to the node. Every event is stepped with the present time.
type Event interface{ event() }

// Start: the node's log was read, all of it is durable (synced after the restart, for its end is
// what the first Fetch acknowledges), and the node may act. The first event.
type Start struct{}

// Tick: NextDeadline has passed (an early one does no harm).
type Tick struct{}

// Synced: everything in the node's own log below End is durable; on the leader the log may be
// longer. It is due after Begin, Change, Append and Truncate, too, even if nothing was new.
// Except on a leader there is nothing unsynced between two steps.
type Synced struct{ End int64 }

// VotersChanged: the log names other voters from Offset on, the offset of the record that
// names them, committed or not. The host steps it after it appended such a record, its own or
// a fetched one, and before the Synced that covers it. Truncation takes it back by itself.
type VotersChanged struct {
	Offset int64
	Voters []Voter
}

// KRaftVersionChanged: the log finalizes another level of kraft.version from Offset on; as
// VotersChanged, and stepped before the VotersChanged of the same batch.
type KRaftVersionChanged struct {
	Offset  int64
	Version int16
}

// Request: a message arrived. ID is the host's, and comes back with the Answer: exactly one
// for each Request, in this step or in a later one, unless the node stops first.
type Request struct {
	ID   uint64
	Body Message
}

// Response: the answer to a message that was sent. Late ones and those to messages of a
// former role are ignored.
type Response struct {
	Seq   uint64 // of the Send
	Reply Reply
}

// NoResponse: a message could not be sent, or there was no answer that could be understood.
type NoResponse struct{ Seq uint64 }

// SnapshotPart: the leader answered a FetchSnapshot of Effects.Install.
type SnapshotPart struct{ Reply Reply }

// SnapshotInstalled: the snapshot of Effects.Install is durable, the log begins at its end,
// and it names these voters (Voters nil: none, they stay as configured).
type SnapshotInstalled struct {
	ID           SnapshotID
	Voters       []Voter
	KRaftVersion int16
}

// SnapshotFailed: Effects.Install came to nothing; the leader may have a newer one.
type SnapshotFailed struct{ ID SnapshotID }

// AppendFailed: the records of Effects.Append were not what a log can take (a damaged
// response); nothing was appended. The core fetches again after a while.
type AppendFailed struct{}

// Resign: the node shuts down. A leader hands over by EndQuorumEpoch, nobody stands for
// election any longer; it goes on answering until it is stopped.
type Resign struct{}

// Failed: the node's log takes no more; it must neither lead nor answer any longer.
type Failed struct{}

func (Start) event()               {}
func (Tick) event()                {}
func (Synced) event()              {}
func (VotersChanged) event()       {}
func (KRaftVersionChanged) event() {}
func (Request) event()             {}
func (Response) event()            {}
func (NoResponse) event()          {}
func (SnapshotPart) event()        {}
func (SnapshotInstalled) event()   {}
func (SnapshotFailed) event()      {}
func (AppendFailed) event()        {}
func (Resign) event()              {}
func (Failed) event()              {}

package replica

import (
	"seedlog/node/event"
	"seedlog/node/partition"
)

// MoveStage is what became of a replica's move to another directory.
type MoveStage uint8

const (
	// MoveBegan: an empty copy is there.
	MoveBegan MoveStage = iota
	// MoveResumed: a copy from before the start is filled on.
	MoveResumed
	// MoveDone: the replica is in the other directory.
	MoveDone
	// MoveCancelled: the copy was deleted.
	MoveCancelled
	// MoveLeftTwo: a crash left the replica in two directories; it is in To.
	MoveLeftTwo
)

// ReplicaMove: a replica moves to the directory To, or does so no more. Offset is its end.
type ReplicaMove struct {
	Topic     string
	Partition int32
	To        string
	Stage     MoveStage
	Offset    int64
}

func (e ReplicaMove) Name() string {
	return [...]string{"move-began", "move-resumed", "move-done", "move-cancelled", "move-left-two"}[e.Stage]
}
func (e ReplicaMove) Fields(f *event.Fields) {
	f.Str("topic", e.Topic)
	f.Int("partition", int64(e.Partition))
	f.Str("to", e.To)
	f.Int("offset", e.Offset)
}

// CopyDiverged: a copy was not a prefix of its log, which was cut meanwhile; it was cut, too, or
// begun anew.
type CopyDiverged struct {
	Topic     string
	Partition int32
	From, To  int64
	Step      partition.MoveStep
}

func (CopyDiverged) Name() string { return "copy-diverged" }
func (e CopyDiverged) Fields(f *event.Fields) {
	f.Str("topic", e.Topic)
	f.Int("partition", int64(e.Partition))
	f.Int("from", e.From)
	f.Int("to", e.To)
	f.Str("step", e.Step.String())
}

// MoveFailed: a step of a move failed. It is tried again, unless a log is offline.
type MoveFailed struct {
	Topic     string
	Partition int32
	Err       error
}

func (MoveFailed) Name() string       { return "move-failed" }
func (MoveFailed) Level() event.Level { return event.Warn }
func (e MoveFailed) Fields(f *event.Fields) {
	f.Str("topic", e.Topic)
	f.Int("partition", int64(e.Partition))
	f.Err(e.Err)
}

// Package history judges what clients were told.
//
// A history is every send and poll of every client with its invocation and its return, both
// stamped with event numbers, plus what happened to the machines. Before it is judged it is
// resolved: the final log of each partition, read from the disk by the checkers' own reader,
// turns every unknown outcome into success at an offset or into failure. Nothing then needs
// a search; the rules are linear. Package linear gives a second opinion by search.
//
// The anomalies carry the names of the Jepsen project's Kafka workload.
package history

import (
	"cmp"
	"slices"

	"seedlog/checker"
)

// Outcome is what a client knows of its operation.
type Outcome uint8

const (
	// Unknown: no answer; it may have happened, at any time from now on.
	Unknown Outcome = iota
	// OK: it happened.
	OK
	// Failed: it definitely had no effect.
	Failed
)

// Stamp is an event number; equal stamps mean concurrent.
type Stamp uint64

// Partition names a log.
type Partition struct {
	Topic string
	// ID is the topic id, so that a recreated topic is another log.
	ID    [16]byte
	Index int32
}

// Send is one record that a client sent. Its digest is unique in the run and covers key,
// value, headers and timestamp.
type Send struct {
	Client       int
	Partition    int // index into History.Partitions
	Digest       uint64
	Invoke       Stamp
	Return       Stamp
	Outcome      Outcome
	Offset       int64 // where OK says it is, or -1 where it does not say (acks=0)
	Acks         int8
	Synced       bool // acknowledged under flush.messages=1
	Idempotent   bool
	BatchOrdinal int // position within its batch
	// Disowned: the broker called the batch out of order though all before it was acknowledged.
	Disowned bool
	// Restarted: the broker that answered had loaded the producers of its copy of the log since
	// the batch was first sent.
	Restarted bool
	// Deposed: another broker had acknowledged what the batch follows, and the one that answered did
	// not know yet that it leads no more.
	Deposed bool
	// Bereft: a power loss may have taken what the batch follows.
	Bereft bool
	// Held is whether the broker that disowned the batch had it.
	Held Held
	// Alone: the leader of several copies said OK without waiting for the others.
	Alone bool
	// LeaderEpoch is the newest in which the broker that said OK had begun to lead when it was asked,
	// -1 if that is not known.
	LeaderEpoch int32
}

// Held is what is known of a broker that disowned a batch: whether its log held the batch then.
type Held uint8

const (
	// Unseen: its log could not be looked at, or is not what it was when the broker answered.
	Unseen Held = iota
	// Has: it held the batch.
	Has
	// Hasnt: it did not.
	Hasnt
)

// Seen is one record of a poll.
type Seen struct {
	Offset int64
	Digest uint64
}

// Poll is one answered fetch of one partition.
type Poll struct {
	Client         int
	Partition      int
	Invoke, Return Stamp
	From           int64 // the requested offset
	HighWatermark  int64
	LogStart       int64
	Records        []Seen // those at or above From
	// Seek says that the client chose From anew instead of going on.
	Seek bool
	// Synced says that the topic acknowledges only what is synced.
	Synced bool
	// LeaderEpoch is that in which the leader answered, -1 if nobody asked for it.
	LeaderEpoch int32
	// Follower: the answer is a follower's, whose high watermark may lag behind.
	Follower bool
	// Node is the address of the broker that answered.
	Node string
	// Bygone: the broker that answered has not led since the last lawful loss, and tells of more
	// than that left: of the log as it was before.
	Bygone bool
}

// since is from when on a loss may have taken what the poll read.
func (q *Poll) since() Stamp {
	if q.Bygone {
		return 0
	}
	return q.Invoke
}

// ledIn is in which epoch the broker that answered led, -1 if that is not known.
func (q *Poll) ledIn() int32 {
	if q.Follower || q.Bygone {
		return -1
	}
	return q.LeaderEpoch
}

// Cut is a power loss that ended a partition's log at an offset: what lay at or above and
// was not synced is lawfully gone, and the offsets are used again.
type Cut struct {
	At        Stamp
	Partition int
	Offset    int64
	// Unclean: a replica that did not have all of it was elected, in Epoch. Who led before may
	// have gone on for a while, and what it said at or above Offset in an older epoch is gone,
	// whenever it said so.
	Unclean bool
	Epoch   int32
	// Wiped: a disk was replaced, which takes what was synced, too.
	Wiped bool
	// Empty: who was elected had nothing, and knew of no producer.
	Empty bool
}

// Removal is an accepted lawful removal of a prefix (DeleteRecords).
type Removal struct {
	Invoke    Stamp
	Partition int
	Before    int64
	// Acked: the client was told that it happened, which no crash may undo.
	Acked bool
}

// Log is the final content of a partition by offset.
type Log struct {
	Start, End int64
	Records    []Seen // ascending, from the first that is stored
}

// At finds the record at an offset.
func (l *Log) At(off int64) (Seen, bool) {
	i, ok := slices.BinarySearchFunc(l.Records, off, func(s Seen, o int64) int { return cmp.Compare(s.Offset, o) })
	if !ok {
		return Seen{}, false
	}
	return l.Records[i], true
}

// EpochStart is the offset at which a leader epoch begins.
type EpochStart struct {
	Epoch int32
	Start int64
}

// History is one run's.
type History struct {
	Partitions []Partition
	Logs       []Log // by partition
	// Deleted partitions have no log to be judged by.
	Deleted []bool
	// Replicated partitions have several copies: what was acknowledged by the leader alone may
	// be gone with it, unless somebody could read it.
	Replicated []bool
	// Epochs are where the leader epochs of each partition begin, as far as they are known.
	Epochs [][]EpochStart
	// Anew says of each partition, by leader epoch, below which offset who led then knew of no producer:
	// its log began there with nothing.
	Anew     []map[int32]int64
	Sends    []Send
	Polls    []Poll
	Cuts     []Cut
	Removals []Removal
	// StartsKept says of which partitions no disk forgot where the log begins, and nobody was elected
	// who had not heard it.
	StartsKept []bool
	// Retention says that old segments may be removed by policy.
	Retention bool
	// ProducersExpire says that a broker may have forgotten producers by their age.
	ProducersExpire bool
	// Final says that the last poll of each partition by FinalClient read it to the end.
	Final       bool
	FinalClient int
}

// Check judges the history.
func (h *History) Check() checker.Verdict {
	var v checker.Verdict
	c := newJudge(h, &v)
	c.sends()
	c.disowned()
	c.order()
	c.polls()
	c.watermarks()
	c.unseen()
	c.removals()
	return v
}

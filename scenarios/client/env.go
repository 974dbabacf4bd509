package client

import (
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"seedlog/checker/history"
	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/net"
)

// Topic is a topic that workloads use, as it was created.
type Topic struct {
	Name       string
	ID         [16]byte
	Partitions int32
	// Synced: the topic has flush.messages=1, so that whatever is acknowledged is synced.
	Synced bool
	// MaxBatchBytes is the largest batch that it takes: max.message.bytes, or a segment.
	MaxBatchBytes int
	// Replication is its replication factor; 0 is one. Assignment, if it is set, places it.
	Replication int16
	Assignment  [][]int32
	// MinInsync is its min.insync.replicas; 0 is one.
	MinInsync int
	// Unclean: unclean.leader.election.enable is set.
	Unclean bool
}

// Replicated reports whether there is more than one copy of what it holds.
func (t *Topic) Replicated() bool { return t.Replication > 1 }

// room is how much filling each of n records may have: a part of it is used twice, a record
// and a batch have their costs, and a codec may make small batches larger.
func (t *Topic) room(n int) int {
	if t.MaxBatchBytes == 0 {
		return 1 << 20
	}
	return max(0, (t.MaxBatchBytes-200)*2/3/n-60)
}

// Env is what a client of a workload has.
type Env struct {
	Net  net.Network
	Addr string
	// Routes is set where there are several brokers; Addr is then of no meaning.
	Routes *Routes
	Rand   *rand.Rand
	Rec    *Recorder
	// ID is the client's number in the history.
	ID   int
	Name string
	// RequestTimeout is how long it waits for an answer.
	RequestTimeout time.Duration
	// Pace, if not zero, is the mean rest between two operations of a client on a real machine.
	Pace time.Duration
	// GiveUp says that a log is lawfully gone for good: its only copy is damaged.
	GiveUp func(partition int) bool
	// Enough says that the safety phase is over: no new operations are begun.
	Enough func() bool
	// Prompt, if it is set, says that nothing makes anybody wait for long: no slow disk, no
	// pause, no task that is held back.
	Prompt func() bool
}

func (e *Env) deadline(t *task.T) clock.Instant { return t.Now().Add(e.RequestTimeout) }

// pause waits a drawn back-off between failures.
func (e *Env) pause(t *task.T) bool {
	return t.Sleep(t.Now().Add(time.Duration(5+e.Rand.IntN(200)) * time.Millisecond))
}

// rest keeps a client on a real machine from filling the history.
func (e *Env) rest(t *task.T) {
	if e.Pace > 0 {
		t.Sleep(t.Now().Add(time.Duration(e.Rand.Int64N(2 * int64(e.Pace)))))
	}
}

func (e *Env) partition(topic *Topic, p int32) int {
	return e.Rec.Partition(history.Partition{Topic: topic.Name, ID: topic.ID, Index: p})
}

// dial connects, trying again until it works or the task stops.
func (e *Env) dial(t *task.T) *Conn {
	for !t.Stopping() {
		c, err := Dial(t, e.Net, e.anywhere(), e.Name, e.deadline(t))
		if err == nil {
			c.broken = func(err error) { e.Rec.Failf("I30", e.Name, "%v", err) }
			return c
		}
		if !e.pause(t) {
			break
		}
	}
	return nil
}

// definite reports that an error code of Produce means that nothing was appended. Of an answer
// that waits for more than the append, losing the leadership says nothing about it: it fails
// who waits, whatever became of the batch.
func definite(code int16, waits bool) bool {
	switch kerr.ErrorForCode(code) {
	case kerr.NotLeaderForPartition, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID:
		return !waits
	case kerr.MessageTooLarge, kerr.InvalidRecord, kerr.CorruptMessage, kerr.InvalidTimestamp, kerr.UnsupportedCompressionType,
		kerr.NotEnoughReplicas, kerr.InvalidRequiredAcks, kerr.OutOfOrderSequenceNumber, kerr.InvalidProducerEpoch, kerr.TopicAuthorizationFailed:
		return true
	}
	return false
}

func name(code int16) string {
	if err := kerr.ErrorForCode(code); err != nil {
		return err.(*kerr.Error).Message
	}
	return "NONE"
}

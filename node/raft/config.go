package raft

import (
	"fmt"
	"time"
)

// Log is what the core asks about the host's log. The answers come from memory; they change by
// what the host does between steps only. Nothing here waits.
type Log interface {
	// Start is the offset of the first record, or of where the first will be.
	Start() int64
	// End is the offset after the last record, and that record's epoch. A log that is empty
	// after a snapshot has the snapshot's epoch, one that never had anything 0.
	End() (offset int64, epoch int32)
	// EpochEnd is the largest epoch ≤ epoch that the log, or the snapshot that it begins
	// after, has records of, and the offset after the last of them; ok is false if there is
	// none.
	EpochEnd(epoch int32) (end EpochEnd, ok bool)
	// Snapshot is the newest snapshot; ok is false if there is none. Formatting's 0-0 counts
	// as none.
	Snapshot() (id SnapshotID, ok bool)
}

// Config is what a Core has to know.
type Config struct {
	// Self is this node and the directory of its log.
	Self ReplicaKey
	// Endpoints are where this node's controller listener is; none for a broker.
	Endpoints []Endpoint
	// The levels of kraft.version that this node supports.
	MinKRaftVersion, MaxKRaftVersion int16
	// CanVote: the node is a controller. A broker is an observer even if the voter set has
	// its id.
	CanVote bool
	// State is the durable election state; Log the log.
	State ElectionState
	Log   Log
	// Voters are the voter sets that the snapshot and the log after it name, oldest first, or
	// the static voters (Offset -1), which are the first even where the log names some: those
	// may be cut. Levels are those of kraft.version that the same names, oldest first, and
	// KRaftVersion is the one before them.
	Voters       []VoterSet
	Levels       []Level
	KRaftVersion int16
	// HighWatermark is what is known to be committed: the end of the newest snapshot.
	HighWatermark int64

	ElectionTimeout    time.Duration // controller.quorum.election.timeout.ms
	ElectionBackoffMax time.Duration // controller.quorum.election.backoff.max.ms
	FetchTimeout       time.Duration // controller.quorum.fetch.timeout.ms
	RequestTimeout     time.Duration // controller.quorum.request.timeout.ms
	RetryBackoff       time.Duration // controller.quorum.retry.backoff.ms
	// FetchMaxWait is how long the leader may hold a Fetch without news: half the fetch timeout
	// at most, for a follower that hears nothing for all of that stands for election.
	FetchMaxWait time.Duration
}

// WithDefaults is c with Kafka's defaults for the times that are not set.
func (c Config) WithDefaults() Config {
	for _, d := range []struct {
		at  *time.Duration
		def time.Duration
	}{
		{&c.ElectionTimeout, time.Second}, {&c.ElectionBackoffMax, time.Second}, {&c.FetchTimeout, 2 * time.Second},
		{&c.RequestTimeout, 2 * time.Second}, {&c.RetryBackoff, 20 * time.Millisecond}, {&c.FetchMaxWait, 500 * time.Millisecond},
	} {
		if *d.at <= 0 {
			*d.at = d.def
		}
	}
	c.FetchMaxWait = min(c.FetchMaxWait, c.FetchTimeout/2)
	return c
}

func (c Config) check() error {
	if len(c.Voters) == 0 {
		return nil
	}
	last := c.Voters[len(c.Voters)-1].Voters
	for i, v := range last {
		for _, o := range last[:i] {
			if o.Key.ID == v.Key.ID {
				return fmt.Errorf("%w: voter %d is named twice", ErrConfig, v.Key.ID)
			}
		}
	}
	return nil
}

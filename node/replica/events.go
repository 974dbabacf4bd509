package replica

import (
	"fmt"

	"seedlog/node/event"
	"seedlog/node/partition"
)

// about says which partition an event is about.
func about(f *event.Fields, topic string, partition int32) {
	f.Str("topic", topic)
	f.Int("partition", int64(partition))
}

// ISRChanged: the controller wrote another in-sync set, by this leader's proposal.
type ISRChanged struct {
	Topic          string
	Partition      int32
	LeaderEpoch    int32
	PartitionEpoch int32
	Left, Joined   int // how many brokers
	ISR            []int32
}

// Name tells shrinking from expanding, and the last replica left from the rest.
func (e ISRChanged) Name() string {
	switch {
	case e.Left > 0 && len(e.ISR) == 1:
		return "isr-shrunk-to-one"
	case e.Left > 0:
		return "isr-shrunk"
	}
	return "isr-expanded"
}

func (e ISRChanged) Fields(f *event.Fields) {
	about(f, e.Topic, e.Partition)
	f.Int("epoch", int64(e.LeaderEpoch))
	f.Int("partition-epoch", int64(e.PartitionEpoch))
	f.Int("left", int64(e.Left))
	f.Int("joined", int64(e.Joined))
	f.Str("isr", fmt.Sprint(e.ISR))
}

// ISRProposalFailed: the controller did not make a change of the in-sync set.
type ISRProposalFailed struct {
	Topic     string
	Partition int32
	Code      int16
	Verdict   partition.Verdict
}

func (ISRProposalFailed) Name() string       { return "isr-proposal-failed" }
func (ISRProposalFailed) Level() event.Level { return event.Debug }
func (e ISRProposalFailed) Fields(f *event.Fields) {
	about(f, e.Topic, e.Partition)
	f.Int("code", int64(e.Code))
	f.Str("verdict", e.Verdict.String())
}

// LeaderRecovered: the controller knows that a leader elected uncleanly leads with what it
// has.
type LeaderRecovered struct {
	Topic       string
	Partition   int32
	LeaderEpoch int32
}

func (LeaderRecovered) Name() string       { return "leader-recovered" }
func (LeaderRecovered) Level() event.Level { return event.Warn }
func (e LeaderRecovered) Fields(f *event.Fields) {
	about(f, e.Topic, e.Partition)
	f.Int("epoch", int64(e.LeaderEpoch))
}

// LogDiverged: a follower cut what its leader does not have. Records tells how many offsets
// went; none is an epoch without records.
type LogDiverged struct {
	Topic        string
	Partition    int32
	LeaderEpoch  int32
	DivergeEpoch int32
	DivergeEnd   int64
	From, To     int64
}

func (e LogDiverged) Name() string {
	if e.From > e.To {
		return "log-diverged"
	}
	return "empty-epoch-diverged"
}
func (e LogDiverged) Fields(f *event.Fields) {
	about(f, e.Topic, e.Partition)
	f.Int("epoch", int64(e.LeaderEpoch))
	f.Int("diverge-epoch", int64(e.DivergeEpoch))
	f.Int("diverge-end", e.DivergeEnd)
	f.Int("from", e.From)
	f.Int("to", e.To)
}

// LogRestarted: a follower's log lay outside its leader's; it begins again at To, or was cut
// there.
type LogRestarted struct {
	Topic     string
	Partition int32
	From, To  int64
	Step      partition.Step
}

func (LogRestarted) Name() string       { return "log-out-of-range" }
func (LogRestarted) Level() event.Level { return event.Warn }
func (e LogRestarted) Fields(f *event.Fields) {
	about(f, e.Topic, e.Partition)
	f.Int("from", e.From)
	f.Int("to", e.To)
	f.Str("step", e.Step.String())
}

// FollowerBegan: this broker follows a leader in a new epoch.
type FollowerBegan struct {
	Topic         string
	Partition     int32
	Leader        int32
	LeaderEpoch   int32
	Offset, Epoch int64 // of the log's end
}

func (FollowerBegan) Name() string       { return "follower-began" }
func (FollowerBegan) Level() event.Level { return event.Debug }
func (e FollowerBegan) Fields(f *event.Fields) {
	about(f, e.Topic, e.Partition)
	f.Int("leader", int64(e.Leader))
	f.Int("epoch", int64(e.LeaderEpoch))
	f.Int("offset", e.Offset)
	f.Int("last-epoch", e.Epoch)
}

// FetcherFailed: a request to a leader got no answer, or one that refused it all.
type FetcherFailed struct {
	Fetcher string
	Err     error
}

func (FetcherFailed) Name() string       { return "fetcher-failed" }
func (FetcherFailed) Level() event.Level { return event.Warn }
func (e FetcherFailed) Fields(f *event.Fields) {
	f.Str("fetcher", e.Fetcher)
	f.Err(e.Err)
}

// FetchRefused: a leader refused one partition, or what it sent could not be taken; the
// others go on.
type FetchRefused struct {
	Topic     string
	Partition int32
	Code      int16
	Err       error
}

func (FetchRefused) Name() string       { return "fetch-refused" }
func (FetchRefused) Level() event.Level { return event.Debug }
func (e FetchRefused) Fields(f *event.Fields) {
	about(f, e.Topic, e.Partition)
	f.Int("code", int64(e.Code))
	f.Err(e.Err)
}

package partition

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Replica is what a follower's log is like at one instant.
type Replica struct {
	LogStart      int64
	LogEnd        int64
	HighWatermark int64
}

// EpochCache is the follower's leader-epoch cache.
type EpochCache interface {
	// EndOffsetForEpoch is the largest known epoch at or below e, and where it ended; (-1, -1)
	// if there is none.
	EndOffsetForEpoch(e int32) (epoch int32, end int64)
}

// Answer is what a leader says about one partition that a follower asked for.
type Answer struct {
	Code          int16
	HighWatermark int64
	LogStart      int64
	// The follower's log parts from the leader's: the leader's largest epoch at or below the
	// follower's last one, and where it ended.
	Diverges     bool
	DivergeEpoch int32
	DivergeEnd   int64
}

// Step is what a follower does next.
type Step uint8

const (
	// Append the answer's batches, if any, then take over HighWatermark and LogStart.
	Append Step = iota
	// Truncate to Offset, and ask again; nothing else of the answer counts.
	Truncate
	// RestartAt Offset with an empty log: the leader has nothing before it.
	RestartAt
	// AskOffsets of the leader: the follower's log end lies outside the leader's log.
	AskOffsets
	// RetryLater: the leader cannot answer now.
	RetryLater
	// AwaitMetadata: the follower's idea of the leadership is older than the leader's.
	AwaitMetadata
	// AskAgain at once.
	AskAgain
)

func (s Step) String() string {
	return [...]string{"append", "truncate", "restart-at", "ask-offsets", "retry-later", "await-metadata", "ask-again"}[s]
}

// Decision is a step with the offset it is about.
type Decision struct {
	Step   Step
	Offset int64
}

func (d Decision) String() string {
	if d.Step == Truncate || d.Step == RestartAt {
		return fmt.Sprintf("%s %d", d.Step, d.Offset)
	}
	return d.Step.String()
}

// AfterAnswer decides what a follower does with a leader's answer. Whether the logs part
// comes before everything else: the leader's high watermark says nothing about a log that is
// not a prefix of the leader's.
func AfterAnswer(mine Replica, a Answer, epochs EpochCache) Decision {
	switch {
	case a.Code == kerr.OffsetOutOfRange.Code:
		return Decision{Step: AskOffsets}
	case a.Code == kerr.FencedLeaderEpoch.Code:
		return Decision{Step: AwaitMetadata}
	case a.Code != 0:
		return Decision{Step: RetryLater}
	case a.Diverges:
		at := truncationOffset(mine, a, epochs)
		if at <= a.LogStart && a.LogStart > 0 {
			// What is left would lie below the leader's log, which cannot tell whose it is: not even
			// where it ends at the leader's start, for an epoch is known from there on at the earliest.
			return Decision{Step: RestartAt, Offset: a.LogStart}
		}
		return Decision{Step: Truncate, Offset: at}
	}
	return Decision{Step: Append}
}

// truncationOffset is where the follower's log surely agrees with the leader's (KIP-101,
// KIP-279). If the follower does not have the leader's epoch, it cuts what it has above the
// epoch before that, and asks again: one answer may not be enough.
func truncationOffset(mine Replica, a Answer, epochs EpochCache) int64 {
	epoch, end := epochs.EndOffsetForEpoch(a.DivergeEpoch)
	switch {
	case epoch < 0:
		return min(a.DivergeEnd, mine.LogEnd)
	case epoch != a.DivergeEpoch:
		return min(end, mine.LogEnd)
	}
	return min(end, a.DivergeEnd, mine.LogEnd)
}

// AfterOffsets decides what a follower does whose log end lies outside the leader's log,
// once it knows where that starts and ends: too far behind, it begins again at the leader's
// start; too far ahead, without an epoch to tell why, it gives up what the leader has not.
func AfterOffsets(mine Replica, leaderStart, leaderEnd int64) Decision {
	switch {
	case leaderStart > mine.LogEnd:
		return Decision{RestartAt, leaderStart}
	case leaderEnd < mine.LogEnd:
		return Decision{Truncate, leaderEnd}
	}
	return Decision{Step: AskAgain}
}

// AfterMisfit decides about fetched batches that do not continue the log, of which the first
// is [first, last]. The leader's log may begin in the middle of that batch, because records were
// deleted up to there. Then a log that is empty, or has nothing that the leader still has, begins
// again where the batch does.
func AfterMisfit(mine Replica, leaderStart, first, last int64) Decision {
	nothing := mine.LogEnd == mine.LogStart || mine.LogEnd <= leaderStart
	if nothing && first < mine.LogEnd && mine.LogEnd <= last {
		return Decision{RestartAt, first}
	}
	return Decision{Step: RetryLater}
}

// FollowerHighWatermark is a follower's high watermark after an answer that did not
// diverge: the leader's, as far as the follower's own log goes. It does not move back.
func FollowerHighWatermark(mine Replica, leaders int64) int64 {
	return max(mine.HighWatermark, min(leaders, mine.LogEnd))
}

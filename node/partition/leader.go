package partition

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"seedlog/clock"
)

// Errors that a leader answers. They name the epochs or counts in their text.
var (
	// ErrFencedLeaderEpoch: the request names an older leadership.
	ErrFencedLeaderEpoch = errors.New("fenced leader epoch")
	// ErrUnknownLeaderEpoch: the request names a leadership this broker has not heard of.
	ErrUnknownLeaderEpoch = errors.New("unknown leader epoch")
	// ErrNotEnoughReplicas: acks=all and fewer in sync than min.insync.replicas.
	ErrNotEnoughReplicas = errors.New("not enough in-sync replicas")
)

// Registration is what the metadata says about a partition.
type Registration struct {
	Leader         int32
	LeaderEpoch    int32
	PartitionEpoch int32
	Replicas       []int32
	ISR            []int32
	// Recovering: the leader was elected although it may have lost records, and has not yet
	// told the controller that it leads with what it has.
	Recovering bool
}

// Leader is the state of the replica that leads a partition, for one leader epoch.
type Leader struct {
	self       int32
	reg        Registration
	pending    *Proposal // on its way to the controller, or nil
	followers  []follower
	epochStart int64
	hw         int64
}

// follower is what the leader learned from a replica's fetches in this leader epoch.
type follower struct {
	id          int32
	endOffset   int64
	logStart    int64 // -1 while it is not known
	brokerEpoch int64 // -1 if the follower was not registered
	known       bool
	caughtUpAt  clock.Instant
	// The leader's log end when this follower last asked, and when that was: a follower that
	// now asks for that offset was caught up then.
	lastLeaderEnd int64
	lastFetchAt   clock.Instant
}

// NewLeader begins the leadership that reg gives to self, whose log ends at logEnd: the
// epoch starts there. hw is the high watermark that the replica had. Nothing is known of the
// followers: what they fetched in an earlier epoch says nothing about this one.
func NewLeader(self int32, reg Registration, logEnd, hw int64, now clock.Instant) *Leader {
	l := &Leader{self: self, reg: reg, epochStart: logEnd, hw: hw}
	l.setFollowers(now)
	return l
}

func (l *Leader) setFollowers(now clock.Instant) {
	old := l.followers
	l.followers = nil
	for _, id := range l.reg.Replicas {
		if id == l.self {
			continue
		}
		f := follower{id: id, logStart: -1, brokerEpoch: -1, caughtUpAt: never, lastFetchAt: now}
		if i := slices.IndexFunc(old, func(o follower) bool { return o.id == id }); i >= 0 {
			f = old[i]
		}
		if f.caughtUpAt == never && l.inISR(id) {
			f.caughtUpAt = now // it has from now on the time that a follower has
		}
		l.followers = append(l.followers, f)
	}
}

// Update takes over newer metadata of the same leader epoch: replicas or ISR changed. It
// reports false, changing nothing, if reg is not newer than what is known: the answer to a
// proposal and the metadata that it led to come separately, and a proposal that was made in
// between is not over.
func (l *Leader) Update(reg Registration, now clock.Instant) bool {
	if reg.LeaderEpoch != l.reg.LeaderEpoch || reg.PartitionEpoch <= l.reg.PartitionEpoch {
		return false
	}
	l.reg = reg
	l.pending = nil
	l.setFollowers(now)
	return true
}

// LeaderEpoch is the epoch of this leadership.
func (l *Leader) LeaderEpoch() int32 { return l.reg.LeaderEpoch }

// Registration is the metadata that the leadership is based on.
func (l *Leader) Registration() Registration { return l.reg }

// EpochStart is the log end with which the epoch began.
func (l *Leader) EpochStart() int64 { return l.epochStart }

// HighWatermark is the offset below which everything is committed.
func (l *Leader) HighWatermark() int64 { return l.hw }

// MaximalISR is every replica that is in the ISR, or will be if what was proposed is
// accepted.
func (l *Leader) MaximalISR() []int32 {
	both := slices.Clone(l.reg.ISR)
	for _, id := range l.reg.Replicas {
		if l.inMaximalISR(id) && !slices.Contains(both, id) {
			both = append(both, id)
		}
	}
	return both
}

// never is before all time: a follower outside the ISR that was not seen to catch up.
const never = clock.Instant(-1 << 62)

// Surroundings are what a leader must know of the world to move the high watermark.
type Surroundings struct {
	Brokers Brokers
	LagMax  time.Duration // replica.lag.time.max.ms
	Now     clock.Instant
}

// AdvanceHighWatermark moves the high watermark as far as the rule of the package comment
// allows, given the leader's own end (its synced end where only that counts), and reports
// whether it moved.
func (l *Leader) AdvanceHighWatermark(ownEnd int64, minInSync int, w Surroundings) (int64, bool) {
	if len(l.reg.ISR) < l.minInSync(minInSync) {
		return l.hw, false
	}
	least := ownEnd
	for i := range l.followers {
		f := &l.followers[i]
		switch {
		case l.inMaximalISR(f.id):
			if !f.known {
				return l.hw, false
			}
			least = min(least, f.endOffset)
		case l.awaited(f, ownEnd, w):
			least = min(least, f.endOffset)
		}
	}
	if least <= l.hw {
		return l.hw, false
	}
	l.hw = least
	return l.hw, true
}

// awaited tells whether the high watermark waits for a follower that is not in the ISR: one
// that keeps up and may join. Under a steady stream of appends it could never join
// otherwise, for what it has when it asks would always be less than what is committed.
func (l *Leader) awaited(f *follower, ownEnd int64, w Surroundings) bool {
	keepsUp := f.endOffset >= ownEnd || w.Now.Sub(f.caughtUpAt) <= w.LagMax
	return f.known && keepsUp && f.eligible(w.Brokers)
}

// Complete reports whether every replica is in the ISR: then nobody is awaited.
func (l *Leader) Complete() bool { return len(l.reg.ISR) == len(l.reg.Replicas) }

func (l *Leader) inMaximalISR(id int32) bool {
	return slices.Contains(l.reg.ISR, id) || l.pending != nil && l.pending.names(id)
}

// minInSync is min(min.insync.replicas, replication factor).
func (l *Leader) minInSync(configured int) int { return min(configured, len(l.reg.Replicas)) }

// CheckEpoch compares the leader epoch that a request believes in; -1 believes nothing.
func (l *Leader) CheckEpoch(current int32) error { return CheckEpoch(current, l.reg.LeaderEpoch) }

// CheckEpoch compares the epoch that a request believes in with the one that is known.
func CheckEpoch(current, known int32) error {
	switch {
	case current < 0 || current == known:
		return nil
	case current < known:
		return fmt.Errorf("%w: request has %d, partition is at %d", ErrFencedLeaderEpoch, current, known)
	default:
		return fmt.Errorf("%w: request has %d, partition is at %d", ErrUnknownLeaderEpoch, current, known)
	}
}

// CheckMinInSync refuses an acks=all append that could not be acknowledged.
func (l *Leader) CheckMinInSync(configured int) error {
	if need := l.minInSync(configured); len(l.reg.ISR) < need {
		return fmt.Errorf("%w: %d in sync, %d required", ErrNotEnoughReplicas, len(l.reg.ISR), need)
	}
	return nil
}

// CommittedAndEnough tells the answer for an acks=all append that ends at required: not yet
// (done is false), committed (nil), or committed by fewer replicas than required. While too
// few are in sync nothing is committed, and who waits, waits on, as in Kafka: others may join.
func (l *Leader) CommittedAndEnough(required int64, configured int) (done bool, err error) {
	if l.hw < required {
		return false, nil
	}
	return true, l.CheckMinInSync(configured)
}

package partition

import (
	"cmp"
	"time"

	"seedlog/clock"
)

// FollowerFetch is what a follower's fetch says: it has everything below Offset.
type FollowerFetch struct {
	Replica     int32
	BrokerEpoch int64 // of the follower's registration, -1 if it has none yet
	Offset      int64
	LogStart    int64 // where the follower's log starts, -1 if it does not say
	LeaderEnd   int64 // the leader's log end at that moment
	Now         clock.Instant
}

// Has reports whether a broker is one of the followers.
func (l *Leader) Has(id int32) bool { return l.find(id) != nil }

func (l *Leader) find(id int32) *follower {
	for i := range l.followers {
		if l.followers[i].id == id {
			return &l.followers[i]
		}
	}
	return nil
}

// FollowerFetched notes a follower's fetch. It reports whether the broker has a replica, and
// whether its log start moved. Nothing is allocated: it runs for every partition of every
// fetch. What an incarnation asked for tells nothing of those after it, which may have lost it:
// a fetch that waited, or was late on its way, does not count once a later one was heard of. One
// that was not registered may be of either: it can only say that the follower has less.
func (l *Leader) FollowerFetched(x FollowerFetch) (assigned, startMoved bool) {
	f := l.find(x.Replica)
	if f == nil {
		return false, false
	}
	if x.BrokerEpoch < f.brokerEpoch && (x.BrokerEpoch >= 0 || x.Offset > f.endOffset) {
		return true, false
	}
	switch {
	case x.Offset >= x.LeaderEnd:
		f.caughtUpAt = x.Now
	case x.Offset >= f.lastLeaderEnd && f.known:
		f.caughtUpAt = max(f.caughtUpAt, f.lastFetchAt)
	}
	startMoved = f.logStart != x.LogStart
	f.endOffset, f.logStart, f.brokerEpoch, f.known = x.Offset, x.LogStart, x.BrokerEpoch, true
	f.lastLeaderEnd, f.lastFetchAt = x.LeaderEnd, x.Now
	return true, startMoved
}

// OutOfSync lists the members of the ISR that must leave it. A follower leaves the ISR when
// it has not been caught up to the leader's log end for longer than replica.lag.time.max.ms;
// how many messages it is behind does not matter.
func (l *Leader) OutOfSync(leaderEnd int64, lagMax time.Duration, now clock.Instant) []int32 {
	var out []int32
	for i := range l.followers {
		if l.outOfSync(&l.followers[i], leaderEnd, lagMax, now) {
			out = append(out, l.followers[i].id)
		}
	}
	return out
}

func (l *Leader) outOfSync(f *follower, leaderEnd int64, lagMax time.Duration, now clock.Instant) bool {
	caughtUp := f.known && f.endOffset >= leaderEnd
	return l.inISR(f.id) && !caughtUp && now.Sub(f.caughtUpAt) > lagMax
}

func (l *Leader) inISR(id int32) bool {
	for _, r := range l.reg.ISR {
		if r == id {
			return true
		}
	}
	return false
}

// InSync reports whether a broker is in the ISR that the controller has written.
func (l *Leader) InSync(id int32) bool { return l.inISR(id) }

// CanJoin tells whether a follower outside the ISR may be proposed for it: it has everything
// committed and everything of before this epoch. The high watermark alone is not enough: a
// new leader's lags behind what its predecessor had committed.
func (l *Leader) CanJoin(id int32) bool {
	f := l.find(id)
	return f != nil && !l.inMaximalISR(id) && f.known && f.endOffset >= l.hw && f.endOffset >= l.epochStart
}

// LowWatermark is the offset below which no living replica has anything: the least log
// start, ownStart the leader's. It is -1 while a living follower has not told its own.
func (l *Leader) LowWatermark(ownStart int64, brokers Brokers) int64 {
	low := ownStart
	for i := range l.followers {
		f := &l.followers[i]
		if b := brokers.Standing(f.id); b.Known && !b.Fenced {
			low = min(low, f.logStart)
		}
	}
	return low
}

// Racks tells where brokers stand.
type Racks interface {
	// Rack is the rack of a broker that clients of the asker's listener can reach; ok is
	// false for any other.
	Rack(id int32) (rack string, ok bool)
}

// NearestInRack is the replica that a consumer in the rack reads best from (KIP-392): the
// leader where it stands in the rack itself or nobody does, else the most caught up of the
// members of the ISR that stand there and have the offset.
func (l *Leader) NearestInRack(rack string, offset int64, racks Racks) int32 {
	if own, ok := racks.Rack(l.self); rack == "" || ok && own == rack {
		return l.self
	}
	var best *follower
	for i := range l.followers {
		f := &l.followers[i]
		if !f.known || !l.inISR(f.id) || f.endOffset < offset || f.logStart > offset {
			continue
		}
		if r, ok := racks.Rack(f.id); !ok || r != rack {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(f.endOffset, best.endOffset), cmp.Compare(f.caughtUpAt, best.caughtUpAt)) > 0 {
			best = f
		}
	}
	if best == nil {
		return l.self
	}
	return best.id
}

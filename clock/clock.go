// Package clock is the contract for time.
//
// It owns the two notions of time that a broker needs and nothing else: a monotonic
// instant, which deadlines and durations are made of and which never goes back, and a
// wall clock, which record timestamps are made of and which may jump either way. Code
// that decides takes both as arguments; code that waits asks the [Clock] of its host.
package clock

import "time"

// Instant is a monotonic moment in nanoseconds since an arbitrary start, which is the
// host's and outlives no restart. Only differences and comparisons have a meaning.
type Instant int64

// Never is a deadline that does not come.
const Never Instant = 1<<63 - 1

// Add returns i moved by d, saturating at [Never], so that an enormous configured
// time-out means "never" and not "long ago".
func (i Instant) Add(d time.Duration) Instant {
	if i == Never {
		return Never
	}
	s := i + Instant(d)
	if d > 0 && s < i {
		return Never
	}
	return s
}

// Sub returns the time from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Clock tells the time of one host.
type Clock interface {
	// Now is the monotonic time.
	Now() Instant
	// UnixMilli is the wall clock in milliseconds since 1970. It may jump.
	UnixMilli() int64
}

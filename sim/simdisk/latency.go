package simdisk

import (
	"math/rand/v2"
	"time"
)

// Op is a kind of call, for latencies.
type Op uint8

const (
	OpRead Op = iota
	OpWrite
	OpSync
	OpMeta // names, sizes, truncation
)

// Latency draws how long a call takes. A call that takes no time does not park, and is no
// place to crash.
type Latency interface {
	Draw(op Op, bytes int, r *rand.Rand) time.Duration
}

// Default is the latency of a decent drive under a page cache, with a heavy tail: most
// reads are cached and take no time, one call in 256 takes up to 64 times as long.
type Default struct{}

// Draw implements Latency.
func (Default) Draw(op Op, bytes int, r *rand.Rand) time.Duration {
	v := r.Uint64()
	var d time.Duration
	switch op {
	case OpRead:
		if v&7 != 0 {
			return 0
		}
		d = time.Duration(2_000 + v>>8%80_000)
	case OpWrite:
		d = time.Duration(3_000 + v>>8%20_000 + uint64(bytes))
	case OpSync:
		d = time.Duration(100_000 + v>>8%2_000_000)
	case OpMeta:
		if v&1 != 0 {
			return 0
		}
		d = time.Duration(2_000 + v>>8%30_000)
	}
	if v>>56 == 0 {
		d *= time.Duration(1 + v>>50&63)
	}
	return d
}

// None takes no time, and leaves no place to crash.
type None struct{}

// Draw implements Latency.
func (None) Draw(Op, int, *rand.Rand) time.Duration { return 0 }

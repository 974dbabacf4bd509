package simnet

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Config is how the network behaves. "One in n" rates are off at zero.
type Config struct {
	// A piece takes at least LatencyMinNs and less than LatencyMaxNs.
	LatencyMinNs, LatencyMaxNs int64
	// TailEvery: one piece in n takes a heavy-tailed time, up to TailMaxNs, which may be
	// more than any client waits.
	TailEvery int
	TailMaxNs int64
	// BytesPerSec is the bandwidth of each link, 0 for no limit.
	BytesPerSec int64
	// Window is how many bytes one direction of a connection holds between write and read.
	Window int
	// SplitEvery: one write in n is cut in small pieces.
	SplitEvery int
	// LossEvery: one piece in n is lost and comes again after a retransmission time-out.
	LossEvery int
	// ResetEvery: one piece in n arrives as a reset of its connection.
	ResetEvery int
	// RebindEvery: one piece in n of a file range is read from the page cache once more when
	// it is delivered.
	RebindEvery int
}

// Calm is a configuration without faults. The liveness phase of a run uses it.
func Calm() Config {
	return Config{
		LatencyMinNs: int64(20 * time.Microsecond), LatencyMaxNs: int64(500 * time.Microsecond),
		Window: 128 << 10,
	}
}

// DrawConfig draws a configuration. Every kind of disturbance is off in some draws.
func DrawConfig(r *rand.Rand) Config {
	c := Calm()
	c.LatencyMaxNs = logUniform(r, c.LatencyMinNs*2, int64(50*time.Millisecond))
	c.Window = int(logUniform(r, 256, 1<<20))
	rate := func(every *int, lo, hi int64) bool {
		n := int(logUniform(r, lo, hi))
		on := r.IntN(3) != 0
		if on {
			*every = n
		}
		return on
	}
	if rate(&c.TailEvery, 20, 2_000) {
		c.TailMaxNs = logUniform(r, int64(10*time.Millisecond), int64(90*time.Second))
	}
	if bps := logUniform(r, 50_000, 100_000_000); r.IntN(3) == 0 {
		c.BytesPerSec = bps
	}
	rate(&c.SplitEvery, 1, 100)
	rate(&c.LossEvery, 20, 5_000)
	rate(&c.ResetEvery, 100, 10_000)
	rate(&c.RebindEvery, 1, 50)
	return c
}

// String is the draw, for the head of a report.
func (c Config) String() string {
	return fmt.Sprintf("latency=%s-%s tail=1/%d≤%s bytes/s=%d window=%d split=1/%d loss=1/%d reset=1/%d rebind=1/%d",
		time.Duration(c.LatencyMinNs), time.Duration(c.LatencyMaxNs), c.TailEvery, time.Duration(c.TailMaxNs),
		c.BytesPerSec, c.Window, c.SplitEvery, c.LossEvery, c.ResetEvery, c.RebindEvery)
}

// logUniform draws from [lo, hi), each power of two about as likely as the next.
func logUniform(r *rand.Rand, lo, hi int64) int64 {
	octaves := 0
	for lo<<octaves < hi {
		octaves++
	}
	if octaves == 0 {
		return lo
	}
	span := lo << r.IntN(octaves)
	return span + r.Int64N(min(span, hi-span))
}

// countdown hits one time in n on the mean.
type countdown int

func (g *countdown) hit(every int, r *rand.Rand) bool {
	if every <= 0 {
		return false
	}
	if *g <= 0 {
		*g = countdown(1 + r.IntN(2*every-1))
	}
	*g--
	return *g == 0
}

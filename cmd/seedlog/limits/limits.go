//go:build linux

// Package limits measures what this machine can do without a broker: three raw loops with
// which the broker's own paths are compared in the same run (see docs/performance.md).
//
//	Produce   client -> TCP -> read, CRC-32C, pwrite at the end of a file -> small reply
//	Fetch     client -> small request -> page cache, sendfile -> TCP -> client
//	Sync      64 positional writes, one fdatasync
//
// It shares no code with the broker. Each round uses a file of its own, which it removes.
package limits

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"
)

// Config says what to measure.
type Config struct {
	// Dir is where the files go: the file system to measure.
	Dir string
	// Frame is the size in bytes of a frame, a response, or a single positional write.
	Frame int
	// Bytes is how much one round moves; it is rounded up to whole frames.
	Bytes int64
	// InFlight is how many frames or requests are on the way at a time.
	InFlight int
	// Rounds is how often to measure; one more, before, warms up.
	Rounds int
	// Progress, if set, is told before each round; done counts from 0.
	Progress func(loop string, frame, done, rounds int)
}

// WritesPerSync is the size of a group in the Sync loop.
const WritesPerSync = 64

// Result is what a loop reached.
type Result struct {
	Loop  string
	Frame int       // bytes
	MBps  []float64 // 10^6 bytes of frames a second, by round
}

// Median is the middle round in MB/s.
func (r Result) Median() float64 { s := r.sorted(); return s[len(s)/2] }

// Min is the slowest round in MB/s.
func (r Result) Min() float64 { return r.sorted()[0] }

// Max is the fastest round in MB/s.
func (r Result) Max() float64 { s := r.sorted(); return s[len(s)-1] }

// FramesPerSecond is the median rate of frames.
func (r Result) FramesPerSecond() float64 { return r.Median() * 1e6 / float64(r.Frame) }

func (r Result) sorted() []float64 { return slices.Sorted(slices.Values(r.MBps)) }

// String is one line with the spread.
func (r Result) String() string {
	return fmt.Sprintf("%s %d bytes: %.1f MB/s (%.1f to %.1f in %d rounds), %.0f frames/s",
		r.Loop, r.Frame, r.Median(), r.Min(), r.Max(), len(r.MBps), r.FramesPerSecond())
}

// Produce measures socket to CRC to page cache.
func Produce(ctx context.Context, c Config) (Result, error) {
	return c.measure(ctx, "produce", c.produce)
}

// Fetch measures page cache to sendfile to socket.
func Fetch(ctx context.Context, c Config) (Result, error) { return c.measure(ctx, "fetch", c.fetch) }

// Sync measures groups of positional writes with one fdatasync each.
func Sync(ctx context.Context, c Config) (Result, error) { return c.measure(ctx, "sync", c.sync) }

// measure runs the rounds, each on a new file.
func (c Config) measure(ctx context.Context, loop string, round func(*os.File, int) error) (Result, error) {
	r := Result{Loop: loop, Frame: c.Frame}
	if c.Frame <= 0 || c.Bytes <= 0 || c.Rounds <= 0 || c.InFlight <= 0 {
		return r, fmt.Errorf("limits: frame, bytes, rounds and in-flight must be positive: %+v", c)
	}
	frames := int((c.Bytes + int64(c.Frame) - 1) / int64(c.Frame))
	for i := -1; i < c.Rounds; i++ {
		if err := ctx.Err(); err != nil {
			return r, err
		}
		if c.Progress != nil && i >= 0 {
			c.Progress(loop, c.Frame, i, c.Rounds)
		}
		n := frames
		if i < 0 { // the warm-up may be short
			n = max(1, frames/4)
		}
		took, err := c.timed(loop, n, round)
		if err != nil {
			return r, fmt.Errorf("limits: %s of %d bytes: %w", loop, c.Frame, err)
		}
		if i >= 0 {
			r.MBps = append(r.MBps, float64(n)*float64(c.Frame)/1e6/took.Seconds())
		}
	}
	return r, nil
}

// timed runs one round. Fetch fills its file before its clock starts.
func (c Config) timed(loop string, frames int, round func(*os.File, int) error) (took time.Duration, err error) {
	f, err := os.CreateTemp(c.Dir, "seedlog-limits-*")
	if err != nil {
		return 0, err
	}
	defer func() {
		f.Close()
		os.Remove(f.Name())
	}()
	if loop == "fetch" {
		if err := c.fill(f, frames); err != nil {
			return 0, err
		}
	}
	start := time.Now()
	err = round(f, frames)
	return max(time.Since(start), time.Nanosecond), err
}

// pattern is a frame's worth of bytes that are not all the same.
func (c Config) pattern() []byte {
	b := make([]byte, c.Frame)
	x := uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

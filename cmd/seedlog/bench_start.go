package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"golang.org/x/sys/unix"
)

// startMaxMs is what the goals allow on tmpfs; on disk syncsAtStart fsyncs come on top.
const (
	startMaxMs    = 100
	syncsAtStart  = 6
	residentMaxKB = 40 << 10
	allocsMax     = 8
)

// start measures starts of a new broker, in memory and on disk, and its idle memory.
func (r *limitsRun) start() error {
	memory, kb, err := r.starts20(r.memory)
	if err != nil {
		return err
	}
	fsync, err := fsyncMs(r.dir)
	if err != nil {
		return err
	}
	disk, _, err := r.starts20(r.dir)
	if err != nil {
		return err
	}
	again, err := fsyncMs(r.dir)
	if err != nil {
		return err
	}
	fsync = append(fsync, again...)
	allowed := startMaxMs + syncsAtStart*fsync.median()
	r.say("exec to first acknowledged produce, %s: %s ms, at most %d", r.memory, memory, startMaxMs)
	r.say("one fsync of 4 KiB, %s: %s ms", r.dir, fsync)
	r.say("exec to first acknowledged produce, %s: %s ms, at most %d + %d fsyncs = %.1f", r.dir, disk, startMaxMs, syncsAtStart, allowed)
	r.say("resident memory, idle after the first produce: %.1f MB (%.1f to %.1f), under 40", kb.median()/1024, kb.min()/1024, kb.max()/1024)
	return nil
}

func (s series) String() string {
	return fmt.Sprintf("%.1f (%.1f to %.1f, median of %d)", s.median(), s.min(), s.max(), len(s))
}

func (r *limitsRun) say(format string, args ...any) {
	r.more = append(r.more, fmt.Sprintf(format, args...))
}

// starts20 starts that many brokers one after the other.
func (r *limitsRun) starts20(root string) (ms, residentKB series, err error) {
	batch, _, err := benchBatch(1, r.recordSize)
	if err != nil {
		return nil, nil, err
	}
	for range r.limitsFlags.starts {
		if err := r.ctx.Err(); err != nil {
			return nil, nil, err
		}
		took, kb, err := r.oneStart(root, batch)
		if err != nil {
			return nil, nil, err
		}
		ms, residentKB = append(ms, took), append(residentKB, kb)
	}
	return ms, residentKB, nil
}

func (r *limitsRun) oneStart(root string, batch []byte) (ms, residentKB float64, err error) {
	dir, remove, err := benchDir(root)
	if err != nil {
		return 0, 0, err
	}
	defer remove()
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return 0, 0, err
	}
	began := time.Now()
	b, err := startBenchBroker(dir)
	if err != nil {
		return 0, 0, err
	}
	took, err := firstProduce(r.ctx, b, batch, began)
	if err != nil {
		b.kill()
		return 0, 0, err
	}
	time.Sleep(20 * time.Millisecond) // idle
	kb, err := b.residentKB()
	return float64(took.Microseconds()) / 1000, float64(kb), errors.Join(err, b.stop())
}

// firstProduce makes a topic and produces into it, as soon as the broker can.
func firstProduce(ctx context.Context, b *benchBroker, batch []byte, began time.Time) (time.Duration, error) {
	c, err := b.dial(ctx)
	if err != nil {
		return 0, err
	}
	defer c.close()
	const topic = "first"
	if err := c.createTopic(topic, benchTopicSettings...); err != nil {
		return 0, err
	}
	frame := c.produceFrame(topic, -1, batch)
	for {
		err := c.oneByOne(topic, frame, 1)
		if err == nil {
			return time.Since(began), nil
		}
		if !errors.Is(err, kerr.UnknownTopicOrPartition) && !errors.Is(err, kerr.NotLeaderForPartition) {
			return 0, err
		}
	}
}

// fsyncMs is how long an fsync of a small new file takes.
func fsyncMs(dir string) (ms series, err error) {
	for range 20 {
		f, err := os.CreateTemp(dir, "seedlog-fsync-*")
		if err != nil {
			return nil, err
		}
		_, werr := f.Write(make([]byte, 4096))
		began := time.Now()
		serr := unix.Fsync(int(f.Fd()))
		ms = append(ms, float64(time.Since(began).Microseconds())/1000)
		if err := errors.Join(werr, serr, f.Close(), os.Remove(f.Name())); err != nil {
			return nil, err
		}
	}
	return ms, nil
}

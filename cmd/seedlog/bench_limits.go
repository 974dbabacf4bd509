package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"seedlog/cmd/seedlog/limits"
)

type limitsFlags struct {
	dir, memory, format string
	rounds, starts      int
	bytes               int64
	recordSize          int
	only                []string
}

func benchLimitsCommand() *cobra.Command {
	var f limitsFlags
	c := &cobra.Command{
		Use:   "limits",
		Short: "Compare the broker with what this machine can do",
		Long: `Limits runs raw loops and the broker in turn, round by round, on one machine in one run:

  produce  socket, CRC-32C, page cache      against the broker's produce path
  fetch    page cache, sendfile, socket     against the broker's fetch path
  sync     64 writes and one fdatasync      against flush.messages=1, 64 producers in flight

The broker is a child process of this one, and its client sends frames built beforehand, as
the raw loops' client does. It also measures allocations per request, the time from exec to
the first acknowledged produce, and resident memory.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	fl := c.Flags()
	fl.StringVar(&f.dir, "dir", os.TempDir(), "where the files go: the disk to measure")
	fl.StringVar(&f.memory, "memory-dir", "/dev/shm", "a directory in memory, for what the disk would drown")
	fl.StringVar(&f.format, "format", "text", "text or markdown")
	fl.IntVar(&f.rounds, "rounds", 7, "rounds of every loop")
	fl.IntVar(&f.starts, "starts", 20, "starts of a broker")
	fl.Int64Var(&f.bytes, "bytes", 512<<20, "bytes that a loop moves in a round of 1 MiB requests; smaller ones move less")
	fl.IntVar(&f.recordSize, "record-size", 1024, "bytes of a record's value")
	fl.StringSliceVar(&f.only, "only", []string{"produce", "fetch", "sync", "allocs", "start"}, "what to measure")
	return c
}

// limitsRun is one run of the command.
type limitsRun struct {
	limitsFlags
	ctx  context.Context
	note io.Writer // progress
	rows []limitsRow
	more []string // other findings, a line each
}

// limitsRow compares one raw loop with the broker.
type limitsRow struct {
	name        string
	request     int
	raw, broker series // MB/s
	cpu         series // broker's processor seconds per GB
	target      float64
}

func (f *limitsFlags) run(c *cobra.Command) error {
	if f.format != "text" && f.format != "markdown" {
		return usagef("--format is %q: use text or markdown", f.format)
	}
	ctx, stop := signalContext(c.Context())
	defer stop()
	r := &limitsRun{limitsFlags: *f, ctx: ctx, note: c.ErrOrStderr()}
	for _, step := range []struct {
		name string
		run  func() error
	}{{"produce", r.produce}, {"fetch", r.fetch}, {"sync", r.sync}, {"allocs", r.allocs}, {"start", r.start}} {
		if !containsText(f.only, step.name) {
			continue
		}
		if err := step.run(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	r.print(c.OutOrStdout())
	return nil
}

func containsText(list []string, v string) bool {
	for _, e := range list {
		if e == v {
			return true
		}
	}
	return false
}

// inFlight is how many requests are on the way at a time.
const inFlight = 8

// The sizes of requests, and how much of --bytes a round of each moves.
var limitsSizes = []struct {
	frame  int
	share  int64
	target float64 // that the goals name for produce and fetch: see docs/performance.md
}{{1 << 20, 1, 0.6}, {16 << 10, 4, 0}, {1, 64, 0}}

// with runs fn with a broker whose data is in root, and a connection to it.
func (r *limitsRun) with(root string, fn func(b *benchBroker, c *benchConn) error) error {
	dir, remove, err := benchDir(root)
	if err != nil {
		return err
	}
	defer remove()
	b, err := startBenchBroker(dir)
	if err != nil {
		return err
	}
	c, err := b.dial(r.ctx)
	if err == nil {
		err = fn(b, c)
		c.close()
	}
	if err != nil {
		b.kill()
		return err
	}
	return b.stop()
}

// benchTopicSettings let a round leave nothing behind for the next one.
var benchTopicSettings = [][2]string{{"file.delete.delay.ms", "0"}}

func (r *limitsRun) produce() error {
	return r.with(r.memory, func(b *benchBroker, c *benchConn) error {
		for _, size := range limitsSizes {
			if err := r.compareProduce(b, c, size.frame, size.share, size.target); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *limitsRun) compareProduce(b *benchBroker, c *benchConn, frame int, share int64, target float64) error {
	batch, records, err := benchBatch(frame, r.recordSize)
	if err != nil {
		return err
	}
	row := limitsRow{name: "produce", request: len(batch), target: target}
	n := int(r.bytes / share / int64(len(batch)))
	for round := range r.rounds {
		r.progress("produce", len(batch), round)
		raw, err := limits.Produce(r.ctx, r.loop(r.memory, len(batch), n))
		if err != nil {
			return err
		}
		topic := fmt.Sprintf("produce-%d-%d", frame, round)
		if err := c.createTopic(topic, benchTopicSettings...); err != nil {
			return err
		}
		request := c.produceFrame(topic, -1, batch)
		if err := c.produce(topic, request, max(1, n/4), records, inFlight); err != nil { // as the raw loop warms up
			return err
		}
		rate, cpu, err := b.timed(n*len(batch), func() error { return c.produce(topic, request, n, records, inFlight) })
		if err != nil {
			return err
		}
		row.raw, row.broker, row.cpu = append(row.raw, raw.Median()), append(row.broker, rate), append(row.cpu, cpu)
		if err := c.deleteTopic(topic); err != nil {
			return err
		}
	}
	r.rows = append(r.rows, row)
	return nil
}

// loop is one round of a raw loop.
func (r *limitsRun) loop(dir string, frame, frames int) limits.Config {
	return limits.Config{Dir: dir, Frame: frame, Bytes: int64(frame) * int64(frames), InFlight: inFlight, Rounds: 1}
}

// timed runs fn, which moves so many bytes through the broker, and returns MB/s and the
// broker's processor seconds per GB.
func (b *benchBroker) timed(bytes int, fn func() error) (rate, cpu float64, err error) {
	before, err := b.cpu()
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if err := fn(); err != nil {
		return 0, 0, err
	}
	took := time.Since(began)
	after, err := b.cpu()
	return float64(bytes) / 1e6 / took.Seconds(), (after - before).Seconds() / (float64(bytes) / 1e9), err
}

func (r *limitsRun) fetch() error {
	return r.with(r.memory, func(b *benchBroker, c *benchConn) error {
		for _, size := range limitsSizes {
			target := 0.0
			if size.target > 0 {
				target = 0.85
			}
			if err := r.compareFetch(b, c, size.frame, size.share, target); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *limitsRun) compareFetch(b *benchBroker, c *benchConn, frame int, share int64, target float64) error {
	batch, records, err := benchBatch(frame, r.recordSize)
	if err != nil {
		return err
	}
	row := limitsRow{name: "fetch", request: len(batch), target: target}
	n := int(r.bytes / share / int64(len(batch)))
	topic := fmt.Sprintf("fetch-%d", frame)
	if err := c.createTopic(topic, benchTopicSettings...); err != nil {
		return err
	}
	if err := c.produce(topic, c.produceFrame(topic, -1, batch), n, records, inFlight); err != nil {
		return err
	}
	for round := range r.rounds {
		r.progress("fetch", len(batch), round)
		raw, err := limits.Fetch(r.ctx, r.loop(r.memory, len(batch), n))
		if err != nil {
			return err
		}
		if err := c.fetch(topic, max(1, n/4), len(batch), records, inFlight); err != nil {
			return err
		}
		rate, cpu, err := b.timed(n*len(batch), func() error { return c.fetch(topic, n, len(batch), records, inFlight) })
		if err != nil {
			return err
		}
		row.raw, row.broker, row.cpu = append(row.raw, raw.Median()), append(row.broker, rate), append(row.cpu, cpu)
	}
	r.rows = append(r.rows, row)
	return c.deleteTopic(topic)
}

func (r *limitsRun) progress(loop string, bytes, round int) {
	if r.format == "text" && isTerminal(r.note) {
		fmt.Fprintf(r.note, "\r\x1b[K%s, requests of %d bytes: round %d of %d", loop, bytes, round+1, r.rounds)
		if round+1 == r.rounds {
			fmt.Fprint(r.note, "\r\x1b[K")
		}
	}
}

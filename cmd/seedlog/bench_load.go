package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

type benchProduceFlags struct {
	produceFlags
	records, throughput int64
	recordSize          int
	partitions          int32
}

func benchProduceCommand() *cobra.Command {
	var f benchProduceFlags
	c := &cobra.Command{
		Use:     "produce TOPIC",
		Short:   "Write records as fast as possible, or at a rate",
		Example: "  seedlog bench produce load --records 1000000 --record-size 1024",
		Args:    cobra.ExactArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return explain(f.bench(c, args[0]), f.brokers) },
	}
	f.register(c)
	fl := c.Flags()
	fl.Int64VarP(&f.records, "records", "n", 1_000_000, "how many records")
	fl.IntVar(&f.recordSize, "record-size", 1024, "bytes of a record's value")
	fl.Int64Var(&f.throughput, "throughput", 0, "records a second; 0 is as fast as possible")
	fl.StringVar(&f.acks, "acks", "all", "0, 1 or all")
	fl.StringVarP(&f.codec, "compression", "z", "none", "none, gzip, snappy, lz4 or zstd")
	fl.Int32Var(&f.partitions, "partitions", 0, "create the topic with so many partitions if it is not there; 0 does not create it")
	return c
}

func (f *benchProduceFlags) bench(c *cobra.Command, topic string) error {
	asJSON, err := f.json()
	if err != nil {
		return err
	}
	if f.records <= 0 || f.recordSize < 0 {
		return usagef("--records and --record-size must be positive")
	}
	f.produceFlags.partition = -1
	opts, err := f.options(topic)
	if err != nil {
		return err
	}
	cl, err := f.client(append(opts, kgo.MaxBufferedRecords(1<<15), kgo.ProducerLinger(time.Millisecond))...)
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, stop := signalContext(c.Context())
	defer stop()
	if f.partitions > 0 {
		_, err := kadm.NewClient(cl).CreateTopic(ctx, f.partitions, -1, nil, topic)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return err
		}
	}
	load := newLoad(f.records, "records", isTerminal(c.ErrOrStderr()))
	if err := f.send(ctx, cl, load); err != nil {
		return err
	}
	return load.report(c.OutOrStdout(), asJSON)
}

// send produces all records and waits for their acknowledgements.
func (f *benchProduceFlags) send(ctx context.Context, cl *kgo.Client, load *load) error {
	value := make([]byte, f.recordSize)
	for i := range value {
		value[i] = byte('a' + i*7%26)
	}
	for i := range f.records {
		if f.throughput > 0 {
			due := load.began.Add(time.Duration(float64(i) / float64(f.throughput) * float64(time.Second)))
			if wait := time.Until(due); wait > time.Millisecond {
				time.Sleep(wait)
			}
		}
		if err := errors.Join(ctx.Err(), load.err()); err != nil {
			return err
		}
		began := time.Now()
		cl.Produce(ctx, &kgo.Record{Value: value}, func(r *kgo.Record, err error) {
			load.done(1, len(r.Value), time.Since(began), err)
		})
	}
	return errors.Join(cl.Flush(ctx), load.err())
}

type benchConsumeFlags struct {
	clientFlags
	records int64
	timeout time.Duration
}

func benchConsumeCommand() *cobra.Command {
	var f benchConsumeFlags
	c := &cobra.Command{
		Use:     "consume TOPIC",
		Short:   "Read records from the beginning as fast as possible",
		Example: "  seedlog bench consume load --records 1000000",
		Args:    cobra.ExactArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return explain(f.bench(c, args[0]), f.brokers) },
	}
	f.register(c)
	c.Flags().Int64VarP(&f.records, "records", "n", 1_000_000, "stop after so many records")
	c.Flags().DurationVar(&f.timeout, "timeout", 10*time.Second, "stop when nothing comes for so long")
	return c
}

func (f *benchConsumeFlags) bench(c *cobra.Command, topic string) error {
	asJSON, err := f.json()
	if err != nil {
		return err
	}
	cl, err := f.client(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, stop := signalContext(c.Context())
	defer stop()
	load := newLoad(f.records, "records", isTerminal(c.ErrOrStderr()))
	for load.n < f.records {
		polled, cancel := context.WithTimeout(ctx, f.timeout)
		fetches := cl.PollFetches(polled)
		idle := polled.Err() != nil && fetches.Empty()
		cancel()
		if err := ctx.Err(); err != nil {
			return err
		}
		if idle {
			fmt.Fprintf(c.ErrOrStderr(), "nothing came for %v\n", f.timeout)
			break
		}
		for _, e := range fetches.Errors() {
			return fmt.Errorf("%s-%d: %w", e.Topic, e.Partition, e.Err)
		}
		bytes, n := 0, 0
		fetches.EachRecord(func(r *kgo.Record) {
			bytes += len(r.Key) + len(r.Value)
			n++
		})
		load.done(int64(n), bytes, 0, nil)
	}
	return load.report(c.OutOrStdout(), asJSON)
}

// bar is what load needs of a progress bar.
type bar interface {
	Add64(int64) error
	Finish() error
}

// load counts what is done. Safe for concurrent use.
type load struct {
	began time.Time
	bar   bar

	mu      sync.Mutex
	n       int64
	bytes   int64
	shown   int64
	latency histogram
	failed  error
	ended   time.Time
}

func newLoad(total int64, what string, terminal bool) *load {
	return &load{began: time.Now(), bar: newBar(total, what, false, !terminal)}
}

// done notes n records of so many bytes in all. A latency of 0 is not counted.
func (l *load) done(n int64, bytes int, took time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failed = errors.Join(l.failed, err)
		return
	}
	l.n += n
	l.bytes += int64(bytes)
	l.ended = time.Now()
	if took > 0 {
		l.latency.add(took)
	}
	if step := l.n - l.shown; step >= 4096 {
		_ = l.bar.Add64(step) // a bar that cannot be drawn is nobody's loss
		l.shown = l.n
	}
}

func (l *load) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// report prints rates and percentiles.
func (l *load) report(w io.Writer, asJSON bool) error {
	_ = l.bar.Finish()
	took := l.ended.Sub(l.began).Seconds()
	if l.n == 0 {
		took = time.Since(l.began).Seconds()
	}
	rate, mb := float64(l.n)/took, float64(l.bytes)/1e6/took
	if asJSON {
		out := map[string]any{"records": l.n, "bytes": l.bytes, "seconds": took, "recordsPerSecond": rate, "mbPerSecond": mb}
		if l.latency.n > 0 {
			out["latencyMs"] = l.latency.percentiles()
		}
		return printJSON(w, out)
	}
	fmt.Fprintf(w, "%d records, %.1f MB in %.2f s: %.0f records/s, %.1f MB/s\n", l.n, float64(l.bytes)/1e6, took, rate, mb)
	if l.latency.n > 0 {
		p := l.latency.percentiles()
		fmt.Fprintf(w, "latency in ms: p50 %.2f, p95 %.2f, p99 %.2f, p99.9 %.2f, max %.2f\n", p["p50"], p["p95"], p["p99"], p["p99.9"], p["max"])
	}
	return nil
}

// Command segmentio is the interop client on segmentio/kafka-go.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"

	"seedlog-interop/gen"
)

const limit = 2 * time.Minute

func main() {
	a := gen.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if a.Verb == "write" {
		for k, codec := range a.Codecs {
			gen.Fatal(write(ctx, a, k, codec))
		}
	} else {
		gen.Fatal(read(ctx, a))
	}
	gen.Report("github.com/segmentio/kafka-go", a.N)
}

func write(ctx context.Context, a gen.Args, k int, codec string) error {
	compression := map[string]kafka.Compression{"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd}[codec]
	w := &kafka.Writer{Addr: kafka.TCP(a.Broker), Topic: a.Topic, Balancer: &kafka.Murmur2Balancer{},
		RequiredAcks: kafka.RequireAll, Compression: compression, BatchTimeout: 5 * time.Millisecond, BatchSize: 500}
	from, to := a.Run(k)
	var batch []kafka.Message
	for i := from; i < to; i++ {
		r := gen.Make(i, a.Seed, "full")
		m := kafka.Message{Key: r.Key, Value: r.Value, Time: time.UnixMilli(r.Timestamp)}
		for _, h := range r.Headers {
			m.Headers = append(m.Headers, kafka.Header{Key: h.Key, Value: h.Value})
		}
		batch = append(batch, m)
		if len(batch) == 5000 || i == to-1 {
			if err := w.WriteMessages(ctx, batch...); err != nil {
				return fmt.Errorf("at %d: %w", i, err)
			}
			batch = batch[:0]
		}
	}
	return w.Close()
}

func read(ctx context.Context, a gen.Args) error {
	r := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{a.Broker}, GroupID: a.Group, Topic: a.Topic, StartOffset: kafka.FirstOffset,
		MaxBytes: 10 << 20, MaxWait: 100 * time.Millisecond, JoinGroupBackoff: 200 * time.Millisecond})
	check := gen.NewChecker(a.N, a.Seed, a.Profile)
	check.NullIsEmpty = true
	last := map[int]kafka.Message{}
	for !check.Done() {
		m, err := r.FetchMessage(ctx)
		if err != nil {
			return fmt.Errorf("after %d records: %w", check.Count, err)
		}
		g := gen.Got{Partition: m.Partition, Offset: m.Offset}
		g.Key, g.Value, g.Timestamp = m.Key, m.Value, m.Time.UnixMilli()
		for _, h := range m.Headers {
			g.Headers = append(g.Headers, gen.Header{Key: h.Key, Value: h.Value})
		}
		if err := check.Add(g); err != nil {
			return err
		}
		last[m.Partition] = m
	}
	for _, m := range last {
		if err := r.CommitMessages(ctx, m); err != nil {
			return err
		}
	}
	return r.Close()
}

// Command franz is the interop client on franz-go; it also makes topics and asks for commits on the harness's behalf.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"seedlog-interop/gen"
)

const limit = 2 * time.Minute

func main() {
	a := gen.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	switch a.Verb {
	case "write":
		for k, codec := range a.Codecs {
			gen.Fatal(write(ctx, a, k, codec))
		}
		gen.Report("github.com/twmb/franz-go", a.N)
	case "read":
		gen.Fatal(read(ctx, a))
		gen.Report("github.com/twmb/franz-go", a.N)
	case "create":
		gen.Fatal(create(ctx, a))
	case "committed":
		gen.Fatal(committed(ctx, a))
	default:
		gen.Fatal(fmt.Errorf("unknown verb %q", a.Verb))
	}
}

func codecOf(name string) kgo.CompressionCodec {
	switch name {
	case "gzip":
		return kgo.GzipCompression()
	case "snappy":
		return kgo.SnappyCompression()
	case "lz4":
		return kgo.Lz4Compression()
	case "zstd":
		return kgo.ZstdCompression()
	}
	return kgo.NoCompression()
}

func write(ctx context.Context, a gen.Args, k int, codec string) error {
	cl, err := open(a, kgo.ProducerBatchCompression(codecOf(codec)))
	if err != nil {
		return err
	}
	defer cl.Close()
	from, to := a.Run(k)
	failed := make(chan error, 1)
	for i := from; i < to; i++ {
		r := gen.Make(i, a.Seed, "full")
		rec := &kgo.Record{Topic: a.Topic, Key: r.Key, Value: r.Value, Timestamp: time.UnixMilli(r.Timestamp)}
		for _, h := range r.Headers {
			rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		cl.Produce(ctx, rec, func(_ *kgo.Record, err error) {
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	if err := cl.Flush(ctx); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	select {
	case err := <-failed:
		return fmt.Errorf("a record: %w", err)
	default:
		return nil
	}
}

func read(ctx context.Context, a gen.Args) error {
	cl, err := open(a, kgo.ConsumerGroup(a.Group), kgo.ConsumeTopics(a.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit())
	if err != nil {
		return err
	}
	defer cl.Close()
	check := gen.NewChecker(a.N, a.Seed, a.Profile)
	for !check.Done() {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("after %d records: %w", check.Count, err)
		}
		for _, r := range fetches.Records() {
			if err := check.Add(got(r)); err != nil {
				return err
			}
		}
	}
	if err := cl.CommitUncommittedOffsets(ctx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

func got(r *kgo.Record) gen.Got {
	g := gen.Got{Partition: int(r.Partition), Offset: r.Offset}
	g.Key, g.Value, g.Timestamp = r.Key, r.Value, r.Timestamp.UnixMilli()
	for _, h := range r.Headers {
		g.Headers = append(g.Headers, gen.Header{Key: h.Key, Value: h.Value})
	}
	return g
}

// open connects to the brokers, one of which may be killed at any moment: kgo takes a connection that ends
// at once for a missing login unless it is told to try again.
func open(a gen.Args, opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(opts, kgo.SeedBrokers(strings.Split(a.Broker, ",")...), kgo.AlwaysRetryEOF())...)
}

// administer tries again while brokers cannot be reached.
func administer(ctx context.Context, a gen.Args, what func(*kadm.Client) error) error {
	cl, err := open(a)
	if err != nil {
		return err
	}
	defer cl.Close()
	for {
		err := what(kadm.NewClient(cl))
		var network net.Error
		if !errors.As(err, &network) && !errors.Is(err, io.EOF) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// create makes a topic of N partitions, each with the cluster's default number of replicas. The
// records' timestamps lie years back, so nothing but -1 keeps them from retention.
func create(ctx context.Context, a gen.Args) error {
	forever, first := "-1", true
	return administer(ctx, a, func(adm *kadm.Client) error {
		_, err := adm.CreateTopic(ctx, int32(a.N), -1, map[string]*string{"retention.ms": &forever}, a.Topic)
		if !first && errors.Is(err, kerr.TopicAlreadyExists) {
			return nil // by the attempt before, whose answer was lost
		}
		if first = false; err != nil {
			return fmt.Errorf("create %s: %w", a.Topic, err)
		}
		return nil
	})
}

// committed succeeds when the group has committed N records of the topic over all partitions.
func committed(ctx context.Context, a gen.Args) error {
	return administer(ctx, a, func(adm *kadm.Client) error {
		offsets, err := adm.FetchOffsets(ctx, a.Group)
		if err != nil {
			return fmt.Errorf("offsets of group %s: %w", a.Group, err)
		}
		sum := int64(0)
		offsets.Each(func(o kadm.OffsetResponse) {
			if o.Topic == a.Topic && o.Err == nil {
				sum += o.At
			}
		})
		if sum != int64(a.N) {
			return fmt.Errorf("group %s committed %d records of %s, want %d", a.Group, sum, a.Topic, a.N)
		}
		fmt.Fprintln(os.Stderr, "committed", sum)
		return nil
	})
}

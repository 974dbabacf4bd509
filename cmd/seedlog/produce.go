package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
)

type produceFlags struct {
	clientFlags
	topic, key, layout, codec, acks string
	headers                         []string
	partition                       int32
	quiet                           bool
}

func produceCommand() *cobra.Command {
	var f produceFlags
	c := &cobra.Command{
		Use:   "produce TOPIC",
		Short: "Write records from standard input, one a line",
		Example: `  echo hello | seedlog produce orders
  printf 'k1\tv1\n' | seedlog produce orders -f '%k\t%v\n'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			topic, err := topicArg(args, f.topic)
			if err != nil {
				return err
			}
			return explain(f.run(c, topic), f.brokers)
		},
	}
	f.register(c)
	c.Flags().StringVar(&f.topic, "topic", "", "the topic, if it is not the argument")
	c.Flags().StringVarP(&f.key, "key", "k", "", "the key of every record")
	c.Flags().StringVarP(&f.layout, "input", "f", "%v\n", "layout of the input: %k key, %v value, and literal text")
	c.Flags().StringVarP(&f.codec, "compression", "z", "none", "none, gzip, snappy, lz4 or zstd")
	c.Flags().StringVar(&f.acks, "acks", "all", "0, 1 or all")
	c.Flags().StringArrayVarP(&f.headers, "header", "H", nil, "a header of every record, key=value; may be repeated")
	c.Flags().Int32VarP(&f.partition, "partition", "p", -1, "the partition; -1 chooses by key")
	c.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "do not print where records went")
	return c
}

// written is a line of --format json: where a record went.
type written struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

func (f *produceFlags) run(c *cobra.Command, topic string) error {
	asJSON, err := f.json()
	if err != nil {
		return err
	}
	opts, err := f.options(topic)
	if err != nil {
		return err
	}
	cl, err := f.client(opts...)
	if err != nil {
		return err
	}
	defer cl.Close()
	in, err := kgo.NewRecordReader(c.InOrStdin(), f.layout)
	if err != nil {
		return usagef("-f: %v", err)
	}
	headers, err := parseHeaders(f.headers)
	if err != nil {
		return err
	}
	ctx, stop := signalContext(c.Context())
	defer stop()
	if err := cl.Ping(ctx); err != nil {
		return err // records would wait for a broker without a word
	}
	var failed atomic.Pointer[error]
	for failed.Load() == nil {
		r, err := in.ReadRecord()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("standard input: %w", err)
		}
		r.Headers = append(r.Headers, headers...)
		if f.key != "" {
			r.Key = []byte(f.key)
		}
		if f.partition >= 0 {
			r.Partition = f.partition
		}
		cl.Produce(ctx, r, func(r *kgo.Record, err error) {
			switch {
			case err != nil:
				failed.CompareAndSwap(nil, &err)
			case f.quiet:
			case asJSON:
				_ = json.NewEncoder(c.OutOrStdout()).Encode(written{r.Topic, r.Partition, r.Offset})
			default:
				fmt.Fprintf(c.OutOrStdout(), "Produced to partition %d at offset %d.\n", r.Partition, r.Offset)
			}
		})
	}
	if err := cl.Flush(ctx); err != nil {
		return err
	}
	if p := failed.Load(); p != nil {
		return *p
	}
	return nil
}

func (f *produceFlags) options(topic string) ([]kgo.Opt, error) {
	opts := []kgo.Opt{kgo.DefaultProduceTopic(topic), kgo.AllowAutoTopicCreation()}
	codec, ok := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}[f.codec]
	if !ok {
		return nil, usagef("--compression is %q: use none, gzip, snappy, lz4 or zstd", f.codec)
	}
	opts = append(opts, kgo.ProducerBatchCompression(codec))
	switch f.acks {
	case "all", "-1":
	case "1":
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	case "0":
		opts = append(opts, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	default:
		return nil, usagef("--acks is %q: use 0, 1 or all", f.acks)
	}
	if f.partition >= 0 {
		opts = append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	return opts, nil
}

func parseHeaders(list []string) ([]kgo.RecordHeader, error) {
	var out []kgo.RecordHeader
	for _, kv := range list {
		k, v, ok := strings.Cut(kv, "=")
		if !ok {
			return nil, usagef("--header %q: write key=value", kv)
		}
		out = append(out, kgo.RecordHeader{Key: k, Value: []byte(v)})
	}
	return out, nil
}

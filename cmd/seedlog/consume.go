package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

type consumeFlags struct {
	clientFlags
	topic, group, layout, offset string
	partitions                   []int32
	max                          int64
	fromBeginning, exitAtEnd     bool
}

func consumeCommand() *cobra.Command {
	var f consumeFlags
	c := &cobra.Command{
		Use:   "consume TOPIC",
		Short: "Print records",
		Example: `  seedlog consume orders -o start -e
  seedlog consume orders -g billing -f '%t %p %o %k %v\n'`,
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
	c.Flags().StringVarP(&f.group, "group", "g", "", "read as a member of this group and commit")
	c.Flags().StringVarP(&f.layout, "output", "f", "%v\n", "layout of a record: %t topic, %p partition, %o offset, %k key, %v value, %h{...} headers, %d timestamp")
	c.Flags().StringVarP(&f.offset, "offset", "o", "end", "where to begin: start, end, an offset, or -N before the end")
	c.Flags().Int32SliceVarP(&f.partitions, "partition", "p", nil, "only these partitions")
	c.Flags().Int64VarP(&f.max, "num", "n", 0, "stop after this many records")
	c.Flags().Int64Var(&f.max, "max-messages", 0, "the same as -n")
	c.Flags().BoolVar(&f.fromBeginning, "from-beginning", false, "the same as -o start")
	c.Flags().BoolVarP(&f.exitAtEnd, "exit-at-end", "e", false, "stop at the end of the log as it was at the beginning")
	return c
}

func (f *consumeFlags) start() (kgo.Offset, error) {
	if f.fromBeginning || f.offset == "start" || f.offset == "beginning" {
		return kgo.NewOffset().AtStart(), nil
	}
	if f.offset == "end" {
		return kgo.NewOffset().AtEnd(), nil
	}
	n, err := strconv.ParseInt(f.offset, 10, 64)
	if err != nil {
		return kgo.Offset{}, usagef("--offset is %q: use start, end, a number, or -N", f.offset)
	}
	if strings.HasPrefix(f.offset, "-") {
		return kgo.NewOffset().AtEnd().Relative(n), nil
	}
	return kgo.NewOffset().At(n), nil
}

// printer is how a record is laid out.
func (f *consumeFlags) printer(c *cobra.Command) (func([]byte, *kgo.Record) []byte, error) {
	asJSON, err := f.json()
	switch {
	case err != nil:
		return nil, err
	case asJSON && c.Flags().Changed("output"):
		return nil, usagef("--output and --format json exclude each other")
	case asJSON:
		return appendJSON, nil
	}
	layout, err := kgo.NewRecordFormatter(f.layout)
	if err != nil {
		return nil, usagef("-f: %v", err)
	}
	return layout.AppendRecord, nil
}

// consumed is a line of --format json. What is no text stands in base64.
type consumed struct {
	Topic     string     `json:"topic"`
	Partition int32      `json:"partition"`
	Offset    int64      `json:"offset"`
	Timestamp int64      `json:"timestamp"` // ms
	Key       *jsonBytes `json:"key"`
	Value     *jsonBytes `json:"value"`
	Headers   []jsonPair `json:"headers,omitempty"`
}

type jsonPair struct {
	Key   string     `json:"key"`
	Value *jsonBytes `json:"value"`
}

// jsonBytes is a string, or {"base64": ...} if it is no UTF-8.
type jsonBytes []byte

func (b jsonBytes) MarshalJSON() ([]byte, error) {
	if utf8.Valid(b) {
		return json.Marshal(string(b))
	}
	return json.Marshal(map[string][]byte{"base64": b})
}

func appendJSON(to []byte, r *kgo.Record) []byte {
	bytes := func(b []byte) *jsonBytes {
		if b == nil {
			return nil
		}
		return (*jsonBytes)(&b)
	}
	out := consumed{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), Key: bytes(r.Key), Value: bytes(r.Value)}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, jsonPair{h.Key, bytes(h.Value)})
	}
	line, err := json.Marshal(out)
	if err != nil {
		panic(err) // nothing in it cannot be written
	}
	return append(append(to, line...), '\n')
}

func (f *consumeFlags) run(c *cobra.Command, topic string) error {
	start, err := f.start()
	if err != nil {
		return err
	}
	out, err := f.printer(c)
	if err != nil {
		return err
	}
	opts := []kgo.Opt{kgo.ConsumeResetOffset(start)}
	switch {
	case f.group != "" && len(f.partitions) > 0:
		return usagef("--group and --partition exclude each other: a group assigns the partitions")
	case f.group != "":
		opts = append(opts, kgo.ConsumerGroup(f.group), kgo.AutoCommitMarks(), kgo.ConsumeTopics(topic))
	case len(f.partitions) > 0:
		parts := make(map[int32]kgo.Offset)
		for _, p := range f.partitions {
			parts[p] = start
		}
		opts = append(opts, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: parts}))
	default:
		opts = append(opts, kgo.ConsumeTopics(topic))
	}
	cl, err := f.client(opts...)
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, stop := signalContext(c.Context())
	defer stop()
	if err := f.check(ctx, cl, topic); err != nil {
		return err
	}
	ends, err := f.ends(ctx, cl, topic)
	if err != nil {
		return err
	}
	err = f.read(ctx, cl, ends, out, c.OutOrStdout())
	return errors.Join(err, f.commit(cl))
}

// read prints until the end, or enough.
func (f *consumeFlags) read(ctx context.Context, cl *kgo.Client, ends logEnds, layout func([]byte, *kgo.Record) []byte, out io.Writer) error {
	w := bufio.NewWriter(out)
	var buf []byte
	for n := int64(0); !(f.exitAtEnd && ends.reached()); {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		for _, e := range fetches.Errors() {
			return fmt.Errorf("%s-%d: %w", e.Topic, e.Partition, e.Err)
		}
		var printed []*kgo.Record
		for it := fetches.RecordIter(); !it.Done() && (f.max <= 0 || n < f.max); {
			r := it.Next()
			if f.exitAtEnd && ends.past(r) {
				continue
			}
			buf = layout(buf[:0], r)
			_, _ = w.Write(buf) // Flush says what failed
			printed = append(printed, r)
			n++
		}
		if err := w.Flush(); err != nil {
			return err
		}
		cl.MarkCommitRecords(printed...)
		if f.max > 0 && n >= f.max {
			return nil
		}
	}
	return nil
}

// commitMax is how long the command may take to end for a commit.
const commitMax = 5 * time.Second

// commit commits what was printed, however the command ends. By itself the client commits now and
// then, and nothing of its last poll.
func (f *consumeFlags) commit(cl *kgo.Client) error {
	if f.group == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), commitMax)
	defer cancel()
	if err := cl.CommitMarkedOffsets(ctx); err != nil {
		return fmt.Errorf("committing what was printed: %w", err)
	}
	return nil
}

// check finds out whether what is to be read is there: the client would wait for it without a word.
func (f *consumeFlags) check(ctx context.Context, cl *kgo.Client, topic string) error {
	topics, err := kadm.NewClient(cl).ListTopicsWithInternal(ctx, topic)
	if err != nil {
		return err
	}
	if err := topics.Error(); err != nil {
		return fmt.Errorf("%s: %w", topic, err)
	}
	for _, p := range f.partitions {
		if _, ok := topics[topic].Partitions[p]; !ok {
			return fmt.Errorf("there is no partition %s-%d", topic, p)
		}
	}
	return nil
}

// logEnds is where each partition ended when the command began, and whether it was reached.
type logEnds map[int32]int64

func (f *consumeFlags) ends(ctx context.Context, cl *kgo.Client, topic string) (logEnds, error) {
	if !f.exitAtEnd {
		return nil, nil
	}
	a := kadm.NewClient(cl)
	start, err1 := a.ListStartOffsets(ctx, topic)
	end, err2 := a.ListEndOffsets(ctx, topic)
	var committed kadm.OffsetResponses
	var err3 error
	if f.group != "" {
		committed, err3 = a.FetchOffsets(ctx, f.group)
	}
	if err := errors.Join(err1, err2, end.Error(), err3); err != nil {
		return nil, err
	}
	out := make(logEnds)
	end.Each(func(o kadm.ListedOffset) {
		if len(f.partitions) > 0 && !contains(f.partitions, o.Partition) {
			return
		}
		s, _ := start.Lookup(topic, o.Partition)
		from := f.begins(s.Offset, o.Offset)
		if at, ok := committed.Lookup(topic, o.Partition); ok && at.At >= 0 {
			from = max(s.Offset, at.At)
		}
		if from < o.Offset {
			out[o.Partition] = o.Offset
		}
	})
	return out, nil
}

// begins is the offset that --offset means in a log from start to end.
func (f *consumeFlags) begins(start, end int64) int64 {
	n, err := strconv.ParseInt(f.offset, 10, 64)
	switch {
	case f.fromBeginning || err != nil && f.offset != "end":
		return start
	case err != nil:
		return end
	case strings.HasPrefix(f.offset, "-"):
		return max(start, end+n)
	}
	return max(start, n)
}

// past notes how far a partition was read, and reports a record beyond the noted end.
func (e logEnds) past(r *kgo.Record) bool {
	end, open := e[r.Partition]
	if !open || r.Offset >= end {
		delete(e, r.Partition)
		return true
	}
	if r.Offset == end-1 {
		delete(e, r.Partition)
	}
	return false
}

func (e logEnds) reached() bool { return len(e) == 0 }

func contains(list []int32, v int32) bool {
	for _, e := range list {
		if e == v {
			return true
		}
	}
	return false
}

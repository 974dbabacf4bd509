// Command sarama is the interop client on IBM/sarama.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"

	"seedlog-interop/gen"
)

const limit = 2 * time.Minute

func main() {
	a := gen.Parse()
	if a.Verb == "write" {
		for k, codec := range a.Codecs {
			gen.Fatal(write(a, k, codec))
		}
	} else {
		gen.Fatal(read(a))
	}
	gen.Report("github.com/IBM/sarama", a.N)
}

func config() *sarama.Config {
	c := sarama.NewConfig()
	c.Version = sarama.MaxVersion
	return c
}

func codecOf(name string) sarama.CompressionCodec {
	return map[string]sarama.CompressionCodec{"gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
		"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD}[name]
}

// encoder keeps the difference between null and empty, which sarama's own encoders do too.
func encoder(b []byte) sarama.Encoder {
	if b == nil {
		return nil
	}
	return sarama.ByteEncoder(b)
}

func write(a gen.Args, k int, codec string) error {
	c := config()
	c.Producer.Compression = codecOf(codec)
	c.Producer.Idempotent = true
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Producer.Return.Successes = true
	c.Net.MaxOpenRequests = 1
	p, err := sarama.NewAsyncProducer([]string{a.Broker}, c)
	if err != nil {
		return err
	}
	from, to := a.Run(k)
	go func() {
		for i := from; i < to; i++ {
			r := gen.Make(i, a.Seed, "full")
			m := &sarama.ProducerMessage{Topic: a.Topic, Key: encoder(r.Key), Value: encoder(r.Value), Timestamp: time.UnixMilli(r.Timestamp)}
			for _, h := range r.Headers {
				m.Headers = append(m.Headers, sarama.RecordHeader{Key: []byte(h.Key), Value: h.Value})
			}
			p.Input() <- m
		}
	}()
	late := time.After(limit)
	for done := from; done < to; done++ {
		select {
		case <-p.Successes():
		case err := <-p.Errors():
			return err
		case <-late:
			return fmt.Errorf("%d of %d acknowledged in time", done-from, to-from)
		}
	}
	return p.Close()
}

type handler struct {
	got  chan *sarama.ConsumerMessage
	done context.Context
}

func (handler) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (h handler) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case m, ok := <-claim.Messages():
			if !ok {
				return nil
			}
			s.MarkMessage(m, "")
			h.got <- m
		case <-h.done.Done():
			s.Commit()
			return nil
		}
	}
}

func read(a gen.Args) error {
	c := config()
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Offsets.AutoCommit.Enable = false
	g, err := sarama.NewConsumerGroup([]string{a.Broker}, a.Group, c)
	if err != nil {
		return err
	}
	ctx, finish := context.WithCancel(context.Background())
	h := handler{make(chan *sarama.ConsumerMessage, 100), ctx}
	ended := make(chan error, 1)
	go func() { ended <- g.Consume(ctx, []string{a.Topic}, h) }()
	if err := collect(a, h.got, ended); err != nil {
		finish()
		return err
	}
	finish()
	return errors.Join(<-ended, g.Close())
}

func collect(a gen.Args, got chan *sarama.ConsumerMessage, ended chan error) error {
	check := gen.NewChecker(a.N, a.Seed, a.Profile)
	late := time.After(limit)
	for !check.Done() {
		select {
		case m := <-got:
			g := gen.Got{Partition: int(m.Partition), Offset: m.Offset}
			g.Key, g.Value, g.Timestamp = m.Key, m.Value, m.Timestamp.UnixMilli()
			for _, h := range m.Headers {
				g.Headers = append(g.Headers, gen.Header{Key: string(h.Key), Value: h.Value})
			}
			if err := check.Add(g); err != nil {
				return err
			}
		case err := <-ended:
			return fmt.Errorf("the session ended after %d records: %w", check.Count, err)
		case <-late:
			return fmt.Errorf("%d of %d records in time", check.Count, a.N)
		}
	}
	return nil
}

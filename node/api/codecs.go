package api

import (
	"errors"
	"fmt"
	"slices"

	"seedlog/clock/task"
	"seedlog/node/config"
	"seedlog/storage/record"
)

// codecs are the compressors and decompressors, which are dear to make.
type codecs struct {
	mu       task.Mutex
	decoders record.Decoders
	encoders []*record.Compressor
}

func (c *codecs) init(rt task.Runtime) {
	c.mu.Init(rt, "api.codecs")
	c.decoders.WindowMaxBytes = record.SmallWindowBytes
}

// decoder returns a decompressor with at least the window.
func (c *codecs) decoder(windowMaxBytes int) *record.Decompressor {
	if windowMaxBytes > record.SmallWindowBytes {
		return &record.Decompressor{WindowMaxBytes: windowMaxBytes}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.decoders.Get()
}

func (c *codecs) putDecoder(d *record.Decompressor) {
	if d == nil || d.WindowMaxBytes > record.SmallWindowBytes {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.decoders.Put(d)
}

func (c *codecs) encoder() *record.Compressor {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.encoders)
	if n == 0 {
		return new(record.Compressor)
	}
	e := c.encoders[n-1]
	c.encoders = slices.Delete(c.encoders, n-1, n)
	return e
}

func (c *codecs) putEncoder(e *record.Compressor) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.encoders) < 4 {
		c.encoders = append(c.encoders, e)
	}
}

// admit validates a batch and makes it what the topic stores: with the largest timestamp
// right, and in the topic's codec. What inflating takes is reserved like the memory of
// requests, or a thousand clients could have a window each at the same time.
func (s *Service) admit(t *task.T, batch []byte, limits record.Limits, settings *config.Topic) ([]byte, record.Info, error) {
	info, err := s.validate(t, batch, limits)
	if err != nil {
		return nil, info, err
	}
	if limits.TimestampType == record.CreateTime {
		record.SetMaxTimestamp(batch, info.MaxTimestamp)
	}
	want := topicCodec(settings, info.Header.Codec())
	if want == info.Header.Codec() {
		return batch, info, nil
	}
	batch, err = s.recompress(t, batch, want, info.InflatedBytes, settings)
	return batch, info, err
}

func (s *Service) validate(t *task.T, batch []byte, limits record.Limits) (record.Info, error) {
	needs, window := record.InflateNeeds(batch)
	if needs == 0 {
		return record.ValidateProduce(batch, limits, nil)
	}
	if err := s.budget.reserve(t, needs); err != nil {
		return record.Info{}, err
	}
	d := s.codecs.decoder(window)
	info, err := record.ValidateProduce(batch, limits, d)
	s.codecs.putDecoder(d)
	s.budget.release(needs)
	return info, err
}

// recompress holds all records of the batch inflated, and may make about as much of them
// again: a batch that is too large for that is refused.
func (s *Service) recompress(t *task.T, batch []byte, codec record.Codec, inflated int64, settings *config.Topic) ([]byte, error) {
	needs, window := record.InflateNeeds(batch)
	held := needs + 2*inflated
	if codec == record.None {
		held = needs + 2*min(inflated, int64(settings.MaxMessageBytes)) // what comes out may not be larger
	}
	if err := s.budget.reserve(t, held); errors.Is(err, errOverBudget) {
		return nil, fmt.Errorf("%w: inflates to %d bytes, which is too much to be compressed as %v", record.ErrTooLarge, inflated, codec)
	} else if err != nil {
		return nil, err
	}
	d, e := s.codecs.decoder(window), s.codecs.encoder()
	out, err := record.Recompress(nil, batch, codec, settings.CompressionLevel, d, e, inflated, settings.MaxMessageBytes)
	s.codecs.putEncoder(e)
	s.codecs.putDecoder(d)
	s.budget.release(held)
	return out, err
}

// topicCodec is the codec that a topic stores batches in, which came in the producer's.
func topicCodec(settings *config.Topic, producers record.Codec) record.Codec {
	switch settings.CompressionType {
	case "producer":
		return producers
	case "uncompressed":
		return record.None
	}
	codec, err := record.ParseCodec(settings.CompressionType)
	if err != nil {
		return producers
	}
	return codec
}

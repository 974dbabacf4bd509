package api

import (
	"slices"

	"seedlog/clock/task"
	"seedlog/node/config"
	"seedlog/storage/record"
)

// freeMax bounds how many unused objects a list keeps.
const freeMax = 64

// keepParts is the most partitions that a request may have had whose memory is kept.
const keepParts = 1024

// free is a list of objects that are used again.
type free[V any] struct {
	mu   task.Mutex
	list []*V
}

func (f *free[V]) init(rt task.Runtime, class string) { f.mu.Init(rt, class) }

func (f *free[V]) get() *V {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.list)
	if n == 0 {
		return new(V)
	}
	v := f.list[n-1]
	f.list[n-1] = nil
	f.list = f.list[:n-1]
	return v
}

func (f *free[V]) put(v *V) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.list) < freeMax {
		f.list = append(f.list, v)
	}
}

// codecs are the compressors and decompressors, which are dear to make.
type codecs struct {
	mu       task.Mutex
	decoders record.Decoders
	encoders []*record.Compressor
}

func (c *codecs) init(rt task.Runtime) { c.mu.Init(rt, "api.codecs") }

// decoder returns a decompressor for the batch, or nil if it needs none.
func (c *codecs) decoder(batch []byte) *record.Decompressor {
	h, err := record.ParseHeader(batch)
	if err != nil || h.Codec() == record.None {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.decoders.Get()
}

func (c *codecs) putDecoder(d *record.Decompressor) {
	if d == nil {
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
// right, and in the topic's codec.
func (c *codecs) admit(batch []byte, limits record.Limits, settings *config.Topic) ([]byte, record.Info, error) {
	d := c.decoder(batch)
	defer c.putDecoder(d)
	info, err := record.ValidateProduce(batch, limits, d)
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
	if d == nil {
		d = new(record.Decompressor)
	}
	e := c.encoder()
	defer c.putEncoder(e)
	batch, err = record.Recompress(nil, batch, want, settings.CompressionLevel, d, e, inflatedMaxBytes, settings.MaxMessageBytes)
	return batch, info, err
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

package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/storage/record"
)

// The versions that the raw client speaks: the last ones with topic names.
const (
	benchProduceVersion = 12
	benchFetchVersion   = 12
)

// benchConn is a connection of a client that does as little as it can: frames are built
// before the clock starts, and replies are compared with the first one, not decoded.
type benchConn struct {
	nc   *net.TCPConn
	r    *bufio.Reader
	form *kmsg.RequestFormatter
	next int32 // correlation id
	buf  []byte
}

func newBenchConn(nc *net.TCPConn) *benchConn {
	return &benchConn{nc: nc, r: bufio.NewReaderSize(nc, 64<<10), form: kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench"))}
}

func (c *benchConn) close() { c.nc.Close() }

// readFrame reads the next reply; it is valid until the next call.
func (c *benchConn) readFrame() ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(c.r, size[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(size[:]))
	if cap(c.buf) < n {
		c.buf = make([]byte, n)
	}
	c.buf = c.buf[:n]
	_, err := io.ReadFull(c.r, c.buf)
	return c.buf, err
}

// ask sends a request and decodes the reply.
func (c *benchConn) ask(req kmsg.Request) (kmsg.Response, error) {
	c.next++
	if _, err := c.nc.Write(c.form.AppendRequest(nil, req, c.next)); err != nil {
		return nil, err
	}
	b, err := c.readFrame()
	if err != nil {
		return nil, err
	}
	resp := req.ResponseKind()
	return resp, resp.ReadFrom(b[replyHeader(req):])
}

// replyHeader is the size of the header of the reply to req.
func replyHeader(req kmsg.Request) int {
	if req.IsFlexible() && req.Key() != int16(kmsg.ApiVersions) {
		return 5
	}
	return 4
}

// createTopic makes a topic of one partition.
func (c *benchConn) createTopic(name string, settings ...[2]string) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, 10_000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, 1, 1
	for _, s := range settings {
		cfg := kmsg.NewCreateTopicsRequestTopicConfig()
		cfg.Name, cfg.Value = s[0], &s[1]
		t.Configs = append(t.Configs, cfg)
	}
	req.Topics = append(req.Topics, t)
	resp, err := c.ask(req)
	if err != nil {
		return err
	}
	answer := resp.(*kmsg.CreateTopicsResponse).Topics[0]
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
		if answer.ErrorMessage != nil {
			err = fmt.Errorf("%w: %s", err, *answer.ErrorMessage)
		}
		return fmt.Errorf("topic %s: %w", name, err)
	}
	return nil
}

// deleteTopic deletes a topic.
func (c *benchConn) deleteTopic(name string) error {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TimeoutMillis, req.TopicNames = 4, 10_000, []string{name}
	resp, err := c.ask(req)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode)
}

// benchBatch is a batch of records with values of valueBytes: of one, or of as many as fit
// into size.
func benchBatch(size, valueBytes int) (batch []byte, records int, err error) {
	value := make([]byte, valueBytes)
	x := uint32(1)
	for i := range value {
		x = x*1664525 + 1013904223
		value[i] = byte(x >> 24)
	}
	now := time.Now().UnixMilli()
	b := record.NewBuilder(record.NewOptions(0), nil)
	b.Append(record.Record{Timestamp: now, Value: value})
	most := b.EstimatedSize() - record.HeaderSize + 4 // later offsets are longer
	for b.EstimatedSize()+most <= size {
		b.Append(record.Record{Timestamp: now, Value: value})
	}
	batch, err = b.Build(nil)
	return batch, b.Count(), err
}

// produceFrame is the request, ready to send again and again.
func (c *benchConn) produceFrame(topic string, acks int16, batch []byte) []byte {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = benchProduceVersion, acks, 30_000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = batch
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return c.form.AppendRequest(nil, req, 0)
}

// produceReply checks replies to a produceFrame without decoding them.
type produceReply struct{ codeAt, size int }

func newProduceReply(topic string) produceReply {
	// correlation id, tags, one topic of that name, one partition with its index
	at := 4 + 1 + 1 + 1 + len(topic) + 1 + 4
	return produceReply{codeAt: at}
}

// check returns the base offset of the batch.
func (p *produceReply) check(b []byte) (int64, error) {
	if len(b) < p.codeAt+10 {
		return 0, fmt.Errorf("reply of %d bytes", len(b))
	}
	if code := int16(binary.BigEndian.Uint16(b[p.codeAt:])); code != 0 {
		return 0, kerr.ErrorForCode(code)
	}
	if p.size != 0 && len(b) != p.size {
		return 0, fmt.Errorf("reply of %d bytes", len(b))
	}
	p.size = len(b)
	return int64(binary.BigEndian.Uint64(b[p.codeAt+2:])), nil
}

// produce sends the frame n times with so many in flight, and checks that offsets ascend by
// the number of records.
func (c *benchConn) produce(topic string, frame []byte, n, records, inFlight int) error {
	slots := make(chan struct{}, inFlight)
	gone := make(chan struct{})
	sent := make(chan error, 1)
	go func() {
		for range n {
			select {
			case slots <- struct{}{}:
			case <-gone:
				sent <- nil
				return
			}
			if _, err := c.nc.Write(frame); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	err := c.produced(topic, n, records, slots)
	close(gone)
	if err != nil {
		c.close()
	}
	return errors.Join(err, <-sent)
}

// produced reads n replies.
func (c *benchConn) produced(topic string, n, records int, slots <-chan struct{}) error {
	reply := newProduceReply(topic)
	next := int64(-1)
	for i := range n {
		b, err := c.readFrame()
		if err != nil {
			return fmt.Errorf("reply %d of %d: %w", i, n, err)
		}
		base, err := reply.check(b)
		if err != nil {
			return fmt.Errorf("produce %d of %d: %w", i, n, err)
		}
		if next >= 0 && base != next {
			return fmt.Errorf("produce %d got offset %d, not %d", i, base, next)
		}
		next = base + int64(records)
		<-slots
	}
	return nil
}

// oneByOne sends the next frame when the reply to the last one is there.
func (c *benchConn) oneByOne(topic string, frame []byte, n int) error {
	reply := newProduceReply(topic)
	last := int64(-1)
	for range n {
		if _, err := c.nc.Write(frame); err != nil {
			return err
		}
		b, err := c.readFrame()
		if err != nil {
			return err
		}
		base, err := reply.check(b)
		if err != nil {
			return err
		}
		if base <= last {
			return fmt.Errorf("offset %d after %d", base, last)
		}
		last = base
	}
	return nil
}

// fetchFrame is a request for one partition, with the place of its offset.
func (c *benchConn) fetchFrame(topic string, maxBytes int32) (frame []byte, offsetAt int) {
	build := func(offset int64) []byte {
		req := kmsg.NewPtrFetchRequest()
		req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = benchFetchVersion, 500, 1, maxBytes
		req.SessionEpoch = -1
		t := kmsg.NewFetchRequestTopic()
		t.Topic = topic
		p := kmsg.NewFetchRequestTopicPartition()
		p.FetchOffset, p.PartitionMaxBytes = offset, maxBytes
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		return c.form.AppendRequest(nil, req, 0)
	}
	frame = build(0)
	for at, b := range build(0x0101010101010101) {
		if b != frame[at] {
			return frame, at
		}
	}
	panic("the fetch offset is not in the frame")
}

// fetch reads n pieces of pieceBytes, which have so many records each, from the beginning of
// the partition, with requests in flight. Contents are read and dropped.
func (c *benchConn) fetch(topic string, n, pieceBytes, records, inFlight int) error {
	frame, at := c.fetchFrame(topic, int32(pieceBytes))
	next := 0
	ask := func() error {
		if next == n {
			return nil
		}
		binary.BigEndian.PutUint64(frame[at:], uint64(next)*uint64(records))
		next++
		_, err := c.nc.Write(frame)
		return err
	}
	for range inFlight {
		if err := ask(); err != nil {
			return err
		}
	}
	for i := range n {
		b, err := c.readFrame()
		if err != nil {
			return fmt.Errorf("reply %d of %d: %w", i, n, err)
		}
		if err := checkFetched(topic, b, pieceBytes, int64(i)*int64(records)); err != nil {
			return fmt.Errorf("fetch %d of %d: %w", i, n, err)
		}
		if err := ask(); err != nil {
			return err
		}
	}
	return nil
}

// checkFetched looks at the error, the number of bytes and the first batch's offset.
func checkFetched(topic string, b []byte, pieceBytes int, offset int64) error {
	// correlation id, tags, throttle, error, session, one topic, one partition with its index
	codeAt := 4 + 1 + 4 + 2 + 4 + 1 + 1 + len(topic) + 1 + 4
	// error, high watermark, last stable offset, log start, no aborted list, preferred replica
	lengthAt := codeAt + 2 + 8 + 8 + 8 + 1 + 4
	if len(b) < lengthAt+8 {
		return fmt.Errorf("reply of %d bytes", len(b))
	}
	if code := int16(binary.BigEndian.Uint16(b[codeAt:])); code != 0 {
		return kerr.ErrorForCode(code)
	}
	size, n := binary.Uvarint(b[lengthAt:])
	if int(size)-1 != pieceBytes {
		return fmt.Errorf("%d bytes, not %d", int(size)-1, pieceBytes)
	}
	if first := int64(binary.BigEndian.Uint64(b[lengthAt+n:])); first != offset {
		return fmt.Errorf("a batch of offset %d, not %d", first, offset)
	}
	return nil
}

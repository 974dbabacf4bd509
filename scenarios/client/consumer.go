package client

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/checker/history"
	"seedlog/checker/logfile"
	"seedlog/clock/task"
)

// Consumer reads partitions by itself, without a group, with fetch sessions from version 7
// on, long polls, drawn limits and now and then a seek.
type Consumer struct {
	Env
	Topics   []*Topic
	Version  int16
	MaxWait  time.Duration
	MinBytes int32
	MaxBytes int32 // of a partition
	SeekOdds int   // one poll in n begins somewhere else; 0 for never
	Polls    int   // budget
	Think    time.Duration
	// ToEnd makes a final reader: it begins at the log start and ends when every partition
	// was read to its high watermark, and to its end in Ends, by number of the log.
	ToEnd bool
	Ends  map[int]int64

	conn      *Conn
	sessionID int32
	epoch     int32
	positions []*position
	// asked is what the session at the broker has for each partition.
	invoked history.Stamp
}

type position struct {
	topic  *Topic
	index  int32
	log    int
	next   int64
	seek   bool
	sent   int64 // the offset the session knows, -1 for none
	unset  bool  // next has to be asked for
	atEnd  bool
	inFrom int64 // offset of the request that is out
	inAsk  bool  // it is part of the request that is out, or of its session
	told   int64 // the high watermark that the session told last, -1 for none
}

// Run polls until the budget is spent, or, for a final reader, until all is read.
func (c *Consumer) Run(t *task.T) {
	for _, topic := range c.Topics {
		for i := range topic.Partitions {
			c.positions = append(c.positions, &position{topic: topic, index: i, log: c.partition(topic, i), sent: -1, told: -1, unset: true})
		}
	}
	for !t.Stopping() && !c.done() {
		if c.conn == nil {
			if c.conn = c.dial(t); c.conn == nil {
				continue
			}
			c.forget()
		}
		if err := c.poll(t); err != nil {
			c.conn.Close()
			c.conn = nil
			c.pause(t)
		}
	}
	if c.conn != nil {
		c.conn.Close()
	}
}

func (c *Consumer) done() bool {
	if !c.ToEnd {
		return c.Polls <= 0 || c.Enough()
	}
	for _, p := range c.positions {
		if !p.atEnd && !(c.GiveUp != nil && c.GiveUp(p.log)) {
			return false
		}
	}
	return true
}

// forget begins a new session.
func (c *Consumer) forget() {
	c.sessionID, c.epoch = 0, 0
	for _, p := range c.positions {
		p.sent, p.told = -1, -1
	}
}

func (c *Consumer) poll(t *task.T) error {
	c.Polls--
	c.rest(t)
	for _, p := range c.positions {
		if c.GiveUp != nil && c.GiveUp(p.log) {
			continue
		}
		if p.unset || c.SeekOdds > 0 && c.Rand.IntN(c.SeekOdds) == 0 {
			if err := c.locate(t, p); err != nil {
				return err
			}
		}
	}
	if c.Think > 0 && !c.ToEnd && c.Rand.IntN(3) == 0 {
		t.Sleep(t.Now().Add(time.Duration(c.Rand.Int64N(int64(c.Think)))))
	}
	c.invoked = c.Rec.Stamp()
	req := c.request()
	resp, err := c.conn.Call(t, req, t.Now().Add(c.MaxWait+c.RequestTimeout))
	if err != nil {
		return err
	}
	return c.take(t, resp.(*kmsg.FetchResponse))
}

// locate asks for the log's bounds and draws a position between them, or takes the start.
func (c *Consumer) locate(t *task.T, p *position) error {
	losses := c.Rec.PowerLosses()
	start, end, err := Bounds(t, &c.Env, c.conn, p.topic, p.index)
	if err != nil || start < 0 {
		p.unset = true
		return err
	}
	p.unset, p.seek = false, true
	p.next = start
	if !c.ToEnd && end > start {
		p.next = start + c.Rand.Int64N(end-start+1)
	}
	if !c.ToEnd && c.Rand.IntN(2) == 0 {
		return c.askEpochs(t, p, losses, end)
	}
	return nil
}

func (c *Consumer) request() *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version = c.Version
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32(c.MaxWait.Milliseconds()), c.MinBytes, 4*c.MaxBytes
	req.SessionEpoch = -1
	if c.Version >= 7 {
		req.SessionID, req.SessionEpoch = c.sessionID, c.epoch
	}
	incremental := c.Version >= 7 && c.sessionID != 0
	for _, p := range c.positions {
		if p.inAsk = !p.unset && !(c.GiveUp != nil && c.GiveUp(p.log)); !p.inAsk {
			continue
		}
		p.inFrom = p.next
		if incremental && p.sent == p.next {
			continue
		}
		p.sent = p.next
		part := kmsg.NewFetchRequestTopicPartition()
		part.Partition, part.FetchOffset, part.PartitionMaxBytes = p.index, p.next, c.MaxBytes
		part.CurrentLeaderEpoch, part.LogStartOffset = -1, -1
		i := 0
		for i < len(req.Topics) && req.Topics[i].TopicID != p.topic.ID {
			i++
		}
		if i == len(req.Topics) {
			topic := kmsg.NewFetchRequestTopic()
			topic.Topic, topic.TopicID = p.topic.Name, p.topic.ID
			req.Topics = append(req.Topics, topic)
		}
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, part)
	}
	return req
}

func (c *Consumer) take(t *task.T, resp *kmsg.FetchResponse) error {
	if resp.ErrorCode != 0 {
		c.forget()
		switch resp.ErrorCode {
		case kerr.FetchSessionIDNotFound.Code, kerr.InvalidFetchSessionEpoch.Code, kerr.FetchSessionTopicIDError.Code, kerr.InconsistentTopicID.Code, kerr.UnknownTopicID.Code:
		default:
			c.pause(t)
		}
		return nil
	}
	if c.Version >= 7 {
		c.sessionID = resp.SessionID
		if c.sessionID != 0 {
			c.epoch++
		} else {
			c.forget()
		}
	}
	c.nothing(resp)
	for _, topic := range resp.Topics {
		for i := range topic.Partitions {
			if p := c.find(topic.Topic, topic.TopicID, topic.Partitions[i].Partition); p != nil {
				if err := c.answer(t, p, &topic.Partitions[i]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// nothing is I29 for an answer without a single byte: no partition that it leaves out, or
// has without an error, may have something to read. The first one that has is sent whole,
// whatever the limits are: an answer with bytes has one whole batch at least.
func (c *Consumer) nothing(resp *kmsg.FetchResponse) {
	bytes, whole := 0, false
	for _, topic := range resp.Topics {
		for i := range topic.Partitions {
			r := &topic.Partitions[i]
			bytes += len(r.RecordBatches)
			if !whole && len(r.RecordBatches) > 0 {
				batches, _, _ := logfile.Scan(r.RecordBatches)
				whole = len(batches) > 0
			}
			if p := c.find(topic.Topic, topic.TopicID, r.Partition); p != nil {
				if p.told = r.HighWatermark; r.ErrorCode != 0 {
					p.told, p.inAsk = -1, false
				}
			}
		}
	}
	if bytes > 0 && !whole {
		c.Rec.Failf("I29", c.Name, "client %d got %d bytes, and not one whole batch", c.ID, bytes)
	}
	for _, p := range c.positions {
		if bytes == 0 && p.inAsk && p.told > p.inFrom {
			c.Rec.Failf("I29", PartitionName(history.Partition{Topic: p.topic.Name, Index: p.index}),
				"client %d asked for %d, was told of a high watermark of %d, and got an answer without a byte", c.ID, p.inFrom, p.told)
		}
	}
}

func (c *Consumer) find(name string, id [16]byte, index int32) *position {
	for _, p := range c.positions {
		if p.index == index && (name != "" && p.topic.Name == name || name == "" && p.topic.ID == id) {
			return p
		}
	}
	return nil
}

// answer takes one partition's part of an answer.
func (c *Consumer) answer(t *task.T, p *position, r *kmsg.FetchResponseTopicPartition) error {
	where := PartitionName(history.Partition{Topic: p.topic.Name, Index: p.index})
	switch {
	case r.ErrorCode == kerr.OffsetOutOfRange.Code:
		p.unset, p.sent = true, -1
		return c.outOfRange(t, p)
	case r.ErrorCode != 0:
		p.sent = -1
		c.pause(t)
		return nil
	}
	seen, why := Seen(r.RecordBatches, p.inFrom)
	if why != "" {
		c.Rec.Failf("I29", where, "client %d asked for %d and got bytes that are no batch: %s", c.ID, p.inFrom, why)
	}
	start := r.LogStartOffset
	if c.Version < 5 {
		start = -1
	}
	c.Rec.Poll(history.Poll{
		Client: c.ID, Partition: p.log, Invoke: c.invoked, Return: c.Rec.Stamp(), From: p.inFrom, HighWatermark: r.HighWatermark,
		LogStart: start, Records: seen, Seek: p.seek, Synced: p.topic.Synced,
	})
	p.seek = false
	if n := len(seen); n > 0 {
		p.next = seen[n-1].Offset + 1
	}
	if len(seen) > 0 && p.next > r.HighWatermark && r.HighWatermark >= 0 {
		c.Rec.Failf("I5", where, "client %d read up to %d, above the high watermark %d of the same answer", c.ID, p.next, r.HighWatermark)
	}
	if p.atEnd = p.next >= max(r.HighWatermark, c.Ends[p.log]); c.ToEnd && !p.atEnd {
		c.Rec.Note(c.ID, "%s is read up to %d, its high watermark is %d and its end %d", where, p.next, r.HighWatermark, c.Ends[p.log])
	}
	return nil
}

// Seen decodes the records of a fetch answer at or above an offset.
func Seen(b []byte, from int64) (out []history.Seen, why string) {
	batches, end, why := logfile.Scan(b)
	if why != "" && logfile.Partial(b[end:]) {
		why = ""
	}
	for i := range batches {
		if batches[i].IsControl() {
			continue
		}
		records, err := batches[i].Records()
		if err != nil {
			return out, err.Error()
		}
		for _, r := range records {
			if r.Offset >= from {
				out = append(out, history.Seen{Offset: r.Offset, Digest: Digest(r.Key, r.Value, r.Headers)})
			}
		}
	}
	return out, why
}

// outOfRange asks whether the refusal was right: the position must lie outside the bounds
// unless these moved meanwhile.
func (c *Consumer) outOfRange(t *task.T, p *position) error {
	losses := c.Rec.PowerLosses()
	start, end, err := Bounds(t, &c.Env, c.conn, p.topic, p.index)
	if err != nil || start < 0 {
		return err
	}
	if p.inFrom >= start && p.inFrom <= end && losses == 0 {
		c.Rec.Failf("I29", PartitionName(history.Partition{Topic: p.topic.Name, Index: p.index}),
			"client %d: OFFSET_OUT_OF_RANGE for %d, and the log is [%d, %d]", c.ID, p.inFrom, start, end)
	}
	return nil
}

// Bounds asks for a partition's log start and high watermark; start is -1 if it is not
// available now.
func Bounds(t *task.T, e *Env, conn *Conn, topic *Topic, index int32) (start, end int64, err error) {
	if start, err = ListOffset(t, e, conn, topic, index, -2); err != nil || start < 0 {
		return -1, -1, err
	}
	end, err = ListOffset(t, e, conn, topic, index, -1)
	if end < 0 {
		start = -1
	}
	return start, end, err
}

// ListOffset asks for one offset by time, or by -2 (earliest), -1 (latest), -3 (largest
// timestamp), -4 (log start). It returns -1 for none or a passing error.
func ListOffset(t *task.T, e *Env, conn *Conn, topic *Topic, index int32, when int64) (int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version = int16(1 + e.Rand.IntN(9))
	if when == -3 {
		req.Version = max(req.Version, 7)
	}
	if when == -4 {
		req.Version = max(req.Version, 8)
	}
	req.ReplicaID = -1
	part := kmsg.NewListOffsetsRequestTopicPartition()
	part.Partition, part.Timestamp, part.CurrentLeaderEpoch = index, when, -1
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic.Name
	rt.Partitions = append(rt.Partitions, part)
	req.Topics = append(req.Topics, rt)
	resp, err := conn.Call(t, req, e.deadline(t))
	if err != nil {
		return -1, err
	}
	r := resp.(*kmsg.ListOffsetsResponse)
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		e.Rec.Failf("I30", topic.Name, "ListOffsets answered %d topics", len(r.Topics))
		return -1, nil
	}
	p := r.Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		return -1, nil
	}
	return p.Offset, nil
}

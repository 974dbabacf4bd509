package client

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/checker/history"
	"seedlog/checker/logfile"
	"seedlog/clock"
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

	sources   []*source
	positions []*position
	invoked   history.Stamp
}

// noEpoch is no leader epoch; a lone broker's is -1.
const noEpoch = -2

type position struct {
	topic  *Topic
	index  int32
	log    int
	next   int64
	seek   bool
	sent   int64 // the offset the session knows, -1 for none
	unset  bool  // next has to be asked for
	read   bool  // an answer has come
	high   int64 // the high watermark of the last one
	inFrom int64 // offset of the request that is out
	inAsk  bool  // it is part of the request that is out, or of its session
	told   int64 // the high watermark that the session told last, -1 for none

	from *source // whose session has it, or nil
	// epoch is the leader epoch that was sent with the offset; lastEpoch that of the last batch
	// that was read, -1 for none; checked is the leader epoch that its end was compared in.
	epoch, lastEpoch, checked int32
	// ledIn is the epoch in which the broker that is asked leads, as far as the client knows,
	// noEpoch if it knows of none: asked in another one it answers as a follower, which may lag
	// behind.
	ledIn int32
	// nearer is the replica that the leader sent the client to, "" for none, until then.
	nearer     string
	nearerTill clock.Instant
}

// Run polls until the budget is spent, or, for a final reader, until all is read.
func (c *Consumer) Run(t *task.T) {
	for _, topic := range c.Topics {
		for i := range topic.Partitions {
			c.positions = append(c.positions, &position{topic: topic, index: i, log: c.partition(topic, i), sent: -1, told: -1, unset: true, epoch: -1, lastEpoch: -1, checked: -1})
		}
	}
	for !t.Stopping() && !c.done() {
		src := c.choose(t)
		if src == nil {
			continue
		}
		if src.conn == nil {
			if src.conn = c.connect(t, src.addr); src.conn == nil {
				c.strange(src)
				continue
			}
			c.forget(src)
		}
		if err := c.poll(t, src); err != nil {
			src.conn.Close()
			src.conn = nil
			c.Outdated()
			c.strange(src)
			c.pause(t)
		}
	}
	for _, src := range c.sources {
		if src.conn != nil {
			src.conn.Close()
		}
	}
	c.closeRoutes()
}

func (c *Consumer) done() bool {
	if !c.ToEnd {
		return c.Polls <= 0 || c.Enough()
	}
	for _, p := range c.positions {
		if !c.atEnd(p) && !(c.GiveUp != nil && c.GiveUp(p.log)) {
			return false
		}
	}
	return true
}

// forget begins a new session.
func (c *Consumer) forget(src *source) {
	src.sessionID, src.epoch, src.left = 0, 0, nil
	for _, p := range src.mine(c) {
		p.sent, p.told = -1, -1
	}
}

func (c *Consumer) poll(t *task.T, src *source) error {
	c.Polls--
	c.rest(t)
	for _, p := range src.mine(c) {
		if c.GiveUp != nil && c.GiveUp(p.log) {
			continue
		}
		if p.unset || c.SeekOdds > 0 && c.Rand.IntN(c.SeekOdds) == 0 {
			if !c.leads(src, p) {
				continue // the leader knows the bounds
			}
			if err := c.locate(t, src, p); err != nil {
				return err
			}
		}
		if err := c.validate(t, src, p); err != nil {
			return err
		}
	}
	if c.Think > 0 && !c.ToEnd && c.Rand.IntN(3) == 0 {
		t.Sleep(t.Now().Add(time.Duration(c.Rand.Int64N(int64(c.Think)))))
	}
	c.invoked = c.Rec.Stamp()
	req := c.request(src)
	resp, err := src.conn.Call(t, req, t.Now().Add(c.MaxWait+c.RequestTimeout))
	if err != nil {
		return err
	}
	return c.take(t, src, resp.(*kmsg.FetchResponse))
}

// locate asks for the log's bounds and draws a position between them, or takes the start.
func (c *Consumer) locate(t *task.T, src *source, p *position) error {
	losses := c.Rec.PowerLosses()
	start, end, err := Bounds(t, &c.Env, src.conn, p.topic, p.index)
	if err != nil || start < 0 {
		p.unset = true
		if err == nil {
			c.Outdated()
		}
		return err
	}
	p.unset, p.seek, p.lastEpoch = false, true, -1
	p.next = start
	if !c.ToEnd && end > start {
		p.next = start + c.Rand.Int64N(end-start+1)
	}
	if !c.ToEnd && c.Rand.IntN(2) == 0 {
		return c.askEpochs(t, src, p, losses, end)
	}
	return nil
}

func (c *Consumer) request(src *source) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version = c.Version
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32(c.MaxWait.Milliseconds()), c.MinBytes, 4*c.MaxBytes
	req.SessionEpoch = -1
	if c.Version >= 7 {
		req.SessionID, req.SessionEpoch = src.sessionID, src.epoch
	}
	if c.Routes != nil && c.Version >= 11 {
		req.Rack = c.Routes.Rack
	}
	incremental := c.Version >= 7 && src.sessionID != 0
	if incremental {
		src.leave(req)
	}
	for _, p := range src.mine(c) {
		if p.inAsk = !p.unset && !(c.GiveUp != nil && c.GiveUp(p.log)); !p.inAsk {
			continue
		}
		p.inFrom = p.next
		leader, epoch := c.Leader(p.topic, p.index)
		if incremental && p.sent == p.next && p.epoch == epoch {
			continue
		}
		if p.sent, p.epoch = p.next, epoch; leader == src.addr {
			p.ledIn = epoch
		}
		part := kmsg.NewFetchRequestTopicPartition()
		part.Partition, part.FetchOffset, part.PartitionMaxBytes = p.index, p.next, c.MaxBytes
		part.CurrentLeaderEpoch, part.LogStartOffset = epoch, -1
		if c.Routes != nil {
			part.LastFetchedEpoch = p.lastEpoch
		}
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

func (c *Consumer) take(t *task.T, src *source, resp *kmsg.FetchResponse) error {
	if resp.ErrorCode != 0 {
		c.forget(src)
		switch resp.ErrorCode {
		case kerr.FetchSessionIDNotFound.Code, kerr.InvalidFetchSessionEpoch.Code, kerr.FetchSessionTopicIDError.Code, kerr.InconsistentTopicID.Code, kerr.UnknownTopicID.Code:
		default:
			c.pause(t)
		}
		return nil
	}
	if c.Version >= 7 {
		src.sessionID = resp.SessionID
		if src.sessionID != 0 {
			src.epoch++
		} else {
			c.forget(src)
		}
	}
	c.nothing(src, resp)
	for _, topic := range resp.Topics {
		for i := range topic.Partitions {
			if p := c.find(topic.Topic, topic.TopicID, topic.Partitions[i].Partition); p != nil && p.from == src && !p.unset {
				// An unset one was not asked for: the session still had it from the request before.
				if err := c.answer(t, src, p, &topic.Partitions[i]); err != nil {
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
func (c *Consumer) nothing(src *source, resp *kmsg.FetchResponse) {
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
				if p.told = r.HighWatermark; r.ErrorCode != 0 || r.PreferredReadReplica >= 0 || r.DivergingEpoch.EndOffset >= 0 {
					p.told, p.inAsk = -1, false
				}
			}
		}
	}
	if bytes > 0 && !whole {
		c.Rec.Failf("I29", c.Name, "client %d got %d bytes, and not one whole batch", c.ID, bytes)
	}
	for _, p := range src.mine(c) {
		if bytes == 0 && p.inAsk && p.told > p.inFrom {
			c.dry(p)
		}
	}
}

// dry is an answer without a byte though the high watermark lies above what was asked for.
// Where copies were lost lawfully and written anew, a high watermark of before may lie within a
// batch of now: nothing of that is sent until it has moved on.
func (c *Consumer) dry(p *position) {
	const format = "client %d asked for %d, was told of a high watermark of %d, and got an answer without a byte"
	if c.Routes != nil {
		c.Rec.Unless(p.log, p.told, "I29", format, c.ID, p.inFrom, p.told)
		return
	}
	c.Rec.Failf("I29", PartitionName(history.Partition{Topic: p.topic.Name, Index: p.index}), format, c.ID, p.inFrom, p.told)
}

func (c *Consumer) find(name string, id [16]byte, index int32) *position {
	for _, p := range c.positions {
		if p.index == index && (name != "" && p.topic.Name == name || name == "" && p.topic.ID == id) {
			return p
		}
	}
	return nil
}

// atEnd: all is read, by what the last answer said and where the log ends by now.
func (c *Consumer) atEnd(p *position) bool { return p.read && p.next >= max(p.high, c.Ends[p.log]) }

// answer takes one partition's part of an answer.
func (c *Consumer) answer(t *task.T, src *source, p *position, r *kmsg.FetchResponseTopicPartition) error {
	where := PartitionName(history.Partition{Topic: p.topic.Name, Index: p.index})
	switch {
	case r.ErrorCode == kerr.OffsetOutOfRange.Code && p.nearer != "":
		p.nearer, p.sent = "", -1 // the replica may lag behind: the leader knows
		return nil
	case r.ErrorCode == kerr.OffsetOutOfRange.Code:
		p.unset, p.sent = true, -1
		return c.outOfRange(t, src, p)
	case r.ErrorCode != 0:
		p.sent, p.nearer = -1, ""
		c.Rec.Note(c.ID, "%s for offset %d of %s", name(r.ErrorCode), p.inFrom, where)
		c.refused(p, r)
		c.pause(t)
		return nil
	case c.Routes != nil && r.DivergingEpoch.EndOffset >= 0:
		c.truncated(p, r.DivergingEpoch.EndOffset)
		return nil
	case c.Routes != nil && c.Version >= 11 && r.PreferredReadReplica >= 0:
		c.sent(t, p, r.PreferredReadReplica)
		return nil
	}
	seen, epoch, why := seenFrom(r.RecordBatches, p.inFrom)
	if why != "" {
		c.Rec.Failf("I29", where, "client %d asked for %d and got bytes that are no batch: %s", c.ID, p.inFrom, why)
	}
	start := r.LogStartOffset
	if c.Version < 5 {
		start = -1
	}
	c.Rec.Poll(history.Poll{
		Client: c.ID, Partition: p.log, Invoke: c.invoked, Return: c.Rec.Stamp(), From: p.inFrom, HighWatermark: r.HighWatermark,
		LogStart: start, Records: seen, Seek: p.seek, Synced: p.topic.Synced, LeaderEpoch: c.epochOf(p), Follower: p.ledIn != p.epoch, Node: src.addr,
	})
	p.seek = false
	if n := len(seen); n > 0 {
		p.next, p.lastEpoch = seen[n-1].Offset+1, epoch
	}
	if len(seen) > 0 && p.next > r.HighWatermark && r.HighWatermark >= 0 {
		c.Rec.Failf("I5", where, "client %d read up to %d, above the high watermark %d of the same answer", c.ID, p.next, r.HighWatermark)
	}
	if p.read, p.high = true, r.HighWatermark; c.ToEnd && !c.atEnd(p) {
		c.Rec.Note(c.ID, "%s is read up to %d, its high watermark is %d and its end %d", where, p.next, r.HighWatermark, c.Ends[p.log])
	}
	return nil
}

// Seen decodes the records of a fetch answer at or above an offset.
func Seen(b []byte, from int64) (out []history.Seen, why string) {
	out, _, why = seenFrom(b, from)
	return out, why
}

// seenFrom also tells the leader epoch of the last batch.
func seenFrom(b []byte, from int64) (out []history.Seen, epoch int32, why string) {
	epoch = -1
	batches, end, why := logfile.Scan(b)
	if why != "" && logfile.Partial(b[end:]) {
		why = ""
	}
	for i := range batches {
		epoch = batches[i].Epoch
		if batches[i].IsControl() {
			continue
		}
		records, err := batches[i].Records()
		if err != nil {
			return out, epoch, err.Error()
		}
		for _, r := range records {
			if r.Offset >= from {
				out = append(out, history.Seen{Offset: r.Offset, Digest: Digest(r.Key, r.Value, r.Headers)})
			}
		}
	}
	return out, epoch, why
}

// outOfRange asks whether the refusal was right: the position must lie outside the bounds
// unless these moved meanwhile.
func (c *Consumer) outOfRange(t *task.T, src *source, p *position) error {
	losses := c.Rec.Losses(p.log)
	start, end, err := Bounds(t, &c.Env, src.conn, p.topic, p.index)
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
	offset, _, err := listOffset(t, e, conn, topic, index, when, 1)
	return offset, err
}

// OffsetAndEpoch is ListOffset that asks for the leader epoch of the record, too.
func OffsetAndEpoch(t *task.T, e *Env, conn *Conn, topic *Topic, index int32, when int64) (offset int64, epoch int32, err error) {
	return listOffset(t, e, conn, topic, index, when, 4)
}

func listOffset(t *task.T, e *Env, conn *Conn, topic *Topic, index int32, when int64, least int16) (offset int64, epoch int32, err error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version = max(int16(1+e.Rand.IntN(9)), least)
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
		return -1, -1, err
	}
	r := resp.(*kmsg.ListOffsetsResponse)
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		e.Rec.Failf("I30", topic.Name, "ListOffsets answered %d topics", len(r.Topics))
		return -1, -1, nil
	}
	p := r.Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		return -1, -1, nil
	}
	return p.Offset, p.LeaderEpoch, nil
}

package client

import (
	"encoding/binary"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/checker/history"
	"seedlog/checker/logfile"
	"seedlog/clock/task"
)

// Producer writes unique records to drawn partitions.
//
// An idempotent one keeps up to five batches of a partition in flight and resends what is
// not acknowledged, in order and byte for byte, over a new connection or after a bounce. A
// plain one never resends: what is not answered stays unknown.
type Producer struct {
	Env
	Topics     []*Topic
	Version    int16
	Acks       int16
	Idempotent bool
	Codec      Codec
	Budget     int // batches
	MaxRecords int // in a batch
	MaxValue   int // bytes
	Depth      int // requests in flight

	lanes   []*lane
	pid     int64
	epoch   int16
	serial  uint64
	targets []*target
}

// target is one partition of the producer.
type target struct {
	topic   *Topic
	index   int32
	log     int
	next    int32 // sequence
	batches int   // made so far
	queue   []*outgoing
	bounced bool // something came back: nothing new goes out until all in flight is answered
	lane    *lane
	// known: something was acknowledged under the present producer id. A leader takes any first
	// sequence of a producer that it does not know, so of several at once the first may be refused
	// and a later one taken: in a cluster there is one until then.
	known bool
	// leapt: that happened, to a lone broker that led again after a pause. It calls the first out of
	// order then.
	leapt bool
	// losses of the log before the producer id was given.
	losses int
	// by is the address of the broker that acknowledged the last batch.
	by string
}

// outgoing is one batch until its outcome is known.
type outgoing struct {
	to    *target
	bytes []byte
	n     int32
	sends []int
	inAir bool
	loads int // loads of producers before it was first sent
	last  int // and before it was last sent
	nth   int // of the batches to its partition
}

// Run produces until the budget is spent and every outcome is known, or the task stops.
func (p *Producer) Run(t *task.T) {
	p.pid, p.epoch = -1, -1
	for _, topic := range p.Topics {
		for i := range topic.Partitions {
			p.targets = append(p.targets, &target{topic: topic, index: i, log: p.partition(topic, i)})
		}
	}
	for !t.Stopping() && (p.Budget > 0 && !p.Enough() || p.open()) {
		l := p.choose(t)
		if l == nil || l.conn == nil && !p.connect(t, l) {
			continue
		}
		if p.Idempotent && p.pid < 0 && !p.initProducer(t, l) {
			p.lost(t, l)
			continue
		}
		if err := p.step(t, l); err != nil {
			p.lost(t, l)
		}
	}
	for _, l := range p.lanes {
		if l.conn != nil {
			l.conn.Close()
		}
	}
	p.closeRoutes()
}

// open reports whether an outcome is still to come.
func (p *Producer) open() bool {
	for _, to := range p.targets {
		if len(to.queue) > 0 && p.GiveUp != nil && p.GiveUp(to.log) {
			to.drop()
		}
		if len(to.queue) > 0 {
			return true
		}
	}
	return p.flies()
}

// drop leaves everything in the queue unknown, for ever.
func (to *target) drop() { to.queue, to.bounced, to.by = nil, false, "" }

func (p *Producer) connect(t *task.T, l *lane) bool {
	l.conn = p.Env.connect(t, l.addr)
	return l.conn != nil
}

func (p *Producer) initProducer(t *task.T, l *lane) bool {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.Version = int16(p.Rand.IntN(6))
	req.ProducerID, req.ProducerEpoch = -1, -1
	for _, to := range p.targets {
		to.losses = p.Rec.Losses(to.log)
	}
	resp, err := l.conn.Call(t, req, p.deadline(t))
	if err != nil {
		return false
	}
	r := resp.(*kmsg.InitProducerIDResponse)
	if r.ErrorCode != 0 {
		return false
	}
	p.pid, p.epoch = r.ProducerID, r.ProducerEpoch
	p.Rec.producerID(p.ID, p.pid)
	for _, to := range p.targets {
		to.next, to.known, to.leapt = 0, false, false
	}
	return true
}

// lost handles a connection that ended.
func (p *Producer) lost(t *task.T, l *lane) {
	l.conn.Close()
	l.conn = nil
	for _, request := range l.flying {
		for _, o := range request {
			o.inAir = false
		}
	}
	l.flying = nil
	p.Outdated()
	for _, to := range p.targets {
		if to.lane != nil && to.lane != l {
			continue
		}
		to.bounced = false
		if !p.Idempotent {
			to.drop()
		}
	}
	p.pause(t)
}

// step sends while there is room, then takes one answer.
func (p *Producer) step(t *task.T, l *lane) error {
	p.rest(t)
	for sent := 0; sent < p.Depth && len(l.flying) < p.Depth; sent++ { // with acks=0 nothing flies
		request := p.nextRequest(t, l)
		if len(request) == 0 {
			break
		}
		if err := p.send(t, l, request); err != nil {
			return err
		}
	}
	if len(l.flying) == 0 {
		p.pause(t)
		return nil
	}
	_, resp, err := l.conn.Receive(t, p.deadline(t))
	if err != nil {
		return err
	}
	request := l.flying[0]
	l.flying = l.flying[1:]
	p.answered(t, l, request, resp.(*kmsg.ProduceResponse))
	return nil
}

// nextRequest takes what has to be sent again first, then new batches, at most one batch of
// a partition and a few partitions.
func (p *Producer) nextRequest(t *task.T, l *lane) []*outgoing {
	var request []*outgoing
	here := p.led(l)
	for _, to := range here {
		if o := to.resend(); o != nil && len(request) < 3 {
			request = append(request, o)
		}
	}
	for len(request) == 0 || p.Rand.IntN(4) == 0 && len(request) < 3 {
		if p.Budget <= 0 || p.Enough() || len(here) == 0 {
			break
		}
		to := here[p.Rand.IntN(len(here))]
		if p.Routes != nil && p.Idempotent && !to.known && len(to.queue) > 0 {
			break
		}
		if to.bounced || to.full() || holds(request, to) || p.GiveUp != nil && p.GiveUp(to.log) {
			break
		}
		request = append(request, p.newBatch(t, to))
	}
	return request
}

func holds(request []*outgoing, to *target) bool {
	for _, o := range request {
		if o.to == to {
			return true
		}
	}
	return false
}

// resend is the first batch that has to go out again, when the partition may send.
func (to *target) resend() *outgoing {
	for _, o := range to.queue {
		if to.bounced && o.inAir {
			return nil
		}
	}
	to.bounced = false
	for _, o := range to.queue {
		if !o.inAir {
			return o
		}
	}
	return nil
}

func (p *Producer) newBatch(t *task.T, to *target) *outgoing {
	p.Budget--
	n := 1 + p.Rand.IntN(p.MaxRecords)
	spec := BatchSpec{ProducerID: p.pid, ProducerEpoch: p.epoch, BaseSequence: to.next, Codec: p.Codec}
	if !p.Idempotent {
		spec.ProducerID, spec.ProducerEpoch, spec.BaseSequence = -1, -1, -1
	}
	o := &outgoing{to: to, n: int32(n), loads: p.Rec.Loads()}
	records := make([]Record, n)
	stamp := p.Rec.Stamp()
	for i := range records {
		records[i] = p.record(t, to.topic.room(n))
		o.sends = append(o.sends, p.Rec.Send(history.Send{
			Client: p.ID, Partition: to.log, Digest: Digest(records[i].Key, records[i].Value, records[i].Headers),
			Invoke: stamp, Offset: -1, Acks: int8(p.Acks), Idempotent: p.Idempotent, BatchOrdinal: i,
		}))
	}
	o.bytes = Encode(spec, records)
	to.next = logfile.Add(to.next, o.n)
	to.batches++
	o.nth = to.batches
	to.queue = append(to.queue, o)
	return o
}

// record makes a unique record: client and serial number, then drawn filling, in the value
// or, where that is null, in the key.
func (p *Producer) record(t *task.T, room int) Record {
	p.serial++
	id := binary.BigEndian.AppendUint64(nil, uint64(p.ID)<<48|p.serial)
	r := Record{Timestamp: t.UnixMilli() - int64(p.Rand.IntN(50))}
	fill := make([]byte, p.Rand.IntN(min(p.MaxValue, room)+1))
	for i := range fill {
		fill[i] = byte(p.Rand.IntN(7) * 37)
	}
	switch p.Rand.IntN(8) {
	case 0:
		r.Key = id // a null value
	case 1:
		r.Key, r.Value = []byte{}, append(id, fill...)
	case 2:
		r.Key, r.Value = fill[:len(fill)/2], append(id, fill[len(fill)/2:]...)
		r.Headers = []logfile.Header{{Key: "h", Value: fill[:len(fill)/3]}, {Key: "", Value: nil}}
	default:
		r.Value = append(id, fill...)
	}
	return r
}

func (p *Producer) send(t *task.T, l *lane, request []*outgoing) error {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = p.Version, p.Acks, int32(p.RequestTimeout.Milliseconds()/2)
	for _, o := range request {
		o.inAir, o.to.lane, o.last = true, l, p.Rec.Loads()
		part := kmsg.NewProduceRequestTopicPartition()
		part.Partition, part.Records = o.to.index, o.bytes
		i := 0
		for i < len(req.Topics) && req.Topics[i].Topic != o.to.topic.Name {
			i++
		}
		if i == len(req.Topics) {
			topic := kmsg.NewProduceRequestTopic()
			topic.Topic, topic.TopicID = o.to.topic.Name, o.to.topic.ID
			req.Topics = append(req.Topics, topic)
		}
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, part)
	}
	err := l.conn.Send(t, req, p.deadline(t))
	if p.Acks == 0 {
		for _, o := range request {
			o.to.queue = nil // never answered: unknown
		}
		return err
	}
	l.flying = append(l.flying, request)
	return err
}

func (p *Producer) answered(t *task.T, l *lane, request []*outgoing, resp *kmsg.ProduceResponse) {
	for _, topic := range resp.Topics {
		for _, r := range topic.Partitions {
			for i, o := range request {
				if o != nil && o.to.index == r.Partition && (o.to.topic.Name == topic.Topic || p.Version >= 13 && o.to.topic.ID == topic.TopicID) {
					request[i] = nil
					o.inAir = false
					p.moved(o.to, r.ErrorCode, r.CurrentLeader.LeaderID, r.CurrentLeader.LeaderEpoch)
					p.outcome(t, l, o, r.ErrorCode, r.BaseOffset)
				}
			}
		}
	}
	for _, o := range request {
		if o != nil {
			p.Rec.Failf("I30", PartitionName(history.Partition{Topic: o.to.topic.Name, Index: o.to.index}), "client %d got a produce answer without its partition", p.ID)
			o.inAir = false
			o.to.bounced = true
		}
	}
}

func (p *Producer) outcome(t *task.T, l *lane, o *outgoing, code int16, base int64) {
	if !o.to.has(o) {
		return
	}
	first := o.to.queue[0] == o
	switch {
	case code == 0:
		o.to.leapt = o.to.leapt || !o.to.known && !first
		o.to.known = true
		p.settle(o, history.OK, base, l.addr)
	case !p.Idempotent && definite(code, p.Acks == -1 || o.to.topic.Synced):
		p.settle(o, history.Failed, -1, l.addr)
	case !p.Idempotent:
		o.to.remove(o)
	case code == kerr.DuplicateSequenceNumber.Code:
		// Stored, we are not told where. With five in flight at most, all are remembered.
		if !p.Rec.Loaded(o.to.log, l.addr, o.loads) {
			p.Rec.Failf("I17", PartitionName(history.Partition{Topic: o.to.topic.Name, Index: o.to.index}),
				"client %d: the repeat of sequence %d of producer %d, of the last five, did not get its offset", p.ID, o.sequence(), p.pid)
		}
		o.to.remove(o)
	case code == kerr.OutOfOrderSequenceNumber.Code && first && !o.to.bounced:
		if !o.to.leapt {
			p.disowned(o, l.addr)
		}
		p.renew(t, l)
	case code == kerr.InvalidProducerEpoch.Code, code == kerr.UnknownProducerID.Code:
		if p.Rec.Losses(o.to.log) == o.to.losses {
			p.Rec.Failf("I17", PartitionName(history.Partition{Topic: o.to.topic.Name, Index: o.to.index}),
				"client %d: %s for sequence %d of producer %d", p.ID, name(code), o.sequence(), p.pid)
		}
		p.renew(t, l)
	case code == kerr.MessageTooLarge.Code || code == kerr.InvalidTimestamp.Code || code == kerr.InvalidRecord.Code || code == kerr.CorruptMessage.Code:
		p.Rec.Failf("codes", PartitionName(history.Partition{Topic: o.to.topic.Name, Index: o.to.index}), "client %d: a sound batch was refused with %s", p.ID, name(code))
		o.to.remove(o)
	default:
		if first {
			p.Rec.Note(p.ID, "%s for sequence %d of %s-%d", name(code), o.sequence(), o.to.topic.Name, o.to.index)
		}
		if code == kerr.RequestTimedOut.Code && p.Prompt != nil && p.Prompt() && p.RequestTimeout >= 2*time.Second {
			p.Rec.Failf("I30", PartitionName(history.Partition{Topic: o.to.topic.Name, Index: o.to.index}),
				"client %d: sequence %d was not committed within %v, and nothing is slow", p.ID, o.sequence(), p.RequestTimeout/2)
		}
		o.to.bounced = true
		p.pause(t)
	}
}

// disowned notes that a broker calls a batch out of order, and whether it has it.
func (p *Producer) disowned(o *outgoing, by string) {
	held := history.Unseen
	if !p.Rec.started(by, o.last) && !p.Rec.Loaded(o.to.log, by, o.last) { // it is the process that answered, and it cut nothing since
		held = p.Rec.held(o.sends[0], by)
	}
	deposed := o.to.by != "" && o.to.by != by && !p.Rec.leads(o.to.log, by)
	for _, s := range o.sends {
		p.Rec.Disowned(s, history.Send{Restarted: p.Rec.Loaded(o.to.log, by, o.loads), Deposed: deposed, Bereft: p.Rec.Losses(o.to.log) > o.to.losses, Held: held})
	}
}

// full reports that the oldest open batch and those after it are the five that a broker
// remembers: one more, and a repeat of the oldest could not be answered. Later ones that were
// acknowledged meanwhile count too.
func (to *target) full() bool { return len(to.queue) > 0 && to.batches-to.queue[0].nth >= 4 }

func (o *outgoing) sequence() int32 { return int32(binary.BigEndian.Uint32(o.bytes[53:])) }

// renew takes a new producer id, for the broker does not know what came before the first
// open batch, or says so. Whether it may is judged in the end.
func (p *Producer) renew(t *task.T, l *lane) {
	// A new producer id forgets every open batch: their outcome stays unknown.
	for _, to := range p.targets {
		to.drop()
	}
	for _, o := range p.lanes { // what is under way elsewhere is of the old id
		if o != l && o.conn != nil {
			o.conn.Close()
			o.conn, o.flying = nil, nil
		}
	}
	p.pid = -1
	p.lost(t, l)
	if p.connect(t, l) && !p.initProducer(t, l) {
		p.lost(t, l)
	}
}

func (p *Producer) settle(o *outgoing, outcome history.Outcome, base int64, by string) {
	for i, s := range o.sends {
		off := int64(-1)
		if outcome == history.OK && base >= 0 {
			off = base + int64(i)
		}
		p.Rec.Settle(s, outcome, off, o.to.topic.Synced && outcome == history.OK, by)
	}
	if outcome == history.OK {
		o.to.by = by
	}
	o.to.remove(o)
}

func (to *target) has(o *outgoing) bool {
	for _, q := range to.queue {
		if q == o {
			return true
		}
	}
	return false
}

func (to *target) remove(o *outgoing) {
	for i, q := range to.queue {
		if q == o {
			to.queue = append(to.queue[:i], to.queue[i+1:]...)
			return
		}
	}
}

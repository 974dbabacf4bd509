package api

// Produce: one batch for each of some partitions.
//
//	3  batches of magic 2, transactional id     4  (KAFKA_STORAGE_ERROR)
//	5  log start offset in the reply            7  zstd
//	8  errors of single records, messages       9  flexible
//	10 the current leader and its endpoint, where another leads
//	11-12 transactions v2 (errors, implicit add)               13 topic ids
//
// Versions 0-2 are listed, because librdkafka compresses only towards a broker that lists
// 0, and refused, as Kafka does (KAFKA-18659). Transactions are not served: a transactional
// batch is refused with INVALID_TXN_STATE, for there is no transaction it could belong to.
//
// acks=0 has no reply, and an error closes the connection. acks=1 is answered after the
// append, acks=all when the high watermark has passed it; where flush.messages makes the
// log sync, both only after that.

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"seedlog/clock/task"
	"seedlog/node/conn"
	"seedlog/node/meta"
	"seedlog/node/replica"
	"seedlog/storage"
	"seedlog/storage/record"
)

const (
	acksNone   = 0
	acksLeader = 1
	acksAll    = -1
)

// inflatedMaxBytes bounds the work that one compressed batch may cause.
const inflatedMaxBytes = 1 << 30

// adminClient may write to internal topics, as in Kafka.
const adminClient = "__admin_client"

// produceOp is one Produce request from its decoding to its reply.
type produceOp struct {
	produceRequest
	s        *Service
	reply    *conn.Reply
	image    *meta.Image
	listener string
	admin    bool
	hints    leaderHints
	delayed  replica.Delayed
	watch    []*replica.Watchers
}

func (s *Service) produce(t *task.T, r *conn.Request, reply *conn.Reply) {
	op := s.produces.get()
	op.s, op.reply = s, reply
	if err := op.decode(r.Body, r.Version); err != nil {
		s.produces.put(op)
		s.malformed(r, reply, err)
		return
	}
	op.image, op.listener, op.admin = s.Image(), r.Conn.Listener(), clientID(r) == adminClient
	part := 0
	for i := range op.topics {
		topic := &op.topics[i]
		id := op.resolve(topic)
		for range topic.count {
			op.append(t, topic, id, &op.parts[part])
			part++
		}
	}
	op.finish(t)
}

// resolve finds the topic and makes its name the metadata's own, which outlives the frame.
func (op *produceOp) resolve(topic *produceTopic) *meta.Topic {
	if op.version >= 13 {
		return op.image.TopicByID(topic.id)
	}
	found := op.image.Topic(unsafeText(topic.frame))
	if found != nil {
		topic.name = found.Name
	} else {
		topic.name = string(topic.frame)
	}
	topic.frame = nil
	return found
}

// append validates and appends the batch of one partition.
func (op *produceOp) append(t *task.T, topic *produceTopic, found *meta.Topic, p *producePart) {
	part, code := op.target(found, p)
	if code != 0 {
		p.fail(code, "")
		op.hint(found, p)
		return
	}
	settings := part.Settings()
	limits := record.Limits{
		MaxBytes:         settings.MaxMessageBytes,
		NowMs:            t.UnixMilli(),
		BeforeMaxMs:      settings.TimestampBeforeMaxMs,
		AfterMaxMs:       settings.TimestampAfterMaxMs,
		RequireKey:       settings.CleanupCompact,
		ProduceVersion:   op.version,
		InflatedMaxBytes: inflatedMaxBytes,
	}
	if settings.LogAppendTime {
		limits.TimestampType = record.LogAppendTime
	}
	batch, info, err := op.s.admit(t, p.records, limits, settings)
	if err == nil && info.Header.IsTransactional() {
		p.fail(kerr.InvalidTxnState.Code, "transactions are not served")
		return
	}
	if err != nil {
		p.fail(errorCode(err), err.Error())
		var bad *record.ValidationError
		if errors.As(err, &bad) {
			p.bad = bad.Records
		}
		return
	}
	done, epoch, err := part.Append(t, batch, storage.Client, op.acks == acksAll)
	if err != nil {
		p.fail(errorCode(err), err.Error())
		op.hint(found, p)
		return
	}
	op.appended(p, part, &done, epoch)
}

// target finds the replica that a batch is for.
func (op *produceOp) target(found *meta.Topic, p *producePart) (*replica.Partition, int16) {
	switch {
	case op.acks < acksAll || op.acks > acksLeader:
		return nil, kerr.InvalidRequiredAcks.Code
	case found == nil && op.version >= 13:
		return nil, kerr.UnknownTopicID.Code
	case found.Partition(p.index) == nil:
		return nil, kerr.UnknownTopicOrPartition.Code
	case isInternal(found.Name) && !op.admin:
		return nil, kerr.InvalidTopicException.Code
	case len(p.records) == 0:
		return nil, kerr.InvalidRecord.Code
	}
	return op.s.hosted(op.image, replica.Key{Topic: found.ID, Partition: p.index})
}

func (p *producePart) fail(code int16, message string) {
	p.code, p.message = code, message
	p.baseOffset, p.appendTimeMs, p.logStart = -1, -1, -1
}

func (op *produceOp) hint(found *meta.Topic, p *producePart) {
	if found != nil && op.version >= 10 && wantsHint(p.code) {
		p.leader, p.leaderEpoch, p.tellLeader = op.hints.hint(op.image, replica.Key{Topic: found.ID, Partition: p.index}, op.listener)
	}
}

// appended notes where the batch went and what the answer has to wait for.
func (op *produceOp) appended(p *producePart, part *replica.Partition, done *storage.AppendInfo, epoch int32) {
	p.baseOffset, p.appendTimeMs, p.logStart = done.BaseOffset, done.LogAppendTimeMs, done.LogStartOffset
	p.required, p.epoch = done.LastOffset+1, epoch
	switch {
	case op.acks == acksAll:
		p.part = part
	case op.acks == acksLeader && done.MustSync:
		p.part, p.onlySync = part, true
	}
}

// finish replies, or parks the request until it can.
func (op *produceOp) finish(t *task.T) {
	if op.acks == acksNone {
		op.finishUnacknowledged()
		return
	}
	if op.Ready() {
		op.Complete(false)
		return
	}
	op.watch = op.watch[:0]
	for i := range op.parts {
		op.parts[i].recordsDone()
		if op.parts[i].part != nil {
			op.watch = append(op.watch, &op.parts[i].part.Committed)
		}
	}
	op.reply.ReleaseBody()
	until := t.Now().Add(millis(int64(max(op.timeoutMs, 0))))
	op.s.Replicas.Purgatory().Watch(&op.delayed, op, until, op.watch...)
}

// recordsDone drops the reference into the frame, which is given back.
func (p *producePart) recordsDone() { p.records = nil }

// finishUnacknowledged ends an acks=0 request: its client learns of an error by the end of
// the connection.
func (op *produceOp) finishUnacknowledged() {
	code := int16(0)
	for i := range op.parts {
		if c := op.parts[i].code; c != 0 {
			code = c
		}
	}
	if code == 0 {
		op.reply.None()
	} else {
		op.reply.Close("produce with acks=0 failed: " + kerr.ErrorForCode(code).Error())
	}
	op.recycle()
}

// Ready implements replica.Operation: every partition has its answer.
func (op *produceOp) Ready() bool {
	for i := range op.parts {
		if _, done := op.parts[i].outcome(); !done {
			return false
		}
	}
	return true
}

// outcome is the answer of one partition, once there is one.
func (p *producePart) outcome() (code int16, done bool) {
	if p.part == nil {
		return p.code, true
	}
	if p.onlySync && p.part.Leads(p.epoch) {
		return 0, p.part.Synced(p.required)
	}
	done, err := p.part.CommittedTo(p.required, p.epoch)
	if !done {
		return 0, false
	}
	code = errorCode(err)
	if code == kerr.NotEnoughReplicas.Code {
		code = kerr.NotEnoughReplicasAfterAppend.Code
	}
	return code, true
}

// Complete implements replica.Operation: it replies.
func (op *produceOp) Complete(expired bool) {
	for i := range op.parts {
		p := &op.parts[i]
		code, done := p.outcome()
		switch {
		case !done:
			p.code = kerr.RequestTimedOut.Code
		case p.part != nil:
			p.code = code
		}
	}
	op.reply.SendBody(op.encode(op.reply.Buffer(), op.hints.endpoints))
	op.recycle()
}

func (op *produceOp) recycle() {
	op.forget()
	clear(op.watch)
	op.reply, op.image, op.hints.endpoints = nil, nil, op.hints.endpoints[:0]
	if cap(op.parts) <= keepParts {
		op.s.produces.put(op)
	}
}

package api

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kbin"

	"seedlog/node/replica"
	"seedlog/storage/record"
)

// produceRequest is a decoded Produce request. Names and records lie in the frame.
type produceRequest struct {
	version       int16
	transactional bool
	acks          int16
	timeoutMs     int32
	topics        []produceTopic
	parts         []producePart // of all topics, in order
}

type produceTopic struct {
	frame []byte   // its name in the frame, 0-12
	name  string   // its name once it is resolved or copied, 0-12
	id    [16]byte // 13
	count int      // its partitions
}

type producePart struct {
	topic   int // index into topics
	index   int32
	records []byte
	produceResult
}

// produceResult is the answer for one partition.
type produceResult struct {
	code         int16
	baseOffset   int64
	appendTimeMs int64
	logStart     int64
	message      string               // error_message, if not empty
	bad          []record.RecordError // the records at fault
	leader       int32                // CurrentLeader, with leaderEpoch, if tellLeader
	leaderEpoch  int32
	tellLeader   bool

	// What the answer waits for.
	part     *replica.Partition // nil: nothing
	required int64              // until this offset is committed, or synced
	epoch    int32              // in which it was appended
	onlySync bool               // synced will do (acks=1)
}

// partitionsMax bounds the partitions of one Produce or Fetch request: far more than a
// client has, and a few megabytes decoded.
const partitionsMax = 100_000

var errTooManyPartitions = errors.New("request names too many partitions")

// decode reads the body of any served version; it keeps and reuses the slices.
func (q *produceRequest) decode(body []byte, version int16) error {
	r := wireReader{Reader: kbin.Reader{Src: body}, flexible: version >= 9}
	q.version = version
	_, q.transactional = r.nullableText()
	q.acks = r.Int16()
	q.timeoutMs = r.Int32()
	q.topics, q.parts = q.topics[:0], q.parts[:0]
	for n := r.array(2); n > 0; n-- {
		q.decodeTopic(&r)
		if len(q.parts)+len(q.topics) > partitionsMax {
			return errTooManyPartitions
		}
	}
	r.tags(nil)
	return r.err()
}

func (q *produceRequest) decodeTopic(r *wireReader) {
	var topic produceTopic
	if q.version >= 13 {
		topic.id = r.Uuid()
	} else {
		topic.frame = r.text()
	}
	topic.count = r.array(5)
	if len(q.parts)+topic.count > partitionsMax {
		r.bad = true
		return
	}
	for range topic.count {
		p := producePart{topic: len(q.topics), index: r.Int32(), records: r.nullableBytes()}
		r.tags(nil)
		p.baseOffset, p.appendTimeMs, p.logStart = -1, -1, -1
		q.parts = append(q.parts, p)
	}
	r.tags(nil)
	q.topics = append(q.topics, topic)
}

// forget drops the references into the frame.
func (q *produceRequest) forget() {
	clear(q.topics)
	clear(q.parts)
}

// encode appends the reply.
func (q *produceRequest) encode(buf []byte, endpoints []endpoint) []byte {
	w := wireWriter{buf: buf, flexible: q.version >= 9}
	w.array(len(q.topics))
	next := 0
	for i := range q.topics {
		topic := &q.topics[i]
		if q.version >= 13 {
			w.uuid(topic.id)
		} else {
			w.text(topic.name)
		}
		w.array(topic.count)
		for range topic.count {
			q.encodePart(&w, &q.parts[next])
			next++
		}
		w.noTags()
	}
	w.int32(0) // throttle_time_ms
	if q.version >= 10 {
		w.endpointTags(endpoints)
	} else {
		w.noTags()
	}
	return w.buf
}

func (q *produceRequest) encodePart(w *wireWriter, p *producePart) {
	w.int32(p.index)
	w.int16(p.code)
	w.int64(p.baseOffset)
	w.int64(p.appendTimeMs)
	if q.version >= 5 {
		w.int64(p.logStart)
	}
	if q.version >= 8 {
		q.encodeErrors(w, p)
	}
	switch {
	case q.version >= 10 && p.tellLeader:
		w.uvarint(1)
		w.leaderTag(0, p.leader, p.leaderEpoch)
	default:
		w.noTags()
	}
}

func (q *produceRequest) encodeErrors(w *wireWriter, p *producePart) {
	w.array(len(p.bad))
	for _, b := range p.bad {
		w.int32(b.Index)
		w.nullableText(b.Message, b.Message == "")
		w.noTags()
	}
	w.nullableText(p.message, p.message == "")
}

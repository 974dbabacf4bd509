package api

import (
	"github.com/twmb/franz-go/pkg/kbin"

	"seedlog/net"
	"seedlog/storage"
)

// fetchRequest is a decoded Fetch request. Names lie in the frame.
type fetchRequest struct {
	version       int16
	replicaID     int32
	replicaEpoch  int64
	maxWaitMs     int32
	minBytes      int32
	maxBytes      int32
	readCommitted bool
	sessionID     int32
	sessionEpoch  int32
	parts         []fetchPart
	forgotten     []fetchKey
	rack          []byte // of the consumer
}

// fetchKey names a partition as the request does: by name, or from version 13 by id.
type fetchKey struct {
	name  []byte
	id    [16]byte
	index int32
}

// fetchPart is what a request asks of one partition.
type fetchPart struct {
	fetchKey
	currentEpoch     int32 // -1 if the client does not say
	offset           int64
	lastFetchedEpoch int32 // -1 if the client does not say
	logStart         int64
	maxBytes         int32
}

// decode reads the body of any served version; it keeps and reuses the slices.
func (q *fetchRequest) decode(body []byte, version int16) error {
	r := wireReader{Reader: kbin.Reader{Src: body}, flexible: version >= 12}
	q.version = version
	q.replicaID, q.replicaEpoch = -1, -1
	if version < 15 {
		q.replicaID = r.Int32()
	}
	q.maxWaitMs, q.minBytes, q.maxBytes = r.Int32(), r.Int32(), r.Int32()
	q.readCommitted = r.Int8() == 1
	q.sessionID, q.sessionEpoch = 0, -1
	if version >= 7 {
		q.sessionID, q.sessionEpoch = r.Int32(), r.Int32()
	}
	q.parts, q.forgotten = q.parts[:0], q.forgotten[:0]
	for n := r.array(2); n > 0; n-- {
		if err := q.decodeTopic(&r); err != nil {
			return err
		}
	}
	if version >= 7 {
		for n := r.array(2); n > 0; n-- {
			if err := q.decodeForgotten(&r); err != nil {
				return err
			}
		}
	}
	q.rack = nil
	if version >= 11 {
		q.rack = r.text()
	}
	r.tags(func(tag uint32, v *wireReader) {
		if tag == 1 && version >= 15 {
			q.replicaID, q.replicaEpoch = v.Int32(), v.Int64()
		}
	})
	return r.err()
}

func (q *fetchRequest) decodeKey(r *wireReader) (k fetchKey) {
	if q.version >= 13 {
		k.id = r.Uuid()
	} else {
		k.name = r.text()
	}
	return k
}

func (q *fetchRequest) decodeTopic(r *wireReader) error {
	key := q.decodeKey(r)
	n := r.array(16)
	if len(q.parts)+n > partitionsMax {
		return errTooManyPartitions
	}
	for range n {
		p := fetchPart{fetchKey: key, currentEpoch: -1, lastFetchedEpoch: -1, logStart: -1}
		p.index = r.Int32()
		if q.version >= 9 {
			p.currentEpoch = r.Int32()
		}
		p.offset = r.Int64()
		if q.version >= 12 {
			p.lastFetchedEpoch = r.Int32()
		}
		if q.version >= 5 {
			p.logStart = r.Int64()
		}
		p.maxBytes = r.Int32()
		r.tags(nil)
		q.parts = append(q.parts, p)
	}
	r.tags(nil)
	return nil
}

func (q *fetchRequest) decodeForgotten(r *wireReader) error {
	key := q.decodeKey(r)
	n := r.array(4)
	if len(q.forgotten)+n > partitionsMax {
		return errTooManyPartitions
	}
	for range n {
		key.index = r.Int32()
		q.forgotten = append(q.forgotten, key)
	}
	r.tags(nil)
	return nil
}

// fetchResult is the answer for one partition.
type fetchResult struct {
	topic string   // to version 12
	id    [16]byte // from version 13
	index int32
	code  int16

	hw, lso, logStart int64
	data              storage.Fetched
	aborted           bool // the aborted list is meant, even if empty

	// diverging epoch: where the asker's log parts from ours.
	diverges      bool
	divergeEpoch  int32
	divergeOffset int64

	leader, leaderEpoch int32
	tellLeader          bool

	elsewhere bool // another replica is to be read from instead (KIP-392):
	preferred int32
}

func (p *fetchResult) reset() {
	p.data.Release()
	data := p.data
	*p = fetchResult{data: data, hw: -1, lso: -1, logStart: -1}
}

// preferredReplica is what the reply says of it: -1 is the asked one.
func (p *fetchResult) preferredReplica() int32 {
	if p.elsewhere {
		return p.preferred
	}
	return -1
}

// sameTopic tells whether two results stand under one topic of the reply.
func (p *fetchResult) sameTopic(o *fetchResult) bool { return p.topic == o.topic && p.id == o.id }

// fetchReply encodes a reply around the file ranges of its results.
type fetchReply struct {
	version   int16
	code      int16
	sessionID int32
	results   []*fetchResult
	endpoints []endpoint
	cuts      []cut
}

// cut is where the file ranges of a result come in.
type cut struct {
	at     int
	result *fetchResult
}

// encode appends the reply's bytes to buf and its parts, bytes and file ranges in turn, to
// parts. The ranges now belong to whoever sends the parts.
func (f *fetchReply) encode(buf []byte, parts []net.Part) ([]byte, []net.Part) {
	w := wireWriter{buf: buf, flexible: f.version >= 12}
	f.cuts = f.cuts[:0]
	w.int32(0) // throttle_time_ms
	if f.version >= 7 {
		w.int16(f.code)
		w.int32(f.sessionID)
	}
	w.array(f.topics())
	for i := 0; i < len(f.results); {
		first := f.results[i]
		n := 1
		for i+n < len(f.results) && first.sameTopic(f.results[i+n]) {
			n++
		}
		if f.version >= 13 {
			w.uuid(first.id)
		} else {
			w.text(first.topic)
		}
		w.array(n)
		for _, p := range f.results[i : i+n] {
			f.encodePart(&w, p)
		}
		w.noTags()
		i += n
	}
	if f.version >= 16 {
		w.endpointTags(f.endpoints)
	} else {
		w.noTags()
	}
	return w.buf, f.assemble(w.buf, parts)
}

// topics counts the runs of results under one topic.
func (f *fetchReply) topics() int {
	n := 0
	for i, p := range f.results {
		if i == 0 || !p.sameTopic(f.results[i-1]) {
			n++
		}
	}
	return n
}

func (f *fetchReply) encodePart(w *wireWriter, p *fetchResult) {
	w.int32(p.index)
	w.int16(p.code)
	w.int64(p.hw)
	w.int64(p.lso)
	if f.version >= 5 {
		w.int64(p.logStart)
	}
	f.encodeAborted(w, p)
	if f.version >= 11 {
		w.int32(p.preferredReplica())
	}
	w.bytesLen(int(p.data.Size))
	f.cuts = append(f.cuts, cut{len(w.buf), p})
	if w.flexible {
		f.encodeTags(w, p)
	}
}

func (f *fetchReply) encodeAborted(w *wireWriter, p *fetchResult) {
	if !p.aborted {
		w.nullArray()
		return
	}
	w.array(len(p.data.Aborted))
	for _, a := range p.data.Aborted {
		w.int64(a.ProducerID)
		w.int64(a.FirstOffset)
		w.noTags()
	}
}

func (w *wireWriter) nullArray() {
	if w.flexible {
		w.buf = append(w.buf, 0)
	} else {
		w.int32(-1)
	}
}

func (f *fetchReply) encodeTags(w *wireWriter, p *fetchResult) {
	n := uint32(0)
	if p.diverges {
		n++
	}
	if p.tellLeader {
		n++
	}
	w.uvarint(n)
	if p.diverges {
		w.uvarint(0)
		w.uvarint(13)
		w.int32(p.divergeEpoch)
		w.int64(p.divergeOffset)
		w.buf = append(w.buf, 0)
	}
	if p.tellLeader {
		w.leaderTag(1, p.leader, p.leaderEpoch)
	}
}

// assemble lays the file ranges between the bytes.
func (f *fetchReply) assemble(buf []byte, parts []net.Part) []net.Part {
	from := 0
	for _, c := range f.cuts {
		if len(c.result.data.Ranges) == 0 {
			continue
		}
		parts = append(parts, net.Part{Bytes: buf[from:c.at]})
		from = c.at
		for i, r := range c.result.data.Ranges {
			parts = append(parts, net.Part{File: r})
			c.result.data.Ranges[i] = nil
		}
		c.result.data.Ranges = c.result.data.Ranges[:0]
	}
	if from < len(buf) {
		parts = append(parts, net.Part{Bytes: buf[from:]})
	}
	return parts
}

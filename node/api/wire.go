package api

import (
	"github.com/twmb/franz-go/pkg/kbin"
)

// wireReader reads the fields of a request whose encoding is compact or not. Reading past
// the end gives zeros and makes err fail.
type wireReader struct {
	kbin.Reader
	flexible bool
	bad      bool
	long     bool // a string is longer than textMax
}

// length reads the length of bytes and arrays; -1 is null.
func (r *wireReader) length() int {
	if r.flexible {
		return int(r.Uvarint()) - 1
	}
	return int(r.Int32())
}

// textLength reads the length of a string; -1 is null.
func (r *wireReader) textLength() int {
	if !r.flexible {
		return int(r.Int16())
	}
	n := int(r.Uvarint()) - 1
	if n > textMax {
		r.bad, r.long = true, true
		r.Src = nil
		return 0
	}
	return n
}

// text reads a string without copying it.
func (r *wireReader) text() []byte { return r.Span(r.textLength()) }

// nullableText reads a string that may be null.
func (r *wireReader) nullableText() (b []byte, ok bool) {
	n := r.textLength()
	if n < 0 {
		return nil, false
	}
	return r.Span(n), true
}

// nullableBytes reads bytes that may be null, without copying them.
func (r *wireReader) nullableBytes() []byte {
	n := r.length()
	if n < 0 {
		return nil
	}
	return r.Span(n)
}

// array reads the length of an array whose elements take at least elementSize bytes each.
// Null is 0.
func (r *wireReader) array(elementSize int) int {
	n := r.length()
	if n > len(r.Src)/elementSize {
		r.bad = true
		r.Src = nil
		return 0
	}
	return max(n, 0)
}

// tags reads tagged fields and calls field for each, with a reader of its value.
func (r *wireReader) tags(field func(tag uint32, v *wireReader)) {
	if !r.flexible {
		return
	}
	n := int(r.Uvarint()) // not n+1, as for arrays
	if n > len(r.Src)/2 {
		r.bad = true
		r.Src = nil
	}
	for ; n > 0 && r.err() == nil; n-- {
		tag := r.Uvarint()
		v := wireReader{Reader: kbin.Reader{Src: r.Span(int(r.Uvarint()))}, flexible: true}
		if field != nil {
			field(tag, &v)
			if v.err() != nil {
				r.bad = true
			}
		}
	}
}

func (r *wireReader) err() error {
	if r.long {
		return errLongText
	}
	if r.bad {
		return kbin.ErrNotEnoughData
	}
	return r.Complete()
}

// wireWriter appends the fields of a reply.
type wireWriter struct {
	buf      []byte
	flexible bool
}

func (w *wireWriter) int16(v int16) { w.buf = kbin.AppendInt16(w.buf, v) }
func (w *wireWriter) int32(v int32) { w.buf = kbin.AppendInt32(w.buf, v) }
func (w *wireWriter) int64(v int64) { w.buf = kbin.AppendInt64(w.buf, v) }

func (w *wireWriter) uuid(v [16]byte) { w.buf = append(w.buf, v[:]...) }

func (w *wireWriter) array(n int) {
	if w.flexible {
		w.buf = kbin.AppendCompactArrayLen(w.buf, n)
	} else {
		w.buf = kbin.AppendArrayLen(w.buf, n)
	}
}

// bytesLen writes the length of bytes that follow elsewhere.
func (w *wireWriter) bytesLen(n int) { w.array(n) }

func (w *wireWriter) text(s string) {
	if w.flexible {
		w.buf = kbin.AppendCompactString(w.buf, s)
	} else {
		w.buf = kbin.AppendString(w.buf, s)
	}
}

func (w *wireWriter) nullableText(s string, isNull bool) {
	if !isNull {
		w.text(s)
		return
	}
	if w.flexible {
		w.buf = append(w.buf, 0)
	} else {
		w.int16(-1)
	}
}

func (w *wireWriter) noTags() {
	if w.flexible {
		w.buf = append(w.buf, 0)
	}
}

func (w *wireWriter) uvarint(v uint32) { w.buf = kbin.AppendUvarint(w.buf, v) }

// leaderTag is a tagged CurrentLeader: leader id and epoch, and their own empty tags.
func (w *wireWriter) leaderTag(tag uint32, leader, epoch int32) {
	w.uvarint(tag)
	w.uvarint(9)
	w.int32(leader)
	w.int32(epoch)
	w.buf = append(w.buf, 0)
}

// endpoint is one broker that a reply tells the client to turn to.
type endpoint struct {
	nodeID int32
	host   string
	port   int32
	rack   string
	noRack bool
}

// endpointTags writes the tags that end a Produce or Fetch reply: NodeEndpoints, tag 0, if
// there are any.
func (w *wireWriter) endpointTags(list []endpoint) {
	if len(list) == 0 {
		w.noTags()
		return
	}
	w.uvarint(1)
	w.uvarint(0)
	v := wireWriter{flexible: true}
	v.array(len(list))
	for _, e := range list {
		v.int32(e.nodeID)
		v.text(e.host)
		v.int32(e.port)
		v.nullableText(e.rack, e.noRack)
		v.noTags()
	}
	w.uvarint(uint32(len(v.buf)))
	w.buf = append(w.buf, v.buf...)
}

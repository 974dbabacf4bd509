package record

import "io"

// What a walk reports about a record it cannot parse. Constants: a walk allocates nothing.
const (
	badLength     = "record length out of bounds"
	badVarint     = "varint too long or cut off"
	badKey        = "key length out of bounds"
	badValue      = "value length out of bounds"
	badHeaders    = "header count out of bounds"
	badHeaderKey  = "header key length out of bounds"
	badHeaderVal  = "header value length out of bounds"
	badRecordSize = "record length differs from its contents"
)

// walked is what a walk learns of a record without touching key, value or headers.
type walked struct {
	timestampDelta int64
	offsetDelta    int32
	keyed          bool
}

// walkRecord passes over one record; b is all that follows its length. bad says why not.
func walkRecord(b []byte) (w walked, bad string) {
	if len(b) == 0 {
		return w, badLength
	}
	p := 1 // attributes: none are in use
	ts, n := varlong(b[p:])
	if n == 0 {
		return w, badVarint
	}
	p += n
	off, n := varint(b[p:])
	if n == 0 {
		return w, badVarint
	}
	p += n
	klen, n := varint(b[p:])
	if n == 0 {
		return w, badVarint
	}
	p += n
	if klen < -1 || int(klen) > len(b)-p {
		return w, badKey
	}
	p += max(int(klen), 0)
	vlen, n := varint(b[p:])
	if n == 0 {
		return w, badVarint
	}
	p += n
	if vlen < -1 || int(vlen) > len(b)-p {
		return w, badValue
	}
	p += max(int(vlen), 0)
	headers, n := varint(b[p:])
	if n == 0 {
		return w, badVarint
	}
	p += n
	if headers != 0 {
		p, bad = walkHeaders(b, p, headers)
		if bad != "" {
			return w, bad
		}
	}
	if p != len(b) {
		return w, badRecordSize
	}
	return walked{timestampDelta: ts, offsetDelta: off, keyed: klen >= 0}, ""
}

func walkHeaders(b []byte, p int, headers int32) (end int, bad string) {
	if headers < 0 || int(headers) > (len(b)-p)/2 { // each takes two lengths at least
		return p, badHeaders
	}
	for range headers {
		klen, n := varint(b[p:])
		if n == 0 {
			return p, badVarint
		}
		p += n
		if klen < 0 || int(klen) > len(b)-p {
			return p, badHeaderKey
		}
		p += int(klen)
		vlen, n := varint(b[p:])
		if n == 0 {
			return p, badVarint
		}
		p += n
		if vlen < -1 || int(vlen) > len(b)-p {
			return p, badHeaderVal
		}
		p += max(int(vlen), 0)
	}
	return p, ""
}

// next walks the next record of an inflating batch: in the window if all of it is there, else
// piece by piece, without ever holding it. io.EOF after the last.
func (d *Decompressor) next() (w walked, bad string, err error) {
	size, n := varint(d.window)
	if n > 0 && size > 0 && int(size) <= len(d.window)-n {
		w, bad = walkRecord(d.window[n : n+int(size)])
		d.window = d.window[n+int(size):]
		return w, bad, nil
	}
	long, _, err := d.varlong(5)
	if err != nil {
		return w, "", err
	}
	if long <= 0 {
		return w, badLength, nil
	}
	s := slowWalk{d: d, left: int(long)}
	w = s.record()
	if s.err == io.EOF {
		s.err = d.failed(s.err)
	}
	return w, s.bad, s.err
}

// slowWalk passes over one record that straddles windows. The first failure sticks.
type slowWalk struct {
	d    *Decompressor
	left int // bytes of the record not yet read
	bad  string
	err  error
}

func (s *slowWalk) record() (w walked) {
	s.skip(1, badLength)
	w.timestampDelta = s.varlong(10)
	w.offsetDelta = int32(s.varlong(5))
	klen := s.varlong(5)
	w.keyed = klen >= 0
	s.bytes(klen, -1, badKey)
	s.bytes(s.varlong(5), -1, badValue)
	headers := s.varlong(5)
	if s.ok() && (headers < 0 || headers > int64(s.left)/2) {
		s.bad = badHeaders
	}
	for i := int64(0); i < headers && s.ok(); i++ {
		s.bytes(s.varlong(5), 0, badHeaderKey)
		s.bytes(s.varlong(5), -1, badHeaderVal)
	}
	if s.ok() && s.left != 0 {
		s.bad = badRecordSize
	}
	return w
}

func (s *slowWalk) ok() bool { return s.err == nil && s.bad == "" }

func (s *slowWalk) varlong(limit int) int64 {
	if !s.ok() {
		return 0
	}
	v, n, err := s.d.varlong(min(limit, max(s.left, 1)))
	if err != nil {
		if err == io.EOF {
			err = s.d.failed(err)
		}
		s.err = err
		return 0
	}
	if s.left -= n; s.left < 0 {
		s.bad = badVarint
	}
	return v
}

func (s *slowWalk) bytes(n, least int64, bad string) {
	switch {
	case !s.ok():
	case n < least || n > int64(s.left):
		s.bad = bad
	case n > 0:
		s.skip(int(n), bad)
	}
}

func (s *slowWalk) skip(n int, bad string) {
	if n > s.left {
		s.bad = bad
		return
	}
	s.left -= n
	s.err = s.d.skip(n)
}

package meta

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Errors of the codec, wrapped with the record type and the byte position.
var (
	// ErrUnknownRecord: the record type or its version is not one this build knows. The
	// node must not go on: it would lose the record from the next snapshot.
	ErrUnknownRecord = errors.New("unknown metadata record")
	// ErrCorruptRecord: the bytes do not decode, or a value makes no sense.
	ErrCorruptRecord = errors.New("corrupt metadata record")
)

// UUID is a 16-byte id: of a topic, a directory, an incarnation.
type UUID = [16]byte

// FrameVersion is the version of the frame around every metadata record.
const FrameVersion = 1

// codec walks a record's fields once, in either direction, so that each schema is written
// down in one place. Decoding is bounded by the input: an array takes at least a byte of
// input per element.
type codec struct {
	decoding bool
	version  int16
	buf      []byte // encoding: what was written; decoding: the input
	pos      int    // decoding: next byte
	err      error
}

func (c *codec) fail(what string) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: %s at byte %d of %d", ErrCorruptRecord, what, c.pos, len(c.buf))
	}
	c.pos = len(c.buf)
}

// take returns the next n bytes of the input, or nil.
func (c *codec) take(n int) []byte {
	if c.err != nil {
		return nil
	}
	if n < 0 || n > len(c.buf)-c.pos {
		c.fail("ends early")
		return nil
	}
	b := c.buf[c.pos : c.pos+n]
	c.pos += n
	return b
}

func (c *codec) uvarint(v uint64) uint64 {
	if !c.decoding {
		c.buf = binary.AppendUvarint(c.buf, v)
		return v
	}
	if c.err != nil {
		return 0
	}
	v, n := binary.Uvarint(c.buf[c.pos:])
	if n <= 0 || n > 5 || v > math.MaxUint32 {
		c.fail("bad varint")
		return 0
	}
	c.pos += n
	return v
}

func (c *codec) int8(p *int8) {
	if !c.decoding {
		c.buf = append(c.buf, byte(*p))
	} else if b := c.take(1); b != nil {
		*p = int8(b[0])
	}
}

func (c *codec) bool(p *bool) {
	v := int8(0)
	if *p {
		v = 1
	}
	c.int8(&v)
	*p = v != 0
}

func (c *codec) int16(p *int16) {
	v := uint16(*p)
	c.uint16(&v)
	*p = int16(v)
}

func (c *codec) uint16(p *uint16) {
	if !c.decoding {
		c.buf = binary.BigEndian.AppendUint16(c.buf, *p)
	} else if b := c.take(2); b != nil {
		*p = binary.BigEndian.Uint16(b)
	}
}

func (c *codec) int32(p *int32) {
	if !c.decoding {
		c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(*p))
	} else if b := c.take(4); b != nil {
		*p = int32(binary.BigEndian.Uint32(b))
	}
}

func (c *codec) int64(p *int64) {
	if !c.decoding {
		c.buf = binary.BigEndian.AppendUint64(c.buf, uint64(*p))
	} else if b := c.take(8); b != nil {
		*p = int64(binary.BigEndian.Uint64(b))
	}
}

// float64 carries the bits; nothing is computed with them.
func (c *codec) float64(p *float64) {
	v := int64(math.Float64bits(*p))
	c.int64(&v)
	*p = math.Float64frombits(uint64(v))
}

func (c *codec) uuid(p *UUID) {
	if !c.decoding {
		c.buf = append(c.buf, p[:]...)
	} else if b := c.take(16); b != nil {
		copy(p[:], b)
	}
}

// length walks a compact length: n+1, or 0 for null, which is -1 here.
func (c *codec) length(n int) int {
	return int(c.uvarint(uint64(n+1))) - 1
}

func (c *codec) bytes(p *[]byte) {
	n := c.length(len(*p))
	if !c.decoding {
		c.buf = append(c.buf, *p...)
		return
	}
	if n < 0 {
		c.fail("null bytes")
		return
	}
	*p = append([]byte{}, c.take(n)...)
}

func (c *codec) string(p *string) {
	n := c.length(len(*p))
	if !c.decoding {
		c.buf = append(c.buf, *p...)
		return
	}
	if n < 0 {
		c.fail("null string")
		return
	}
	*p = string(c.take(n))
}

func (c *codec) nullableString(p **string) {
	if !c.decoding && *p == nil {
		c.length(-1)
		return
	}
	if !c.decoding {
		c.string(*p)
		return
	}
	if n := c.length(0); n >= 0 {
		s := string(c.take(n))
		*p = &s
	}
}

// array walks the elements of a list. A null list decodes as nil where the schema allows
// it, and an empty one never as nil there.
func array[E any](c *codec, p *[]E, nullable bool, size int, element func(*E)) {
	if !c.decoding {
		if *p == nil && nullable {
			c.length(-1)
			return
		}
		c.length(len(*p))
		for i := range *p {
			element(&(*p)[i])
		}
		return
	}
	n := c.length(0)
	if n < 0 {
		if !nullable {
			c.fail("null array")
		}
		return
	}
	if n > (len(c.buf)-c.pos)/size {
		c.fail("array longer than the record")
		return
	}
	list := make([]E, n)
	for i := range list {
		element(&list[i])
	}
	if c.err == nil && (n > 0 || nullable) {
		*p = list
	}
}

func (c *codec) int32s(p *[]int32)         { array(c, p, false, 4, c.int32) }
func (c *codec) nullableInt32s(p *[]int32) { array(c, p, true, 4, c.int32) }
func (c *codec) uuids(p *[]UUID)           { array(c, p, false, 16, c.uuid) }
func (c *codec) nullableUUIDs(p *[]UUID)   { array(c, p, true, 16, c.uuid) }
func (c *codec) strings(p *[]string)       { array(c, p, false, 1, c.string) }

// tag is one tagged field: written when set, in the order of tags.
type tag struct {
	tag  uint64
	set  bool
	walk func()
}

// tags walks the tagged fields that end a structure. Those that are not in the list belong
// to a later minor schema; they are skipped, as the flexible encoding intends.
func (c *codec) tags(list ...tag) {
	if !c.decoding {
		c.appendTags(list)
		return
	}
	count, prev := c.uvarint(0), -1
	for i := uint64(0); i < count && c.err == nil; i++ {
		id, size := int(c.uvarint(0)), int(c.uvarint(0))
		if id <= prev {
			c.fail("tags out of order")
		}
		prev = id
		c.field(uint64(id), size, list)
	}
}

// field decodes one tagged field, which must fill its size exactly.
func (c *codec) field(id uint64, size int, list []tag) {
	if size > len(c.buf)-c.pos {
		c.fail("tag longer than the record")
	}
	if c.err != nil {
		return
	}
	whole, end := c.buf, c.pos+size
	c.buf = c.buf[:end]
	for _, f := range list {
		if f.tag == id {
			f.walk()
			if c.err == nil && c.pos != end {
				c.fail("tag of the wrong size")
			}
		}
	}
	c.buf, c.pos = whole, end
}

func (c *codec) appendTags(list []tag) {
	count := uint64(0)
	for _, f := range list {
		if f.set {
			count++
		}
	}
	c.uvarint(count)
	for _, f := range list {
		if !f.set {
			continue
		}
		outer := c.buf
		c.buf = nil
		f.walk()
		value := c.buf
		c.buf = outer
		c.uvarint(f.tag)
		c.uvarint(uint64(len(value)))
		c.buf = append(c.buf, value...)
	}
}

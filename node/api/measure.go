package api

import (
	"github.com/twmb/franz-go/pkg/kbin"
)

// Group requests carry bytes that the broker only passes on, megabytes of them in a large
// group, and may wait for minutes. What they take is counted before they are decoded
// instead of being bounded by the worst case.
const (
	costElement = 128 // a struct with its strings' headers, and its place in the reply
	costTag     = 448 // a map with one entry
)

// meter walks a body and counts.
type meter struct {
	wireReader
	elements, tagged int64
}

func newMeter(body []byte, flexible bool) *meter {
	return &meter{wireReader: wireReader{Reader: kbin.Reader{Src: body}, flexible: flexible}}
}

// ended counts the tags that end a structure.
func (m *meter) ended() { m.tags(func(uint32, *wireReader) { m.tagged++ }) }

// cost is the estimate in bytes, or the error of a body that ends early.
func (m *meter) cost(body []byte) (int64, error) {
	return 2*int64(len(body)) + m.elements*costElement + m.tagged*costTag, m.err()
}

func measureOffsetCommit(body []byte, version int16) (int64, error) {
	m := newMeter(body, version >= 8)
	m.text()  // group
	m.Int32() // generation
	m.text()  // member
	if version >= 7 {
		m.nullableText() // instance
	}
	if version <= 4 {
		m.Int64() // retention
	}
	for topics := m.array(2); topics > 0 && m.err() == nil; topics-- {
		m.elements++
		if version >= 10 {
			m.Uuid()
		} else {
			m.text()
		}
		for parts := m.array(13); parts > 0 && m.err() == nil; parts-- {
			m.elements++
			m.Int32()
			m.Int64()
			if version >= 6 {
				m.Int32()
			}
			m.nullableText() // metadata
			m.ended()
		}
		m.ended()
	}
	m.ended()
	return m.cost(body)
}

func measureJoinGroup(body []byte, version int16) (int64, error) {
	m := newMeter(body, version >= 6)
	m.text()  // group
	m.Int32() // session timeout
	if version >= 1 {
		m.Int32() // rebalance timeout
	}
	m.text() // member
	if version >= 5 {
		m.nullableText() // instance
	}
	m.text() // protocol type
	m.pairs()
	if version >= 8 {
		m.nullableText() // reason
	}
	m.ended()
	return m.cost(body)
}

func measureSyncGroup(body []byte, version int16) (int64, error) {
	m := newMeter(body, version >= 4)
	m.text()  // group
	m.Int32() // generation
	m.text()  // member
	if version >= 3 {
		m.nullableText() // instance
	}
	if version >= 5 {
		m.nullableText() // protocol type
		m.nullableText() // protocol
	}
	m.pairs()
	m.ended()
	return m.cost(body)
}

// pairs walks an array of a string with bytes.
func (m *meter) pairs() {
	for n := m.array(2); n > 0 && m.err() == nil; n-- {
		m.elements++
		m.text()
		m.nullableBytes()
		m.ended()
	}
}

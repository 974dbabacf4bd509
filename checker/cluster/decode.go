package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The metadata records that matter to the checks, decoded here by the public schemas and not
// by the broker's code.
type (
	// ID is a topic's, a directory's or an incarnation's.
	ID = [16]byte

	topicRecord struct {
		name string
		id   ID
	}
	removeTopicRecord struct{ id ID }
	partitionRecord   struct {
		index                           int32
		topic                           ID
		replicas, isr, removing, adding []int32
		leader, leaderEpoch, epoch      int32
		elr, known                      []int32
		dirs                            []ID
		recovering                      int8
	}
	partitionChange struct {
		index                                int32
		topic                                ID
		isr, replicas, removing, adding, elr []int32 // nil: unchanged
		known                                []int32
		leader                               int32 // -2: unchanged
		dirs                                 []ID  // nil: unchanged
		recovering                           int8  // -1: unchanged
	}
	registerBroker struct {
		id               int32
		incarnation      ID
		epoch            int64
		migrating        bool
		fenced, shutting bool
		dirs             []ID
		features         []span
		lists            string // listeners and features as they stand in the record
		rack             string
		rackless         bool
	}
	registerController struct {
		id       int32
		features []span
		rest     string // what follows the id
	}
	unregisterBroker struct{ id int32 }
	brokerChange     struct {
		id               int32
		epoch            int64
		fenced, shutting int8 // 1 yes, -1 no, 0 unchanged
		dirs             []ID // none: unchanged
	}
	featureLevel struct {
		name  string
		level int16
	}
	configRecord struct {
		kind      int8
		res, name string
		value     string
		without   bool
	}
	producerIDs struct{ next int64 }
	// Records between begin and end wait for the end, and are nothing where it is aborted.
	beginTransaction struct{}
	endTransaction   struct{}
	abortTransaction struct{}
	noOp             struct{}
	otherRecord      struct {
		key  uint64
		rest string
	}
)

var errRecord = errors.New("a metadata record ends early")

type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if r.bad || n < 0 || n > len(r.b) {
		r.bad = true
		return make([]byte, max(0, min(n, 16)))
	}
	p := r.b[:n]
	r.b = r.b[n:]
	return p
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) int8() int8   { return int8(r.take(1)[0]) }
func (r *reader) bool() bool   { return r.int8() != 0 }
func (r *reader) int16() int16 { return int16(binary.BigEndian.Uint16(r.take(2))) }
func (r *reader) int32() int32 { return int32(binary.BigEndian.Uint32(r.take(4))) }
func (r *reader) int64() int64 { return int64(binary.BigEndian.Uint64(r.take(8))) }
func (r *reader) uuid() (id ID) {
	copy(id[:], r.take(16))
	return id
}

func (r *reader) string() (s string, null bool) {
	n := r.uvarint()
	if n == 0 {
		return "", true
	}
	return string(r.take(int(n - 1))), false
}

// int32s is never nil, unless it is null.
func (r *reader) int32s() []int32 {
	n := r.uvarint()
	if n == 0 || n-1 > uint64(len(r.b)) {
		return nil
	}
	out := make([]int32, 0, n-1)
	for range n - 1 {
		out = append(out, r.int32())
	}
	return out
}

func (r *reader) ids() (out []ID) {
	r.skipArray(func() { out = append(out, r.uuid()) })
	return out
}

func (r *reader) skipArray(one func()) {
	for n := r.uvarint(); n > 1 && !r.bad; n-- {
		one()
	}
}

func (r *reader) tags(fn func(tag uint64, in *reader)) {
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		tag, size := r.uvarint(), r.uvarint()
		in := &reader{b: r.take(int(min(size, 1<<30)))}
		if fn != nil {
			fn(tag, in)
		}
		r.bad = r.bad || in.bad
	}
}

// decode reads one record's value.
func decode(b []byte) (any, error) {
	r := &reader{b: b}
	if frame := r.uvarint(); frame != 1 {
		return nil, fmt.Errorf("frame version %d", frame)
	}
	key, version := r.uvarint(), r.uvarint()
	rec := r.body(key, version)
	if r.bad {
		return nil, fmt.Errorf("type %d version %d: %w", key, version, errRecord)
	}
	return rec, nil
}

func (r *reader) body(key, version uint64) any {
	switch key {
	case 0:
		return r.registerBroker(version)
	case 1:
		return unregisterBroker{id: r.int32()}
	case 2:
		name, _ := r.string()
		return topicRecord{name, r.uuid()}
	case 3:
		return r.partition(version)
	case 4:
		rec := configRecord{kind: r.int8()}
		rec.res, _ = r.string()
		rec.name, _ = r.string()
		rec.value, rec.without = r.string()
		return rec
	case 5:
		return r.change()
	case 9:
		return removeTopicRecord{r.uuid()}
	case 12:
		name, _ := r.string()
		return featureLevel{name, r.int16()}
	case 15:
		r.int32()
		r.int64()
		return producerIDs{r.int64()}
	case 17:
		rec := brokerChange{id: r.int32(), epoch: r.int64()}
		r.tags(func(tag uint64, in *reader) {
			switch tag {
			case 0:
				rec.fenced = in.int8()
			case 1:
				rec.shutting = in.int8()
			case 2:
				rec.dirs = in.ids()
			}
		})
		return rec
	case 20:
		return noOp{}
	case 23:
		return beginTransaction{}
	case 24:
		return endTransaction{}
	case 25:
		return abortTransaction{}
	case 27:
		return r.registerController()
	}
	return otherRecord{key, string(r.b)}
}

func (r *reader) registerBroker(version uint64) any {
	rec := registerBroker{id: r.int32()}
	if version >= 2 {
		rec.migrating = r.bool()
	}
	rec.incarnation, rec.epoch = r.uuid(), r.int64()
	lists := r.b
	r.skipListeners()
	rec.features = r.spans()
	rec.lists = string(lists[:len(lists)-len(r.b)])
	rec.rack, rec.rackless = r.string()
	rec.fenced = r.bool()
	if version >= 1 {
		rec.shutting = r.bool()
	}
	r.tags(func(tag uint64, in *reader) {
		if tag == 0 {
			rec.dirs = in.ids()
		}
	})
	return rec
}

// spans is what a node supports of each feature.
func (r *reader) spans() (out []span) {
	r.skipArray(func() {
		f := span{}
		f.name, _ = r.string()
		f.min, f.max = r.int16(), r.int16()
		r.tags(nil)
		out = append(out, f)
	})
	return out
}

func (r *reader) registerController() any {
	rec := registerController{id: r.int32()}
	rec.rest = string(r.b)
	r.uuid() // incarnation
	r.bool() // migrating
	r.skipListeners()
	rec.features = r.spans()
	return rec
}

func (r *reader) skipListeners() {
	r.skipArray(func() {
		r.string()
		r.string()
		r.take(4)
		r.tags(nil)
	})
}

func (r *reader) partition(version uint64) any {
	rec := partitionRecord{index: r.int32(), topic: r.uuid(), replicas: r.int32s(), isr: r.int32s(), removing: r.int32s(), adding: r.int32s(),
		leader: r.int32(), leaderEpoch: r.int32(), epoch: r.int32()}
	if version >= 1 {
		rec.dirs = r.ids()
	}
	r.tags(func(tag uint64, in *reader) {
		switch tag {
		case 0:
			rec.recovering = in.int8()
		case 1:
			rec.elr = in.int32s()
		case 2:
			rec.known = in.int32s()
		}
	})
	return rec
}

func (r *reader) change() any {
	rec := partitionChange{index: r.int32(), topic: r.uuid(), leader: -2, recovering: -1}
	r.tags(func(tag uint64, in *reader) {
		switch tag {
		case 0:
			rec.isr = in.int32s()
		case 1:
			rec.leader = in.int32()
		case 2:
			rec.replicas = in.int32s()
		case 3:
			rec.removing = in.int32s()
		case 4:
			rec.adding = in.int32s()
		case 5:
			rec.recovering = in.int8()
		case 6:
			rec.elr = in.int32s()
		case 7:
			rec.known = in.int32s()
		case 8:
			rec.dirs = in.ids()
		}
	})
	return rec
}

package cluster

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
	"testing"

	"seedlog/checker"
	"seedlog/checker/logfile"
)

// writer encodes what decode reads.
type writer struct{ b []byte }

func (w *writer) uvarint(v uint64) *writer { w.b = binary.AppendUvarint(w.b, v); return w }
func (w *writer) i8(v int8) *writer        { w.b = append(w.b, byte(v)); return w }
func (w *writer) i16(v int16) *writer {
	w.b = binary.BigEndian.AppendUint16(w.b, uint16(v))
	return w
}
func (w *writer) i32(v int32) *writer {
	w.b = binary.BigEndian.AppendUint32(w.b, uint32(v))
	return w
}
func (w *writer) i64(v int64) *writer {
	w.b = binary.BigEndian.AppendUint64(w.b, uint64(v))
	return w
}
func (w *writer) id(id ID) *writer { w.b = append(w.b, id[:]...); return w }
func (w *writer) str(s string) *writer {
	w.uvarint(uint64(len(s) + 1))
	w.b = append(w.b, s...)
	return w
}
func (w *writer) i32s(v []int32) *writer {
	w.uvarint(uint64(len(v) + 1))
	for _, x := range v {
		w.i32(x)
	}
	return w
}
func (w *writer) tag(n uint64, in *writer) *writer {
	w.uvarint(n).uvarint(uint64(len(in.b)))
	w.b = append(w.b, in.b...)
	return w
}

func rec(key, version uint64) *writer {
	return new(writer).uvarint(1).uvarint(key).uvarint(version)
}

func topicID(n byte) (id ID) { id[15] = n; return id }

func topicRec(name string, id ID) []byte { return rec(2, 0).str(name).id(id).uvarint(0).b }

func partitionRec(p Partition) []byte {
	w := rec(3, 2).i32(p.Index).id(p.ID).i32s(p.Replicas).i32s(p.ISR).i32s(p.Removing).i32s(p.Adding).i32(p.Leader).i32(p.LeaderEpoch).i32(p.Epoch).uvarint(1)
	if p.ELR == nil {
		return w.uvarint(0).b
	}
	return w.uvarint(1).tag(1, new(writer).i32s(p.ELR)).b
}

// changeRec changes the lists that are not nil, and the leader unless it is -2.
func changeRec(id ID, isr, replicas, removing, adding, elr []int32, leader int32) []byte {
	n, tags := uint64(0), new(writer)
	list := func(tag uint64, v []int32) {
		if v != nil {
			n++
			tags.tag(tag, new(writer).i32s(v))
		}
	}
	list(0, isr)
	if leader != -2 {
		n++
		tags.tag(1, new(writer).i32(leader))
	}
	list(2, replicas)
	list(3, removing)
	list(4, adding)
	list(6, elr)
	w := rec(5, 2).i32(0).id(id).uvarint(n)
	return append(w.b, tags.b...)
}

// uncleanRec elects who may lack records, alone in its ISR and recovering.
func uncleanRec(id ID, elr []int32, leader int32) []byte {
	w := rec(5, 2).i32(0).id(id).uvarint(4)
	return w.tag(0, new(writer).i32s([]int32{leader})).tag(1, new(writer).i32(leader)).tag(5, new(writer).i8(1)).tag(6, new(writer).i32s(elr)).b
}

// backRec takes a reassignment back and elects one of the replicas of before, alone in its ISR.
func backRec(id ID, replicas []int32, leader int32, recovering int8) []byte {
	w := rec(5, 2).i32(0).id(id).uvarint(6)
	w.tag(0, new(writer).i32s([]int32{leader})).tag(1, new(writer).i32(leader)).tag(2, new(writer).i32s(replicas))
	return w.tag(3, new(writer).i32s(nil)).tag(4, new(writer).i32s(nil)).tag(5, new(writer).i8(recovering)).b
}

// known is what nodes support where a test is not about that.
var known = []span{{"eligible.leader.replicas.version", 0, 1}, {"f", 0, 9}, {"g", 0, 9}, {metadataVersion, 21, 27}}

func brokerRec(id int32, epoch int64, fenced int8) []byte { return brokerOf(id, epoch, fenced, known) }

// brokerOf registers a broker that supports these levels.
func brokerOf(id int32, epoch int64, fenced int8, features []span) []byte {
	return rec(0, 3).i32(id).i8(0).id(topicID(byte(id))).i64(epoch).uvarint(2).str("PLAINTEXT").str("h").i16(9092).i16(0).uvarint(0).
		spans(features).uvarint(0).i8(fenced).i8(0).uvarint(0).b
}

// controllerOf registers a controller that supports these levels.
func controllerOf(id int32, features []span) []byte {
	return rec(27, 0).i32(id).id(topicID(byte(id))).i8(0).uvarint(2).str("CONTROLLER").str("h").i16(9093).i16(0).uvarint(0).spans(features).uvarint(0).b
}

func (w *writer) spans(list []span) *writer {
	w.uvarint(uint64(len(list) + 1))
	for _, f := range list {
		w.str(f.name).i16(f.min).i16(f.max).uvarint(0)
	}
	return w
}

func fenceRec(id int32, epoch int64, fenced int8) []byte {
	return rec(17, 2).i32(id).i64(epoch).uvarint(1).tag(0, new(writer).i8(fenced)).b
}

// uncleanly has everybody but one stop uncleanly, that one lead t-0, and the others come back.
func uncleanly(s *State, leader int32, at int64) {
	gone, back := [][]byte{uncleanRec(topicID(9), nil, leader)}, [][]byte(nil)
	for _, b := range s.Brokers {
		if b.ID != leader {
			gone, back = append(gone, brokerRec(b.ID, b.Epoch+1, 1)), append(back, fenceRec(b.ID, b.Epoch+1, -1))
		}
	}
	s.apply(gone, at)
	s.apply(back, at)
}

// homesRec says which directories the replicas are in, by the last byte of their ids.
func homesRec(id ID, dirs ...byte) []byte {
	in := new(writer).uvarint(uint64(len(dirs) + 1))
	for _, d := range dirs {
		in.id(topicID(d))
	}
	return rec(5, 2).i32(0).id(id).uvarint(1).tag(8, in).b
}

// dirsRec says which directories a broker has.
func dirsRec(id int32, epoch int64, dirs ...byte) []byte {
	in := new(writer).uvarint(uint64(len(dirs) + 1))
	for _, d := range dirs {
		in.id(topicID(d))
	}
	return rec(17, 2).i32(id).i64(epoch).uvarint(1).tag(2, in).b
}

func featureRec(name string, level int16) []byte { return rec(12, 0).str(name).i16(level).uvarint(0).b }

func configRec(topic, name, value string) []byte {
	return rec(4, 0).i8(2).str(topic).str(name).str(value).uvarint(0).b
}

// batch makes a batch of values; control gives its records that key type.
func batch(base int64, epoch int32, control int16, values ...[]byte) logfile.Batch {
	return mixed(base, epoch, slices.Repeat([]int16{control}, len(values)), values...)
}

// mixed makes a batch of values with a key type for each.
func mixed(base int64, epoch int32, controls []int16, values ...[]byte) logfile.Batch {
	var body []byte
	control := controls[0]
	for i, v := range values {
		r := []byte{0}
		r = binary.AppendVarint(r, 0)
		r = binary.AppendVarint(r, int64(i))
		if control >= 0 {
			r = binary.AppendVarint(r, 4)
			r = binary.BigEndian.AppendUint16(r, 0)
			r = binary.BigEndian.AppendUint16(r, uint16(controls[i]))
		} else {
			r = binary.AppendVarint(r, -1)
		}
		r = binary.AppendVarint(r, int64(len(v)))
		r = append(r, v...)
		r = binary.AppendVarint(r, 0)
		body = binary.AppendVarint(body, int64(len(r)))
		body = append(body, r...)
	}
	be := binary.BigEndian
	b := make([]byte, 61, 61+len(body))
	be.PutUint64(b, uint64(base))
	be.PutUint32(b[8:], uint32(49+len(body)))
	be.PutUint32(b[12:], uint32(epoch))
	b[16] = 2
	if control >= 0 {
		be.PutUint16(b[21:], 0x20)
	}
	be.PutUint32(b[23:], uint32(len(values)-1))
	be.PutUint64(b[43:], ^uint64(0))
	be.PutUint32(b[57:], uint32(len(values)))
	b = append(b, body...)
	be.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	out, _, why := logfile.Scan(b)
	if why != "" {
		panic(why)
	}
	return out[0]
}

// leads is the first batch of an epoch.
func leads(base int64, epoch, leader int32) logfile.Batch {
	return batch(base, epoch, 2, new(writer).i16(0).i32(leader).uvarint(0).b)
}

// found expects that the invariant was found broken, or nothing for "".
func found(t *testing.T, v *checker.Verdict, invariant string) {
	t.Helper()
	switch {
	case invariant == "" && !v.OK():
		t.Errorf("found %v", v.Violations)
	case invariant != "" && !slices.ContainsFunc(v.Violations, func(x checker.Violation) bool { return x.Invariant == invariant }):
		t.Errorf("found %v, not %s", v.Violations, invariant)
	}
}

package cluster

import (
	"testing"

	"seedlog/checker"
	"seedlog/checker/logfile"
)

func TestStateFindsLevelsThatANodeDoesNotSupport(t *testing.T) {
	old := []span{{metadataVersion, 21, 25}}
	level := func(n int16) []byte { return featureRec(metadataVersion, n) }
	for _, c := range []struct {
		name    string
		batches [][][]byte
		want    string
	}{
		{"all support it", [][][]byte{{level(25), brokerOf(1, 1, 0, old), controllerOf(1, old)}, {level(23)}, {level(25)}}, ""},
		{"a broker does not", [][][]byte{{level(25), brokerOf(1, 1, 0, old)}, {level(26)}}, "levels"},
		{"one that is fenced does not", [][][]byte{{level(25), brokerOf(1, 1, 1, old)}, {level(26)}}, "levels"},
		{"one that is gone does not", [][][]byte{{level(25), brokerOf(1, 1, 1, old)}, {rec(1, 0).i32(1).i64(1).uvarint(0).b}, {level(26)}}, ""},
		{"one that came back does", [][][]byte{{level(25), brokerOf(1, 1, 1, old)}, {brokerOf(1, 5, 1, known)}, {level(26)}}, ""},
		{"a broker registers above", [][][]byte{{level(26)}, {brokerOf(1, 1, 1, old)}}, "levels"},
		{"and below", [][][]byte{{level(21)}, {brokerOf(1, 1, 1, []span{{metadataVersion, 22, 27}})}}, "levels"},
		{"a broker that does not know a feature", [][][]byte{{level(25), brokerOf(1, 1, 0, old)}, {featureRec("x", 1)}}, "levels"},
		{"which is switched off", [][][]byte{{level(25), brokerOf(1, 1, 0, old)}, {featureRec("x", 0)}}, ""},
		{"a controller does not", [][][]byte{{level(25), controllerOf(1, old)}, {level(27)}}, "levels"},
		{"a controller comes later, and will see", [][][]byte{{level(27)}, {controllerOf(1, old)}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var v checker.Verdict
			s := NewState(&v)
			for i, b := range c.batches {
				s.apply(b, int64(10*i))
			}
			found(t, &v, c.want)
		})
	}
}

func TestStateFindsRecordsOfTooNewAVersion(t *testing.T) {
	id := topicID(9)
	part := partitionRec(Partition{ID: id, Replicas: []int32{1}, ISR: []int32{1}, Leader: 1}) // of version 2
	for _, c := range []struct {
		name   string
		values [][]byte
		want   string
	}{
		{"at the level that brought it", [][]byte{featureRec(metadataVersion, 23), brokerRec(1, 1, 0), topicRec("t", id), part}, ""},
		{"below it", [][]byte{featureRec(metadataVersion, 22), brokerRec(1, 1, 0), topicRec("t", id), part}, "levels"},
		{"a change below it", [][]byte{featureRec(metadataVersion, 23), brokerRec(1, 1, 0), topicRec("t", id), part, featureRec(metadataVersion, 22), changeRec(id, []int32{1}, nil, nil, nil, nil, -2)}, "levels"},
		{"a version that there is not", [][]byte{featureRec(metadataVersion, 27), rec(12, 1).str("f").i16(1).uvarint(0).b}, "levels"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var v checker.Verdict
			NewState(&v).apply(c.values, 0)
			found(t, &v, c.want)
		})
	}
}

func TestQuorumFindsSnapshotsOfTooNewAVersion(t *testing.T) {
	id := topicID(9)
	part := func(version uint64) []byte {
		w := rec(3, version).i32(0).id(id).i32s([]int32{1}).i32s([]int32{1}).i32s(nil).i32s(nil).i32(1).i32(0).i32(0).uvarint(1)
		return w.uvarint(0).b
	}
	for version, want := range map[uint64]string{1: "", 2: "levels"} {
		var v checker.Verdict
		q := NewQuorum(1, []Voter{{ID: 1}}, &v)
		log := []logfile.Batch{leads(0, 1, 1), batch(1, 1, -1, featureRec(metadataVersion, 22), topicRec("t", id), part(1), brokerRec(1, 4, 0))}
		q.See(1, 0, log, 0, 5)
		q.Advance()
		q.Snapshot("a snapshot", 5, 1, []logfile.Batch{batch(0, 1, -1, featureRec(metadataVersion, 22), topicRec("t", id), part(version), brokerRec(1, 4, 0))})
		found(t, &v, want)
	}
}

package cluster

import (
	"testing"

	"seedlog/checker"
)

func TestSnapshotsAreWhatTheLogComesTo(t *testing.T) {
	part := Partition{ID: topicID(9), Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2, 3}, Leader: 1}
	after := part
	after.ISR, after.Leader, after.LeaderEpoch, after.Epoch = []int32{2}, 2, 1, 1
	stale, fenced := after, brokerRec(1, 5, 1)
	stale.Epoch = 0
	const end = 13
	for _, c := range []struct {
		name    string
		end     int64
		epoch   int32
		records [][]byte
		want    string
	}{
		{"the same in another order", end, 1, [][]byte{featureRec("f", 2), topicRec("t", topicID(9)), partitionRec(after), fenced}, ""},
		{"what was removed is there", end, 1, [][]byte{featureRec("f", 2), topicRec("t", topicID(9)), partitionRec(after), fenced, configRec("u", "k", "v")}, "I31"},
		{"a broker is missing", end, 1, [][]byte{featureRec("f", 2), topicRec("t", topicID(9)), partitionRec(after)}, "I31"},
		{"an old epoch of a partition", end, 1, [][]byte{featureRec("f", 2), topicRec("t", topicID(9)), partitionRec(stale), fenced}, "I31"},
		{"an old level", end, 1, [][]byte{featureRec("f", 1), topicRec("t", topicID(9)), partitionRec(after), fenced}, "I31"},
		{"another epoch", end, 2, [][]byte{featureRec("f", 2), topicRec("t", topicID(9)), partitionRec(after), fenced}, "I31"},
		{"within a batch", end - 1, 1, [][]byte{featureRec("f", 2), topicRec("t", topicID(9)), partitionRec(after), fenced}, "I31"},
		{"beyond what is committed", end + 5, 1, [][]byte{featureRec("f", 3)}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var v checker.Verdict
			q := three(&v)
			q.State = NewState(new(checker.Verdict)) // what it says of these records is not the matter
			log := logs{leads(0, 1, 1),
				batch(1, 1, -1, featureRec("f", 1), topicRec("t", topicID(9)), partitionRec(part), brokerRec(1, 5, 0)),
				batch(5, 1, -1, rec(23, 0).uvarint(0).b, featureRec("g", 1), rec(25, 0).uvarint(0).b, rec(23, 0).uvarint(0).b, changeRec(topicID(9), []int32{2}, nil, nil, nil, nil, 2), fenceRec(1, 5, 1), featureRec("f", 2), rec(24, 0).uvarint(0).b)}
			for id := int32(1); id <= 3; id++ {
				q.See(id, 0, log, 0, end)
			}
			q.Snapshot("a snapshot", c.end, c.epoch, logs{batch(0, 1, -1, c.records...)})
			q.Advance()
			found(t, &v, c.want)
		})
	}
}

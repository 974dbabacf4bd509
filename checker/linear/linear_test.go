package linear

import "testing"

func TestTopicHistories(t *testing.T) {
	id := [16]byte{1}
	create := TopicOp{Topic: "t", Invoke: 1, Return: 2, Kind: CreateTopic, OK: true, ID: id, Partitions: 3}
	for _, c := range []struct {
		name string
		ok   bool
		ops  []TopicOp
	}{
		{"created, seen", true, []TopicOp{create, {Topic: "t", Invoke: 3, Return: 4, Kind: DescribeTopic, Exists: true, ID: id, Partitions: 3}}},
		{"created, not seen", false, []TopicOp{create, {Topic: "t", Invoke: 3, Return: 4, Kind: DescribeTopic}}},
		{"seen while it is created", true, []TopicOp{create, {Topic: "t", Invoke: 1, Return: 4, Kind: DescribeTopic}}},
		{"created twice", false, []TopicOp{create, {Topic: "t", Invoke: 3, Return: 4, Kind: CreateTopic, OK: true, ID: [16]byte{2}, Partitions: 1}}},
		{"refused though absent", false, []TopicOp{{Topic: "t", Invoke: 3, Return: 4, Kind: CreateTopic, Exists: true}}},
		{"lost answer, then seen", true, []TopicOp{
			{Topic: "t", Invoke: 1, Kind: CreateTopic, Unknown: true, Partitions: 3},
			{Topic: "t", Invoke: 3, Return: 4, Kind: DescribeTopic},
			{Topic: "t", Invoke: 5, Return: 6, Kind: DescribeTopic, Exists: true, ID: id, Partitions: 3}}},
		{"grown and shrunk", false, []TopicOp{create,
			{Topic: "t", Invoke: 3, Return: 4, Kind: CreatePartitions, OK: true, Partitions: 5},
			{Topic: "t", Invoke: 5, Return: 6, Kind: DescribeTopic, Exists: true, ID: id, Partitions: 3}}},
	} {
		if v := CheckTopics(c.ops); v.OK() != c.ok {
			t.Errorf("%s: %v", c.name, v.Violations)
		}
	}
}

func TestOffsetAndLogHistories(t *testing.T) {
	offsets := []OffsetOp{
		{Group: "g", Topic: "t", Invoke: 1, Return: 2, Commit: true, Offset: 5},
		{Group: "g", Topic: "t", Invoke: 3, Return: 4, Offset: 5},
	}
	if v := CheckOffsets(offsets); !v.OK() {
		t.Error(v.Violations)
	}
	offsets[1].Offset = -1
	if v := CheckOffsets(offsets); v.OK() {
		t.Error("a lost commit was accepted")
	}
	logs := []LogOp{
		{Log: "t-0", Invoke: 1, Return: 4, Append: true, Offset: 2, Count: 3},
		{Log: "t-0", Invoke: 2, Return: 3, Append: true, Offset: 0, Count: 2},
		{Log: "t-0", Invoke: 5, Return: 6, Offset: 5},
	}
	if v := CheckLogs(logs); !v.OK() {
		t.Error(v.Violations)
	}
	logs[2].Return, logs[2].Invoke = 1, 0
	if v := CheckLogs(logs); v.OK() {
		t.Error("a read of what was not yet written was accepted")
	}
}

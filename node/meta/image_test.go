package meta

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// draw returns a record that is lawful after img.
func draw(t *rapid.T, img *Image) Record {
	id := func(n int) UUID { return UUID{0: 1, 15: byte(n)} }
	names := rapid.IntRange(0, 5)
	lists := rapid.SliceOfNDistinct(rapid.Int32Range(0, 4), 0, 3, rapid.ID[int32])
	var topics []*Topic
	for topic := range img.Topics() {
		topics = append(topics, topic)
	}
	switch kind := rapid.IntRange(0, 11).Draw(t, "kind"); {
	case kind == 0:
		n := rapid.IntRange(0, 50).Draw(t, "topic")
		if img.TopicByID(id(n)) == nil && img.Topic(fmt.Sprintf("t%d", n%6)) == nil {
			return Record{0, &TopicRecord{fmt.Sprintf("t%d", n%6), id(n)}}
		}
	case kind <= 2 && len(topics) > 0:
		topic := rapid.SampledFrom(topics).Draw(t, "topic")
		return Record{2, &PartitionRecord{PartitionID: int32(len(topic.Partitions)), TopicID: topic.ID,
			Replicas: lists.Draw(t, "replicas"), ISR: lists.Draw(t, "isr"), Leader: rapid.Int32Range(-1, 3).Draw(t, "leader"),
			EligibleLeaderReplicas: lists.Draw(t, "elr"), Directories: []UUID{id(9)}}}
	case kind <= 5 && len(topics) > 0:
		topic := rapid.SampledFrom(topics).Draw(t, "topic")
		if len(topic.Partitions) > 0 {
			r := NewPartitionChange(topic.ID, int32(rapid.IntRange(0, len(topic.Partitions)-1).Draw(t, "partition")))
			r.Leader = rapid.Int32Range(-2, 3).Draw(t, "leader")
			r.ISR = rapid.SampledFrom([][]int32{nil, {}, {1, 2}}).Draw(t, "isr")
			r.LastKnownELR = rapid.SampledFrom([][]int32{nil, {}, {1}}).Draw(t, "elr")
			return Record{2, r}
		}
	case kind == 6 && len(topics) > 0:
		return Record{0, &RemoveTopicRecord{rapid.SampledFrom(topics).Draw(t, "topic").ID}}
	case kind == 7:
		var value *string
		if rapid.Bool().Draw(t, "set") {
			value = ptr("v")
		}
		return Record{0, &ConfigRecord{TopicResource, fmt.Sprintf("t%d", names.Draw(t, "name")), fmt.Sprintf("k%d", names.Draw(t, "key")), value}}
	case kind == 8:
		return Record{3, &RegisterBrokerRecord{BrokerID: rapid.Int32Range(0, 4).Draw(t, "broker"), BrokerEpoch: img.Offset + 1, Fenced: true, LogDirs: []UUID{id(3)}}}
	case kind == 9:
		return Record{0, &FeatureLevelRecord{fmt.Sprintf("f%d", names.Draw(t, "name")), rapid.Int16Range(0, 2).Draw(t, "level")}}
	case kind == 10:
		kinds := []Body{
			&ProducerIdsRecord{1, 1, int64(names.Draw(t, "ids")) * 1000},
			&ClientQuotaRecord{[]QuotaEntity{{"user", nil}}, "q", 1.5, rapid.Bool().Draw(t, "remove")},
			&AccessControlEntryRecord{ID: id(names.Draw(t, "acl"))},
			&RemoveAccessControlEntryRecord{id(names.Draw(t, "acl"))},
			&UserScramCredentialRecord{Name: "u", Mechanism: 1, Salt: []byte{1}},
			&DelegationTokenRecord{TokenID: "t"},
			&RegisterControllerRecord{ControllerID: 1},
			&ZkMigrationStateRecord{State: 3},
		}
		return Record{0, rapid.SampledFrom(kinds).Draw(t, "other")}
	case kind == 11:
		if img.InTransaction() {
			return Record{0, rapid.SampledFrom([]Body{&EndTransactionRecord{}, &AbortTransactionRecord{}}).Draw(t, "end")}
		}
	}
	return Record{0, &NoOpRecord{}}
}

func TestImageIsTheReplayOfItsSnapshot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		img := Empty()
		var all []Record
		begin := Record{0, &FeatureLevelRecord{MetadataVersionFeature, DefaultMetadataVersion}}
		img, _, err := img.Apply([]Record{begin}, 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, begin)
		before := img.encoded()
		first := img
		for range rapid.IntRange(0, 80).Draw(t, "steps") {
			r := draw(t, img)
			all = append(all, r)
			next, delta, err := img.Apply([]Record{r}, img.Offset+1, 1)
			if err != nil {
				t.Fatalf("%s: %v", Name(r.Body), err)
			}
			if delta.Empty() != (string(img.encoded()) == string(next.encoded())) && delta.Empty() {
				t.Fatalf("%s changed the image and the delta is empty", Name(r.Body))
			}
			img = next
		}
		if string(first.encoded()) != string(before) {
			t.Fatal("an old image changed")
		}
		var snapshot []Record
		for r := range img.Records() {
			parsed, err := ParseRecord(AppendRecord(nil, r))
			if err != nil {
				t.Fatal(err)
			}
			snapshot = append(snapshot, parsed)
		}
		replayed, _, err := Empty().Apply(snapshot, img.Offset, 1)
		if err != nil {
			t.Fatal(err)
		}
		atOnce, _, err := Empty().Apply(all, img.Offset, 1)
		if err != nil {
			t.Fatal(err)
		}
		if !replayed.Equal(img) || !atOnce.Equal(img) {
			t.Fatalf("snapshot equal %v, one batch equal %v", replayed.Equal(img), atOnce.Equal(img))
		}
		if replayed.NumPartitions() != img.NumPartitions() || replayed.NumTopics() != img.NumTopics() {
			t.Fatalf("%d partitions of %d topics, want %d of %d", replayed.NumPartitions(), replayed.NumTopics(), img.NumPartitions(), img.NumTopics())
		}
	})
}

// apply is Apply for tests that expect no error.
func apply(t *testing.T, img *Image, bodies ...Body) (*Image, *Delta) {
	t.Helper()
	var records []Record
	for _, b := range bodies {
		records = append(records, Record{b.MaxVersion(), b})
	}
	next, d, err := img.Apply(records, img.Offset+int64(len(records)), 1)
	if err != nil {
		t.Fatal(err)
	}
	return next, d
}

func TestEveryRecordTypeIsKeptBySnapshots(t *testing.T) {
	for _, body := range everyKind() {
		img, _ := apply(t, Empty(), &FeatureLevelRecord{MetadataVersionFeature, DefaultMetadataVersion})
		switch r := body.(type) {
		case *UnregisterBrokerRecord, *FenceBrokerRecord, *UnfenceBrokerRecord, *BrokerRegistrationChangeRecord,
			*RemoveTopicRecord, *RemoveAccessControlEntryRecord, *RemoveUserScramCredentialRecord, *RemoveDelegationTokenRecord, *ClearElrRecord,
			*NoOpRecord, *BeginTransactionRecord, *EndTransactionRecord, *AbortTransactionRecord:
			continue // changes and removals leave no record of their own
		case *PartitionRecord, *PartitionChangeRecord:
			img, _ = apply(t, img, &TopicRecord{"t", UUID{1}}, &PartitionRecord{TopicID: UUID{1}}, &PartitionRecord{TopicID: UUID{1}, PartitionID: 1})
		case *ClientQuotaRecord:
			r.Remove = false
		}
		before := img.encoded()
		img, d := apply(t, img, body)
		if d.Empty() || string(before) == string(img.encoded()) {
			t.Errorf("%s leaves nothing in the snapshot", Name(body))
		}
	}
}

func TestMetadataTransactionsCountWhenTheyEnd(t *testing.T) {
	img, d := apply(t, Empty(), &BeginTransactionRecord{}, &TopicRecord{"a", UUID{1}})
	if img.Topic("a") != nil || !d.Empty() || !img.InTransaction() {
		t.Error("an open transaction is visible")
	}
	ended, d := apply(t, img, &PartitionRecord{TopicID: UUID{1}}, &EndTransactionRecord{})
	if ended.Topic("a") == nil || len(ended.Topic("a").Partitions) != 1 || len(d.Topics) != 1 || ended.InTransaction() {
		t.Error("an ended transaction does not count")
	}
	aborted, d := apply(t, img, &AbortTransactionRecord{})
	if aborted.Topic("a") != nil || !d.Empty() || aborted.InTransaction() {
		t.Error("an aborted transaction counts")
	}
}

func TestContradictionsAreRefused(t *testing.T) {
	img, _ := apply(t, Empty(), &TopicRecord{"a", UUID{1}}, &RegisterBrokerRecord{BrokerID: 1, BrokerEpoch: 5})
	for _, b := range []Body{
		&TopicRecord{"a", UUID{2}}, &TopicRecord{"b", UUID{1}}, &RemoveTopicRecord{UUID{9}},
		&PartitionRecord{TopicID: UUID{9}}, &PartitionRecord{TopicID: UUID{1}, PartitionID: -1}, &PartitionRecord{TopicID: UUID{1}, PartitionID: 1 << 30},
		NewPartitionChange(UUID{1}, 0), &UnregisterBrokerRecord{1, 6}, &BrokerRegistrationChangeRecord{BrokerID: 2}, &EndTransactionRecord{}, &AbortTransactionRecord{},
	} {
		if _, _, err := img.Apply([]Record{{0, b}}, 9, 1); !errors.Is(err, ErrInconsistent) {
			t.Errorf("%s %+v: %v", Name(b), b, err)
		}
	}
}

func TestDeltaNamesWhatChanged(t *testing.T) {
	img, _ := apply(t, Empty(), &TopicRecord{"a", UUID{1}}, &PartitionRecord{TopicID: UUID{1}}, &PartitionRecord{TopicID: UUID{1}, PartitionID: 1},
		&ConfigRecord{TopicResource, "a", "k", ptr("v")}, &TopicRecord{"b", UUID{2}})
	// a is changed, deleted and created again; b is untouched; c comes and goes.
	change := NewPartitionChange(UUID{1}, 1)
	_, d := apply(t, img, change, &TopicRecord{"c", UUID{3}}, &RemoveTopicRecord{UUID{1}}, &TopicRecord{"a", UUID{4}}, &RemoveTopicRecord{UUID{3}})
	if len(d.Topics) != 2 || d.Topics[0].New != nil || d.Topics[0].ID != (UUID{1}) || d.Topics[1].Old != nil || d.Topics[1].ID != (UUID{4}) {
		t.Fatalf("%+v", d.Topics)
	}
	if !slices.Equal(d.Deleted, []UUID{{1}, {3}}) {
		t.Errorf("deleted: %v", d.Deleted)
	}
	if len(d.Configs) != 1 || d.Configs[0] != (ConfigResource{TopicResource, "a"}) || d.To.Config(TopicResource, "a") != nil {
		t.Errorf("configuration outlives its topic: %v", d.Configs)
	}
	_, d = apply(t, img, change, &PartitionRecord{TopicID: UUID{1}, PartitionID: 2})
	if got := fmt.Sprint(d.Topics[0].Changed()); got != "[1 2]" {
		t.Errorf("changed partitions %s", got)
	}
}

func TestCheckServedNamesTheObstacle(t *testing.T) {
	img, _ := apply(t, Empty(), &FeatureLevelRecord{MetadataVersionFeature, DefaultMetadataVersion})
	if err := img.CheckServed(SupportedFeatures()); err != nil {
		t.Error(err)
	}
	for _, b := range []Body{
		&FeatureLevelRecord{ShareVersionFeature, 1}, &FeatureLevelRecord{"x.version", 1}, &FeatureLevelRecord{MetadataVersionFeature, 30},
		&FeatureLevelRecord{MetadataVersionFeature, 7}, &ConfigRecord{TopicResource, "t", "remote.storage.enable", ptr("true")},
	} {
		bad, _ := apply(t, img, b)
		if err := bad.CheckServed(SupportedFeatures()); err == nil {
			t.Errorf("%+v is served", b)
		}
	}
}

func BenchmarkOnePartitionChangeAmong10000Topics(b *testing.B) {
	img := Empty()
	var records []Record
	for i := range 10000 {
		id := UUID{0: byte(i >> 8), 1: byte(i), 2: 1}
		records = append(records, Record{0, &TopicRecord{fmt.Sprintf("topic-%d", i), id}}, Record{2, &PartitionRecord{TopicID: id}})
	}
	img, _, err := img.Apply(records, 1, 1)
	if err != nil {
		b.Fatal(err)
	}
	for i := range b.N {
		r := NewPartitionChange(UUID{0: byte(i >> 8 % 39), 1: byte(i), 2: 1}, 0)
		if _, _, err := img.Apply([]Record{{2, r}}, 2, 1); err != nil {
			b.Fatal(err)
		}
	}
}

func TestClearElrEmptiesOneTopicOrAll(t *testing.T) {
	img := Empty()
	for k, name := range []string{"a", "b"} {
		id := UUID{15: byte(k + 1)}
		img, _ = apply(t, img, &TopicRecord{name, id},
			&PartitionRecord{TopicID: id, PartitionID: 0, Replicas: []int32{1, 2}, EligibleLeaderReplicas: []int32{2}, LastKnownELR: []int32{1}},
			&PartitionRecord{TopicID: id, PartitionID: 1, Replicas: []int32{1, 2}})
	}
	one, _ := apply(t, img, &ClearElrRecord{"a"})
	elr := func(i *Image, name string) int {
		p := i.Topic(name).Partitions[0]
		return len(p.ELR) + len(p.LastKnownELR)
	}
	if elr(one, "a") != 0 || elr(one, "b") != 2 || elr(img, "a") != 2 {
		t.Errorf("after clearing a: a has %d, b %d, a before %d", elr(one, "a"), elr(one, "b"), elr(img, "a"))
	}
	if p := one.Topic("a").Partitions; p[0].PartitionEpoch != 1 || p[1].PartitionEpoch != 0 {
		t.Errorf("partition epochs %d and %d, want 1 for the cleared and 0 for the other", p[0].PartitionEpoch, p[1].PartitionEpoch)
	}
	all, _ := apply(t, img, &ClearElrRecord{})
	if elr(all, "a") != 0 || elr(all, "b") != 0 {
		t.Errorf("after clearing all: a has %d, b %d", elr(all, "a"), elr(all, "b"))
	}
	if _, _, err := img.Apply([]Record{{0, &ClearElrRecord{"c"}}}, img.Offset+1, 1); !errors.Is(err, ErrInconsistent) {
		t.Errorf("clearing an unknown topic: %v", err)
	}
}

package meta

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestASnapshotIsAsGoodAsTheRecords: a listener that missed records and gets the delta to a
// snapshot sees all that changed, and nothing that did not.
func TestASnapshotIsAsGoodAsTheRecords(t *testing.T) {
	topic := func(n byte) (UUID, string) { return UUID{n}, string(rune('a' + n)) }
	resources := []ConfigResource{{TopicResource, "a"}, {TopicResource, "b"}, {BrokerResource, ""}, {BrokerResource, "1"}}
	rapid.Check(t, func(t *rapid.T) {
		image := Empty()
		apply := func(label string) (records int) {
			for range rapid.IntRange(0, 8).Draw(t, label) {
				n := byte(rapid.IntRange(0, 3).Draw(t, "n"))
				id, name := topic(n)
				var bodies []Body
				now := image.TopicByID(id)
				switch kind := rapid.IntRange(0, 6).Draw(t, "kind"); {
				case now == nil && kind < 4:
					bodies = []Body{&TopicRecord{name, id}}
					for p := range int32(3) {
						bodies = append(bodies, &PartitionRecord{PartitionID: p, TopicID: id, Replicas: []int32{1, 2}, ISR: []int32{1, 2}, Leader: 1})
					}
				case now != nil && kind == 0:
					bodies = []Body{&RemoveTopicRecord{id}}
				case now != nil && kind < 4:
					c := NewPartitionChange(id, int32(rapid.IntRange(0, 2).Draw(t, "p")))
					c.ISR = []int32{int32(kind)}
					bodies = []Body{c}
				case kind == 4:
					r := &RegisterBrokerRecord{BrokerID: int32(n), BrokerEpoch: image.Offset + 1, Fenced: true}
					if b := image.Broker(int32(n)); b != nil && rapid.Bool().Draw(t, "amended") {
						r.BrokerEpoch = b.Epoch
					}
					switch rapid.IntRange(0, 3).Draw(t, "what") {
					case 0:
						r.Endpoints = []Endpoint{{Name: "A", Host: "h", Port: 1}}
					case 1:
						r.Features = []FeatureRange{{"f", 0, 1}}
					case 2:
						r.Rack = new(string)
					}
					bodies = []Body{r}
				case kind == 5:
					r := resources[rapid.IntRange(0, len(resources)-1).Draw(t, "resource")]
					c := &ConfigRecord{ResourceType: r.Type, ResourceName: r.Name, Name: rapid.SampledFrom([]string{"k", "l"}).Draw(t, "key")}
					if value := rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "value"); value != "" {
						c.Value = &value
					}
					bodies = []Body{c}
				default:
					bodies = []Body{&FeatureLevelRecord{MetadataVersionFeature, int16(20 + n)}}
				}
				var rs []Record
				for _, b := range bodies {
					rs = append(rs, Record{Body: b})
				}
				next, _, err := image.Apply(rs, image.Offset+int64(len(rs)), 1)
				if err != nil {
					t.Fatal(err)
				}
				image = next
				records++
			}
			return records
		}
		apply("before")
		old := image
		apply("after")
		var all []Record
		for r := range image.Records() {
			all = append(all, r)
		}
		fresh, _, err := Empty().Apply(all, image.Offset, image.Epoch)
		if err != nil {
			t.Fatal(err)
		}
		got, d := fresh.Since(old)
		if !got.Equal(image) || got.Offset != image.Offset {
			t.Fatal("the image is not that of the records")
		}
		if d.From != old || d.To != got {
			t.Fatal("the delta is between other images")
		}
		changedTopics := map[string]TopicDelta{}
		for _, td := range d.Topics {
			changedTopics[UUIDString(td.ID)] = td
		}
		for n := range byte(4) {
			id, _ := topic(n)
			before, now, kept := old.TopicByID(id), image.TopicByID(id), got.TopicByID(id)
			td, listed := changedTopics[UUIDString(id)]
			if listed && (td.Old != before || td.New != kept) {
				t.Fatalf("topic %d: the delta has other topics", n)
			}
			if !listed && before != kept {
				t.Fatalf("topic %d changed in silence", n)
			}
			for p := range int32(3) {
				b, k := before.Partition(p), kept.Partition(p)
				if b != nil && now.Partition(p) != nil && b.same(now.Partition(p)) != (b == k) {
					t.Fatalf("topic %d partition %d: same %v, kept %v", n, p, b.same(now.Partition(p)), b == k)
				}
			}
		}
		for id := range int32(4) {
			b, k := old.Broker(id), got.Broker(id)
			listed := false
			for _, c := range d.Brokers {
				listed = listed || c == id
			}
			if listed != (b != k) {
				t.Fatalf("broker %d: listed %v, changed %v", id, listed, b != k)
			}
		}
		for _, r := range resources {
			b, k := old.Config(r.Type, r.Name), got.Config(r.Type, r.Name)
			if listed := slices.Contains(d.Configs, r); listed == slices.Equal(b, k) {
				t.Fatalf("%s: listed %v, %v before, %v now", r, listed, b, k)
			}
		}
		if d.Features != (old.MetadataVersion() != image.MetadataVersion()) || d.Other || d.ProducerIDs {
			t.Fatalf("%+v", d)
		}
	})
}

// TestAnAmendedRegistrationIsNews: a broker that registers again in the same incarnation keeps
// its epoch, and may have moved.
func TestAnAmendedRegistrationIsNews(t *testing.T) {
	image := func(r RegisterBrokerRecord) *Image {
		r.BrokerID, r.BrokerEpoch, r.IncarnationID = 1, 5, UUID{7}
		i, _, err := Empty().Apply([]Record{{Body: &r}}, 9, 1)
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	rack := "r"
	old := image(RegisterBrokerRecord{})
	for name, r := range map[string]RegisterBrokerRecord{ //order: each by itself
		"endpoints": {Endpoints: []Endpoint{{Name: "A", Host: "moved", Port: 1}}},
		"features":  {Features: []FeatureRange{{"f", 0, 1}}},
		"rack":      {Rack: &rack},
	} {
		now := image(r)
		got, d := now.Since(old)
		if !got.Equal(now) || len(d.Brokers) != 1 {
			t.Errorf("%s: the listener keeps the old registration, and is told of %v", name, d.Brokers)
		}
	}
	if got, d := image(RegisterBrokerRecord{}).Since(old); got.Broker(1) != old.Broker(1) || len(d.Brokers) != 0 {
		t.Errorf("the same registration is told of: %v", d.Brokers)
	}
}

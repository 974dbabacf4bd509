package api

import (
	"slices"
	"testing"

	"seedlog/node/meta"
)

// A replica cannot be reached if its broker cannot, or has lost the directory that it is in.
func TestReplicasThatAreOffline(t *testing.T) {
	const listener = "PLAINTEXT"
	topic, here, gone := meta.UUID{1}, meta.UUID{7}, meta.UUID{8}
	broker := func(id int32, listener string, fenced bool) meta.Record {
		return meta.Record{Body: &meta.RegisterBrokerRecord{
			BrokerID: id, Fenced: fenced, LogDirs: []meta.UUID{here}, Endpoints: []meta.Endpoint{{Name: listener, Host: "h", Port: 1}},
		}}
	}
	image, _, err := meta.Empty().Apply([]meta.Record{
		broker(1, listener, false), broker(2, listener, true), broker(3, "OTHER", false), broker(4, listener, false), broker(5, listener, false), broker(6, listener, false),
		{Body: &meta.TopicRecord{Name: "t", TopicID: topic}},
		{Body: &meta.PartitionRecord{
			TopicID: topic, Leader: 1, ISR: []int32{1}, Replicas: []int32{1, 2, 3, 4, 5, 6, 9},
			Directories: []meta.UUID{here, here, here, gone, meta.DirLost, meta.DirUnassigned, here},
		}},
	}, 10, 1)
	if err != nil {
		t.Fatal(err)
	}
	got := offlineReplicas(image, image.Topic("t").Partition(0), listener)
	if want := []int32{2, 3, 4, 5, 9}; !slices.Equal(got, want) {
		t.Errorf("offline are %v, want %v", got, want)
	}
}

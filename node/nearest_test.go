package node_test

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fetchBeyond asks a broker for records after an offset, as a consumer that has read up to
// there in an epoch (KIP-320, KIP-392), and returns the answer for the partition.
func fetchBeyond(ctx context.Context, t *testing.T, cl *kgo.Client, broker int32, topic string, id [16]byte, offset int64, epoch int32) kmsg.FetchResponseTopicPartition {
	t.Helper()
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.Rack = 10, 0, 1<<20, "here"
	part := kmsg.NewFetchRequestTopicPartition()
	part.FetchOffset, part.CurrentLeaderEpoch, part.LastFetchedEpoch, part.PartitionMaxBytes = offset, -1, epoch, 1<<20
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = topic, id
	rt.Partitions = append(rt.Partitions, part)
	req.Topics = append(req.Topics, rt)
	resp, err := cl.Broker(int(broker)).Request(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	r := resp.(*kmsg.FetchResponse)
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		t.Fatalf("broker %d answered %+v", broker, r)
	}
	return r.Topics[0].Partitions[0]
}

// A consumer that reads from the nearest replica may have read further, elsewhere, than that
// one has copied. The leader knows that what lies beyond its end is gone; a follower does not.
func TestAFollowerThatLagsDoesNotSayThatLogsPart(t *testing.T) {
	c := newCluster(t, 3, false, nil)
	c.start()
	adm := c.admin()
	defer adm.Close()
	c.createTopic("t", 1, 3, nil)
	cl := c.client()
	defer cl.Close()
	if err := cl.ProduceSync(timeout(t), &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	c.await("in sync", func() bool { return c.inSync("t", 3) })
	got, err := adm.ListTopics(timeout(t), "t")
	if err != nil {
		t.Fatal(err)
	}
	p := got["t"].Partitions[0]
	for _, broker := range p.Replicas {
		a := fetchBeyond(timeout(t), t, cl, broker, "t", got["t"].ID, 5, p.LeaderEpoch)
		if says, leads := a.DivergingEpoch.EndOffset >= 0, broker == p.Leader; says != leads {
			t.Errorf("broker %d, which leads: %v, has one record and says of offset 5: code %d, diverging at %d", broker, leads, a.ErrorCode, a.DivergingEpoch.EndOffset)
		} else if !leads && a.ErrorCode == 0 {
			t.Errorf("broker %d answers offset 5 with no error", broker)
		}
	}
}

package node_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// request sends a request to the broker of a member.
func (m *member) request(req kmsg.Request) kmsg.Response {
	m.c.t.Helper()
	cl := m.c.client(kgo.SeedBrokers(m.broker))
	defer cl.Close()
	resp, err := cl.SeedBrokers()[0].Request(timeout(m.c.t), req)
	if err != nil {
		m.c.t.Fatalf("%s to %d: %v", kmsg.NameForKey(req.Key()), m.id, err)
	}
	return resp
}

// reassignment asks for replicas of t-0; none cancels.
func reassignment(replicas ...int32) *kmsg.AlterPartitionAssignmentsRequest {
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.TimeoutMillis = int32(patience.Milliseconds())
	p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	p.Replicas = replicas
	req.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: "t", Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{p}}}
	return req
}

// A partition moves to other brokers with all that is in it, through any broker, and who
// asks another broker right after finds the reassignment there.
func TestAPartitionMovesToOtherBrokers(t *testing.T) {
	c := newCluster(t, 3, false, nil)
	c.start()
	adm := c.admin()
	defer adm.Close()
	c.createOn("t", 1, 2)
	cl := c.client(kgo.DefaultProduceTopic("t"))
	defer cl.Close()
	for i := range 100 {
		if err := cl.ProduceSync(timeout(t), &kgo.Record{Value: fmt.Append(nil, i)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	partition := func() kadm.PartitionDetail {
		got, err := adm.ListTopics(timeout(t), "t")
		if err != nil {
			t.Fatal(err)
		}
		return got["t"].Partitions[0]
	}

	// One that is away is waited for, and can be given up.
	if err := c.members[2].stop(); err != nil {
		t.Fatal(err)
	}
	resp := c.members[0].request(reassignment(3, 2)).(*kmsg.AlterPartitionAssignmentsResponse)
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
		t.Fatal(kerr.ErrorForCode(code))
	}
	list := c.members[1].request(kmsg.NewPtrListPartitionReassignmentsRequest()).(*kmsg.ListPartitionReassignmentsResponse)
	if len(list.Topics) != 1 || !slices.Equal(list.Topics[0].Partitions[0].AddingReplicas, []int32{3}) || !slices.Equal(list.Topics[0].Partitions[0].RemovingReplicas, []int32{1}) {
		t.Errorf("%+v", list)
	}
	for want, code := range []int16{0, kerr.NoReassignmentInProgress.Code} {
		resp := c.members[1].request(reassignment()).(*kmsg.AlterPartitionAssignmentsResponse)
		if got := resp.Topics[0].Partitions[0].ErrorCode; got != code {
			t.Errorf("cancelled %d times: %v", want+1, kerr.ErrorForCode(got))
		}
	}
	c.members[2].run()
	c.members[2].ready()

	resp = c.members[1].request(reassignment(3, 2)).(*kmsg.AlterPartitionAssignmentsResponse)
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
		t.Fatal(kerr.ErrorForCode(code))
	}
	c.await("moved", func() bool {
		p := partition()
		return slices.Equal(p.Replicas, []int32{3, 2}) && len(p.ISR) == 2
	})
	elect := kmsg.NewPtrElectLeadersRequest()
	elect.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: "t", Partitions: []int32{0}}}
	code := c.members[0].request(elect).(*kmsg.ElectLeadersResponse).Topics[0].Partitions[0].ErrorCode
	if code != 0 && code != kerr.ElectionNotNeeded.Code {
		t.Error(kerr.ErrorForCode(code))
	}
	c.await("led by the preferred replica", func() bool { return partition().Leader == 3 })
	reader := c.client(kgo.ConsumeTopics("t"))
	defer reader.Close()
	for n := 0; n < 100; {
		fetches := reader.PollFetches(timeout(t))
		if err := errors.Join(errorsOf(fetches)...); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if string(r.Value) != fmt.Sprint(n) || r.Offset != int64(n) {
				t.Errorf("offset %d holds %q", r.Offset, r.Value)
			}
			n++
		})
	}
	for _, what := range []string{"reassignment-begun", "reassignment-cancelled", "reassignment-completed"} {
		if c.events.said(what, "topic=t") == 0 {
			t.Errorf("nobody told %s", what)
		}
	}
}

func errorsOf(f kgo.Fetches) (errs []error) {
	for _, e := range f.Errors() {
		errs = append(errs, e.Err)
	}
	return errs
}

// createOn creates a topic with one partition on the brokers that are named.
func (c *cluster) createOn(topic string, replicas ...int32) {
	c.t.Helper()
	c.await("brokers that are ready", func() bool {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.TimeoutMillis = int32(patience.Milliseconds())
		x := kmsg.NewCreateTopicsRequestTopic()
		x.Topic, x.NumPartitions, x.ReplicationFactor = topic, -1, -1
		x.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Replicas: replicas}}
		req.Topics = append(req.Topics, x)
		code := c.members[0].request(req).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode
		return code == 0 || code == kerr.TopicAlreadyExists.Code // by an attempt whose answer got lost
	})
}

// Feature levels are checked against every member before they are raised.
func TestFeaturesAreRaisedWhereAllServeThem(t *testing.T) {
	c := newCluster(t, 3, false, nil)
	c.start()
	update := func(level int16, dry bool) *kmsg.UpdateFeaturesResponse {
		req := kmsg.NewPtrUpdateFeaturesRequest()
		req.TimeoutMillis, req.ValidateOnly = int32(patience.Milliseconds()), dry
		u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		u.Feature, u.MaxVersionLevel, u.UpgradeType = "metadata.version", level, 1
		req.FeatureUpdates = append(req.FeatureUpdates, u)
		return c.members[2].request(req).(*kmsg.UpdateFeaturesResponse)
	}
	finalized := func() int16 {
		ask := kmsg.NewPtrApiVersionsRequest()
		ask.ClientSoftwareName, ask.ClientSoftwareVersion = "test", "1"
		v := c.members[0].request(ask).(*kmsg.ApiVersionsResponse)
		for _, f := range v.FinalizedFeatures {
			if f.Name == "metadata.version" {
				return f.MaxVersionLevel
			}
		}
		return -1
	}
	before := finalized()
	// Controllers register in their own time.
	c.await("every controller is known", func() bool { return update(27, true).ErrorCode == 0 })
	if now := finalized(); now != before {
		t.Errorf("a dry run raised %d to %d", before, now)
	}
	if r := update(28, false); r.ErrorCode != kerr.InvalidUpdateVersion.Code || r.ErrorMessage == nil {
		t.Errorf("%+v", r)
	}
	if r := update(27, false); r.ErrorCode != 0 {
		t.Errorf("%+v: %s", r, *r.ErrorMessage)
	}
	c.await("all know the new level", func() bool { return finalized() == 27 })
	gone := kmsg.NewPtrUnregisterBrokerRequest()
	gone.BrokerID = 9
	if r := c.members[0].request(gone).(*kmsg.UnregisterBrokerResponse); r.ErrorCode != kerr.BrokerIDNotRegistered.Code {
		t.Errorf("%+v", r)
	}
}

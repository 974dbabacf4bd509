package node_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Requests of the largest size that is read, made to cost as much as they can. Each is
// answered, and with what it should be.
func TestTheLargestRequestsAreAnswered(t *testing.T) {
	r := start(t, t.TempDir(), nil, nil)
	defer r.stop()
	r.createTopic("x", 3, nil)
	w := r.raw()
	for _, c := range largest() {
		began := time.Now()
		var resp kmsg.Response
		grew := peak(func() { resp = w.ask(c.req) })
		n, code := c.answer(resp)
		if n != c.answers || code != c.code {
			t.Errorf("%s: %d answers, the last with %v; want %d and %v", c.name, n, kerr.ErrorForCode(code), c.answers, kerr.ErrorForCode(c.code))
		}
		t.Logf("%s: %v, %d MB", c.name, time.Since(began), grew>>20)
		if grew > 256<<20 {
			t.Errorf("%s takes %d MB", c.name, grew>>20)
		}
	}
	r.produce("orders", "v", 10)
	values(t, r.consume("orders", 10), "v", 10)
}

// large is a request with the number of its answers and the code of the last one.
type large struct {
	name    string
	req     kmsg.Request
	answers int
	code    int16
	answer  func(kmsg.Response) (int, int16)
}

func largest() []large {
	const many = 100_000
	name := func(i int) string { return "n" + strconv.Itoa(i) }
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Version = 9
	groups := kmsg.NewPtrDescribeGroupsRequest()
	groups.Version = 5
	offsets := kmsg.NewPtrOffsetFetchRequest()
	offsets.Version = 8
	og := kmsg.NewOffsetFetchRequestGroup()
	og.Group = "g"
	ot := kmsg.NewOffsetFetchRequestGroupTopic()
	ot.Topic, ot.Partitions = "x", make([]int32, many)
	og.Topics = append(og.Topics, ot, ot)
	describe := kmsg.NewPtrDescribeConfigsRequest()
	describe.Version, describe.IncludeDocumentation, describe.IncludeSynonyms = 4, true, true
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Version, create.ValidateOnly, create.TimeoutMillis = 6, true, 60_000
	widen := kmsg.NewPtrCreatePartitionsRequest()
	widen.Version, widen.TimeoutMillis = 2, 60_000
	incremental := kmsg.NewPtrIncrementalAlterConfigsRequest()
	incremental.Version = 1
	ir := kmsg.NewIncrementalAlterConfigsRequestResource()
	ir.ResourceType = kmsg.ConfigResourceTypeBroker
	alter := kmsg.NewPtrAlterConfigsRequest()
	alter.Version = 2
	ar := kmsg.NewAlterConfigsRequestResource()
	ar.ResourceType = kmsg.ConfigResourceTypeBroker
	for i := range many {
		mt := kmsg.NewMetadataRequestTopic()
		mt.Topic = kmsg.StringPtr("x")
		metadata.Topics = append(metadata.Topics, mt)
		groups.Groups = append(groups.Groups, "g")
		if i < 50_000 { // more are refused: they could be as many topics
			dr := kmsg.NewDescribeConfigsRequestResource()
			dr.ResourceType, dr.ResourceName = kmsg.ConfigResourceTypeBroker, "1"
			describe.Resources = append(describe.Resources, dr)
		}
		ct := kmsg.NewCreateTopicsRequestTopic()
		ct.Topic, ct.NumPartitions, ct.ReplicationFactor = name(i), 9000, 1
		create.Topics = append(create.Topics, ct)
		pt := kmsg.NewCreatePartitionsRequestTopic()
		pt.Topic, pt.Count = name(i), 2
		widen.Topics = append(widen.Topics, pt)
		ic := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		ic.Name, ic.Value = name(i), kmsg.StringPtr("v")
		ir.Configs = append(ir.Configs, ic)
		ac := kmsg.NewAlterConfigsRequestResourceConfig()
		ac.Name, ac.Value = name(i), kmsg.StringPtr("v")
		ar.Configs = append(ar.Configs, ac)
	}
	offsets.Groups = append(offsets.Groups, og, og)
	incremental.Resources = append(incremental.Resources, ir)
	alter.Resources = append(alter.Resources, ar)
	policy := kerr.PolicyViolation.Code
	return []large{
		{"one topic's metadata many times", metadata, 1, 0, func(resp kmsg.Response) (int, int16) {
			list := resp.(*kmsg.MetadataResponse).Topics
			return len(list), list[len(list)-1].ErrorCode
		}},
		{"one group many times", groups, 1, kerr.NotCoordinator.Code, func(resp kmsg.Response) (int, int16) {
			list := resp.(*kmsg.DescribeGroupsResponse).Groups
			return len(list), list[len(list)-1].ErrorCode
		}},
		{"one offset many times", offsets, 1, kerr.NotCoordinator.Code, func(resp kmsg.Response) (int, int16) {
			list := resp.(*kmsg.OffsetFetchResponse).Groups
			return len(list), list[len(list)-1].ErrorCode
		}},
		{"one broker's settings many times", describe, 1, 0, func(resp kmsg.Response) (int, int16) {
			list := resp.(*kmsg.DescribeConfigsResponse).Resources
			return len(list), list[len(list)-1].ErrorCode
		}},
		{"many large topics", create, many, policy, func(resp kmsg.Response) (int, int16) {
			list := resp.(*kmsg.CreateTopicsResponse).Topics
			return len(list), list[len(list)-1].ErrorCode
		}},
		{"many topics to widen", widen, many, kerr.UnknownTopicOrPartition.Code, func(resp kmsg.Response) (int, int16) {
			list := resp.(*kmsg.CreatePartitionsResponse).Topics
			return len(list), list[len(list)-1].ErrorCode
		}},
		{"many settings", incremental, 1, policy, func(resp kmsg.Response) (int, int16) {
			list := resp.(*kmsg.IncrementalAlterConfigsResponse).Resources
			return len(list), list[len(list)-1].ErrorCode
		}},
		{"many settings, all new", alter, 1, policy, func(resp kmsg.Response) (int, int16) {
			list := resp.(*kmsg.AlterConfigsResponse).Resources
			return len(list), list[len(list)-1].ErrorCode
		}},
	}
}

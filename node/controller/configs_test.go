package controller

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/node/meta"
)

// alterOps runs "op key=value" steps against one resource in one request.
func (w *world) alterOps(t meta.ResourceType, name string, ops ...string) kmsg.IncrementalAlterConfigsResponseResource {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version = 1
	x := kmsg.NewIncrementalAlterConfigsRequestResource()
	x.ResourceType, x.ResourceName = kmsg.ConfigResourceType(t), name
	for _, op := range ops {
		verb, kv, _ := strings.Cut(op, " ")
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		key, value, hasValue := strings.Cut(kv, "=")
		c.Name, c.Op = key, map[string]kmsg.IncrementalAlterConfigOp{"set": 0, "delete": 1, "append": 2, "subtract": 3}[verb]
		if hasValue {
			c.Value = &value
		}
		x.Configs = append(x.Configs, c)
	}
	req.Resources = append(req.Resources, x)
	return w.do(req).(*kmsg.IncrementalAlterConfigsResponse).Resources[0]
}

func TestIncrementalAlterConfigs(t *testing.T) {
	w := newWorld(t, nil)
	w.start(1)
	w.create("t", 1)
	for _, c := range []struct {
		t     meta.ResourceType
		name  string
		op    string
		want  error
		after string // the resource's configuration
	}{
		{meta.TopicResource, "t", "set retention.ms=5", nil, "[{retention.ms 5}]"},
		{meta.TopicResource, "t", "set retention.ms=5", nil, "[{retention.ms 5}]"},
		{meta.TopicResource, "t", "set segment.bytes=1", kerr.InvalidConfig, "[{retention.ms 5}]"},
		{meta.TopicResource, "t", "set nope=1", kerr.InvalidConfig, "[{retention.ms 5}]"},
		{meta.TopicResource, "t", "set retention.ms", kerr.InvalidRequest, "[{retention.ms 5}]"},
		{meta.TopicResource, "t", "append retention.ms=5", kerr.InvalidConfig, "[{retention.ms 5}]"},
		{meta.TopicResource, "t", "append cleanup.policy=compact", nil, "[{cleanup.policy delete,compact} {retention.ms 5}]"},
		{meta.TopicResource, "t", "append cleanup.policy=compact", nil, "[{cleanup.policy delete,compact} {retention.ms 5}]"},
		{meta.TopicResource, "t", "subtract cleanup.policy=delete", nil, "[{cleanup.policy compact} {retention.ms 5}]"},
		{meta.TopicResource, "t", "delete cleanup.policy", nil, "[{retention.ms 5}]"},
		{meta.TopicResource, "u", "set retention.ms=5", kerr.UnknownTopicOrPartition, "[]"},
		{meta.BrokerResource, "1", "set log.cleaner.delete.retention.ms=7", nil, "[{log.cleaner.delete.retention.ms 7}]"},
		{meta.BrokerResource, "1", "set node.id=7", kerr.InvalidRequest, "[{log.cleaner.delete.retention.ms 7}]"},
		{meta.BrokerResource, "2", "set log.cleaner.delete.retention.ms=7", kerr.BrokerIDNotRegistered, "[]"},
		{meta.BrokerResource, "x", "set log.cleaner.delete.retention.ms=7", kerr.InvalidRequest, "[]"},
		{meta.BrokerResource, "1", "set min.insync.replicas=1", kerr.InvalidConfig, "[{log.cleaner.delete.retention.ms 7}]"},
		{meta.BrokerResource, "", "delete min.insync.replicas", kerr.InvalidConfig, "[{min.insync.replicas 1}]"},
		{meta.GroupResource, "g", "set consumer.session.timeout.ms=50000", nil, "[{consumer.session.timeout.ms 50000}]"},
		{meta.GroupResource, "g", "set consumer.session.timeout.ms=x", kerr.InvalidConfig, "[{consumer.session.timeout.ms 50000}]"},
		{meta.GroupResource, "g", "set other=1", kerr.InvalidConfig, "[{consumer.session.timeout.ms 50000}]"},
		{meta.ClientMetricsResource, "m", "set interval.ms=1000", nil, "[{interval.ms 1000}]"},
		{meta.ClientMetricsResource, "m", "set interval.ms=99", kerr.InvalidConfig, "[{interval.ms 1000}]"},
		{meta.ClientMetricsResource, "", "set interval.ms=1000", kerr.InvalidRequest, "[]"},
		{meta.ResourceType(3), "x", "set a=1", kerr.InvalidRequest, "[]"},
	} {
		r := w.alterOps(c.t, c.name, c.op)
		if got := kerr.ErrorForCode(r.ErrorCode); got != c.want {
			t.Errorf("%s: %v %v, want %v", c.op, got, r.ErrorMessage, c.want)
		}
		if got := fmt.Sprint(w.state.image.Config(c.t, c.name)); got != c.after {
			t.Errorf("after %q: %s, want %s", c.op, got, c.after)
		}
	}
	if r := w.alterOps(meta.TopicResource, "t", "set retention.ms=1", "set retention.ms=2"); r.ErrorCode != kerr.InvalidRequest.Code {
		t.Errorf("one key twice: %+v", r)
	}
}

func TestAValueDoesNotGrowBeyondWhatCanBeAnswered(t *testing.T) {
	w := newWorld(t, nil)
	w.start(1)
	w.create("t", 1)
	name := "follower.replication.throttled.replicas"
	list := func(n int) string { return strings.Repeat("0:1,", n) + "0:2" }
	if r := w.alterOps(meta.TopicResource, "t", "set "+name+"="+list(5000)); r.ErrorCode != 0 {
		t.Fatal(kerr.ErrorForCode(r.ErrorCode))
	}
	more := strings.Repeat("7", 20000) + ":1"
	if r := w.alterOps(meta.TopicResource, "t", "append "+name+"="+more); r.ErrorCode != kerr.InvalidConfig.Code {
		t.Errorf("%v for what is appended", kerr.ErrorForCode(r.ErrorCode))
	}
	if v, _ := w.state.image.Config(meta.TopicResource, "t").Get(name); len(v) > 1<<15-1 {
		t.Errorf("the value has %d bytes", len(v))
	}
	if x := w.do(createRequest("u", 1, 1, name+"="+list(9000))).(*kmsg.CreateTopicsResponse).Topics[0]; x.ErrorCode != kerr.InvalidConfig.Code {
		t.Errorf("%v for a new topic", kerr.ErrorForCode(x.ErrorCode))
	}
}

func TestSettingsThatAreRefusedAreNotWorkedOut(t *testing.T) {
	w := newWorld(t, nil)
	w.start(1)
	w.create("t", 1)
	name := "follower.replication.throttled.replicas"
	list := "0:1"
	for i := 2; len(list) < 32000; i++ {
		list += fmt.Sprintf(",0:%d", i)
	}
	if r := w.alterOps(meta.TopicResource, "t", "set "+name+"="+list); r.ErrorCode != 0 {
		t.Fatal(kerr.ErrorForCode(r.ErrorCode))
	}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version = 1
	for range 1000 {
		x := kmsg.NewIncrementalAlterConfigsRequestResource()
		x.ResourceType, x.ResourceName = kmsg.ConfigResourceTypeTopic, "t"
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Op, c.Value = name, kmsg.IncrementalAlterConfigOpAppend, &w.state.clusterID
		x.Configs = append(x.Configs, c)
		req.Resources = append(req.Resources, x)
	}
	if n := testing.AllocsPerRun(1, func() { w.do(req) }); n > 20000 {
		t.Errorf("%.0f allocations for 1,000 resources that are one", n)
	}
}

func TestASmallRequestForSettingsMakesNoHugeBatch(t *testing.T) {
	w := newWorld(t, nil)
	w.start(1)
	ops := make([]string, 9000)
	for i := range ops {
		ops[i] = fmt.Sprint("delete ", i)
	}
	before := len(w.log)
	r := w.alterOps(meta.BrokerResource, strings.Repeat("0", 30000)+"1", ops...)
	if r.ErrorCode != kerr.PolicyViolation.Code {
		t.Errorf("%v", kerr.ErrorForCode(r.ErrorCode))
	}
	size := 0
	for _, rec := range w.log[before:] {
		size += len(meta.AppendRecord(nil, rec))
	}
	if size > 8<<20 {
		t.Errorf("%d bytes in one batch", size)
	}
	if r := w.alterOps(meta.BrokerResource, "1", ops...); r.ErrorCode != 0 {
		t.Errorf("%v", kerr.ErrorForCode(r.ErrorCode))
	}
}

func TestAlterConfigsReplacesWhatItDoesNotName(t *testing.T) {
	w := newWorld(t, nil)
	w.start(1)
	w.create("t", 1)
	w.alterOps(meta.TopicResource, "t", "set retention.ms=5", "set retention.bytes=6")
	req := kmsg.NewPtrAlterConfigsRequest()
	x := kmsg.NewAlterConfigsRequestResource()
	x.ResourceType, x.ResourceName = kmsg.ConfigResourceTypeTopic, "t"
	c := kmsg.NewAlterConfigsRequestResourceConfig()
	value := "7"
	c.Name, c.Value = "retention.bytes", &value
	x.Configs = append(x.Configs, c)
	req.Resources = append(req.Resources, x)
	req.ValidateOnly = true
	w.do(req)
	if got := fmt.Sprint(w.state.image.Config(meta.TopicResource, "t")); got != "[{retention.bytes 6} {retention.ms 5}]" {
		t.Errorf("validate only: %s", got)
	}
	req.ValidateOnly = false
	w.do(req)
	if got := fmt.Sprint(w.state.image.Config(meta.TopicResource, "t")); got != "[{retention.bytes 7}]" {
		t.Errorf("%s", got)
	}
	req.Resources = append(req.Resources, req.Resources[0])
	for _, r := range w.do(req).(*kmsg.AlterConfigsResponse).Resources {
		if r.ErrorCode != kerr.InvalidRequest.Code {
			t.Errorf("one resource twice: %+v", r)
		}
	}
}

func TestALowerMinISRClearsTheELR(t *testing.T) {
	w := newWorld(t, map[string]string{"min.insync.replicas": "2"})
	w.start(2)
	w.create("t", 1, 2)
	w.heartbeat(2, func(r *kmsg.BrokerHeartbeatRequest) { r.WantFence = true })
	w.want("t", "leader=1 isr=[1] elr=[2] last=[] recovering=0")
	w.alterOps(meta.TopicResource, "t", "set min.insync.replicas=1")
	w.want("t", "leader=1 isr=[1] elr=[] last=[] recovering=0")
}

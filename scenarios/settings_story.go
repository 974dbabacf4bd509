package scenarios

import (
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/scenarios/client"
)

// manySettings: no request makes settings that cannot be told any more, or more of them than fit
// into a batch that others can fetch.
func manySettings(r *Run) {
	const name, topic, broker = "follower.replication.throttled.replicas", kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker
	tell(r, func(s *story) {
		s.topic("t", 1)
		long := strings.Repeat("1:1,", 5000) + "1:1"
		s.client("append to a long list", func(t *task.T, p *client.Plain) {
			s.code(s.change(t, p, topic, "t", kmsg.IncrementalAlterConfigOpSet, long, name), nil, "set")
			more := "2:" + strings.Repeat("2", 20000)
			s.code(s.change(t, p, topic, "t", kmsg.IncrementalAlterConfigOpAppend, more, name), kerr.InvalidConfig, "append")
			req := kmsg.NewPtrDescribeConfigsRequest()
			req.Version = 3 // the last one whose strings have two bytes for their length
			res := kmsg.NewDescribeConfigsRequestResource()
			res.ResourceType, res.ResourceName, res.ConfigNames = topic, "t", []string{name}
			req.Resources = append(req.Resources, res)
			resp, err := p.Call(t, req)
			if s.ok(err, "describe") {
				got := resp.(*kmsg.DescribeConfigsResponse).Resources[0].Configs
				s.must(len(got) == 1 && got[0].Value != nil && *got[0].Value == long, "codes", "the list that was set is another")
			}
		})
		s.client("delete settings that there are not", func(t *task.T, p *client.Plain) {
			var names []string
			for i := range 9000 {
				names = append(names, strconv.Itoa(i))
			}
			id := strings.Repeat("0", 20000) + "1"
			s.code(s.change(t, p, broker, id, kmsg.IncrementalAlterConfigOpDelete, "", names...), kerr.PolicyViolation, "delete")
		})
	})
}

// change does the same to each of the named settings of a resource.
func (s *story) change(t *task.T, p *client.Plain, kind kmsg.ConfigResourceType, resource string, op kmsg.IncrementalAlterConfigOp, value string, names ...string) int16 {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version = 1
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kind, resource
	for _, name := range names {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Op = name, op
		if op != kmsg.IncrementalAlterConfigOpDelete {
			c.Value = &value
		}
		res.Configs = append(res.Configs, c)
	}
	req.Resources = append(req.Resources, res)
	resp, err := p.Call(t, req)
	if !s.ok(err, "alter") {
		return -1
	}
	return resp.(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode
}

package api

import (
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/node/conn"
)

// A compact string says its length in as many bytes as it takes, a record's in two. What would
// not fit is refused wherever it stands in a request of which something gets into records.
func TestStringsThatFitIntoNoRecordAreRefused(t *testing.T) {
	commit := func(group, metadata string) kmsg.Request {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Version, req.Group = 8, group
		rt := kmsg.NewOffsetCommitRequestTopic()
		rt.Topic = "t"
		rp := kmsg.NewOffsetCommitRequestTopicPartition()
		rp.Metadata = &metadata
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		return req
	}
	join := func(protocol, reason string) kmsg.Request {
		req := kmsg.NewPtrJoinGroupRequest()
		req.Version, req.Reason = 8, &reason
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name = protocol
		req.Protocols = append(req.Protocols, p)
		return req
	}
	sync := func(instance string) kmsg.Request {
		req := kmsg.NewPtrSyncGroupRequest()
		req.Version, req.InstanceID = 4, &instance
		return req
	}
	fits, long := strings.Repeat("x", textMax), strings.Repeat("x", textMax+1)
	for _, c := range []struct {
		name string
		req  kmsg.Request
		want error
	}{
		{"the longest that fit", commit(fits, fits), nil},
		{"the same of another request", join(fits, fits), nil},
		{"a string", commit(long, ""), errLongText},
		{"a string that may be null, in an array in an array", commit("", long), errLongText},
		{"a string in an array", join(long, ""), errLongText},
		{"a string behind an array", join("", long), errLongText},
		{"a string that may be null", sync(long), errLongText},
	} {
		e := serviceOf(t, Broker).entry(c.req.Key())
		r := &conn.Request{Key: c.req.Key(), Version: c.req.GetVersion(), Body: c.req.AppendTo(nil)}
		if _, err := e.cost(r); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

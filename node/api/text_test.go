package api

import (
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/node/conn"
)

// A compact string says its length in as many bytes as it takes, a record's in two. What would
// not fit is refused wherever it stands in a request.
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
	fits, long := strings.Repeat("x", textMax), strings.Repeat("x", textMax+1)
	keys := kmsg.NewPtrFindCoordinatorRequest()
	keys.Version, keys.CoordinatorKeys = 4, []string{"a", long}
	for _, c := range []struct {
		name string
		req  kmsg.Request
		want error
	}{
		{"the longest that fit", commit(fits, fits), nil},
		{"a string", commit(long, ""), errLongText},
		{"a string that may be null, in an array in an array", commit("", long), errLongText},
		{"one of an array", keys, errLongText},
	} {
		e := serviceOf(t, Broker).entry(c.req.Key())
		req := kmsg.RequestForKey(c.req.Key())
		req.SetVersion(c.req.GetVersion())
		r := &conn.Request{Key: c.req.Key(), Version: c.req.GetVersion(), Body: c.req.AppendTo(nil)}
		if err := e.read(req, r); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

package group

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A name that leaves no room for the rest of a member's id in a record is cut, and the member
// is as good as any.
func TestMembersOfLongNamesFitIntoARecord(t *testing.T) {
	long := strings.Repeat("c", textMax)
	// In the second the cut would fall within a letter.
	for _, name := range []string{long, long[:textMax-uuidLen-3] + strings.Repeat("ü", 19)} {
		for _, instance := range []*string{nil, &name} {
			h := newHost(t, DefaultConfig(), 1)
			member := ""
			h.onReply = func(_ Ticket, msg any) {
				if r, ok := msg.(*kmsg.JoinGroupResponse); ok && r.ErrorCode == 0 {
					member = r.MemberID
				}
			}
			req := kmsg.NewPtrJoinGroupRequest()
			req.Version, req.Group, req.ProtocolType = 3, "g", consumerType
			req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10_000, 10_000
			req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte{}}}
			if instance != nil {
				req.Version, req.InstanceID = 5, instance
			}
			h.do(Join{Ticket: h.ticket("join"), ClientID: name, Req: req})
			h.advance(3 * time.Second)
			if len(member) > textMax || len(member) < textMax-1 || !strings.HasPrefix(member, name[:textMax-uuidLen-3]) {
				t.Errorf("a name of %d bytes makes a member id of %d", len(name), len(member))
			}
			if g := h.shard.groups["g"]; g == nil || g.state != CompletingRebalance || g.byID[member] == nil {
				t.Errorf("the member of a name of %d bytes is not in its group", len(name))
			}
		}
	}
}

package api

// JoinGroup: a member takes part in the next generation of its group.
//
//	1  rebalance time-out     2  throttle time      4  MEMBER_ID_REQUIRED (KIP-394)
//	5  static membership      6  flexible           7  protocol type
//	8  reason                 9  skip assignment
//
// The reply comes when the generation is made, which may take as long as the group's
// longest rebalance time-out.

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
	"seedlog/node/group"
)

func (s *Service) joinGroup(t *task.T, r *conn.Request, req *kmsg.JoinGroupRequest) kmsg.Response {
	join := group.Join{ClientID: clientID(r), ClientHost: clientHost(r), Req: req}
	msg, code := s.Groups.Do(t, req.Group, func(k group.Ticket) group.Command {
		join.Ticket = k
		return join
	})
	if code != 0 {
		resp := kmsg.NewPtrJoinGroupResponse()
		resp.ErrorCode, resp.Generation, resp.MemberID, resp.Protocol = code, -1, req.MemberID, ptr("")
		return resp
	}
	return msg.(*kmsg.JoinGroupResponse)
}

// clientHost is the peer's address in the form that Java gives it, "/127.0.0.1".
func clientHost(r *conn.Request) string {
	addr := r.Conn.RemoteAddr()
	if i := strings.LastIndexByte(addr, ':'); i >= 0 {
		addr = addr[:i]
	}
	return "/" + strings.Trim(addr, "[]")
}

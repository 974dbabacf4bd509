package api

// LeaveGroup: members leave, or an administrator removes them.
//
//	1  throttle time    3  several members, static ones by instance    4  flexible
//	5  reason

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
	"seedlog/node/group"
)

func (s *Service) leaveGroup(t *task.T, r *conn.Request, req *kmsg.LeaveGroupRequest) kmsg.Response {
	msg, code := s.Groups.Do(t, req.Group, func(k group.Ticket) group.Command { return group.Leave{Ticket: k, Req: req} })
	if code != 0 {
		resp := kmsg.NewPtrLeaveGroupResponse()
		resp.ErrorCode = code
		return resp
	}
	return msg.(*kmsg.LeaveGroupResponse)
}

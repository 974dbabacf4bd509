package api

// SyncGroup: the leader hands the assignment over, the others fetch theirs.
//
//	1  throttle time    3  static membership    4  flexible
//	5  protocol type and name, which must be there

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
	"seedlog/node/group"
)

func (s *Service) syncGroup(t *task.T, r *conn.Request, req *kmsg.SyncGroupRequest) kmsg.Response {
	msg, code := s.Groups.Do(t, req.Group, func(k group.Ticket) group.Command { return group.Sync{Ticket: k, Req: req} })
	if code != 0 {
		resp := kmsg.NewPtrSyncGroupResponse()
		resp.ErrorCode, resp.MemberAssignment = code, []byte{}
		return resp
	}
	return msg.(*kmsg.SyncGroupResponse)
}

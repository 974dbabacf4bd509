package api

// Heartbeat: a member is alive, and learns of a rebalance.
//
//	1  throttle time    3  static membership    4  flexible
//
// While the coordinator loads it answers without an error: the member's session begins
// anew when it has loaded.

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
	"seedlog/node/group"
)

func (s *Service) heartbeat(t *task.T, r *conn.Request, req *kmsg.HeartbeatRequest) kmsg.Response {
	msg, code := s.Groups.Do(t, req.Group, func(k group.Ticket) group.Command { return group.Heartbeat{Ticket: k, Req: req} })
	if code != 0 {
		resp := kmsg.NewPtrHeartbeatResponse()
		if code != kerr.CoordinatorLoadInProgress.Code {
			resp.ErrorCode = code
		}
		return resp
	}
	return msg.(*kmsg.HeartbeatResponse)
}

package api

// ListGroups: the groups that this broker coordinates.
//
//	1  throttle time    3  flexible    4  states, and a filter by them
//	5  types, and a filter by them

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
	"seedlog/node/group"
)

func (s *Service) listGroups(t *task.T, r *conn.Request, req *kmsg.ListGroupsRequest) kmsg.Response {
	resp := kmsg.NewPtrListGroupsResponse()
	msgs, code := s.Groups.All(t, func(k group.Ticket) group.Command { return group.List{Ticket: k, Req: req} })
	if code != 0 {
		resp.ErrorCode = code
		return resp
	}
	for _, msg := range msgs {
		resp.Groups = append(resp.Groups, msg.(*kmsg.ListGroupsResponse).Groups...)
	}
	return resp
}

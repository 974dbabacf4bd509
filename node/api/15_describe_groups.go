package api

// DescribeGroups: state, members and assignments of groups.
//
//	1  throttle time    3  authorized operations    4  static membership    5  flexible
//	6  GROUP_ID_NOT_FOUND with a message, where earlier versions say Dead
//
// A group that is named again is answered once: three bytes would become a whole group.

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
	"seedlog/node/group"
)

const describeGroupsNotFound = 6

// allGroupOperations are read, delete, describe, describe configs and alter configs.
const allGroupOperations = 1<<3 | 1<<6 | 1<<8 | 1<<10 | 1<<11

func (s *Service) describeGroups(t *task.T, r *conn.Request, req *kmsg.DescribeGroupsRequest) kmsg.Response {
	resp := kmsg.NewPtrDescribeGroupsResponse()
	seen := make(map[string]bool)
	for _, id := range req.Groups {
		if !seen[id] {
			seen[id] = true
			resp.Groups = append(resp.Groups, s.describeGroup(t, id, req))
		}
	}
	return resp
}

func (s *Service) describeGroup(t *task.T, id string, req *kmsg.DescribeGroupsRequest) kmsg.DescribeGroupsResponseGroup {
	msg, code := s.Groups.Do(t, id, func(k group.Ticket) group.Command { return group.Describe{Ticket: k, Group: id} })
	if code != 0 {
		g := kmsg.NewDescribeGroupsResponseGroup()
		g.Group, g.ErrorCode, g.AuthorizedOperations = id, code, operationsOmitted
		return g
	}
	d := msg.(group.DescribeReply)
	g := d.Group
	if !d.Found && req.Version >= describeGroupsNotFound {
		g.ErrorCode, g.ErrorMessage = kerr.GroupIDNotFound.Code, ptr(fmt.Sprintf("Group %s not found.", id))
	}
	if req.IncludeAuthorizedOperations && g.ErrorCode == 0 {
		g.AuthorizedOperations = allGroupOperations
	}
	return g
}

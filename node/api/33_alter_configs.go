package api

// AlterConfigs: replaces all overrides of a resource.
//
//	0-1  the same     2  flexible

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
)

// alterConfigsMaxMs is how long the requests wait for the controller that carry no time-out
// of their own.
const alterConfigsMaxMs = 30_000

func (s *Service) alterConfigs(t *task.T, r *conn.Request, req *kmsg.AlterConfigsRequest) kmsg.Response {
	resp, err := s.propose(t, r, req, alterConfigsMaxMs)
	if err == nil {
		return resp
	}
	out := kmsg.NewPtrAlterConfigsResponse()
	for _, res := range req.Resources {
		failed := kmsg.NewAlterConfigsResponseResource()
		failed.ResourceType, failed.ResourceName = res.ResourceType, res.ResourceName
		failed.ErrorCode, failed.ErrorMessage = errorCode(err), ptr(err.Error())
		out.Resources = append(out.Resources, failed)
	}
	return out
}

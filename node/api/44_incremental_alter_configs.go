package api

// IncrementalAlterConfigs: sets, deletes, appends to and subtracts from single overrides.
//
//	0  not flexible     1  flexible

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
)

func (s *Service) incrementalAlterConfigs(t *task.T, r *conn.Request, req *kmsg.IncrementalAlterConfigsRequest) kmsg.Response {
	resp, err := s.propose(t, r, req, alterConfigsMaxMs)
	if err == nil {
		return resp
	}
	out := kmsg.NewPtrIncrementalAlterConfigsResponse()
	for _, res := range req.Resources {
		failed := kmsg.NewIncrementalAlterConfigsResponseResource()
		failed.ResourceType, failed.ResourceName = res.ResourceType, res.ResourceName
		failed.ErrorCode, failed.ErrorMessage = errorCode(err), ptr(err.Error())
		out.Resources = append(out.Resources, failed)
	}
	return out
}

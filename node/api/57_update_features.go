package api

// UpdateFeatures: raises or lowers finalized feature levels (KIP-584).
//
//	0  flexible     1  kinds of downgrade, validate_only     2  no result per feature

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
)

func (s *Service) updateFeatures(t *task.T, r *conn.Request, req *kmsg.UpdateFeaturesRequest) kmsg.Response {
	resp, err := s.propose(t, r, req, req.TimeoutMillis)
	if err == nil {
		return resp
	}
	out := kmsg.NewPtrUpdateFeaturesResponse()
	out.ErrorCode, out.ErrorMessage = errorCode(err), ptr(err.Error())
	return out
}

package api

// ControllerRegistration: where a controller listens and what it supports (KIP-919). Only
// on the controller's listener.
//
//	0  flexible

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
)

func (s *Service) controllerRegistration(t *task.T, r *conn.Request, req *kmsg.ControllerRegistrationRequest) kmsg.Response {
	return s.decide(t, r, req, func(code int16) kmsg.Response {
		out := kmsg.NewPtrControllerRegistrationResponse()
		out.ErrorCode = code
		return out
	})
}

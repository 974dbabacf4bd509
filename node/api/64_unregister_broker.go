package api

// UnregisterBroker: forgets a broker that will not come back.
//
//	0  flexible

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
)

func (s *Service) unregisterBroker(t *task.T, r *conn.Request, req *kmsg.UnregisterBrokerRequest) kmsg.Response {
	resp, err := s.propose(t, r, req, decideMaxMs)
	if err == nil {
		return resp
	}
	out := kmsg.NewPtrUnregisterBrokerResponse()
	out.ErrorCode, out.ErrorMessage = errorCode(err), ptr(err.Error())
	return out
}

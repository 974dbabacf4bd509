package api

// BrokerRegistration: an incarnation of a broker asks for its epoch. Only on the
// controller's listener.
//
//	0  flexible     1  whether it comes from ZooKeeper     2  log directories (KIP-858)
//	3  the epoch before a clean stop (KIP-966)             4  levels of a feature from 0 on

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
)

func (s *Service) brokerRegistration(t *task.T, r *conn.Request, req *kmsg.BrokerRegistrationRequest) kmsg.Response {
	return s.decide(t, r, req, func(code int16) kmsg.Response {
		out := kmsg.NewPtrBrokerRegistrationResponse()
		out.ErrorCode, out.BrokerEpoch = code, -1
		return out
	})
}

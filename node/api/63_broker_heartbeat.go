package api

// BrokerHeartbeat: a broker is there, and says what it wants. Only on the controller's
// listener.
//
//	0  flexible     1  directories that failed (KIP-858)     2  cordoned directories (KIP-1066)
//
// Cordoned directories take a metadata.version that is not served yet; until then the
// controller has no place to keep them, and they are passed over as in Kafka.

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
)

func (s *Service) brokerHeartbeat(t *task.T, r *conn.Request, req *kmsg.BrokerHeartbeatRequest) kmsg.Response {
	return s.decide(t, r, req, func(code int16) kmsg.Response {
		out := kmsg.NewPtrBrokerHeartbeatResponse()
		out.ErrorCode, out.IsFenced = code, true
		return out
	})
}

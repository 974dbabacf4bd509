package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
)

// controllerEntries lists the keys that only a controller decides, on its own listener and,
// passed on, on those of brokers. Their handlers stand in the files of their keys.
func controllerEntries() []entry {
	return []entry{
		{key: 43, at: both, min: 0, max: 2, maxFrame: mediumFrame, handle: on((*Service).electLeaders)},
		{key: 45, at: both, min: 0, max: 1, maxFrame: mediumFrame, handle: on((*Service).alterReassignments)},
		{key: 46, at: both, min: 0, max: 0, maxFrame: mediumFrame, handle: on((*Service).listReassignments)},
		{key: 56, at: Controller, min: 2, max: 3, maxFrame: largeFrame, handle: on((*Service).alterPartition)},
		{key: 57, at: both, min: 0, max: 2, maxFrame: smallFrame, handle: on((*Service).updateFeatures)},
		{key: 62, at: Controller, min: 0, max: 4, maxFrame: smallFrame, handle: on((*Service).brokerRegistration)},
		{key: 63, at: Controller, min: 0, max: 2, maxFrame: smallFrame, handle: on((*Service).brokerHeartbeat)},
		{key: 64, at: both, min: 0, max: 0, maxFrame: smallFrame, handle: on((*Service).unregisterBroker)},
		{key: 67, at: Controller, min: 0, max: 0, maxFrame: smallFrame, handle: on((*Service).allocateProducerIDs)},
		{key: 70, at: Controller, min: 0, max: 0, maxFrame: smallFrame, handle: on((*Service).controllerRegistration)},
		{key: 73, at: Controller, min: 0, max: 0, maxFrame: largeFrame, handle: on((*Service).assignReplicasToDirs)},
	}
}

// decideMaxMs is how long a request waits for the controller that carries no time-out of its
// own.
const decideMaxMs = 30_000

// decide has this node's controller decide what a broker asks. Without a decision the answer
// is refuse's, with a code that sends the broker to whoever leads the quorum now.
func (s *Service) decide(t *task.T, r *conn.Request, req kmsg.Request, refuse func(code int16) kmsg.Response) kmsg.Response {
	resp, _, err := s.ask(t, r, req, t.Now().Add(millis(decideMaxMs)))
	if err != nil {
		return refuse(errorCode(err))
	}
	return resp
}

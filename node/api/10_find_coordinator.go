package api

// FindCoordinator: which broker coordinates a group.
//
//	0  groups    1  key types, throttle time, error message    3  flexible
//	4  several keys    5  TRANSACTION_ABORTABLE    6  share groups
//
// It creates __consumer_offsets when the first group is looked for. There is no transaction
// coordinator yet: COORDINATOR_NOT_AVAILABLE. Share groups are not served: INVALID_REQUEST.

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
	"seedlog/node/coord"
)

const (
	findCoordinatorKeys = 4

	coordinatorGroup       = 0
	coordinatorTransaction = 1
)

func (s *Service) findCoordinator(t *task.T, r *conn.Request, req *kmsg.FindCoordinatorRequest) kmsg.Response {
	resp := kmsg.NewPtrFindCoordinatorResponse()
	// Once, however many groups are asked for: it may take seconds, and fail.
	if req.CoordinatorType == coordinatorGroup && s.Image().Topic(coord.Topic) == nil {
		s.CreateMissing(t, []string{coord.Topic})
	}
	if req.Version < findCoordinatorKeys {
		c := s.coordinatorOf(r, req.CoordinatorType, req.CoordinatorKey)
		resp.ErrorCode, resp.ErrorMessage = c.ErrorCode, c.ErrorMessage
		resp.NodeID, resp.Host, resp.Port = c.NodeID, c.Host, c.Port
		return resp
	}
	seen := make(map[string]bool) // a key that is named again is answered once
	for _, key := range req.CoordinatorKeys {
		if seen[key] {
			continue
		}
		seen[key] = true
		resp.Coordinators = append(resp.Coordinators, s.coordinatorOf(r, req.CoordinatorType, key))
	}
	return resp
}

func (s *Service) coordinatorOf(r *conn.Request, kind int8, key string) kmsg.FindCoordinatorResponseCoordinator {
	c := kmsg.NewFindCoordinatorResponseCoordinator()
	c.Key, c.NodeID, c.Port = key, -1, -1
	fail := func(e *kerr.Error) kmsg.FindCoordinatorResponseCoordinator {
		c.ErrorCode, c.ErrorMessage = e.Code, ptr(e.Description)
		return c
	}
	switch kind {
	case coordinatorGroup:
	case coordinatorTransaction:
		return fail(kerr.CoordinatorNotAvailable)
	default:
		return fail(kerr.InvalidRequest)
	}
	image := s.Image()
	topic := image.Topic(coord.Topic)
	if topic == nil {
		return fail(kerr.CoordinatorNotAvailable)
	}
	p := topic.Partition(coord.Partition(key, int32(len(topic.Partitions))))
	if p == nil {
		return fail(kerr.CoordinatorNotAvailable)
	}
	e, b, ok := aliveBroker(image, p.Leader, r.Conn.Listener())
	if !ok {
		return fail(kerr.CoordinatorNotAvailable)
	}
	c.NodeID, c.Host, c.Port = b.ID, e.Host, int32(e.Port)
	return c
}

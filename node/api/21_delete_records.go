package api

// DeleteRecords: moves a partition's start; -1 moves it to the high watermark. The answer
// comes when every living replica's log starts there, or when the time is up.
//
//	0-1  the same     2  flexible

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/node/conn"
	"seedlog/node/meta"
	"seedlog/node/replica"
)

// deleteOp is one DeleteRecords request. It waits for the low watermarks.
type deleteOp struct {
	parts   []*deletePart
	delayed replica.Delayed
	woken   task.Signal
}

// deletePart is one partition's share.
type deletePart struct {
	part   *replica.Partition // nil: nothing to wait for
	before int64              // what the low watermark has to reach
	low    int64
	code   int16
}

func (s *Service) deleteRecords(t *task.T, r *conn.Request, req *kmsg.DeleteRecordsRequest) kmsg.Response {
	image := s.Image()
	op := new(deleteOp)
	for _, topic := range req.Topics {
		for _, p := range topic.Partitions {
			op.parts = append(op.parts, s.deleteBefore(t, image, topic.Topic, p.Partition, p.Offset))
		}
	}
	if !op.Ready() {
		op.wait(t, s, r.Received.Add(millis(int64(max(req.TimeoutMillis, 0)))))
	}
	resp := kmsg.NewPtrDeleteRecordsResponse()
	next := 0
	for _, topic := range req.Topics {
		out := kmsg.NewDeleteRecordsResponseTopic()
		out.Topic = topic.Topic
		for _, p := range topic.Partitions {
			answer := kmsg.NewDeleteRecordsResponseTopicPartition()
			answer.Partition = p.Partition
			answer.LowWatermark, answer.ErrorCode = op.parts[next].answer()
			out.Partitions = append(out.Partitions, answer)
			next++
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

// deleteBefore moves the start of one log.
func (s *Service) deleteBefore(t *task.T, image *meta.Image, topic string, index int32, offset int64) *deletePart {
	failed := func(code int16) *deletePart { return &deletePart{low: -1, code: code} }
	if isInternal(topic) {
		return failed(kerr.InvalidTopicException.Code)
	}
	part, code := s.byName(image, topic, index)
	if code != 0 {
		return failed(code)
	}
	if _, err := part.LeaderEpoch(-1); err != nil {
		return failed(errorCode(err))
	}
	if !part.Settings().CleanupDelete {
		return failed(kerr.PolicyViolation.Code)
	}
	start, err := part.Log().DeleteRecords(t, offset)
	if err != nil {
		return failed(errorCode(err))
	}
	return &deletePart{part: part, before: start, low: -1}
}

// look finds out whether the partition has its answer.
func (p *deletePart) look() (low int64, code int16, done bool) {
	if p.part == nil {
		return p.low, p.code, true
	}
	low, err := p.part.LowWatermark()
	if err != nil {
		return -1, errorCode(err), true
	}
	return low, 0, low >= p.before
}

func (p *deletePart) answer() (low int64, code int16) {
	low, code, done := p.look()
	if !done {
		return low, kerr.RequestTimedOut.Code
	}
	return low, code
}

func (op *deleteOp) wait(t *task.T, s *Service, until clock.Instant) {
	op.woken.Init(s.RT, "api.deleteOp")
	var lists []*replica.Watchers
	for _, p := range op.parts {
		if p.part != nil {
			lists = append(lists, &p.part.Committed)
		}
	}
	seen := op.woken.Generation()
	s.Replicas.Purgatory().Watch(&op.delayed, op, until, lists...)
	op.woken.Wait(t, seen, clock.Never)
}

// Ready implements replica.Operation.
func (op *deleteOp) Ready() bool {
	for _, p := range op.parts {
		if _, _, done := p.look(); !done {
			return false
		}
	}
	return true
}

// Complete implements replica.Operation.
func (op *deleteOp) Complete(bool) { op.woken.Raise() }

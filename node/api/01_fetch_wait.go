package api

// A Fetch that waits: for bytes that the asker may read, for a change of leadership, or for
// its time to be up.

import (
	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/node/conn"
	"seedlog/storage"
)

// release gives the pins of a read back that is not answered with.
func (op *fetchOp) release() {
	for i := range op.targets {
		op.results[i].data.Release()
	}
}

// leaveFrame lets go of the frame before the first wait: others wait for its memory. The names in it
// were looked up already.
func (op *fetchOp) leaveFrame(r *conn.Request, reply *conn.Reply) {
	if r.Body == nil {
		return
	}
	for i := range op.parts {
		op.parts[i].name = nil
	}
	for i := range op.forgotten {
		op.forgotten[i].name = nil
	}
	op.rackKept = append(op.rackKept[:0], op.rack...)
	op.rack = op.rackKept
	reply.ReleaseBody()
}

// wait parks until there may be enough to read, or the deadline. It reports false if the
// node stops.
func (op *fetchOp) wait(t *task.T, deadline clock.Instant) bool {
	op.watch = op.watch[:0]
	for i := range op.targets {
		if p := op.targets[i].part; p != nil {
			op.watch = append(op.watch, &p.Appended)
		}
	}
	seen := op.woken.Generation()
	op.s.Replicas.Purgatory().Watch(&op.delayed, op, deadline, op.watch...)
	return op.woken.Wait(t, seen, clock.Never) != task.Stopping
}

// Ready implements replica.Operation: enough was appended since the last read, as far as
// it can be read, or a partition is not led any more.
func (op *fetchOp) Ready() bool {
	more := int64(0)
	for i := range op.targets {
		target := &op.targets[i]
		if target.part == nil {
			continue
		}
		if !target.part.ServesStill(target.epoch, target.leads) {
			return true
		}
		end := op.readable(target)
		switch {
		case end <= target.end, target.muted:
		case target.hidden:
			return true // how much of it became readable is not counted: look
		default:
			more += target.part.BytesAppended() - target.bytes
		}
	}
	return more >= op.need
}

// readable is the end of what the asker may read now.
func (op *fetchOp) readable(target *fetchTarget) int64 {
	log := target.part.Log()
	switch op.bound(target) {
	case storage.ToLogEnd:
		return log.LogEndOffset()
	case storage.ToSynced:
		return log.SyncedEnd()
	case storage.ToLastStable:
		return log.LastStableOffset()
	}
	return log.HighWatermark()
}

// Complete implements replica.Operation: it lets the request's task go on.
func (op *fetchOp) Complete(expired bool) { op.woken.Raise() }

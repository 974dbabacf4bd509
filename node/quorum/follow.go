package quorum

import (
	"errors"
	"fmt"

	"seedlog/clock/task"
	"seedlog/node/raft"
	"seedlog/storage/record"
)

// errFetched: the leader sent what this log cannot take.
var errFetched = errors.New("records that the leader sent")

// appendFetched appends the records of the response being stepped, syncs them, and tells the
// core what they say. Nothing is appended before all of it was looked at.
func (h *Host) appendFetched(t *task.T) error {
	batches, controls, err := h.checkFetched(h.fetched)
	if err != nil {
		h.emit(BadRecords{Leader: h.following().LeaderID, Err: err})
		h.todo = append(h.todo, raft.AppendFailed{})
		return nil
	}
	if _, err := h.log.AppendFollower(t, batches); err != nil {
		return err
	}
	for _, c := range controls {
		if err := h.noteAppended(c.offset, c.value); err != nil {
			return err
		}
	}
	return h.sync(t)
}

// control is a control record in a fetched batch.
type control struct {
	offset int64
	value  record.ControlValue
}

// checkFetched returns the whole batches at the beginning of b, and the control records in
// them. They have to follow on the log's end, their epochs on its last, up to the present
// one: what a later leader wrote is for the log that knows it (KAFKA-18723).
func (h *Host) checkFetched(b []byte) (batches []byte, controls []control, err error) {
	next := h.log.LogEndOffset()
	_, latest := raftLog{h}.End()
	it := record.NewBatches(b)
	n := 0
	for it.Next() {
		head := it.Header()
		switch {
		case head.BaseOffset != next || head.LastOffsetDelta < 0:
			err = fmt.Errorf("%w: offset %d where %d is next", errFetched, head.BaseOffset, next)
		case head.LeaderEpoch < latest || head.LeaderEpoch > h.core.Epoch():
			err = fmt.Errorf("%w: epoch %d at offset %d, after %d and in epoch %d", errFetched, head.LeaderEpoch, next, latest, h.core.Epoch())
		default:
			err = record.CheckCRC(it.Bytes())
		}
		if err == nil && head.IsControl() {
			err = eachControl(it.Bytes(), func(offset int64, v record.ControlValue) error {
				controls = append(controls, control{offset, v})
				return nil
			})
		}
		if err != nil {
			return nil, nil, err
		}
		next, latest = head.NextOffset(), head.LeaderEpoch
		n += len(it.Bytes())
	}
	if it.Err() != nil {
		return nil, nil, fmt.Errorf("%w: %w", errFetched, it.Err())
	}
	if n == 0 {
		return nil, nil, fmt.Errorf("%w: no whole batch in %d bytes", errFetched, len(b))
	}
	return b[:n], controls, nil
}

// truncate cuts the log where it parts from the leader's. That is never below what is
// committed: this node, or the leader, has lost what it must not have lost.
func (h *Host) truncate(t *task.T, offset int64) error {
	if offset < h.replayed.to {
		return fmt.Errorf("%w: cutting %s at offset %d, and all below %d is committed", ErrLost, h.path, offset, h.replayed.to)
	}
	h.emit(Truncated{From: h.log.LogEndOffset(), To: offset})
	if err := h.log.TruncateTo(t, offset); err != nil {
		return err
	}
	return h.sync(t)
}

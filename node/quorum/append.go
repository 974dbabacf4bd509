package quorum

import (
	"fmt"

	"seedlog/clock/task"
	"seedlog/node/meta"
	"seedlog/node/raft"
	"seedlog/storage"
	"seedlog/storage/record"
)

// appendOp is one batch on its way into this leader's log.
type appendOp struct {
	epoch int32
	base  int64
	batch []byte
}

// writeMax is how much is appended with one write.
const writeMax = 4 << 20

// Append queues records, as one batch, at offset base in the term of epoch and returns the
// last offset. Without waiting for the disk: WaitCommitted does. The caller is the only
// appender of its term and knows base. A base that is not where the log goes on is
// ErrMoved: ask NextOffset, and decide once more what depends on the offset.
func (h *Host) Append(unixMilli int64, epoch int32, base int64, records []meta.Record) (last int64, err error) {
	opts := record.NewOptions(base)
	opts.LeaderEpoch = epoch
	b := record.NewBuilder(opts, nil)
	for _, r := range records {
		b.Append(record.Record{Timestamp: unixMilli, Value: meta.AppendRecord(nil, r)})
	}
	batch, err := b.Build(nil)
	if err != nil {
		return 0, err
	}
	last = base + int64(len(records)) - 1
	h.mu.Lock()
	switch {
	case h.err != nil:
		err = h.err
	case h.term == nil || h.term.Epoch != epoch:
		err = fmt.Errorf("%w: append at %d in epoch %d", ErrNotLeader, base, epoch)
	case h.pendingNext != base:
		err = fmt.Errorf("%w: append at %d, and it goes on at %d", ErrMoved, base, h.pendingNext)
	default:
		h.pending = append(h.pending, appendOp{epoch, base, batch})
		h.pendingNext = last + 1
	}
	h.mu.Unlock()
	if err != nil {
		return 0, err
	}
	h.work.Raise()
	return last, nil
}

// NextOffset is where the log of the term of epoch goes on.
func (h *Host) NextOffset(epoch int32) (int64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.term == nil || h.term.Epoch != epoch {
		return 0, ErrNotLeader
	}
	return h.pendingNext, nil
}

// write appends ops and syncs them with one sync.
func (h *Host) write(t *task.T, ops []appendOp) error {
	for len(ops) > 0 {
		epoch, base := ops[0].epoch, ops[0].base
		var batches []byte
		for len(ops) > 0 && (len(batches) == 0 || len(batches)+len(ops[0].batch) <= writeMax) {
			batches = append(batches, ops[0].batch...)
			ops = ops[1:]
		}
		if end := h.log.LogEndOffset(); end != base {
			panic(fmt.Sprintf("quorum: batch for offset %d and the log ends at %d", base, end))
		}
		if _, err := h.log.Append(t, epoch, batches, storage.RaftLeader); err != nil {
			return err
		}
	}
	return h.sync(t)
}

// sync makes the log durable and tells the core.
func (h *Host) sync(t *task.T) error {
	end := h.log.LogEndOffset()
	if err := h.log.SyncTo(t, end); err != nil {
		return err
	}
	h.todo = append(h.todo, raft.Synced{End: end})
	return nil
}

// begin starts a leadership: the first record of an epoch names its leader. Voters that the
// log does not have yet, or not as they are, are in the same batch.
func (h *Host) begin(t *task.T, b *raft.Begin) error {
	// Version 0 of the record is what every reader of kraft.version 0 and 1 expects.
	change := record.LeaderChangeValue{LeaderID: h.cfg.NodeID}
	for _, v := range b.Voters {
		change.Voters = append(change.Voters, record.LeaderChangeVoter{ID: v.ID})
	}
	for _, v := range b.Granting {
		change.GrantingVoters = append(change.GrantingVoters, record.LeaderChangeVoter{ID: v.ID})
	}
	values := []record.ControlValue{change}
	if b.Change != nil {
		values = append(values, changeValues(b.Change)...)
	}
	base := h.log.LogEndOffset()
	begun := *b
	h.begun, h.begunAt = &begun, base
	h.emit(LeaderElected{NodeID: h.cfg.NodeID, Epoch: b.Epoch, Offset: base})
	return h.appendControl(t, b.Epoch, base, values)
}

// changeValues are the records of a change of the voters.
func changeValues(c *raft.Change) (values []record.ControlValue) {
	if c.KRaftVersion >= 0 {
		values = append(values, record.KRaftVersionValue{KRaftVersion: c.KRaftVersion})
	}
	return append(values, record.VotersValue{Voters: recordVoters(c.Voters)})
}

// change appends other voters, behind what the controller has queued.
func (h *Host) change(t *task.T, c *raft.Change) error {
	values := changeValues(c)
	h.mu.Lock()
	ops := h.pending
	h.pending = nil
	base := h.log.LogEndOffset()
	if h.term != nil {
		base = h.pendingNext
		h.pendingNext += int64(len(values))
	}
	h.mu.Unlock()
	if len(ops) > 0 {
		if err := h.write(t, ops); err != nil {
			return err
		}
	}
	return h.appendControl(t, c.Epoch, base, values)
}

// appendControl appends a control batch, syncs it, and tells the core what it says.
func (h *Host) appendControl(t *task.T, epoch int32, base int64, values []record.ControlValue) error {
	batch, err := record.AppendControlBatch(nil, base, epoch, t.UnixMilli(), values...)
	if err != nil {
		return err
	}
	for i, v := range values {
		if err := h.noteAppended(base+int64(i), v); err != nil {
			return err
		}
	}
	return h.write(t, []appendOp{{epoch, base, batch}})
}

// noteAppended notes what a control record at the end of the log says, committed or not.
func (h *Host) noteAppended(offset int64, v record.ControlValue) error {
	switch v := v.(type) {
	case record.KRaftVersionValue:
		h.todo = append(h.todo, raft.KRaftVersionChanged{Offset: offset, Version: v.KRaftVersion})
		return h.served(v.KRaftVersion)
	case record.VotersValue:
		h.todo = append(h.todo, raft.VotersChanged{Offset: offset, Voters: raftVoters(v.Voters)})
	}
	return nil
}

package quorum

import (
	"fmt"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/node/meta"
	"seedlog/node/raft"
	"seedlog/storage"
	"seedlog/storage/record"
)

// appendOp is one batch on its way into the log.
type appendOp struct {
	epoch int32
	base  int64
	batch []byte
}

// writeMax is how much is appended before it is synced.
const writeMax = 4 << 20

// Append queues records, as one batch, at offset base in the term of epoch and returns the
// last offset. Without waiting for the disk: WaitCommitted does. The caller is the only
// appender of its term and knows base: another one is ErrNotLeader.
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
	case h.term == nil || h.term.Epoch != epoch || h.pendingNext != base:
		err = fmt.Errorf("%w: append at %d in epoch %d", ErrNotLeader, base, epoch)
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

// Run takes part in the quorum: it elects, appends, commits, publishes, takes snapshots. It
// returns nil when t's group stops, or what ended it: a metadata directory that failed.
// Its other tasks run in t's group.
func (h *Host) Run(t *task.T) error {
	t.Go("metadata-publisher", h.publish)
	t.Go("metadata-snapshotter", h.snapshots)
	err := h.act(t, h.step(t, raft.Start{}))
	for err == nil {
		ops := h.take(t)
		if ops == nil {
			h.end(t, nil)
			return nil
		}
		err = h.write(t, ops)
	}
	h.end(t, err)
	return err
}

// end resigns: nobody waits for this node any longer.
func (h *Host) end(t *task.T, err error) {
	h.step(t, raft.Failed{})
	h.mu.Lock()
	h.term, h.pending, h.err = nil, nil, err
	if h.leaderID == h.cfg.NodeID {
		h.leaderID = raft.None
	}
	h.mu.Unlock()
	h.committed.Raise()
	if err != nil {
		h.emit(Failed{err})
	}
}

// take waits for something to append. Nil means stop.
func (h *Host) take(t *task.T) []appendOp {
	for {
		seen := h.work.Generation()
		if t.Stopping() {
			return nil
		}
		h.mu.Lock()
		ops := h.pending
		h.pending = nil
		h.mu.Unlock()
		if len(ops) > 0 {
			return ops
		}
		h.work.Wait(t, seen, clock.Never)
	}
}

// write appends what is queued, syncs it with one sync, and commits it.
func (h *Host) write(t *task.T, ops []appendOp) error {
	for len(ops) > 0 {
		epoch, next := ops[0].epoch, ops[0].base
		var batches []byte
		for len(ops) > 0 && (len(batches) == 0 || len(batches)+len(ops[0].batch) <= writeMax) {
			batches = append(batches, ops[0].batch...)
			ops = ops[1:]
		}
		if err := h.append(t, epoch, next, batches); err != nil {
			return err
		}
	}
	end := h.log.LogEndOffset()
	if err := h.log.SyncTo(t, end); err != nil {
		return err
	}
	return h.act(t, h.step(t, raft.Synced{End: end}))
}

func (h *Host) append(t *task.T, epoch int32, base int64, batches []byte) error {
	if end := h.log.LogEndOffset(); end != base {
		panic(fmt.Sprintf("quorum: batch for offset %d and the log ends at %d", base, end))
	}
	_, err := h.log.Append(t, epoch, batches, storage.RaftLeader)
	return err
}

func (h *Host) step(t *task.T, e raft.Event) raft.Effects {
	return h.core.Step(e, t.Now(), h.env.Rand)
}

// act carries out what the core asks for.
func (h *Host) act(t *task.T, e raft.Effects) error {
	if e.Persist != nil {
		if err := h.writeElection(t, *e.Persist); err != nil {
			return err
		}
	}
	if e.Begin != nil {
		return h.begin(t, e.Begin)
	}
	if e.HighWatermark >= 0 {
		return h.commit(t, e.HighWatermark)
	}
	return nil
}

// begin starts a leadership: the first record of an epoch names its leader. The first
// leader of a cluster also writes the voters, which only its checkpoint has, into the log.
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
	base := h.log.LogEndOffset()
	if h.KRaftVersion() > 0 && base == 0 {
		values = append(values, record.KRaftVersionValue{KRaftVersion: h.KRaftVersion()}, record.VotersValue{Voters: h.voters})
	}
	batch, err := record.AppendControlBatch(nil, base, b.Epoch, t.UnixMilli(), values...)
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.leaderID, h.leaderEpoch = h.cfg.NodeID, b.Epoch
	h.mu.Unlock()
	h.emit(LeaderElected{NodeID: h.cfg.NodeID, Epoch: b.Epoch, Offset: base})
	return h.write(t, []appendOp{{b.Epoch, base, batch}})
}

// commit replays what is committed now and shows it to everybody. With the first of the
// leader's own epoch its term begins.
func (h *Host) commit(t *task.T, hw int64) error {
	h.log.SetHighWatermark(hw)
	deltas, err := h.replay(t, hw)
	if err != nil {
		return err
	}
	if h.image.Load().Offset < 0 { // nobody has seen anything yet
		if err := h.applied.CheckServed(); err != nil {
			return err
		}
		deltas = []*meta.Delta{h.applied.Full()}
	}
	h.image.Store(h.applied)
	h.mu.Lock()
	h.committedTo = hw
	h.deltas = append(h.deltas, deltas...)
	if h.term == nil || h.term.Epoch != h.core.Epoch() {
		h.term = &Term{Epoch: h.core.Epoch(), Image: h.applied, NextOffset: hw}
		h.pendingNext = hw
	}
	h.mu.Unlock()
	h.changed.Raise()
	h.committed.Raise()
	h.offerSnapshot()
	return nil
}

// replay applies the batches in [next, hw). It is the one way from log to image, for live
// work and after a restart alike.
func (h *Host) replay(t *task.T, hw int64) ([]*meta.Delta, error) {
	var deltas []*meta.Delta
	var records []meta.Record
	size := 0
	flush := func(last int64, epoch int32) error {
		image, delta, err := h.applied.Apply(records, last, epoch)
		if err != nil {
			return err
		}
		h.applied, h.next, records, size = image, last+1, nil, 0
		deltas = append(deltas, delta)
		return nil
	}
	err := h.readLog(t, h.next, hw, storage.ToHighWatermark, func(head *record.Header, batch []byte) (err error) {
		h.sinceBytes += int64(len(batch))
		h.lastTime = head.MaxTimestamp
		size += len(batch)
		if head.IsControl() {
			err = eachControl(batch, h.noteControl)
		} else {
			records, err = decodeRecords(records, batch)
		}
		if err == nil && (size >= readMax || head.NextOffset() >= hw) {
			err = flush(head.LastOffset(), head.LeaderEpoch)
		}
		return err
	})
	return deltas, err
}

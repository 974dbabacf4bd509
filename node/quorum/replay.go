package quorum

import (
	"seedlog/clock/task"
	"seedlog/node/meta"
	"seedlog/node/raft"
	"seedlog/storage"
	"seedlog/storage/record"
)

// replay is how far the log was turned into an image. Only what is committed is.
type replay struct {
	image      *meta.Image
	next       int64       // the offset after what image contains
	to         int64       // the end of what is committed
	shown      bool        // somebody has seen an image
	deleted    []meta.UUID // topics whose deletion was replayed before that
	lastTime   int64       // timestamp of the last batch applied
	sinceBytes int64       // replayed since the last snapshot
	voters     []record.Voter
	kraft      int16
}

// commit notes what is committed. It is replayed piece by piece between other work, so that
// a long log does not keep this node from answering the others.
func (h *Host) commit(hw int64) {
	h.log.SetHighWatermark(hw)
	h.replayed.to = max(h.replayed.to, hw)
}

// behind reports whether there is something to replay.
func (h *Host) behind() bool { return h.replayed.next < h.replayed.to }

// replayMore applies the next piece of what is committed. It is the one way from log to
// image, for live work and after a restart alike.
func (h *Host) replayMore(t *task.T) error {
	r := &h.replayed
	var records []meta.Record
	var last *record.Header
	_, err := h.readSome(t, r.next, r.to, storage.ToHighWatermark, func(head *record.Header, batch []byte) (err error) {
		r.sinceBytes += int64(len(batch))
		r.lastTime = head.MaxTimestamp
		at := *head
		last = &at
		if head.IsControl() {
			return eachControl(batch, h.noteCommitted)
		}
		records, err = decodeRecords(records, batch)
		return err
	})
	if err != nil {
		return err
	}
	image, delta, err := r.image.Apply(records, last.LastOffset(), last.LeaderEpoch)
	if err != nil {
		return err
	}
	r.image, r.next = image, last.NextOffset()
	return h.show(delta)
}

// noteCommitted notes what a committed control record says.
func (h *Host) noteCommitted(_ int64, v record.ControlValue) error {
	switch v := v.(type) {
	case record.KRaftVersionValue:
		if err := h.served(v.KRaftVersion); err != nil {
			return err
		}
		h.replayed.kraft = v.KRaftVersion
	case record.VotersValue:
		h.replayed.voters = v.Voters
	}
	return nil
}

// show lets everybody see what was replayed. The first image is shown when all that was
// committed by then is in it: as the leader knows that, it is all that this node has shown in a
// life before, or directories of live replicas would pass for strays. A leader's term begins
// with it once it has replayed into its own epoch.
func (h *Host) show(delta *meta.Delta) error {
	r := &h.replayed
	if !r.shown {
		r.deleted = append(r.deleted, delta.Deleted...)
		if h.behind() {
			return nil
		}
		if err := r.image.CheckServed(h.cfg.Features); err != nil {
			return err
		}
		r.shown = true
		delta = r.image.Full()
		delta.Deleted, r.deleted = r.deleted, nil
	} else if delta.Features {
		if err := r.image.CheckFeatures(h.cfg.Features); err != nil {
			return err
		}
	}
	h.image.Store(r.image)
	h.kraft.Store(int64(r.kraft))
	h.mu.Lock()
	h.committedTo = r.next
	h.deltas = append(h.deltas, delta)
	if h.term == nil && h.leads() && r.next > h.begunAt && !h.behind() {
		end := h.log.LogEndOffset()
		h.term = &Term{Epoch: h.begun.Epoch, Image: r.image, NextOffset: end}
		h.pendingNext = end
	}
	h.mu.Unlock()
	h.changed.Raise()
	h.committed.Raise()
	h.offerSnapshot()
	return nil
}

// leads reports whether this node leads and may append.
func (h *Host) leads() bool {
	return h.begun != nil && h.core.Role() == raft.Leader && h.begun.Epoch == h.core.Epoch()
}

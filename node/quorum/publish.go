package quorum

import (
	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/node/meta"
	"seedlog/storage/checkpoint"
	"seedlog/storage/record"
)

// publish hands the deltas to the listeners, in order, until t's group stops.
func (h *Host) publish(t *task.T) {
	for !t.Stopping() {
		seen := h.changed.Generation()
		h.mu.Lock()
		var d *meta.Delta
		if len(h.deltas) > 0 {
			d = h.deltas[0]
		}
		h.mu.Unlock()
		if d == nil {
			h.changed.Wait(t, seen, clock.Never)
			continue
		}
		for _, l := range h.listeners {
			if t.Stopping() {
				return
			}
			l.MetadataChanged(t, d)
		}
		h.published.Store(d.To.Offset)
		h.mu.Lock()
		h.deltas[0], h.deltas = nil, h.deltas[1:]
		h.mu.Unlock()
		h.shown.Raise()
	}
}

// dueSnapshot is a snapshot to be written.
type dueSnapshot struct {
	image        *meta.Image
	lastTime     int64
	kraftVersion int16
	voters       []record.Voter
}

// offerSnapshot asks for a snapshot once enough was replayed since the last one.
func (h *Host) offerSnapshot() {
	r := &h.replayed
	if h.cfg.SnapshotBytes <= 0 || r.sinceBytes < h.cfg.SnapshotBytes || r.image.InTransaction() {
		return
	}
	r.sinceBytes = 0
	h.mu.Lock()
	h.snapshot = &dueSnapshot{r.image, r.lastTime, r.kraft, r.voters}
	h.mu.Unlock()
	h.due.Raise()
}

// takeSnapshots writes the snapshots that are due, until t's group stops. One that cannot be
// written costs nothing but the space of a longer log; the next is tried when it is due.
//
// A snapshot is not taken before every listener has seen what it contains: it does not say what
// was deleted, and a broker that is killed before it has deleted a topic's directories must find
// the deletion in the log when it comes back.
func (h *Host) takeSnapshots(t *task.T) {
	for !t.Stopping() {
		seen := h.due.Generation()
		h.mu.Lock()
		s := h.snapshot
		h.snapshot = nil
		h.mu.Unlock()
		if s == nil {
			h.due.Wait(t, seen, clock.Never)
			continue
		}
		if h.WaitPublished(t, s.image.Offset, clock.Never) != task.Woken {
			return
		}
		id := snapshotID{s.image.Offset + 1, s.image.Epoch}
		n, err := h.writeSnapshot(t, id, s)
		if err == nil {
			err = h.clean(t, id)
		}
		h.emit(SnapshotWritten{Offset: id.end, Epoch: id.epoch, Bytes: n, Err: err})
	}
}

func (h *Host) writeSnapshot(t *task.T, id snapshotID, s *dueSnapshot) (bytes int, err error) {
	b, err := encodeSnapshot(snapshotSpec{
		epoch: id.epoch, unixMilli: t.UnixMilli(), lastTimestamp: s.lastTime,
		kraftVersion: s.kraftVersion, voters: s.voters, records: s.image.Records(),
	})
	if err != nil {
		return 0, err
	}
	return len(b), checkpoint.Replace(t, h.env.Disk, h.path+"/"+id.name(), b)
}

// clean removes what the snapshot makes superfluous: first the log below the snapshot before
// it, then the snapshots older than that one, so that at every moment the log begins at or
// below the end of one, and a member that is a little behind needs none. A new segment
// begins, so that a later snapshot can remove the present one.
func (h *Host) clean(t *task.T, id snapshotID) error {
	older := h.store(id)
	if err := h.log.Roll(t); err != nil {
		return err
	}
	if len(older) == 0 {
		return nil
	}
	previous := older[len(older)-1]
	if _, err := h.log.DeleteRecords(t, previous.end); err != nil {
		return err
	}
	return h.removeSnapshots(t, older[:len(older)-1])
}

package quorum

import (
	"fmt"

	"seedlog/clock/task"
	"seedlog/node/meta"
	"seedlog/node/raft"
	"seedlog/storage"
	"seedlog/storage/record"
)

// named are the voters and the levels of kraft.version that the snapshot and the log name,
// oldest first.
type named struct {
	sets   []raft.VoterSet
	levels []raft.Level
}

// load reads the newest snapshot, and the voters that it and the log after it name.
func (h *Host) load(t *task.T) (n named, err error) {
	if h.stored, err = listSnapshots(t, h.env.Disk, h.path); err != nil {
		return n, err
	}
	if i := len(h.stored) - 1; i >= 0 {
		if n, err = h.loadSnapshot(t, h.stored[i]); err != nil {
			return n, err
		}
	}
	if len(n.sets) == 0 && len(h.cfg.StaticVoters) > 0 {
		// They stay the first: what the log names, to raise the level, may be cut.
		n.sets = []raft.VoterSet{{Offset: -1, Voters: h.cfg.StaticVoters}}
	}
	if err := h.loadDeletions(t); err != nil {
		return n, err
	}
	if err := h.joinLog(t); err != nil {
		return n, err
	}
	if h.bootstrap, err = readBootstrap(t, h.env.Disk, parentOf(h.path)); err != nil {
		return n, err
	}
	h.replayed.to, h.committedTo = h.replayed.next, h.replayed.next
	return n, h.scanVoters(t, &n)
}

// joinLog lets the log begin anew where the snapshot ends, if it does not contain what the
// snapshot does: it lost its end, or power failed after the leader's snapshot was here and
// before the log was cut that it replaces.
func (h *Host) joinLog(t *task.T) error {
	start, end, next := h.log.LogStartOffset(), h.log.LogEndOffset(), h.replayed.next
	if start > next {
		return fmt.Errorf("%w: %s begins at offset %d and the newest snapshot ends at %d", ErrLost, h.path, start, next)
	}
	if end < next || start < next && h.log.EpochAt(next-1) != h.replayed.image.Epoch {
		return h.log.TruncateFullyAt(t, next)
	}
	return nil
}

func (h *Host) loadSnapshot(t *task.T, id snapshotID) (n named, err error) {
	path := h.path + "/" + id.name()
	s, err := readSnapshot(t, h.env.Disk, path)
	if err != nil {
		return n, err
	}
	image, err := s.image(id)
	if err != nil {
		return n, fmt.Errorf("%s: %w", path, err)
	}
	if err := h.served(s.KRaftVersion); err != nil {
		return n, err
	}
	h.adopt(id, s, image)
	n.levels = []raft.Level{{Offset: id.end - 1, Version: s.KRaftVersion}}
	if s.Voters != nil {
		n.sets = []raft.VoterSet{{Offset: id.end - 1, Voters: raftVoters(s.Voters)}}
	}
	return n, nil
}

// adopt makes a snapshot what is replayed.
func (h *Host) adopt(id snapshotID, s *Snapshot, image *meta.Image) {
	r := &h.replayed
	r.image, r.next, r.lastTime, r.sinceBytes = image, id.end, s.LastContainedLogTimestamp, 0
	r.voters, r.kraft = s.Voters, s.KRaftVersion
}

// image is what the snapshot contains.
func (s *Snapshot) image(id snapshotID) (*meta.Image, error) {
	image, _, err := meta.Empty().Apply(s.Records, id.end-1, id.epoch)
	if err != nil {
		return nil, err
	}
	if image.InTransaction() {
		return nil, fmt.Errorf("%w: it ends within a metadata transaction", ErrSnapshot)
	}
	return image, nil
}

// scanVoters reads the log above the snapshot for voters: they count from the moment that
// they are in the log, committed or not (KIP-853).
func (h *Host) scanVoters(t *task.T, n *named) error {
	return h.readLog(t, h.replayed.next, h.log.LogEndOffset(), storage.ToLogEnd, func(head *record.Header, batch []byte) error {
		if !head.IsControl() {
			return nil
		}
		return eachControl(batch, func(offset int64, v record.ControlValue) error {
			switch v := v.(type) {
			case record.KRaftVersionValue:
				n.levels = append(n.levels, raft.Level{Offset: offset, Version: v.KRaftVersion})
				return h.served(v.KRaftVersion)
			case record.VotersValue:
				n.sets = append(n.sets, raft.VoterSet{Offset: offset, Voters: raftVoters(v.Voters)})
			}
			return nil
		})
	})
}

// served returns an error for a level of kraft.version that this node does not serve.
func (h *Host) served(level int16) error {
	return h.cfg.Features.Check(meta.KRaftVersionFeature, level)
}

// readMax is how much of the log is read at once.
const readMax = 1 << 20

// readLog visits the batches in [from, to).
func (h *Host) readLog(t *task.T, from, to int64, bound storage.Bound, visit func(*record.Header, []byte) error) error {
	for from < to {
		next, err := h.readSome(t, from, to, bound, visit)
		if err != nil {
			return err
		}
		from = next
	}
	return nil
}

// readSome visits the first batches in [from, to), up to the bytes that are read at once and
// at least one, and returns where they end.
func (h *Host) readSome(t *task.T, from, to int64, bound storage.Bound, visit func(*record.Header, []byte) error) (int64, error) {
	max := h.cfg.ReplayMaxBytes
	if max <= 0 {
		max = readMax
	}
	b, err := h.log.ReadInto(t, from, max, bound, true, h.buf)
	if err != nil {
		return from, err
	}
	h.buf = b
	it := record.NewBatches(b)
	begin := from
	for from < to && it.Next() {
		if err := record.CheckCRC(it.Bytes()); err != nil {
			return from, fmt.Errorf("%s: %w", h.path, err)
		}
		if err := visit(it.Header(), it.Bytes()); err != nil {
			return from, fmt.Errorf("%s: batch at offset %d: %w", h.path, it.Header().BaseOffset, err)
		}
		from = it.Header().NextOffset()
	}
	if it.Err() != nil {
		return from, fmt.Errorf("%s: %w", h.path, it.Err())
	}
	if from == begin {
		return from, fmt.Errorf("%w: %s has nothing at offset %d, and should up to %d", ErrLost, h.path, from, to)
	}
	return from, nil
}

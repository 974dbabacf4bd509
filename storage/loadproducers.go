package storage

import (
	"errors"
	"slices"

	"seedlog/clock/task"
	"seedlog/storage/producer"
	"seedlog/storage/record"
)

// loadProducers makes the producers' state at end: the newest good snapshot, and a replay of
// what follows it. Snapshots above the high watermark are not used if transactions ended there:
// they have forgotten which, and those hold the last stable offset back. What lies below the
// log start counts as long as it is there, for producers outlive their batches (KIP-360).
func (l *Log) loadProducers(t *task.T, segs []*segment, end, hw int64) (*producer.State, error) {
	offsets, err := l.snapshots(t)
	if err != nil {
		return nil, err
	}
	bases := make([]int64, len(segs))
	for i, s := range segs {
		bases[i] = s.base
	}
	remove := producer.StraySnapshots(offsets, bases)
	if slices.ContainsFunc(offsets, func(o int64) bool { return o > hw && o <= end }) {
		decided, err := noMarkers(t, segs, hw, end)
		if err != nil {
			return nil, err
		}
		if decided {
			hw = end
		}
	}
	state := producer.NewState(bases[0])
	for _, o := range slices.Backward(offsets) {
		if o > end {
			remove = append(remove, o)
			continue
		}
		if o > hw || slices.Contains(remove, o) {
			continue
		}
		entries, err := l.readSnapshot(t, o)
		if err == nil {
			state.Load(o, entries, t.UnixMilli(), l.Config().ProducerExpirationMs)
			break
		}
		if !errors.Is(err, producer.ErrSnapshot) {
			return nil, err
		}
		remove = append(remove, o)
	}
	if err := l.removeSnapshots(t, func(o int64) bool { return slices.Contains(remove, o) }); err != nil {
		return nil, err
	}
	return state, replayProducers(t, segs, state, state.End(), end, nil)
}

// settleSnapshots leaves no producer snapshot that must not be believed, and makes durable
// what is left: the recovery point is about to pass it. Those above the end speak of another
// history. The others from the recovery point on are removed if they are damaged, and those above
// it are written anew: they may be good in the page cache only, where a sync failed before. The
// caller syncs the directory: what came back would not be looked at again.
func (p *loading) settleSnapshots(t *task.T) error {
	l := p.l
	list, err := l.snapshots(t)
	if err != nil {
		return err
	}
	var bad []int64
	for _, o := range list {
		switch {
		case o > p.end:
			bad = append(bad, o)
		case o >= p.checkpoint:
			ok, err := l.renewSnapshot(t, o, o == p.checkpoint)
			if err != nil {
				return err
			}
			if !ok {
				bad = append(bad, o)
			}
		}
	}
	return l.removeSnapshots(t, func(o int64) bool { return slices.Contains(bad, o) })
}

// renewSnapshot writes a snapshot anew and syncs it, unless it is durable, or reports that it is
// damaged.
func (l *Log) renewSnapshot(t *task.T, offset int64, durable bool) (ok bool, err error) {
	path := segmentName(l.path, offset, snapshotSuffix)
	b, err := readFile(t, l.env.Disk, path)
	if err != nil {
		return false, err
	}
	if _, err := producer.DecodeSnapshot(b); err != nil {
		return false, nil
	}
	if durable {
		return true, nil
	}
	if err := putFile(t, l.env.Disk, path, b); err != nil {
		return false, err
	}
	return true, syncPath(t, l.env.Disk, path)
}

// noMarkers reports whether no transaction ended in [from, end).
func noMarkers(t *task.T, segs []*segment, from, end int64) (bool, error) {
	none := true
	err := walkFrom(t, segs, from, end, func(_ *segment, _ *scanner, b *batch) error {
		none = none && !b.IsControl()
		return nil
	})
	return none, err
}

func (l *Log) readSnapshot(t *task.T, offset int64) ([]producer.Entry, error) {
	b, err := readFile(t, l.env.Disk, segmentName(l.path, offset, snapshotSuffix))
	if err != nil {
		return nil, err
	}
	return producer.DecodeSnapshot(b)
}

// replayProducers applies the batches in [from, end) to the state. onDone is told of each
// transaction that ended.
func replayProducers(t *task.T, segs []*segment, state *producer.State, from, end int64, onDone func(s *segment, done producer.Completed) error) error {
	err := walkFrom(t, segs, from, end, func(s *segment, sc *scanner, b *batch) error {
		return replayBatch(t, sc, b, s, state, onDone)
	})
	if err == nil {
		state.SetEnd(end)
	}
	return err
}

// walkFrom calls fn for the batches that reach from or lie behind it and begin below end.
func walkFrom(t *task.T, segs []*segment, from, end int64, fn func(s *segment, sc *scanner, b *batch) error) error {
	for i := max(floorSegment(segs, from), 0); i < len(segs) && from < end; i++ {
		s := segs[i]
		var buf []byte
		pos, err := s.floor(t, from-1, &buf)
		if err != nil {
			return err
		}
		err = s.walk(t, pos, s.size.Load(), replayChunk, func(sc *scanner, b *batch) (bool, error) {
			if b.LastOffset() < from {
				return true, nil
			}
			if b.BaseOffset >= end {
				return false, nil
			}
			return true, fn(s, sc, b)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func replayBatch(t *task.T, sc *scanner, b *batch, s *segment, state *producer.State, onDone func(s *segment, done producer.Completed) error) error {
	if b.Magic < record.MagicV2 || !b.HasProducerID() {
		return nil
	}
	var whole []byte
	if b.IsControl() {
		var err error
		if whole, err = sc.bytes(t, b); err != nil {
			return err
		}
	}
	done, ok, err := state.Replay(&b.Header, whole)
	if err != nil || !ok || onDone == nil {
		return err
	}
	return onDone(s, done)
}

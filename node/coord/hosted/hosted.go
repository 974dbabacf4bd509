// Package hosted ties the group coordinator to the partitions that a replica manager hosts:
// it starts and ends shards as the metadata says who leads, and shows a shard its partition
// as a log. It decides nothing.
package hosted

import (
	"errors"
	"fmt"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/node/coord"
	"seedlog/node/meta"
	"seedlog/node/partition"
	"seedlog/node/replica"
	"seedlog/storage"
)

// Listener follows the metadata: it starts and ends the shards of the partitions that a
// replica manager hosts. It is to be told of changes after the manager.
type Listener struct {
	c        *coord.Coordinator
	replicas *replica.Manager
	self     int32
}

// New returns a listener for the changes of the metadata; self is this broker's id.
func New(c *coord.Coordinator, replicas *replica.Manager, self int32) *Listener {
	return &Listener{c, replicas, self}
}

// MetadataChanged implements quorum.Listener.
func (h *Listener) MetadataChanged(t *task.T, d *meta.Delta) {
	var deleted []string
	for i := range d.Topics {
		td := &d.Topics[i]
		if td.Name == coord.Topic {
			h.offsetsTopic(td)
			continue
		}
		if td.New == nil {
			deleted = append(deleted, td.Name)
		}
	}
	if len(deleted) > 0 {
		h.c.TopicsDeleted(deleted)
	}
}

func (h *Listener) offsetsTopic(td *meta.TopicDelta) {
	if td.New == nil {
		for i, p := range td.Old.Partitions {
			if p != nil {
				h.c.Resign(int32(i), p.LeaderEpoch)
			}
		}
		return
	}
	h.c.SetPartitions(int32(len(td.New.Partitions)))
	for _, index := range td.Changed() {
		p := td.New.Partitions[index]
		if p.Leader != h.self {
			h.c.Resign(index, p.LeaderEpoch)
			continue
		}
		hosted, err := h.replicas.Partition(replica.Key{Topic: td.New.ID, Partition: index})
		if err != nil {
			h.c.Failed(index, p.LeaderEpoch, err)
			continue
		}
		h.c.Lead(index, p.LeaderEpoch, newPartitionLog(h.replicas, hosted, p.LeaderEpoch))
	}
}

// partitionLog is a hosted partition as a shard sees it.
type partitionLog struct {
	m     *replica.Manager
	p     *replica.Partition
	epoch int32
	buf   []byte
}

func newPartitionLog(m *replica.Manager, p *replica.Partition, epoch int32) *partitionLog {
	return &partitionLog{m: m, p: p, epoch: epoch}
}

// Append implements coord.Log.
func (l *partitionLog) Append(t *task.T, batch []byte) (int64, error) {
	if limit := int(l.p.Settings().MaxMessageBytes); len(batch) > limit {
		return 0, fmt.Errorf("%w: %s: %d bytes, at most %d", coord.ErrTooLarge, l.p, len(batch), limit)
	}
	info, _, err := l.p.AppendIn(t, l.epoch, batch, storage.Coordinator, true)
	switch {
	case err == nil:
		return info.BaseOffset, nil
	case errors.Is(err, storage.ErrBatchTooLarge):
		return 0, fmt.Errorf("%w: %w", coord.ErrTooLarge, err)
	case errors.Is(err, partition.ErrNotEnoughReplicas):
		return 0, fmt.Errorf("%w: %w", coord.ErrUnavailable, err)
	}
	return 0, err
}

// Bounds implements coord.Log.
func (l *partitionLog) Bounds() (start, end int64) {
	return l.p.Log().LogStartOffset(), l.p.Log().LogEndOffset()
}

// Read implements coord.Log.
func (l *partitionLog) Read(t *task.T, offset int64, max int32) ([]byte, error) {
	b, err := l.p.Log().ReadInto(t, offset, max, storage.ToLogEnd, true, l.buf)
	l.buf = b
	return b, err
}

// Committed implements coord.Log.
func (l *partitionLog) Committed(next int64) (bool, error) {
	done, err := l.p.CommittedTo(next, l.epoch)
	if errors.Is(err, partition.ErrNotEnoughReplicas) {
		// It is committed all the same: the high watermark has passed it.
		return true, nil
	}
	return done, err
}

// Watch implements coord.Log.
func (l *partitionLog) Watch(next int64, wake func()) {
	w := &watcher{l: l, next: next, wake: wake}
	l.m.Purgatory().Watch(&w.delayed, w, clock.Never, &l.p.Committed)
}

// watcher is the shard's place in the purgatory.
type watcher struct {
	delayed replica.Delayed
	l       *partitionLog
	next    int64
	wake    func()
}

// Ready implements replica.Operation.
func (w *watcher) Ready() bool {
	done, err := w.l.Committed(w.next)
	return done || err != nil
}

// Complete implements replica.Operation.
func (w *watcher) Complete(bool) { w.wake() }

package quorum

import "seedlog/node/raft"

// raftLog is the metadata log as the core sees it. All of it is in memory.
type raftLog struct{ h *Host }

// Start implements raft.Log.
func (l raftLog) Start() int64 { return l.h.log.LogStartOffset() }

// End implements raft.Log.
func (l raftLog) End() (offset int64, epoch int32) {
	offset, epoch = l.h.log.LogEndOffset(), l.h.log.LatestEpoch()
	if epoch < 0 {
		_, epoch = l.before()
	}
	return offset, epoch
}

// EpochEnd implements raft.Log.
func (l raftLog) EpochEnd(epoch int32) (raft.EpochEnd, bool) {
	entries := l.h.log.Epochs()
	end := l.h.log.LogEndOffset()
	for i := len(entries) - 1; i >= 0; i-- {
		if entries[i].Epoch <= epoch {
			return raft.EpochEnd{Epoch: entries[i].Epoch, EndOffset: end}, true
		}
		end = entries[i].Start
	}
	if start, before := l.before(); start > 0 && epoch >= before {
		return raft.EpochEnd{Epoch: before, EndOffset: start}, true
	}
	return raft.EpochEnd{}, false
}

// before is the log start and the epoch of the record before it, which the snapshot knows
// that the log begins after; (0, 0) for a log from the beginning.
func (l raftLog) before() (start int64, epoch int32) {
	start = l.h.log.LogStartOffset()
	for _, s := range l.h.storedSnapshots() {
		if s.end == start {
			return s.end, s.epoch
		}
	}
	return 0, 0
}

// Snapshot implements raft.Log.
func (l raftLog) Snapshot() (raft.SnapshotID, bool) {
	stored := l.h.storedSnapshots()
	if n := len(stored); n > 0 && stored[n-1].end > 0 {
		return raft.SnapshotID{EndOffset: stored[n-1].end, Epoch: stored[n-1].epoch}, true
	}
	return raft.SnapshotID{}, false
}

// storedSnapshots are those on disk, oldest first; the list is never changed.
func (h *Host) storedSnapshots() []snapshotID {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stored
}

package quorum

import "seedlog/node/raft"

// raftLog is the metadata log as the core sees it.
type raftLog struct {
	log      Log
	snapshot *raft.SnapshotID // the newest one; 0-0 is that of formatting
}

// Start implements raft.Log.
func (l raftLog) Start() int64 { return l.log.LogStartOffset() }

// End implements raft.Log.
func (l raftLog) End() (offset int64, epoch int32) {
	offset, epoch = l.log.LogEndOffset(), l.log.LatestEpoch()
	if epoch < 0 {
		epoch = l.snapshot.Epoch
	}
	return offset, epoch
}

// EpochEnd implements raft.Log.
func (l raftLog) EpochEnd(epoch int32) (raft.EpochEnd, bool) {
	if e, end := l.log.EndOffsetForEpoch(epoch); e >= 0 {
		return raft.EpochEnd{Epoch: e, EndOffset: end}, true
	}
	if s := *l.snapshot; s.EndOffset > 0 && s.EndOffset == l.log.LogStartOffset() && epoch >= s.Epoch {
		return raft.EpochEnd{Epoch: s.Epoch, EndOffset: s.EndOffset}, true
	}
	return raft.EpochEnd{}, false
}

// Snapshot implements raft.Log.
func (l raftLog) Snapshot() (raft.SnapshotID, bool) {
	return *l.snapshot, l.snapshot.EndOffset > 0
}

package producer

import (
	"cmp"
	"slices"
)

// Ongoing returns the open transactions, ascending by first offset.
func (s *State) Ongoing() []Txn { return slices.Clone(s.ongoing) }

// Unreplicated returns the completed transactions whose marker is not known to be below the high
// watermark, ascending by first offset.
func (s *State) Unreplicated() []Txn { return slices.Clone(s.unreplicated) }

// FirstUnstable is the first offset of a transaction that is open, or whose marker is not below
// the high watermark: consumers with read_committed stop there. ok is false if there is none, and
// the high watermark is the last stable offset.
func (s *State) FirstUnstable() (offset int64, ok bool) {
	offset, ok = s.FirstUndecided()
	if len(s.unreplicated) > 0 && (!ok || s.unreplicated[0].FirstOffset < offset) {
		return s.unreplicated[0].FirstOffset, true
	}
	return offset, ok
}

// FirstUndecided is the first offset of the oldest open transaction, if there is one.
func (s *State) FirstUndecided() (offset int64, ok bool) {
	if len(s.ongoing) == 0 {
		return None, false
	}
	return s.ongoing[0].FirstOffset, true
}

// OldestTxnTimestamp is when the producer of the oldest open transaction last wrote (ms), by
// which a hanging one is found.
func (s *State) OldestTxnTimestamp() (ms int64, ok bool) {
	if len(s.ongoing) == 0 {
		return 0, false
	}
	return s.entries[s.ongoing[0].ProducerID].LastTimestamp, true
}

// OnHighWatermark makes the transactions stable whose marker is below the high watermark.
func (s *State) OnHighWatermark(hw int64) {
	s.unreplicated = slices.DeleteFunc(s.unreplicated, func(t Txn) bool { return t.LastOffset < hw })
}

// OnLogStart follows the log start offset: what ended before it is not waited for any more.
// Producers stay although their batches are gone (KIP-360): dropping them would refuse their next
// batch, or accept an old epoch.
func (s *State) OnLogStart(logStart int64) {
	s.OnHighWatermark(logStart)
	s.end = max(s.end, logStart)
}

func insertTxn(list []Txn, t Txn) []Txn {
	i, found := searchTxn(list, t.FirstOffset)
	if found {
		list[i] = t
		return list
	}
	return slices.Insert(list, i, t)
}

func removeTxn(list []Txn, firstOffset int64) []Txn {
	if i, found := searchTxn(list, firstOffset); found {
		return slices.Delete(list, i, i+1)
	}
	return list
}

func searchTxn(list []Txn, firstOffset int64) (int, bool) {
	return slices.BinarySearchFunc(list, firstOffset, func(t Txn, o int64) int { return cmp.Compare(t.FirstOffset, o) })
}

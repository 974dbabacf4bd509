package storage

import "seedlog/disk"

// Origin says who appends.
type Origin uint8

const (
	// Client batches pass the producer's sequence check and LogAppendTime stamping.
	Client Origin = iota
	// Coordinator batches (group and transaction state, markers) skip the sequence check.
	Coordinator
	// RaftLeader batches carry their epoch already.
	RaftLeader
)

// AppendInfo is what an append did.
type AppendInfo struct {
	BaseOffset      int64 // of the first batch
	LastOffset      int64 // of the last batch
	LogAppendTimeMs int64 // -1 unless message.timestamp.type is LogAppendTime
	LogStartOffset  int64
	Duplicate       bool // the offsets are those of the earlier append; nothing was written
	Batches         int
	// MustSync: by flush.messages the caller has to SyncTo(LastOffset+1) before it
	// acknowledges the append.
	MustSync bool
}

// Bound is what a read may not pass.
type Bound uint8

const (
	// ToHighWatermark is for consumers.
	ToHighWatermark Bound = iota
	// ToLastStable is for read_committed consumers; it fills Fetched.Aborted.
	ToLastStable
	// ToLogEnd is for replicas.
	ToLogEnd
	// ToSynced is for replicas where flush.messages=1: nothing unsynced leaves.
	ToSynced
)

// AbortedTxn is one entry of the aborted list: records of ProducerID from FirstOffset on,
// up to its abort marker, are to be skipped.
type AbortedTxn struct {
	ProducerID  int64
	FirstOffset int64
}

// Fetched is the result of one Read. It is made to be reused: Read resets it, and Release
// gives the pins back.
type Fetched struct {
	// Ranges are the bytes, whole batches except that the last may be cut short by max.
	// The first batch contains the offset asked for, or is the first after it.
	Ranges []*disk.Range
	Size   int64 // the sum of Ranges
	// FirstBatchIncomplete: max was below the first batch and minOne was false.
	FirstBatchIncomplete bool
	Aborted              []AbortedTxn

	HighWatermark    int64
	LastStableOffset int64
	LogStartOffset   int64
	LogEndOffset     int64
	// SyncedEnd is everything below which is durable.
	SyncedEnd int64

	scratch []byte
}

// Release gives the pinned ranges back. The second release is nothing.
func (f *Fetched) Release() {
	for i, r := range f.Ranges {
		r.Release()
		f.Ranges[i] = nil
	}
	f.Ranges = f.Ranges[:0]
	f.Size = 0
}

// TimeOffset is a record found by time.
type TimeOffset struct {
	Timestamp   int64 // -1 if none
	Offset      int64 // -1 if none
	LeaderEpoch int32 // -1 if unknown
}

// SegmentInfo describes a segment for tools and tests.
type SegmentInfo struct {
	BaseOffset   int64
	Size         int64
	MaxTimestamp int64
	Active       bool
}

// Progress is what recovery has done in one directory.
type Progress struct {
	LogsDone, LogsTotal         int
	SegmentsDone, SegmentsTotal int
}

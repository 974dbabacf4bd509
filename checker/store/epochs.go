package store

import (
	"seedlog/checker"
	"seedlog/checker/logfile"
)

// EpochEnd is an answer to OffsetForLeaderEpoch: of Asked a client was told that Epoch, the
// largest not above it, ended at End.
type EpochEnd struct {
	Asked, Epoch int32
	End          int64
	// Closed says that a later epoch was known by then, so that End is final.
	Closed bool
	// Committed is a high watermark that was told before.
	Committed int64
}

// CheckEpochEnds is I12 for what clients were told: no batch of a later epoch lies below the
// end, and none of the epoch or an earlier one above it, unless the epoch went on. An end at
// or below the log start is where the log began then, and says nothing.
func (p *Partition) CheckEpochEnds(told []EpochEnd, logStart int64) checker.Verdict {
	var v checker.Verdict
	for _, e := range told {
		if e.Epoch > e.Asked {
			v.Failf("I12", p.Name, "asked for epoch %d, a client was told of epoch %d", e.Asked, e.Epoch)
		}
		if !e.Closed && e.Epoch == e.Asked && e.End < e.Committed {
			v.Failf("I12", p.Name, "the newest epoch %d was said to end at %d, below the high watermark %d", e.Asked, e.End, e.Committed)
		}
		p.Batches(func(b *logfile.Batch) {
			switch {
			case b.Last < logStart:
			case b.Epoch > e.Epoch && b.Epoch <= e.Asked:
				v.Failf("I12", p.Name, "asked for epoch %d, a client was told of epoch %d; batch %d-%d has epoch %d", e.Asked, e.Epoch, b.Base, b.Last, b.Epoch)
			case b.Epoch > e.Asked && b.Base < e.End && e.End > logStart, b.Epoch <= e.Asked && e.Closed && b.Last >= e.End:
				v.Failf("I12", p.Name, "epoch %d was said to end at %d; batch %d-%d has epoch %d", e.Asked, e.End, b.Base, b.Last, b.Epoch)
			}
		})
	}
	return v
}

package store

import (
	"bytes"
	"fmt"
	"slices"

	"seedlog/checker"
)

// Recovered is what a sound recovery makes of a directory that a crash left behind.
type Recovered struct {
	// LogEndOffset is where the log ends afterwards.
	LogEndOffset int64
	// Corrupt is set when bytes below the recovery point are damaged: nothing is cut then,
	// and the only copy goes offline.
	Corrupt string
	before  *Partition
	// kept are the batches below the end.
	kept []stored
}

// Recover tells what a recovery from the recovery point must find: everything below it is
// known to be synced; above it the log is cut at the first bad batch, whatever follows. A
// log whose clean marker is valid must come back whole. Offset and epoch of a batch lie outside
// its CRC, and a power loss may tear it there: what is sound has to follow. Segments that lie below the log start
// were deleted: a power loss may have brought some of them back and not others, which says
// nothing. A log that ends below its start begins anew there (I14).
func (p *Partition) Recover(recoveryPoint, logStart int64, clean bool) Recovered {
	r := Recovered{before: p}
	epoch := int32(-1)
	segments := p.Segments
	for len(segments) > 1 && segments[1].Base <= logStart {
		segments = segments[1:]
	}
	if len(segments) == 0 {
		r.LogEndOffset = logStart
		return r
	}
	next := segments[0].Base
	for i := range segments {
		s := &segments[i]
		if s.Base != next {
			r.LogEndOffset = next
			return r.damaged(recoveryPoint, clean, fmt.Sprintf("segment %d begins where %d is next", s.Base, next))
		}
		for j := range s.Batches {
			if s.Batches[j].Base != next {
				r.LogEndOffset = next
				return r.damaged(recoveryPoint, clean, fmt.Sprintf("batch %d-%d where %d is next", s.Batches[j].Base, s.Batches[j].Last, next))
			}
			if s.Batches[j].Epoch < epoch {
				r.LogEndOffset = next
				return r.damaged(recoveryPoint, clean, fmt.Sprintf("batch %d-%d has epoch %d after %d", s.Batches[j].Base, s.Batches[j].Last, s.Batches[j].Epoch, epoch))
			}
			next, epoch = s.Batches[j].Last+1, s.Batches[j].Epoch
			r.kept = append(r.kept, stored{s.Batches[j].Base, s.Batches[j].Last, s.Batches[j].Raw})
		}
		if s.Why != "" {
			r.LogEndOffset = next
			return r.damaged(recoveryPoint, clean, s.Why)
		}
	}
	r.LogEndOffset = max(next, logStart)
	return r.damaged(recoveryPoint, clean, "the log ends")
}

// damaged decides which kind of damage ends the log at r.LogEndOffset.
func (r Recovered) damaged(recoveryPoint int64, clean bool, why string) Recovered {
	if r.LogEndOffset < recoveryPoint {
		r.Corrupt = fmt.Sprintf("at offset %d, below the recovery point %d: %s", r.LogEndOffset, recoveryPoint, why)
	} else if clean && why != "the log ends" {
		r.Corrupt = fmt.Sprintf("at offset %d, though the node stopped cleanly: %s", r.LogEndOffset, why)
	}
	return r
}

// CheckRecovered is I16: after the recovery the log holds, byte for byte, the batches that
// were on disk below the expected end, and goes on from there. after may already hold newer
// batches. With failed, the directory went offline meanwhile: its logs are recovered, or as
// they were found.
func (r Recovered) CheckRecovered(after *Partition, failed bool) checker.Verdict {
	var v checker.Verdict
	if r.Corrupt != "" || failed && same(flatten(r.before), flatten(after)) {
		return v
	}
	stored := flatten(after)
	for _, want := range r.kept {
		if len(after.Segments) > 0 && want.last < after.Segments[0].Base {
			continue
		}
		got, ok := find(stored, want.base)
		switch {
		case !ok:
			v.Failf("I16", after.Name, "batch %d-%d was sound on disk below the recovered end %d and is gone", want.base, want.last, r.LogEndOffset)
			return v
		case !bytes.Equal(got.raw, want.raw):
			v.Failf("I16", after.Name, "batch %d-%d changed in the recovery", want.base, want.last)
			return v
		}
	}
	if end := after.LogEndOffset(); end < r.LogEndOffset {
		v.Failf("I16", after.Name, "ends at %d after the recovery, its sound batches reached %d", end, r.LogEndOffset)
	}
	return v
}

type stored struct {
	base, last int64
	raw        []byte
}

func same(a, b []stored) bool {
	return slices.EqualFunc(a, b, func(x, y stored) bool { return bytes.Equal(x.raw, y.raw) })
}

func flatten(p *Partition) []stored {
	var out []stored
	for i := range p.Segments {
		for j := range p.Segments[i].Batches {
			b := &p.Segments[i].Batches[j]
			out = append(out, stored{b.Base, b.Last, b.Raw})
		}
	}
	return out
}

func find(list []stored, base int64) (stored, bool) {
	lo, hi := 0, len(list)
	for lo < hi {
		if m := (lo + hi) / 2; list[m].base < base {
			lo = m + 1
		} else {
			hi = m
		}
	}
	if lo < len(list) && list[lo].base == base {
		return list[lo], true
	}
	return stored{}, false
}

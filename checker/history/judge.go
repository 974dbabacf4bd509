package history

import (
	"cmp"
	"fmt"
	"slices"

	"seedlog/checker"
)

type judge struct {
	h *History
	v *checker.Verdict
	// offsets holds where each digest is stored in the final logs, the first place of each.
	offsets []map[uint64]int64
	// resent are the digests of idempotent sends: those that may be sent more than once.
	resent map[uint64]bool
	cuts   [][]Cut
}

func newJudge(h *History, v *checker.Verdict) *judge {
	j := &judge{h: h, v: v, offsets: make([]map[uint64]int64, len(h.Partitions)), resent: make(map[uint64]bool), cuts: make([][]Cut, len(h.Partitions))}
	for i := range h.Sends {
		if h.Sends[i].Idempotent {
			j.resent[h.Sends[i].Digest] = true
		}
	}
	for _, c := range h.Cuts {
		j.cuts[c.Partition] = append(j.cuts[c.Partition], c)
	}
	for p := range h.Partitions {
		slices.SortFunc(j.cuts[p], func(a, b Cut) int { return cmp.Compare(a.At, b.At) })
		j.offsets[p] = make(map[uint64]int64, len(h.Logs[p].Records))
		for _, r := range h.Logs[p].Records {
			if at, twice := j.offsets[p][r.Digest]; twice {
				if !j.resent[r.Digest] || !h.ProducersExpire && !j.unknown(p, at, r.Offset) {
					v.Failf("duplicate", j.where(p), "value %016x is stored at %d and at %d", r.Digest, at, r.Offset)
				}
				continue
			}
			j.offsets[p][r.Digest] = r.Offset
		}
	}
	return j
}

func (j *judge) where(p int) string {
	return fmt.Sprintf("%s-%d", j.h.Partitions[p].Topic, j.h.Partitions[p].Index)
}

// excuses reports whether the loss lawfully took an offset that was told in an answer to who asked at
// the stamp, by who led then in the epoch or a later one, -1 if that is not known. Who led before an
// unclean election may have told it later; who was elected in it has what is left.
func (c *Cut) excuses(off int64, since Stamp, epoch int32) bool {
	return off >= c.Offset && (c.At > since || c.Unclean && epoch < c.Epoch)
}

// lost reports whether a loss lawfully took the offset.
func (j *judge) lost(p int, off int64, since Stamp, epoch int32) bool {
	return slices.ContainsFunc(j.cuts[p], func(c Cut) bool { return c.excuses(off, since, epoch) })
}

// lostSynced reports whether one did that takes what was synced.
func (j *judge) lostSynced(p int, off int64, since Stamp, epoch int32) bool {
	return slices.ContainsFunc(j.cuts[p], func(c Cut) bool { return (c.Unclean || c.Wiped) && c.excuses(off, since, epoch) })
}

// kept reports whether a send that was acknowledged stands where it was.
func (j *judge) kept(s *Send) bool {
	r, ok := j.h.Logs[s.Partition].At(s.Offset)
	return ok && r.Digest == s.Digest
}

// removed reports whether the offset lies below the log's start, lawfully.
func (j *judge) removed(p int, off int64) bool {
	if off >= j.h.Logs[p].Start {
		return false
	}
	if j.h.Retention {
		return true
	}
	for _, r := range j.h.Removals {
		if r.Partition == p && off < r.Before {
			return true
		}
	}
	return false
}

// unknown reports whether who led as an offset was written knew nothing of the producer of another one:
// its log began above that with nothing, as one does that comes to a log whose front is deleted
// (KIP-360).
func (j *judge) unknown(p int, was, written int64) bool {
	for _, e := range slices.Backward(j.h.Epochs[p]) {
		if e.Start <= written {
			return was < j.h.Anew[p][e.Epoch]
		}
	}
	return false
}

// sends is I4 and G1a: an acknowledged value stands at its offset until it is lawfully gone;
// a definitely failed one is nowhere. At most one offset is acknowledged to one value.
func (j *judge) sends() {
	type slot struct {
		p   int
		off int64
	}
	acked := make(map[slot]*Send)
	for i := range j.h.Sends {
		s := &j.h.Sends[i]
		if j.h.Deleted[s.Partition] {
			continue
		}
		at, stored := j.offsets[s.Partition][s.Digest]
		switch s.Outcome {
		case Failed:
			if stored {
				j.v.Failf("G1a", j.where(s.Partition), "value %016x of client %d definitely failed and is stored at %d", s.Digest, s.Client, at)
			}
		case OK:
			if s.Offset < 0 {
				continue // acks=0: nothing was promised
			}
			if r, ok := j.h.Logs[s.Partition].At(s.Offset); ok && r.Digest == s.Digest {
				at = s.Offset // maybe not the first place
			}
			j.acked(s, at, stored)
			if s.Alone && !j.kept(s) {
				continue
			}
			k := slot{s.Partition, s.Offset}
			if o := acked[k]; o != nil && o.Digest != s.Digest && !j.lost(s.Partition, s.Offset, min(o.Invoke, s.Invoke), min(o.LeaderEpoch, s.LeaderEpoch)) {
				j.v.Failf("inconsistent-offsets", j.where(s.Partition), "offset %d was acknowledged to %016x and to %016x", s.Offset, o.Digest, s.Digest)
			}
			acked[k] = s
		}
	}
}

func (j *judge) acked(s *Send, at int64, stored bool) {
	where := j.where(s.Partition)
	switch {
	case stored && at == s.Offset:
	case stored:
		// It may stand elsewhere only if the acknowledged place was lost, or deleted and forgotten, and a
		// retry wrote it again.
		if !j.lost(s.Partition, s.Offset, s.Invoke, s.LeaderEpoch) && !(j.removed(s.Partition, s.Offset) && j.unknown(s.Partition, s.Offset, at)) {
			j.v.Failf("I4", where, "value %016x was acknowledged at %d and is stored at %d", s.Digest, s.Offset, at)
		}
	case j.removed(s.Partition, s.Offset):
	case s.Alone:
	case j.lost(s.Partition, s.Offset, s.Invoke, s.LeaderEpoch):
		if s.Synced && !j.lostSynced(s.Partition, s.Offset, s.Invoke, s.LeaderEpoch) {
			j.v.Failf("I4", where, "value %016x was acknowledged as synced at %d, and a power loss took it", s.Digest, s.Offset)
		}
	default:
		j.v.Failf("I4", where, "value %016x of client %d was acknowledged at %d (events %d-%d) and is gone; the log is [%d, %d)",
			s.Digest, s.Client, s.Offset, s.Invoke, s.Return, j.h.Logs[s.Partition].Start, j.h.Logs[s.Partition].End)
	}
}

// disowned is I17 as clients see it: a batch whose predecessors were all acknowledged is out
// of order only if it is a repeat that the broker cannot recognize. While it runs it knows the
// last five batches of a producer; of what it loads it knows the last one and what was replayed.
// So it has loaded the log since the batch was first sent, and has the batch. What became of it
// later is another matter: nobody acknowledged it, so that a new leader may cut it away, and a
// lawful loss may take it in any case. Where nobody could look at the broker's log as it answered,
// the batch stands in the end, or a loss may have taken it. Who leads no more and does not know it
// knows nothing of what the next leader acknowledged.
func (j *judge) disowned() {
	for i := range j.h.Sends {
		s := &j.h.Sends[i]
		if !s.Disowned || s.Bereft || s.Deposed || j.h.Deleted[s.Partition] || j.h.ProducersExpire || s.BatchOrdinal > 0 {
			continue
		}
		_, stored := j.offsets[s.Partition][s.Digest]
		gone := j.cutSince(s.Partition, s.Return) || s.Held == Unseen && len(j.cuts[s.Partition]) > 0 || slices.ContainsFunc(j.h.Removals, func(r Removal) bool { return r.Partition == s.Partition })
		switch {
		case !s.Restarted:
			j.v.Failf("I17", j.where(s.Partition), "value %016x of client %d (events %d-%d) was called out of order, with all before it acknowledged, by a broker that had not loaded its log meanwhile",
				s.Digest, s.Client, s.Invoke, s.Return)
		case s.Held != Has && !stored && !gone && !j.h.Retention:
			j.v.Failf("I17", j.where(s.Partition), "value %016x of client %d (events %d-%d) was called out of order, with all before it acknowledged, and it is not stored",
				s.Digest, s.Client, s.Invoke, s.Return)
		}
	}
}

// order: ack(a) before invoke(b) means offset(a) < offset(b), by a sweep over stamps.
func (j *judge) order() {
	for p := range j.h.Partitions {
		if j.h.Deleted[p] {
			continue
		}
		var kept []*Send
		for i := range j.h.Sends {
			s := &j.h.Sends[i]
			if s.Partition == p && s.Outcome == OK && s.Offset >= 0 && !j.lost(p, s.Offset, s.Invoke, s.LeaderEpoch) && (!s.Alone || j.kept(s)) {
				kept = append(kept, s)
			}
		}
		byReturn := slices.Clone(kept)
		slices.SortStableFunc(byReturn, func(a, b *Send) int { return cmp.Compare(a.Return, b.Return) })
		slices.SortStableFunc(kept, func(a, b *Send) int { return cmp.Compare(a.Invoke, b.Invoke) })
		var highest *Send
		for k, next := 0, 0; k < len(kept); k++ {
			for next < len(byReturn) && byReturn[next].Return < kept[k].Invoke {
				if highest == nil || byReturn[next].Offset > highest.Offset {
					highest = byReturn[next]
				}
				next++
			}
			if b := kept[k]; highest != nil && highest.Offset >= b.Offset && highest.Digest != b.Digest {
				j.v.Failf("nonmonotonic-send", j.where(p), "value %016x was acknowledged at %d (event %d) before %016x was sent (event %d), which got %d",
					highest.Digest, highest.Offset, highest.Return, b.Digest, b.Invoke, b.Offset)
			}
		}
	}
}

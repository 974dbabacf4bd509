package history

import (
	"cmp"
	"slices"
)

// polls is I5 and I29: what was read is what is stored there, unless it is lawfully gone; a
// poll has no holes, begins at or after what was asked for, and goes on where the last one of
// the same client ended.
func (j *judge) polls() {
	next := make(map[[2]int]int64)
	type seen struct {
		digest    uint64
		at, since Stamp
		epoch     int32
	}
	first := make([]map[int64]seen, len(j.h.Partitions))
	for p := range first {
		first[p] = make(map[int64]seen)
	}
	for i := range j.h.Polls {
		q := &j.h.Polls[i]
		p := q.Partition
		if j.h.Deleted[p] {
			continue
		}
		where := j.where(p)
		key := [2]int{q.Client, p}
		if want, ok := next[key]; ok && !q.Seek && q.From != want && !j.cutSince(p, q.Invoke) {
			j.v.Failf("poll-skip", where, "client %d read up to %d and asked for %d", q.Client, want, q.From)
		}
		next[key] = q.From
		for k, r := range q.Records {
			expect := q.From
			if k > 0 {
				expect = q.Records[k-1].Offset + 1
			}
			if r.Offset < expect {
				j.v.Failf("int-nonmonotonic-poll", where, "client %d asked for %d and read %d after %d", q.Client, q.From, r.Offset, expect-1)
			} else if r.Offset > expect {
				j.v.Failf("int-poll-skip", where, "client %d asked for %d and read %d where %d was next", q.Client, q.From, r.Offset, expect)
			}
			next[key] = r.Offset + 1
			j.read(q, r)
			o, ok := first[p][r.Offset]
			if ok && o.digest != r.Digest && !j.lost(p, r.Offset, min(o.since, q.since()), min(o.epoch, q.ledIn())) {
				j.v.Failf("inconsistent-offsets", where, "offset %d was read as %016x and as %016x (events %d and %d)", r.Offset, o.digest, r.Digest, o.at, q.Invoke)
			}
			// Polls come in the order of their answers, and one that was asked for before a power
			// loss may be answered after others that were asked for later.
			if !ok || q.Invoke >= o.at {
				first[p][r.Offset] = seen{r.Digest, q.Invoke, q.since(), q.ledIn()}
			}
		}
	}
}

func (j *judge) cutSince(p int, before Stamp) bool {
	return slices.ContainsFunc(j.cuts[p], func(c Cut) bool { return c.Unclean || c.At < before })
}

func (j *judge) read(q *Poll, r Seen) {
	p := q.Partition
	if final, ok := j.h.Logs[p].At(r.Offset); ok && final.Digest == r.Digest {
		return
	} else if j.lost(p, r.Offset, q.since(), q.ledIn()) {
		if q.Synced && !j.lostSynced(p, r.Offset, q.since(), q.ledIn()) {
			j.v.Failf("I5", j.where(p), "client %d read %016x at %d of a log that shows only what is synced, and a power loss took it", q.Client, r.Digest, r.Offset)
		}
		return
	} else if !ok && j.removed(p, r.Offset) {
		return
	} else if ok {
		j.v.Failf("I5", j.where(p), "client %d read %016x at %d, where %016x is stored", q.Client, r.Digest, r.Offset, final.Digest)
	} else {
		j.v.Failf("I5", j.where(p), "client %d read %016x at %d, which is gone; the log is [%d, %d)", q.Client, r.Digest, r.Offset, j.h.Logs[p].Start, j.h.Logs[p].End)
	}
}

// watermarks is I6 and I14 as clients see them: the high watermark and the log start of
// answers that follow one another in real time never go back; only a power loss may lower a
// high watermark.
func (j *judge) watermarks() {
	for p := range j.h.Partitions {
		var polls []*Poll
		for i := range j.h.Polls {
			if q := &j.h.Polls[i]; q.Partition == p && q.HighWatermark >= 0 && !q.Follower && !q.Bygone {
				polls = append(polls, q)
			}
		}
		byReturn := slices.Clone(polls)
		slices.SortStableFunc(byReturn, func(a, b *Poll) int { return cmp.Compare(a.Return, b.Return) })
		slices.SortStableFunc(polls, func(a, b *Poll) int { return cmp.Compare(a.Invoke, b.Invoke) })
		var high, start *Poll
		next := 0
		for _, b := range polls {
			for next < len(byReturn) && byReturn[next].Return < b.Invoke {
				a := byReturn[next]
				if high == nil || a.HighWatermark > high.HighWatermark || j.cutBetween(p, high, a) {
					high = a
				}
				if a.LogStart >= 0 && (start == nil || a.LogStart > start.LogStart) || start != nil && j.cutBetween(p, start, a) {
					start = a
				}
				next++
			}
			if high != nil && b.HighWatermark < high.HighWatermark && !j.cutBetween(p, high, b) && !j.mayLag(p, high, b) {
				j.v.Failf("I6", j.where(p), "the high watermark %d (event %d, %s in epoch %d) was %d before (event %d, %s in epoch %d)",
					b.HighWatermark, b.Return, b.Node, b.LeaderEpoch, high.HighWatermark, high.Return, high.Node, high.LeaderEpoch)
			}
			if start != nil && b.LogStart >= 0 && b.LogStart < start.LogStart && !j.cutBetween(p, start, b) && !j.lagsBehind(p, start, b) {
				j.v.Failf("I24", j.where(p), "the log start %d (event %d) was %d before (event %d)", b.LogStart, b.Return, start.LogStart, start.Return)
			}
			if b.LogStart > b.HighWatermark {
				j.v.Failf("I14", j.where(p), "log start %d lies above the high watermark %d", b.LogStart, b.HighWatermark)
			}
		}
	}
}

// mayLag reports whether the high watermark of an answer may lie below that of an earlier one:
// who has led for long may not know that another does, and a new leader learns how far the
// followers are with their first fetches, not below the start of its epoch any more once it
// has come to it.
func (j *judge) mayLag(p int, high, b *Poll) bool {
	if p >= len(j.h.Replicated) || !j.h.Replicated[p] {
		return false
	}
	if high.LeaderEpoch < 0 || b.LeaderEpoch < 0 || b.LeaderEpoch < high.LeaderEpoch {
		return true
	}
	if b.LeaderEpoch == high.LeaderEpoch {
		return false
	}
	for _, e := range j.h.Epochs[p] {
		if e.Epoch == b.LeaderEpoch {
			return b.HighWatermark < e.Start
		}
	}
	return true
}

// lagsBehind reports whether the log start of an answer may lie below that of an earlier one:
// followers hear of it with their next fetch, and one of them may be the leader now.
func (j *judge) lagsBehind(p int, start, b *Poll) bool {
	return p < len(j.h.Replicated) && j.h.Replicated[p] && (start.LeaderEpoch < 0 || b.LeaderEpoch != start.LeaderEpoch)
}

// cutBetween reports whether a loss may lie between two answers.
func (j *judge) cutBetween(p int, a, b *Poll) bool {
	return slices.ContainsFunc(j.cuts[p], func(c Cut) bool {
		return c.At > a.Invoke && c.At < b.Return || c.Unclean && min(a.ledIn(), b.ledIn()) < c.Epoch
	})
}

// unseen: in the end every stored record was read by the final reader, and nothing else.
func (j *judge) unseen() {
	if !j.h.Final {
		return
	}
	for p := range j.h.Partitions {
		if j.h.Deleted[p] {
			continue
		}
		read := make(map[int64]bool)
		for i := range j.h.Polls {
			if q := &j.h.Polls[i]; q.Partition == p && q.Client == j.h.FinalClient {
				for _, r := range q.Records {
					read[r.Offset] = true
				}
			}
		}
		for _, r := range j.h.Logs[p].Records {
			if r.Offset >= j.h.Logs[p].Start && !read[r.Offset] {
				j.v.Failf("unseen", j.where(p), "value %016x is stored at %d and the final reader never saw it", r.Digest, r.Offset)
				break
			}
		}
	}
}

// removals is I24: what was deleted and acknowledged stays deleted, whatever crashed since.
func (j *judge) removals() {
	for _, r := range j.h.Removals {
		if start := j.h.Logs[r.Partition].Start; r.Acked && j.h.StartsKept[r.Partition] && !j.h.Deleted[r.Partition] && start < r.Before {
			j.v.Failf("I24", j.where(r.Partition), "records below %d were deleted (event %d), and in the end the log begins at %d", r.Before, r.Invoke, start)
		}
	}
}

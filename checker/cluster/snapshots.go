package cluster

import (
	"fmt"
	"maps"
	"slices"

	"seedlog/checker/logfile"
)

// replayed is what the committed log comes to below an offset.
type replayed struct {
	sum    uint64
	voters []Voter
}

// replay takes records of the committed log into the image.
func (q *Quorum) replay(base int64, records []logfile.Record) {
	for i := range records {
		if err := q.image.apply(records[i].Value); err != nil {
			q.v.Failf("I31", "metadata log", "record %d: %v", base+int64(i), err)
		}
	}
}

// keep keeps what the committed log comes to below an offset.
func (q *Quorum) keep(end int64) {
	q.at[end] = replayed{q.image.sum, q.voters}
	q.compareSnapshots()
}

// snapshot is one that waits for the committed log to come there.
type snapshot struct {
	where   string
	end     int64
	epoch   int32
	batches []logfile.Batch
}

// Snapshot takes a snapshot that a machine wrote, of all below an offset.
func (q *Quorum) Snapshot(where string, end int64, epoch int32, batches []logfile.Batch) {
	if end > q.from {
		q.snapshots = append(q.snapshots, snapshot{where, end, epoch, batches})
		q.compareSnapshots()
	}
}

// compareSnapshots is I31 for snapshots: what one comes to is what the log below comes to, and
// it ends where a batch ends.
func (q *Quorum) compareSnapshots() {
	q.snapshots = slices.DeleteFunc(q.snapshots, func(s snapshot) bool {
		switch {
		case s.end > q.Committed():
			return false
		case s.end > q.from:
			q.compareSnapshot(&s)
		}
		return true
	})
}

func (q *Quorum) compareSnapshot(s *snapshot) {
	want, ok := q.at[s.end]
	if !ok {
		q.v.Failf("I31", s.where, "ends at %d, within a batch", s.end)
		return
	}
	if i := find(q.committed, s.end); i > 0 && q.committed[i-1].Epoch != s.epoch {
		q.v.Failf("I31", s.where, "is of epoch %d, and the batch before offset %d of epoch %d", s.epoch, s.end, q.committed[i-1].Epoch)
	}
	got := newImage()
	var voters []Voter
	for i := range s.batches {
		records, err := s.batches[i].Records()
		if err != nil {
			q.v.Failf("I31", s.where, "cannot be read: %v", err)
			return
		}
		if s.batches[i].IsControl() {
			if v := votersIn(records); v != nil {
				voters = v
			}
			continue
		}
		for _, rec := range records {
			if err := got.apply(rec.Value); err != nil {
				q.v.Failf("I31", s.where, "%v", err)
				return
			}
		}
	}
	q.checkVersions(s.where, s.batches, got)
	if dynamic := len(want.voters) > 0 && want.voters[0].Directory != (ID{}); dynamic && !slices.Equal(voters, want.voters) {
		q.v.Failf("I31", s.where, "has the voters %v, and the log below %d has %v", voters, s.end, want.voters)
	}
	if got.sum != want.sum {
		q.v.Failf("I31", s.where, "is not what the log below %d comes to%s", s.end, q.unlike(got, s.end))
	}
}

// unlike says what of an image is not what the committed log comes to below an offset, where
// that is there from its beginning.
func (q *Quorum) unlike(got *image, end int64) (s string) {
	if q.from > 0 {
		return ""
	}
	want := newImage()
	for i := range q.committed[:find(q.committed, end)] {
		records, err := q.committed[i].Records()
		if err != nil || q.committed[i].IsControl() {
			continue
		}
		for _, rec := range records {
			_ = want.apply(rec.Value)
		}
	}
	n := 0
	for _, key := range slices.Sorted(maps.Keys(want.entries)) {
		if v, ok := got.entries[key]; n < 3 && (!ok || v != want.entries[key]) {
			s += fmt.Sprintf("; %s is %q there, %q in the log", key, v, want.entries[key])
			n++
		}
	}
	for _, key := range slices.Sorted(maps.Keys(got.entries)) {
		if _, ok := want.entries[key]; n < 3 && !ok {
			s += fmt.Sprintf("; %s is not in the log", key)
			n++
		}
	}
	return s
}

// SnapshotID reads the name of a snapshot's file.
func SnapshotID(name string) (end int64, epoch int32, ok bool) {
	n, err := fmt.Sscanf(name, "%020d-%010d.checkpoint", &end, &epoch)
	return end, epoch, err == nil && n == 2 && len(name) == 42
}

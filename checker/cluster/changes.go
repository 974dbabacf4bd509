package cluster

import (
	"encoding/binary"
	"fmt"
	"slices"

	"seedlog/checker/logfile"
)

// Changed is I35 for a change of the voters that a leader has just appended to its own log, in
// the batch with the offset: voters change one at a time, and only when the leader knows which
// are in force. So a majority of the voters in force before must have, durably, the first batch
// of the leader's epoch and the batch that names them. What is committed in its own epoch stays
// so, whatever else the voters do: no look comes too late for that. Voters whose disks are gone
// count as having it; nobody can say any more.
func (q *Quorum) Changed(leader int32, offset int64) {
	l := &q.logs[leader-1]
	at := find(l.batches, offset)
	if at == 0 || at < len(l.batches) && l.batches[at].Base > offset {
		return // a snapshot took its place
	}
	epoch := l.batches[min(at, len(l.batches)-1)].Epoch
	before, named, first := q.voters, -1, -1
	for i := range l.batches[:at] {
		b := &l.batches[i]
		if b.Epoch == epoch && first < 0 {
			first = i
		}
		if !b.IsControl() || b.Last < q.from {
			continue
		}
		if records, err := b.Records(); err == nil {
			if v := votersIn(records); v != nil {
				before, named = v, i
			}
		}
	}
	where := fmt.Sprintf("metadata log of node %d", leader)
	for _, need := range []struct {
		i    int
		what string
	}{{first, "the first batch of its epoch"}, {named, "the voters before"}} {
		if need.i < 0 {
			continue
		}
		b := &l.batches[need.i]
		if n := q.have(before, b); n < len(before)/2+1 {
			q.v.Failf("I35", where, "the voters change at offset %d in epoch %d, and %s at offset %d is durable on %d of %v", offset, epoch, need.what, b.Base, n, before)
			return
		}
	}
}

// Raised is I35 for configured voters that a leader has just written into its own log, in the
// batch with the offset: they are those of before, each with the directory that it has, and the
// level of kraft.version stands before them in the same batch: no log has the one without the
// other, wherever it ends.
func (q *Quorum) Raised(leader int32, offset int64) {
	l := &q.logs[leader-1]
	at := find(l.batches, offset)
	if at == len(l.batches) || l.batches[at].Base > offset {
		return // a snapshot took its place
	}
	records, err := l.batches[at].Records()
	if err != nil {
		return // what cannot be read is found by others
	}
	where := fmt.Sprintf("metadata log of node %d", leader)
	first := records[0]
	if len(first.Key) < 4 || binary.BigEndian.Uint16(first.Key[2:]) != 5 || len(first.Value) < 4 || binary.BigEndian.Uint16(first.Value[2:]) != 1 {
		q.v.Failf("I35", where, "the configured voters are named at offset %d, and the batch does not begin with kraft.version 1", offset)
	}
	named := votersIn(records)
	same := func(a, b Voter) bool { return a.ID == b.ID }
	if !slices.EqualFunc(named, q.initial, same) {
		q.v.Failf("I35", where, "the voters at offset %d are %v, and %v are configured", offset, named, q.initial)
	}
	for _, v := range named {
		if v.Directory == (ID{}) || !q.Live(v) {
			q.v.Failf("I35", where, "voter %d is named at offset %d with the directory %x, which is not its own", v.ID, offset, v.Directory)
		}
	}
}

// Answered is I35 for a change of the voters that a client was told is made: a majority of the
// voters after it has it durably, so whatever happens in the quorum after, it is made.
func (q *Quorum) Answered(v Voter, votes bool) {
	if slices.Contains(q.voters, v) == votes {
		return
	}
	for i := range q.logs {
		for j := range q.logs[i].batches {
			b := &q.logs[i].batches[j]
			if !b.IsControl() {
				continue
			}
			records, err := b.Records()
			if err != nil {
				continue
			}
			after := votersIn(records)
			if after != nil && slices.Contains(after, v) == votes && q.have(after, b) > len(after)/2 {
				return
			}
		}
	}
	q.v.Failf("I35", "metadata log", "a client was told that voter %d with the directory %x is in the quorum: %v, and no majority has that durably; the voters are %v", v.ID, v.Directory, votes, q.voters)
}

// have counts the voters that have a batch durably.
func (q *Quorum) have(voters []Voter, b *logfile.Batch) (n int) {
	for _, v := range voters {
		if !q.Live(v) {
			n++
			continue
		}
		l := &q.logs[v.ID-1]
		i := find(l.batches, b.Base)
		there := i < len(l.batches) && l.batches[i].Base == b.Base && l.batches[i].Epoch == b.Epoch && l.durable > b.Last
		if there || l.start > b.Base {
			n++
		}
	}
	return n
}

// elected is I9 for the first batch of an epoch: it names the voters, which are those that the
// log before it names last, and who voted for the leader, which is a majority of them. Of a log
// that goes on from a snapshot only the records in it say who they are.
func (q *Quorum) elected(before []logfile.Batch, b *logfile.Batch, start int64, where string) {
	if !b.IsControl() {
		return
	}
	records, err := b.Records()
	if err != nil || len(records) == 0 || len(records[0].Key) < 4 || binary.BigEndian.Uint16(records[0].Key[2:]) != 2 {
		return
	}
	if n := len(before); n > 0 && before[n-1].Epoch == b.Epoch {
		q.v.Failf("I9", where, "epoch %d begins at offset %d once more: its leader had come back", b.Epoch, b.Base)
	}
	r := &reader{b: records[0].Value}
	ids := func() (list []int32) {
		r.skipArray(func() {
			list = append(list, r.int32())
			r.tags(nil)
		})
		slices.Sort(list)
		return list
	}
	r.take(6) // the version, and the leader
	named, granting := ids(), ids()
	want := q.initial
	if start > 0 {
		want = nil
	}
	for i := range before {
		if !before[i].IsControl() {
			continue
		}
		if records, err := before[i].Records(); err == nil {
			if v := votersIn(records); v != nil {
				want = v
			}
		}
	}
	if want == nil || r.bad {
		return
	}
	var voters []int32
	for _, v := range want {
		voters = append(voters, v.ID)
	}
	slices.Sort(voters)
	stranger := func(id int32) bool { return !slices.Contains(voters, id) }
	if !slices.Equal(named, voters) {
		q.v.Failf("I9", where, "epoch %d at offset %d begins with the voters %v, and the log before names %v", b.Epoch, b.Base, named, voters)
	} else if slices.ContainsFunc(granting, stranger) || len(slices.Compact(granting)) < len(voters)/2+1 {
		q.v.Failf("I9", where, "the leader of epoch %d at offset %d has the votes of %v, of the voters %v", b.Epoch, b.Base, granting, voters)
	}
}

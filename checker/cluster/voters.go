package cluster

import (
	"encoding/binary"
	"fmt"

	"seedlog/checker/logfile"
)

// Voter has a vote in the metadata quorum: a machine, and with dynamic voters the directory
// that its log lies in. The zero directory is any: a static voter's.
type Voter struct {
	ID        int32
	Directory ID
}

// voteKey is whose vote of which epoch it is. A machine with another directory is another
// voter, though it has the same id.
type voteKey struct {
	Voter
	epoch int32
}

// Voters are those who have a vote, as far as it is committed.
func (q *Quorum) Voters() []Voter { return q.voters }

// Directory says in which directory a machine's metadata log lies now.
func (q *Quorum) Directory(id int32, dir ID) { q.logs[id-1].directory = dir }

// Live reports whether a voter's log is there: its machine has the directory.
func (q *Quorum) Live(v Voter) bool {
	return int(v.ID) <= len(q.logs) && (v.Directory == ID{} || v.Directory == q.logs[v.ID-1].directory)
}

// Votes reports whether a machine is a voter, with the directory that it has now.
func (q *Quorum) Votes(id int32) bool {
	for _, v := range q.voters {
		if v.ID == id && q.Live(v) {
			return true
		}
	}
	return false
}

// Vote is I9 for voters: a machine's durable vote of an epoch never changes.
func (q *Quorum) Vote(id, epoch, voted int32) {
	if voted < 0 {
		return
	}
	key := voteKey{Voter{id, q.logs[id-1].directory}, epoch}
	if before, ok := q.votes[key]; ok && before != voted {
		q.v.Failf("I9", fmt.Sprintf("node %d", id), "voted for %d and for %d in epoch %d", before, voted, epoch)
	}
	q.votes[key] = voted
}

// inForce are the voters whose majority commits now: those that the longest log of the newest
// epoch names last, committed or not. That log is a part of the leader's, if not all of it.
func (q *Quorum) inForce(newest int32) []Voter {
	var longest []logfile.Batch
	for i := range q.logs {
		l := q.logs[i].batches
		if n := len(l); n > 0 && l[n-1].Epoch == newest && ends(l) > ends(longest) {
			longest = l
		}
	}
	voters := q.voters
	for _, b := range longest[find(longest, q.Committed()):] {
		if !b.IsControl() {
			continue
		}
		if records, err := b.Records(); err == nil {
			if v := votersIn(records); v != nil {
				voters = v
			}
		}
	}
	return voters
}

// votersIn are the voters that control records name, or nil.
func votersIn(records []logfile.Record) (voters []Voter) {
	for _, rec := range records {
		if len(rec.Key) < 4 || binary.BigEndian.Uint16(rec.Key[2:]) != 6 {
			continue
		}
		r := &reader{b: rec.Value}
		r.int16()
		var found []Voter
		r.skipArray(func() {
			found = append(found, Voter{r.int32(), r.uuid()})
			r.skipArray(func() {
				r.string()
				r.string()
				r.take(2)
				r.tags(nil)
			})
			r.take(4) // the range of kraft.version
			r.tags(nil)
			r.tags(nil)
		})
		if !r.bad && len(found) > 0 {
			voters = found
		}
	}
	return voters
}

// Made reports whether a majority of the voters has the making of a topic durably: whatever
// happens in the quorum after, a newer epoch that has not got its majority yet, that does not
// change. Where a log begins with a snapshot beyond what is known to be committed, what that
// holds counts as there.
func (q *Quorum) Made(topic ID) bool {
	for i := range q.State.Partitions {
		if q.State.Partitions[i].ID == topic {
			return true
		}
	}
	n := 0
	for _, v := range q.voters {
		if q.Live(v) && q.logs[v.ID-1].makes(topic, q.Committed()) {
			n++
		}
	}
	return n > len(q.voters)/2
}

// makes reports whether the durable part of a log, from an offset on, makes a topic.
func (l *metadataLog) makes(topic ID, from int64) bool {
	if l.start > from {
		return true
	}
	first, end := find(l.batches, from), find(l.batches, l.durable)
	for _, b := range l.batches[min(first, end):end] {
		if b.IsControl() {
			continue
		}
		records, err := b.Records()
		if err != nil {
			return false
		}
		for _, rec := range records {
			r, _ := decode(rec.Value)
			if t, ok := r.(topicRecord); ok && t.id == topic {
				return true
			}
		}
	}
	return false
}

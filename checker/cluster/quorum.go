package cluster

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"seedlog/checker"
	"seedlog/checker/logfile"
)

// Quorum is the metadata logs of all machines, and the one that is committed.
type Quorum struct {
	State *State

	v         *checker.Verdict
	logs      []metadataLog
	committed []logfile.Batch
	from      int64               // where committed begins: the end of a snapshot, or 0
	named     map[[2]int64]uint32 // the CRC of each (offset, epoch) ever seen
	leaders   map[int32]int32     // by epoch
	votes     map[voteKey]int32
	voters    []Voter
	initial   []Voter

	image     *image             // of the committed log
	at        map[int64]replayed // by the ends of its batches
	snapshots []snapshot         // beyond it, still to be compared
	// stuck says that a majority has committed more, and its logs begin above the committed end.
	stuck bool
}

type metadataLog struct {
	directory ID
	batches   []logfile.Batch
	start     int64 // of the first segment
	durable   int64
	// checked is how far it was compared with the committed log.
	checked int64
}

// NewQuorum watches n machines, whose node ids are 1 to n.
func NewQuorum(n int, voters []Voter, v *checker.Verdict) *Quorum {
	return &Quorum{State: NewState(v), v: v, logs: make([]metadataLog, n), named: make(map[[2]int64]uint32),
		leaders: make(map[int32]int32), votes: make(map[voteKey]int32), voters: voters, initial: voters,
		image: newImage(), at: make(map[int64]replayed)}
}

// Committed is where the committed log ends.
func (q *Quorum) Committed() int64 { return max(q.from, ends(q.committed)) }

// Behind reports whether the committed log goes on where no log has it any more: below the
// snapshots with which those of the voters begin that have more. A log that ends where the
// committed one does, of a voter that is down, says nothing about how it goes on; nor does one
// with a tail of an older epoch, if a majority has committed more. The returned node has the
// oldest of the snapshots, all of which are committed.
func (q *Quorum) Behind() (id int32, behind bool) {
	first, end := int64(noOffset), q.Committed()
	for _, v := range q.voters {
		if !q.Live(v) {
			continue
		}
		l := &q.logs[v.ID-1]
		switch {
		case l.start > end && l.start < first:
			first, id = l.start, v.ID
		case l.start <= end && ends(l.batches) > end && !q.stuck:
			return 0, false
		}
	}
	return id, id > 0
}

// Jump takes what a snapshot says is committed below an offset.
func (q *Quorum) Jump(end int64, snapshot []logfile.Batch) {
	if end <= q.Committed() {
		return
	}
	q.from, q.committed, q.image = end, nil, newImage()
	q.State.load()
	for i := range snapshot {
		q.apply(&snapshot[i])
	}
	q.State.loaded(end)
	q.keep(end)
	for i := range q.logs {
		q.logs[i].checked = 0
	}
}

func ends(batches []logfile.Batch) int64 {
	if n := len(batches); n > 0 {
		return batches[n-1].Last + 1
	}
	return 0
}

// Forget takes a machine's log away: its disk is a new one.
func (q *Quorum) Forget(id int32) { q.logs[id-1] = metadataLog{} }

// See takes a machine's metadata log as it is now, whose first segment begins at start:
// batches[:kept] are those of the last time. durable is the offset up to which a power loss
// could not take it. A log that begins where a snapshot ends has what is below by the snapshot.
func (q *Quorum) See(id int32, start int64, batches []logfile.Batch, kept int, durable int64) {
	l := &q.logs[id-1]
	where := fmt.Sprintf("metadata log of node %d", id)
	if end, had := max(ends(batches), start), min(l.durable, l.checked); end < had {
		q.v.Failf("I35", where, "ends at %d, and what was committed was durable there up to %d", end, had)
	}
	if kept < len(batches) {
		l.checked = min(l.checked, batches[kept].Base)
	}
	for i := kept; i < len(batches); i++ {
		b := &batches[i]
		key, crc := [2]int64{b.Base, int64(b.Epoch)}, binary.BigEndian.Uint32(b.Raw[17:])
		if before, ok := q.named[key]; ok && before != crc {
			q.v.Failf("I2", where, "offset %d in epoch %d names two batches", b.Base, b.Epoch)
		}
		q.named[key] = crc
		if i > 0 && b.Epoch < batches[i-1].Epoch {
			q.v.Failf("I12", where, "epoch %d at offset %d follows epoch %d", b.Epoch, b.Base, batches[i-1].Epoch)
		}
		q.leader(b, where)
		q.elected(batches[:i], b, start, where)
	}
	l.batches, l.start, l.durable = batches, start, durable
}

// leader is I9: the first batch of an epoch says who leads it.
func (q *Quorum) leader(b *logfile.Batch, where string) {
	if !b.IsControl() {
		return
	}
	records, err := b.Records()
	if err != nil || len(records) == 0 || len(records[0].Key) < 4 || binary.BigEndian.Uint16(records[0].Key[2:]) != 2 || len(records[0].Value) < 6 {
		return
	}
	id := int32(binary.BigEndian.Uint32(records[0].Value[2:]))
	if before, ok := q.leaders[b.Epoch]; ok && before != id {
		q.v.Failf("I9", where, "epoch %d is led by %d and by %d", b.Epoch, before, id)
	}
	q.leaders[b.Epoch] = id
}

// Advance moves the committed end on to what a majority of the voters has durable, if it is
// of the newest epoch that anybody has: of an older one a majority says nothing yet. Then all
// logs are compared below it.
func (q *Quorum) Advance() {
	newest := int32(-1)
	for i := range q.logs {
		if n := len(q.logs[i].batches); n > 0 {
			newest = max(newest, q.logs[i].batches[n-1].Epoch)
		}
	}
	var of []*metadataLog
	var durable []int64
	voters := q.inForce(newest)
	for _, v := range voters {
		if !q.Live(v) {
			continue
		}
		l := &q.logs[v.ID-1]
		if end, epoch := l.durableEnd(); epoch == newest && newest >= 0 {
			of = append(of, l)
			durable = append(durable, end)
		}
	}
	need := len(voters)/2 + 1
	q.stuck = false
	if len(of) >= need {
		slices.SortFunc(durable, func(a, b int64) int { return cmp.Compare(b, a) })
		q.stuck = !q.commit(of, durable[need-1])
	}
	for i := range q.logs {
		if n := len(q.logs[i].batches); n > 0 && q.logs[i].batches[n-1].Epoch == newest {
			q.compare(int32(i + 1))
		}
	}
}

// durableEnd is the end of the last batch that is durable, and its epoch.
func (l *metadataLog) durableEnd() (end int64, epoch int32) {
	i := find(l.batches, l.durable)
	if i == 0 {
		return 0, -1
	}
	return l.batches[i-1].Last + 1, l.batches[i-1].Epoch
}

// find is the number of batches below an offset.
func find(batches []logfile.Batch, end int64) int {
	i, _ := slices.BinarySearchFunc(batches, end, func(b logfile.Batch, end int64) int { return cmp.Compare(b.Last+1, end+1) })
	return i
}

// commit moves the committed end on with one of the logs, and reports false if none goes on
// there.
func (q *Quorum) commit(of []*metadataLog, end int64) bool {
	for _, l := range of {
		from := find(l.batches, q.Committed())
		if from < len(l.batches) && l.batches[from].Base != q.Committed() || l.durable < end {
			continue
		}
		for _, b := range l.batches[from:] {
			if b.Last >= end {
				return true
			}
			q.committed = append(q.committed, b)
			q.apply(&b)
			q.keep(b.Last + 1)
		}
		return true
	}
	return end <= q.Committed()
}

func (q *Quorum) apply(b *logfile.Batch) {
	records, err := b.Records()
	if err != nil {
		q.v.Failf("I31", "metadata log", "committed batch %d-%d cannot be read: %v", b.Base, b.Last, err)
		return
	}
	if b.IsControl() {
		if v := votersIn(records); v != nil {
			q.voters = v
		}
		return
	}
	values := make([][]byte, len(records))
	for i := range records {
		values[i] = records[i].Value
	}
	q.State.apply(values, b.Base)
	q.replay(b.Base, records)
}

// compare is I31 for logs: below the committed end there is one, on every machine that has
// something of the newest epoch. Others may have a tail that nobody took, and do not know it.
func (q *Quorum) compare(id int32) {
	l, end := &q.logs[id-1], q.Committed()
	for i := find(l.batches, l.checked); i < len(l.batches); i++ {
		b := &l.batches[i]
		if b.Last >= end {
			return
		}
		if b.Base < q.from {
			continue
		}
		j := find(q.committed, b.Base)
		if q.committed[j].Base != b.Base || !bytes.Equal(q.committed[j].Raw, b.Raw) {
			c := &q.committed[j]
			q.v.Failf("I31", fmt.Sprintf("metadata log of node %d", id), "batch %d-%d of epoch %d is not the committed one, which is %d-%d of epoch %d",
				b.Base, b.Last, b.Epoch, c.Base, c.Last, c.Epoch)
			return
		}
		l.checked = b.Last + 1
	}
}

// Unsettled tells of which partitions somebody's log has a change that is not committed yet.
func (q *Quorum) Unsettled() (names func(topic ID, index int32) bool) {
	touched := make(map[partKey]bool)
	for i := range q.logs {
		l := &q.logs[i]
		for j := find(l.batches, q.Committed()); j < len(l.batches); j++ {
			if l.batches[j].IsControl() {
				continue
			}
			records, _ := l.batches[j].Records()
			for _, rec := range records {
				switch r, _ := decode(rec.Value); r := r.(type) {
				case partitionChange:
					touched[partKey{r.topic, r.index}] = true
				case partitionRecord:
					touched[partKey{r.topic, r.index}] = true
				}
			}
		}
	}
	return func(topic ID, index int32) bool { return touched[partKey{topic, index}] }
}

// Leader is who leads the newest epoch that has a first batch, or -1.
func (q *Quorum) Leader() int32 {
	if id, ok := q.leaders[q.Epoch()]; ok {
		return id
	}
	return -1
}

// Epoch is the newest that has a first batch, or -1.
func (q *Quorum) Epoch() int32 {
	newest := int32(-1)
	for epoch := range q.leaders { //order: the largest of them
		newest = max(newest, epoch)
	}
	return newest
}

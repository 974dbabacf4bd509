package cluster

import (
	"testing"

	"seedlog/checker"
	"seedlog/checker/logfile"
)

type logs = []logfile.Batch

func three(v *checker.Verdict) *Quorum { return NewQuorum(3, []Voter{{ID: 1}, {ID: 2}, {ID: 3}}, v) }

func TestAMajorityOfTheNewestEpochCommits(t *testing.T) {
	var v checker.Verdict
	q := three(&v)
	a := batch(1, 1, -1, featureRec("f", 1))
	q.See(1, 0, logs{leads(0, 1, 1), a}, 0, 2)
	q.See(2, 0, logs{leads(0, 1, 1), a}, 0, 1)
	q.Advance()
	if q.Committed() != 1 {
		t.Fatalf("committed %d where the second voter has only one batch durable", q.Committed())
	}
	q.See(2, 0, logs{leads(0, 1, 1), a}, 2, 2)
	q.Advance()
	if q.Committed() != 2 || q.Leader() != 1 {
		t.Fatalf("committed %d, leader %d", q.Committed(), q.Leader())
	}
	// A majority of an older epoch says nothing while somebody has a newer one.
	b := batch(2, 1, -1, featureRec("g", 1))
	q.See(1, 0, logs{leads(0, 1, 1), a, b}, 2, 3)
	q.See(2, 0, logs{leads(0, 1, 1), a, b}, 2, 3)
	q.See(3, 0, logs{leads(0, 1, 1), a, leads(2, 2, 3)}, 0, 3)
	q.Advance()
	if q.Committed() != 2 {
		t.Errorf("committed %d of an old epoch", q.Committed())
	}
	found(t, &v, "")
}

func TestQuorumFindsBrokenLogs(t *testing.T) {
	a, other := batch(1, 1, -1, featureRec("f", 1)), batch(1, 1, -1, featureRec("f", 2))
	for _, c := range []struct {
		name string
		then func(q *Quorum)
		want string
	}{
		{"nothing", func(*Quorum) {}, ""},
		{"two batches under one name", func(q *Quorum) { q.See(3, 0, logs{leads(0, 1, 1), other}, 0, 2) }, "I2"},
		{"two leaders in an epoch", func(q *Quorum) {
			q.See(3, 0, logs{leads(0, 1, 1), a, leads(2, 2, 2)}, 0, 3)
			q.See(1, 0, logs{leads(0, 1, 1), a, leads(3, 2, 1)}, 2, 3)
		}, "I9"},
		{"two votes in an epoch", func(q *Quorum) { q.Vote(1, 3, 2); q.Vote(1, 3, -1); q.Vote(1, 3, 1) }, "I9"},
		{"two votes of two directories", func(q *Quorum) { q.Vote(1, 3, 2); q.Directory(1, ID{1}); q.Vote(1, 3, 1) }, ""},
		{"one vote, twice", func(q *Quorum) { q.Vote(1, 3, 2); q.Vote(1, 3, 2); q.Vote(1, 4, 1) }, ""},
		{"another log below the committed end", func(q *Quorum) {
			q.See(1, 0, logs{leads(0, 1, 1), a, leads(2, 3, 1)}, 2, 3)
			q.See(3, 0, logs{leads(0, 1, 1), batch(1, 2, -1, featureRec("f", 3)), leads(2, 3, 1)}, 0, 3)
		}, "I31"},
		{"another log below the committed end, of an old epoch", func(q *Quorum) {
			q.See(1, 0, logs{leads(0, 1, 1), a, leads(2, 3, 1)}, 2, 3)
			q.See(3, 0, logs{leads(0, 1, 1), batch(1, 2, -1, featureRec("f", 3))}, 0, 2)
		}, ""},
		{"durable and committed, and truncated", func(q *Quorum) { q.See(1, 0, logs{leads(0, 1, 1)}, 1, 1) }, "I35"},
		{"truncated by a new disk", func(q *Quorum) { q.Forget(1); q.See(1, 0, logs{}, 0, 0) }, ""},
		{"replaced by a snapshot", func(q *Quorum) { q.See(1, 9, logs{}, 0, 9) }, ""},
		{"an uncommitted tail is truncated", func(q *Quorum) {
			q.See(1, 0, logs{leads(0, 1, 1), a, batch(2, 1, -1, featureRec("g", 1))}, 2, 3)
			q.See(1, 0, logs{leads(0, 1, 1), a, leads(2, 2, 2)}, 2, 3)
		}, ""},
		{"epochs go back", func(q *Quorum) { q.See(3, 0, logs{leads(0, 1, 1), a, leads(2, 3, 2), leads(3, 2, 3)}, 0, 4) }, "I12"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var v checker.Verdict
			q := three(&v)
			q.See(1, 0, logs{leads(0, 1, 1), a}, 0, 2)
			q.See(2, 0, logs{leads(0, 1, 1), a}, 0, 2)
			q.Advance()
			c.then(q)
			q.Advance()
			found(t, &v, c.want)
		})
	}
}

func TestASnapshotReplacesWhatNobodyHas(t *testing.T) {
	var v checker.Verdict
	q := three(&v)
	tail := batch(20, 4, -1, changeRec(topicID(9), []int32{1, 2}, nil, nil, nil, nil, -2))
	for id := int32(1); id <= 3; id++ {
		q.See(id, 20, logs{tail}, 0, 21)
	}
	q.Advance()
	id, behind := q.Behind()
	if !behind || id == 0 || q.Committed() != 0 {
		t.Fatalf("behind %v, node %d, committed %d", behind, id, q.Committed())
	}
	q.Jump(20, logs{batch(0, 4, -1, world(1)...)})
	q.Advance()
	if p := q.State.Named("t-0"); q.Committed() != 21 || p == nil || len(p.ISR) != 2 {
		t.Errorf("committed %d, partition %+v", q.Committed(), p)
	}
	found(t, &v, "")
}

// A voter that is down, or has a tail that nobody took, does not keep the committed log from
// going on with the others' snapshot.
func TestAVoterThatStoppedDoesNotHideWhatIsCommitted(t *testing.T) {
	head := batch(0, 4, -1, world(1)...)
	tail := batch(20, 5, -1, changeRec(topicID(9), []int32{1, 2}, nil, nil, nil, nil, -2))
	for name, down := range map[string]logs{
		"at the committed end": {head},
		"with a tail":          {head, batch(head.Last+1, 4, -1, changeRec(topicID(9), []int32{3}, nil, nil, nil, nil, -2))},
	} {
		var v checker.Verdict
		q := three(&v)
		for id := int32(1); id <= 3; id++ {
			q.See(id, 0, logs{head}, 0, head.Last+1)
		}
		q.Advance()
		if q.Committed() != head.Last+1 {
			t.Fatalf("%s: committed %d", name, q.Committed())
		}
		q.See(1, 20, logs{tail}, 0, 21)
		q.See(2, 20, logs{tail}, 0, 21)
		q.See(3, 0, down, 1, head.Last+1)
		q.Advance()
		if id, behind := q.Behind(); !behind || id == 3 || id == 0 {
			t.Fatalf("%s: behind %v, node %d", name, behind, id)
		}
		q.Jump(20, logs{batch(0, 4, -1, world(1)...)})
		q.Advance()
		if q.Committed() != 21 {
			t.Errorf("%s: committed %d", name, q.Committed())
		}
		if _, behind := q.Behind(); behind {
			t.Errorf("%s: behind after the jump", name)
		}
		found(t, &v, "")
	}
}

// A log that goes on at the committed end is waited for: no majority has more.
func TestALogThatGoesOnIsNotJumpedOver(t *testing.T) {
	var v checker.Verdict
	q := three(&v)
	head := batch(0, 4, -1, world(1)...)
	next := batch(head.Last+1, 4, -1, changeRec(topicID(9), []int32{1, 2}, nil, nil, nil, nil, -2))
	for id := int32(1); id <= 3; id++ {
		q.See(id, 0, logs{head}, 0, head.Last+1)
	}
	q.Advance()
	q.See(2, 0, logs{head, next}, 1, head.Last+1)
	q.See(1, 20, nil, 0, 0)
	q.Advance()
	if id, behind := q.Behind(); behind {
		t.Errorf("behind, by node %d", id)
	}
}

// A snapshot is judged by what it says, not by how it came to that: the last member of an ISR
// may be fenced, and settings come behind the partitions. What may never be is found.
func TestASnapshotIsJudgedAsAWhole(t *testing.T) {
	id := topicID(9)
	for _, c := range []struct {
		name string
		elr  int16
		part Partition
		want string
	}{
		{"the last member is fenced", 0, Partition{Replicas: []int32{1, 2, 3}, ISR: []int32{3}, Leader: -1}, ""},
		{"an eligible leader below min.insync.replicas", 1, Partition{Replicas: []int32{1, 2, 3}, ISR: []int32{1}, ELR: []int32{2}, Leader: 1}, ""},
		{"an eligible leader beside enough", 1, Partition{Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2}, ELR: []int32{3}, Leader: 1}, "I8"},
		{"a fenced member beside another", 0, Partition{Replicas: []int32{1, 2, 3}, ISR: []int32{1, 3}, Leader: 1}, "I8"},
		{"a fenced leader", 0, Partition{Replicas: []int32{1, 2, 3}, ISR: []int32{3}, Leader: 3}, "I8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var v checker.Verdict
			q := three(&v)
			c.part.ID = id
			q.Jump(20, logs{
				batch(0, 4, -1, featureRec("eligible.leader.replicas.version", c.elr), brokerRec(1, 1, 0), brokerRec(2, 2, 0), brokerRec(3, 3, 1)),
				batch(4, 4, -1, topicRec("t", id), partitionRec(c.part)),
				batch(6, 4, -1, configRec("t", "min.insync.replicas", "2")),
			})
			found(t, &v, c.want)
			q.State.apply([][]byte{changeRec(id, []int32{1, 2, 3}, nil, nil, nil, []int32{}, -2)}, 20)
			if c.part.Leader == 1 {
				found(t, &v, "I8") // once it is loaded, the fenced broker joins no more
			}
		})
	}
}

func TestAnUncommittedChangeIsPending(t *testing.T) {
	var v checker.Verdict
	q := three(&v)
	for id := int32(1); id <= 2; id++ {
		q.See(id, 0, logs{leads(0, 1, 1), batch(1, 1, -1, world(1)...)}, 0, 8)
	}
	q.Advance()
	change := batch(8, 1, -1, changeRec(topicID(9), []int32{1, 2}, nil, nil, nil, nil, -2))
	q.See(1, 0, logs{leads(0, 1, 1), batch(1, 1, -1, world(1)...), change}, 2, 9)
	q.Advance()
	if pending := q.Unsettled(); !pending(topicID(9), 0) || pending(topicID(8), 0) {
		t.Error("the change of t-0 is not pending, or another is")
	}
	found(t, &v, "")
}

// votersRec is a control record that names the voters.
func votersRec(base int64, epoch int32, voters ...Voter) logfile.Batch {
	return batch(base, epoch, 6, votersValue(voters))
}

func votersValue(voters []Voter) []byte {
	w := new(writer).i16(0).uvarint(uint64(len(voters) + 1))
	for _, v := range voters {
		w.i32(v.ID).id(v.Directory).uvarint(1).i16(0).i16(1).uvarint(0).uvarint(0)
	}
	return w.uvarint(0).b
}

func TestVotersCommitFromTheRecordThatNamesThem(t *testing.T) {
	var v checker.Verdict
	dirs := []ID{{1}, {2}, {3}}
	q := NewQuorum(3, []Voter{{1, dirs[0]}, {2, dirs[1]}, {3, dirs[2]}}, &v)
	for i, d := range dirs {
		q.Directory(int32(i+1), d)
	}
	// Node 3 leaves; without it both others are needed, for the record itself as well.
	without := votersRec(1, 1, Voter{1, dirs[0]}, Voter{2, dirs[1]})
	q.See(1, 0, logs{leads(0, 1, 1), without}, 0, 2)
	q.See(2, 0, logs{leads(0, 1, 1)}, 0, 1)
	q.See(3, 0, logs{leads(0, 1, 1), without}, 0, 2)
	q.Advance()
	if q.Committed() != 1 || len(q.Voters()) != 3 {
		t.Fatalf("committed %d, voters %v", q.Committed(), q.Voters())
	}
	q.See(2, 0, logs{leads(0, 1, 1), without}, 1, 2)
	q.Advance()
	if q.Committed() != 2 || len(q.Voters()) != 2 || q.Votes(3) || !q.Votes(1) {
		t.Fatalf("committed %d, voters %v", q.Committed(), q.Voters())
	}
	// A voter whose directory is gone counts among the voters, and not among the copies.
	q.Forget(2)
	q.Directory(2, ID{9})
	next := batch(2, 1, -1, featureRec("f", 1))
	q.See(1, 0, logs{leads(0, 1, 1), without, next}, 2, 3)
	q.See(2, 0, logs{leads(0, 1, 1), without, next}, 0, 3)
	q.Advance()
	if q.Committed() != 2 || q.Votes(2) {
		t.Errorf("committed %d by a directory that has no vote", q.Committed())
	}
	found(t, &v, "")
}

func TestATopicIsMadeByAMajority(t *testing.T) {
	var v checker.Verdict
	q := three(&v)
	id := topicID(9)
	making := batch(1, 1, -1, topicRec("t", id))
	q.See(1, 0, logs{leads(0, 1, 1), making}, 0, 2)
	q.See(2, 0, logs{leads(0, 1, 1), making}, 0, 1)
	q.Advance()
	if q.Made(id) {
		t.Error("made, and only one voter has it durably")
	}
	// It stays made while a newer epoch has no majority yet.
	q.See(2, 0, logs{leads(0, 1, 1), making, leads(2, 2, 2)}, 2, 2)
	q.Advance()
	if !q.Made(id) || q.Committed() != 1 && q.Committed() != 0 {
		t.Errorf("not made, and two voters have it durably; committed %d", q.Committed())
	}
	if q.Made(topicID(8)) {
		t.Error("another topic is made")
	}
	found(t, &v, "")
}

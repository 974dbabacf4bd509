package cluster

import (
	"testing"

	"seedlog/checker"
	"seedlog/checker/logfile"
)

func TestVotersChangeOneAtATimeAndAfterACommit(t *testing.T) {
	dirs := []ID{{1}, {2}, {3}, {4}}
	all := []Voter{{1, dirs[0]}, {2, dirs[1]}, {3, dirs[2]}}
	began, two, one := leads(0, 1, 1), votersRec(1, 1, all[0], all[1]), votersRec(2, 1, all[0])
	for _, c := range []struct {
		name string
		then func(q *Quorum)
		want string
	}{
		{"after a commit", func(q *Quorum) { q.See(2, 0, logs{began}, 0, 1); q.Changed(1, 1) }, ""},
		{"what was committed is not durable", func(q *Quorum) { q.See(2, 0, logs{began}, 0, 0); q.Changed(1, 1) }, "I35"},
		{"nobody else has anything", func(q *Quorum) { q.Changed(1, 1) }, "I35"},
		{"the other has another epoch", func(q *Quorum) { q.See(2, 0, logs{leads(0, 2, 2)}, 0, 1); q.Changed(1, 1) }, "I35"},
		{"the other's disk is gone", func(q *Quorum) { q.Forget(2); q.Changed(1, 1) }, ""},
		{"the other has a snapshot", func(q *Quorum) { q.See(2, 1, logs{}, 0, 1); q.Changed(1, 1) }, ""},
		{"two at once", func(q *Quorum) {
			q.See(2, 0, logs{began}, 0, 1)
			q.See(1, 0, logs{began, two, one}, 2, 3)
			q.Changed(1, 2)
		}, "I35"},
		{"one after the other", func(q *Quorum) {
			q.See(2, 0, logs{began, two}, 0, 2)
			q.See(1, 0, logs{began, two, one}, 2, 3)
			q.Changed(1, 2)
		}, ""},
		{"the one before is on those that it leaves out", func(q *Quorum) {
			q.See(3, 0, logs{began, two}, 0, 2)
			q.See(2, 0, logs{began}, 0, 1)
			q.See(1, 0, logs{began, two, one}, 2, 3)
			q.Changed(1, 2)
		}, "I35"},
		{"nothing is known of its log", func(q *Quorum) { q.See(1, 9, logs{}, 0, 9); q.Changed(1, 1) }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var v checker.Verdict
			q := NewQuorum(3, all, &v)
			for i, d := range dirs[:3] {
				q.Directory(int32(i+1), d)
			}
			q.See(1, 0, logs{began, two}, 0, 2)
			c.then(q)
			found(t, &v, c.want)
		})
	}
}

func TestAnAnsweredChangeOfVotersIsOnAMajorityOfThem(t *testing.T) {
	dirs := []ID{{1}, {2}, {3}}
	all := []Voter{{1, dirs[0]}, {2, dirs[1]}, {3, dirs[2]}}
	began, without1 := leads(0, 1, 1), votersRec(1, 1, all[1], all[2])
	for _, c := range []struct {
		name string
		then func(q *Quorum)
		want string
	}{
		{"committed", func(q *Quorum) {
			q.See(2, 0, logs{began, without1}, 0, 2)
			q.See(3, 0, logs{began, without1}, 0, 2)
			q.Advance()
			q.Answered(all[0], false)
		}, ""},
		{"committed, and a newer epoch has begun", func(q *Quorum) {
			q.See(2, 0, logs{began, without1, leads(2, 2, 2)}, 0, 2)
			q.See(3, 0, logs{began, without1}, 0, 2)
			q.Advance()
			q.Answered(all[0], false)
		}, ""},
		{"on the leader alone, which it removes", func(q *Quorum) { q.Answered(all[0], false) }, "I35"},
		{"on the leader and one of those that stay", func(q *Quorum) {
			q.See(2, 0, logs{began, without1}, 0, 2)
			q.Answered(all[0], false)
		}, "I35"},
		{"written by both that stay, and durable on one", func(q *Quorum) {
			q.See(2, 0, logs{began, without1}, 0, 2)
			q.See(3, 0, logs{began, without1}, 0, 1)
			q.Answered(all[0], false)
		}, "I35"},
		{"nobody heard of it", func(q *Quorum) { q.Answered(Voter{2, ID{9}}, true) }, "I35"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var v checker.Verdict
			q := NewQuorum(3, all, &v)
			for i, d := range dirs {
				q.Directory(int32(i+1), d)
			}
			q.See(1, 0, logs{began, without1}, 0, 2)
			c.then(q)
			found(t, &v, c.want)
		})
	}
}

func TestConfiguredVotersAreNamedAsTheyAre(t *testing.T) {
	dirs := []ID{{1}, {2}, {3}}
	all := []Voter{{1, dirs[0]}, {2, dirs[1]}, {3, dirs[2]}}
	raised := func(level int16, voters ...Voter) logfile.Batch {
		return mixed(1, 1, []int16{5, 6}, new(writer).i16(0).i16(level).uvarint(0).b, votersValue(voters))
	}
	for _, c := range []struct {
		name string
		b    logfile.Batch
		want string
	}{
		{"all of them", raised(1, all...), ""},
		{"without the level", votersRec(1, 1, all...), "I35"},
		{"at level 0", raised(0, all...), "I35"},
		{"one left out", raised(1, all[:2]...), "I35"},
		{"a directory unknown", raised(1, all[0], all[1], Voter{ID: 3}), "I35"},
		{"a directory of another", raised(1, all[0], all[1], Voter{3, dirs[1]}), "I35"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var v checker.Verdict
			q := NewQuorum(3, []Voter{{ID: 1}, {ID: 2}, {ID: 3}}, &v)
			for i, d := range dirs {
				q.Directory(int32(i+1), d)
			}
			q.See(1, 0, logs{leads(0, 1, 1), c.b}, 0, 1)
			q.Raised(1, c.b.Last)
			found(t, &v, c.want)
		})
	}
}

func TestWhatIsAcknowledgedAsSyncedIsDurable(t *testing.T) {
	only := func(ids ...int32) func(int32) bool {
		return func(node int32) bool {
			for _, id := range ids {
				if id == node {
					return true
				}
			}
			return false
		}
	}
	for _, c := range []struct {
		name    string
		durable func(int32) bool
		then    func(r *Replicas)
		want    string
	}{
		{"on all", only(1, 2, 3), nil, ""},
		{"not on a follower", only(1, 3), nil, "I4"},
		{"not on who is no member", only(1, 3), func(r *Replicas) {
			r.State.apply([][]byte{changeRec(topicID(9), []int32{1, 3}, nil, nil, nil, nil, -2)}, 50)
		}, ""},
		{"not on who crashed", only(1, 3), func(r *Replicas) { r.Crashed(2, func(string) bool { return false }) }, ""},
		{"a new leader's loss is to be judged", only(1, 3), func(r *Replicas) { r.Began(3, "t-0", 9, 10, 0) }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var v checker.Verdict
			r := replicated3(&v, 1)
			if c.then != nil {
				c.then(r)
			}
			r.Synced(r.State.Named("t-0"), 10, none, c.durable)
			found(t, &v, c.want)
		})
	}
	var v checker.Verdict
	r := replicated3(&v, 1)
	r.Synced(r.State.Named("t-0"), 10, func(ID, int32) bool { return true }, only())
	found(t, &v, "")
}

// elects is the first batch of an epoch with the voters, and those who voted for the leader.
func elects(base int64, epoch, leader int32, voters, granting []int32) logfile.Batch {
	w := new(writer).i16(0).i32(leader)
	for _, list := range [][]int32{voters, granting} {
		w.uvarint(uint64(len(list) + 1))
		for _, id := range list {
			w.i32(id).uvarint(0)
		}
	}
	return batch(base, epoch, 2, w.uvarint(0).b)
}

func TestALeaderHasTheVotesOfItsLogsVoters(t *testing.T) {
	two := votersRec(0, 1, Voter{ID: 1}, Voter{ID: 2})
	for _, c := range []struct {
		name  string
		start int64
		log   logs
		want  string
	}{
		{"two of three", 0, logs{elects(0, 1, 1, []int32{1, 2, 3}, []int32{3, 1})}, ""},
		{"one of three", 0, logs{elects(0, 1, 1, []int32{1, 2, 3}, []int32{1})}, "I9"},
		{"one twice", 0, logs{elects(0, 1, 1, []int32{1, 2, 3}, []int32{1, 1})}, "I9"},
		{"a stranger", 0, logs{elects(0, 1, 1, []int32{1, 2, 3}, []int32{1, 4})}, "I9"},
		{"voters that were taken back", 0, logs{elects(0, 1, 1, []int32{1, 2}, []int32{1, 2})}, "I9"},
		{"voters that changed", 0, logs{two, elects(1, 2, 1, []int32{1, 2}, []int32{1, 2})}, ""},
		{"voters of before a change", 0, logs{two, elects(1, 2, 1, []int32{1, 2, 3}, []int32{1, 2})}, "I9"},
		{"an epoch that begins twice", 0, logs{elects(0, 1, 1, []int32{1, 2, 3}, []int32{1, 2}), elects(1, 1, 1, []int32{1, 2, 3}, []int32{1, 2})}, "I9"},
		{"behind a snapshot", 5, logs{elects(5, 2, 1, []int32{1, 2}, []int32{1, 2})}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var v checker.Verdict
			three(&v).See(1, c.start, c.log, 0, c.start)
			found(t, &v, c.want)
		})
	}
}

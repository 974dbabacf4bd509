package cluster

import (
	"slices"
	"testing"

	"seedlog/checker"
)

// entry is a batch of one record.
func entry(base int64, epoch int32) Entry {
	return Entry{base, base, epoch, uint32(base)*7 + uint32(epoch)}
}

func entries(n int64, epoch int32) (out []Entry) {
	for i := range n {
		out = append(out, entry(i, epoch))
	}
	return out
}

func none(ID, int32) bool    { return false }
func anyone(node int32) bool { return true }

// replicated3 is t-0 on three nodes, ten batches each, all committed, under min ISR 2.
func replicated3(v *checker.Verdict, elr int16) *Replicas {
	s := NewState(v)
	s.apply(world(elr), 0)
	r := NewReplicas(s, v)
	for node := int32(1); node <= 3; node++ {
		r.See(node, "t-0", topicID(9), 0, entries(10, 0), 0)
	}
	r.Told("t-0", 10)
	r.Check(none, anyone)
	return r
}

func TestReplicasFindLostAndChangedLogs(t *testing.T) {
	id := topicID(9)
	isr := func(r *Replicas, members ...int32) {
		r.State.apply([][]byte{changeRec(id, members, nil, nil, nil, nil, members[0])}, 50)
	}
	// begins is a leader whose epoch the metadata has come to.
	begins := func(r *Replicas, node int32, epoch int32, offset int64) {
		for p := r.State.Named("t-0"); p.LeaderEpoch < epoch; {
			r.State.apply([][]byte{changeRec(id, nil, nil, nil, nil, nil, node)}, 70)
		}
		r.Began(node, "t-0", epoch, offset, 0)
		r.Losses()
	}
	again := func(r *Replicas, node int32) { r.State.apply([][]byte{brokerRec(node, 90, 0)}, 90) }
	// alone leaves one member in the ISR, down, with more in its log than anybody was told of.
	alone := func(r *Replicas, node int32) {
		r.See(node, "t-0", id, 0, entries(12, 0), 10)
		r.State.apply([][]byte{changeRec(id, []int32{node}, nil, nil, nil, nil, -1), fenceRec(node, int64(node), 1)}, 50)
	}
	allow := func(r *Replicas) {
		r.State.apply([][]byte{configRec("t", "unclean.leader.election.enable", "true")}, 60)
	}
	away := func(r *Replicas, leader int32) { uncleanly(r.State, leader, 55) }
	// skipped has the metadata go on with a snapshot that knows a leader and its epoch.
	skipped := func(r *Replicas, leader, epoch int32) {
		unclean, _ := r.State.Config("t", "unclean.leader.election.enable")
		image := append(world(1), configRec("t", "unclean.leader.election.enable", unclean))
		image[6] = partitionRec(Partition{ID: id, Replicas: []int32{1, 2, 3}, ISR: []int32{2, 3}, Leader: leader, LeaderEpoch: epoch, Epoch: 9})
		r.State.load()
		r.State.apply(image, 0)
		r.State.loaded(80)
	}
	no, yes := func(string) bool { return false }, func(string) bool { return true }
	for _, c := range []struct {
		name string
		elr  int16
		then func(r *Replicas)
		want string
	}{
		{"nothing", 1, func(*Replicas) {}, ""},
		{"a member ends below", 1, func(r *Replicas) { r.See(2, "t-0", id, 0, entries(8, 0), 8) }, "I3"},
		{"who is no member ends below", 1, func(r *Replicas) { isr(r, 1, 3); r.See(2, "t-0", id, 0, entries(8, 0), 8) }, ""},
		{"a member holds something else", 1, func(r *Replicas) {
			r.See(2, "t-0", id, 0, append(entries(8, 0), entry(8, 1), entry(9, 1)), 8)
		}, "I1"},
		{"two batches under one name", 1, func(r *Replicas) {
			r.See(2, "t-0", id, 0, append(entries(9, 0), Entry{9, 9, 0, 1}), 9)
		}, "I2"},
		{"above what was told anything goes", 1, func(r *Replicas) { r.See(2, "t-0", id, 0, append(entries(10, 0), entry(10, 3)), 10) }, ""},
		{"a member that lost power", 1, func(r *Replicas) { r.Crashed(2, yes); r.See(2, "t-0", id, 0, entries(8, 0), 8) }, ""},
		{"a member that was killed", 1, func(r *Replicas) { r.Crashed(2, no); r.See(2, "t-0", id, 0, entries(8, 0), 8) }, "I3"},
		{"a leader that has everything", 1, func(r *Replicas) { begins(r, 2, 1, 10) }, ""},
		{"two leaders in an epoch", 1, func(r *Replicas) { begins(r, 2, 1, 10); begins(r, 3, 1, 10) }, "I9"},
		{"a leader that lacks something", 1, func(r *Replicas) { begins(r, 2, 1, 9) }, "I4"},
		{"a leader that has something else", 1, func(r *Replicas) {
			r.See(2, "t-0", id, 0, append(entries(8, 0), entry(8, 1), entry(9, 1), entry(10, 1)), 8)
			begins(r, 2, 1, 11)
		}, "I4"},
		{"who is no member, where that is allowed", 1, func(r *Replicas) { allow(r); isr(r, 1, 3); away(r, 2); begins(r, 2, 2, 9) }, ""},
		{"a member, where that is allowed", 1, func(r *Replicas) { allow(r); begins(r, 2, 1, 9) }, "I4"},
		{"who is no member, where that is allowed, after another of them", 1, func(r *Replicas) {
			allow(r)
			isr(r, 1, 3)
			away(r, 2)
			begins(r, 2, 3, 9) // in epoch 2 it did not begin
		}, ""},
		{"a member after who was none", 1, func(r *Replicas) {
			allow(r)
			isr(r, 1, 3)
			away(r, 2)
			begins(r, 2, 2, 10)
			begins(r, 2, 3, 9)
		}, "I4"},
		{"who is no member, as a reassignment is taken back", 1, func(r *Replicas) {
			allow(r)
			r.State.apply([][]byte{brokerRec(4, 61, 0), changeRec(id, nil, []int32{4, 1, 2, 3}, []int32{1, 2, 3}, []int32{4}, nil, -2), changeRec(id, []int32{1, 2, 3, 4}, nil, nil, nil, nil, -2)}, 61)
			r.State.apply([][]byte{changeRec(id, []int32{4}, nil, nil, nil, nil, 4), brokerRec(1, 62, 0), brokerRec(2, 63, 0), brokerRec(3, 64, 0)}, 65)
			r.State.apply([][]byte{backRec(id, []int32{1, 2, 3}, 2, 1)}, 66)
			r.See(2, "t-0", id, 0, entries(8, 0), 8)
			begins(r, 2, 2, 8)
		}, ""},
		{"a leader of before a snapshot", 1, func(r *Replicas) { allow(r); skipped(r, 2, 3); begins(r, 2, 3, 9) }, ""},
		{"a leader that a snapshot knows, before it has begun", 1, func(r *Replicas) {
			allow(r)
			skipped(r, 2, 3)
			r.See(2, "t-0", id, 0, entries(9, 0), 9)
		}, ""},
		{"a leader of after a snapshot", 1, func(r *Replicas) { allow(r); skipped(r, 2, 3); begins(r, 2, 3, 10); begins(r, 2, 4, 9) }, "I4"},
		{"a leader of before a snapshot, where it is not allowed", 1, func(r *Replicas) { skipped(r, 2, 3); begins(r, 2, 3, 9) }, "I4"},
		{"one of two copies lost power", 1, func(r *Replicas) { r.Crashed(2, yes); again(r, 2); begins(r, 2, 1, 9) }, "I4"},
		{"both lost power", 1, func(r *Replicas) { r.Crashed(2, yes); r.Crashed(1, yes); again(r, 2); begins(r, 2, 1, 9) }, ""},
		{"both lost power, another one leads", 1, func(r *Replicas) { r.Crashed(2, yes); r.Crashed(1, yes); begins(r, 3, 1, 9) }, "I4"},
		{"the last member lost power, nobody keeps eligible leaders", 0, func(r *Replicas) { r.Crashed(2, yes); again(r, 2); begins(r, 2, 1, 9) }, ""},
		{"the last member lost power, and who left before eligible leaders were kept is none", 0, func(r *Replicas) {
			isr(r, 2)
			r.State.apply([][]byte{featureRec("eligible.leader.replicas.version", 1)}, 51)
			r.Crashed(2, yes)
			again(r, 2)
			begins(r, 2, 2, 9)
		}, ""},
		{"the same where it was not the last any more", 0, func(r *Replicas) {
			isr(r, 2)
			r.State.apply([][]byte{featureRec("eligible.leader.replicas.version", 1)}, 51)
			isr(r, 2, 3)
			isr(r, 2)
			r.Crashed(2, yes)
			again(r, 2)
			begins(r, 2, 4, 9)
		}, "I4"},
		{"the same where it was killed, and lost nothing of its own", 0, func(r *Replicas) {
			isr(r, 2)
			r.State.apply([][]byte{featureRec("eligible.leader.replicas.version", 1)}, 51)
			r.Crashed(2, no)
			again(r, 2)
			begins(r, 2, 2, 9)
		}, "I4"},
		{"the last member lost power, and was told of what it lost later", 0, func(r *Replicas) {
			alone(r, 2)
			r.Crashed(2, yes)
			r.See(2, "t-0", id, 0, entries(10, 0), 10)
			again(r, 2)
			r.Check(none, anyone) // nobody took it back into the ISR
			r.Told("t-0", 12)
			isr(r, 2)
			begins(r, 2, 2, 10)
		}, ""},
		{"the last member lost its disk", 0, func(r *Replicas) {
			alone(r, 2)
			r.Wiped(2)
			again(r, 2)
			r.Check(none, anyone)
			r.See(2, "t-0", id, 0, nil, 0)
			r.Check(none, anyone)
			isr(r, 2)
			begins(r, 2, 2, 0)
		}, ""},
		{"the last member was killed and lost something", 0, func(r *Replicas) {
			alone(r, 2)
			r.Crashed(2, no)
			again(r, 2)
			r.Told("t-0", 12)
			r.See(2, "t-0", id, 0, entries(10, 0), 10)
			isr(r, 2)
			begins(r, 2, 2, 10)
		}, "I4"},
		{"a leader that the controller has not heard of since", 1, func(r *Replicas) { r.Crashed(2, yes); begins(r, 2, 1, 9) }, "I4"},
		{"a leader that the disks do not tell of yet", 1, func(r *Replicas) {
			r.See(2, "t-0", id, 0, append(entries(8, 0), entry(8, 1)), 8)
			r.Began(2, "t-0", 1, 8, 0)
			r.Losses()
			r.Check(none, anyone) // it will be judged as a leader, and is not as a member
		}, ""},
		{"a leader that the disks tell of later", 1, func(r *Replicas) {
			r.Began(2, "t-0", 1, 9, 0)
			r.Losses()
			r.State.apply([][]byte{changeRec(id, nil, nil, nil, nil, nil, 2)}, 70)
			r.Losses()
		}, "I4"},
		{"what it tells meanwhile is not lost", 1, func(r *Replicas) {
			r.Began(2, "t-0", 1, 10, 0)
			for node := int32(1); node <= 3; node++ {
				r.See(node, "t-0", id, 0, append(entries(10, 0), entry(10, 1)), 10)
			}
			r.Told("t-0", 11)
			r.State.apply([][]byte{changeRec(id, nil, nil, nil, nil, nil, 2)}, 70)
			r.Losses()
		}, ""},
		{"a leader of an epoch that is over", 1, func(r *Replicas) { isr(r, 1, 2, 3); isr(r, 1, 2, 3); begins(r, 1, 1, 9) }, ""},
		{"another one in an epoch that is over", 1, func(r *Replicas) { isr(r, 1, 2, 3); isr(r, 1, 2, 3); begins(r, 2, 1, 9) }, "I9"},
		{"another one than the metadata names", 1, func(r *Replicas) { isr(r, 1, 2, 3); begins(r, 2, 1, 10) }, "I9"},
		{"another one than the metadata names later", 1, func(r *Replicas) {
			r.Began(2, "t-0", 1, 10, 0)
			r.Losses()
			isr(r, 1, 2, 3)
			r.Losses()
		}, "I9"},
		{"who leads where nobody does", 1, func(r *Replicas) {
			r.State.apply([][]byte{changeRec(id, nil, nil, nil, nil, nil, -1)}, 50)
			begins(r, 1, 1, 10)
		}, "I9"},
		{"who lost power is back in the ISR", 1, func(r *Replicas) {
			r.Crashed(2, yes)
			isr(r, 1, 3)
			r.State.apply([][]byte{brokerRec(2, 40, 0)}, 40)
			isr(r, 1, 2, 3)
			r.Check(none, anyone)
			r.Crashed(1, yes)
			again(r, 1)
			begins(r, 1, 5, 9)
		}, "I4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var v checker.Verdict
			r := replicated3(&v, c.elr)
			found(t, &v, "")
			c.then(r)
			r.Check(none, anyone)
			found(t, &v, c.want)
		})
	}
}

func TestTheBudgetKeepsAsManyCopiesAsTheProtocolNeeds(t *testing.T) {
	var v checker.Verdict
	r := replicated3(&v, 1)
	if !r.Affords(1) {
		t.Error("one loss is not affordable with min.insync.replicas 2")
	}
	r.Crashed(2, func(string) bool { return true })
	if r.Affords(1) || !r.Affords(2) {
		t.Error("two losses are affordable, or the same one twice is not")
	}
}

// Who is elected uncleanly may lack what others have and nobody was told of yet: an answer that
// is on its way then tells of what is gone already. And who led before may not know yet, take more
// and tell of it.
func TestAnUncleanElectionLosesWhatNobodyWasToldOf(t *testing.T) {
	for _, longest := range []int64{12, 10} {
		var v checker.Verdict
		r := replicated3(&v, 1)
		r.See(1, "t-0", topicID(9), 0, entries(longest, 0), 10)
		r.State.apply([][]byte{configRec("t", "unclean.leader.election.enable", "true")}, 60)
		r.State.apply([][]byte{changeRec(topicID(9), []int32{1}, nil, nil, nil, nil, 1), brokerRec(2, 12, 0), brokerRec(3, 13, 0)}, 61)
		r.Began(1, "t-0", 1, longest, 32)
		r.Losses()
		uncleanly(r.State, 2, 62)
		r.Began(2, "t-0", 2, 10, 33)
		if lost := r.Losses(); len(lost) != 1 || lost[0].Offset != 10 || !lost[0].Unclean {
			t.Errorf("others have %d: losses %+v", longest, lost)
		}
		found(t, &v, "")
	}
}

// What lies below the start of a replica's log is deleted: it may be what was cut elsewhere.
func TestWhatIsDeletedIsNotCompared(t *testing.T) {
	for start, want := range map[int64]string{2: "", 1: "I1"} {
		var v checker.Verdict
		r := replicated3(&v, 1)
		r.Starts(2, "t-0", start)
		r.See(2, "t-0", topicID(9), 0, slices.Concat(entries(2, 7), entries(10, 0)[2:]), 0)
		r.Check(none, anyone)
		found(t, &v, want)
	}
}

// Who is elected uncleanly may have a record of its own, told to nobody or lost before, where the
// leader before committed another one, which is on no disk by then and was on none when anybody
// looked.
func TestAnUncleanElectionLosesWhatStandsWhereTheNewLeaderHasItsOwn(t *testing.T) {
	var v checker.Verdict
	r := replicated3(&v, 1)
	r.State.apply([][]byte{configRec("t", "unclean.leader.election.enable", "true")}, 60)
	lead := func(node, epoch int32, end int64) []Loss {
		uncleanly(r.State, node, 60+int64(epoch))
		r.Began(node, "t-0", epoch, end, uint64(epoch))
		return r.Losses()
	}
	lead(2, 1, 10)
	r.See(2, "t-0", topicID(9), 0, append(entries(10, 0), entry(10, 1)), 10)
	lead(1, 2, 10) // without the record of epoch 1
	r.Told("t-0", 13)
	if lost := lead(2, 3, 11); len(lost) != 1 || lost[0].Offset != 10 {
		t.Errorf("with a record where another was committed: losses %+v", lost)
	}
	// What it has of the leader before is not lost.
	r.See(2, "t-0", topicID(9), 0, append(entries(10, 0), entry(10, 1), entry(11, 3), entry(12, 3)), 11)
	r.See(3, "t-0", topicID(9), 0, append(entries(10, 0), entry(10, 1), entry(11, 3)), 10)
	r.Told("t-0", 13)
	if lost := lead(3, 4, 12); len(lost) != 1 || lost[0].Offset != 12 {
		t.Errorf("with less than the leader before: losses %+v", lost)
	}
	found(t, &v, "")
}

func TestWhereALogLeavesALineage(t *testing.T) {
	lineage := []origin{{0, 5}, {2, 10}, {5, 20}}
	for _, c := range []struct {
		log       []origin
		end, want int64
	}{
		{nil, 8, 8},
		{[]origin{{0, 0}}, 8, 8},
		{[]origin{{0, 0}}, 10, 10},
		{[]origin{{0, 0}}, 12, 10},
		{[]origin{{0, 0}, {1, 9}}, 12, 9},
		{[]origin{{0, 0}, {1, 11}}, 12, 10},
		{[]origin{{0, 0}, {2, 10}, {3, 15}, {4, 16}}, 17, 15},
		{[]origin{{0, 0}, {2, 10}, {5, 20}}, 30, 30},
		{[]origin{{7, 3}}, 9, 5},
	} {
		if got := leaves(lineage, c.log, c.end); got != c.want {
			t.Errorf("%v to %d leaves at %d, want %d", c.log, c.end, got, c.want)
		}
	}
	if got := leaves(nil, []origin{{0, 0}}, 4); got != 4 {
		t.Errorf("the first leader leaves at %d", got)
	}
}

// A topic was deleted and made again while a node was away, which has the old one's directory still:
// what is known of the new one stays known, however often that is looked at.
func TestADeletedTopicsDirectoryIsNothingOfTheNext(t *testing.T) {
	var v checker.Verdict
	r := replicated3(&v, 1)
	old, id := topicID(9), topicID(8)
	r.State.apply([][]byte{rec(9, 0).id(old).uvarint(0).b, topicRec("t", id), configRec("t", "min.insync.replicas", "2"),
		partitionRec(Partition{ID: id, Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2}, Leader: 1})}, 50)
	for node := int32(1); node <= 2; node++ {
		r.See(node, "t-0", id, 0, entries(4, 0), 0)
	}
	r.Began(1, "t-0", 0, 0, 7)
	r.Losses()
	r.Told("t-0", 4)
	r.Check(none, anyone)
	r.See(3, "t-0", old, 0, nil, 0)
	r.Gone(1, "t-0", old)
	r.Check(none, anyone)
	found(t, &v, "")
	if got := r.Ends("t-0"); r.HighWatermark("t-0") != 4 || len(got) != 2 || got[1] != 4 || got[2] != 4 || r.LedIn("t-0", 0) != 1 {
		t.Errorf("ends %v, high watermark %d, led by %d", got, r.HighWatermark("t-0"), r.LedIn("t-0", 0))
	}
	r.Gone(1, "t-0", id)
	if got := r.Ends("t-0"); len(got) != 1 {
		t.Errorf("ends %v", got)
	}
}

// Who leads with an empty log knows of no producer.
func TestAnEmptyLeadersLossIsTold(t *testing.T) {
	for _, c := range []struct {
		start int64
		have  []Entry
		want  bool
	}{{8, nil, true}, {0, entries(8, 0), false}} {
		var v checker.Verdict
		r := replicated3(&v, 1)
		r.Crashed(2, func(string) bool { return true })
		r.Crashed(3, func(string) bool { return true })
		r.See(2, "t-0", topicID(9), c.start, c.have, 0)
		uncleanly(r.State, 2, 62)
		r.Began(2, "t-0", 1, 8, 33)
		if lost := r.Losses(); len(lost) != 1 || lost[0].Offset != 8 || lost[0].Empty != c.want {
			t.Errorf("a log that begins at %d: losses %+v", c.start, lost)
		}
		if !r.Led("t-0", 2, 1, 99) || r.Led("t-0", 2, 2, 99) || r.Led("t-0", 1, 0, 99) || r.Led("t-0", 2, 1, 1) {
			t.Error("who has led is not known")
		}
		if id := topicID(9); r.LedBefore("t-0", id, 2, 34) != 1 || r.LedBefore("t-0", id, 2, 33) != -1 || r.LedBefore("t-0", id, 1, 34) != -1 || r.LedBefore("t-0", topicID(8), 2, 34) != -1 {
			t.Error("in which epoch is not known")
		}
		found(t, &v, "")
	}
}

// A log that began anew is told of with the epochs that its node leads in from then on, until it
// is gone, or a crash brings back the one before.
func TestALeaderWhoseLogBeganAnewIsTold(t *testing.T) {
	var v checker.Verdict
	r := replicated3(&v, 1)
	lead := func(node, epoch int32) {
		r.State.apply([][]byte{changeRec(topicID(9), nil, nil, nil, nil, nil, node)}, 60+int64(epoch))
		r.Began(node, "t-0", epoch, 10, 33)
		r.Losses()
	}
	lead(2, 1)
	r.Anew(2, "t-0", 5)
	r.See(2, "t-0", topicID(9), 5, entries(10, 0)[5:], 0)
	lead(1, 2)
	lead(2, 3)
	r.Gone(2, "t-0", topicID(9))
	r.See(2, "t-0", topicID(9), 0, entries(10, 0), 0)
	lead(1, 4)
	lead(2, 5)
	r.Anew(1, "t-0", 5)
	r.See(1, "t-0", topicID(9), 0, entries(10, 0), 0)
	lead(1, 6)
	if led := r.LedAnew("t-0"); len(led) != 1 || led[3] != 5 {
		t.Errorf("led anew: %v", led)
	}
	if led := r.LedAnew("t-1"); len(led) != 0 {
		t.Errorf("a partition that nobody led: %v", led)
	}
	found(t, &v, "")
}

// The last member of an ISR, which lost some, is not back because another one led meanwhile.
func TestTheLastMemberOfAnISRNeverLeftIt(t *testing.T) {
	var v checker.Verdict
	r := replicated3(&v, 0)
	p, id := r.parts["t-0"], topicID(9)
	p.told = 0
	r.Crashed(2, func(string) bool { return true })
	lead := func(node, epoch int32, isr ...int32) {
		r.State.apply([][]byte{changeRec(id, isr, nil, nil, nil, nil, node)}, 50)
		r.Began(node, "t-0", epoch, 9, 0)
		r.Losses()
		r.Check(func(ID, int32) bool { return false }, func(int32) bool { return true })
	}
	lead(1, 1, 1, 2)
	r.State.apply([][]byte{brokerRec(2, 90, 0)}, 90)
	r.State.apply([][]byte{changeRec(id, []int32{2}, nil, nil, nil, nil, 2)}, 91)
	r.Check(func(ID, int32) bool { return false }, func(int32) bool { return true })
	if !p.crashed(2) {
		t.Error("it is back before it has led")
	}
	r.State.apply([][]byte{changeRec(id, []int32{}, nil, nil, nil, nil, -1)}, 92)
	r.State.apply([][]byte{changeRec(id, []int32{2}, nil, nil, nil, nil, 2)}, 93)
	r.Check(func(ID, int32) bool { return false }, func(int32) bool { return true })
	if !p.crashed(2) {
		t.Error("it is back as it is elected")
	}
	lead(2, 5, 2)
	if p.crashed(2) {
		t.Error("it leads, and is not back")
	}
}

func TestALossMovesWhatIsCommitted(t *testing.T) {
	var v checker.Verdict
	r := replicated3(&v, 1)
	r.State.apply([][]byte{configRec("t", "unclean.leader.election.enable", "true")}, 60)
	r.State.apply([][]byte{changeRec(topicID(9), []int32{1, 3}, nil, nil, nil, nil, -2)}, 61)
	r.Began(2, "t-0", 1, 7, 33)
	if lost := r.Losses(); len(lost) > 0 {
		t.Fatalf("lost before the metadata tells of it: %+v", lost)
	}
	uncleanly(r.State, 2, 70)
	r.See(2, "t-0", topicID(9), 0, entries(7, 0), 7)
	lost := r.Losses()
	if len(lost) != 1 || lost[0].Offset != 7 || !lost[0].Unclean || lost[0].At != 33 || r.HighWatermark("t-0") != 7 {
		t.Fatalf("losses %+v, high watermark %d", lost, r.HighWatermark("t-0"))
	}
	for node := int32(1); node <= 3; node++ {
		r.See(node, "t-0", topicID(9), 0, append(entries(7, 0), entry(7, 4)), 7)
	}
	r.Told("t-0", 8)
	r.Check(none, anyone)
	found(t, &v, "")
	if why := r.Differ(r.State.Named("t-0")); why != "" {
		t.Error(why)
	}
	r.See(3, "t-0", topicID(9), 0, append(entries(7, 0), entry(7, 5)), 7)
	if r.Differ(r.State.Named("t-0")) == "" {
		t.Error("replicas that differ are equal")
	}
	r.Starts(2, "t-0", 8)
	if r.Differ(r.State.Named("t-0")) == "" {
		t.Error("replicas that differ are equal, for another one has deleted its records")
	}
	r.Starts(3, "t-0", 8)
	if why := r.Differ(r.State.Named("t-0")); why != "" {
		t.Errorf("what is deleted on node 3: %s", why)
	}
	if got := r.Ends("t-0"); !slices.Equal([]int64{got[1], got[2], got[3]}, []int64{8, 8, 8}) {
		t.Errorf("ends %v", got)
	}
}

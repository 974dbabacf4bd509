package cluster

import (
	"testing"

	"seedlog/checker"
)

// world is three unfenced brokers and a topic of one partition.
func world(elr int16) [][]byte {
	id := topicID(9)
	return [][]byte{
		featureRec("eligible.leader.replicas.version", elr),
		brokerRec(1, 1, 0), brokerRec(2, 2, 0), brokerRec(3, 3, 0),
		topicRec("t", id), configRec("t", "min.insync.replicas", "2"),
		partitionRec(Partition{ID: id, Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2, 3}, Leader: 1}),
	}
}

func TestStateFindsBrokenMetadata(t *testing.T) {
	id := topicID(9)
	allowed := configRec("t", "unclean.leader.election.enable", "true")
	change := func(isr, elr []int32, leader int32) []byte { return changeRec(id, isr, nil, nil, nil, elr, leader) }
	onlyTwo := [][]byte{change([]int32{2}, nil, 2), brokerRec(1, 8, 0), brokerRec(3, 9, 0)}
	onlyThree := [][]byte{change([]int32{1}, nil, 1), brokerRec(2, 9, 1), brokerRec(3, 10, 0)}
	begun := [][]byte{brokerRec(4, 9, 0), changeRec(id, nil, []int32{4, 1, 2, 3}, []int32{1, 2, 3}, []int32{4}, nil, -2), change([]int32{1, 2, 3, 4}, nil, -2)}
	onlyAdded := [][]byte{change([]int32{4}, nil, 4), brokerRec(1, 10, 0), brokerRec(2, 11, 0), brokerRec(3, 12, 0)}
	for _, c := range []struct {
		name  string
		elr   int16
		steps [][][]byte
		want  string
	}{
		{"nothing happens", 1, nil, ""},
		{"the ISR shrinks", 1, [][][]byte{{change([]int32{1, 2}, nil, -2)}}, ""},
		{"eligible below min ISR", 1, [][][]byte{{change([]int32{1}, []int32{2, 3}, -2)}}, ""},
		{"who leaves below min ISR is not eligible", 1, [][][]byte{{change([]int32{1}, []int32{2}, -2)}}, "I8"},
		{"who leaves below min ISR came back from a crash", 1, [][][]byte{{change([]int32{1}, []int32{2}, -2), brokerRec(3, 9, 0)}}, ""},
		{"who leaves below min ISR, and nobody is to be eligible", 0, [][][]byte{{change([]int32{1}, nil, -2)}}, ""},
		{"eligible at min ISR", 1, [][][]byte{{change([]int32{1, 2}, []int32{3}, -2)}}, "I8"},
		{"who is eligible is forgotten", 1, [][][]byte{{change([]int32{1}, []int32{2, 3}, -2)}, {change(nil, []int32{3}, -2)}}, "I8"},
		{"who is eligible joins", 1, [][][]byte{{change([]int32{1}, []int32{2, 3}, -2)}, {change([]int32{1, 2}, []int32{}, -2)}}, ""},
		{"who is eligible comes back from a crash", 1, [][][]byte{{change([]int32{1}, []int32{2, 3}, -2)}, {change(nil, []int32{3}, -2), brokerRec(2, 9, 0)}}, ""},
		{"fewer are asked for", 1, [][][]byte{{change([]int32{1}, []int32{2, 3}, -2)}, {configRec("t", "min.insync.replicas", "1"), change(nil, []int32{}, -2)}}, ""},
		{"an unclean election forgets who is eligible", 1, [][][]byte{
			{allowed}, {change([]int32{1}, []int32{2}, -2), brokerRec(3, 9, 0)}, {uncleanRec(id, nil, 3), fenceRec(1, 1, 1), fenceRec(2, 2, 1)}}, ""},
		{"who leaves after an unclean election is eligible", 1, [][][]byte{
			{allowed}, onlyThree, {uncleanRec(id, nil, 3), brokerRec(1, 11, 1)}, {fenceRec(1, 11, -1)}, {change([]int32{3, 1}, nil, -2)}, {fenceRec(1, 11, 1), change([]int32{3}, []int32{1}, -2)}}, ""},
		{"who leaves after an unclean election is not", 1, [][][]byte{
			{allowed}, onlyThree, {uncleanRec(id, nil, 3), brokerRec(1, 11, 1)}, {fenceRec(1, 11, -1)}, {change([]int32{3, 1}, nil, -2)}, {fenceRec(1, 11, 1), change([]int32{3}, nil, -2)}}, "I8"},
		{"both in ISR and eligible", 1, [][][]byte{{change([]int32{1}, []int32{1}, -2)}}, "I8"},
		{"a stranger in the ISR", 1, [][][]byte{{change([]int32{1, 2, 7}, nil, -2)}}, "I8"},
		{"two replicas on a broker", 1, [][][]byte{{changeRec(id, nil, []int32{1, 2, 3, 3}, nil, nil, nil, -2)}}, "R8"},
		{"a stranger eligible", 1, [][][]byte{{change([]int32{1}, []int32{7}, -2)}}, "I8"},
		{"the leader leaves the ISR", 1, [][][]byte{{change([]int32{2, 3}, nil, -2)}}, "I8"},
		{"an election of a stranger", 1, [][][]byte{{change([]int32{2, 3}, nil, 2)}, {uncleanRec(id, nil, 1)}}, "I3"},
		{"where that is allowed", 1, [][][]byte{{allowed}, {change([]int32{2, 3}, nil, 2)}, {uncleanRec(id, nil, 1)}}, "I3"},
		{"where that is allowed, and the members go", 1, [][][]byte{{allowed}, onlyTwo, {uncleanRec(id, nil, 1), fenceRec(2, 2, 1)}}, ""},
		{"and nobody says so", 1, [][][]byte{{allowed}, onlyTwo, {change([]int32{1}, nil, 1), fenceRec(2, 2, 1)}}, "R6"},
		{"where that is allowed, and the members come", 1, [][][]byte{
			{allowed}, onlyTwo, {fenceRec(2, 2, 1), change([]int32{}, []int32{2}, -1)},
			{uncleanRec(id, []int32{}, 1), fenceRec(2, 2, -1)}}, ""},
		{"where that is allowed, and an eligible one is there", 1, [][][]byte{
			{allowed}, {change([]int32{2}, []int32{3}, 2), brokerRec(1, 8, 0)}, {uncleanRec(id, []int32{}, 1), fenceRec(2, 2, 1)}}, "I3"},
		{"where that is allowed, and the member has lost the directory", 1, [][][]byte{
			{allowed, homesRec(id, 1, 107, 1)}, onlyTwo, {uncleanRec(id, nil, 1), dirsRec(2, 2, 108)}}, ""},
		{"the last known leader", 1, [][][]byte{{change([]int32{}, []int32{}, -1), brokerRec(1, 7, 0), brokerRec(2, 8, 0), brokerRec(3, 9, 0)}, {uncleanRec(id, nil, 1)}}, ""},
		{"an election", 1, [][][]byte{{change([]int32{2, 3}, nil, 2)}}, ""},
		{"fenced and taken out", 1, [][][]byte{{fenceRec(1, 1, 1), change([]int32{2, 3}, nil, 2)}}, ""},
		{"fenced and left in", 1, [][][]byte{{fenceRec(2, 2, 1)}}, "I8"},
		{"the last member fenced, nobody eligible", 0, [][][]byte{{change([]int32{1}, nil, -2)}, {fenceRec(1, 1, 1), change(nil, nil, -1)}}, ""},
		{"the last member fenced, with eligible leaders", 1, [][][]byte{{change([]int32{1}, []int32{2}, -2)}, {fenceRec(1, 1, 1), change(nil, nil, -1)}}, "I8"},
		{"fenced joins", 1, [][][]byte{{fenceRec(3, 3, 1), change([]int32{1, 2}, nil, -2)}, {change([]int32{1, 2, 3}, nil, -2)}}, "I8"},
		{"who lost the directory joins", 1, [][][]byte{{homesRec(id, 1, 1, 107), dirsRec(3, 3, 108), change([]int32{1, 2}, nil, -2)}, {change([]int32{1, 2, 3}, nil, -2)}}, "I8"},
		{"who says that it lost it joins", 1, [][][]byte{{homesRec(id, 1, 1, 2), change([]int32{1, 2}, nil, -2)}, {change([]int32{1, 2, 3}, nil, -2)}}, "I8"},
		{"who is in the ISR is given a directory that it has not", 1, [][][]byte{{dirsRec(3, 3, 108)}, {homesRec(id, 1, 1, 107)}}, "I8"},
		{"and leaves the ISR by that", 1, [][][]byte{{dirsRec(3, 3, 108)}, {homesRec(id, 1, 1, 107), change([]int32{1, 2}, nil, -2)}}, ""},
		{"who has the directory joins", 1, [][][]byte{{homesRec(id, 1, 1, 108), dirsRec(3, 3, 108), change([]int32{1, 2}, nil, -2)}, {change([]int32{1, 2, 3}, nil, -2)}}, ""},
		{"who is eligible comes back without the directory", 1, [][][]byte{
			{homesRec(id, 1, 107, 1), change([]int32{1}, []int32{2, 3}, -2)}, {brokerRec(2, 9, 1), dirsRec(2, 9, 108)}}, "I8"},
		{"who is eligible comes back with it", 1, [][][]byte{
			{homesRec(id, 1, 107, 1), change([]int32{1}, []int32{2, 3}, -2)}, {brokerRec(2, 9, 1), dirsRec(2, 9, 107, 108)}}, ""},
		{"who is eligible says that it lost it", 1, [][][]byte{
			{homesRec(id, 1, 107, 1), change([]int32{1}, []int32{2, 3}, -2)}, {dirsRec(2, 2, 108)}}, ""},
		{"eligible leaders are kept no more", 1, [][][]byte{
			{fenceRec(2, 2, 1), fenceRec(3, 3, 1), change([]int32{1}, []int32{2, 3}, -2)}, {fenceRec(1, 1, 1), change([]int32{}, []int32{1, 2, 3}, -1)},
			{featureRec("eligible.leader.replicas.version", 0), change([]int32{2}, []int32{}, -2)}}, ""},
		{"the same, of who was not eligible", 1, [][][]byte{
			{fenceRec(2, 2, 1), fenceRec(3, 3, 1), change([]int32{1}, []int32{2}, -2)}, {fenceRec(1, 1, 1), change([]int32{}, []int32{1, 2}, -1)},
			{featureRec("eligible.leader.replicas.version", 0), change([]int32{3}, []int32{}, -2)}}, "I8"},
		{"the same, beside another member", 1, [][][]byte{
			{fenceRec(2, 2, 1), change([]int32{1}, []int32{2}, -2)},
			{featureRec("eligible.leader.replicas.version", 0), change([]int32{1, 2}, []int32{}, -2)}}, "I8"},
		{"the same, while they are kept", 1, [][][]byte{
			{fenceRec(2, 2, 1), fenceRec(3, 3, 1), change([]int32{1}, []int32{2, 3}, -2)}, {fenceRec(1, 1, 1), change([]int32{}, []int32{1, 2, 3}, -1)},
			{change([]int32{2}, []int32{}, -2)}}, "I8"},
		{"a fenced leader", 0, [][][]byte{{change([]int32{1}, nil, -2)}, {fenceRec(1, 1, 1)}, {change(nil, nil, 1)}}, "I8"},
		{"the same incarnation registers again", 1, [][][]byte{{brokerRec(3, 3, 0)}}, ""},
		{"an older broker epoch", 1, [][][]byte{{brokerRec(3, 2, 0)}}, "I10"},
		{"an older leader epoch", 1, [][][]byte{
			{change(nil, nil, 2)}, {partitionRec(Partition{ID: id, Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2, 3}, Leader: 1, Epoch: 5})}}, "I10"},
		{"two leaders in an epoch", 1, [][][]byte{{partitionRec(Partition{ID: id, Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2, 3}, Leader: 2, Epoch: 5})}}, "I9"},
		{"a partition that is not there", 1, [][][]byte{{changeRec(topicID(8), nil, nil, nil, nil, nil, 1)}}, "I32"},
		{"a record that ends early", 1, [][][]byte{{{1, 3, 2, 0}}}, "I31"},
		{"a reassignment that ends well", 1, [][][]byte{
			{brokerRec(4, 9, 0), changeRec(id, nil, []int32{2, 3, 4, 1}, []int32{1}, []int32{4}, nil, -2)},
			{changeRec(id, []int32{2, 3, 4}, []int32{2, 3, 4}, []int32{}, []int32{}, nil, 2)}}, ""},
		{"a reassignment that ends without the added one", 1, [][][]byte{
			{brokerRec(4, 9, 0), changeRec(id, nil, []int32{2, 3, 4, 1}, []int32{1}, []int32{4}, nil, -2)},
			{changeRec(id, []int32{2, 3}, []int32{2, 3, 4}, []int32{}, []int32{}, nil, 2)}}, "I33"},
		{"a reassignment that ends below min ISR", 1, [][][]byte{
			{brokerRec(4, 9, 0), changeRec(id, nil, []int32{2, 3, 4, 1}, []int32{1}, []int32{4}, nil, -2)},
			{changeRec(id, []int32{4}, []int32{2, 3, 4}, []int32{}, []int32{}, nil, 4)}}, "I33"},
		{"a reassignment that is taken back", 1, [][][]byte{
			{brokerRec(4, 9, 0), changeRec(id, nil, []int32{2, 3, 4, 1}, []int32{1}, []int32{4}, nil, -2)},
			{changeRec(id, nil, []int32{1, 2, 3}, []int32{}, []int32{}, nil, -2)}}, ""},
		{"a reassignment that is taken back, and leaves nobody in sync", 1, [][][]byte{{allowed}, begun, onlyAdded, {backRec(id, []int32{1, 2, 3}, 1, 1)}}, ""},
		{"the same where no stranger may lead", 1, [][][]byte{begun, onlyAdded, {backRec(id, []int32{1, 2, 3}, 1, 1)}}, "I3"},
		{"the same, and nobody says that a stranger leads", 1, [][][]byte{{allowed}, begun, onlyAdded, {backRec(id, []int32{1, 2, 3}, 1, 0)}}, "R6"},
		{"a smaller factor without all targets", 1, [][][]byte{
			{change([]int32{1, 2}, nil, -2)}, {changeRec(id, nil, nil, []int32{1}, nil, nil, -2)},
			{changeRec(id, []int32{2}, []int32{2, 3}, []int32{}, []int32{}, nil, 2)}}, "I33"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var v checker.Verdict
			s := NewState(&v)
			s.apply(world(c.elr), 0)
			for i, step := range c.steps {
				s.apply(step, int64(10*(i+1)))
			}
			found(t, &v, c.want)
		})
	}
}

func TestADeletedTopicTakesItsSettingsAlong(t *testing.T) {
	var v checker.Verdict
	s := NewState(&v)
	s.apply(world(1), 0)
	p := s.Named("t-0")
	if p == nil || s.MinISR(p) != 2 {
		t.Fatalf("partition %+v", p)
	}
	s.apply([][]byte{rec(9, 0).id(topicID(9)).uvarint(0).b}, 20)
	if _, ok := s.Config("t", "min.insync.replicas"); ok || s.Named("t-0") != nil || s.Find(topicID(9), 0) != nil {
		t.Error("something is left")
	}
	found(t, &v, "")
}

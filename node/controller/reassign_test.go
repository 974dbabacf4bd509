package controller

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// move asks for replicas of t-0; nil cancels.
func (w *world) move(fixedFactor bool, replicas ...int32) *kerr.Error {
	w.t.Helper()
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.Version, req.AllowReplicationFactorChange = 1, !fixedFactor
	x := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	x.Topic = "t"
	p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	p.Replicas = replicas
	x.Partitions = append(x.Partitions, p)
	req.Topics = append(req.Topics, x)
	resp := w.do(req).(*kmsg.AlterPartitionAssignmentsResponse)
	err, _ := kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode).(*kerr.Error)
	return err
}

// propose has the leader of t-0 propose an ISR.
func (w *world) propose(isr ...int32) kmsg.AlterPartitionResponseTopicPartition {
	w.t.Helper()
	return w.alterPartition(w.partition("t").Leader, func(x *kmsg.AlterPartitionRequestTopicPartition) {
		for _, b := range isr {
			x.NewEpochISR = append(x.NewEpochISR, isrOf(int64(b), -1)...)
		}
	})
}

// layout is who has, gets and loses t-0.
func (w *world) layout() string {
	p := w.partition("t")
	return fmt.Sprintf("leader=%d epoch=%d replicas=%v adding=%v removing=%v isr=%v elr=%v",
		p.Leader, p.LeaderEpoch, p.Replicas, p.AddingReplicas, p.RemovingReplicas, p.ISR, p.ELR)
}

func (w *world) wantLayout(want string) {
	w.t.Helper()
	if got := w.layout(); got != want {
		w.t.Fatalf("\n got %s\nwant %s", got, want)
	}
}

func (w *world) silence(id int32) {
	w.heartbeat(id, func(r *kmsg.BrokerHeartbeatRequest) { r.WantFence = true })
}

func TestAReassignmentEndsWhenTheAddedReplicaIsInSync(t *testing.T) {
	w := newWorld(t, nil)
	w.start(4)
	w.create("t", 1, 2, 3)
	if err := w.move(false, 4, 2, 3); err != nil {
		t.Fatal(err)
	}
	w.wantLayout("leader=1 epoch=0 replicas=[4 2 3 1] adding=[4] removing=[1] isr=[1 2 3] elr=[]")
	if dirs := w.partition("t").Directories; len(dirs) != 4 || dirs[0] != dirOf(4) || dirs[3] != dirOf(1) {
		t.Errorf("directories %v", dirs)
	}
	// A follower drops out on the way: the target need not be whole while it keeps its size.
	if r := w.propose(1, 3); r.ErrorCode != 0 {
		t.Fatal(r)
	}
	// The change that brings the last one in takes the leader out, and says so.
	if r := w.propose(1, 3, 4); r.ErrorCode != kerr.NewLeaderElected.Code {
		t.Errorf("%+v", r)
	}
	w.wantLayout("leader=4 epoch=1 replicas=[4 2 3] adding=[] removing=[] isr=[3 4] elr=[]")
	if dirs := w.partition("t").Directories; len(dirs) != 3 || dirs[0] != dirOf(4) {
		t.Errorf("directories %v", dirs)
	}
	if w.events[ReassignmentBegun] != 1 || w.events[ReassignmentCompleted] != 1 {
		t.Errorf("told %v", w.events)
	}
}

func TestFewerCopiesOnlyOnceAllThatStayAreInSync(t *testing.T) {
	w := newWorld(t, nil)
	w.start(4)
	w.create("t", 1, 2, 3)
	w.propose(1, 3)
	if err := w.move(false, 4, 2); err != nil {
		t.Fatal(err)
	}
	w.propose(1, 3, 4)
	w.wantLayout("leader=1 epoch=0 replicas=[4 2 1 3] adding=[4] removing=[1 3] isr=[1 3 4] elr=[]")
	w.propose(1, 2, 3, 4)
	w.wantLayout("leader=4 epoch=1 replicas=[4 2] adding=[] removing=[] isr=[2 4] elr=[]")
	// What only leaves, or only changes its order, is done at once.
	w.move(false, 2, 4)
	w.wantLayout("leader=4 epoch=1 replicas=[2 4] adding=[] removing=[] isr=[2 4] elr=[]")
	w.move(false, 2)
	w.wantLayout("leader=2 epoch=2 replicas=[2] adding=[] removing=[] isr=[2] elr=[]")
}

func TestNobodyWhoHasEverythingGoesBelowMinISR(t *testing.T) {
	w := newWorld(t, map[string]string{"min.insync.replicas": "2"})
	w.start(4)
	w.create("t", 1, 2, 3)
	w.move(false, 4, 2, 3)
	w.silence(2)
	w.silence(3)
	w.propose(1, 4)
	w.wantLayout("leader=1 epoch=0 replicas=[4 2 3 1] adding=[4] removing=[1] isr=[1 4] elr=[]")
	w.heartbeat(3, nil)
	w.propose(1, 4, 3)
	w.wantLayout("leader=4 epoch=1 replicas=[4 2 3] adding=[] removing=[] isr=[4 3] elr=[]")
}

func TestAReassignmentIsReplacedAndCancelled(t *testing.T) {
	w := newWorld(t, nil)
	w.start(5)
	w.create("t", 1, 2)
	if err := w.move(false); err != kerr.NoReassignmentInProgress {
		t.Errorf("nothing to cancel: %v", err)
	}
	w.silence(3) // one that is away is waited for
	w.move(false, 3, 2)
	w.wantLayout("leader=1 epoch=0 replicas=[3 2 1] adding=[3] removing=[1] isr=[1 2] elr=[]")
	// What is added is counted against where it began, whatever was on the way.
	w.move(false, 4, 5, 3)
	w.wantLayout("leader=1 epoch=0 replicas=[4 5 3 2 1] adding=[4 5 3] removing=[2 1] isr=[1 2] elr=[]")
	w.propose(1, 2, 4)
	w.move(false, 5, 2)
	w.wantLayout("leader=1 epoch=1 replicas=[5 2 1] adding=[5] removing=[1] isr=[1 2] elr=[]")
	if err := w.move(false); err != nil {
		t.Fatal(err)
	}
	w.wantLayout("leader=1 epoch=2 replicas=[2 1] adding=[] removing=[] isr=[1 2] elr=[]")
	if w.events[ReassignmentReplaced] != 2 || w.events[ReassignmentCancelled] != 1 {
		t.Errorf("told %v", w.events)
	}
}

// Where only an added replica is in sync, going back would lose what only it has.
func TestACancelThatWouldLoseRecordsIsRefused(t *testing.T) {
	for _, unclean := range []bool{false, true} {
		w := newWorld(t, nil)
		w.start(3)
		w.create("t", 1)
		w.move(false, 2, 3)
		w.propose(1, 2)
		w.silence(1)
		w.wantLayout("leader=2 epoch=1 replicas=[2 3 1] adding=[2 3] removing=[1] isr=[2] elr=[]")
		w.heartbeat(1, nil)
		if err := w.move(false); err != kerr.InvalidReplicaAssignment {
			t.Errorf("cancelled with %v", err)
		}
		if err := w.move(false, 1); err != kerr.InvalidReplicaAssignment {
			t.Errorf("replaced with %v", err)
		}
		if !unclean {
			continue
		}
		w.configure("t", uncleanElectionName, "true")
		if err := w.move(false, 1); err != kerr.InvalidReplicaAssignment {
			t.Errorf("replaced with %v, for an unclean election would be allowed", err)
		}
		if err := w.move(false); err != nil {
			t.Fatal(err)
		}
		w.want("t", "leader=1 isr=[1] elr=[] last=[] recovering=1")
	}
}

// An eligible leader replica has everything, and serves again at once.
func TestACancelGoesBackToAnEligibleReplica(t *testing.T) {
	w := newWorld(t, map[string]string{"min.insync.replicas": "2"})
	w.start(3)
	w.create("t", 1)
	w.move(false, 2, 3)
	w.propose(1, 2)
	w.silence(1)
	w.wantLayout("leader=2 epoch=1 replicas=[2 3 1] adding=[2 3] removing=[1] isr=[2] elr=[1]")
	if err := w.move(false); err != kerr.InvalidReplicaAssignment {
		t.Errorf("cancelled while nobody who could serve is left: %v", err)
	}
	w.heartbeat(1, nil)
	if err := w.move(false); err != nil {
		t.Fatal(err)
	}
	w.wantLayout("leader=1 epoch=2 replicas=[1] adding=[] removing=[] isr=[1] elr=[]")
	if w.events[HowELR] != 1 {
		t.Errorf("told %v", w.events)
	}
}

func TestWhatMayNotBeReassigned(t *testing.T) {
	w := newWorld(t, nil)
	w.start(3)
	w.create("t", 1, 2)
	for _, c := range []struct {
		name     string
		fixed    bool
		replicas []int32
		want     *kerr.Error
	}{
		{"no replica", false, []int32{}, kerr.InvalidReplicaAssignment},
		{"one twice", false, []int32{1, 1}, kerr.InvalidReplicaAssignment},
		{"not registered", false, []int32{1, 9}, kerr.InvalidReplicaAssignment},
		{"negative", false, []int32{1, -1}, kerr.InvalidReplicaAssignment},
		{"another factor", true, []int32{1}, kerr.InvalidReplicationFactor},
		{"the same factor", true, []int32{1, 3}, nil},
		{"the factor of the target counts, not that on the way", true, []int32{1, 2, 3}, kerr.InvalidReplicationFactor},
		{"the same target factor", true, []int32{3, 2}, nil},
	} {
		if err := w.move(c.fixed, c.replicas...); err != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.Version = 1
	twice := kmsg.AlterPartitionAssignmentsRequestTopicPartition{Replicas: []int32{1}}
	none := kmsg.AlterPartitionAssignmentsRequestTopicPartition{Partition: 7, Replicas: []int32{1}}
	req.AllowReplicationFactorChange = true
	req.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{
		{Topic: "t", Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{twice, twice, none}},
		{Topic: "absent", Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{none}},
	}
	resp := w.do(req).(*kmsg.AlterPartitionAssignmentsResponse)
	got := fmt.Sprint(resp.Topics[0].Partitions[0].ErrorCode, resp.Topics[0].Partitions[1].ErrorCode, resp.Topics[0].Partitions[2].ErrorCode, resp.Topics[1].Partitions[0].ErrorCode)
	want := fmt.Sprint(0, kerr.InvalidRequest.Code, kerr.UnknownTopicOrPartition.Code, kerr.UnknownTopicOrPartition.Code)
	if got != want || !resp.AllowReplicationFactorChange {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestWhatIsReassignedIsListed(t *testing.T) {
	w := newWorld(t, nil)
	w.start(3)
	w.create("t", 1, 2)
	w.create("u", 1, 2)
	w.move(false, 3, 2)
	list := func(topics []kmsg.ListPartitionReassignmentsRequestTopic) string {
		req := kmsg.NewPtrListPartitionReassignmentsRequest()
		req.Topics = topics
		out := ""
		for _, x := range w.do(req).(*kmsg.ListPartitionReassignmentsResponse).Topics {
			for _, p := range x.Partitions {
				out += fmt.Sprint(x.Topic, p.Partition, p.Replicas, p.AddingReplicas, p.RemovingReplicas)
			}
		}
		return out
	}
	const moving = "t0 [3 2 1] [3] [1]"
	if got := list(nil); got != moving {
		t.Errorf("all: %q", got)
	}
	if got := list([]kmsg.ListPartitionReassignmentsRequestTopic{{Topic: "t", Partitions: []int32{0, 5}}, {Topic: "u", Partitions: []int32{0}}, {Topic: "x", Partitions: []int32{0}}}); got != moving {
		t.Errorf("some: %q", got)
	}
	if got := list([]kmsg.ListPartitionReassignmentsRequestTopic{}); got != "" {
		t.Errorf("none: %q", got)
	}
}

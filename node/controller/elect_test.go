package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock"
	"seedlog/node/config"
)

// configure sets one topic setting, or that of all brokers for the topic "".
func (w *world) configure(topic, name, value string) {
	w.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	x := kmsg.NewIncrementalAlterConfigsRequestResource()
	x.ResourceType, x.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	if topic == "" {
		x.ResourceType = kmsg.ConfigResourceTypeBroker
	}
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Value = name, &value
	x.Configs = append(x.Configs, c)
	req.Resources = append(req.Resources, x)
	if resp := w.do(req).(*kmsg.IncrementalAlterConfigsResponse); resp.Resources[0].ErrorCode != 0 {
		w.t.Fatal(*resp.Resources[0].ErrorMessage)
	}
}

// electFor asks for an election and returns "topic-partition CODE ..." of the answer.
func (w *world) electFor(kind int8, topics ...kmsg.ElectLeadersRequestTopic) string {
	req := kmsg.NewPtrElectLeadersRequest()
	req.Version, req.ElectionType, req.Topics = 2, kind, topics
	resp := w.do(req).(*kmsg.ElectLeadersResponse)
	out := ""
	for _, x := range resp.Topics {
		for _, p := range x.Partitions {
			code := "ok"
			if err, bad := kerr.ErrorForCode(p.ErrorCode).(*kerr.Error); bad {
				code = err.Message
			}
			out += fmt.Sprintf("%s-%d %s ", x.Topic, p.Partition, code)
		}
	}
	if resp.ErrorCode != 0 {
		out += kerr.ErrorForCode(resp.ErrorCode).(*kerr.Error).Message
	}
	return out
}

func only(topic string, partitions ...int32) kmsg.ElectLeadersRequestTopic {
	return kmsg.ElectLeadersRequestTopic{Topic: topic, Partitions: partitions}
}

func TestLeadersAreElectedByCommand(t *testing.T) {
	w := newWorld(t, nil)
	w.start(3)
	w.create("t", 1, 2)
	w.create("u", 3, 2)
	want := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
	}
	want(w.electFor(askPreferred, only("t", 0, 0, 9), only("x", 0)), "t-0 ELECTION_NOT_NEEDED t-9 UNKNOWN_TOPIC_OR_PARTITION x-0 UNKNOWN_TOPIC_OR_PARTITION ")
	w.silence(1)
	w.wantLayout("leader=2 epoch=1 replicas=[1 2] adding=[] removing=[] isr=[2] elr=[]")
	want(w.electFor(askPreferred, only("t", 0)), "t-0 PREFERRED_LEADER_NOT_AVAILABLE ")
	w.heartbeat(1, nil)
	want(w.electFor(askPreferred), "t-0 PREFERRED_LEADER_NOT_AVAILABLE ") // back, and not in sync
	w.propose(2, 1)
	want(w.electFor(askPreferred), "t-0 ok ")
	w.wantLayout("leader=1 epoch=2 replicas=[1 2] adding=[] removing=[] isr=[2 1] elr=[]")
	want(w.electFor(askPreferred), "")
	if w.events[HowPreferred] != 1 {
		t.Errorf("told %v", w.events)
	}

	want(w.electFor(askUnclean, only("t", 0)), "t-0 ELECTION_NOT_NEEDED ")
	w.propose(1)
	w.silence(2)
	w.silence(1)
	want(w.electFor(askUnclean, only("t", 0)), "t-0 ELIGIBLE_LEADERS_NOT_AVAILABLE ")
	w.heartbeat(2, nil)
	w.want("t", "leader=-1 isr=[] elr=[1] last=[1] recovering=0")
	want(w.electFor(askUnclean), "t-0 ok ")
	w.want("t", "leader=2 isr=[2] elr=[] last=[] recovering=1")
	// The leader recovers alone.
	w.heartbeat(1, nil)
	if r := w.alterPartition(2, func(x *kmsg.AlterPartitionRequestTopicPartition) {
		x.NewEpochISR, x.LeaderRecoveryState = isrOf(2, -1, 1, -1), 1
	}); r.ErrorCode != kerr.InvalidRequest.Code {
		t.Errorf("a recovering leader with a follower: %+v", r)
	}
	want(w.electFor(2), "INVALID_REQUEST")
}

// A topic that is named twice has one election: the second finds what the first decided.
func TestATopicThatIsNamedTwiceElectsOnce(t *testing.T) {
	w := newWorld(t, nil)
	w.start(3)
	w.create("t", 1, 2)
	w.silence(1)
	w.heartbeat(1, nil)
	w.propose(2, 1)
	if got, want := w.electFor(askPreferred, only("t", 0), only("t", 0)), "t-0 ok t-0 ELECTION_NOT_NEEDED "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	w.wantLayout("leader=1 epoch=2 replicas=[1 2] adding=[] removing=[] isr=[2 1] elr=[]")
}

func TestLeadersGoBackByTime(t *testing.T) {
	w := newWorld(t, map[string]string{"leader.imbalance.per.broker.percentage": "30", "leader.imbalance.check.interval.seconds": "60"})
	w.start(2)
	look := func() {
		w.now += clock.Instant(time.Minute)
		for id := int32(1); id <= 2; id++ {
			w.heartbeat(id, nil)
		}
		for range 3 {
			records, next := w.state.Expire(w.now)
			w.append(records)
			if len(records) == 0 && next <= w.now {
				t.Fatal("it looks again and again")
			}
		}
	}
	w.create("t", 1, 2)
	w.silence(1)
	w.heartbeat(1, nil)
	for _, name := range []string{"a", "b", "c"} { // led by 1, as they should be
		w.create(name, 1, 2)
	}
	w.propose(2, 1)
	look()
	w.want("t", "leader=2 isr=[2 1] elr=[] last=[] recovering=0") // one of four is not above 30 %
	w.create("u", 1, 2)
	w.electFor(askPreferred)
	w.silence(1)
	w.heartbeat(1, nil)
	w.propose(2, 1)
	look()
	w.want("t", "leader=1 isr=[2 1] elr=[] last=[] recovering=0")
	w.want("a", "leader=2 isr=[2] elr=[] last=[] recovering=0") // 1 is not in sync there
}

func TestAnUncleanElectionFollowsItsSetting(t *testing.T) {
	for _, of := range []string{"t", ""} {
		w := newWorld(t, nil)
		w.start(2)
		w.create("t", 1, 2)
		w.propose(1)
		w.silence(1)
		w.want("t", "leader=-1 isr=[] elr=[1] last=[1] recovering=0")
		w.configure(of, uncleanElectionName, "true")
		w.want("t", "leader=2 isr=[2] elr=[] last=[] recovering=1")
	}
}

// A leader that has not read a higher min.insync.replicas goes by the lower one: with an ISR that is
// too small it would move the high watermark on, without who left and without who was eligible.
func TestALaggingLeaderGetsNoISRThatIsTooSmall(t *testing.T) {
	w := newWorld(t, nil)
	w.start(3)
	w.create("t", 1, 2, 3)
	postponed := func(isr ...int32) {
		t.Helper()
		if got := w.propose(isr...); got.ErrorCode != kerr.OperationNotAttempted.Code {
			t.Errorf("an ISR of %d: error code %d", isr, got.ErrorCode)
		}
	}
	raise := func(to string) {
		w.configure("t", minISRName, to)
		for id := int32(2); id <= 3; id++ {
			w.heartbeat(id, nil)
		}
	}
	raise("2")
	w.propose(1, 2) // is enough
	postponed(1)
	w.want("t", "leader=1 isr=[1 2] elr=[] last=[] recovering=0")
	w.heartbeat(1, nil) // it has read the setting
	w.propose(1)
	w.want("t", "leader=1 isr=[1] elr=[2] last=[] recovering=0")

	raise("3")
	postponed(1, 3) // what 2 does not have would be committed
	w.heartbeat(1, nil)
	w.propose(1, 3)
	w.want("t", "leader=1 isr=[1 3] elr=[2] last=[] recovering=0")

	// What the leader said to another controller this one has not heard.
	w.state = New(clusterID, w.state.static, w.state.image)
	w.append(w.state.Activate(w.now, nil))
	postponed(1)
	w.want("t", "leader=1 isr=[1 3] elr=[2] last=[] recovering=0")
	w.heartbeat(1, nil)
	w.propose(1)
	w.want("t", "leader=1 isr=[1] elr=[2 3] last=[] recovering=0")
}

// A controller that allows unclean elections where the last one did not finds a leader
// without being asked.
func TestAnotherControllerRescuesPartitions(t *testing.T) {
	w := newWorld(t, nil)
	w.start(2)
	w.create("t", 1, 2)
	w.propose(1)
	w.silence(1)
	allows, _, err := config.Parse(map[string]string{"log.dirs": "d", uncleanElectionName: "true", "unclean.leader.election.interval.ms": "1000", "auto.leader.rebalance.enable": "false"})
	if err != nil {
		t.Fatal(err)
	}
	w.state = New(clusterID, allows, w.state.image)
	w.append(w.state.Activate(w.now, nil))
	records, next := w.state.Expire(w.now)
	if len(records) > 0 || next != clock.Instant(time.Second) {
		t.Errorf("%d records, and again at %v", len(records), next)
	}
	w.now = next
	records, next = w.state.Expire(w.now)
	w.append(records)
	w.want("t", "leader=2 isr=[2] elr=[] last=[] recovering=1")
	if next != w.now+clock.Instant(time.Second) {
		t.Errorf("again at %v", next)
	}
}

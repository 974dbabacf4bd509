package controller

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock"
	"seedlog/node/config"
	"seedlog/node/event"
	"seedlog/node/meta"
)

const clusterID = "cluster"

// tb is what testing.T and rapid.T share.
type tb interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// world is a controller with a log that commits at once.
type world struct {
	t     tb
	state *State
	now   clock.Instant
	rnd   *rand.Rand
	log   []meta.Record
	// events counts what was told.
	events map[string]int
}

func newWorld(t tb, props map[string]string) *world {
	if props == nil {
		props = map[string]string{"log.dirs": "d"}
	}
	props["log.dirs"] = "d"
	cfg, _, err := config.Parse(props)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, state: New(clusterID, cfg, meta.Empty()), rnd: rand.New(rand.NewPCG(1, 2)), events: map[string]int{}}
	w.append(w.state.Activate(w.now, meta.BootstrapRecords()))
	return w
}

func (w *world) append(records []meta.Record) {
	w.t.Helper()
	if len(records) == 0 {
		return
	}
	for i, r := range records { // through the codec, as the log does
		parsed, err := meta.ParseRecord(meta.AppendRecord(nil, r))
		if err != nil {
			w.t.Fatal(err)
		}
		records[i] = parsed
	}
	w.log = append(w.log, records...)
	delta, err := w.state.Replay(records, int64(len(w.log)-1), 1)
	if err != nil {
		w.t.Fatal(err)
	}
	Events(delta, w.heard)
	w.checkInvariants()
}

// heard counts events; elections also by how.
func (w *world) heard(e event.Event) {
	w.events[e.Name()]++
	if l, ok := e.(LeaderChanged); ok {
		w.events[l.How]++
	}
}

func (w *world) do(req kmsg.Request) kmsg.Response {
	w.t.Helper()
	d := w.state.Decide(req, Input{NextOffset: int64(len(w.log)), Now: w.now, Rand: w.rnd})
	w.append(d.Records)
	return d.Response
}

// checkInvariants is I8, and that a partition's leader is in its ISR.
func (w *world) checkInvariants() {
	w.t.Helper()
	for t := range w.state.image.Topics() {
		for id, p := range t.Partitions {
			name := fmt.Sprintf("%s-%d %+v", t.Name, id, *p)
			in := func(list []int32, b int32) bool { return len(without(list, b)) < len(list) }
			for _, b := range append(append([]int32{}, p.ISR...), p.ELR...) {
				if !in(p.Replicas, b) {
					w.t.Fatalf("%s: %d is no replica", name, b)
				}
			}
			for _, b := range p.ELR {
				if in(p.ISR, b) {
					w.t.Fatalf("%s: ISR and ELR share %d", name, b)
				}
			}
			if w.state.elrEnabled() && len(p.ISR) >= min(w.state.minISR(t.Name), len(p.Replicas)) && len(p.ELR) > 0 {
				w.t.Fatalf("%s: a large enough ISR and an ELR", name)
			}
			for _, b := range p.ISR {
				lastMember := !w.state.elrEnabled() && len(p.ISR) == 1
				if x := w.state.image.Broker(b); !lastMember && (x == nil || !x.Active()) {
					w.t.Fatalf("%s: broker %d, fenced or stopping, in the ISR", name, b)
				}
			}
			if p.Leader >= 0 && !in(p.ISR, p.Leader) {
				w.t.Fatalf("%s: the leader is not in the ISR", name)
			}
		}
	}
}

// register registers an incarnation of a broker and returns its epoch.
func (w *world) register(id int32, incarnation byte, previous int64, rack string) int64 {
	w.t.Helper()
	resp := w.tryRegister(id, incarnation, previous, rack)
	if resp.ErrorCode != 0 {
		w.t.Fatalf("broker %d: %v", id, kerr.ErrorForCode(resp.ErrorCode))
	}
	return resp.BrokerEpoch
}

func (w *world) tryRegister(id int32, incarnation byte, previous int64, rack string) *kmsg.BrokerRegistrationResponse {
	return w.do(registration(id, incarnation, previous, rack)).(*kmsg.BrokerRegistrationResponse)
}

func registration(id int32, incarnation byte, previous int64, rack string) *kmsg.BrokerRegistrationRequest {
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.Version, req.BrokerID, req.ClusterID, req.PreviousBrokerEpoch = 4, id, clusterID, previous
	req.IncarnationID, req.LogDirs = [16]byte{1, byte(id), incarnation}, [][16]byte{dirOf(id)}
	if rack != "" {
		req.Rack = &rack
	}
	l := kmsg.NewBrokerRegistrationRequestListener()
	l.Name, l.Host, l.Port = "PLAINTEXT", "127.0.0.1", 9092
	req.Listeners = append(req.Listeners, l)
	for _, f := range meta.SupportedFeatures() {
		x := kmsg.NewBrokerRegistrationRequestFeature()
		x.Name, x.MinSupportedVersion, x.MaxSupportedVersion = f.Name, f.Min, f.Max
		req.Features = append(req.Features, x)
	}
	return req
}

func dirOf(id int32) meta.UUID { return meta.UUID{9, byte(id)} }

func (w *world) heartbeat(id int32, change func(*kmsg.BrokerHeartbeatRequest)) *kmsg.BrokerHeartbeatResponse {
	w.t.Helper()
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.Version, req.BrokerID = 1, id
	if b := w.state.image.Broker(id); b != nil {
		req.BrokerEpoch = b.Epoch
	}
	req.CurrentMetadataOffset = w.state.image.Offset
	if change != nil {
		change(req)
	}
	return w.do(req).(*kmsg.BrokerHeartbeatResponse)
}

// start registers and unfences brokers 1 to n.
func (w *world) start(n int32) {
	w.t.Helper()
	for id := int32(1); id <= n; id++ {
		w.register(id, 1, -1, "")
		if w.heartbeat(id, nil).IsFenced {
			w.t.Fatalf("broker %d stays fenced", id)
		}
	}
}

// create creates a topic with manual replicas for its one partition.
func (w *world) create(name string, replicas ...int32) *meta.Topic {
	w.t.Helper()
	req := createRequest(name, -1, -1)
	a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
	a.Replicas = replicas
	req.Topics[0].ReplicaAssignment = append(req.Topics[0].ReplicaAssignment, a)
	if x := w.do(req).(*kmsg.CreateTopicsResponse).Topics[0]; x.ErrorCode != 0 {
		w.t.Fatalf("create %s: %v %v", name, kerr.ErrorForCode(x.ErrorCode), *x.ErrorMessage)
	}
	return w.state.image.Topic(name)
}

func createRequest(name string, partitions int32, factor int16, configs ...string) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = 7
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, factor
	for _, c := range configs {
		k, v, _ := strings.Cut(c, "=")
		x := kmsg.NewCreateTopicsRequestTopicConfig()
		x.Name, x.Value = k, &v
		t.Configs = append(t.Configs, x)
	}
	req.Topics = append(req.Topics, t)
	return req
}

func (w *world) partition(topic string) *meta.Partition {
	return w.state.image.Topic(topic).Partition(0)
}

// describe is the state of a topic's first partition in one line.
func (w *world) describe(topic string) string {
	p := w.partition(topic)
	return fmt.Sprintf("leader=%d isr=%v elr=%v last=%v recovering=%d", p.Leader, p.ISR, p.ELR, p.LastKnownELR, p.LeaderRecoveryState)
}

func (w *world) want(topic, want string) {
	w.t.Helper()
	if got := w.describe(topic); got != want {
		w.t.Fatalf("%s:\n got %s\nwant %s", topic, got, want)
	}
}

func TestAnEmptyLogGetsTheBootstrapRecordsOnce(t *testing.T) {
	w := newWorld(t, nil)
	if v := w.state.image.MetadataVersion(); v != meta.DefaultMetadataVersion {
		t.Errorf("metadata.version %d", v)
	}
	if v, _ := w.state.image.Config(meta.BrokerResource, "").Get("min.insync.replicas"); v != "1" {
		t.Errorf("cluster-wide min.insync.replicas is %q, which ELR needs", v)
	}
	if again := w.state.Activate(0, meta.BootstrapRecords()); len(again) > 0 {
		t.Errorf("a second term appends %d records", len(again))
	}
	w.append([]meta.Record{{Body: &meta.BeginTransactionRecord{}}, {Body: &meta.TopicRecord{Name: "half", TopicID: meta.UUID{1}}}})
	w.append(w.state.Activate(0, nil))
	if w.state.image.InTransaction() || w.state.image.Topic("half") != nil {
		t.Error("an abandoned transaction is not aborted")
	}
}

func TestALoneBrokerComesBack(t *testing.T) {
	w := newWorld(t, nil)
	w.start(1)
	w.create("t", 1)
	w.want("t", "leader=1 isr=[1] elr=[] last=[] recovering=0")
	epoch := w.state.image.Broker(1).Epoch

	// After a kill the new process is a new controller, too, and its broker has the old
	// one's directory: it need not wait for the old session. It may have lost its tail, so
	// nobody is eligible; the last known leader is elected when it is back, recovering.
	w.state.Activate(w.now, nil)
	w.register(1, 2, -1, "")
	w.want("t", "leader=-1 isr=[] elr=[] last=[1] recovering=0")
	w.heartbeat(1, nil)
	w.want("t", "leader=1 isr=[1] elr=[] last=[] recovering=1")
	if now := w.state.image.Broker(1).Epoch; now <= epoch {
		t.Errorf("broker epoch %d after %d", now, epoch)
	}
	if e := w.partition("t").LeaderEpoch; e != 2 {
		t.Errorf("leader epoch %d after leaving and returning", e)
	}

	// The leader says that it recovered.
	p := w.partition("t")
	resp := w.alterPartition(1, func(x *kmsg.AlterPartitionRequestTopicPartition) { x.NewEpochISR = isrOf(1, -1) })
	if resp.ErrorCode != 0 || resp.PartitionEpoch != p.PartitionEpoch+1 {
		t.Fatalf("%+v", resp)
	}
	w.want("t", "leader=1 isr=[1] elr=[] last=[] recovering=0")

	// After a clean stop, told by the previous broker epoch, it stays eligible.
	w.state.Activate(w.now, nil)
	w.register(1, 3, w.state.image.Broker(1).Epoch, "")
	w.want("t", "leader=-1 isr=[] elr=[1] last=[1] recovering=0")
	w.heartbeat(1, nil)
	w.want("t", "leader=1 isr=[1] elr=[] last=[] recovering=0")
}

func isrOf(pairs ...int64) []kmsg.AlterPartitionRequestTopicPartitionNewEpochISR {
	var out []kmsg.AlterPartitionRequestTopicPartitionNewEpochISR
	for i := 0; i < len(pairs); i += 2 {
		x := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
		x.BrokerID, x.BrokerEpoch = int32(pairs[i]), pairs[i+1]
		out = append(out, x)
	}
	return out
}

// alterPartition proposes for t-0 in the present epochs.
func (w *world) alterPartition(broker int32, change func(*kmsg.AlterPartitionRequestTopicPartition)) kmsg.AlterPartitionResponseTopicPartition {
	w.t.Helper()
	topic := w.state.image.Topic("t")
	req := kmsg.NewPtrAlterPartitionRequest()
	req.Version, req.BrokerID, req.BrokerEpoch = 3, broker, w.state.image.Broker(broker).Epoch
	x := kmsg.NewAlterPartitionRequestTopic()
	x.TopicID = topic.ID
	p := kmsg.NewAlterPartitionRequestTopicPartition()
	p.LeaderEpoch, p.PartitionEpoch = topic.Partitions[0].LeaderEpoch, topic.Partitions[0].PartitionEpoch
	change(&p)
	x.Partitions = append(x.Partitions, p)
	req.Topics = append(req.Topics, x)
	resp := w.do(req).(*kmsg.AlterPartitionResponse)
	if resp.ErrorCode != 0 {
		w.t.Fatal(kerr.ErrorForCode(resp.ErrorCode))
	}
	return resp.Topics[0].Partitions[0]
}

func TestWithoutELRTheLastReplicaStaysInTheISR(t *testing.T) {
	w := newWorld(t, nil)
	w.append([]meta.Record{{Body: &meta.FeatureLevelRecord{Name: meta.ELRVersionFeature}}})
	w.start(1)
	w.create("t", 1)
	w.state.Activate(w.now, nil)
	w.register(1, 2, -1, "")
	w.want("t", "leader=-1 isr=[1] elr=[] last=[] recovering=0")
	w.heartbeat(1, nil)
	w.want("t", "leader=1 isr=[1] elr=[] last=[] recovering=0")
}

// The last known leader may be no replica any more, when a reassignment to it was taken back while
// another was eligible. When that one stops uncleanly it is the one who is known last.
func TestWhoWasEligibleLastIsKnown(t *testing.T) {
	w := newWorld(t, map[string]string{"min.insync.replicas": "2"})
	w.start(3)
	topic := w.create("t", 1, 2)
	for b := int32(1); b <= 3; b++ {
		w.heartbeat(b, func(r *kmsg.BrokerHeartbeatRequest) { r.WantFence = true })
	}
	w.want("t", "leader=-1 isr=[] elr=[1 2] last=[2] recovering=0")
	w.append([]meta.Record{{Version: 2, Body: &meta.PartitionChangeRecord{TopicID: topic.ID, Leader: meta.LeaderUnchanged, EligibleLeaderReplicas: []int32{1}, LastKnownELR: []int32{3}}}})
	w.register(1, 2, -1, "")
	w.want("t", "leader=-1 isr=[] elr=[] last=[1] recovering=0")
	w.heartbeat(1, nil)
	w.want("t", "leader=1 isr=[1] elr=[] last=[] recovering=1")
}

func TestEligibleLeaderReplicas(t *testing.T) {
	w := newWorld(t, map[string]string{"min.insync.replicas": "2"})
	w.start(3)
	w.create("t", 1, 2, 3)
	timeout := func(id int32) { // id falls silent, the others do not
		w.now += clock.Instant(10 * time.Second)
		for b := int32(1); b <= 3; b++ {
			if x := w.state.image.Broker(b); b != id && !x.Fenced {
				w.heartbeat(b, nil)
			}
		}
		records, _ := w.state.Expire(w.now)
		w.append(records)
	}
	timeout(1)
	w.want("t", "leader=2 isr=[2 3] elr=[] last=[] recovering=0")
	timeout(2)
	w.want("t", "leader=3 isr=[3] elr=[2] last=[] recovering=0")
	timeout(3)
	w.want("t", "leader=-1 isr=[] elr=[2 3] last=[3] recovering=0")
	// A replica out of ISR and ELR may not lead; one in the ELR may.
	w.heartbeat(1, nil)
	w.want("t", "leader=-1 isr=[] elr=[2 3] last=[3] recovering=0")
	w.heartbeat(2, nil)
	w.want("t", "leader=2 isr=[2] elr=[3] last=[] recovering=0")
	// One that stopped uncleanly is eligible no more.
	w.register(3, 2, -1, "")
	w.want("t", "leader=2 isr=[2] elr=[] last=[] recovering=0")
	w.heartbeat(3, nil)
	w.alterPartition(2, func(x *kmsg.AlterPartitionRequestTopicPartition) { x.NewEpochISR = isrOf(2, -1, 3, -1) })
	w.want("t", "leader=2 isr=[2 3] elr=[] last=[] recovering=0")
}

func TestUncleanElectionOnlyWhereItIsEnabled(t *testing.T) {
	for _, enabled := range []string{"false", "true"} {
		w := newWorld(t, nil)
		w.start(2)
		req := createRequest("t", -1, -1, "unclean.leader.election.enable="+enabled)
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Replicas = []int32{1, 2}
		req.Topics[0].ReplicaAssignment = append(req.Topics[0].ReplicaAssignment, a)
		w.do(req)
		w.alterPartition(1, func(x *kmsg.AlterPartitionRequestTopicPartition) { x.NewEpochISR = isrOf(1, -1) })
		w.heartbeat(1, func(r *kmsg.BrokerHeartbeatRequest) { r.WantFence = true })
		want := "leader=-1 isr=[] elr=[1] last=[1] recovering=0"
		if enabled == "true" {
			want = "leader=2 isr=[2] elr=[] last=[] recovering=1"
		}
		w.want("t", want)
	}
}

func TestAlterPartitionIsFenced(t *testing.T) {
	w := newWorld(t, nil)
	w.start(3)
	w.create("t", 1, 2)
	shrink := isrOf(1, -1)
	for _, c := range []struct {
		name   string
		broker int32
		want   *kerr.Error
		change func(*kmsg.AlterPartitionRequestTopicPartition)
	}{
		{"later leader epoch", 1, kerr.NotController, func(x *kmsg.AlterPartitionRequestTopicPartition) { x.LeaderEpoch++ }},
		{"later partition epoch", 1, kerr.NotController, func(x *kmsg.AlterPartitionRequestTopicPartition) { x.PartitionEpoch++ }},
		{"earlier leader epoch", 1, kerr.FencedLeaderEpoch, func(x *kmsg.AlterPartitionRequestTopicPartition) { x.LeaderEpoch-- }},
		{"earlier partition epoch", 1, kerr.InvalidUpdateVersion, func(x *kmsg.AlterPartitionRequestTopicPartition) { x.PartitionEpoch-- }},
		{"no leader", 2, kerr.InvalidRequest, func(*kmsg.AlterPartitionRequestTopicPartition) {}},
		{"not itself", 1, kerr.InvalidRequest, func(x *kmsg.AlterPartitionRequestTopicPartition) { x.NewEpochISR = isrOf(2, -1) }},
		{"no replica", 1, kerr.InvalidRequest, func(x *kmsg.AlterPartitionRequestTopicPartition) { x.NewEpochISR = isrOf(1, -1, 3, -1) }},
		{"stale broker epoch", 1, kerr.IneligibleReplica, func(x *kmsg.AlterPartitionRequestTopicPartition) { x.NewEpochISR = isrOf(1, -1, 2, 0) }},
		{"recovering again", 1, kerr.InvalidRequest, func(x *kmsg.AlterPartitionRequestTopicPartition) { x.LeaderRecoveryState = 1 }},
		{"unknown partition", 1, kerr.UnknownTopicOrPartition, func(x *kmsg.AlterPartitionRequestTopicPartition) { x.Partition = 1 }},
	} {
		before := len(w.log)
		resp := w.alterPartition(c.broker, func(x *kmsg.AlterPartitionRequestTopicPartition) { x.NewEpochISR = shrink; c.change(x) })
		if resp.ErrorCode != c.want.Code || len(w.log) != before {
			t.Errorf("%s: %v and %d records", c.name, kerr.ErrorForCode(resp.ErrorCode), len(w.log)-before)
		}
	}
	resp := w.alterPartition(1, func(x *kmsg.AlterPartitionRequestTopicPartition) { x.NewEpochISR = shrink })
	if resp.ErrorCode != 0 || resp.LeaderID != 1 || fmt.Sprint(resp.ISR) != "[1]" {
		t.Errorf("%+v", resp)
	}
	// A fenced or a stopping broker may not come back in.
	w.heartbeat(2, func(r *kmsg.BrokerHeartbeatRequest) { r.WantFence = true })
	if resp := w.alterPartition(1, func(x *kmsg.AlterPartitionRequestTopicPartition) { x.NewEpochISR = isrOf(1, -1, 2, -1) }); resp.ErrorCode != kerr.IneligibleReplica.Code {
		t.Errorf("a fenced broker joined the ISR: %+v", resp)
	}
}

func TestRegistrations(t *testing.T) {
	w := newWorld(t, nil)
	w.start(1)
	first := w.state.image.Broker(1)
	// The same incarnation amends its registration and keeps epoch and state.
	if e := w.register(1, 1, -1, "r"); e != first.Epoch || w.state.image.Broker(1).Fenced || *w.state.image.Broker(1).Rack != "r" {
		t.Errorf("epoch %d after %d, fenced %v", e, first.Epoch, w.state.image.Broker(1).Fenced)
	}
	// Another one waits until the first is silent for the session timeout.
	if r := w.tryRegister(1, 2, -1, ""); r.ErrorCode != kerr.DuplicateBrokerRegistration.Code {
		t.Errorf("two incarnations at once: %v", kerr.ErrorForCode(r.ErrorCode))
	}
	w.now += clock.Instant(9 * time.Second)
	if e := w.register(1, 2, -1, ""); e <= first.Epoch || e != int64(len(w.log)-1) {
		t.Errorf("epoch %d with the registration at %d", e, len(w.log)-1)
	}
	if r := w.heartbeat(1, func(r *kmsg.BrokerHeartbeatRequest) { r.BrokerEpoch = first.Epoch }); r.ErrorCode != kerr.StaleBrokerEpoch.Code {
		t.Errorf("a former incarnation's heartbeat: %v", kerr.ErrorForCode(r.ErrorCode))
	}
	if r := w.heartbeat(9, nil); r.ErrorCode != kerr.BrokerIDNotRegistered.Code {
		t.Errorf("an unknown broker's heartbeat: %v", kerr.ErrorForCode(r.ErrorCode))
	}
	// It stays fenced until it has read its own registration.
	behind := func(r *kmsg.BrokerHeartbeatRequest) { r.CurrentMetadataOffset = r.BrokerEpoch - 1 }
	if r := w.heartbeat(1, behind); !r.IsFenced || r.IsCaughtUp {
		t.Error("a broker that lags behind its registration is unfenced")
	}
	if r := w.heartbeat(1, nil); r.IsFenced || !r.IsCaughtUp {
		t.Error("a broker that caught up stays fenced")
	}
	wrong := kmsg.NewPtrBrokerRegistrationRequest()
	wrong.Version, wrong.ClusterID = 4, "other"
	if r := w.do(wrong).(*kmsg.BrokerRegistrationResponse); r.ErrorCode != kerr.InconsistentClusterID.Code {
		t.Error("another cluster's broker registers")
	}
}

func TestControlledShutdownMovesLeadershipFirst(t *testing.T) {
	w := newWorld(t, nil)
	w.start(2)
	w.create("t", 1, 2)
	stop := func(r *kmsg.BrokerHeartbeatRequest) { r.WantShutdown = true }
	if r := w.heartbeat(1, stop); r.ShouldShutdown {
		t.Error("stopped while it leads")
	}
	w.want("t", "leader=2 isr=[2] elr=[] last=[] recovering=0")
	if r := w.heartbeat(1, stop); r.ShouldShutdown {
		t.Error("stopped before the others have seen the move")
	}
	w.heartbeat(2, nil)
	if r := w.heartbeat(1, stop); !r.ShouldShutdown {
		t.Error("not let go")
	}
}

func TestWhoWasKilledOverItsControlledShutdownRegistersAtOnce(t *testing.T) {
	w := newWorld(t, nil)
	w.start(2)
	w.create("t", 1, 2)
	w.heartbeat(1, func(r *kmsg.BrokerHeartbeatRequest) { r.WantShutdown = true })
	old := w.state.image.Broker(1)
	if old.Fenced || !old.InControlledShutdown {
		t.Fatalf("%+v", old)
	}
	if e := w.register(1, 2, -1, ""); e <= old.Epoch {
		t.Errorf("epoch %d after %d", e, old.Epoch)
	}
	if b := w.state.image.Broker(1); !b.Fenced || b.InControlledShutdown {
		t.Errorf("%+v", b)
	}
	if r := w.heartbeat(1, nil); r.IsFenced || r.ShouldShutdown {
		t.Errorf("who came back has to stop: %+v", r)
	}
	if r := w.tryRegister(1, 3, -1, ""); r.ErrorCode != kerr.DuplicateBrokerRegistration.Code {
		t.Errorf("two incarnations at once: %v", kerr.ErrorForCode(r.ErrorCode))
	}
}

func TestProducerIDsAreGivenOutInBlocks(t *testing.T) {
	w := newWorld(t, nil)
	w.start(1)
	for i := range int64(3) {
		req := kmsg.NewPtrAllocateProducerIDsRequest()
		req.BrokerID, req.BrokerEpoch = 1, w.state.image.Broker(1).Epoch
		r := w.do(req).(*kmsg.AllocateProducerIDsResponse)
		if r.ErrorCode != 0 || r.ProducerIDStart != i*1000 || r.ProducerIDLen != 1000 {
			t.Errorf("block %d: %+v", i, r)
		}
	}
	req := kmsg.NewPtrAllocateProducerIDsRequest()
	req.BrokerID = 1
	if r := w.do(req).(*kmsg.AllocateProducerIDsResponse); r.ErrorCode != kerr.StaleBrokerEpoch.Code {
		t.Errorf("a former incarnation gets ids: %+v", r)
	}
}

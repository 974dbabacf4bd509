package controller

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/node/meta"
)

func TestCreateTopicErrors(t *testing.T) {
	w := newWorld(t, map[string]string{"num.partitions": "3"})
	w.start(2)
	w.create("a.b", 1)
	for _, c := range []struct {
		name       string
		partitions int32
		factor     int16
		configs    string
		want       error
		text       string
	}{
		{"a.b", 1, 1, "", kerr.TopicAlreadyExists, "Topic 'a.b' already exists."},
		{"a_b", 1, 1, "", kerr.InvalidTopicException, "Topic 'a_b' collides with existing topic: a.b"},
		{"", 1, 1, "", kerr.InvalidTopicException, "the empty string"},
		{"..", 1, 1, "", kerr.InvalidTopicException, "'..'"},
		{"a/b", 1, 1, "", kerr.InvalidTopicException, "other than ASCII alphanumerics"},
		{strings.Repeat("x", 250), 1, 1, "", kerr.InvalidTopicException, "249"},
		{"__cluster_metadata", 1, 1, "", kerr.InvalidRequest, "prohibited"},
		{"t", 0, 1, "", kerr.InvalidPartitions, "non-positive"},
		{"t", -2, 1, "", kerr.InvalidPartitions, "non-positive"},
		{"t", 1, 0, "", kerr.InvalidReplicationFactor, "larger than 0"},
		{"t", 1, 3, "", kerr.InvalidReplicationFactor, "only 2 broker(s) are registered"},
		{"t", 10001, 1, "", kerr.PolicyViolation, "excessively large"},
		{"t", 1, 1, "segment.bytes=102400", kerr.InvalidConfig, "Invalid value 102400 for configuration segment.bytes: Value must be at least 1048576"},
		{"t", 1, 1, "no.such=1", kerr.InvalidConfig, "no.such"},
		{"t", -1, -1, "retention.ms=5", nil, ""},
	} {
		var configs []string
		if c.configs != "" {
			configs = append(configs, c.configs)
		}
		for _, validateOnly := range []bool{true, false} {
			req := createRequest(c.name, c.partitions, c.factor, configs...)
			req.ValidateOnly = validateOnly
			before := len(w.log)
			x := w.do(req).(*kmsg.CreateTopicsResponse).Topics[0]
			if got := kerr.ErrorForCode(x.ErrorCode); got != c.want {
				t.Errorf("%.20q: %v, want %v", c.name, got, c.want)
			}
			if c.want != nil && (x.ErrorMessage == nil || !strings.Contains(*x.ErrorMessage, c.text)) {
				t.Errorf("%.20q: message %v", c.name, x.ErrorMessage)
			}
			if (c.want != nil || validateOnly) && len(w.log) != before {
				t.Errorf("%.20q: records of what was refused or only checked", c.name)
			}
			if c.want == nil && (x.NumPartitions != 3 || x.ReplicationFactor != 1 || x.TopicID == meta.UUID{} || len(x.Configs) < 20) {
				t.Errorf("%+v", x)
			}
		}
	}
	if v, _ := w.state.image.Config(meta.TopicResource, "t").Get("retention.ms"); v != "5" {
		t.Errorf("retention.ms %q", v)
	}
}

func TestWhatIsWrongWithALongNameFitsIntoTheAnswer(t *testing.T) {
	w := newWorld(t, nil)
	w.start(1)
	long := strings.Repeat("x", 1<<15-1)
	for _, req := range []*kmsg.CreateTopicsRequest{createRequest(long, 1, 1), createRequest("t", 1, 1, "segment.bytes="+long)} {
		req.Version = 4 // the last one whose strings have two bytes for their length
		resp := w.do(req).(*kmsg.CreateTopicsResponse)
		resp.Version = req.Version
		back := kmsg.NewPtrCreateTopicsResponse()
		back.Version = req.Version
		if err := back.ReadFrom(resp.AppendTo(nil)); err != nil || len(back.Topics) != 1 || back.Topics[0].ErrorMessage == nil {
			t.Errorf("%v, and %d topics", err, len(back.Topics))
		}
	}
}

func TestTopicsOfOneRequestSeeEachOther(t *testing.T) {
	w := newWorld(t, nil)
	w.start(1)
	req := createRequest("a.b", 1, 1)
	for _, name := range []string{"a_b", "c", "c", "d"} {
		req.Topics = append(req.Topics, createRequest(name, 1, 1).Topics...)
	}
	var got []error
	for _, x := range w.do(req).(*kmsg.CreateTopicsResponse).Topics {
		got = append(got, kerr.ErrorForCode(x.ErrorCode))
	}
	want := []error{nil, kerr.InvalidTopicException, kerr.InvalidRequest, kerr.InvalidRequest, nil}
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

func TestManualAssignments(t *testing.T) {
	w := newWorld(t, nil)
	w.start(3)
	for i, c := range []struct {
		assignment string // partition:replicas
		want       error
	}{
		{"0:1,2 1:2,3", nil},
		{"0:1,2 2:2,3", kerr.InvalidReplicaAssignment},
		{"0:1,2 0:2,3", kerr.InvalidReplicaAssignment},
		{"0:1,1", kerr.InvalidReplicaAssignment},
		{"0:1,9", kerr.InvalidReplicaAssignment},
		{"0:1,2 1:1", kerr.InvalidReplicaAssignment},
		{"0:", kerr.InvalidReplicaAssignment},
	} {
		req := createRequest(fmt.Sprintf("t%d", i), -1, -1)
		for _, part := range strings.Fields(c.assignment) {
			a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
			id, brokers, _ := strings.Cut(part, ":")
			fmt.Sscan(id, &a.Partition)
			for _, b := range strings.FieldsFunc(brokers, func(r rune) bool { return r == ',' }) {
				var n int32
				fmt.Sscan(b, &n)
				a.Replicas = append(a.Replicas, n)
			}
			req.Topics[0].ReplicaAssignment = append(req.Topics[0].ReplicaAssignment, a)
		}
		x := w.do(req).(*kmsg.CreateTopicsResponse).Topics[0]
		if got := kerr.ErrorForCode(x.ErrorCode); got != c.want {
			t.Errorf("%s: %v", c.assignment, got)
		}
	}
	p := w.state.image.Topic("t0").Partition(1)
	if p.Leader != 2 || !slices.Equal(p.ISR, []int32{2, 3}) || !slices.Equal(p.Directories, []meta.UUID{dirOf(2), dirOf(3)}) {
		t.Errorf("%+v", p)
	}
}

func TestPlacementSpreadsLeadersAndRacks(t *testing.T) {
	w := newWorld(t, nil)
	for id := int32(1); id <= 6; id++ {
		w.register(id, 1, -1, fmt.Sprintf("rack%d", id%3))
		w.heartbeat(id, nil)
	}
	w.do(createRequest("t", 60, 3))
	leaders, followers := map[int32]int{}, map[string]bool{}
	for _, p := range w.state.image.Topic("t").Partitions {
		racks := map[int32]bool{}
		for _, b := range p.Replicas {
			racks[b%3] = true
		}
		if len(racks) != 3 {
			t.Fatalf("replicas %v are in %d racks", p.Replicas, len(racks))
		}
		leaders[p.Leader]++
		followers[fmt.Sprint(p.Replicas)] = true
	}
	for id := int32(1); id <= 6; id++ {
		if leaders[id] != 10 {
			t.Errorf("broker %d leads %d of 60", id, leaders[id])
		}
	}
	if len(followers) < 12 {
		t.Errorf("only %d different replica lists", len(followers))
	}
}

func TestFencedBrokersFollowAndNeverLead(t *testing.T) {
	w := newWorld(t, nil)
	w.start(2)
	w.heartbeat(1, func(r *kmsg.BrokerHeartbeatRequest) { r.WantFence = true })
	w.do(createRequest("t", 4, 2))
	for _, p := range w.state.image.Topic("t").Partitions {
		if p.Leader != 2 || len(p.Replicas) != 2 || len(p.ISR) != 1 {
			t.Errorf("%+v", p)
		}
	}
	w.heartbeat(2, func(r *kmsg.BrokerHeartbeatRequest) { r.WantFence = true })
	if x := w.do(createRequest("u", 1, 1)).(*kmsg.CreateTopicsResponse).Topics[0]; x.ErrorCode != kerr.InvalidReplicationFactor.Code {
		t.Errorf("a topic without a leader: %+v", x)
	}
}

func TestDeleteTopics(t *testing.T) {
	w := newWorld(t, nil)
	w.start(1)
	a, b := w.create("a", 1), w.create("b", 1)
	byName := func(names ...string) *kmsg.DeleteTopicsRequest {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.Version = 6
		for _, n := range names {
			req.Topics = append(req.Topics, kmsg.DeleteTopicsRequestTopic{Topic: &n})
		}
		return req
	}
	req := byName("a", "a", "nope")
	req.Topics = append(req.Topics, kmsg.DeleteTopicsRequestTopic{TopicID: b.ID}, kmsg.DeleteTopicsRequestTopic{TopicID: meta.UUID{5}}, kmsg.DeleteTopicsRequestTopic{})
	var got []error
	for _, x := range w.do(req).(*kmsg.DeleteTopicsResponse).Topics {
		got = append(got, kerr.ErrorForCode(x.ErrorCode))
	}
	want := []error{nil, kerr.InvalidRequest, kerr.UnknownTopicOrPartition, nil, kerr.UnknownTopicID, kerr.InvalidRequest}
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if w.state.image.NumTopics() != 0 {
		t.Error("topics remain")
	}
	if again := w.create("a", 1); again.ID == a.ID {
		t.Error("a topic created again has the old id")
	}

	w = newWorld(t, map[string]string{"delete.topic.enable": "false"})
	w.start(1)
	w.create("a", 1)
	if x := w.do(byName("a")).(*kmsg.DeleteTopicsResponse).Topics[0]; x.ErrorCode != kerr.TopicDeletionDisabled.Code {
		t.Errorf("%+v", x)
	}
}

func TestCreatePartitions(t *testing.T) {
	w := newWorld(t, nil)
	w.start(2)
	w.create("t", 1, 2)
	ask := func(name string, count int32, assignment ...[]int32) error {
		req := kmsg.NewPtrCreatePartitionsRequest()
		x := kmsg.NewCreatePartitionsRequestTopic()
		x.Topic, x.Count = name, count
		for _, a := range assignment {
			x.Assignment = append(x.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: a})
		}
		req.Topics = append(req.Topics, x)
		return kerr.ErrorForCode(w.do(req).(*kmsg.CreatePartitionsResponse).Topics[0].ErrorCode)
	}
	for i, got := range []error{
		ask("nope", 2), ask("t", 1), ask("t", 0), ask("t", 3, []int32{1, 2}), ask("t", 2, []int32{1}), ask("t", 20000),
		ask("t", 3), ask("t", 4, []int32{2, 1}),
	} {
		want := []error{kerr.UnknownTopicOrPartition, kerr.InvalidPartitions, kerr.InvalidPartitions, kerr.InvalidReplicaAssignment,
			kerr.InvalidReplicaAssignment, kerr.PolicyViolation, nil, nil}[i]
		if got != want {
			t.Errorf("%d: %v, want %v", i, got, want)
		}
	}
	if parts := w.state.image.Topic("t").Partitions; len(parts) != 4 || parts[3].Leader != 2 || len(parts[1].Replicas) != 2 {
		t.Errorf("%d partitions", len(parts))
	}
}

// drawn counts what is drawn.
type drawn struct {
	*rand.Rand
	n int
}

func (d *drawn) Uint64() uint64 { d.n++; return d.Rand.Uint64() }

func TestPartitionsThatAreTooManyAreNotPlaced(t *testing.T) {
	w := newWorld(t, nil)
	w.start(3)
	req := kmsg.NewPtrCreatePartitionsRequest()
	for i := range 100 {
		x := kmsg.NewCreatePartitionsRequestTopic()
		x.Topic, x.Count = w.create(fmt.Sprint("t", i), 1).Name, 6000
		req.Topics = append(req.Topics, x)
	}
	req.Topics[99].Count = 2
	draws := &drawn{Rand: w.rnd}
	d := w.state.Decide(req, Input{NextOffset: int64(len(w.log)), Rand: rand.New(draws)})
	for i, x := range d.Response.(*kmsg.CreatePartitionsResponse).Topics {
		if got, want := x.ErrorCode == kerr.PolicyViolation.Code, i > 0 && i < 99; got != want {
			t.Errorf("%s: %v", x.Topic, kerr.ErrorForCode(x.ErrorCode))
		}
	}
	if len(d.Records) != 5999+1 || draws.n > 4 {
		t.Errorf("%d records, and %d draws for two topics", len(d.Records), draws.n)
	}
}

func TestATopicGetsNoPartitionThatIsNotApplied(t *testing.T) {
	w := newWorld(t, nil)
	w.start(1)
	last := *w.create("t", 1).Partitions[0].Record(w.state.image.Topic("t").ID, meta.MaxPartitions-2)
	w.state.image = mustApply(w.state.image, []meta.Record{{Version: 2, Body: &last}}) // those between are not looked at
	for _, c := range []struct {
		count int32
		want  error
	}{{meta.MaxPartitions + 1, kerr.InvalidPartitions}, {meta.MaxPartitions, nil}} {
		req := kmsg.NewPtrCreatePartitionsRequest()
		x := kmsg.NewCreatePartitionsRequestTopic()
		x.Topic, x.Count = "t", c.count
		req.Topics = append(req.Topics, x)
		d := w.state.Decide(req, Input{NextOffset: int64(len(w.log)), Rand: w.rnd})
		if got := kerr.ErrorForCode(d.Response.(*kmsg.CreatePartitionsResponse).Topics[0].ErrorCode); got != c.want {
			t.Errorf("%d partitions: %v, want %v", c.count, got, c.want)
		}
		if _, err := w.state.Replay(d.Records, int64(len(w.log)+len(d.Records)), 1); err != nil {
			t.Errorf("%d partitions: %v", c.count, err)
		}
	}
}

func TestReplicasFollowTheirDirectories(t *testing.T) {
	w := newWorld(t, nil)
	w.start(1)
	// A broker with two directories says where it put the replica.
	b := *w.state.image.Broker(1)
	other := meta.UUID{9, 99}
	w.append([]meta.Record{{Version: 2, Body: &meta.BrokerRegistrationChangeRecord{BrokerID: 1, BrokerEpoch: b.Epoch, LogDirs: []meta.UUID{dirOf(1), other}}}})
	topic := w.create("t", 1)
	if d := w.partition("t").Directories; !slices.Equal(d, []meta.UUID{meta.DirUnassigned}) {
		t.Fatalf("directories %v", d)
	}
	req := kmsg.NewPtrAssignReplicasToDirsRequest()
	req.BrokerID, req.BrokerEpoch = 1, b.Epoch
	d := kmsg.NewAssignReplicasToDirsRequestDirectory()
	d.ID = other
	x := kmsg.NewAssignReplicasToDirsRequestDirectoryTopic()
	x.TopicID = topic.ID
	x.Partitions = append(x.Partitions, kmsg.NewAssignReplicasToDirsRequestDirectoryTopicPartition())
	d.Topics = append(d.Topics, x)
	req.Directories = append(req.Directories, d)
	if r := w.do(req).(*kmsg.AssignReplicasToDirsResponse); r.ErrorCode != 0 || r.Directories[0].Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatalf("%+v", r)
	}
	if d := w.partition("t").Directories; !slices.Equal(d, []meta.UUID{other}) {
		t.Errorf("directories %v", d)
	}
	// The directory fails: its partition has no leader, the broker stays.
	w.heartbeat(1, func(r *kmsg.BrokerHeartbeatRequest) { r.OfflineLogDirs = [][16]byte{other} })
	w.want("t", "leader=-1 isr=[] elr=[1] last=[1] recovering=0")
	if dirs := w.state.image.Broker(1).LogDirs; !slices.Equal(dirs, []meta.UUID{dirOf(1)}) || w.state.image.Broker(1).Fenced {
		t.Errorf("broker has %v", dirs)
	}
}

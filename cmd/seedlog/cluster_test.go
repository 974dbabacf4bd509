package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"seedlog/node/config"
	"seedlog/node/meta"
)

// A plan that would do something else than it says is refused, and says why.
func TestPlansThatAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{`: "unexpected end",
		`{"version":2,"partitions":[{"topic":"a","partition":0,"replicas":[1]}]}`:                                            "only version 1",
		`{"version":1,"partitions":[]}`:                                                                                      "names no partitions",
		`{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[]}]}`:                                             "a-0 has no replicas",
		`{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[1]},{"topic":"a","partition":0,"replicas":[2]}]}`: "a-0 is named twice",
		`{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[1,2],"log_dirs":["any","/data/b"]}]}`:             "only \"any\" is served",
	} {
		if _, err := parsePlan([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	plan, err := parsePlan([]byte(`{"version":1,"partitions":[{"topic":"a","partition":3,"replicas":[1,2],"log_dirs":["any","any"]}]}`))
	if err != nil || !plan.set().Lookup("a", 3) {
		t.Fatalf("Kafka's own form is refused: %v", err)
	}
}

// What another move needs of a throttle stays: its topics', also if they are of this plan,
// and the brokers' while anything moves.
func TestAThrottleStaysWhileItIsNeeded(t *testing.T) {
	plan := &reassignment{Partitions: []reassignPart{{Topic: "b"}, {Topic: "a", Partition: 0}, {Topic: "a", Partition: 1}}}
	under := func(topics ...string) kadm.ListPartitionReassignmentsResponses {
		all := kadm.ListPartitionReassignmentsResponses{"empty": {}}
		for _, topic := range topics {
			all[topic] = map[int32]kadm.ListPartitionReassignmentsResponse{7: {Topic: topic, Partition: 7}}
		}
		return all
	}
	for _, c := range []struct {
		under   kadm.ListPartitionReassignmentsResponses
		topics  []string
		brokers bool
	}{
		{under(), []string{"a", "b"}, true},
		{under("c"), []string{"a", "b"}, false},
		{under("a"), []string{"b"}, false},
		{under("a", "b"), nil, false},
	} {
		topics, brokers := plan.unneeded(c.under)
		if !slices.Equal(topics, c.topics) || brokers != c.brokers {
			t.Errorf("while %v: topics %v, brokers %v", c.under, topics, brokers)
		}
	}
}

// A plan beside other moves: the settings of its topics name those, too, and who is on the way to a
// replica counts as one that it has yet to come to.
func TestAThrottleNamesWhatMovesAlready(t *testing.T) {
	plan := &reassignment{Partitions: []reassignPart{{Topic: "a", Partition: 0, Replicas: []int32{2, 3}}, {Topic: "a", Partition: 1, Replicas: []int32{3}}}}
	now := &reassignment{Partitions: []reassignPart{{Topic: "a", Partition: 0, Replicas: []int32{2, 1}}, {Topic: "a", Partition: 1, Replicas: []int32{1}}}}
	move := func(topic string, p int32, replicas, adding, removing []int32) kadm.ListPartitionReassignmentsResponse {
		return kadm.ListPartitionReassignmentsResponse{Topic: topic, Partition: p, Replicas: replicas, AddingReplicas: adding, RemovingReplicas: removing}
	}
	from, to := plan.concerned(now, kadm.ListPartitionReassignmentsResponses{
		"a": {0: move("a", 0, []int32{2, 1}, []int32{2}, []int32{1}), 5: move("a", 5, []int32{4, 1}, []int32{4}, []int32{1})},
		"b": {0: move("b", 0, []int32{4, 1}, []int32{4}, []int32{1})},
	})
	show := func(r *reassignment) (text string) {
		for _, p := range r.Partitions {
			text += fmt.Sprintf(" %s-%d%v", p.Topic, p.Partition, p.Replicas)
		}
		return text
	}
	if got, want := show(from)+" ->"+show(to), " a-0[1] a-1[1] a-5[1] -> a-0[2 3] a-1[3] a-5[4]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := show(now) + show(plan); got != " a-0[2 1] a-1[1] a-0[2 3] a-1[3]" {
		t.Errorf("now and plan became %s", got)
	}
}

// A generated plan keeps the number of replicas, puts no two on one broker, and uses the
// racks.
// A throttle of brokers that are all away is nobody's: settings of no broker in particular are the
// cluster's, and the end of the move takes away each broker's own.
func TestAThrottleOfNobodyIsNotEverybodys(t *testing.T) {
	b, _ := runningBroker(t)
	if _, errs, code := ran(t, "", "topic", "create", "t", "-b", b.addr); code != 0 {
		t.Fatal(errs)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.addr))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	a := kadm.NewClient(cl)
	move := func(id int32) *reassignment {
		return &reassignment{Partitions: []reassignPart{{Topic: "t", Replicas: []int32{id}}}}
	}
	if err := setThrottle(t.Context(), a, move(7), move(8), 1000); err != nil {
		t.Fatal(err)
	}
	configs, err := a.DescribeBrokerConfigs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range configs {
		for _, c := range r.Configs {
			if c.Key == leaderRate || c.Key == followerRate {
				t.Errorf("the cluster has %s=%s", c.Key, c.MaybeValue())
			}
		}
	}
}

func TestGeneratedPlansSpread(t *testing.T) {
	racks := []string{"a", "a", "b", "b"}
	var brokers []*meta.Broker
	for i := range racks {
		brokers = append(brokers, &meta.Broker{ID: int32(i + 1), Rack: &racks[i]})
	}
	topic := kadm.TopicDetail{Topic: "t", Partitions: kadm.PartitionDetails{}}
	for p := range int32(8) {
		topic.Partitions[p] = kadm.PartitionDetail{Topic: "t", Partition: p, Replicas: []int32{1, 2}}
	}
	parts, err := placeTopic(topic, brokers, rand.New(rand.NewPCG(1, 2)))
	if err != nil || len(parts) != 8 {
		t.Fatalf("%d partitions, %v", len(parts), err)
	}
	for _, p := range parts {
		if len(p.Replicas) != 2 || (p.Replicas[0] <= 2) == (p.Replicas[1] <= 2) {
			t.Errorf("partition %d on %v: both replicas in one rack", p.Partition, p.Replicas)
		}
	}
	if _, err := placeTopic(topic, brokers[:1], rand.New(rand.NewPCG(1, 2))); err == nil {
		t.Error("two replicas were placed on one broker")
	}
}

// Each partition counts once, by the worst that is wrong with it.
func TestHealthNamesTheWorst(t *testing.T) {
	var h health
	for i, p := range []kadm.PartitionDetail{
		{Leader: 1, Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2, 3}},
		{Leader: 1, Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2}},
		{Leader: 1, Replicas: []int32{1, 2, 3}, ISR: []int32{1}},
		{Leader: -1, Replicas: []int32{1, 2, 3}, ISR: []int32{1}},
		{Leader: 1, Replicas: []int32{1}, ISR: []int32{1}},
	} {
		p.Topic, p.Partition = "t", int32(i)
		h.judge(p, 2)
	}
	for what, lists := range map[string][2][]string{
		"under-replicated": {h.UnderReplicated, {"t-1"}},
		"at min isr":       {h.AtMinISR, {"t-1"}},
		"under min isr":    {h.UnderMinISR, {"t-2"}},
		"offline":          {h.Offline, {"t-3"}},
	} {
		if !slices.Equal(lists[0], lists[1]) {
			t.Errorf("%s: %v, want %v", what, lists[0], lists[1])
		}
	}
}

// Whether a voter is silent is judged by the leader's clock alone.
func TestSilentVotersByTheLeadersClock(t *testing.T) {
	const now = 1_000_000 // decades behind this machine's clock
	q := &quorumState{Leader: 1, at: 1 << 40, Replicas: []quorumReplica{
		{ID: 1, Status: "leader", LogEndOffset: 9, LastFetchMs: now},
		{ID: 2, Status: "follower", LogEndOffset: 9, LastFetchMs: now - voterSilentMaxMs},
		{ID: 3, Status: "follower", LogEndOffset: 7, LastFetchMs: now - voterSilentMaxMs - 1},
		{ID: 4, Status: "observer", LogEndOffset: 0, LastFetchMs: 0},
	}}
	q.measure()
	if got := q.silent(voterSilentMaxMs); !slices.Equal(got, []int32{3}) {
		t.Errorf("silent: %v", got)
	}
	if q.Replicas[2].Lag != 2 {
		t.Errorf("lag %d", q.Replicas[2].Lag)
	}
}

// The settings that `seedlog dev` writes are settings that a node takes.
func TestSettingsOfDev(t *testing.T) {
	nodes := []*devNode{
		{id: 1, dir: "d/node-1", broker: "127.0.0.1:9092", control: "127.0.0.1:9093"},
		{id: 2, dir: "d/node-2", broker: "127.0.0.1:9094", control: "127.0.0.1:9095"},
		{id: 3, dir: "d/node-3", broker: "127.0.0.1:9096", control: "127.0.0.1:9097"},
	}
	props, err := config.ParseProperties(nodes[1].properties(nodes, []string{"num.partitions=4"}))
	if err != nil {
		t.Fatal(err)
	}
	cfg, unknown, err := config.Parse(props)
	if err != nil || len(unknown) > 0 {
		t.Fatalf("%v, unknown %v", err, unknown)
	}
	if cfg.NodeID != 2 || cfg.NumPartitions != 4 || cfg.LogDirs[0] != "d/node-2/data" || cfg.Topic(nil).MinInsyncReplicas != 2 {
		t.Errorf("the node would run with other settings: %+v", cfg)
	}
}

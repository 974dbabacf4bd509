package controller

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"seedlog/clock"
	"seedlog/node/meta"
)

// TestNoHistoryOfAClusterLosesWhatItPromises drives the controller of five brokers with
// whatever brokers and operators may ask, in any order, stale and twice, and lets the ghost
// judge each decision.
func TestNoHistoryOfAClusterLosesWhatItPromises(t *testing.T) {
	if f := flag.Lookup("rapid.steps"); f.Value.String() == f.DefValue { // longer lives than rapid's
		if err := f.Value.Set("80"); err != nil {
			t.Fatal(err)
		}
		defer f.Value.Set(f.DefValue)
	}
	reached := map[string]int{}
	rapid.Check(t, func(r *rapid.T) {
		m := newMachine(r)
		m.events = reached
		r.Repeat(map[string]func(*rapid.T){
			"":              func(*rapid.T) {},
			"produce":       m.produceSome,
			"replicate":     m.replicateSome,
			"propose":       m.proposeISR,
			"heartbeat":     m.beat,
			"want-fence":    m.wantFence,
			"want-shutdown": m.wantShutdown,
			"crash":         m.crash,
			"start":         m.start,
			"break-dir":     m.breakDir,
			"assign-dirs":   m.assignDirs,
			"time":          m.time,
			"failover":      m.failover,
			"reassign":      m.reassign,
			"cancel":        m.cancel,
			"elect":         m.elect,
			"configure":     m.configure,
			"features":      m.features,
			"topics":        m.topics,
			"unregister":    m.unregister,
			"heal":          m.heal,
			"heal-again":    m.heal,
		})
		m.finish()
	})
	if testing.Short() {
		return
	}
	for _, what := range []string{
		HowOnline, HowELR, HowLastKnown, HowUnclean, HowNone, ReassignmentBegun, ReassignmentReplaced, ReassignmentCompleted,
		ReassignmentCancelled, BrokerFenced, BrokerUnfenced, BrokerStopping,
	} {
		if reached[what] == 0 {
			t.Errorf("no run reached %s: %v", what, reached)
		}
	}
}

type machine struct {
	ghost
	r *rapid.T
}

const brokers = 5

func newMachine(r *rapid.T) *machine {
	props := map[string]string{"min.insync.replicas": rapid.SampledFrom([]string{"1", "2", "3"}).Draw(r, "min")}
	m := &machine{r: r, ghost: ghost{world: newWorld(r, props), nodes: map[int32]*node{}, logs: map[partitionKey]*ghostLog{}, joined: map[memberKey]int64{}}}
	m.before = m.state.image
	for id := int32(1); id <= brokers; id++ {
		m.nodes[id] = &node{dirs: []meta.UUID{{9, byte(id), 1}, {9, byte(id), 2}}[:1+id%2]}
		m.boot(id, -1)
		m.heartbeat(id, nil)
	}
	m.create(r)
	m.create(r)
	return m
}

// ask has the controller decide, and judges.
func (m *machine) ask(r *rapid.T, req kmsg.Request) kmsg.Response {
	m.t = r
	from := len(m.log)
	resp := m.do(req)
	_, m.proposed = req.(*kmsg.AlterPartitionRequest)
	m.judge(m.log[from:])
	m.proposed = false
	return resp
}

func (m *machine) heartbeat(id int32, change func(*kmsg.BrokerHeartbeatRequest)) *kmsg.BrokerHeartbeatResponse {
	from := len(m.log)
	m.nodes[id].knows = m.state.image
	resp := m.world.heartbeat(id, func(q *kmsg.BrokerHeartbeatRequest) {
		q.Version, q.OfflineLogDirs = 2, m.nodes[id].broken
		if change != nil {
			change(q)
		}
	})
	m.judge(m.log[from:])
	return resp
}

func (m *machine) broker(r *rapid.T) int32 { return rapid.Int32Range(1, brokers).Draw(r, "broker") }

// one draws a partition.
func (m *machine) one(r *rapid.T) (t *meta.Topic, k partitionKey, p *meta.Partition) {
	topics := slices.Collect(m.state.image.Topics())
	t = topics[rapid.IntRange(0, len(topics)-1).Draw(r, "topic")]
	id := rapid.IntRange(0, len(t.Partitions)-1).Draw(r, "partition")
	return t, partitionKey{t.ID, int32(id)}, t.Partitions[id]
}

func (m *machine) produceSome(r *rapid.T) {
	_, k, p := m.one(r)
	m.produce(k, p, rapid.IntRange(1, 3).Draw(r, "records"))
}

func (m *machine) replicateSome(r *rapid.T) {
	_, k, p := m.one(r)
	for _, b := range p.Replicas {
		if rapid.IntRange(0, 3).Draw(r, "fetches") > 0 {
			m.fetch(k, p, b)
		}
	}
}

// proposeISR: the leader proposes those that have all it has, or drops some. Sometimes its
// epochs are stale, or it names a partition twice.
func (m *machine) proposeISR(r *rapid.T) {
	t, k, p := m.one(r)
	if p.Leader < 0 || !m.serves(p, p.Leader) {
		return
	}
	req := kmsg.NewPtrAlterPartitionRequest()
	req.Version, req.BrokerID, req.BrokerEpoch = 3, p.Leader, m.state.image.Broker(p.Leader).Epoch
	x := kmsg.NewAlterPartitionRequestTopic()
	x.TopicID = t.ID
	a := kmsg.NewAlterPartitionRequestTopicPartition()
	a.Partition, a.LeaderEpoch, a.PartitionEpoch = k.id, p.LeaderEpoch, p.PartitionEpoch
	l := m.truth(k)
	for _, b := range p.Replicas {
		// Members may stay while they lag, for a while; others must have caught up.
		may := slices.Contains(p.ISR, b) || l.leo[b] == l.leo[p.Leader] && m.serves(p, b)
		if x := m.state.image.Broker(b); b == p.Leader || may && x != nil && rapid.Bool().Draw(r, "in") {
			a.NewEpochISR = append(a.NewEpochISR, isrOf(int64(b), x.Epoch)...)
		}
	}
	stale := rapid.IntRange(0, 9).Draw(r, "stale")
	switch stale {
	case 1:
		a.LeaderEpoch--
	case 2:
		a.PartitionEpoch--
	case 3:
		a.NewEpochISR[rapid.IntRange(0, len(a.NewEpochISR)-1).Draw(r, "whose")].BrokerEpoch--
	case 4:
		req.BrokerEpoch--
	}
	x.Partitions = append(x.Partitions, a)
	if stale == 5 {
		x.Partitions = append(x.Partitions, a)
	}
	req.Topics = append(req.Topics, x)
	resp := m.ask(r, req).(*kmsg.AlterPartitionResponse)
	if after := m.state.image.Partition(k.topic, k.id); stale == 5 && after.PartitionEpoch > p.PartitionEpoch+1 {
		r.Fatalf("named twice, it was changed twice: %+v from %+v", *after, *p)
	}
	for i := 0; i < len(resp.Topics) && stale > 0 && stale < 4; i++ {
		if resp.Topics[i].Partitions[0].ErrorCode == 0 {
			r.Fatalf("a proposal of stale kind %d is accepted", stale)
		}
	}
}

func (m *machine) beat(r *rapid.T) {
	m.t = r
	id := m.broker(r)
	if !m.registered(id) || m.nodes[id].lossy || !m.nodes[id].running {
		return
	}
	m.heartbeat(id, nil)
}

func (m *machine) registered(id int32) bool { return m.state.image.Broker(id) != nil }

func (m *machine) wantFence(r *rapid.T) {
	m.t = r
	if id := m.broker(r); m.registered(id) && m.nodes[id].running {
		m.heartbeat(id, func(q *kmsg.BrokerHeartbeatRequest) { q.WantFence = true })
	}
}

// wantShutdown stops a broker cleanly once it may; the others report how far they are now
// and then.
func (m *machine) wantShutdown(r *rapid.T) {
	m.t = r
	id := m.broker(r)
	if !m.registered(id) || !m.nodes[id].running {
		return
	}
	for range rapid.IntRange(1, 3).Draw(r, "reports") {
		resp := m.heartbeat(id, func(q *kmsg.BrokerHeartbeatRequest) { q.WantShutdown = true })
		if !resp.ShouldShutdown {
			continue
		}
		for t := range m.state.image.Topics() {
			for part, p := range t.Partitions {
				if p.Leader == id || m.state.elrEnabled() && slices.Contains(p.ISR, id) {
					r.Fatalf("broker %d may stop and serves %s-%d: %+v", id, t.Name, part, *p)
				}
			}
		}
		m.nodes[id].running = false
		return
	}
}

// crash ends a broker's process; a power loss may take its tails.
func (m *machine) crash(r *rapid.T) {
	id := m.broker(r)
	n := m.nodes[id]
	if !n.running {
		return
	}
	n.running, n.lossy = false, true
	keep := rapid.IntRange(0, 100).Draw(r, "percent kept")
	m.lose(id, func(leo int) int { return leo * keep / 100 }, func(meta.UUID) bool { return true })
}

// start registers a new incarnation of a broker that stopped.
func (m *machine) start(r *rapid.T) {
	m.t = r
	if id := m.broker(r); !m.nodes[id].running {
		m.startBroker(r, id)
	}
}

func (m *machine) startBroker(r *rapid.T, id int32) {
	n := m.nodes[id]
	previous := int64(-1)
	if b := m.state.image.Broker(id); b != nil && !n.lossy {
		previous = rapid.SampledFrom([]int64{-1, b.Epoch, b.Epoch - 1}).Draw(r, "previous epoch")
	}
	if len(n.broken) > 0 && len(n.broken) < len(n.dirs) && rapid.Bool().Draw(r, "dirs replaced") {
		gone := n.broken
		m.lose(id, func(int) int { return 0 }, func(d meta.UUID) bool { return slices.Contains(gone, d) })
		n.dirs = slices.DeleteFunc(slices.Clone(n.dirs), func(d meta.UUID) bool { return slices.Contains(gone, d) })
	}
	n.broken = nil
	m.boot(id, previous)
}

// boot registers the next incarnation, if the controller lets it.
func (m *machine) boot(id int32, previous int64) {
	n := m.nodes[id]
	n.incarnation++
	req := registration(id, n.incarnation, previous, strconv.Itoa(int(id%2)))
	req.LogDirs = append([][16]byte(nil), n.dirs...)
	from := len(m.log)
	resp := m.do(req).(*kmsg.BrokerRegistrationResponse)
	switch resp.ErrorCode {
	case 0:
		n.running, n.lossy = true, false
	case kerr.DuplicateBrokerRegistration.Code:
	default:
		m.t.Fatalf("broker %d: %v", id, kerr.ErrorForCode(resp.ErrorCode))
	}
	if n.running && !m.state.elrEnabled() {
		m.forgive(id)
	}
	m.judge(m.log[from:])
}

// forgive: without ELR the last member of an ISR may come back with less than it had.
func (m *machine) forgive(id int32) {
	for t := range m.state.image.Topics() {
		for part, p := range t.Partitions {
			if slices.Contains(p.ISR, id) {
				l := m.truth(partitionKey{t.ID, int32(part)})
				l.hw = min(l.hw, l.leo[id])
			}
		}
	}
}

func (m *machine) breakDir(r *rapid.T) {
	m.t = r
	id := m.broker(r)
	n := m.nodes[id]
	if !n.running || !m.registered(id) {
		return
	}
	d := rapid.SampledFrom(n.dirs).Draw(r, "dir")
	if !slices.Contains(n.broken, d) {
		n.broken = append(slices.Clone(n.broken), d)
	}
	m.heartbeat(id, nil)
}

// assignDirs: a broker says where a replica is that had no directory, or whose directory is
// gone; that one is empty.
func (m *machine) assignDirs(r *rapid.T) {
	m.t = r
	t, k, p := m.one(r)
	b := rapid.SampledFrom(p.Replicas).Draw(r, "replica")
	n := m.nodes[b]
	if !n.running || n.lossy || !m.registered(b) {
		return
	}
	now, _ := p.Dir(b)
	if slices.Contains(n.dirs, now) {
		return
	}
	req := kmsg.NewPtrAssignReplicasToDirsRequest()
	req.BrokerID, req.BrokerEpoch = b, m.state.image.Broker(b).Epoch
	d := kmsg.NewAssignReplicasToDirsRequestDirectory()
	d.ID = rapid.SampledFrom(n.dirs).Draw(r, "dir")
	x := kmsg.NewAssignReplicasToDirsRequestDirectoryTopic()
	x.TopicID = t.ID
	part := kmsg.NewAssignReplicasToDirsRequestDirectoryTopicPartition()
	part.Partition = k.id
	x.Partitions = append(x.Partitions, part)
	d.Topics = append(d.Topics, x)
	req.Directories = append(req.Directories, d)
	m.ask(r, req)
}

func (m *machine) time(r *rapid.T) {
	m.t = r
	m.now += clock.Instant(rapid.SampledFrom([]int{1, 5, 10, 400}).Draw(r, "seconds")) * clock.Instant(time.Second)
	for range brokers + 1 {
		from := len(m.log)
		records, next := m.state.Expire(m.now)
		m.append(records)
		m.judge(m.log[from:])
		if len(records) == 0 && next <= m.now {
			r.Fatalf("nothing to do at %d, and to look again at %d", m.now, next)
		}
	}
}

// failover: another controller replays the log and begins.
func (m *machine) failover(r *rapid.T) {
	m.t = r
	img := m.state.image
	m.state = New(clusterID, m.state.static, img)
	m.append(m.state.Activate(m.now, nil))
}

func (m *machine) reassign(r *rapid.T) { m.alterReassignment(r, false) }
func (m *machine) cancel(r *rapid.T)   { m.alterReassignment(r, true) }

func (m *machine) alterReassignment(r *rapid.T, cancel bool) {
	t, k, p := m.one(r)
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.Version, req.AllowReplicationFactorChange = 1, rapid.Bool().Draw(r, "factor may change")
	x := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	x.Topic = t.Name
	a := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	a.Partition = k.id
	if !cancel {
		all := rapid.Permutation([]int32{1, 2, 3, 4, 5}).Draw(r, "brokers")
		a.Replicas = all[:rapid.IntRange(1, 4).Draw(r, "factor")]
	}
	x.Partitions = append(x.Partitions, a)
	req.Topics = append(req.Topics, x)
	m.voluntary = k
	resp := m.ask(r, req).(*kmsg.AlterPartitionAssignmentsResponse).Topics[0].Partitions[0]
	m.voluntary = partitionKey{}
	now := m.state.image.Partition(k.topic, k.id)
	switch {
	case resp.ErrorCode != 0 && now != p:
		r.Fatalf("refused with %v, and changed %+v to %+v", kerr.ErrorForCode(resp.ErrorCode), *p, *now)
	case resp.ErrorCode != 0:
	case cancel && (reassigning(now) || !slices.Equal(now.Replicas, origin(p))):
		r.Fatalf("%+v cancelled is %+v", *p, *now)
	case !cancel && !slices.Equal(target(now), a.Replicas):
		r.Fatalf("%+v moved to %v is %+v", *p, a.Replicas, *now)
	case !cancel && !req.AllowReplicationFactorChange && len(target(p)) != len(a.Replicas):
		r.Fatalf("the factor changed from %v to %v", target(p), a.Replicas)
	case !cancel && !containsAll(now.Replicas, origin(p)) && reassigning(now):
		r.Fatalf("%v moved to %v gives up %v at once", origin(p), a.Replicas, without(origin(p), now.Replicas...))
	}
}

func (m *machine) elect(r *rapid.T) {
	req := kmsg.NewPtrElectLeadersRequest()
	req.Version, req.ElectionType = 2, int8(rapid.IntRange(0, 1).Draw(r, "unclean"))
	if rapid.Bool().Draw(r, "one") {
		t, k, _ := m.one(r)
		x := kmsg.NewElectLeadersRequestTopic()
		x.Topic, x.Partitions = t.Name, []int32{k.id, k.id}
		req.Topics = append(req.Topics, x)
	}
	before := m.state.image
	resp := m.ask(r, req).(*kmsg.ElectLeadersResponse)
	for _, x := range resp.Topics {
		for _, e := range x.Partitions {
			p := m.state.image.Topic(x.Topic).Partition(e.Partition)
			if was := before.Topic(x.Topic).Partition(e.Partition); e.ErrorCode != 0 && was != p {
				r.Fatalf("%v, and %+v became %+v", kerr.ErrorForCode(e.ErrorCode), *was, *p)
			}
			if e.ErrorCode == 0 && (p.Leader < 0 || req.ElectionType == askPreferred && p.Leader != p.Replicas[0]) {
				r.Fatalf("elected, and %+v", *p)
			}
		}
	}
}

func (m *machine) configure(r *rapid.T) {
	t, _, _ := m.one(r)
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	x := kmsg.NewIncrementalAlterConfigsRequestResource()
	x.ResourceType, x.ResourceName = kmsg.ConfigResourceTypeTopic, t.Name
	if rapid.Bool().Draw(r, "whole cluster") {
		x.ResourceType, x.ResourceName = kmsg.ConfigResourceTypeBroker, ""
	}
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name = rapid.SampledFrom([]string{minISRName, uncleanElectionName}).Draw(r, "name")
	value := rapid.SampledFrom([]string{"1", "2", "3"}).Draw(r, "value")
	if c.Name == uncleanElectionName {
		value = rapid.SampledFrom([]string{"false", "true"}).Draw(r, "value")
	}
	if rapid.IntRange(0, 3).Draw(r, "remove") == 0 {
		c.Op = kmsg.IncrementalAlterConfigOpDelete
	} else {
		c.Value = &value
	}
	x.Configs = append(x.Configs, c)
	req.Resources = append(req.Resources, x)
	m.ask(r, req)
}

// features turns ELR on and off.
func (m *machine) features(r *rapid.T) {
	req := kmsg.NewPtrUpdateFeaturesRequest()
	req.Version = 2
	u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	u.Feature, u.MaxVersionLevel, u.UpgradeType = meta.ELRVersionFeature, 1, upgrade
	if m.state.elrEnabled() {
		if rapid.IntRange(0, 9).Draw(r, "off") > 0 { // it is on most of the time
			return
		}
		u.MaxVersionLevel, u.UpgradeType = 0, safeDowngrade
	}
	req.FeatureUpdates = append(req.FeatureUpdates, u)
	if resp := m.ask(r, req).(*kmsg.UpdateFeaturesResponse); resp.ErrorCode != 0 {
		r.Fatalf("level %d: %s", u.MaxVersionLevel, *resp.ErrorMessage)
	}
}

func (m *machine) topics(r *rapid.T) {
	topics := slices.Collect(m.state.image.Topics())
	if len(topics) < 4 && rapid.Bool().Draw(r, "create") {
		m.create(r)
		return
	}
	if len(topics) == 1 {
		return
	}
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version = 6
	x := kmsg.NewDeleteTopicsRequestTopic()
	x.TopicID = rapid.SampledFrom(topics).Draw(r, "topic").ID
	req.Topics = append(req.Topics, x)
	m.ask(r, req)
}

func (m *machine) create(r *rapid.T) {
	name := fmt.Sprintf("t%d", rapid.IntRange(0, 3).Draw(r, "name"))
	m.ask(r, createRequest(name, rapid.Int32Range(1, 2).Draw(r, "partitions"), rapid.Int16Range(1, 3).Draw(r, "factor")))
}

// heal brings everyone back and, in some partitions, all into the ISR: what comes next finds
// a cluster with something to lose.
func (m *machine) heal(r *rapid.T) {
	m.t = r
	for id := int32(1); id <= brokers; id++ {
		if !m.nodes[id].running {
			m.startBroker(r, id)
		}
		if m.nodes[id].running && m.registered(id) {
			m.heartbeat(id, nil)
		}
	}
	for t := range m.state.image.Topics() {
		for id := range t.Partitions {
			if rapid.IntRange(0, 3).Draw(r, "settles") > 0 {
				m.settlePartition(t, int32(id))
			}
		}
	}
}

// unregister forgets a broker that is away.
func (m *machine) unregister(r *rapid.T) {
	id := m.broker(r)
	if rapid.IntRange(0, 3).Draw(r, "really") > 0 {
		return
	}
	if b := m.state.image.Broker(id); b == nil || !b.Fenced || m.nodes[id].running {
		return
	}
	req := kmsg.NewPtrUnregisterBrokerRequest()
	req.BrokerID = id
	m.ask(r, req)
	m.nodes[id].lossy = true // it is to be taken for new when it comes back
}

// finish brings everyone back: everything must be led, move to its end and be in sync, and
// the image must be what its log and its snapshot give.
func (m *machine) finish() {
	m.t = m.r
	for id := int32(1); id <= brokers; id++ {
		n := m.nodes[id]
		n.running, n.broken = false, nil
		m.now += clock.Instant(10 * time.Second)
		m.boot(id, -1)
		m.heartbeat(id, nil)
	}
	for range 3 { // an election may have to wait for a directory, an ISR for its leader
		for t := range m.state.image.Topics() {
			for id := range t.Partitions {
				m.settlePartition(t, int32(id))
			}
		}
	}
	for t := range m.state.image.Topics() {
		for id, p := range t.Partitions {
			if p.Leader < 0 && len(p.ISR)+len(p.ELR)+len(p.LastKnownELR) > 0 || p.Leader >= 0 && (reassigning(p) || len(p.ISR) < len(p.Replicas) || len(p.ELR) > 0) {
				m.r.Fatalf("%s-%d does not come to rest: %+v", t.Name, id, *p)
			}
		}
	}
	m.checkReplays()
}

// settlePartition gives a partition directories, and has its leader take all into the ISR.
func (m *machine) settlePartition(t *meta.Topic, id int32) {
	k := partitionKey{t.ID, id}
	for _, b := range m.state.image.Partition(k.topic, id).Replicas {
		p := m.state.image.Partition(k.topic, id)
		if !m.nodes[b].running || !m.registered(b) {
			continue
		}
		if dir, _ := p.Dir(b); !slices.Contains(m.nodes[b].dirs, dir) {
			req := kmsg.NewPtrAssignReplicasToDirsRequest()
			req.BrokerID, req.BrokerEpoch = b, m.state.image.Broker(b).Epoch
			req.Directories = []kmsg.AssignReplicasToDirsRequestDirectory{{ID: m.nodes[b].dirs[0], Topics: []kmsg.AssignReplicasToDirsRequestDirectoryTopic{
				{TopicID: t.ID, Partitions: []kmsg.AssignReplicasToDirsRequestDirectoryTopicPartition{{Partition: id}}}}}}
			m.ask(m.r, req)
		}
	}
	p := m.state.image.Partition(k.topic, id)
	if p.Leader < 0 || !m.serves(p, p.Leader) {
		return
	}
	req := kmsg.NewPtrAlterPartitionRequest()
	req.Version, req.BrokerID, req.BrokerEpoch = 2, p.Leader, m.state.image.Broker(p.Leader).Epoch
	a := kmsg.NewAlterPartitionRequestTopicPartition()
	a.Partition, a.LeaderEpoch, a.PartitionEpoch = id, p.LeaderEpoch, p.PartitionEpoch
	for _, b := range p.Replicas {
		m.fetch(k, p, b)
		if m.serves(p, b) && m.state.active(b) {
			a.NewISR = append(a.NewISR, b)
		}
	}
	req.Topics = []kmsg.AlterPartitionRequestTopic{{TopicID: t.ID, Partitions: []kmsg.AlterPartitionRequestTopicPartition{a}}}
	m.ask(m.r, req)
}

// checkReplays is I31: one log, one image, with or without a snapshot on the way.
func (m *machine) checkReplays() {
	img := m.state.image
	fromLog, _, err := meta.Empty().Apply(m.log, img.Offset, 1)
	if err != nil || !fromLog.Equal(img) {
		m.t.Fatalf("the log gives another image: %v", err)
	}
	fromSnapshot, _, err := meta.Empty().Apply(slices.Collect(img.Records()), img.Offset, 1)
	if err != nil || !fromSnapshot.Equal(img) {
		m.t.Fatalf("the snapshot gives another image: %v", err)
	}
}

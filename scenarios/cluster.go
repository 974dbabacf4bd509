package scenarios

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"seedlog/checker/cluster"
	"seedlog/node/config"
	"seedlog/node/meta"
	"seedlog/node/quorum"
	"seedlog/node/raft"
	"seedlog/scenarios/client"
	"seedlog/sim/sched"
	"seedlog/sim/simdisk"
	"seedlog/storage/record"
)

// Cluster is the name of the scenario that draws clusters.
const Cluster = "cluster"

// ClusterOfOne is the name of the scenario that draws clusters of one node.
const ClusterOfOne = "cluster-of-one"

// ClusterOfThree is the name of the scenario that draws clusters of three nodes.
const ClusterOfThree = "cluster-of-three"

// clusterRun is what a run with several nodes has beside the servers.
type clusterRun struct {
	r     *Run
	ghost *ghost
	marks *marks
	// dynamic: the voters can change (kraft.version 1).
	dynamic bool
	voting  voting
	// features are those whose levels the run may change.
	features []client.Feature
	// mixed: some nodes are older builds, and that changes while the cluster works.
	mixed bool
	elr   int16
	// begins is the metadata.version that the cluster begins with.
	begins int16
	// strict: no fault exceeds the fault budget, so that nothing that is committed may be lost.
	strict bool
	text   string
	// onLeader, if it is set, hears who leads the quorum, right as it begins.
	onLeader func(s *server, n raft.Note)
	// onRaised hears who has a raised kraft.version in its log, as it has.
	onRaised func(s *server)
}

// voting is what becomes of dynamic voters in a run. That of a quorum that changes at will and
// that of voters whose disks go exclude each other: whatever comes late, a majority of the
// voters keeps its disks.
type voting int

const (
	fixedVoters    voting = iota
	changingVoters        // any voter may be removed, any other node added
	replacedVoters        // a voter's disk may be replaced; its new directory takes its place
)

func (v voting) String() string {
	return [...]string{"fixed-voters", "changing-voters", "replaced-voters"}[v]
}

// shape is what a cluster is made of.
type shape struct {
	nodes, voters int
	racks         int
	dynamic       bool
	voting        voting
	features      []client.Feature
	// builds are those of the nodes, if not all are the newest.
	builds []build
	elr    int16
	strict bool
	skew   func() sched.ClockParams
}

// routes is what a new client begins with.
func (c *clusterRun) routes() *client.Routes {
	var out client.Routes
	for _, s := range c.r.servers {
		out.Bootstrap = append(out.Bootstrap, s.Addr())
	}
	return &out
}

// startCluster adds the machines, formats them and starts the nodes.
func (r *Run) startCluster(sh shape) bool {
	c := &clusterRun{r: r, marks: newMarks(), dynamic: sh.dynamic, voting: sh.voting, features: sh.features, mixed: len(sh.builds) > 0, begins: sh.begins(), elr: sh.elr, strict: sh.strict}
	r.cluster = c
	var static []string
	var voters []cluster.Voter
	for i := range sh.nodes {
		cp := sched.ClockParams{}
		if sh.skew != nil {
			cp = sh.skew()
		}
		s := r.addServer(fmt.Sprintf("b%d", i+1), simdisk.Config{}, cp)
		if sh.racks > 0 {
			s.rack = fmt.Sprintf("rack%d", i%sh.racks)
			s.props["broker.rack"] = s.rack
		}
		if c.mixed {
			s.install(sh.builds[i])
		}
		if s.voter = i < sh.voters; s.voter {
			static = append(static, fmt.Sprintf("%d@%s:9093", s.id, s.Name))
			v := cluster.Voter{ID: s.id}
			if c.dynamic {
				v.Directory = directoryID(s.id)
			}
			voters = append(voters, v)
		}
	}
	r.Broker, r.guard = r.servers[0].Machine, r.servers[0].guard
	for _, s := range r.servers {
		s.props["controller.listener.names"] = "CONTROLLER"
		s.props["listeners"] = fmt.Sprintf("PLAINTEXT://%s:9092", s.Name)
		s.props["process.roles"] = "broker"
		if s.voter || c.dynamic {
			s.props["process.roles"] = "broker,controller"
			s.props["listeners"] += fmt.Sprintf(",CONTROLLER://%s:9093", s.Name)
		}
		if c.dynamic {
			var boot []string
			for _, v := range voters {
				boot = append(boot, r.servers[v.ID-1].Name+":9093")
			}
			s.props["controller.quorum.bootstrap.servers"] = strings.Join(boot, ",")
		} else {
			s.props["controller.quorum.voters"] = strings.Join(static, ",")
		}
		s.props["offsets.topic.replication.factor"] = strconv.Itoa(min(3, sh.nodes))
	}
	c.ghost = newGhost(r, voters)
	for _, s := range r.servers {
		if n, err := strconv.Atoi(s.settings()["min.insync.replicas"]); err == nil {
			c.ghost.quorum.State.DefaultMinISR = n
		}
		c.ghost.quorum.State.DefaultUnclean = s.settings()["unclean.leader.election.enable"] == "true"
		if !c.format(s) {
			return false
		}
	}
	c.text = fmt.Sprintf("nodes=%d voters=%d racks=%d dynamic=%v %v elr=%d features=%v strict=%v",
		sh.nodes, sh.voters, sh.racks, sh.dynamic, sh.voting, sh.elr, len(sh.features) > 0, sh.strict)
	if c.mixed {
		c.text += fmt.Sprintf(" builds=%v", sh.builds)
	}
	if !r.Boot() {
		return false
	}
	c.ghost.watch()
	return true
}

// clusterID is the same for all, as it must be.
const clusterID = "AAAAAAAAQACAAAAAAAAAAA"

// format formats a server's directories before the first start.
func (c *clusterRun) format(s *server) bool {
	spec, err := c.formatSpec(s)
	if err == nil {
		err = s.Format(spec)
	}
	if err != nil {
		c.r.Failf("scenario", s.Name, "format: %v", err)
	}
	return err == nil
}

// formatSpec says how; a wiped node of dynamic voters begins without a vote.
func (c *clusterRun) formatSpec(s *server) (quorum.FormatSpec, error) {
	cfg, _, err := config.Parse(s.settings())
	if err != nil {
		return quorum.FormatSpec{}, err
	}
	s.guard.LogDirs = cfg.LogDirs
	spec := quorum.FormatSpec{LogDirs: cfg.LogDirs, MetadataLogDir: cfg.MetadataLogDir, NodeID: s.id, ClusterID: clusterID, Voters: quorum.NoVoters}
	if c.dynamic && s.voter && s.Boots == 0 {
		spec.Voters = quorum.InitialVoters
		for _, v := range c.r.servers {
			if v.voter {
				spec.Initial = append(spec.Initial, record.Voter{ID: v.id, DirectoryID: directoryID(v.id), MaxKRaftVersion: meta.KRaftVersion,
					Endpoints: []record.VoterEndpoint{{Name: "CONTROLLER", Host: v.Name, Port: 9093}}})
			}
		}
	}
	spec.Records, err = meta.InitialRecords("", []meta.FeatureLevel{{Name: meta.MetadataVersionFeature, Level: c.begins}, {Name: meta.ELRVersionFeature, Level: c.elr}}, c.dynamic)
	return spec, err
}

// directoryID is that of an initial voter's metadata directory.
func directoryID(id int32) (out meta.UUID) {
	out[6], out[8], out[14], out[15] = 0x40, 0x80, byte(id), 0xd1
	return out
}

// directory is the id that one of the machine's log directories has now.
func (s *server) directory(dir string) (id cluster.ID, ok bool) {
	b, _ := s.Disk.ReadFile(dir + "/meta.properties")
	for line := range strings.Lines(string(b)) {
		if text, found := strings.CutPrefix(strings.TrimSpace(line), "directory.id="); found {
			n, err := base64.RawURLEncoding.Decode(id[:], []byte(text))
			return id, err == nil && n == len(id)
		}
	}
	return id, false
}

// clusterSwarm draws a cluster and everything else from the seed.
func clusterSwarm(r *Run) {
	rng := r.Rand("cluster")
	sh := drawShape(rng)
	sh.mix(r.Rand("builds"))
	r.swarmOf(rng, sh)
}

// clusterOfOne is the swarm of a cluster that has one node: a quorum of one on the same path.
func clusterOfOne(r *Run) {
	rng := r.Rand("cluster")
	sh := drawShape(rng)
	sh.nodes, sh.voters, sh.strict = 1, 1, false
	r.swarmOf(rng, sh)
}

// clusterOfThree is the swarm of three nodes, all of them voters: what a campaign's speed is
// measured with.
func clusterOfThree(r *Run) {
	rng := r.Rand("cluster")
	sh := drawShape(rng)
	sh.nodes, sh.voters = 3, 3
	r.swarmOf(rng, sh)
}

func (r *Run) swarmOf(rng *rand.Rand, sh shape) {
	r.prompt = false
	r.drawKnobs(rng)
	r.drawClusterKnobs(rng, sh)
	if !r.startCluster(sh) {
		return
	}
	if !r.createClusterTopics(rng, sh) {
		r.complain()
		return
	}
	w := DrawClusterWorkload(rng, r)
	p := newPlan(r, rng)
	r.draw = fmt.Sprintf("%s; %s; %s; %s; %s; %s", r.draw, r.cluster.text, r.knobText(), strings.Join(r.topicText, ", "), w, p)

	r.World.Phase("safety")
	p.start()
	w.Start()
	r.World.Run(func() bool { return r.Rec.Ops() >= r.Ops || w.Done() || r.over() }, 3*time.Minute)
	r.settleCluster(w)
}

func drawShape(rng *rand.Rand) shape {
	nodes := []int{3, 3, 3, 3, 4, 5, 5, 7}[rng.IntN(8)]
	voters := 3
	if nodes >= 5 && rng.IntN(2) == 0 {
		voters = 5
	}
	sh := shape{nodes: nodes, voters: voters, dynamic: rng.IntN(3) == 0, elr: int16(rng.IntN(2)), strict: rng.IntN(2) == 0}
	if rng.IntN(3) > 0 {
		sh.racks = 2 + rng.IntN(2)
	}
	if v := voting(rng.IntN(4) % 3); sh.dynamic {
		sh.voting = v
	}
	if rng.IntN(2) == 0 {
		sh.features = changeable(sh.strict)
	}
	sh.skew = func() sched.ClockParams {
		return sched.ClockParams{SkewMs: rng.Int64N(2000) - 1000, DriftPPM: rng.Int64N(400) - 200}
	}
	return sh
}

// drawClusterKnobs draws what only matters between nodes.
func (r *Run) drawClusterKnobs(rng *rand.Rand, sh shape) {
	set := func(odds int, name string, lo, hi int64) {
		v := drawn(rng, lo, hi)
		if rng.IntN(odds) == 0 && known(name) {
			r.Set(name, strconv.FormatInt(v, 10))
		}
	}
	delete(r.props, "connections.max.idle.ms")
	heartbeat := drawn[int64](rng, 100, 1000)
	r.Set("broker.heartbeat.interval.ms", strconv.FormatInt(heartbeat, 10))
	r.Set("broker.session.timeout.ms", strconv.FormatInt(heartbeat*(3+rng.Int64N(6)), 10))
	set(1, "replica.lag.time.max.ms", 500, 10_000)
	set(1, "replica.fetch.wait.max.ms", 50, 500)
	set(2, "replica.fetch.backoff.ms", 10, 500)
	set(2, "replica.fetch.min.bytes", 1, 1)
	set(2, "replica.fetch.max.bytes", 100, 1<<20)
	set(2, "replica.fetch.response.max.bytes", 1000, 10<<20)
	set(2, "num.replica.fetchers", 1, 3)
	set(1, "controller.quorum.election.timeout.ms", 100, 1000)
	set(1, "controller.quorum.fetch.timeout.ms", 300, 2000)
	set(2, "controller.quorum.election.backoff.max.ms", 20, 1000)
	set(2, "controller.quorum.append.linger.ms", 1, 25)
	set(2, "controller.quorum.request.timeout.ms", 300, 2000)
	set(3, "leader.imbalance.check.interval.seconds", 1, 20)
	set(2, "unclean.leader.election.interval.ms", 500, 10_000)
	if sh.strict {
		r.Set("min.insync.replicas", "2")
	}
	if rng.IntN(3) == 0 && known("replica.selector.class") {
		r.Set("replica.selector.class", "org.apache.kafka.common.replica.RackAwareReplicaSelector")
	}
}

// known reports whether the broker has a setting of the name.
func known(name string) bool {
	return config.CheckBroker(name, "1") == nil || name == "replica.selector.class"
}

// createClusterTopics makes topics of all replication factors.
func (r *Run) createClusterTopics(rng *rand.Rand, sh shape) bool {
	for i := range 1 + rng.IntN(3) {
		topic := &client.Topic{Name: fmt.Sprintf("t%d", i), Partitions: 1 + rng.Int32N(6), Replication: 3, MinInsync: 1 + rng.IntN(2)}
		if rng.IntN(6) == 0 {
			topic.MinInsync = 3
		}
		if k := rng.IntN(6); k < 2 && !sh.strict {
			topic.Replication = int16(1 + k)
		}
		topic.Replication = min(topic.Replication, int16(sh.nodes))
		topic.MinInsync = min(topic.MinInsync, int(topic.Replication))
		if sh.strict {
			topic.MinInsync = max(topic.MinInsync, 2)
		}
		topic.Unclean = !sh.strict && rng.IntN(5) == 0
		segment := drawn[int64](rng, 1<<10, 64<<10)
		topic.MaxBatchBytes = int(segment)
		var configs [][2]string
		set := func(name string, v int64) { configs = append(configs, [2]string{name, strconv.FormatInt(v, 10)}) }
		set("internal.segment.bytes", segment)
		set("index.interval.bytes", drawn[int64](rng, 64, 4096))
		set("segment.index.bytes", drawn[int64](rng, 256, 1<<20))
		set("min.insync.replicas", int64(topic.MinInsync))
		if rng.IntN(5) == 0 {
			topic.Synced = true
			set("flush.messages", 1)
		} else {
			topic.Synced = r.Rec.OffsetsSynced
		}
		if topic.Unclean {
			configs = append(configs, [2]string{"unclean.leader.election.enable", "true"})
		}
		if rng.IntN(6) == 0 {
			configs = append(configs, [2]string{"message.timestamp.type", "LogAppendTime"})
		}
		text := fmt.Sprintf("%s*%d*%d", topic.Name, topic.Partitions, topic.Replication)
		for _, kv := range configs {
			text += " " + kv[0] + "=" + kv[1]
		}
		set("message.timestamp.after.max.ms", 1<<62)
		r.topicText = append(r.topicText, text)
		if !r.CreateTopic(topic, configs) {
			return false
		}
		for i := range topic.Partitions {
			log := r.Rec.Log(topic.Name, topic.ID, i)
			r.Rec.Replicate(log, topic.Replicated())
		}
	}
	return true
}

// afford reports whether the run's fault budget has room for a loss of the server's unsynced
// data.
func (r *Run) afford(s *server) bool {
	if r.cluster == nil || !r.cluster.strict {
		return true
	}
	r.cluster.ghost.look()
	return r.cluster.ghost.replicas.Affords(s.id)
}

// made is I35 for the metadata log: a topic that a client was told of is durable on a majority
// of the voters.
func (c *clusterRun) made(topic *client.Topic) {
	c.ghost.look()
	if !c.ghost.quorum.Made(topic.ID) {
		c.r.Failf("I35", topic.Name, "was made, and no majority of the voters %v has it durably", c.ghost.quorum.Voters())
	}
}

// controller is the server that leads the quorum, as far as the newest epoch on the disks
// says, or nil.
func (c *clusterRun) controller() *server {
	c.ghost.look()
	id := c.ghost.quorum.Leader()
	i := slices.IndexFunc(c.r.servers, func(s *server) bool { return s.id == id })
	if i < 0 {
		return nil
	}
	return c.r.servers[i]
}

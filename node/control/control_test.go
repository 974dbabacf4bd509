package control_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/node/config"
	"seedlog/node/control"
	"seedlog/node/meta"
	"seedlog/node/quorum"
	"seedlog/node/raft"
	"seedlog/sim/sched"
	"seedlog/sim/simdisk"
	"seedlog/storage"
)

// machine is a simulated machine whose disk outlives its incarnations.
type machine struct {
	tb   testing.TB
	s    *sched.Scheduler
	disk *simdisk.Disk
	// snapshotBytes is metadata.log.max.record.bytes.between.snapshots.
	snapshotBytes int64
	static        bool // its voter is configured
	boots         int
}

func newMachine(tb testing.TB, seed uint64) *machine {
	s := sched.New(seed, sched.DrawConfig(sched.Stream(seed, "config")), nil)
	tb.Cleanup(s.Close)
	return &machine{tb: tb, s: s, disk: simdisk.New(simdisk.Config{Rand: s.Stream}), snapshotBytes: 20 << 20}
}

// node is one incarnation.
type node struct {
	m       *machine
	dir     *storage.Dir
	quorum  *quorum.Host
	control *control.Host
	router  *control.Router
	runErr  error
	deltas  []*meta.Delta
	// stall, if set, is called once by the next decision that draws something.
	stall func()
}

// stalling is what the controller draws from.
type stalling struct {
	*rand.Rand
	n *node
}

func (s stalling) Uint64() uint64 {
	if f := s.n.stall; f != nil {
		s.n.stall = nil
		f()
	}
	return s.Rand.Uint64()
}

// MetadataChanged implements quorum.Listener.
func (n *node) MetadataChanged(_ *task.T, d *meta.Delta) { n.deltas = append(n.deltas, d) }

// boot runs body in an incarnation until it returns, then stops it; or until it is killed.
func (m *machine) boot(body func(t *task.T, n *node)) {
	m.tb.Helper()
	m.boots++
	rt := m.s.NewRuntime("node", sched.ClockParams{})
	d := m.disk.Mount(rt)
	g := task.NewGroup(rt, "node")
	n := &node{m: m}
	main := task.NewGroup(rt, "main")
	main.Go("main", func(t *task.T) {
		n.start(t, g, d)
		body(t, n)
		g.Stop()
		g.Wait(t)
		if err := n.dir.CloseClean(t, -1); err != nil {
			m.tb.Errorf("closing: %v", err)
		}
	})
	m.s.Run(func() bool { return rt.Dead() || rt.Tasks() == 0 }, clock.Never)
	if f := m.s.Failure(); f != nil {
		m.tb.Fatalf("seed %d: %v", m.s.Seed(), f)
	}
	m.disk.Kill()
}

func (n *node) start(t *task.T, g *task.Group, d *simdisk.Mount) {
	rt := t.Runtime().(*sched.Runtime)
	check := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	cfg, _, err := config.Parse(map[string]string{"log.dirs": "/data"})
	check(err)
	found, err := quorum.Load(t, d, 1, []string{"/data"})
	check(err)
	ids := found.IDs
	if len(found.Missing) > 0 {
		spec := quorum.FormatSpec{LogDirs: []string{"/data"}, NodeID: 1, Entropy: rt.Entropy("ids"),
			UnixMilli: t.UnixMilli(), ControllerListener: "CONTROLLER", Host: "localhost", Port: 9093}
		if n.m.static {
			spec.Voters = quorum.NoVoters
		}
		ids, err = quorum.Format(t, d, spec)
		check(err)
	}
	n.dir, err = storage.OpenDir(t, storage.Env{RT: rt, Disk: d, Rand: rt.Rand("storage")}, "/data", storage.DirConfig{})
	check(err)
	log, err := n.dir.Open(t, quorum.ClusterMetadata, quorum.ClusterMetadataID(), 0, storage.Config{})
	check(err)
	qc := quorum.Config{NodeID: 1, Identity: ids["/data"], SnapshotBytes: n.m.snapshotBytes}
	if n.m.static {
		qc.Endpoints = []raft.Endpoint{{Name: "CONTROLLER", Host: "localhost", Port: 9093}}
		qc.StaticVoters = []raft.Voter{{Key: raft.ReplicaKey{ID: 1}, Endpoints: qc.Endpoints}}
	}
	n.quorum, err = quorum.Open(t, quorum.Env{RT: rt, Disk: d}, qc, log, log.Path())
	check(err)
	n.quorum.Subscribe(n)
	n.control = control.New(rt, n.quorum, cfg, rand.New(stalling{rt.Rand("control"), n}))
	n.route(rt)
	g.Go("dir", func(t *task.T) { n.dir.Run(t) })
	g.Go("quorum", func(t *task.T) { n.runErr = n.quorum.Run(t) })
	g.Go("control", func(t *task.T) { _ = n.control.Run(t) })
}

// route makes the router of a node that is alone.
func (n *node) route(rt task.Runtime) {
	n.router = control.NewRouter(control.RouterEnv{RT: rt, Host: n.control, Leader: func() control.Leader {
		id, epoch := n.quorum.Leader()
		return control.Leader{ID: id, Epoch: epoch, Self: n.quorum.Leads()}
	}}, "test")
}

// register registers broker 1 and unfences it.
func (n *node) register(t *task.T) int64 {
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.Version, req.BrokerID, req.ClusterID, req.PreviousBrokerEpoch = 4, 1, n.quorum.ClusterID(), -1
	req.IncarnationID, req.LogDirs = [16]byte{1, byte(n.m.boots)}, [][16]byte{{1: 200}}
	for _, f := range meta.SupportedFeatures() {
		x := kmsg.NewBrokerRegistrationRequestFeature()
		x.Name, x.MinSupportedVersion, x.MaxSupportedVersion = f.Name, f.Min, f.Max
		req.Features = append(req.Features, x)
	}
	resp, offset, err := n.router.Propose(t, req, clock.Never)
	if err != nil || resp.(*kmsg.BrokerRegistrationResponse).ErrorCode != 0 {
		panic(fmt.Sprint("register: ", resp, err))
	}
	epoch := resp.(*kmsg.BrokerRegistrationResponse).BrokerEpoch
	beat := kmsg.NewPtrBrokerHeartbeatRequest()
	beat.BrokerID, beat.BrokerEpoch, beat.CurrentMetadataOffset = 1, epoch, offset
	resp, _, err = n.router.Propose(t, beat, clock.Never)
	if err != nil || resp.(*kmsg.BrokerHeartbeatResponse).IsFenced {
		panic(fmt.Sprint("heartbeat: ", resp, err))
	}
	return epoch
}

// finalize asks for levels of features, and returns the error's code and text.
func (n *node) finalize(t *task.T, dry bool, kind int8, levels map[string]int16) (int16, string) {
	req := kmsg.NewPtrUpdateFeaturesRequest()
	req.Version, req.ValidateOnly = 2, dry
	for _, name := range slices.Sorted(maps.Keys(levels)) {
		u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		u.Feature, u.MaxVersionLevel, u.UpgradeType = name, levels[name], kind
		req.FeatureUpdates = append(req.FeatureUpdates, u)
	}
	resp, _, err := n.router.Propose(t, req, clock.Never)
	if err != nil {
		panic(err)
	}
	r := resp.(*kmsg.UpdateFeaturesResponse)
	if r.ErrorCode == 0 {
		return 0, ""
	}
	return r.ErrorCode, *r.ErrorMessage
}

// create creates a topic and returns its id, once that is committed.
func (n *node) create(t *task.T, name string) (meta.UUID, int64, error) {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = 7
	x := kmsg.NewCreateTopicsRequestTopic()
	x.Topic, x.NumPartitions, x.ReplicationFactor = name, 2, 1
	req.Topics = append(req.Topics, x)
	resp, offset, err := n.router.Propose(t, req, clock.Never)
	if err != nil {
		return meta.UUID{}, 0, err
	}
	r := resp.(*kmsg.CreateTopicsResponse).Topics[0]
	return r.TopicID, offset, kerr.ErrorForCode(r.ErrorCode)
}

func TestALoneNodeComesUpAndComesBack(t *testing.T) {
	m := newMachine(t, 1)
	var id meta.UUID
	var epochs []int32
	var image *meta.Image
	m.boot(func(t *task.T, n *node) {
		n.register(t)
		var offset int64
		var err error
		if id, offset, err = n.create(t, "orders"); err != nil {
			m.tb.Error(err)
		}
		if n.quorum.Image().Offset < offset {
			m.tb.Errorf("answered at %d with the image at %d", offset, n.quorum.Image().Offset)
		}
		n.quorum.WaitPublished(t, offset, clock.Never)
		if len(n.deltas) == 0 || n.deltas[0].From.Offset != -1 || n.deltas[len(n.deltas)-1].To.Topic("orders") == nil {
			m.tb.Errorf("listener saw %d deltas", len(n.deltas))
		}
		_, e := n.quorum.Leader()
		epochs = append(epochs, e)
		image = n.quorum.Image()
	})
	for range 3 {
		m.boot(func(t *task.T, n *node) {
			if _, err := n.quorum.AwaitTerm(t, -1); err != nil {
				m.tb.Fatal(err)
			}
			if got := n.quorum.Image().Topic("orders"); got == nil || got.ID != id {
				m.tb.Error("the topic is gone")
			}
			if !n.quorum.Image().Equal(image) {
				m.tb.Error("a restart changes the image")
			}
			n.register(t)
			if p := n.quorum.Image().Topic("orders").Partition(1); p.Leader != 1 {
				m.tb.Errorf("no leader after the restart: %+v", *p)
			}
			_, e := n.quorum.Leader()
			epochs = append(epochs, e)
			image = n.quorum.Image()
		})
	}
	for i := 1; i < len(epochs); i++ {
		if epochs[i] <= epochs[i-1] {
			t.Errorf("leader epochs %v", epochs)
		}
	}
}

func TestManyProposersShareSyncs(t *testing.T) {
	m := newMachine(t, 2)
	m.boot(func(t *task.T, n *node) {
		n.register(t)
		g := task.NewGroup(t.Runtime(), "clients")
		began := t.Now()
		for i := range 500 {
			g.Go("client", func(t *task.T) {
				if _, _, err := n.create(t, fmt.Sprintf("t%d", i)); err != nil {
					m.tb.Error(err)
				}
			})
		}
		g.Wait(t)
		if got := n.quorum.Image().NumTopics(); got != 500 {
			m.tb.Errorf("%d topics", got)
		}
		// One sync takes about a millisecond of simulated time or more.
		if took := time.Duration(t.Now() - began); took > 5*time.Second {
			m.tb.Errorf("500 topics took %v", took)
		}
		if n := len(n.deltas); n > 400 {
			m.tb.Errorf("%d commits for 500 commands", n)
		}
	})
}

// TestAcknowledgedMetadataSurvivesEveryCrash creates and deletes topics through boots that
// end with a kill or a power loss at a drawn moment, with snapshots every few kilobytes.
// What was answered is there after the next boot; what was not may be.
func TestAcknowledgedMetadataSurvivesEveryCrash(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(20) {
		m := newMachine(t, seed)
		draw := rand.New(rand.NewPCG(seed, 99))
		m.snapshotBytes = 2000 + draw.Int64N(8000)
		want := map[string]meta.UUID{} // acknowledged and not asked to be deleted
		lastEpoch := int32(0)
		for boot := range 5 {
			after := time.Duration(draw.Int64N(int64(250 * time.Millisecond)))
			power := draw.IntN(2) == 0
			m.boot(func(t *task.T, n *node) {
				rt := t.Runtime().(*sched.Runtime)
				t.Go("killer", func(k *task.T) {
					until := k.Now().Add(after)
					for k.Now() < until {
						k.Park(until)
					}
					if power {
						m.disk.PowerLoss()
					}
					rt.Kill()
				})
				if _, err := n.quorum.AwaitTerm(t, -1); err != nil {
					m.tb.Fatalf("seed %d boot %d: %v, %v", seed, boot, err, n.runErr)
				}
				_, epoch := n.quorum.Leader()
				if epoch <= lastEpoch {
					m.tb.Errorf("seed %d: epoch %d after %d", seed, epoch, lastEpoch)
				}
				lastEpoch = epoch
				img := n.quorum.Image()
				for name, id := range want { //order: only errors
					if topic := img.Topic(name); topic == nil || topic.ID != id {
						m.tb.Errorf("seed %d boot %d: acknowledged topic %s is gone", seed, boot, name)
					}
				}
				seen["boots"]++
				n.register(t)
				for i := 0; ; i++ {
					name := fmt.Sprintf("t%d-%d", boot, i)
					id, _, err := n.create(t, name)
					if err != nil {
						m.tb.Errorf("seed %d: %v", seed, err)
						return
					}
					want[name] = id
					seen["created"]++
				}
			})
			for _, f := range m.disk.List("/data/__cluster_metadata-0") {
				if end, _, ok := quorum.ParseSnapshotName(f.Name); ok && end > 0 {
					seen["snapshots"]++
				}
			}
		}
		if t.Failed() {
			return
		}
	}
	for _, k := range []string{"boots", "created", "snapshots"} {
		if seen[k] < 50 {
			t.Errorf("too few %s to mean anything: %v", k, seen)
		}
	}
}

func TestReportsThatWaitForADecisionCount(t *testing.T) {
	m := newMachine(t, 5)
	m.boot(func(t *task.T, n *node) {
		epoch := n.register(t)
		n.stall = func() { m.s.Delay(m.s.Current(), 20*time.Second) } // a session lasts 9
		g := task.NewGroup(t.Runtime(), "broker")
		g.Go("reports", func(t *task.T) {
			for range 8 {
				beat := kmsg.NewPtrBrokerHeartbeatRequest()
				beat.BrokerID, beat.BrokerEpoch, beat.CurrentMetadataOffset = 1, epoch, n.quorum.Image().Offset
				_, _, _ = n.router.Propose(t, beat, t.Now().Add(4*time.Second))
			}
		})
		if _, _, err := n.create(t, "t"); err != nil || n.stall != nil {
			m.tb.Error(err, n.stall != nil)
		}
		g.Wait(t)
		if p := n.quorum.Image().Topic("t").Partition(0); p.Leader != 1 || p.LeaderEpoch != 0 {
			m.tb.Errorf("the broker was fenced, though its report was there: %+v", *p)
		}
	})
}

func TestAFailedMetadataDirectoryEndsTheQuorum(t *testing.T) {
	m := newMachine(t, 3)
	m.boot(func(t *task.T, n *node) {
		n.register(t)
		m.disk.SetReadOnly(true)
		if _, _, err := n.create(t, "t"); err == nil {
			m.tb.Error("acknowledged what cannot be written")
		}
		if _, _, err := n.create(t, "u"); err == nil {
			m.tb.Error("a second try is acknowledged")
		}
		t.Sleep(t.Now().Add(time.Second))
		if n.runErr == nil {
			m.tb.Error("the quorum goes on without its directory")
		}
		m.disk.SetReadOnly(false)
		t.Runtime().(*sched.Runtime).Kill()
	})
}

func TestADirectoryFromAnotherFutureIsRefused(t *testing.T) {
	m := newMachine(t, 4)
	m.boot(func(t *task.T, n *node) {
		term, err := n.quorum.AwaitTerm(t, -1)
		if err != nil {
			m.tb.Fatal(err)
		}
		// The bootstrap records are on their way; append behind them.
		for err := errors.New("first"); err != nil; {
			if n.quorum.HighWatermark() > term.NextOffset {
				term.NextOffset = n.quorum.HighWatermark()
				_, err = n.quorum.Append(t.UnixMilli(), term.Epoch, term.NextOffset, []meta.Record{{Body: &meta.FeatureLevelRecord{Name: meta.ShareVersionFeature, FeatureLevel: 1}}})
			}
			t.Sleep(t.Now().Add(time.Millisecond))
		}
		// A node that hears of it while it runs ends by it, too.
		if err := n.quorum.WaitCommitted(t, term.Epoch, term.NextOffset, clock.Never); err == nil || !contains(err.Error(), "share.version") {
			m.tb.Error(err)
		}
	})
	m.boot(func(t *task.T, n *node) {
		if _, err := n.quorum.AwaitTerm(t, -1); err == nil {
			m.tb.Error("a share.version that is not served is accepted")
		} else if want := "share.version is finalized at level 1"; !contains(err.Error(), want) {
			m.tb.Errorf("%v", err)
		}
	})
}

func contains(s, sub string) bool {
	for i := range len(s) - len(sub) + 1 {
		if s[i:i+len(sub)] == sub {
			return true
		}
	}
	return false
}

// A node whose voter is configured has it in its log once kraft.version is raised, together with
// what else is asked for; a dry run writes nothing, and nothing takes it back.
func TestKRaftVersionIsRaised(t *testing.T) {
	const kraft, mv = meta.KRaftVersionFeature, meta.MetadataVersionFeature
	m := newMachine(t, 7)
	m.static, m.snapshotBytes = true, 1000
	level := func(n *node, when string, kraft, mv int16) {
		if a, b := n.quorum.KRaftVersion(), n.quorum.Image().Feature("metadata.version"); a != kraft || b != mv {
			m.tb.Errorf("%s: kraft.version %d, metadata.version %d", when, a, b)
		}
	}
	m.boot(func(t *task.T, n *node) {
		n.register(t)
		level(n, "at first", 0, 25)
		before := n.quorum.HighWatermark()
		if code, why := n.finalize(t, true, 1, map[string]int16{kraft: 1, mv: 27}); code != 0 || n.quorum.HighWatermark() != before {
			m.tb.Errorf("dry: %d %s, and %d records", code, why, n.quorum.HighWatermark()-before)
		}
		if code, why := n.finalize(t, false, 1, map[string]int16{kraft: 1, mv: 28}); code != kerr.InvalidUpdateVersion.Code || n.quorum.HighWatermark() != before {
			m.tb.Errorf("all or none: %d %s", code, why)
		}
		if code, why := n.finalize(t, false, 1, map[string]int16{kraft: 1, mv: 27}); code != 0 {
			m.tb.Errorf("raising: %d %s", code, why)
		}
		level(n, "raised", 1, 27)
		if got := n.quorum.HighWatermark() - before; got != 3 {
			m.tb.Errorf("%d records, and not the two levels and the voters", got)
		}
		if code, why := n.finalize(t, false, 1, map[string]int16{kraft: 1}); code != 0 || n.quorum.HighWatermark() != before+3 {
			m.tb.Errorf("again: %d %s", code, why)
		}
		if code, why := n.finalize(t, false, 3, map[string]int16{kraft: 0}); code != kerr.InvalidUpdateVersion.Code || !strings.Contains(why, "Can't downgrade") {
			m.tb.Errorf("down: %d %s", code, why)
		}
	})
	for range 2 { // from the log, and from a snapshot
		m.boot(func(t *task.T, n *node) {
			n.register(t)
			level(n, "after a restart", 1, 27)
			if _, _, err := n.create(t, fmt.Sprint("t", m.boots)); err != nil {
				m.tb.Error(err)
			}
		})
	}
}

package quorum_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/net"
	"seedlog/node/conn"
	"seedlog/node/event"
	"seedlog/node/meta"
	"seedlog/node/quorum"
	"seedlog/node/raft"
	"seedlog/sim/sched"
	"seedlog/sim/simdisk"
	"seedlog/sim/simnet"
	"seedlog/storage"
	"seedlog/storage/record"
)

const controllerPort = 9093

// cluster is a simulated quorum: machines whose disks outlive their processes, and what the
// world has seen of them.
type cluster struct {
	testing.TB
	s       *sched.Scheduler
	net     *simnet.Net
	members []*member

	snapshotBytes int64
	segmentBytes  int32
	replayBytes   int32
	static        bool // kraft.version 0

	leaders map[int32]int32       // who led an epoch
	starts  map[int32]int64       // and its first offset
	votes   map[[2]int32]int32    // epoch and voter, and whom it voted for
	images  map[int64]*meta.Image // committed, by offset
	acked   map[string]int64      // values that were acknowledged, and their offsets
	sent    int
	counts  map[string]int // events by name
	onVote  func(voter int32)
	calm    bool // faults are over
}

// member is one machine.
type member struct {
	c        *cluster
	id       int32
	name     string
	disk     *simdisk.Disk
	dir      meta.UUID
	observer bool
	silent   bool // it appends nothing when it leads
	slow     bool // its listener does not go on
	port     int
	cluster  string
	seen     int64 // the offset of the newest image that one of its processes has shown
	level    int16 // the highest kraft.version that one of them has shown
	inc      *incarnation
}

// incarnation is one process.
type incarnation struct {
	m     *member
	rt    *sched.Runtime
	mount *simdisk.Mount
	iface *simnet.Iface
	dir   *storage.Dir
	log   *storage.Log
	host  *quorum.Host
	g     *task.Group
	image *meta.Image
	// deleted are the topics whose deletion its listener was told of.
	deleted []meta.UUID
	term    int32 // the epoch in which it leads, as its writer knows, or -1
	err     error
}

func newCluster(tb testing.TB, seed uint64, n int, cfg sched.Config) *cluster {
	s := sched.New(seed, cfg, nil)
	tb.Cleanup(s.Close)
	c := &cluster{
		TB: tb, s: s, net: simnet.New(s, simnet.Calm()), snapshotBytes: 20 << 20, segmentBytes: 1 << 20,
		leaders: map[int32]int32{}, starts: map[int32]int64{}, votes: map[[2]int32]int32{}, images: map[int64]*meta.Image{}, acked: map[string]int64{}, counts: map[string]int{},
	}
	for range n {
		c.add()
	}
	return c
}

// add adds a machine with an empty disk.
func (c *cluster) add() *member {
	id := int32(len(c.members) + 1)
	m := &member{c: c, id: id, name: fmt.Sprint("m", id), port: controllerPort, cluster: "c", dir: meta.UUID{6: 0x40, 8: 0x80, 15: byte(100 + id)}}
	m.disk = simdisk.New(simdisk.Config{Rand: func(s string) *rand.Rand { return c.s.Stream(m.name + "/" + s) }})
	c.members = append(c.members, m)
	return m
}

// voters are the machines of the initial quorum.
func (c *cluster) voters(n int) (out []record.Voter) {
	for _, m := range c.members[:n] {
		out = append(out, record.Voter{ID: m.id, DirectoryID: m.dir, MaxKRaftVersion: 1,
			Endpoints: []record.VoterEndpoint{{Name: "CONTROLLER", Host: m.name, Port: controllerPort}}})
	}
	return out
}

// format formats a machine for a quorum of the first n; with n 0 it is to find its quorum.
func (c *cluster) format(m *member, n int) {
	c.do(m.name+"/format", func(t *task.T, rt *sched.Runtime) error {
		d := m.disk.Mount(rt)
		spec := quorum.FormatSpec{
			LogDirs: []string{"/data"}, ClusterID: m.cluster, NodeID: m.id, UnixMilli: t.UnixMilli(),
			Entropy: func(b []byte) { copy(b, m.dir[:]) }, Voters: quorum.NoVoters,
		}
		if n > 0 && !c.static {
			spec.Voters, spec.Initial = quorum.InitialVoters, c.voters(n)
		}
		ids, err := quorum.Format(t, d, spec)
		if err == nil && ids["/data"].DirectoryID != m.dir {
			m.dir = ids["/data"].DirectoryID
		}
		d.Kill()
		return err
	})
}

// do runs fn as a task of a process of its own to its end.
func (c *cluster) do(name string, fn func(t *task.T, rt *sched.Runtime) error) {
	c.Helper()
	rt := c.s.NewRuntime(name, sched.ClockParams{})
	done := false
	var err error
	task.NewGroup(rt, name).Go(name, func(t *task.T) {
		err = fn(t, rt)
		done = true
	})
	c.until("end of "+name, time.Hour, func() bool { return done })
	if err != nil {
		c.Fatal(name, err)
	}
}

// until runs the world until what is true.
func (c *cluster) until(what string, within time.Duration, true_ func() bool) {
	c.Helper()
	deadline := c.s.Now().Add(within)
	c.s.Run(func() bool { return true_() || c.s.Now() >= deadline }, deadline)
	if f := c.s.Failure(); f != nil {
		c.Fatalf("seed %d: %v", c.s.Seed(), f)
	}
	if !true_() {
		c.Fatalf("seed %d: waited %v for: %s\n%s", c.s.Seed(), within, what, c.describe())
	}
}

// pass lets time pass.
func (c *cluster) pass(d time.Duration) {
	c.Helper()
	end := c.s.Now().Add(d)
	c.s.At(end, func() {})
	c.until("time", d+time.Second, func() bool { return c.s.Now() >= end })
}

func (c *cluster) describe() string {
	var b bytes.Buffer
	for _, m := range c.members {
		if m.inc == nil || m.inc.host == nil {
			fmt.Fprintf(&b, "  %s: down\n", m.name)
			continue
		}
		id, epoch := m.inc.host.Leader()
		fmt.Fprintf(&b, "  %s: leader %d epoch %d, log [%d, %d), committed %d, err %v\n", m.name, id, epoch,
			m.inc.log.LogStartOffset(), m.inc.log.LogEndOffset(), m.inc.host.HighWatermark(), m.inc.err)
	}
	fmt.Fprintf(&b, "  acknowledged %d, events %v", len(c.acked), c.counts)
	return b.String()
}

// boot starts a process on the machine.
func (m *member) boot() *incarnation {
	c := m.c
	rt := c.s.NewRuntime(m.name, sched.ClockParams{})
	inc := &incarnation{m: m, rt: rt, mount: m.disk.Mount(rt), iface: c.net.Attach(rt), image: meta.Empty(), term: -1}
	inc.g = task.NewGroup(rt, m.name)
	m.inc = inc
	inc.g.Go("boot", func(t *task.T) {
		if err := inc.start(t); err != nil && !rt.Dead() {
			inc.err = err
			c.s.Fail("boot", "%s: %v", m.name, err)
		}
	})
	return inc
}

func (inc *incarnation) start(t *task.T) error {
	m, c := inc.m, inc.m.c
	found, err := quorum.Load(t, inc.mount, m.id, []string{"/data"})
	if err != nil {
		return err
	}
	inc.dir, err = storage.OpenDir(t, storage.Env{RT: inc.rt, Disk: inc.mount, Rand: inc.rt.Rand("storage")}, "/data", storage.DirConfig{})
	if err != nil {
		return err
	}
	inc.log, err = inc.dir.Open(t, quorum.ClusterMetadata, quorum.ClusterMetadataID(), 0, storage.Config{SegmentBytes: c.segmentBytes})
	if err != nil {
		return err
	}
	cfg := quorum.Config{
		NodeID: m.id, Identity: found.IDs["/data"], SnapshotBytes: c.snapshotBytes, ReplayMaxBytes: c.replayBytes, Observer: m.observer, Listener: "CONTROLLER",
		Endpoints: []raft.Endpoint{{Name: "CONTROLLER", Host: m.name, Port: uint16(m.port)}},
	}
	for _, o := range c.members[:min(3, len(c.members))] {
		addr := fmt.Sprintf("%s:%d", o.name, controllerPort)
		cfg.Bootstrap = append(cfg.Bootstrap, addr)
		if c.static {
			cfg.StaticVoters = append(cfg.StaticVoters, raft.Voter{Key: raft.ReplicaKey{ID: o.id},
				Endpoints: []raft.Endpoint{{Name: "CONTROLLER", Host: o.name, Port: controllerPort}}})
		}
	}
	env := quorum.Env{RT: inc.rt, Disk: inc.mount, Net: inc.iface, Rand: inc.rt.Rand("quorum"), Events: inc}
	host, err := quorum.Open(t, env, cfg, inc.log, inc.log.Path())
	if err != nil {
		return err
	}
	host.Subscribe(inc)
	ln, err := inc.iface.Listen(t, fmt.Sprintf("%s:%d", m.name, m.port))
	if err != nil {
		return err
	}
	inc.host = host
	inc.g.Go("dir", func(t *task.T) { inc.dir.Run(t) })
	inc.g.Go("serve", func(t *task.T) { inc.serve(t, ln) })
	inc.g.Go("writer", inc.write)
	inc.g.Go("quorum", func(t *task.T) {
		if err := host.Run(t); err != nil && !inc.rt.Dead() {
			inc.err = err
			if !errors.Is(err, quorum.ErrMisfit) {
				c.s.Fail("quorum", "%s ended: %v", m.name, err)
			}
		}
	})
	return nil
}

func (inc *incarnation) serve(t *task.T, ln net.Listener) {
	conn.Serve(t, conn.Config{Name: "CONTROLLER", Budget: conn.NewBudget(inc.rt, 64<<20)}, ln, inc)
}

// MaxFrame, Supports and Serve make the incarnation a conn.Service.
func (inc *incarnation) MaxFrame(int16, int16) int32 { return 1 << 20 }

// Supports implements conn.Service.
func (inc *incarnation) Supports(key, version int16) (ok, flexible bool) {
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	return true, req.IsFlexible()
}

// Serve implements conn.Service.
func (inc *incarnation) Serve(t *task.T, r *conn.Request, reply *conn.Reply) {
	req := kmsg.RequestForKey(r.Key)
	req.SetVersion(r.Version)
	if err := req.ReadFrom(r.Body); err != nil {
		reply.Close(err.Error())
		return
	}
	resp := inc.answer(t, req)
	resp.SetVersion(r.Version)
	reply.SendBody(resp.AppendTo(nil))
}

func (inc *incarnation) answer(t *task.T, req kmsg.Request) kmsg.Response {
	const listener = "CONTROLLER"
	switch r := req.(type) {
	case *kmsg.VoteRequest:
		return inc.host.Vote(t, r, listener)
	case *kmsg.BeginQuorumEpochRequest:
		return inc.host.BeginQuorumEpoch(t, r, listener)
	case *kmsg.EndQuorumEpochRequest:
		return inc.host.EndQuorumEpoch(t, r, listener)
	case *kmsg.FetchRequest:
		return inc.host.Fetch(t, r, listener)
	case *kmsg.FetchSnapshotRequest:
		return inc.host.FetchSnapshot(t, r, listener)
	case *kmsg.UpdateRaftVoterRequest:
		return inc.host.UpdateVoter(t, r, listener)
	case *kmsg.ApiVersionsRequest:
		resp := kmsg.NewPtrApiVersionsResponse()
		f := kmsg.NewApiVersionsResponseSupportedFeature()
		f.Name, f.MaxVersion = meta.KRaftVersionFeature, 1
		resp.SupportedFeatures = append(resp.SupportedFeatures, f)
		return resp
	}
	panic(fmt.Sprintf("%T", req))
}

// Emit implements event.Sink.
func (inc *incarnation) Emit(e event.Event) {
	if inc.rt.Dead() {
		return
	}
	c := inc.m.c
	c.counts[e.Name()]++
	if testing.Verbose() {
		var f event.Fields
		e.Fields(&f)
		c.Logf("%9.3f %s %s %v", float64(c.s.Now())/1e9, inc.m.name, e.Name(), f.List)
	}
	switch e := e.(type) {
	case quorum.LeaderElected:
		if who, ok := c.leaders[e.Epoch]; ok && who != e.NodeID {
			c.s.Fail("I9", "nodes %d and %d lead epoch %d", who, e.NodeID, e.Epoch)
		}
		c.leaders[e.Epoch], c.starts[e.Epoch] = e.NodeID, e.Offset
	case quorum.Noted:
		c.noteVote(e.Note, e.NodeID)
	case quorum.SnapshotInstalled:
		if e.Err == nil && inc.term >= 0 && inc.leads() {
			c.s.Fail("I35", "%s leads epoch %d and loads a snapshot", inc.m.name, inc.term)
		}
	}
}

// noteVote checks that a node votes for one candidate of an epoch, across its restarts.
func (c *cluster) noteVote(n raft.Note, voter int32) {
	at := [2]int32{n.Epoch, voter}
	before, voted := c.votes[at]
	switch n.Kind {
	case raft.BecameCandidate:
		if voted {
			c.s.Fail("I9", "node %d stands in epoch %d, in which it voted for %d", voter, n.Epoch, before)
		}
		c.votes[at] = voter
	case raft.VoteGranted:
		if voted && before != n.Replica.ID {
			c.s.Fail("I9", "node %d votes for %d in epoch %d, in which it voted for %d", voter, n.Replica.ID, n.Epoch, before)
		}
		c.votes[at] = n.Replica.ID
		if c.onVote != nil {
			c.onVote(voter)
		}
	}
}

func (inc *incarnation) leads() bool {
	id, epoch := inc.host.Leader()
	return id == inc.m.id && epoch == inc.term
}

// MetadataChanged implements quorum.Listener: what one member says is committed, all others
// must say, and each sees every change once.
func (inc *incarnation) MetadataChanged(t *task.T, d *meta.Delta) {
	c := inc.m.c
	for inc.m.slow && t.Sleep(t.Now().Add(10*time.Millisecond)) {
	}
	inc.deleted = append(inc.deleted, d.Deleted...)
	if inc.image.Offset >= 0 && d.From != inc.image || inc.image.Offset < 0 && d.From.Offset >= 0 {
		c.s.Fail("delta", "%s: a delta from %d, and it had seen %d", inc.m.name, d.From.Offset, inc.image.Offset)
	}
	if d.To.Offset < inc.m.seen {
		c.s.Fail("I32", "%s: shows the image of offset %d, and has shown that of %d in a life before", inc.m.name, d.To.Offset, inc.m.seen)
	}
	inc.m.seen = d.To.Offset
	if now := inc.host.KRaftVersion(); now < inc.m.level {
		c.s.Fail("I32", "%s: shows kraft.version %d, and has shown %d", inc.m.name, now, inc.m.level)
	} else {
		inc.m.level = now
	}
	if d.To.Offset < inc.image.Offset {
		c.s.Fail("delta", "%s: back to %d from %d", inc.m.name, d.To.Offset, inc.image.Offset)
	}
	inc.image = d.To
	if other := c.images[d.To.Offset]; other != nil && !other.Equal(d.To) {
		c.s.Fail("I31", "%s has another image at offset %d", inc.m.name, d.To.Offset)
	}
	c.images[d.To.Offset] = d.To
}

// write appends values while the node leads, one after the other.
func (inc *incarnation) write(t *task.T) {
	past := int32(-1)
	for {
		term, err := inc.host.AwaitTerm(t, past)
		if err != nil {
			return
		}
		past, inc.term = term.Epoch, term.Epoch
		inc.lead(t, term)
	}
}

// lead appends until the term ends.
func (inc *incarnation) lead(t *task.T, term quorum.Term) {
	c, next := inc.m.c, term.NextOffset
	if start := c.starts[term.Epoch]; term.Image.Offset < start {
		c.s.Fail("B24", "the term of epoch %d begins with the image of offset %d, and the epoch begins at %d", term.Epoch, term.Image.Offset, start)
	}
	for v, at := range c.acked {
		if got, _ := term.Image.Config(meta.BrokerResource, v).Get("k"); got != v {
			c.s.Fail("B24", "the term of epoch %d begins at %d without %s, acknowledged at %d", term.Epoch, term.NextOffset, v, at)
		}
	}
	for t.Sleep(t.Now().Add(20 * time.Millisecond)) {
		if inc.m.silent {
			if _, err := inc.host.NextOffset(term.Epoch); err != nil {
				return
			}
			continue
		}
		var last int64
		var values []string
		for range 1 + c.sent%3 { // several in one sync
			c.sent++
			value := strconv.Itoa(c.sent)
			rec := meta.Record{Body: &meta.ConfigRecord{ResourceType: meta.BrokerResource, ResourceName: value, Name: "k", Value: &value}}
			var err error
			last, err = inc.host.Append(t.UnixMilli(), term.Epoch, next, []meta.Record{rec})
			if errors.Is(err, quorum.ErrMoved) {
				next, err = inc.host.NextOffset(term.Epoch)
				last = next - 1
			} else {
				values = append(values, value)
				next = last + 1
			}
			if err != nil {
				return
			}
		}
		err := inc.host.WaitCommitted(t, term.Epoch, last, t.Now().Add(20*time.Second))
		if err != nil && !errors.Is(err, quorum.ErrTimeout) {
			return
		}
		for _, v := range values {
			if err == nil {
				c.acked[v] = last
			}
		}
	}
}

// kill ends the process, by power loss or as kill -9 does.
func (m *member) kill(power bool) {
	inc := m.inc
	m.inc = nil
	if inc == nil {
		return
	}
	if power {
		m.disk.PowerLoss()
	} else {
		m.disk.Kill()
	}
	inc.iface.Kill(power)
	inc.rt.Kill()
}

// isolate cuts the machine off from all others; heal connects everybody.
func (c *cluster) isolate(m *member) {
	for _, o := range c.members {
		if o != m {
			c.net.Partition(m.name, o.name)
			c.net.Partition(o.name, m.name)
		}
	}
}

// leader is who leads the newest epoch that anybody leads, and has its term, or nil.
func (c *cluster) leader() *member {
	var best *member
	for _, m := range c.members {
		if m.inc != nil && m.inc.host != nil && m.inc.term >= 0 && m.inc.leads() && (best == nil || m.inc.term > best.inc.term) {
			best = m
		}
	}
	return best
}

// up boots everybody, voters first.
func (c *cluster) up(voters int) {
	for i, m := range c.members {
		n := voters
		if i >= voters {
			n = 0
		}
		c.format(m, n)
	}
	for _, m := range c.members {
		m.boot()
	}
}

// level waits until everybody who is up has all that is committed, and checks that nothing
// acknowledged is lost.
func (c *cluster) level() {
	c.Helper()
	for _, m := range c.members {
		m.silent = true
	}
	c.until("a leader and everybody with all of its log", time.Minute, func() bool {
		l := c.leader()
		if l == nil {
			return false
		}
		end := l.inc.log.LogEndOffset()
		for _, m := range c.members {
			if m.inc != nil && (m.inc.host == nil || m.inc.log.LogEndOffset() != end || m.inc.image.Offset != end-1) {
				return false
			}
		}
		return true
	})
	for _, m := range c.members {
		if m.inc == nil {
			continue
		}
		for v, at := range c.acked {
			if got, _ := m.inc.image.Config(meta.BrokerResource, v).Get("k"); got != v {
				c.Fatalf("seed %d: %s lost %s, acknowledged at %d\n%s", c.s.Seed(), m.name, v, at, c.describe())
			}
		}
	}
	for _, m := range c.members {
		m.silent = false
	}
}

func (c *cluster) reached(names ...string) {
	c.Helper()
	for _, n := range names {
		if c.counts[n] == 0 {
			c.Errorf("nothing said %s: %v", n, c.counts)
		}
	}
}

// moreAcked waits for n values more.
func (c *cluster) moreAcked(n int) {
	c.Helper()
	want := len(c.acked) + n
	c.until("acknowledged values", time.Minute, func() bool { return len(c.acked) >= want })
}

// client asks a member over the network, as an administrator does.
func (c *cluster) ask(m *member, fn func(t *task.T, h *quorum.Host)) {
	c.Helper()
	done := false
	m.inc.g.Go("ask", func(t *task.T) {
		fn(t, m.inc.host)
		done = true
	})
	c.until("an answer", time.Minute, func() bool { return done })
}

// append has the leader append a record and waits until that is committed.
func (c *cluster) append(rec meta.Record) (offset int64) {
	c.Helper()
	l := c.leader()
	c.ask(l, func(t *task.T, h *quorum.Host) {
		next, err := h.NextOffset(l.inc.term)
		if err == nil {
			offset, err = h.Append(t.UnixMilli(), l.inc.term, next, []meta.Record{rec})
		}
		if err == nil {
			err = h.WaitCommitted(t, l.inc.term, offset, t.Now().Add(20*time.Second))
		}
		if err != nil {
			c.s.Fail("append", "%v", err)
		}
	})
	return offset
}

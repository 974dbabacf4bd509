package quorum_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/meta"
	"seedlog/node/quorum"
	"seedlog/sim/sched"
)

func TestThreeHostsElectAndReplicate(t *testing.T) {
	for _, static := range []bool{false, true} {
		c := newCluster(t, 1, 3, sched.Calm())
		c.static = static
		c.up(3)
		c.moreAcked(50)
		c.level()
		if len(c.leaders) != 1 {
			t.Errorf("static %v: leaders %v where nothing happened", static, c.leaders)
		}
	}
}

func TestTheLeaderIsKilledAndComesBack(t *testing.T) {
	c := newCluster(t, 2, 3, sched.Calm())
	c.up(3)
	for range 4 {
		c.moreAcked(10)
		l := c.leader()
		l.kill(true)
		began := c.s.Now()
		c.moreAcked(10)
		if took := c.s.Now().Sub(began); took > 6*time.Second {
			t.Errorf("%v without a leader", took)
		}
		l.boot()
		c.level()
	}
	c.reached("quorum-leader-elected", "quorum-vote-granted", "quorum-follower")
}

// A leader that nobody hears resigns by itself (KAFKA-15489), and what it appended meanwhile
// is cut when it hears of the next one.
func TestAnIsolatedLeaderResignsAndItsTailIsCut(t *testing.T) {
	c := newCluster(t, 3, 3, sched.Calm())
	c.up(3)
	c.moreAcked(10)
	old := c.leader()
	committed, end := old.inc.host.HighWatermark(), old.inc.log.LogEndOffset()
	c.isolate(old)
	c.until("a tail that nobody else has", time.Second, func() bool { return old.inc.log.LogEndOffset() > end })
	c.until("the leader resigns", 4*time.Second, func() bool { return !old.inc.leads() })
	c.until("another leader", 10*time.Second, func() bool { l := c.leader(); return l != nil && l != old })
	c.moreAcked(10)
	c.net.HealAll()
	c.level()
	c.reached("quorum-quorum-lost", "quorum-leader-resigned", "metadata-log-truncated", "quorum-diverged")
	if old.inc.host.HighWatermark() <= committed {
		t.Error("the old leader did not go on")
	}
}

// A leader that stops hands over, without anybody waiting for a timeout.
func TestALeaderThatStopsHandsOver(t *testing.T) {
	c := newCluster(t, 4, 3, sched.Calm())
	c.up(3)
	c.moreAcked(10)
	old := c.leader()
	began := c.s.Now()
	old.inc.g.Go("resign", old.inc.host.Resign)
	c.until("another leader", time.Minute, func() bool { l := c.leader(); return l != nil && l != old })
	if took := c.s.Now().Sub(began); took > 200*time.Millisecond {
		t.Errorf("handing over took %v", took)
	}
	c.moreAcked(10)
	old.inc.g.Stop()
	c.until("the process ends", time.Minute, func() bool { return old.inc.g.Len() == 0 })
	old.kill(false)
	c.moreAcked(10)
	old.boot()
	c.level()
}

// A voter whose log ends below the leader's begins anew from the leader's snapshot, fetched
// in pieces, and its listeners see the difference.
func TestALaggingVoterInstallsASnapshot(t *testing.T) {
	c := newCluster(t, 5, 3, sched.Calm())
	c.snapshotBytes = 4 << 10
	c.up(3)
	c.moreAcked(20)
	lagging := c.members[0]
	if lagging == c.leader() {
		lagging = c.members[1]
	}
	c.isolate(lagging)
	c.until("snapshots beyond the log of the one that is cut off", time.Minute, func() bool {
		l := c.leader()
		return l != nil && l.inc.log.LogStartOffset() > lagging.inc.log.LogEndOffset()
	})
	c.net.HealAll()
	c.level()
	c.until("the snapshot is installed", time.Second, func() bool { return c.counts["metadata-snapshot-installed"] > 0 })
	if lagging.inc.log.LogStartOffset() == 0 {
		t.Error("it has a log from the beginning")
	}
	// The node comes up from what it installed.
	lagging.kill(true)
	c.moreAcked(5)
	lagging.boot()
	c.level()
	// An empty observer begins with the snapshot, too.
	o := c.add()
	o.observer = true
	c.format(o, 0)
	o.boot()
	c.level()
	if o.inc.log.LogStartOffset() == 0 {
		t.Error("the observer began at offset 0")
	}
}

// A deletion that the listener has not seen is not forgotten with the log in whose place a
// leader's snapshot comes: the next process on the machine tells of it.
func TestAnUnseenDeletionOutlivesTheLog(t *testing.T) {
	c := newCluster(t, 6, 3, sched.Calm())
	c.snapshotBytes = 4 << 10
	c.up(3)
	c.moreAcked(5)
	lagging := c.members[0]
	if lagging == c.leader() {
		lagging = c.members[1]
	}
	id := meta.UUID{6: 0x40, 8: 0x80, 15: 9}
	made := c.append(meta.Record{Body: &meta.TopicRecord{Name: "t", TopicID: id}})
	c.until("the topic is seen", time.Minute, func() bool { return lagging.inc.image.Offset >= made })
	lagging.slow = true
	gone := c.append(meta.Record{Body: &meta.RemoveTopicRecord{TopicID: id}})
	c.until("its deletion is replayed", time.Minute, func() bool { return lagging.inc.host.HighWatermark() > gone })
	c.isolate(lagging)
	c.until("snapshots beyond the log of the one that is cut off", time.Minute, func() bool {
		l := c.leader()
		return l != nil && l.inc.log.LogStartOffset() > lagging.inc.log.LogEndOffset()
	})
	c.net.HealAll()
	c.until("the snapshot is installed", time.Minute, func() bool { return lagging.inc.log.LogStartOffset() > gone })
	if len(lagging.inc.deleted) > 0 {
		t.Fatal("the listener saw the deletion")
	}
	lagging.kill(true)
	lagging.slow = false
	lagging.boot()
	c.level()
	if !slices.Contains(lagging.inc.deleted, id) {
		t.Errorf("the listener is told of %v", lagging.inc.deleted)
	}
}

// A node that lost the end of its quorum-state file takes part again: the log knows the epoch.
func TestALostQuorumStateIsNoSecondVote(t *testing.T) {
	c := newCluster(t, 6, 3, sched.Calm())
	c.up(3)
	c.moreAcked(10)
	for _, m := range c.members {
		m.kill(true)
		c.do(m.name+"/lose", func(tk *task.T, rt *sched.Runtime) error {
			d := m.disk.Mount(rt)
			defer d.Kill()
			if err := d.Remove(tk, "/data/__cluster_metadata-0/quorum-state"); err != nil {
				return err
			}
			return d.SyncDir(tk, "/data/__cluster_metadata-0")
		})
		m.boot()
		c.moreAcked(10)
		c.level()
	}
}

func TestVotersAreAddedAndRemoved(t *testing.T) {
	c := newCluster(t, 7, 3, sched.Calm())
	joiner := c.add()
	c.up(3)
	c.moreAcked(10)
	add := func(want int16) {
		t.Helper()
		var code int16
		c.ask(c.leader(), func(tk *task.T, h *quorum.Host) { code = h.AddVoter(tk, adding(joiner)).ErrorCode })
		if code != want {
			t.Errorf("adding: %v", kerr.ErrorForCode(code))
		}
	}
	c.level()
	add(0)
	if got := c.describeQuorum(); len(got.CurrentVoters) != 4 || len(got.Observers) != 0 {
		t.Errorf("%+v", got)
	}
	add(kerr.DuplicateVoter.Code)
	c.moreAcked(10)
	// The leader is removed, too: it commits that without itself, and resigns.
	old := c.leader()
	remove := func(want int16) {
		t.Helper()
		var code int16
		c.ask(c.leader(), func(tk *task.T, h *quorum.Host) { code = h.RemoveVoter(tk, removing(old)).ErrorCode })
		if code != want {
			t.Errorf("removing: %v", kerr.ErrorForCode(code))
		}
	}
	remove(0)
	c.until("another leader", 10*time.Second, func() bool { l := c.leader(); return l != nil && l != old })
	c.moreAcked(10)
	remove(kerr.VoterNotFound.Code)
	if got := c.describeQuorum(); len(got.CurrentVoters) != 3 || len(got.Observers) != 1 || got.Observers[0].ReplicaID != old.id {
		t.Errorf("%+v", got)
	}
	// The four are still level, whoever votes; and a restart changes nothing.
	for _, m := range c.members {
		m.kill(true)
		m.boot()
	}
	c.moreAcked(10)
	c.level()
	c.reached("quorum-voter-added", "quorum-voter-removed", "quorum-removed")
}

// A change of the voters that comes in together with queued records goes behind them.
func TestVotersChangeBehindWhatIsQueued(t *testing.T) {
	c := newCluster(t, 8, 3, sched.Calm())
	c.up(3)
	c.moreAcked(10)
	l := c.leader()
	other := c.members[l.id%3]
	l.silent = true
	c.pass(time.Second)
	var code int16
	var last int64
	c.ask(l, func(tk *task.T, h *quorum.Host) {
		next, err := h.NextOffset(l.inc.term)
		value := "queued"
		rec := meta.Record{Body: &meta.ConfigRecord{ResourceType: meta.BrokerResource, ResourceName: value, Name: "k", Value: &value}}
		if err == nil {
			last, err = h.Append(tk.UnixMilli(), l.inc.term, next, []meta.Record{rec})
		}
		if err != nil {
			t.Error(err)
			return
		}
		code = h.RemoveVoter(tk, removing(other)).ErrorCode
	})
	if q := c.describeQuorum(); code != 0 || len(q.CurrentVoters) != 2 || q.HighWatermark != last+2 {
		t.Errorf("%v, voters %v, committed below %d; the records ended at %d", kerr.ErrorForCode(code), q.CurrentVoters, q.HighWatermark, last)
	}
	l.silent = false
	c.moreAcked(10)
	c.level()
}

func adding(m *member) *kmsg.AddRaftVoterRequest {
	req := kmsg.NewPtrAddRaftVoterRequest()
	req.VoterID, req.VoterDirectoryID, req.TimeoutMillis = m.id, m.dir, 10_000
	e := kmsg.NewAddRaftVoterRequestListener()
	e.Name, e.Host, e.Port = "CONTROLLER", m.name, controllerPort
	req.Listeners = append(req.Listeners, e)
	return req
}

func removing(m *member) *kmsg.RemoveRaftVoterRequest {
	req := kmsg.NewPtrRemoveRaftVoterRequest()
	req.VoterID, req.VoterDirectoryID = m.id, m.dir
	return req
}

func (c *cluster) describeQuorum() (out kmsg.DescribeQuorumResponseTopicPartition) {
	c.Helper()
	c.ask(c.leader(), func(t *task.T, h *quorum.Host) {
		req := kmsg.NewPtrDescribeQuorumRequest()
		topic := kmsg.NewDescribeQuorumRequestTopic()
		topic.Topic = quorum.ClusterMetadata
		topic.Partitions = append(topic.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
		req.Topics = append(req.Topics, topic)
		resp := h.Describe(t, req)
		out = resp.Topics[0].Partitions[0]
	})
	return out
}

// A voter that comes back at another address tells the leader so, and is found there.
func TestAVoterMoves(t *testing.T) {
	c := newCluster(t, 8, 3, sched.Calm())
	c.up(3)
	c.moreAcked(10)
	moved := c.members[0]
	if moved == c.leader() {
		moved = c.members[1]
	}
	moved.kill(false)
	moved.port = controllerPort + 1
	moved.boot()
	c.level()
	c.until("the voters name the new address", time.Minute, func() bool { return c.counts["quorum-voter-updated"] > 0 })
	// Without one of the others it is needed, and has to be asked where it is now.
	for _, m := range c.members {
		if m != moved && m != c.leader() {
			m.kill(false)
			break
		}
	}
	c.moreAcked(10)
}

// Messages of another cluster, for another voter or about another topic are refused.
func TestStrangersAreRefused(t *testing.T) {
	c := newCluster(t, 9, 3, sched.Calm())
	c.up(3)
	c.moreAcked(5)
	first := c.leader()
	first.inc.g.Go("resign", first.inc.host.Resign)
	c.until("another leader", time.Minute, func() bool { l := c.leader(); return l != nil && l != first })
	l := c.leader()
	_, epoch := l.inc.host.Leader()
	vote := func() *kmsg.VoteRequest {
		r := kmsg.NewPtrVoteRequest()
		r.Version, r.VoterID = 2, l.id
		topic := kmsg.NewVoteRequestTopic()
		topic.Topic = quorum.ClusterMetadata
		p := kmsg.NewVoteRequestTopicPartition()
		p.CandidateEpoch, p.CandidateID, p.VoterDirectoryID, p.LastOffset = epoch, l.id%3+1, l.dir, 1
		topic.Partitions = append(topic.Partitions, p)
		r.Topics = append(r.Topics, topic)
		return r
	}
	for _, bad := range []struct {
		name      string
		change    func(r *kmsg.VoteRequest)
		top, part int16
	}{
		{"as it should be", func(r *kmsg.VoteRequest) {}, 0, 0},
		{"another cluster", func(r *kmsg.VoteRequest) { r.ClusterID = kmsg.StringPtr("other") }, kerr.InconsistentClusterID.Code, 0},
		{"another topic", func(r *kmsg.VoteRequest) { r.Topics[0].Topic = "t" }, kerr.InvalidRequest.Code, 0},
		{"no topic", func(r *kmsg.VoteRequest) { r.Topics = nil }, kerr.InvalidRequest.Code, 0},
		{"two partitions", func(r *kmsg.VoteRequest) {
			r.Topics[0].Partitions = append(r.Topics[0].Partitions, r.Topics[0].Partitions...)
		}, kerr.InvalidRequest.Code, 0},
		{"another partition", func(r *kmsg.VoteRequest) { r.Topics[0].Partitions[0].Partition = 1 }, kerr.InvalidRequest.Code, 0},
		{"another voter", func(r *kmsg.VoteRequest) { r.VoterID++ }, 0, kerr.InvalidVoterKey.Code},
		{"another directory", func(r *kmsg.VoteRequest) { r.Topics[0].Partitions[0].VoterDirectoryID[0]++ }, 0, kerr.InvalidVoterKey.Code},
		{"an old epoch", func(r *kmsg.VoteRequest) { r.Topics[0].Partitions[0].CandidateEpoch = epoch - 1 }, 0, kerr.FencedLeaderEpoch.Code},
		{"a negative offset", func(r *kmsg.VoteRequest) { r.Topics[0].Partitions[0].LastOffset = -1 }, 0, kerr.InvalidRequest.Code},
	} {
		c.ask(l, func(tk *task.T, h *quorum.Host) {
			req := vote()
			bad.change(req)
			resp := h.Vote(tk, req, "CONTROLLER")
			part := int16(0)
			if len(resp.Topics) > 0 {
				part = resp.Topics[0].Partitions[0].ErrorCode
			}
			if resp.ErrorCode != bad.top || part != bad.part {
				t.Errorf("%s: %v, %v", bad.name, kerr.ErrorForCode(resp.ErrorCode), kerr.ErrorForCode(part))
			}
		})
	}
	if _, now := l.inc.host.Leader(); now != epoch || c.leader() != l {
		t.Error("a refused message moved the leader")
	}
	// A node of another cluster finds its servers, and ends with one line about it.
	other := c.add()
	other.cluster = "other"
	c.format(other, 0)
	other.boot()
	c.until("the node of another cluster ends", 10*time.Second, func() bool { return other.inc.err != nil })
	if text := other.inc.err.Error(); !strings.Contains(text, "other") || strings.Contains(text, "\n") {
		t.Errorf("it says %q", text)
	}
	if other.inc.image.Offset >= 0 || c.leader() != l {
		t.Error("it takes part")
	}
}

// raise asks a member to raise kraft.version, as its controller does.
func raise(t *testing.T, c *cluster, m *member, dry bool) (code int16, why string, err error) {
	t.Helper()
	c.ask(m, func(tk *task.T, h *quorum.Host) { code, why, err = h.RaiseVersion(tk, m.inc.term, 1, dry) })
	return code, why, err
}

// A quorum with configured voters raises kraft.version while it works. Only its leader does,
// when it knows the directories of all; its voters can be changed then, also the one that a
// configuration file still names.
func TestStaticVotersBecomeDynamic(t *testing.T) {
	c := newCluster(t, 21, 3, sched.Calm())
	c.static, c.snapshotBytes = true, 4<<10
	for _, m := range c.members {
		c.format(m, 3)
	}
	a, b, third := c.members[0], c.members[1], c.members[2]
	a.boot()
	b.boot()
	c.moreAcked(10)
	if code, why, err := raise(t, c, c.leader(), false); err != nil || code != kerr.InvalidUpdateVersion.Code || !strings.Contains(why, "directory id of voter 3 is not known") {
		t.Errorf("without the third: %v %q %v", kerr.ErrorForCode(code), why, err)
	}
	if code := c.change(func(tk *task.T, h *quorum.Host) int16 { return h.RemoveVoter(tk, removing(third)).ErrorCode }); code != kerr.UnsupportedVersion.Code {
		t.Errorf("removing a configured voter: %v", kerr.ErrorForCode(code))
	}
	third.boot()
	c.level()
	l := c.leader()
	l.silent = true
	c.pass(time.Second)
	end := l.inc.log.LogEndOffset()
	if code, why, err := raise(t, c, l, true); code != 0 || err != nil || l.inc.host.KRaftVersion() != 0 {
		t.Errorf("dry: %v %q %v", kerr.ErrorForCode(code), why, err)
	}
	for _, m := range c.members {
		if m != l {
			m.inc.term = l.inc.term
			if _, _, err := raise(t, c, m, false); !errors.Is(err, quorum.ErrNotLeader) {
				t.Errorf("%s, a follower: %v", m.name, err)
			}
			m.inc.term = -1
		}
	}
	if got := l.inc.log.LogEndOffset(); got != end {
		t.Errorf("something was written: %d after %d", got, end)
	}
	l.silent = false
	if code, why, err := raise(t, c, l, false); code != 0 || err != nil {
		t.Fatalf("%v %q %v", kerr.ErrorForCode(code), why, err)
	}
	c.moreAcked(10)
	c.level()
	q := c.describeQuorum()
	if len(q.CurrentVoters) != 3 || len(q.Observers) != 0 {
		t.Errorf("%+v", q)
	}
	for _, v := range q.CurrentVoters {
		if v.ReplicaDirectoryID != c.members[v.ReplicaID-1].dir {
			t.Errorf("voter %d has the directory %x", v.ReplicaID, v.ReplicaDirectoryID)
		}
	}
	fourth := c.add()
	c.format(fourth, 0)
	fourth.boot()
	c.level()
	if code := c.change(func(tk *task.T, h *quorum.Host) int16 { return h.AddVoter(tk, adding(fourth)).ErrorCode }); code != 0 {
		t.Fatalf("adding: %v", kerr.ErrorForCode(code))
	}
	old := c.leader()
	if code := c.change(func(tk *task.T, h *quorum.Host) int16 { return h.RemoveVoter(tk, removing(old)).ErrorCode }); code != 0 {
		t.Fatalf("removing: %v", kerr.ErrorForCode(code))
	}
	c.until("another leader", 10*time.Second, func() bool { l := c.leader(); return l != nil && l != old })
	c.moreAcked(100) // and snapshots
	for _, m := range c.members {
		m.kill(true)
		m.boot()
	}
	c.moreAcked(10)
	c.level()
	if q := c.describeQuorum(); len(q.CurrentVoters) != 3 || len(q.Observers) != 1 || q.Observers[0].ReplicaID != old.id {
		t.Errorf("after a restart: %+v", q)
	}
	c.reached("quorum-version-raised", "quorum-voter-added", "quorum-voter-removed")
}

// change asks the leader, and returns the code of its answer.
func (c *cluster) change(fn func(t *task.T, h *quorum.Host) int16) (code int16) {
	c.Helper()
	c.ask(c.leader(), func(t *task.T, h *quorum.Host) { code = fn(t, h) })
	return code
}

// A leader that is lost with the raised level in nobody's log but its own takes it back: it
// counts the configured voters again, also if it has restarted in between, and the next leader
// can raise the level.
func TestARaisedVersionThatIsCutComesUndone(t *testing.T) {
	for _, restart := range []bool{false, true} {
		c := newCluster(t, 22, 3, sched.Calm())
		c.static = true
		c.up(3)
		c.moreAcked(10)
		c.level()
		old := c.leader()
		c.isolate(old)
		if code, why, err := raise(t, c, old, false); code != 0 || err != nil || old.inc.host.KRaftVersion() != 0 {
			t.Fatalf("%v %q %v, level %d", kerr.ErrorForCode(code), why, err, old.inc.host.KRaftVersion())
		}
		if restart {
			old.kill(true)
			old.boot()
		}
		c.until("another leader", 10*time.Second, func() bool { l := c.leader(); return l != nil && l != old })
		c.moreAcked(10)
		c.net.HealAll()
		c.level()
		c.reached("metadata-log-truncated")
		for _, m := range c.members {
			if got := m.inc.host.KRaftVersion(); got != 0 {
				t.Errorf("%s shows kraft.version %d", m.name, got)
			}
		}
		// With one of the others away it is needed, as the configured voter that it is.
		for _, m := range c.members {
			if m != old {
				m.kill(false)
				c.moreAcked(5)
				m.boot()
				break
			}
		}
		c.level()
		c.raised()
	}
}

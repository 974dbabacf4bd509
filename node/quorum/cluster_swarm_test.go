package quorum_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"seedlog/clock/task"
	"seedlog/sim/sched"
	"seedlog/sim/simnet"
)

// TestNoHistoryOfFaultsSplitsTheQuorum runs quorums through crashes, power losses, partitions,
// half-open connections and pauses, and heals them: all members agree on every committed
// offset, an epoch has one leader, nothing that was acknowledged is lost (I9, I31, I35).
func TestNoHistoryOfFaultsSplitsTheQuorum(t *testing.T) {
	seeds := uint64(50)
	counts := map[string]int{}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			for name, n := range swarm(t, 1000+seed) {
				counts[name] += n
			}
		})
	}
	for _, name := range []string{
		"quorum-quorum-lost", "metadata-log-truncated", "metadata-snapshot-installed", "quorum-voter-added", "quorum-voter-removed",
	} {
		if counts[name] == 0 {
			t.Errorf("%s never happened: %v", name, counts)
		}
	}
}

func swarm(t *testing.T, seed uint64) map[string]int {
	r := sched.Stream(seed, "faults")
	c := newCluster(t, seed, 3+2*r.IntN(2), sched.DrawConfig(r))
	netCfg := simnet.DrawConfig(r)
	netCfg.TailMaxNs = min(netCfg.TailMaxNs, int64(3*time.Second))
	c.net.SetConfig(netCfg)
	c.static = r.IntN(4) == 0
	c.snapshotBytes = []int64{1 << 10, 4 << 10, 64 << 10}[r.IntN(3)]
	c.segmentBytes = []int32{2 << 10, 16 << 10, 1 << 20}[r.IntN(3)]
	c.replayBytes = []int32{0, 1, 1000}[r.IntN(3)]
	c.onVote = func(voter int32) {
		if r.IntN(4) > 0 {
			return
		}
		// Power fails behind the vote, and is back at once: an election within an election.
		m := c.members[voter-1]
		c.s.At(c.s.Now().Add(time.Duration(r.IntN(3))*time.Millisecond), func() {
			if m.inc != nil && !c.calm {
				m.kill(true)
				m.boot()
			}
		})
	}
	voters := len(c.members)
	if r.IntN(3) > 0 {
		c.add().observer = r.IntN(4) == 0 // or one that may be made a voter
	}
	c.up(voters)
	for range 12 {
		c.fault(r, voters)
		c.pass(time.Duration(r.Int64N(int64(4 * time.Second))))
	}
	c.calm = true
	c.net.SetConfig(simnet.Calm())
	c.net.HealAll()
	for _, m := range c.members {
		if m.inc == nil {
			m.boot()
		}
	}
	c.s.SetConfig(sched.Calm())
	c.until("the cluster heals", time.Minute, func() bool { return c.leader() != nil })
	before := len(c.acked)
	c.until("values are acknowledged again", time.Minute, func() bool { return len(c.acked) > before })
	c.level()
	if c.static {
		c.raised()
	}
	return c.counts
}

// raise asks the leader, if there is one, to raise kraft.version, and does not wait.
func (c *cluster) raise() {
	if l := c.leader(); l != nil {
		host, epoch := l.inc.host, l.inc.term
		l.inc.g.Go("raise", func(t *task.T) { host.RaiseVersion(t, epoch, 1, false) })
	}
}

// raised waits until kraft.version can be raised, and everybody shows it, also after a restart.
func (c *cluster) raised() {
	c.Helper()
	shown := func() bool {
		for _, m := range c.members {
			if m.inc == nil || m.inc.host == nil || m.inc.host.KRaftVersion() < 1 {
				return false
			}
		}
		return true
	}
	for tries := 0; !shown(); tries++ {
		if tries > 20 {
			c.Fatalf("seed %d: kraft.version is not raised\n%s", c.s.Seed(), c.describe())
		}
		c.raise()
		c.pass(2 * time.Second)
	}
	for _, m := range c.members {
		m.kill(true)
		m.boot()
	}
	c.until("the level is shown again", time.Minute, shown)
	c.level()
}

// fault does one thing to somebody. A majority of the initial voters keeps its disks whole at
// every moment, so nothing that was committed may be lost.
func (c *cluster) fault(r *rand.Rand, voters int) {
	m := c.members[r.IntN(len(c.members))]
	if r.IntN(3) == 0 {
		if l := c.leader(); l != nil {
			m = l
		}
	}
	switch r.IntN(11) {
	case 0, 1:
		m.kill(false)
	case 2:
		m.kill(true)
	case 3: // everybody loses power
		for _, o := range c.members {
			o.kill(true)
		}
	case 4:
		c.isolate(m)
	case 5: // one way
		o := c.members[r.IntN(len(c.members))]
		if o != m {
			c.net.Partition(m.name, o.name)
		}
	case 6:
		c.net.HealAll()
	case 7:
		c.net.HalfOpenOne()
		c.net.ResetOne()
		c.net.StallOne(time.Duration(r.Int64N(int64(5 * time.Second))))
	default:
		if c.static && r.IntN(2) == 0 {
			c.raise()
			return
		}
		if len(c.members) > voters && !c.members[voters].observer {
			c.changeVoters(c.members[voters], r.IntN(2) == 0)
		}
	}
	for _, o := range c.members {
		if o.inc == nil && r.IntN(2) == 0 {
			o.boot()
		}
	}
}

// changeVoters asks the leader, if there is one, to add or remove a voter, and does not wait
// for the answer.
func (c *cluster) changeVoters(m *member, add bool) {
	l := c.leader()
	if l == nil {
		return
	}
	host := l.inc.host
	if add {
		l.inc.g.Go("add", func(t *task.T) { host.AddVoter(t, adding(m)) })
	} else {
		l.inc.g.Go("remove", func(t *task.T) { host.RemoveVoter(t, removing(m)) })
	}
}

package partition

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"seedlog/clock"
)

// cluster is the metadata of a test: broker epochs are ten times the id.
type cluster map[int32]Standing

func allAlive() cluster {
	c := cluster{}
	for id := int32(1); id <= 5; id++ {
		c[id] = Standing{Known: true, Epoch: int64(id) * 10}
	}
	return c
}

func (c cluster) Standing(id int32) Standing { return c[id] }

func (c cluster) change(id int32, fn func(s *Standing)) {
	s := c[id]
	fn(&s)
	c[id] = s
}

func ids(p Proposal) []int32 {
	var out []int32
	for _, m := range p.ISR {
		out = append(out, m.ID)
	}
	return out
}

// behind is a leader with follower 3 outside the ISR and caught up.
func behind() *Leader {
	l := NewLeader(1, three(1, 2), 0, 0, 0)
	for _, id := range []int32{2, 3} {
		l.FollowerFetched(FollowerFetch{Replica: id, BrokerEpoch: int64(id) * 10, Offset: 8, LeaderEnd: 8})
	}
	l.AdvanceHighWatermark(8, 1, alone)
	return l
}

const lag = 30 * time.Second

// KIP-841 and KIP-903: who is fenced, shutting down, unregistered or another incarnation
// than the one that fetched is not proposed; nor is one whose directory failed.
func TestOnlyEligibleReplicasAreProposed(t *testing.T) {
	for name, change := range map[string]func(*Standing){
		"fenced":        func(s *Standing) { s.Fenced = true },
		"shutting down": func(s *Standing) { s.ShuttingDown = true },
		"disk lost":     func(s *Standing) { s.DirLost = true },
		"unregistered":  func(s *Standing) { s.Known = false },
		"restarted":     func(s *Standing) { s.Epoch++ },
	} {
		c := allAlive()
		c.change(3, change)
		if p, ok := behind().Propose(8, lag, c, 10, 0); ok {
			t.Errorf("%s: proposed %v", name, ids(p))
		}
	}
	p, ok := behind().Propose(8, lag, allAlive(), 10, 0)
	want := []Member{{1, 10}, {2, 20}, {3, 30}}
	if !ok || !slices.Equal(p.ISR, want) || p.LeaderEpoch != 5 || p.PartitionEpoch != 9 {
		t.Errorf("proposed %+v (%t), want %v in epochs 5 and 9", p, ok, want)
	}
}

// A follower that was not registered yet when it fetched may have been an incarnation that lost
// what it had: whoever is registered now has to ask.
func TestAnIncarnationWithoutAnEpochDoesNotJoin(t *testing.T) {
	l := NewLeader(1, three(1, 2), 0, 0, 0)
	l.FollowerFetched(FollowerFetch{Replica: 2, BrokerEpoch: 20, Offset: 8, LeaderEnd: 8})
	l.FollowerFetched(FollowerFetch{Replica: 3, BrokerEpoch: -1, Offset: 8, LeaderEnd: 8})
	if p, ok := l.Propose(8, lag, allAlive(), 10, 0); ok {
		t.Errorf("proposed %v", ids(p))
	}
	l.FollowerFetched(FollowerFetch{Replica: 3, BrokerEpoch: 30, Offset: 8, LeaderEnd: 8})
	if p, ok := l.Propose(8, lag, allAlive(), 10, 0); !ok || !slices.Equal(ids(p), []int32{1, 2, 3}) {
		t.Errorf("registered and caught up, and %v is proposed (%t)", ids(p), ok)
	}
}

// What an earlier incarnation asked for, and what is late or waited, does not tell what the
// present one has.
func TestAnEarlierIncarnationsFetchDoesNotCount(t *testing.T) {
	for _, late := range []int64{20, -1} {
		l := NewLeader(1, three(1, 2), 0, 0, 0)
		l.FollowerFetched(FollowerFetch{Replica: 2, BrokerEpoch: 21, Offset: 5, LeaderEnd: 8})
		if assigned, _ := l.FollowerFetched(FollowerFetch{Replica: 2, BrokerEpoch: late, Offset: 8, LeaderEnd: 8}); !assigned {
			t.Error("it has a replica")
		}
		if hw, _ := l.AdvanceHighWatermark(8, 1, alone); hw != 5 {
			t.Errorf("broker epoch %d after 21: high watermark %d, want 5", late, hw)
		}
	}
}

func TestOneProposalAtATime(t *testing.T) {
	l := behind()
	first, _ := l.Propose(8, lag, allAlive(), 10, 0)
	if _, ok := l.Propose(8, lag, allAlive(), 10, clock.Instant(time.Hour)); ok {
		t.Error("a second proposal was made while the first is on its way")
	}
	if again, ok := l.Pending(); !ok || !slices.Equal(again.ISR, first.ISR) {
		t.Errorf("pending is %v (%t)", ids(again), ok)
	}
}

func TestWhoLagsAndWhoJoinsAreProposedTogether(t *testing.T) {
	l := behind()
	later := clock.Instant(time.Minute)
	l.FollowerFetched(FollowerFetch{Replica: 3, BrokerEpoch: 30, Offset: 9, LeaderEnd: 9, Now: later})
	p, ok := l.Propose(9, lag, allAlive(), 10, later)
	if !ok || !slices.Equal(ids(p), []int32{1, 3}) {
		t.Errorf("proposed %v", ids(p))
	}
	if m := l.MaximalISR(); !slices.Equal(m, []int32{1, 2, 3}) {
		t.Errorf("the maximal ISR is %v: who may still be in it counts", m)
	}
}

// What each answer of the controller does to the proposal and to the high watermark's set.
func TestAnswersOfTheController(t *testing.T) {
	grown := Registration{Leader: 1, LeaderEpoch: 5, PartitionEpoch: 10, ISR: []int32{1, 2, 3}}
	for _, c := range []struct {
		name    string
		code    int16
		now     Registration
		want    Verdict
		pending bool
		maximal []int32
	}{
		{"accepted", 0, grown, Accepted, false, []int32{1, 2, 3}},
		{"found to be so already", 0, Registration{Leader: 1, LeaderEpoch: 5, PartitionEpoch: 9, ISR: []int32{1, 2}}, Accepted, false, []int32{1, 2}},
		{"ineligible", kerr.IneligibleReplica.Code, Registration{}, Refused, false, []int32{1, 2}},
		{"not attempted", kerr.OperationNotAttempted.Code, Registration{}, Refused, false, []int32{1, 2}},
		{"changed by another", kerr.InvalidUpdateVersion.Code, Registration{}, Awaiting, true, []int32{1, 2, 3}},
		{"another leadership", kerr.FencedLeaderEpoch.Code, Registration{}, Awaiting, true, []int32{1, 2, 3}},
		{"another leader", 0, Registration{Leader: 2, LeaderEpoch: 6, PartitionEpoch: 10, ISR: []int32{2}}, Awaiting, true, []int32{1, 2, 3}},
		{"lost leadership by it", kerr.NewLeaderElected.Code, Registration{}, Awaiting, true, []int32{1, 2, 3}},
		{"controller moved", kerr.NotController.Code, Registration{}, Unsettled, true, []int32{1, 2, 3}},
		{"timed out", kerr.RequestTimedOut.Code, Registration{}, Unsettled, true, []int32{1, 2, 3}},
	} {
		l := behind()
		p, _ := l.Propose(8, lag, allAlive(), 10, 0)
		got := l.Answered(p, c.code, c.now, 0)
		_, pending := l.Pending()
		if got != c.want || pending != c.pending || !slices.Equal(l.MaximalISR(), c.maximal) {
			t.Errorf("%s: %v, pending %t, maximal ISR %v; want %v, %t, %v", c.name, got, pending, l.MaximalISR(), c.want, c.pending, c.maximal)
		}
	}
}

// The answer and the metadata that it led to are two messages: the second to come must not
// undo a proposal that was made in between.
func TestLateMetadataDoesNotSettleANewerProposal(t *testing.T) {
	l := behind()
	p, _ := l.Propose(8, lag, allAlive(), 10, 0)
	now := three(1, 2, 3)
	now.PartitionEpoch = 10
	l.Answered(p, 0, now, 0)
	later := clock.Instant(time.Minute)
	if p, ok := l.Propose(9, lag, allAlive(), 10, later); !ok || !slices.Equal(ids(p), []int32{1}) {
		t.Fatalf("proposed %v", ids(p))
	}
	if l.Update(now, later) {
		t.Error("metadata that was known already was taken for news")
	}
	if m := l.MaximalISR(); !slices.Equal(m, []int32{1, 2, 3}) {
		t.Errorf("maximal ISR %v", m)
	}
	if v := l.Answered(p, kerr.IneligibleReplica.Code, Registration{}, later); v != Awaiting {
		t.Errorf("an answer to an older proposal is %v", v)
	}
}

// After the shrink is accepted the high watermark moves with the next look, without any
// fetch (KAFKA-13091).
func TestHighWatermarkMovesWhenTheShrinkIsAccepted(t *testing.T) {
	l := NewLeader(1, three(1, 2), 0, 0, 0)
	l.FollowerFetched(FollowerFetch{Replica: 2, BrokerEpoch: 20, Offset: 3, LeaderEnd: 3})
	later := clock.Instant(time.Minute)
	p, ok := l.Propose(8, lag, allAlive(), 10, later)
	if !ok {
		t.Fatal("nothing proposed")
	}
	if hw, _ := l.AdvanceHighWatermark(8, 1, alone); hw != 3 {
		t.Fatalf("high watermark %d while the shrink is not decided", hw)
	}
	now := three(1)
	now.PartitionEpoch = 10
	if v := l.Answered(p, 0, now, later); v != Accepted {
		t.Fatal(v)
	}
	if hw, moved := l.AdvanceHighWatermark(8, 1, alone); !moved || hw != 8 {
		t.Errorf("high watermark %d", hw)
	}
}

// A leader that was elected uncleanly says that it has recovered.
func TestARecoveringLeaderReportsRecovery(t *testing.T) {
	reg := three(1)
	reg.Recovering = true
	l := NewLeader(1, reg, 0, 0, 0)
	p, ok := l.Propose(0, lag, allAlive(), 10, 0)
	if !ok || !p.Recovered || !slices.Equal(ids(p), []int32{1}) {
		t.Fatalf("proposed %+v (%t)", p, ok)
	}
	now := three(1)
	now.PartitionEpoch = 10
	if v := l.Answered(p, 0, now, 0); v != Accepted || l.Registration().Recovering {
		t.Errorf("%v, recovering %t", v, l.Registration().Recovering)
	}
}

// What a follower fetched in an earlier epoch does not count in this one (KIP-320's first
// try): the high watermark waits for its first fetch.
func TestFetchesOfAnEarlierEpochDoNotCount(t *testing.T) {
	l := behind()
	reg := three(1, 2)
	reg.LeaderEpoch, reg.PartitionEpoch = 7, 12
	l = NewLeader(1, reg, l.HighWatermark(), l.HighWatermark(), 0)
	if hw, moved := l.AdvanceHighWatermark(20, 1, alone); moved {
		t.Errorf("high watermark moved to %d", hw)
	}
}

func TestLowWatermarkIsTheLeastStartOfLivingReplicas(t *testing.T) {
	l := behind()
	c := allAlive()
	if low := l.LowWatermark(5, c); low != 0 {
		t.Errorf("low watermark %d", low)
	}
	start := func(id int32, at int64) bool {
		_, moved := l.FollowerFetched(FollowerFetch{Replica: id, BrokerEpoch: int64(id) * 10, Offset: 8, LogStart: at, LeaderEnd: 8})
		return moved
	}
	if !start(2, 5) || start(2, 5) {
		t.Error("a start that moved, or did not, was told wrongly")
	}
	start(3, 3)
	if low := l.LowWatermark(5, c); low != 3 {
		t.Errorf("low watermark %d, want 3", low)
	}
	c.change(3, func(s *Standing) { s.Fenced = true })
	if low := l.LowWatermark(5, c); low != 5 {
		t.Errorf("with 3 fenced the low watermark is %d, want 5", low)
	}
}

type racks map[int32]string

func (r racks) Rack(id int32) (string, bool) { s, ok := r[id]; return s, ok }

// KIP-392.
func TestConsumersReadFromTheirRack(t *testing.T) {
	reg := Registration{Leader: 1, LeaderEpoch: 5, PartitionEpoch: 9, Replicas: []int32{1, 2, 3, 4}, ISR: []int32{1, 2, 3}}
	l := NewLeader(1, reg, 0, 0, 0)
	for id, end := range map[int32]int64{2: 10, 3: 12, 4: 99} {
		l.FollowerFetched(FollowerFetch{Replica: id, Offset: end, LogStart: 2, LeaderEnd: 99})
	}
	all := racks{1: "a", 2: "b", 3: "b", 4: "b"}
	for _, c := range []struct {
		name   string
		rack   string
		offset int64
		racks  racks
		want   int32
	}{
		{"the most caught up in the rack, not who is outside the ISR", "b", 5, all, 3},
		{"the leader in its own rack", "a", 5, all, 1},
		{"the leader where nobody else is", "c", 5, all, 1},
		{"the leader for a client without a rack", "", 5, all, 1},
		{"who has the offset", "b", 11, all, 3},
		{"nobody has the offset", "b", 13, all, 1},
		{"nobody has it any more", "b", 1, all, 1},
		{"who can be reached", "b", 5, racks{1: "a", 2: "b"}, 2},
	} {
		if got := l.NearestInRack(c.rack, c.offset, c.racks); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// A throttle compares the bytes of the last ten seconds.
func TestThrottleMeasuresTheLastSeconds(t *testing.T) {
	at := func(s int) clock.Instant { return clock.Instant(time.Duration(s) * time.Second) }
	var q Throttle
	q.Add(1000, at(5))
	if q.Exceeded(100, at(5)) || !q.Exceeded(99, at(5)) {
		t.Error("1000 bytes in ten seconds are 100 a second")
	}
	if !q.Exceeded(99, at(15)) || q.Exceeded(99, at(16)) {
		t.Error("they count for ten seconds after")
	}
	for s := range 100 {
		q.Add(200, at(100+s))
	}
	if !q.Exceeded(199, at(199)) || q.Exceeded(220, at(199)) {
		t.Error("200 bytes a second are not 200 a second")
	}
}

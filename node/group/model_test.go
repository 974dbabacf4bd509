package group

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

// model is a naive view of one group from outside: what was written, and what replies said.
//
//	I25  a partition has one owner in a generation
//	I26  a generation that a reply names is written; generations never go back
//	I27  memory is what the log replays to (checked by host after every append)
//	I28  an offset changes only by an accepted commit or a lawful expiry; the stale are refused
type model struct {
	t *rapid.T
	h *host
	// From the log: the newest generation, whether it has an assignment, and its members.
	generation int32
	stable     bool
	members    []string
	// roster is the member set that a generation was made with, static renames aside.
	roster map[int32]int
	// owner is who was told to own a partition in a generation; renamed follows restarts.
	owner   map[string]string
	renamed map[string]string
	offsets map[topicPartition]int64
	commits map[topicPartition]int64 // when, wall clock
	emptyAt int64                    // when the group was last written empty, wall clock
	// What clients remember.
	clients []*client
	syncs   map[Ticket]int32 // the generation that a sync asked for
	joins   map[Ticket]*client
	pending map[Ticket]commitTry
	logged  int
}

type client struct {
	name       string
	instance   *string
	id         string
	generation int32
	leads      bool
	roster     []string
}

type commitTry struct {
	tp     topicPartition
	offset int64
	ok     bool // the model accepts it
}

func newModel(t *rapid.T) *model {
	cfg := DefaultConfig()
	cfg.InitialRebalanceDelayMs = rapid.SampledFrom([]int64{0, 3000}).Draw(t, "initial delay")
	cfg.MaxSize = rapid.SampledFrom([]int32{2, 100}).Draw(t, "max size")
	cfg.OffsetsRetentionMs, cfg.OffsetsRetentionCheckMs = 60000, 10000
	m := &model{t: t, roster: map[int32]int{}, owner: map[string]string{}, renamed: map[string]string{},
		offsets: map[topicPartition]int64{}, commits: map[topicPartition]int64{}, syncs: map[Ticket]int32{},
		joins: map[Ticket]*client{}, pending: map[Ticket]commitTry{}}
	m.h = newHost(t, cfg, rapid.Uint64().Draw(t, "seed"))
	m.h.onReply = m.reply
	for _, name := range []string{"a", "b", "c"} {
		m.clients = append(m.clients, &client{name: name})
	}
	one, two := "one", "two"
	m.clients = append(m.clients, &client{name: "s", instance: &one}, &client{name: "s2", instance: &two}, &client{name: "thief", instance: &one})
	return m
}

// written reads what the last step appended.
func (m *model) written() {
	for ; m.logged < len(m.h.log); m.logged++ {
		r := m.h.log[m.logged]
		ok, gid, err := ParseKey(r.Key)
		switch {
		case err != nil:
			m.t.Fatalf("record %d: %v", m.logged, err)
		case ok != nil && r.Value == nil:
			m.expired(topicPartition{ok.Topic, ok.Partition}, m.h.at[m.logged])
		case gid != nil:
			m.groupRecord(r.Value, m.h.at[m.logged])
		}
	}
}

func (m *model) groupRecord(value []byte, now int64) {
	if value == nil {
		m.generation, m.stable, m.members = 0, false, nil
		m.roster, m.owner = map[int32]int{}, map[string]string{}
		return
	}
	v, err := ParseGroup(value)
	if err != nil {
		m.t.Fatal(err)
	}
	if v.Generation < m.generation {
		m.t.Fatalf("I26: generation %d after %d", v.Generation, m.generation)
	}
	if n, ok := m.roster[v.Generation]; ok && n != len(v.Members) {
		m.t.Fatalf("I26: generation %d was made with %d members and is written with %d", v.Generation, n, len(v.Members))
	}
	m.roster[v.Generation] = len(v.Members)
	old := m.members
	m.members, m.stable = nil, false
	for i, vm := range v.Members {
		m.members = append(m.members, vm.MemberID)
		m.stable = m.stable || len(vm.Assignment) > 0
		if v.Generation == m.generation && i < len(old) && old[i] != vm.MemberID {
			m.renamed[old[i]] = vm.MemberID
		}
	}
	if len(v.Members) == 0 {
		m.emptyAt = now
	}
	m.generation = v.Generation
}

// expired checks that a tombstone is lawful: nobody reads the topic, for long enough.
func (m *model) expired(tp topicPartition, now int64) {
	last, ok := m.commits[tp]
	if !ok {
		m.t.Fatalf("I28: tombstone for %v, which has no offset", tp)
	}
	reads := len(m.members) > 0 && (tp.topic == "t" || !m.stable)
	if reads || now-last < m.h.cfg.OffsetsRetentionMs || len(m.members) == 0 && m.emptyAt > 0 && now-m.emptyAt < m.h.cfg.OffsetsRetentionMs {
		m.t.Fatalf("I28: %v expired at %d, committed at %d, empty since %d, members %v", tp, now, last, m.emptyAt, m.members)
	}
	delete(m.offsets, tp)
	delete(m.commits, tp)
}

// reply checks one against what is written; onReply runs before the log is read for the
// step's own record, so the log is read first.
func (m *model) reply(k Ticket, msg any) {
	m.written()
	switch r := msg.(type) {
	case *kmsg.JoinGroupResponse:
		m.joined(m.joins[k], r)
	case *kmsg.SyncGroupResponse:
		m.synced(m.syncs[k], r)
	case *kmsg.OffsetCommitResponse:
		m.committed(m.pending[k], r.Topics[0].Partitions[0].ErrorCode)
	}
}

func (m *model) joined(c *client, r *kmsg.JoinGroupResponse) {
	switch r.ErrorCode {
	case codeNone:
		if r.Generation > m.generation || !slices.Contains(m.members, r.MemberID) {
			m.t.Fatalf("I26: told generation %d and member %s; written is %d with %v", r.Generation, r.MemberID, m.generation, m.members)
		}
		c.id, c.generation, c.leads, c.roster = r.MemberID, r.Generation, r.LeaderID == r.MemberID && !r.SkipAssignment, nil
		for _, x := range r.Members {
			c.roster = append(c.roster, x.MemberID)
		}
	case codeUnknownMember, codeFencedInstance:
		c.id, c.generation, c.leads = "", -1, false
	default:
		if r.MemberID != "" {
			c.id = r.MemberID
		}
	}
}

func (m *model) synced(generation int32, r *kmsg.SyncGroupResponse) {
	if r.ErrorCode != codeNone || len(r.MemberAssignment) == 0 {
		return
	}
	if generation != m.generation || !m.stable {
		m.t.Fatalf("I26: an assignment of generation %d is told; written is %d, stable %v", generation, m.generation, m.stable)
	}
	member, parts, _ := strings.Cut(string(r.MemberAssignment), ":")
	for _, p := range strings.Split(parts, ",") {
		key := fmt.Sprintf("%d/%s", generation, p)
		if o, ok := m.owner[key]; ok && o != member {
			m.t.Fatalf("I25: %s is owned by %s and by %s in generation %d", p, o, member, generation)
		}
		m.owner[key] = member
	}
}

func (m *model) committed(try commitTry, code int16) {
	if code == refused {
		return
	}
	if (code == codeNone) != try.ok {
		m.t.Fatalf("I28: commit %v: answered %s, the model says %v", try, errName(code), try.ok)
	}
	if code == codeNone {
		m.offsets[try.tp], m.commits[try.tp] = try.offset, m.h.now.UnixMs
	}
}

// refused is the code of an append that the log does not take.
const refused = 10

// step does what a client does; each of them may be stale, and two share an instance.
func (m *model) step() {
	c := rapid.SampledFrom(m.clients).Draw(m.t, "client")
	if rapid.IntRange(0, 30).Draw(m.t, "refuse") == 0 {
		m.h.refuse = refused
	}
	switch rapid.SampledFrom([]string{"join", "join", "join", "sync", "sync", "sync", "heartbeat", "commit", "commit", "fetch", "leave",
		"advance", "advance", "forget", "failover"}).Draw(m.t, "step") {
	case "join":
		m.join(c)
	case "sync":
		m.sync(c)
	case "heartbeat":
		m.heartbeat(c)
	case "commit":
		m.commit(c)
	case "fetch":
		m.h.do(Fetch{Ticket: m.h.ticket("fetch"), Group: "g"})
	case "leave":
		m.leave(c)
	case "advance":
		ms := rapid.SampledFrom([]int64{1, 500, 3000, 9000, 70000}).Draw(m.t, "ms")
		m.h.advance(time.Duration(ms) * time.Millisecond)
	case "forget":
		c.id, c.generation, c.leads = "", -1, false
	case "failover":
		m.h.boot()
	}
	m.h.refuse = 0
	m.written()
	m.checkOffsets()
}

func (m *model) join(c *client) {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.Version = "g", rapid.SampledFrom([]int16{0, 3, 5, 9}).Draw(m.t, "version")
	req.MemberID, req.InstanceID = c.id, c.instance
	req.SessionTimeoutMillis, req.ProtocolType = 10000, "consumer"
	req.RebalanceTimeoutMillis = rapid.SampledFrom([]int32{3000, 20000}).Draw(m.t, "rebalance")
	for _, name := range rapid.SampledFrom([][]string{{"range"}, {"range", "sticky"}, {"sticky", "range"}}).Draw(m.t, "protocols") {
		req.Protocols = append(req.Protocols, kmsg.JoinGroupRequestProtocol{Name: name, Metadata: subscription("t")})
	}
	k := m.h.ticket("join")
	m.joins[k] = c
	m.h.do(Join{k, c.name, "/h", req})
}

// sync hands over an assignment of four partitions if the client was told to lead, and at
// times although it was not.
func (m *model) sync(c *client) {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.Version, req.MemberID, req.Generation, req.InstanceID = "g", 3, c.id, c.generation, c.instance
	req.Generation -= m.stale()
	roster := c.roster
	if !c.leads && rapid.IntRange(0, 5).Draw(m.t, "usurp") == 0 {
		roster = []string{c.id}
	}
	for i, id := range roster {
		var mine []string
		for p := i; p < 4; p += len(roster) {
			mine = append(mine, fmt.Sprintf("p%d", p))
		}
		if len(mine) > 0 {
			req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: id, MemberAssignment: []byte(id + ":" + strings.Join(mine, ","))})
		}
	}
	k := m.h.ticket("sync")
	m.syncs[k] = req.Generation
	m.h.do(Sync{k, req})
}

// stale is how many generations a client is behind what it was told.
func (m *model) stale() int32 { return rapid.SampledFrom([]int32{0, 0, 0, 0, 1}).Draw(m.t, "stale") }

func (m *model) heartbeat(c *client) {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation, req.InstanceID = "g", c.id, c.generation, c.instance
	m.h.do(Heartbeat{m.h.ticket("heartbeat"), req})
}

// commit lets a client commit, or an outsider without a generation.
func (m *model) commit(c *client) {
	tp := topicPartition{rapid.SampledFrom([]string{"t", "u"}).Draw(m.t, "topic"), int32(rapid.IntRange(0, 1).Draw(m.t, "partition"))}
	offset := int64(rapid.IntRange(0, 1000).Draw(m.t, "offset"))
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Version, req.Generation = "g", 8, -1
	if rapid.IntRange(0, 3).Draw(m.t, "outsider") != 0 {
		req.MemberID, req.Generation, req.InstanceID = c.id, c.generation-m.stale(), c.instance
	}
	req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: tp.topic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Partition: tp.partition, Offset: offset, LeaderEpoch: -1}}}}
	k := m.h.ticket("commit")
	m.pending[k] = commitTry{tp, offset, m.mayCommit(req)}
	m.h.do(Commit{k, req})
}

// mayCommit is the law: a member of the written generation whose assignment is written, as
// long as the coordinator has it as a member; or anyone without a generation while the
// group has no members.
func (m *model) mayCommit(req *kmsg.OffsetCommitRequest) bool {
	state, present := m.look(req.MemberID, req.InstanceID)
	if req.Generation < 0 && state == "Empty" {
		return true
	}
	return present && req.Generation >= 0 && req.Generation == m.generation && (state == "Stable" || state == "PreparingRebalance")
}

// look asks the shard who it has, as an administrator would.
func (m *model) look(id string, instance *string) (state string, present bool) {
	state = "Empty"
	k := m.h.ticket("look")
	keep := m.h.onReply
	m.h.onReply = func(_ Ticket, msg any) {
		d := msg.(DescribeReply)
		if !d.Found {
			return
		}
		state = d.Group.State
		for _, x := range d.Group.Members {
			present = present || x.MemberID == id && (instance == nil || str(x.InstanceID) == *instance)
		}
	}
	refuse := m.h.refuse
	m.h.refuse = 0
	m.h.do(Describe{k, "g"})
	m.h.refuse, m.h.onReply = refuse, keep
	return state, present
}

func (m *model) leave(c *client) {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.Version = "g", 3
	req.Members = []kmsg.LeaveGroupRequestMember{{MemberID: c.id, InstanceID: c.instance}}
	m.h.do(Leave{m.h.ticket("leave"), req})
}

// checkOffsets compares every offset with the model's.
func (m *model) checkOffsets() {
	got := map[topicPartition]int64{}
	if g := m.h.shard.groups["g"]; g != nil {
		for tp, o := range g.offsets {
			got[tp] = o.Offset.Offset
		}
	}
	if !maps.Equal(got, m.offsets) {
		m.t.Fatalf("I28: offsets are %v, the model has %v", got, m.offsets)
	}
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		for range rapid.IntRange(40, 150).Draw(t, "steps") {
			m.step()
		}
		// Everybody who waits is answered in the end.
		m.h.finish(m.h.shard.Unloaded(16, m.h.now))
		if len(m.h.open) > 0 {
			t.Fatalf("never answered: %v", m.h.open)
		}
	})
}

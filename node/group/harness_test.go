package group

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock"
	"seedlog/node/event"
)

// host drives a shard as node/coord does, with a log in memory, and checks after every
// append that replaying the log, whole and compacted, gives the live state (I27).
type host struct {
	t       failer
	cfg     Config
	shard   *Shard
	rand    *rand.Rand
	now     Now
	timers  map[TimerKey]clock.Instant
	log     []Record
	at      []int64 // when each record was appended, wall clock
	next    Ticket
	open    map[Ticket]string
	refuse  int16 // the code that the next append fails with
	out     strings.Builder
	aliases []string // member ids in order of appearance, each followed by its alias
	seen    map[string]int
	onReply func(Ticket, any)
	onFx    func(Effects)
}

// failer is what a host needs of a test; rapid's has it too.
type failer interface {
	Fatalf(format string, args ...any)
}

func newHost(t failer, cfg Config, seed uint64) *host {
	h := &host{t: t, cfg: cfg, rand: rand.New(rand.NewPCG(seed, 1)), now: Now{0, 1_700_000_000_000}, seen: map[string]int{}, open: map[Ticket]string{}}
	h.boot()
	return h
}

// boot starts a shard from the log, as after a failure: who waited is forgotten.
func (h *host) boot() {
	h.shard = NewShard(h.cfg, h.rand)
	h.replayInto(h.shard, h.log)
	h.timers = map[TimerKey]clock.Instant{}
	h.open = map[Ticket]string{}
	h.finish(h.shard.Loaded(h.now))
}

func (h *host) replayInto(s *Shard, log []Record) {
	for i, r := range log {
		if err := s.Replay(int64(i), -1, r.Key, r.Value); err != nil {
			h.t.Fatalf("replay of record %d: %v", i, err)
		}
	}
}

func (h *host) ticket(what string) Ticket {
	h.next++
	h.open[h.next] = what
	return h.next
}

func (h *host) do(c Command) {
	fx := h.shard.Handle(c, h.now)
	h.finish(fx)
	if fx.Records == nil {
		return
	}
	if code := h.refuse; code != 0 {
		h.refuse = 0
		h.printf("  append refused: %s\n", errName(code))
		h.finish(h.shard.Refused(code, h.now))
		h.checkReplay()
		return
	}
	base := int64(len(h.log))
	for _, r := range fx.Records {
		h.printf("  append %s\n", describeRecord(r))
	}
	h.log = append(h.log, fx.Records...)
	for range fx.Records {
		h.at = append(h.at, h.now.UnixMs)
	}
	h.finish(h.shard.Appended(base, h.now))
	h.checkReplay()
}

func (h *host) finish(fx Effects) {
	if h.onFx != nil {
		h.onFx(fx)
	}
	for _, e := range fx.Events {
		h.printf("  event  %s\n", eventText(e))
	}
	for _, r := range fx.Replies {
		what, ok := h.open[r.Ticket]
		if !ok {
			h.t.Fatalf("ticket %d is answered twice, or was never given: %T", r.Ticket, r.Msg)
		}
		delete(h.open, r.Ticket)
		if h.onReply != nil {
			h.onReply(r.Ticket, r.Msg)
		}
		h.printf("  reply  %s @%d: %s\n", what, r.Ticket, replyText(r.Msg))
	}
	for _, tm := range fx.Timers {
		if tm.At == clock.Never {
			delete(h.timers, tm.Key)
		} else {
			h.timers[tm.Key] = tm.At
		}
	}
}

// advance moves time on, and fires what comes due in order.
func (h *host) advance(d time.Duration) {
	end := h.now.Mono.Add(d)
	for {
		key, at := h.earliest()
		if at > end {
			break
		}
		delete(h.timers, key)
		if at > h.now.Mono {
			h.setNow(at)
		}
		h.printf("  %8s %s\n", time.Duration(h.now.Mono), timerText(key))
		h.do(Expired{key})
	}
	h.setNow(end)
}

func (h *host) setNow(at clock.Instant) {
	h.now.UnixMs += at.Sub(h.now.Mono).Milliseconds()
	h.now.Mono = at
}

func (h *host) earliest() (TimerKey, clock.Instant) {
	best, at := TimerKey{}, clock.Never
	for k, a := range h.timers {
		if a < at || a == at && at != clock.Never && timerText(k) < timerText(best) {
			best, at = k, a
		}
	}
	return best, at
}

func timerText(k TimerKey) string {
	return fmt.Sprintf("%s timer %s %s", [...]string{"session", "join", "sync", "retention"}[k.Kind], k.Group, k.Member)
}

// checkReplay compares the live hard state with what the log, and what legal compaction
// leaves of it, replays to.
func (h *host) checkReplay() {
	live := h.shard.Dump()
	for _, log := range [][]Record{h.log, compact(h.log, len(h.log)), compact(h.log, len(h.log)/2), h.shuffled(compact(h.log, len(h.log)))} {
		s := NewShard(h.cfg, h.rand)
		h.replayInto(s, log)
		if got := s.Dump(); got != live {
			h.t.Fatalf("replay differs from the live state\nlive:\n%s\nreplayed:\n%s", live, got)
		}
		h.checkGroups(s)
	}
}

// checkGroups compares what the live shard works with, and not only what it has kept.
func (h *host) checkGroups(replayed *Shard) {
	for id, want := range replayed.groups {
		got := h.shard.groups[id]
		if got == nil || got.generation != want.generation {
			h.t.Fatalf("group %s: live %+v, replayed %+v", id, got, want)
			return
		}
		if got.state == PreparingRebalance {
			continue
		}
		if g, w := working(got), working(want); g != w {
			h.t.Fatalf("group %s\nlive:     %s\nreplayed: %s", id, g, w)
		}
	}
}

func working(g *group) string {
	text := fmt.Sprintf("%s type %q protocol %q leader %q static %v subscribed %v", g.state, g.protocolType, str(g.protocol), g.leader, g.static, g.subscribed)
	for _, m := range g.members {
		text += fmt.Sprintf(" %s %q=%q", m.id, m.metadata(str(g.protocol)), m.assignment)
	}
	return text
}

// compact keeps the newest record of each key among the first n, and tombstones only as long
// as the rest may need them.
func compact(log []Record, n int) []Record {
	last := map[string]int{}
	for i, r := range log[:n] {
		last[string(r.Key)] = i
	}
	var out []Record
	for i, r := range log {
		if i >= n || last[string(r.Key)] == i && r.Value != nil {
			out = append(out, r)
		}
	}
	return out
}

func (h *host) shuffled(log []Record) []Record {
	r := rand.New(rand.NewPCG(uint64(len(log)), 7))
	out := slices.Clone(log)
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

func (h *host) printf(format string, args ...any) {
	fmt.Fprintf(&h.out, format, args...)
}

var memberID = regexp.MustCompile(`([A-Za-z0-9_]*)-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)

// readable replaces member ids by name#number.
func (h *host) readable(s string) string {
	for _, m := range memberID.FindAllStringSubmatch(s, -1) {
		if !slices.Contains(h.aliases, m[0]) {
			h.seen[m[1]]++
			h.aliases = append(h.aliases, m[0], fmt.Sprintf("%s#%d", m[1], h.seen[m[1]]))
		}
	}
	return strings.NewReplacer(h.aliases...).Replace(s)
}

// resolve is the member id of an alias.
func (h *host) resolve(alias string) string {
	if i := slices.Index(h.aliases, alias); i > 0 {
		return h.aliases[i-1]
	}
	return alias
}

func errName(code int16) string {
	if code == 0 {
		return "ok"
	}
	return kerr.TypedErrorForCode(code).Message
}

func describeRecord(r Record) string {
	ok, gid, err := ParseKey(r.Key)
	switch {
	case err != nil:
		return err.Error()
	case ok != nil && r.Value == nil:
		return fmt.Sprintf("offset %s %s-%d tombstone", ok.Group, ok.Topic, ok.Partition)
	case ok != nil:
		o, err := ParseOffset(r.Value)
		return fmt.Sprintf("offset %s %s-%d = %d epoch %d %q err=%v", ok.Group, ok.Topic, ok.Partition, o.Offset, o.LeaderEpoch, o.Metadata, err)
	case r.Value == nil:
		return fmt.Sprintf("group %s tombstone", *gid)
	}
	v, err := ParseGroup(r.Value)
	if err != nil {
		return err.Error()
	}
	var ms []string
	for _, m := range v.Members {
		ms = append(ms, fmt.Sprintf("%s=%q", m.MemberID, m.Assignment))
	}
	return fmt.Sprintf("group %s generation %d type %q protocol %q leader %s members [%s]", *gid, v.Generation, v.ProtocolType,
		str(v.Protocol), str(v.Leader), strings.Join(ms, " "))
}

func eventText(e event.Event) string {
	var f event.Fields
	e.Fields(&f)
	parts := []string{e.Name()}
	for _, x := range f.List {
		if x.IsNum {
			parts = append(parts, fmt.Sprintf("%s=%d", x.Key, x.Num))
		} else {
			parts = append(parts, fmt.Sprintf("%s=%q", x.Key, x.Text))
		}
	}
	return strings.Join(parts, " ")
}

func replyText(msg any) string {
	switch m := msg.(type) {
	case *kmsg.JoinGroupResponse:
		if m.ErrorCode != 0 {
			return fmt.Sprintf("%s member=%s", errName(m.ErrorCode), m.MemberID)
		}
		var ms []string
		for _, x := range m.Members {
			ms = append(ms, fmt.Sprintf("%s/%s:%s", x.MemberID, str(x.InstanceID), x.ProtocolMetadata))
		}
		return fmt.Sprintf("ok generation=%d protocol=%s leader=%s member=%s skip=%v members=%v", m.Generation, str(m.Protocol), m.LeaderID, m.MemberID, m.SkipAssignment, ms)
	case *kmsg.SyncGroupResponse:
		return fmt.Sprintf("%s protocol=%s assignment=%q", errName(m.ErrorCode), str(m.Protocol), m.MemberAssignment)
	case *kmsg.HeartbeatResponse:
		return errName(m.ErrorCode)
	case *kmsg.LeaveGroupResponse:
		parts := []string{errName(m.ErrorCode)}
		for _, x := range m.Members {
			parts = append(parts, fmt.Sprintf("%s/%s:%s", x.MemberID, str(x.InstanceID), errName(x.ErrorCode)))
		}
		return strings.Join(parts, " ")
	case *kmsg.OffsetCommitResponse:
		var parts []string
		for _, t := range m.Topics {
			for _, p := range t.Partitions {
				parts = append(parts, fmt.Sprintf("%s-%d:%s", t.Topic, p.Partition, errName(p.ErrorCode)))
			}
		}
		return strings.Join(parts, " ")
	case FetchReply:
		parts := []string{errName(m.Group.ErrorCode)}
		for _, t := range m.Group.Topics {
			for _, p := range t.Partitions {
				parts = append(parts, fmt.Sprintf("%s-%d:%d/%d/%q/%s", t.Topic, p.Partition, p.Offset, p.LeaderEpoch, *p.Metadata, errName(p.ErrorCode)))
			}
		}
		return strings.Join(parts, " ")
	case *kmsg.ListGroupsResponse:
		var parts []string
		for _, g := range m.Groups {
			parts = append(parts, fmt.Sprintf("%s/%s/%s/%s", g.Group, g.ProtocolType, g.GroupState, g.GroupType))
		}
		return strings.Join(parts, " ")
	case DescribeReply:
		parts := []string{fmt.Sprintf("found=%v %s type=%q protocol=%q", m.Found, m.Group.State, m.Group.ProtocolType, m.Group.Protocol)}
		for _, x := range m.Group.Members {
			parts = append(parts, fmt.Sprintf("%s/%s@%s:%q=%q", x.MemberID, str(x.InstanceID), x.ClientHost, x.ProtocolMetadata, x.MemberAssignment))
		}
		return strings.Join(parts, " ")
	}
	return fmt.Sprintf("%T", msg)
}

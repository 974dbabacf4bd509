package raft

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"seedlog/clock"
)

// The transcripts in testdata are stories of node 1: a command a line, its effects indented
// below. UPDATE=1 go test ./node/raft writes them anew.
//
//	boot voters=1,2,3 level=1 state=EPOCH,LEADER,VOTED log=1*3,2*2 snapshot=END,EPOCH
//	start | at MS | tick | append N | sync | resign | failed | installed END,EPOCH voters=1,2 | describe | voters 1,2 at=END
//	vote from=2 epoch=2 end=OFFSET,EPOCH pre=1 | begin from=2 epoch=2 | end from=2 epoch=2 preferred=1,3
//	fetch from=2 epoch=1 at=OFFSET,EPOCH wait=500 | fetchsnapshot from=2 epoch=1 | add 4 | remove 2 | update from=2 epoch=1 host=h | raise 1 epoch=1 dry=1
//	reply SEQ epoch=1 leader=2 code=0 granted=1 records=1*2 hw=5 diverging=EPOCH,END snapshot=END,EPOCH level=1
//	silent SEQ | part epoch=1 leader=2
type story struct {
	core  *Core
	disk  store
	now   clock.Instant
	rnd   *rand.Rand
	event uint64
	fresh []entry // that came with the present reply
	out   strings.Builder
	queue []Event
}

func keyOf(id int32) ReplicaKey { return ReplicaKey{id, [16]byte{byte(id)}} }

// args are the words after the command: key=value, or positional as "".
type args map[string]string

func (a args) ints(key string) (out []int64) {
	for _, s := range strings.Split(a[key], ",") {
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			out = append(out, n)
		}
	}
	return out
}

// get is the i-th number of a key, or def.
func (a args) get(key string, i int, def int64) int64 {
	if n := a.ints(key); i < len(n) {
		return n[i]
	}
	return def
}

func (a args) entries(key string) (out []entry) {
	for _, s := range strings.Split(a[key], ",") {
		var epoch int32
		var n int
		if _, err := fmt.Sscanf(s, "%d*%d", &epoch, &n); err == nil {
			for range n {
				out = append(out, entry{epoch: epoch})
			}
		}
	}
	return out
}

func votersOf(ids []int64, level int64) []Voter {
	var out []Voter
	for _, id := range ids {
		v := Voter{Key: keyOf(int32(id)), Endpoints: []Endpoint{{"C", fmt.Sprint("h", id), 9}}, MaxKRaftVersion: 1}
		if level == 0 {
			v.Key.Directory = [16]byte{}
		}
		out = append(out, v)
	}
	return out
}

func (st *story) boot(a args) error {
	st.disk = store{entries: a.entries("log"), start: a.get("snapshot", 0, 0), state: st.disk.state}
	if st.disk.start > 0 {
		st.disk.snap = &snapshot{id: SnapshotID{st.disk.start, int32(a.get("snapshot", 1, 0))}}
	}
	if s := a.ints("state"); len(s) == 3 {
		st.disk.state = ElectionState{int32(s[0]), int32(s[1]), NoReplica()}
		if s[2] >= 0 {
			st.disk.state.Voted = keyOf(int32(s[2]))
		}
	}
	level := a.get("level", 0, 1)
	cfg := Config{Self: keyOf(1), Endpoints: []Endpoint{{"C", "h1", 9}}, MaxKRaftVersion: 1, CanVote: a["broker"] == "", State: st.disk.state,
		Log: &st.disk, Voters: []VoterSet{{a.get("votersat", 0, 0), votersOf(a.ints("voters"), level)}}, KRaftVersion: int16(level), HighWatermark: st.disk.start}
	if a["moved"] != "" {
		cfg.Endpoints[0].Host = "moved"
	}
	core, err := New(cfg)
	st.core, st.now, st.rnd = core, 0, rand.New(rand.NewPCG(1, 1))
	return err
}

// play runs one command.
func (st *story) play(line string) error {
	words := strings.Fields(line)
	a := args{}
	for _, w := range words[1:] {
		k, v, ok := strings.Cut(w, "=")
		if !ok {
			k, v = "", w
		}
		a[k] = v
	}
	from := keyOf(int32(a.get("from", 0, -1)))
	epoch := int32(a.get("epoch", 0, -1))
	switch words[0] {
	case "boot":
		if err := st.boot(a); err != nil {
			return err
		}
		fmt.Fprintf(&st.out, "  %s in epoch %d\n", st.core.Role(), st.core.Epoch())
		return nil
	case "at":
		st.now = clock.Instant(time.Duration(a.get("", 0, 0)) * time.Millisecond)
		st.step(Tick{})
	case "tick":
		st.now = st.core.NextDeadline()
		fmt.Fprintf(&st.out, "  it is %v\n", time.Duration(st.now))
		st.step(Tick{})
	case "append":
		for range a.get("", 0, 1) {
			st.disk.entries = append(st.disk.entries, entry{epoch: st.core.Epoch()})
		}
	case "sync":
		st.step(Synced{st.disk.end()})
	case "start":
		st.step(Start{})
	case "resign":
		st.step(Resign{})
	case "failed":
		st.step(Failed{})
	case "describe":
		st.describe()
	case "voters": // of the last record
		if level := a.get("level", 0, -1); level >= 0 {
			st.step(KRaftVersionChanged{a.get("at", 0, 0) - 1, int16(level)})
		}
		st.step(VotersChanged{a.get("at", 0, 0) - 1, votersOf(a.ints(""), 1)})
	case "installed":
		id := SnapshotID{a.get("", 0, 0), int32(a.get("", 1, 0))}
		st.disk = store{start: id.EndOffset, snap: &snapshot{id: id}, state: st.disk.state}
		st.step(SnapshotInstalled{id, votersOf(a.ints("voters"), 1), 1})
	case "part":
		st.step(SnapshotPart{st.reply(a)})
	case "reply":
		st.fresh = a.entries("records")
		st.step(Response{uint64(a.get("", 0, 0)), st.reply(a)})
	case "silent":
		st.step(NoResponse{uint64(a.get("", 0, 0))})
	default:
		body := st.request(words[0], a, from, epoch)
		if body == nil {
			return fmt.Errorf("no command %q", words[0])
		}
		st.event++
		st.step(Request{st.event, body})
	}
	fmt.Fprintf(&st.out, "  %s in epoch %d, high watermark %d\n", st.core.Role(), st.core.Epoch(), st.core.HighWatermark())
	return nil
}

func (st *story) request(word string, a args, from ReplicaKey, epoch int32) Message {
	switch word {
	case "vote":
		return Vote{Epoch: epoch, Candidate: from, Voter: keyOf(int32(a.get("for", 0, 1))), EndOffset: a.get("end", 0, 0), LastEpoch: int32(a.get("end", 1, 0)), PreVote: a["pre"] != ""}
	case "begin":
		return BeginQuorumEpoch{epoch, from.ID, keyOf(1), nil}
	case "end":
		var preferred []ReplicaKey
		for _, id := range a.ints("preferred") {
			preferred = append(preferred, keyOf(int32(id)))
		}
		return EndQuorumEpoch{epoch, from.ID, preferred, nil}
	case "fetch":
		return Fetch{Epoch: epoch, Replica: from, Offset: a.get("at", 0, 0), LastEpoch: int32(a.get("at", 1, 0)), HighWatermark: a.get("hw", 0, -1),
			MaxWait: time.Duration(a.get("wait", 0, 0)) * time.Millisecond}
	case "fetchsnapshot":
		return FetchSnapshot{epoch, from, SnapshotID{5, 1}, a.get("position", 0, 0)}
	case "add":
		v := votersOf(a.ints(""), 1)[0]
		return AddVoter{Voter: v, Timeout: time.Second, AckWhenAppended: a["early"] != ""}
	case "remove":
		return RemoveVoter{keyOf(int32(a.get("", 0, 0))), time.Second}
	case "raise":
		return RaiseVersion{epoch, int16(a.get("", 0, 1)), a["dry"] != ""}
	case "update":
		return UpdateVoter{epoch, Voter{from, []Endpoint{{"C", a["host"], 9}}, 0, int16(a.get("level", 0, 1))}}
	}
	return nil
}

func (st *story) reply(a args) Reply {
	r := Reply{Code: int16(a.get("code", 0, 0)), Epoch: int32(a.get("epoch", 0, -1)), LeaderID: int32(a.get("leader", 0, -1)), Granted: a["granted"] != "",
		HighWatermark: a.get("hw", 0, -1), Records: a["records"] != "", MaxKRaftVersion: int16(a.get("level", 0, 0))}
	if d := a.ints("diverging"); len(d) == 2 {
		r.Diverging = &EpochEnd{int32(d[0]), d[1]}
	}
	if d := a.ints("snapshot"); len(d) == 2 {
		r.Snapshot = &SnapshotID{d[0], int32(d[1])}
	}
	return r
}

// step steps an event and what follows from it, as the host does.
func (st *story) step(e Event) {
	st.queue = append(st.queue, e)
	for len(st.queue) > 0 {
		e, st.queue = st.queue[0], st.queue[1:]
		st.show(st.core.Step(e, st.now, st.rnd))
	}
}

func (st *story) printf(format string, args ...any) { fmt.Fprintf(&st.out, "  "+format+"\n", args...) }

func (st *story) names(voters []Voter) {
	st.queue = append(st.queue, VotersChanged{st.disk.end(), voters})
	st.disk.entries = append(st.disk.entries, entry{epoch: st.core.Epoch(), voters: voters})
}

func (st *story) show(o Effects) {
	if p := o.Persist; p != nil {
		st.printf("persist epoch=%d leader=%d voted=%v", p.Epoch, p.LeaderID, p.Voted.ID)
		st.disk.state = *p
	}
	if o.Resigned {
		st.printf("resigned")
	}
	if o.Truncate != nil {
		st.printf("truncate to %d", *o.Truncate)
		st.disk.entries = st.disk.entries[:*o.Truncate-st.disk.start]
		st.queue = append(st.queue, Synced{st.disk.end()})
	}
	if o.Append {
		st.printf("append %d records", len(st.fresh))
		st.disk.entries = append(st.disk.entries, st.fresh...)
		st.queue = append(st.queue, Synced{st.disk.end()})
	}
	if in := o.Install; in != nil {
		st.printf("install %d-%d from %v", in.ID.EndOffset, in.ID.Epoch, in.To.ID)
	}
	if o.CancelInstall {
		st.printf("cancel the installation")
	}
	if f := o.Follow; f != nil {
		st.printf("leader of epoch %d is %d", f.Epoch, f.LeaderID)
	}
	if b := o.Begin; b != nil {
		st.printf("begin epoch=%d voters=%v granting=%v", b.Epoch, keyIDs(b.Voters), keyIDs(b.Granting))
		st.disk.entries = append(st.disk.entries, entry{epoch: b.Epoch})
		if b.Change != nil {
			st.change(b.Change)
		}
	}
	if o.Change != nil {
		st.change(o.Change)
	}
	if o.Begin != nil || o.Change != nil {
		st.queue = append(st.queue, Synced{st.disk.end()})
	}
	if o.HighWatermark >= 0 {
		st.printf("high watermark %d", o.HighWatermark)
	}
	for _, a := range o.Answers {
		st.printf("answer %d: %s", a.ID, showReply(a.Reply))
	}
	sends := o.Sends
	if o.Fetch != nil {
		sends = append(sends, *o.Fetch)
	}
	for _, s := range sends {
		to := fmt.Sprint(s.To.ID)
		if s.To.ID == None {
			to = "anyone"
		}
		st.printf("send %d to %s: %s", s.Seq, to, showMessage(s.Body))
	}
	for _, n := range o.Notes {
		st.printf("note %s %d", n.Kind, n.Replica.ID)
	}
}

func (st *story) change(ch *Change) {
	if ch.KRaftVersion >= 0 {
		st.printf("append kraft.version %d with %v", ch.KRaftVersion, keysOf(ch.Voters))
		st.queue = append(st.queue, KRaftVersionChanged{st.disk.end(), ch.KRaftVersion})
		st.disk.entries = append(st.disk.entries, entry{epoch: st.core.Epoch()})
	}
	st.printf("append voters %v", ids(ch.Voters))
	st.names(ch.Voters)
}

func keyIDs(keys []ReplicaKey) (out []int32) {
	for _, k := range keys {
		out = append(out, k.ID)
	}
	return out
}

func showReply(r Reply) string {
	s := fmt.Sprintf("code=%d epoch=%d leader=%d", r.Code, r.Epoch, r.LeaderID)
	if r.Granted {
		s += " granted"
	}
	if r.HighWatermark >= 0 {
		s += fmt.Sprintf(" hw=%d", r.HighWatermark)
	}
	if r.Diverging != nil {
		s += fmt.Sprintf(" diverging=%d,%d", r.Diverging.Epoch, r.Diverging.EndOffset)
	}
	if r.Snapshot != nil {
		s += fmt.Sprintf(" snapshot=%d,%d", r.Snapshot.EndOffset, r.Snapshot.Epoch)
	}
	if r.Text != "" {
		s += " (" + r.Text + ")"
	}
	return s
}

func showMessage(m Message) string {
	switch m := m.(type) {
	case Vote:
		kind := "vote"
		if m.PreVote {
			kind = "pre-vote"
		}
		return fmt.Sprintf("%s epoch=%d end=%d,%d", kind, m.Epoch, m.EndOffset, m.LastEpoch)
	case BeginQuorumEpoch:
		return fmt.Sprintf("begin epoch=%d", m.Epoch)
	case EndQuorumEpoch:
		return fmt.Sprintf("end epoch=%d preferred=%v", m.Epoch, keyIDs(m.Preferred))
	case Fetch:
		return fmt.Sprintf("fetch epoch=%d at=%d,%d hw=%d wait=%v", m.Epoch, m.Offset, m.LastEpoch, m.HighWatermark, m.MaxWait)
	case UpdateVoter:
		return fmt.Sprintf("update voter %d at %s", m.Voter.Key.ID, m.Voter.Endpoints[0].Host)
	}
	return strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", m), "raft."))
}

func (st *story) describe() {
	q, ok := st.core.Describe(st.now)
	if !ok {
		st.printf("not the leader")
	}
	show := func(kind string, rs []ReplicaState) {
		for _, r := range rs {
			at := func(i clock.Instant) string {
				if i == clock.Never {
					return "never"
				}
				return time.Duration(i).String()
			}
			st.printf("%s %d end=%d fetched=%s caught up=%s", kind, r.Key.ID, r.End, at(r.LastFetch), at(r.LastCaughtUp))
		}
	}
	show("voter", q.Voters)
	show("observer", q.Observers)
}

func TestTranscripts(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txt")
	if len(files) < 10 {
		t.Fatal("transcripts are missing")
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		st := &story{disk: store{state: NoElection()}}
		for line := range strings.Lines(string(raw)) {
			line = strings.TrimRight(line, "\n")
			if strings.HasPrefix(line, "  ") {
				continue
			}
			st.out.WriteString(line + "\n")
			if line == "" || line[0] == '#' {
				continue
			}
			if err := st.play(line); err != nil {
				t.Fatalf("%s: %s: %v", f, line, err)
			}
		}
		got := st.out.String()
		if os.Getenv("UPDATE") != "" {
			if err := os.WriteFile(f, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if got != string(raw) {
			t.Errorf("%s: got\n%s", f, got)
		}
	}
}

package group

import (
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// go test ./node/group -run Transcripts -update rewrites what testdata/*.txt expects.
var update = flag.Bool("update", false, "rewrite the transcripts in testdata")

// TestTranscripts plays the stories in testdata: a line is a step, the indented lines below
// it are what the shard did.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(text))
			if *update {
				if err := os.WriteFile(f, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(text) {
				t.Errorf("%s plays differently; with -update the file shows how (git diff)\ngot:\n%s", f, got)
			}
		})
	}
}

func play(t *testing.T, text string) string {
	cfg := DefaultConfig()
	h := newHost(t, cfg, 1)
	var out strings.Builder
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		if strings.HasPrefix(line, "  ") {
			continue
		}
		out.WriteString(line + "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		h.out.Reset()
		h.step(line)
		out.WriteString(h.readable(h.out.String()))
	}
	return out.String()
}

// args are the name=value words of a step.
type args map[string]string

func (a args) str(name, def string) string {
	if v, ok := a[name]; ok {
		return v
	}
	return def
}

func (a args) num(name string, def int) int {
	if v, ok := a[name]; ok {
		n, err := strconv.Atoi(v)
		if err != nil {
			panic(err)
		}
		return n
	}
	return def
}

func (a args) ptr(name string) *string {
	if v, ok := a[name]; ok {
		return &v
	}
	return nil
}

func (h *host) step(line string) {
	words := strings.Fields(line)
	a := args{}
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		a[k] = v
	}
	g := a.str("group", "g")
	switch words[0] {
	case "config":
		h.cfg.MaxSize = int32(a.num("max-size", int(h.cfg.MaxSize)))
		h.cfg.InitialRebalanceDelayMs = int64(a.num("initial-delay", int(h.cfg.InitialRebalanceDelayMs)))
		h.cfg.OffsetsRetentionMs = int64(a.num("retention", int(h.cfg.OffsetsRetentionMs)))
		h.cfg.OffsetsRetentionCheckMs = int64(a.num("check", int(h.cfg.OffsetsRetentionCheckMs)))
		h.boot()
	case "advance":
		d, err := time.ParseDuration(words[1])
		if err != nil {
			panic(err)
		}
		h.advance(d)
	case "failover":
		h.boot()
	case "refuse":
		h.refuse = int16(a.num("code", 10))
	case "dump":
		for _, l := range strings.Split(strings.TrimSpace(h.shard.Dump()), "\n") {
			h.printf("  %s\n", l)
		}
	case "join":
		h.do(Join{h.ticket("join"), a.str("client", "c"), "/10.0.0.1", h.joinRequest(g, a)})
	case "sync":
		h.do(Sync{h.ticket("sync"), h.syncRequest(g, a)})
	case "heartbeat":
		req := kmsg.NewPtrHeartbeatRequest()
		req.Group, req.Version, req.MemberID, req.Generation, req.InstanceID = g, 4, h.resolve(a["member"]), int32(a.num("generation", 0)), a.ptr("instance")
		h.do(Heartbeat{h.ticket("heartbeat"), req})
	case "leave":
		h.do(Leave{h.ticket("leave"), h.leaveRequest(g, a)})
	case "commit":
		h.do(Commit{h.ticket("commit"), h.commitRequest(g, a)})
	case "fetch":
		h.do(Fetch{Ticket: h.ticket("fetch"), Group: g, Topics: fetchTopics(a), RequireStable: a.num("stable", 0) == 1})
	case "list":
		req := kmsg.NewPtrListGroupsRequest()
		req.Version = 5
		if v, ok := a["states"]; ok {
			req.StatesFilter = strings.Split(v, ",")
		}
		if v, ok := a["types"]; ok {
			req.TypesFilter = strings.Split(v, ",")
		}
		h.do(List{h.ticket("list"), req})
	case "describe":
		h.do(Describe{h.ticket("describe"), g})
	case "delete-topic":
		h.do(TopicsDeleted{[]string{a["topic"]}})
	default:
		panic("unknown step: " + line)
	}
}

func (h *host) joinRequest(g string, a args) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.Version = g, int16(a.num("version", 9))
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = int32(a.num("session", 10000)), int32(a.num("rebalance", 60000))
	req.MemberID, req.InstanceID = h.resolve(a["member"]), a.ptr("instance")
	req.ProtocolType = a.str("type", "consumer")
	for _, p := range strings.Split(a.str("protocols", "range"), ",") {
		name, topics, _ := strings.Cut(p, ":")
		rp := kmsg.NewJoinGroupRequestProtocol()
		rp.Name, rp.Metadata = name, []byte("sub-"+name)
		if topics != "" {
			rp.Metadata = subscription(strings.Split(topics, "+")...)
		}
		req.Protocols = append(req.Protocols, rp)
	}
	return req
}

func subscription(topics ...string) []byte {
	m := kmsg.NewConsumerMemberMetadata()
	m.Topics = topics
	return m.AppendTo(nil)
}

func (h *host) syncRequest(g string, a args) *kmsg.SyncGroupRequest {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.Version, req.MemberID, req.Generation, req.InstanceID = g, int16(a.num("version", 5)), h.resolve(a["member"]), int32(a.num("generation", 1)), a.ptr("instance")
	typ, proto := a.str("type", "consumer"), a.str("protocol", "range")
	req.ProtocolType, req.Protocol = &typ, &proto
	if v, ok := a["assign"]; ok {
		for _, x := range strings.Split(v, ",") {
			id, what, _ := strings.Cut(x, ":")
			ra := kmsg.NewSyncGroupRequestGroupAssignment()
			ra.MemberID, ra.MemberAssignment = h.resolve(id), []byte(what)
			req.GroupAssignment = append(req.GroupAssignment, ra)
		}
	}
	return req
}

func (h *host) leaveRequest(g string, a args) *kmsg.LeaveGroupRequest {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.Version = g, int16(a.num("version", 5))
	if req.Version < 3 {
		req.MemberID = h.resolve(a["member"])
		return req
	}
	for _, id := range strings.Split(a.str("member", ""), ",") {
		m := kmsg.NewLeaveGroupRequestMember()
		m.MemberID, m.InstanceID, m.Reason = h.resolve(id), a.ptr("instance"), a.ptr("reason")
		req.Members = append(req.Members, m)
	}
	return req
}

func (h *host) commitRequest(g string, a args) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Version, req.MemberID, req.Generation, req.InstanceID = g, int16(a.num("version", 9)), h.resolve(a["member"]), int32(a.num("generation", -1)), a.ptr("instance")
	req.RetentionTimeMillis = int64(a.num("retention", -1))
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = a.str("topic", "t")
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch = int32(a.num("partition", 0)), int64(a.num("offset", 0)), int32(a.num("epoch", -1))
	metadata := a.str("metadata", "")
	if n := a.num("metadata-size", 0); n > 0 {
		metadata = strings.Repeat("é", n)
	}
	p.Metadata = &metadata
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

func fetchTopics(a args) []kmsg.OffsetFetchRequestGroupTopic {
	v, ok := a["topic"]
	if !ok {
		return nil
	}
	t := kmsg.NewOffsetFetchRequestGroupTopic()
	t.Topic, t.Partitions = v, []int32{int32(a.num("partition", 0))}
	return []kmsg.OffsetFetchRequestGroupTopic{t}
}

package node_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// wire is a connection that speaks every version of a request, not only a client's choice.
type wire struct {
	t    testing.TB
	conn net.Conn
	corr int32
	fmt  *kmsg.RequestFormatter
}

func (r *running) wire() *wire {
	r.t.Helper()
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	return &wire{t: r.t, conn: c, fmt: kmsg.NewRequestFormatter(kmsg.FormatterClientID("raw"))}
}

func (w *wire) do(req kmsg.Request) kmsg.Response {
	w.t.Helper()
	w.corr++
	if _, err := w.conn.Write(w.fmt.AppendRequest(nil, req, w.corr)); err != nil {
		w.t.Fatal(err)
	}
	w.conn.SetReadDeadline(time.Now().Add(patience))
	var size [4]byte
	if _, err := io.ReadFull(w.conn, size[:]); err != nil {
		w.t.Fatalf("%s version %d: %v", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(w.conn, body); err != nil {
		w.t.Fatal(err)
	}
	if got := int32(binary.BigEndian.Uint32(body)); got != w.corr {
		w.t.Fatalf("correlation id %d, want %d", got, w.corr)
	}
	body = body[4:]
	if req.IsFlexible() {
		body = body[1:]
	}
	resp := req.ResponseKind()
	if err := resp.ReadFrom(body); err != nil {
		w.t.Fatalf("%s version %d: the answer does not decode: %v", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	return resp
}

// find waits until the group's coordinator serves.
func (w *wire) find(group string) {
	w.t.Helper()
	for until := time.Now().Add(patience); time.Now().Before(until); <-time.After(10 * time.Millisecond) {
		req := kmsg.NewPtrListGroupsRequest()
		fc := kmsg.NewPtrFindCoordinatorRequest()
		fc.Version, fc.CoordinatorKeys = 6, []string{group}
		c := w.do(fc).(*kmsg.FindCoordinatorResponse).Coordinators[0]
		if c.ErrorCode == 0 && w.do(req).(*kmsg.ListGroupsResponse).ErrorCode == 0 && w.fetchOne(group, 5, [16]byte{}) != kerr.CoordinatorLoadInProgress.Code {
			return
		}
	}
	w.t.Fatal("no coordinator")
}

func (w *wire) fetchOne(group string, version int16, id [16]byte) int16 {
	_, code := w.offset(group, version, id)
	return code
}

// offset fetches the offset of partition 0 of "t", with the version's way of asking.
func (w *wire) offset(group string, version int16, id [16]byte) (int64, int16) {
	w.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group = version, group
	if version < 8 {
		req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0}}}
		r := w.do(req).(*kmsg.OffsetFetchResponse)
		if r.ErrorCode != 0 {
			return -1, r.ErrorCode
		}
		p := r.Topics[0].Partitions[0]
		return p.Offset, p.ErrorCode
	}
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.Topics = group, []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", TopicID: id, Partitions: []int32{0}}}
	req.Groups = []kmsg.OffsetFetchRequestGroup{g}
	rg := w.do(req).(*kmsg.OffsetFetchResponse).Groups[0]
	if rg.ErrorCode != 0 {
		return -1, rg.ErrorCode
	}
	p := rg.Topics[0].Partitions[0]
	return p.Offset, p.ErrorCode
}

func (r *running) topicID(w *wire, name string) [16]byte {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 12
	req.Topics = []kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr(name)}}
	return w.do(req).(*kmsg.MetadataResponse).Topics[0].TopicID
}

func wantCode(t testing.TB, what string, got int16, want *kerr.Error) {
	t.Helper()
	if want == nil && got != 0 || want != nil && got != want.Code {
		t.Errorf("%s: got %v, want %v", what, kerr.ErrorForCode(got), want)
	}
}

func TestFindCoordinatorInEveryVersion(t *testing.T) {
	r := start(t, t.TempDir(), nil, nil)
	defer r.stop()
	w := r.wire()
	w.find("g")
	for v := int16(0); v <= 6; v++ {
		for kind, want := range map[int8]*kerr.Error{0: nil, 1: kerr.CoordinatorNotAvailable, 2: kerr.InvalidRequest, 9: kerr.InvalidRequest} {
			if v == 0 && kind != 0 {
				continue
			}
			req := kmsg.NewPtrFindCoordinatorRequest()
			req.Version, req.CoordinatorType, req.CoordinatorKey, req.CoordinatorKeys = v, kind, "g", []string{"g", "h"}
			resp := w.do(req).(*kmsg.FindCoordinatorResponse)
			if v < 4 {
				wantCode(t, fmt.Sprintf("version %d type %d", v, kind), resp.ErrorCode, want)
				continue
			}
			if len(resp.Coordinators) != 2 || resp.Coordinators[1].Key != "h" {
				t.Fatalf("version %d: %+v", v, resp.Coordinators)
			}
			for _, c := range resp.Coordinators {
				wantCode(t, fmt.Sprintf("version %d type %d", v, kind), c.ErrorCode, want)
			}
		}
	}
}

func TestOffsetsInEveryVersion(t *testing.T) {
	r := start(t, t.TempDir(), nil, nil)
	defer r.stop()
	r.createTopic("t", 1, nil)
	w := r.wire()
	w.find("g")
	id := r.topicID(w, "t")
	for v := int16(2); v <= 10; v++ {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Version, req.Group = v, "g"
		req.Topics = []kmsg.OffsetCommitRequestTopic{
			{Topic: "t", TopicID: id, Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Partition: 0, Offset: int64(v), LeaderEpoch: -1}, {Partition: 7, Offset: 1}}},
			{Topic: "missing", TopicID: [16]byte{1}, Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Partition: 0, Offset: 1}}},
		}
		resp := w.do(req).(*kmsg.OffsetCommitResponse)
		missing := kerr.UnknownTopicOrPartition
		if v >= 10 {
			missing = kerr.UnknownTopicID
		}
		wantCode(t, fmt.Sprintf("commit version %d", v), resp.Topics[0].Partitions[0].ErrorCode, nil)
		wantCode(t, fmt.Sprintf("commit version %d, no such partition", v), resp.Topics[0].Partitions[1].ErrorCode, kerr.UnknownTopicOrPartition)
		wantCode(t, fmt.Sprintf("commit version %d, no such topic", v), resp.Topics[1].Partitions[0].ErrorCode, missing)
		for fv := int16(1); fv <= 10; fv++ {
			if got, code := w.offset("g", fv, id); got != int64(v) || code != 0 {
				t.Errorf("fetch version %d after commit version %d: %d, code %d", fv, v, got, code)
			}
		}
	}
	if _, code := w.offset("g", 10, [16]byte{9}); code != kerr.UnknownTopicID.Code {
		t.Errorf("fetch by an unknown id: code %d", code)
	}
	w.allOffsets(id)
	w.staleCommit(id)
}

// allOffsets asks for whatever a group has.
func (w *wire) allOffsets(id [16]byte) {
	for v := int16(2); v <= 10; v++ {
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Version, req.Group, req.Topics = v, "g", nil
		req.Groups = []kmsg.OffsetFetchRequestGroup{kmsg.NewOffsetFetchRequestGroup(), kmsg.NewOffsetFetchRequestGroup()}
		req.Groups[0].Group, req.Groups[1].Group = "g", "nobody"
		resp := w.do(req).(*kmsg.OffsetFetchResponse)
		switch {
		case v < 8:
			if len(resp.Topics) != 1 || resp.Topics[0].Topic != "t" {
				w.t.Errorf("version %d: %+v", v, resp.Topics)
			}
		case len(resp.Groups) != 2 || len(resp.Groups[0].Topics) != 1 || len(resp.Groups[1].Topics) != 0:
			w.t.Errorf("version %d: %+v", v, resp.Groups)
		case v >= 10 && resp.Groups[0].Topics[0].TopicID != id:
			w.t.Errorf("version %d: %+v", v, resp.Groups[0].Topics)
		}
	}
}

// staleCommit claims a generation of a group that never had one.
func (w *wire) staleCommit(id [16]byte) {
	for v, want := range map[int16]*kerr.Error{8: kerr.IllegalGeneration, 9: kerr.GroupIDNotFound} {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Version, req.Group, req.Generation, req.MemberID = v, "unheard", 3, "m"
		req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", TopicID: id, Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: 1, LeaderEpoch: -1}}}}
		wantCode(w.t, fmt.Sprintf("stale commit version %d", v), w.do(req).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode, want)
	}
}

// A lone member goes through a group's life in every version of every request.
func TestMembershipInEveryVersion(t *testing.T) {
	r := start(t, t.TempDir(), nil, nil)
	defer r.stop()
	w := r.wire()
	w.find("g")
	for v := int16(0); v <= 9; v++ {
		group := fmt.Sprintf("g%d", v)
		join := w.joinAlone(group, v)
		if join.Generation != 1 || join.LeaderID != join.MemberID || len(join.Members) != 1 || *join.Protocol != "range" {
			t.Fatalf("join version %d: %+v", v, join)
		}
		if v >= 7 && (join.ProtocolType == nil || *join.ProtocolType != "consumer") {
			t.Errorf("join version %d: protocol type %v", v, join.ProtocolType)
		}
		for sv := int16(0); sv <= 5; sv++ {
			w.syncAlone(group, join.MemberID, sv)
		}
		for hv := int16(0); hv <= 4; hv++ {
			hb := kmsg.NewPtrHeartbeatRequest()
			hb.Version, hb.Group, hb.MemberID, hb.Generation = hv, group, join.MemberID, 1
			wantCode(t, fmt.Sprintf("heartbeat version %d", hv), w.do(hb).(*kmsg.HeartbeatResponse).ErrorCode, nil)
		}
		w.describeAlone(group, join.MemberID)
		w.listAll(group)
		w.leaveAlone(group, join.MemberID, min(v, 5))
	}
}

func (w *wire) joinAlone(group string, v int16) *kmsg.JoinGroupResponse {
	w.t.Helper()
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.ProtocolType = v, group, int32(patience.Milliseconds()), int32(patience.Milliseconds()), "consumer"
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte("sub")}}
	resp := w.do(req).(*kmsg.JoinGroupResponse)
	if v >= 4 {
		wantCode(w.t, fmt.Sprintf("first join version %d", v), resp.ErrorCode, kerr.MemberIDRequired)
		req.MemberID = resp.MemberID
		resp = w.do(req).(*kmsg.JoinGroupResponse)
	}
	wantCode(w.t, fmt.Sprintf("join version %d", v), resp.ErrorCode, nil)
	return resp
}

func (w *wire) syncAlone(group, member string, v int16) {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.MemberID, req.Generation = v, group, member, 1
	req.ProtocolType, req.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
	req.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: member, MemberAssignment: []byte("all of it")}}
	resp := w.do(req).(*kmsg.SyncGroupResponse)
	wantCode(w.t, fmt.Sprintf("sync version %d", v), resp.ErrorCode, nil)
	if string(resp.MemberAssignment) != "all of it" {
		w.t.Errorf("sync version %d: %q", v, resp.MemberAssignment)
	}
	if v >= 5 {
		req.Protocol = nil
		wantCode(w.t, "sync without a protocol", w.do(req).(*kmsg.SyncGroupResponse).ErrorCode, kerr.InconsistentGroupProtocol)
	}
}

func (w *wire) describeAlone(group, member string) {
	for v := int16(0); v <= 6; v++ {
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Version, req.Groups, req.IncludeAuthorizedOperations = v, []string{group, "no such group"}, true
		gs := w.do(req).(*kmsg.DescribeGroupsResponse).Groups
		g := gs[0]
		if g.State != "Stable" || g.Protocol != "range" || len(g.Members) != 1 || g.Members[0].MemberID != member ||
			g.Members[0].ClientHost != "/127.0.0.1" || g.Members[0].ClientID != "raw" || string(g.Members[0].MemberAssignment) != "all of it" {
			w.t.Errorf("describe version %d: %+v", v, g)
		}
		if v >= 3 && g.AuthorizedOperations != 3400 {
			w.t.Errorf("describe version %d: operations %d", v, g.AuthorizedOperations)
		}
		if v < 6 {
			wantCode(w.t, "describe nobody", gs[1].ErrorCode, nil)
		} else {
			wantCode(w.t, "describe nobody", gs[1].ErrorCode, kerr.GroupIDNotFound)
			if gs[1].ErrorMessage == nil {
				w.t.Error("describe nobody: no message")
			}
		}
		if gs[1].State != "Dead" {
			w.t.Errorf("describe nobody: %s", gs[1].State)
		}
	}
}

func (w *wire) listAll(group string) {
	for v := int16(0); v <= 5; v++ {
		req := kmsg.NewPtrListGroupsRequest()
		req.Version, req.StatesFilter, req.TypesFilter = v, []string{"stable"}, []string{"classic"}
		i := slices.IndexFunc(w.do(req).(*kmsg.ListGroupsResponse).Groups, func(g kmsg.ListGroupsResponseGroup) bool { return g.Group == group })
		if i < 0 {
			w.t.Errorf("list version %d: %s is not there", v, group)
		}
		req.StatesFilter = []string{"Empty"}
		if v >= 4 && slices.ContainsFunc(w.do(req).(*kmsg.ListGroupsResponse).Groups, func(g kmsg.ListGroupsResponseGroup) bool { return g.Group == group }) {
			w.t.Errorf("list version %d: %s is among the empty", v, group)
		}
	}
}

func (w *wire) leaveAlone(group, member string, v int16) {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version, req.Group, req.MemberID = v, group, member
	req.Members = []kmsg.LeaveGroupRequestMember{{MemberID: member, Reason: kmsg.StringPtr("done")}, {MemberID: "nobody"}}
	resp := w.do(req).(*kmsg.LeaveGroupResponse)
	wantCode(w.t, fmt.Sprintf("leave version %d", v), resp.ErrorCode, nil)
	if v >= 3 {
		wantCode(w.t, "the member", resp.Members[0].ErrorCode, nil)
		wantCode(w.t, "nobody", resp.Members[1].ErrorCode, kerr.UnknownMemberID)
	}
	again := w.do(req).(*kmsg.LeaveGroupResponse)
	if v < 3 {
		wantCode(w.t, "leaving twice", again.ErrorCode, kerr.UnknownMemberID)
	}
}

// Two consumers share a topic, one of them static; every record is read; one leaves, and the
// other goes on alone where both had committed.
func TestTwoConsumersShareAndInherit(t *testing.T) {
	r := start(t, t.TempDir(), nil, nil)
	defer r.stop()
	r.createTopic("t", 6, nil)
	r.produce("t", "v", 60)
	consumer := func(instance string) *kgo.Client {
		opts := []kgo.Opt{kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
			kgo.AutoCommitMarks(), kgo.FetchMaxWait(200 * time.Millisecond), kgo.SessionTimeout(patience), kgo.HeartbeatInterval(100 * time.Millisecond)}
		if instance != "" {
			opts = append(opts, kgo.InstanceID(instance))
		}
		return r.client(opts...)
	}
	a, b := consumer(""), consumer("static")
	var seen []string
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	take := func(c *kgo.Client, n int) {
		for got := 0; got < n && ctx.Err() == nil; {
			pctx, stop := context.WithTimeout(ctx, 200*time.Millisecond)
			fs := c.PollRecords(pctx, 1000)
			stop()
			fs.EachRecord(func(rec *kgo.Record) {
				seen = append(seen, string(rec.Value))
				got++
				c.MarkCommitRecords(rec)
			})
		}
	}
	for _, c := range []*kgo.Client{a, b} {
		if err := c.Ping(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for uniq := 0; uniq < 60 && ctx.Err() == nil; {
		for _, c := range []*kgo.Client{a, b} {
			pctx, stop := context.WithTimeout(ctx, 100*time.Millisecond)
			c.PollRecords(pctx, 1000).EachRecord(func(rec *kgo.Record) {
				seen = append(seen, string(rec.Value))
				c.MarkCommitRecords(rec)
			})
			stop()
		}
		slices.Sort(seen)
		seen = slices.Compact(seen)
		uniq = len(seen)
	}
	for _, c := range []*kgo.Client{a, b} {
		err := c.CommitMarkedOffsets(ctx)
		for errors.Is(err, kerr.RebalanceInProgress) { // one of them may have read it all while the other joined
			err = c.CommitMarkedOffsets(ctx)
		}
		if err != nil {
			t.Error(err)
		}
	}
	if err := a.LeaveGroupContext(ctx); err != nil {
		t.Error(err)
	}
	a.Close()
	r.produce("t", "w", 30)
	seen = nil
	take(b, 30)
	for _, v := range seen {
		if v[0] != 'w' {
			t.Errorf("%q came again", v)
		}
	}
	b.Close()
}

package quorum

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/node/raft"
)

// answers are what a member says that knows the leader 3 of epoch 7 at h:9.
func answers() []kmsg.Response {
	vote := kmsg.NewPtrVoteResponse()
	vote.Version = voteVersion
	vote.Topics = []kmsg.VoteResponseTopic{{Topic: ClusterMetadata, Partitions: []kmsg.VoteResponseTopicPartition{{LeaderID: 3, LeaderEpoch: 7, VoteGranted: true}}}}
	vote.NodeEndpoints = []kmsg.VoteResponseNodeEndpoint{{NodeID: 2, Host: "x", Port: 1}, {NodeID: 3, Host: "h", Port: 9}}
	begin := kmsg.NewPtrBeginQuorumEpochResponse()
	begin.Version = beginVersion
	begin.Topics = []kmsg.BeginQuorumEpochResponseTopic{{Topic: ClusterMetadata, Partitions: []kmsg.BeginQuorumEpochResponseTopicPartition{{LeaderID: 3, LeaderEpoch: 7, ErrorCode: kerr.FencedLeaderEpoch.Code}}}}
	begin.NodeEndpoints = []kmsg.BeginQuorumEpochResponseNodeEndpoint{{NodeID: 3, Host: "h", Port: 9}}
	end := kmsg.NewPtrEndQuorumEpochResponse()
	end.Version = endVersion
	end.Topics = []kmsg.EndQuorumEpochResponseTopic{{Topic: ClusterMetadata, Partitions: []kmsg.EndQuorumEpochResponseTopicPartition{{LeaderID: 3, LeaderEpoch: 7}}}}
	end.NodeEndpoints = []kmsg.EndQuorumEpochResponseNodeEndpoint{{NodeID: 3, Host: "h", Port: 9}}
	update := kmsg.NewPtrUpdateRaftVoterResponse()
	update.CurrentLeader.LeaderID, update.CurrentLeader.LeaderEpoch, update.CurrentLeader.Host, update.CurrentLeader.Port = 3, 7, "h", 9
	return []kmsg.Response{vote, begin, end, update, fetched(func(*kmsg.FetchResponseTopicPartition) {})}
}

func fetched(change func(p *kmsg.FetchResponseTopicPartition)) *kmsg.FetchResponse {
	p := kmsg.NewFetchResponseTopicPartition()
	p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch, p.HighWatermark, p.LogStartOffset = 3, 7, 40, 10
	change(&p)
	r := kmsg.NewPtrFetchResponse()
	r.Version = fetchVersion
	r.Topics = []kmsg.FetchResponseTopic{{TopicID: ClusterMetadataID(), Partitions: []kmsg.FetchResponseTopicPartition{p}}}
	r.Brokers = []kmsg.FetchResponseBroker{{NodeID: 3, Host: "h", Port: 9}}
	return r
}

func overTheWire(t *testing.T, r kmsg.Response) kmsg.Response {
	t.Helper()
	out := r.RequestKind().ResponseKind()
	out.SetVersion(r.GetVersion())
	if err := out.ReadFrom(r.AppendTo(nil)); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAnswersSayWhoLeads(t *testing.T) {
	h := &Host{cfg: Config{Listener: "C"}}
	for _, r := range answers() {
		got, _, err := h.decode(overTheWire(t, r))
		if err != nil {
			t.Fatalf("%T: %v", r, err)
		}
		if diff := cmp.Diff([]raft.Endpoint{{Name: "C", Host: "h", Port: 9}}, got.Endpoints); diff != "" || got.LeaderID != 3 || got.Epoch != 7 {
			t.Errorf("%T: %+v %s", r, got, diff)
		}
		_, isVote := r.(*kmsg.VoteResponse)
		_, isBegin := r.(*kmsg.BeginQuorumEpochResponse)
		if got.Granted != isVote || (got.Code == kerr.FencedLeaderEpoch.Code) != isBegin {
			t.Errorf("%T: %+v", r, got)
		}
	}
}

func TestFetchAnswersSayOneThing(t *testing.T) {
	h := &Host{cfg: Config{Listener: "C"}}
	for name, c := range map[string]struct {
		change func(p *kmsg.FetchResponseTopicPartition)
		want   raft.Reply
		bytes  int
	}{
		"nothing": {func(*kmsg.FetchResponseTopicPartition) {}, raft.Reply{}, 0},
		"records": {func(p *kmsg.FetchResponseTopicPartition) { p.RecordBatches = make([]byte, 9) }, raft.Reply{Records: true}, 9},
		"diverging": {func(p *kmsg.FetchResponseTopicPartition) {
			p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset, p.RecordBatches = 5, 12, make([]byte, 9)
		}, raft.Reply{Diverging: &raft.EpochEnd{Epoch: 5, EndOffset: 12}}, 0},
		"a snapshot": {func(p *kmsg.FetchResponseTopicPartition) { p.SnapshotID.Epoch, p.SnapshotID.EndOffset = 6, 30 },
			raft.Reply{Snapshot: &raft.SnapshotID{Epoch: 6, EndOffset: 30}}, 0},
	} {
		got, records, err := h.decode(overTheWire(t, fetched(c.change)))
		c.want.LeaderID, c.want.Epoch, c.want.Endpoints, c.want.HighWatermark, c.want.LogStart = 3, 7, []raft.Endpoint{{Name: "C", Host: "h", Port: 9}}, 40, 10
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil || len(records) != c.bytes {
			t.Errorf("%s: %d bytes, %v %s", name, len(records), err, diff)
		}
	}
}

// An answer with changed bytes is an error or a reply, never anything worse.
func TestRandomAnswersDoNoHarm(t *testing.T) {
	h := &Host{cfg: Config{Listener: "C"}}
	r := rand.New(rand.NewPCG(1, 2))
	refused := 0
	snapshot := kmsg.NewPtrFetchSnapshotResponse()
	snapshot.Version = fetchSnapshotVersion
	snapshot.Topics = []kmsg.FetchSnapshotResponseTopic{{Topic: ClusterMetadata, Partitions: []kmsg.FetchSnapshotResponseTopicPartition{{
		SnapshotID: kmsg.FetchSnapshotResponseTopicPartitionSnapshotID{EndOffset: 4, Epoch: 2}, Size: 100, Position: 50, Bytes: make([]byte, 50),
	}}}}
	all := append(answers(), snapshot)
	for range 20_000 {
		resp := all[r.IntN(len(all))]
		b := resp.AppendTo(nil)
		for range r.IntN(4) {
			b[r.IntN(len(b))] = byte(r.Uint32())
		}
		out := resp.RequestKind().ResponseKind()
		out.SetVersion(resp.GetVersion())
		if out.ReadFrom(b) != nil {
			refused++
			continue
		}
		if s, ok := out.(*kmsg.FetchSnapshotResponse); ok {
			p, err := h.parsePiece(s, raft.SnapshotID{EndOffset: 4, Epoch: 2}, 50)
			if err == nil && (len(p.bytes) == 0 || 50+int64(len(p.bytes)) > p.size || p.size > snapshotMaxBytes) {
				t.Fatalf("%d bytes of %d", len(p.bytes), p.size)
			}
			continue
		}
		if _, _, err := h.decode(out); err != nil {
			refused++
		}
	}
	if refused < 1000 {
		t.Errorf("%d answers refused", refused)
	}
}

package quorum

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/node/meta"
	"seedlog/node/raft"
	"seedlog/sim/sched"
	"seedlog/sim/simdisk"
	"seedlog/storage"
	"seedlog/storage/checkpoint"
	"seedlog/storage/record"
)

// batchAt is a batch of n records of an epoch.
func batchAt(t testing.TB, base int64, epoch int32, n int) []byte {
	opts := record.NewOptions(base)
	opts.LeaderEpoch = epoch
	b := record.NewBuilder(opts, nil)
	for range n {
		b.Append(record.Record{Value: meta.AppendRecord(nil, meta.Record{Body: &meta.NoOpRecord{}})})
	}
	out, err := b.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// openLog opens the metadata log of a formatted directory.
func openLog(t *testing.T, tk *task.T, d *simdisk.Mount) (*storage.Dir, *storage.Log) {
	rt := tk.Runtime().(*sched.Runtime)
	dir, err := storage.OpenDir(tk, storage.Env{RT: rt, Disk: d, Rand: rt.Rand("storage")}, "/a", storage.DirConfig{})
	if err != nil {
		t.Fatal(err)
	}
	log, err := dir.Open(tk, ClusterMetadata, ClusterMetadataID(), 0, storage.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return dir, log
}

func formatted(t *testing.T, tk *task.T, d *simdisk.Mount) Identity {
	ids, err := Format(tk, d, formatSpec())
	if err != nil {
		t.Fatal(err)
	}
	return ids["/a"]
}

// What a leader sends is looked at before any of it is appended.
func TestFetchedRecordsAreChecked(t *testing.T) {
	onDisk(t, func(tk *task.T, d *simdisk.Mount) {
		id := formatted(t, tk, d)
		dir, log := openLog(t, tk, d)
		if _, err := log.AppendFollower(tk, batchAt(t, 0, 2, 3)); err != nil {
			t.Fatal(err)
		}
		if err := checkpoint.WriteQuorumState(tk, d, log.Path()+"/quorum-state", checkpoint.QuorumState{LeaderID: -1, LeaderEpoch: 4, VotedID: -1, DataVersion: 1}); err != nil {
			t.Fatal(err)
		}
		h, err := Open(tk, Env{RT: tk.Runtime(), Disk: d}, Config{NodeID: 1, Identity: id}, log, log.Path())
		if err != nil {
			t.Fatal(err)
		}
		good := slices.Concat(batchAt(t, 3, 2, 2), batchAt(t, 5, 4, 1))
		damaged := slices.Clone(good)
		damaged[len(damaged)-1] ^= 1
		voters, err := record.AppendControlBatch(nil, 3, 3, 1, record.VotersValue{Voters: []record.Voter{{ID: 7}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name     string
			b        []byte
			whole    int // bytes taken, 0 if refused
			controls int
		}{
			{"good", good, len(good), 0},
			{"cut in the second batch", good[:len(good)-1], len(batchAt(t, 3, 2, 2)), 0},
			{"voters", voters, len(voters), 1},
			{"cut in the first batch", good[:70], 0, 0},
			{"nothing", nil, 0, 0},
			{"damaged", damaged, 0, 0},
			{"from before the end", batchAt(t, 2, 2, 2), 0, 0},
			{"a gap", batchAt(t, 4, 2, 2), 0, 0},
			{"an old epoch", batchAt(t, 3, 1, 2), 0, 0},
			{"a later leader's", batchAt(t, 3, 5, 2), 0, 0},
			{"epochs that fall", slices.Concat(batchAt(t, 3, 4, 1), batchAt(t, 4, 3, 1)), 0, 0},
			{"garbage", bytes.Repeat([]byte{0x5a}, 500), 0, 0},
		} {
			got, controls, err := h.checkFetched(c.b)
			if len(got) != c.whole || len(controls) != c.controls || (err == nil) != (c.whole > 0) {
				t.Errorf("%s: %d bytes, %d controls, %v", c.name, len(got), len(controls), err)
			}
		}
		if err := dir.Close(tk); err != nil {
			t.Error(err)
		}
	})
}

// A log that does not contain what the newest snapshot does begins anew at its end: power
// failed after the leader's snapshot was in place and before the log was cut.
func TestALogThatIsNotTheSnapshotsIsCut(t *testing.T) {
	for _, c := range []struct {
		name         string
		epoch        int32 // of the records from offset 4 on
		end          int64
		start, after int64 // of the log once it is opened
	}{
		{"the same records", 2, 8, 0, 8},
		{"others in their place", 1, 8, 6, 6},
		{"the end is lost", 2, 5, 6, 6},
	} {
		onDisk(t, func(tk *task.T, d *simdisk.Mount) {
			id := formatted(t, tk, d)
			dir, log := openLog(t, tk, d)
			for _, b := range [][]byte{batchAt(t, 0, 1, 4), batchAt(t, 4, c.epoch, int(c.end-4))} {
				if _, err := log.AppendFollower(tk, b); err != nil {
					t.Fatal(err)
				}
			}
			b, err := encodeSnapshot(snapshotSpec{epoch: 2, kraftVersion: 1, voters: []record.Voter{{ID: 1, DirectoryID: id.DirectoryID, MaxKRaftVersion: 1}},
				records: slices.Values(meta.BootstrapRecords())})
			if err != nil {
				t.Fatal(err)
			}
			if err := checkpoint.Replace(tk, d, log.Path()+"/"+SnapshotName(6, 2), b); err != nil {
				t.Fatal(err)
			}
			h, err := Open(tk, Env{RT: tk.Runtime(), Disk: d}, Config{NodeID: 1, Identity: id}, log, log.Path())
			if err != nil {
				t.Fatal(err)
			}
			if log.LogStartOffset() != c.start || log.LogEndOffset() != c.after {
				t.Errorf("%s: log [%d, %d)", c.name, log.LogStartOffset(), log.LogEndOffset())
			}
			if end, epoch := (raftLog{h}).End(); end != c.after || epoch != 2 {
				t.Errorf("%s: it ends at %d in epoch %d", c.name, end, epoch)
			}
			if e, ok := (raftLog{h}).EpochEnd(9); !ok || e.Epoch != 2 || e.EndOffset != c.after {
				t.Errorf("%s: epoch 9 ends at %+v", c.name, e)
			}
			if e, ok := (raftLog{h}).EpochEnd(1); ok != (c.start == 0) || ok && e.EndOffset != 4 {
				t.Errorf("%s: epoch 1 ends at %+v, %v", c.name, e, ok)
			}
			if err := dir.Close(tk); err != nil {
				t.Error(err)
			}
		})
	}
}

// Whatever a frame of another node says, it is answered, and the node goes on.
func TestRandomRequestsDoNoHarm(t *testing.T) {
	onDisk(t, func(tk *task.T, d *simdisk.Mount) {
		id := formatted(t, tk, d)
		dir, log := openLog(t, tk, d)
		h, err := Open(tk, Env{RT: tk.Runtime(), Disk: d}, Config{NodeID: 1, Identity: id, Listener: "CONTROLLER", RequestTimeout: 5 * time.Millisecond}, log, log.Path())
		if err != nil {
			t.Fatal(err)
		}
		g := task.NewGroup(tk.Runtime(), "quorum")
		g.Go("quorum", func(tk *task.T) {
			if err := h.Run(tk); err != nil {
				t.Errorf("ended: %v", err)
			}
		})
		term, err := h.AwaitTerm(tk, -1)
		if err != nil {
			t.Fatal(err)
		}
		r := tk.Runtime().(*sched.Runtime).Rand("bytes")
		answered := map[int16]int{}
		for range 6000 {
			key := []int16{1, 52, 53, 54, 55, 59, 80, 81, 82}[r.IntN(9)]
			req := sample(key, term.Epoch)
			req.SetVersion(int16(r.IntN(int(req.MaxVersion()) + 1)))
			b := req.AppendTo(nil)
			for range r.IntN(4) {
				b[r.IntN(len(b))] = byte(r.Uint32())
			}
			if r.IntN(4) == 0 {
				b = b[:r.IntN(len(b))]
			}
			if req.ReadFrom(b) != nil {
				continue
			}
			if f, ok := req.(*kmsg.FetchRequest); ok {
				f.MaxWaitMillis = min(f.MaxWaitMillis, 5)
			}
			resp := serve(tk, h, req)
			resp.SetVersion(req.GetVersion())
			resp.AppendTo(nil)
			answered[key]++
		}
		for _, key := range []int16{1, 52, 53, 54, 55, 59, 80, 81, 82} {
			if answered[key] < 100 {
				t.Errorf("key %d: %d requests came through", key, answered[key])
			}
		}
		// A forged epoch may have ended the leadership; it comes back.
		_, epoch := h.Leader()
		if _, err := h.AwaitTerm(tk, max(term.Epoch, epoch-1)-1); err != nil {
			t.Error(err)
		}
		g.Stop()
		g.Wait(tk)
		if err := dir.Close(tk); err != nil {
			t.Error(err)
		}
	})
}

// sample is a request about the metadata log, as another node would send it.
func sample(key int16, epoch int32) kmsg.Request {
	h := &Host{cfg: Config{Identity: Identity{ClusterID: ""}, Listener: "CONTROLLER"}, self: raft.ReplicaKey{ID: 2, Directory: [16]byte{9}}}
	at := []raft.Endpoint{{Name: "CONTROLLER", Host: "h", Port: 1}}
	strip := func(r kmsg.Request, id **string) kmsg.Request {
		*id = nil
		return r
	}
	switch key {
	case 1:
		r := h.fetchRequest(raft.Fetch{Epoch: epoch, Replica: h.self, MaxWait: time.Millisecond}).(*kmsg.FetchRequest)
		return strip(r, &r.ClusterID)
	case 52:
		r := h.voteRequest(raft.Vote{Epoch: epoch, Candidate: h.self, Voter: raft.ReplicaKey{ID: 1}}).(*kmsg.VoteRequest)
		return strip(r, &r.ClusterID)
	case 53:
		r := h.beginRequest(raft.BeginQuorumEpoch{Epoch: epoch, LeaderID: 2, Voter: raft.ReplicaKey{ID: 1}, Endpoints: at}).(*kmsg.BeginQuorumEpochRequest)
		return strip(r, &r.ClusterID)
	case 54:
		r := h.endRequest(raft.EndQuorumEpoch{Epoch: epoch, LeaderID: 2, Preferred: []raft.ReplicaKey{{ID: 1}}, Endpoints: at}).(*kmsg.EndQuorumEpochRequest)
		return strip(r, &r.ClusterID)
	case 55:
		r := kmsg.NewPtrDescribeQuorumRequest()
		topic := kmsg.NewDescribeQuorumRequestTopic()
		topic.Topic, topic.Partitions = ClusterMetadata, []kmsg.DescribeQuorumRequestTopicPartition{{}}
		r.Topics = append(r.Topics, topic)
		return r
	case 59:
		r := h.fetchSnapshotRequest(&raft.Install{Epoch: epoch, ID: raft.SnapshotID{EndOffset: 3, Epoch: 1}}, 0).(*kmsg.FetchSnapshotRequest)
		return strip(r, &r.ClusterID)
	case 80:
		r := kmsg.NewPtrAddRaftVoterRequest()
		r.VoterID, r.VoterDirectoryID, r.TimeoutMillis = 5, [16]byte{5}, 1
		l := kmsg.NewAddRaftVoterRequestListener()
		l.Name, l.Host, l.Port = "CONTROLLER", "h", 1
		r.Listeners = append(r.Listeners, l)
		return r
	case 81:
		r := kmsg.NewPtrRemoveRaftVoterRequest()
		r.VoterID, r.VoterDirectoryID = 5, [16]byte{5}
		return r
	}
	r := h.updateVoterRequest(raft.UpdateVoter{Epoch: epoch, Voter: raft.Voter{Key: h.self, Endpoints: at, MaxKRaftVersion: 1}}).(*kmsg.UpdateRaftVoterRequest)
	return strip(r, &r.ClusterID)
}

func serve(tk *task.T, h *Host, req kmsg.Request) kmsg.Response {
	const listener = "CONTROLLER"
	switch r := req.(type) {
	case *kmsg.FetchRequest:
		return h.Fetch(tk, r, listener)
	case *kmsg.VoteRequest:
		return h.Vote(tk, r, listener)
	case *kmsg.BeginQuorumEpochRequest:
		return h.BeginQuorumEpoch(tk, r, listener)
	case *kmsg.EndQuorumEpochRequest:
		return h.EndQuorumEpoch(tk, r, listener)
	case *kmsg.DescribeQuorumRequest:
		return h.Describe(tk, r)
	case *kmsg.FetchSnapshotRequest:
		return h.FetchSnapshot(tk, r, listener)
	case *kmsg.AddRaftVoterRequest:
		return h.AddVoter(tk, r)
	case *kmsg.RemoveRaftVoterRequest:
		return h.RemoveVoter(tk, r)
	}
	return h.UpdateVoter(tk, req.(*kmsg.UpdateRaftVoterRequest), listener)
}

// A node that is stopped answers nobody any more, and says so.
func TestAStoppedHostSaysSo(t *testing.T) {
	onDisk(t, func(tk *task.T, d *simdisk.Mount) {
		id := formatted(t, tk, d)
		dir, log := openLog(t, tk, d)
		h, err := Open(tk, Env{RT: tk.Runtime(), Disk: d}, Config{NodeID: 1, Identity: id}, log, log.Path())
		if err != nil {
			t.Fatal(err)
		}
		g := task.NewGroup(tk.Runtime(), "quorum")
		g.Go("quorum", func(tk *task.T) { _ = h.Run(tk) })
		term, err := h.AwaitTerm(tk, -1)
		if err != nil {
			t.Fatal(err)
		}
		g.Stop()
		g.Wait(tk)
		if id, _ := h.Leader(); id != raft.None {
			t.Errorf("%d leads", id)
		}
		if resp := serve(tk, h, sample(52, 1)).(*kmsg.VoteResponse); resp.ErrorCode == 0 {
			t.Error("it votes")
		}
		if err := h.WaitCommitted(tk, term.Epoch, 0, clock.Never); !errors.Is(err, ErrNotLeader) {
			t.Errorf("%v", err)
		}
		if err := dir.Close(tk); err != nil {
			t.Error(err)
		}
	})
}

package quorum

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/node/meta"
	"seedlog/node/raft"
	"seedlog/sim/sched"
	"seedlog/sim/simdisk"
	"seedlog/storage/checkpoint"
	"seedlog/storage/record"
)

// onDisk runs fn with a simulated disk.
func onDisk(t *testing.T, fn func(tk *task.T, d *simdisk.Mount)) {
	t.Helper()
	err := sched.Main(1, func(tk *task.T) {
		rt := tk.Runtime().(*sched.Runtime)
		fn(tk, simdisk.New(simdisk.Config{Rand: rt.Scheduler().Stream}).Mount(rt))
	})
	if err != nil {
		t.Fatal(err)
	}
}

func formatSpec() FormatSpec {
	n := byte(0)
	return FormatSpec{LogDirs: []string{"/a", "/b"}, MetadataLogDir: "/a", NodeID: 1, UnixMilli: 1000,
		Entropy:            func(b []byte) { n++; copy(b, bytes.Repeat([]byte{n}, len(b))) },
		ControllerListener: "CONTROLLER", Host: "localhost", Port: 9093}
}

func TestFormatWritesWhatKafkaReads(t *testing.T) {
	onDisk(t, func(tk *task.T, d *simdisk.Mount) {
		ids, err := Format(tk, d, formatSpec())
		if err != nil {
			t.Fatal(err)
		}
		if len(ids) != 2 || ids["/a"].ClusterID != ids["/b"].ClusterID || ids["/a"].DirectoryID == ids["/b"].DirectoryID {
			t.Fatalf("%v", ids)
		}
		found, err := Load(tk, d, 1, []string{"/a", "/b", "/c"})
		if err != nil || !slices.Equal(found.Missing, []string{"/c"}) || found.IDs["/a"] != ids["/a"] {
			t.Errorf("%v %v", found, err)
		}
		s, err := readSnapshot(tk, d, "/a/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint")
		if err != nil {
			t.Fatal(err)
		}
		want := record.Voter{ID: 1, DirectoryID: ids["/a"].DirectoryID, MaxKRaftVersion: 1,
			Endpoints: []record.VoterEndpoint{{Name: "CONTROLLER", Host: "localhost", Port: 9093}}}
		if s.KRaftVersion != 1 || len(s.Voters) != 1 || s.Voters[0].ID != want.ID || s.Voters[0].DirectoryID != want.DirectoryID ||
			!slices.Equal(s.Voters[0].Endpoints, want.Endpoints) || s.LastContainedLogTimestamp != 1000 || len(s.Records) != 0 {
			t.Errorf("%+v", s)
		}
		for _, dir := range []string{"/a", "/b"} {
			records, err := readBootstrap(tk, d, dir)
			if err != nil || len(records) != 2 || records[0].Body.(*meta.FeatureLevelRecord).FeatureLevel != meta.DefaultMetadataVersion {
				t.Errorf("%s: %v %v", dir, records, err)
			}
		}
	})
}

// TestBootstrapBytes is bootstrap.checkpoint worked out by hand: header batch, one batch
// of records, footer batch.
func TestBootstrapBytes(t *testing.T) {
	b, err := encodeSnapshot(snapshotSpec{unixMilli: 1000, records: slices.Values([]meta.Record{
		{Body: &meta.FeatureLevelRecord{Name: meta.MetadataVersionFeature, FeatureLevel: 25}}})})
	if err != nil {
		t.Fatal(err)
	}
	type batch struct {
		base    int64
		control bool
		key     string
		value   string
	}
	want := []batch{
		{0, true, "\x00\x00\x00\x03", "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"},
		{1, false, "", "\x01\x0c\x00\x11metadata.version\x00\x19\x00"},
		{2, true, "\x00\x00\x00\x04", "\x00\x00\x00"},
	}
	var got []batch
	it := record.NewBatches(b)
	for it.Next() {
		r := record.NewRecords(it.Bytes(), nil, 0)
		for r.Next() {
			got = append(got, batch{it.Header().BaseOffset, it.Header().IsControl(), string(r.Record().Key), string(r.Record().Value)})
		}
		if it.Header().LeaderEpoch != 0 || it.Header().ProducerID != -1 || it.Header().Attributes.Codec() != record.None {
			t.Errorf("%+v", it.Header())
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}

func TestFormatErrors(t *testing.T) {
	onDisk(t, func(tk *task.T, d *simdisk.Mount) {
		ids, err := Format(tk, d, formatSpec())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Format(tk, d, formatSpec()); !errors.Is(err, ErrFormatted) || !strings.Contains(err.Error(), "/a") {
			t.Errorf("formatted twice: %v", err)
		}
		again := formatSpec()
		again.IgnoreFormatted = true
		again.LogDirs = append(again.LogDirs, "/c")
		more, err := Format(tk, d, again)
		if err != nil || more["/a"] != ids["/a"] || more["/c"].ClusterID != ids["/a"].ClusterID {
			t.Errorf("a directory more: %v %v", more, err)
		}
		again.ClusterID = "other"
		if _, err := Format(tk, d, again); !errors.Is(err, ErrForeign) {
			t.Errorf("another cluster: %v", err)
		}
	})
}

func TestLoadNamesTheFile(t *testing.T) {
	for name, content := range map[string]string{
		"damaged":       "version=1\ncluster.id=x\n",
		"other node":    "version=1\ncluster.id=x\nnode.id=2\n",
		"other cluster": "version=1\ncluster.id=y\nnode.id=1\n",
		"copied":        "version=1\ncluster.id=x\nnode.id=1\ndirectory.id=AQEBAQEBQQGBAQEBAQEBAQ\n",
	} {
		onDisk(t, func(tk *task.T, d *simdisk.Mount) {
			for path, c := range map[string]string{"/a": "version=1\ncluster.id=x\nnode.id=1\ndirectory.id=AQEBAQEBQQGBAQEBAQEBAQ\n", "/b": content} {
				if err := d.MkdirAll(tk, path); err != nil {
					t.Fatal(err)
				}
				if err := checkpoint.Replace(tk, d, path+"/meta.properties", []byte(c)); err != nil {
					t.Fatal(err)
				}
			}
			_, err := Load(tk, d, 1, []string{"/a", "/b"})
			if err == nil || !strings.Contains(err.Error(), "/b/meta.properties") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v", name, err)
			}
			if name != "damaged" && !errors.Is(err, ErrForeign) {
				t.Errorf("%s is no %v: %v", name, ErrForeign, err)
			}
		})
	}
}

// A disk that does not give one directory's identity says nothing against the others, but for
// Format, which is to write beside it.
func TestLoadGoesOnWithoutADirectoryThatCannotBeRead(t *testing.T) {
	disks := simdisk.New(simdisk.Config{Rand: func(string) *rand.Rand { return rand.New(rand.NewPCG(1, 1)) }})
	broken := func() {
		disks.Arm(&simdisk.Injection{Fault: simdisk.ReadError, Match: func(path string) bool { return path == "/a/meta.properties" }})
	}
	err := sched.Main(1, func(tk *task.T) {
		d := disks.Mount(tk.Runtime().(*sched.Runtime))
		ids, err := Format(tk, d, formatSpec())
		if err != nil {
			t.Fatal(err)
		}
		broken()
		found, err := Load(tk, d, 1, []string{"/a", "/b"})
		if err != nil || !errors.Is(found.Unreadable["/a"], disk.ErrIO) || len(found.Unreadable) != 1 || len(found.Missing) != 0 ||
			len(found.IDs) != 1 || found.IDs["/b"] != ids["/b"] {
			t.Errorf("%+v %v", found, err)
		}
		broken()
		again := formatSpec()
		again.IgnoreFormatted = true
		if _, err := Format(tk, d, again); !errors.Is(err, disk.ErrIO) {
			t.Errorf("formatted beside what cannot be read: %v", err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A process that is killed between the rename of a file and the sync of the directory leaves
// what only the page cache knows. The next process reads it and answers by it: it must be
// durable first, or a power loss later takes back a vote, and the node votes twice (I9).
func TestWhatAStartReadsIsDurableFirst(t *testing.T) {
	disk := simdisk.New(simdisk.Config{Rand: func(string) *rand.Rand { return rand.New(rand.NewPCG(1, 1)) }})
	err := sched.Main(1, func(tk *task.T) {
		d := disk.Mount(tk.Runtime().(*sched.Runtime))
		id := formatted(t, tk, d)
		_, log := openLog(t, tk, d)
		path := log.Path() + "/" + quorumStateFile
		vote := checkpoint.QuorumState{DataVersion: 1, LeaderID: -1, LeaderEpoch: 7, VotedID: 2, VotedDirectoryID: meta.UUID{6: 0x40, 8: 0x80, 15: 2}}
		if err := checkpoint.WriteQuorumState(tk, d, path+".renamed", vote); err != nil {
			t.Fatal(err)
		}
		if err := d.Rename(tk, path+".renamed", path); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(tk, Env{RT: tk.Runtime(), Disk: d}, Config{NodeID: 1, Identity: id}, log, log.Path()); err != nil {
			t.Fatal(err)
		}
		if _, ok := disk.ReadDurable(path); !ok {
			t.Error("a power loss takes back the vote that was read")
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// sampleSnapshot is a snapshot with several batches.
func sampleSnapshot(t testing.TB) []byte {
	b, err := encodeSnapshot(snapshotSpec{epoch: 3, unixMilli: 5, lastTimestamp: 4, kraftVersion: 1,
		voters: []record.Voter{{ID: 1, MaxKRaftVersion: 1}},
		records: func(yield func(meta.Record) bool) {
			value := strings.Repeat("v", 1000)
			for range 600 {
				if !yield(meta.Record{Body: &meta.ConfigRecord{ResourceType: meta.TopicResource, ResourceName: "t", Name: "k", Value: &value}}) {
					return
				}
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDamagedSnapshotsAreRefused(t *testing.T) {
	whole := sampleSnapshot(t)
	s, err := ParseSnapshot(whole)
	if err != nil || len(s.Records) != 600 || s.LastContainedLogTimestamp != 4 || len(s.Voters) != 1 {
		t.Fatalf("%v", err)
	}
	for cut := 0; cut < len(whole); cut += len(whole) / 101 {
		if _, err := ParseSnapshot(whole[:cut]); !errors.Is(err, ErrSnapshot) {
			t.Fatalf("cut to %d: %v", cut, err)
		}
	}
	for at := 0; at < len(whole); at += len(whole) / 103 {
		bad := slices.Clone(whole)
		bad[at] ^= 1
		// The leader epoch of a batch is outside its checksum, and nothing depends on it.
		if _, err := ParseSnapshot(bad); err == nil && !inEpochField(whole, at) {
			t.Fatalf("bit flipped at %d: accepted", at)
		}
	}
	if _, err := ParseSnapshot(append(slices.Clone(whole), whole...)); !errors.Is(err, ErrSnapshot) {
		t.Errorf("two snapshots in one file: %v", err)
	}
	footer := len(whole) - (record.HeaderSize + 15)
	if _, err := ParseSnapshot(whole[footer:]); !errors.Is(err, ErrSnapshot) {
		t.Errorf("no header: %v", err)
	}
}

func inEpochField(b []byte, at int) bool {
	for pos := 0; pos < len(b); pos += 12 + int(binary.BigEndian.Uint32(b[pos+8:])) {
		if at >= pos+12 && at < pos+16 {
			return true
		}
	}
	return false
}

func TestSnapshotNames(t *testing.T) {
	if n := SnapshotName(12, 3); n != "00000000000000000012-0000000003.checkpoint" {
		t.Error(n)
	}
	for _, c := range []struct {
		name string
		ok   bool
	}{
		{"00000000000000000012-0000000003.checkpoint", true},
		{"bootstrap.checkpoint", false},
		{"00000000000000000012-0000000003.checkpoint.part", false},
		{"0000000000000000001x-0000000003.checkpoint", false},
		{"00000000000000000012-00000000003.checkpoint", false},
	} {
		end, epoch, ok := ParseSnapshotName(c.name)
		if ok != c.ok || ok && (end != 12 || epoch != 3) {
			t.Errorf("%s: %d %d %v", c.name, end, epoch, ok)
		}
	}
}

func FuzzParseSnapshot(f *testing.F) {
	small, err := encodeSnapshot(snapshotSpec{records: slices.Values(meta.BootstrapRecords())})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(small)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ParseSnapshot(b)
		if err != nil {
			return
		}
		again, err := encodeSnapshot(snapshotSpec{lastTimestamp: s.LastContainedLogTimestamp, kraftVersion: 1, voters: s.Voters, records: slices.Values(s.Records)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseSnapshot(again); err != nil {
			t.Fatal(err)
		}
	})
}

// A controller that binds every address does not tell others that it is at localhost.
func TestAHostThatNobodyWroteIsTheVoters(t *testing.T) {
	at := func(host string, port uint16) []raft.Endpoint {
		return []raft.Endpoint{{Name: "CONTROLLER", Host: host, Port: port}}
	}
	self := raft.ReplicaKey{ID: 1, Directory: [16]byte{1}}
	for _, c := range []struct {
		own     []raft.Endpoint
		guessed bool
		want    string
	}{
		{nil, false, "one"},
		{at("localhost", 9093), true, "one"},
		{at("localhost", 9093), false, "localhost"},
		{at("localhost", 9094), true, "localhost"}, // it has moved since
	} {
		h := &Host{self: self, cfg: Config{Listener: "CONTROLLER", Endpoints: c.own, Guessed: c.guessed}}
		cfg := h.coreConfig(raft.ElectionState{}, named{sets: []raft.VoterSet{
			{Voters: []raft.Voter{{Key: self, Endpoints: at("before", 9093)}}},
			{Offset: 7, Voters: []raft.Voter{{Key: raft.ReplicaKey{ID: 2}, Endpoints: at("two", 9093)}, {Key: self, Endpoints: at("one", 9093)}}},
		}})
		if cfg.Endpoints[0].Host != c.want || c.own != nil && h.Endpoints()[0].Host != c.want {
			t.Errorf("%v, guessed %v: is at %v, %v", c.own, c.guessed, cfg.Endpoints, h.Endpoints())
		}
	}
}

// A node that knows no leader asks the bootstrap servers, and the voters that its log names:
// these may all be others by now, and no bootstrap server may have heard of the one that leads.
func TestWhoKnowsNoLeaderAsksTheVotersToo(t *testing.T) {
	at := func(host string) []raft.Endpoint {
		return []raft.Endpoint{{Name: "CONTROLLER", Host: host, Port: 9093}}
	}
	err := sched.Main(1, func(tk *task.T) {
		h := &Host{cfg: Config{Listener: "CONTROLLER", Endpoints: at("self"), Bootstrap: []string{"b1:9093", "self:9093", "b2:9093"}}}
		h.mu.Init(tk.Runtime(), "quorum.Host")
		h.known = []raft.Voter{{Endpoints: at("b2")}, {Endpoints: at("v6")}, {Endpoints: at("self")}, {}}
		var asked []string
		for range 6 {
			asked = append(asked, h.anyAddress())
		}
		slices.Sort(asked)
		if want := []string{"b1:9093", "b1:9093", "b2:9093", "b2:9093", "v6:9093", "v6:9093"}; !slices.Equal(asked, want) {
			t.Errorf("asked %v, not %v", asked, want)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

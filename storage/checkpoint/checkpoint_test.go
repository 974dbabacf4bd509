package checkpoint

import (
	"bytes"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"seedlog/clock/live"
	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/disk/osfs"
)

// format is one file format with its types erased, for the tests that all of them share.
type format struct {
	name   string
	golden []string
	parse  func([]byte) (any, error)
	encode func(any) []byte
}

func erase[V any](parse func([]byte) (V, error)) func([]byte) (any, error) {
	return func(b []byte) (any, error) { return parse(b) }
}

var formats = []format{
	{"offsets", []string{"recovery-point-offset-checkpoint", "empty-list"}, erase(ParseOffsets),
		func(v any) []byte { return EncodeOffsets(v.([]Offset)) }},
	{"epochs", []string{"leader-epoch-checkpoint", "empty-list"}, erase(ParseEpochs),
		func(v any) []byte { return EncodeEpochs(v.([]Epoch)) }},
	{"partition metadata", []string{"partition.metadata"}, erase(ParsePartitionMetadata),
		func(v any) []byte { return EncodePartitionMetadata(v.(UUID)) }},
	{"meta properties", []string{"meta.properties"}, erase(ParseMetaProperties),
		func(v any) []byte { return EncodeMetaProperties(v.(MetaProperties)) }},
	{"clean shutdown", []string{"kafka_cleanshutdown"}, erase(ParseCleanShutdown),
		func(v any) []byte { return EncodeCleanShutdown(v.(int64)) }},
	{"quorum state", []string{"quorum-state-v0", "quorum-state-v1"}, erase(ParseQuorumState),
		func(v any) []byte { return EncodeQuorumState(v.(QuorumState)) }},
}

func golden(tb testing.TB, name string) []byte {
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

var directory = mustUUID("1S5yWcmbRoyGdFiDMSQ4Zw")

func mustUUID(s string) UUID {
	u, err := ParseUUID(s)
	if err != nil {
		panic(err)
	}
	return u
}

// The files in testdata hold the bytes that Kafka writes.
func TestGoldenFilesParse(t *testing.T) {
	for _, c := range []struct {
		file  string
		parse func([]byte) (any, error)
		want  any
	}{
		{"recovery-point-offset-checkpoint", erase(ParseOffsets), []Offset{
			{"__consumer_offsets", 49, 0}, {"orders", 0, 17}, {"orders", 1, 4}}},
		{"empty-list", erase(ParseOffsets), []Offset{}},
		{"leader-epoch-checkpoint", erase(ParseEpochs), []Epoch{{0, 0}}},
		{"partition.metadata", erase(ParsePartitionMetadata), mustUUID("vBIoTIDLTXeIpMhYXYUhKA")},
		{"meta.properties", erase(ParseMetaProperties), MetaProperties{"MkU3OEVBNTcwNTJENDM2Qk", 1, directory}},
		{"kafka_cleanshutdown", erase(ParseCleanShutdown), int64(7)},
		{"quorum-state-v0", erase(ParseQuorumState), QuorumState{LeaderID: 1, LeaderEpoch: 2, VotedID: -1, Voters: []int32{1, 2}}},
		{"quorum-state-v1", erase(ParseQuorumState), QuorumState{DataVersion: 1, LeaderID: -1, LeaderEpoch: 5, VotedID: 3, VotedDirectoryID: directory}},
	} {
		got, err := c.parse(golden(t, c.file))
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, %v; want %+v", c.file, got, err, c.want)
		}
	}
}

func TestEncodingIsKafkasBytes(t *testing.T) {
	for _, c := range []struct {
		what string
		got  []byte
		want string
	}{
		{"leader epoch", EncodeEpochs([]Epoch{{0, 0}}), "0\n1\n0 0\n"},
		{"offsets, by topic and partition", EncodeOffsets([]Offset{{"b", 0, 1}, {"a", 10, 2}, {"a", 9, 3}}), "0\n3\na 9 3\na 10 2\nb 0 1\n"},
		{"no offsets", EncodeOffsets(nil), "0\n0\n"},
		{"partition metadata", EncodePartitionMetadata(mustUUID("vBIoTIDLTXeIpMhYXYUhKA")), string(golden(t, "partition.metadata"))},
		{"clean shutdown", EncodeCleanShutdown(7), string(golden(t, "kafka_cleanshutdown"))},
		{"quorum state 0", EncodeQuorumState(QuorumState{LeaderID: 1, LeaderEpoch: 2, VotedID: -1, Voters: []int32{1, 2}}), string(golden(t, "quorum-state-v0"))},
		{"quorum state 1", EncodeQuorumState(QuorumState{DataVersion: 1, LeaderID: -1, LeaderEpoch: 5, VotedID: 3, VotedDirectoryID: directory}), string(golden(t, "quorum-state-v1"))},
		{"meta properties", EncodeMetaProperties(MetaProperties{"MkU3OEVBNTcwNTJENDM2Qk", 1, directory}),
			"#\ncluster.id=MkU3OEVBNTcwNTJENDM2Qk\ndirectory.id=1S5yWcmbRoyGdFiDMSQ4Zw\nnode.id=1\nversion=1\n"},
	} {
		if string(c.got) != c.want {
			t.Errorf("%s: got %q, want %q", c.what, c.got, c.want)
		}
	}
	if n := len(EncodePartitionMetadata(directory)); n != 43 {
		t.Errorf("partition.metadata has %d bytes, Kafka's has 43", n)
	}
}

func TestDamageIsNamed(t *testing.T) {
	for _, c := range []struct {
		parse func([]byte) (any, error)
		text  string
		line  int
		why   string
	}{
		{erase(ParseOffsets), "0", 1, "no end"},
		{erase(ParseOffsets), "0\n", 2, "no count"},
		{erase(ParseOffsets), "1\n0\n", 1, "version"},
		{erase(ParseOffsets), "\x00\x00\x00\n", 1, "version"},
		{erase(ParseOffsets), "0\n2\na 0 1\n", 2, "1 lines follow"},
		{erase(ParseOffsets), "0\n1\na 0 1\nb 0 1\n", 2, "2 lines follow"},
		{erase(ParseOffsets), "0\n1\na 0\n", 3, "2 fields"},
		{erase(ParseOffsets), "0\n1\na 0 1", 3, "no end"},
		{erase(ParseOffsets), "0\n1\na b 1\n", 3, "partition"},
		{erase(ParseOffsets), "0\n1\na 0 -1\n", 3, "offset"},
		{erase(ParseOffsets), "0\n1\na/b 0 1\n", 3, "topic name"},
		{erase(ParseOffsets), "0\n1\na 4294967296 1\n", 3, "partition"},
		{erase(ParseOffsets), "0\n2\na 0 1\na 0 2\n", 0, "twice"},
		{erase(ParseOffsets), "0\n999999999\n", 2, "count"},
		{erase(ParseEpochs), "0\n1\n1 2 3\n", 3, "3 fields"},
		{erase(ParseEpochs), "0\n1\nx 2\n", 3, "epoch"},
		{erase(ParsePartitionMetadata), "", 1, "version"},
		{erase(ParsePartitionMetadata), "version: 0\n", 2, "topic_id"},
		{erase(ParsePartitionMetadata), "version: x\ntopic_id: vBIoTIDLTXeIpMhYXYUhKA", 1, "version"},
		{erase(ParsePartitionMetadata), "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", 2, "zero"},
		{erase(ParsePartitionMetadata), "version: 0\ntopic_id: short", 2, "UUID"},
		{erase(ParseMetaProperties), "", 0, "there is no version"},
		{erase(ParseMetaProperties), "version=0\nbroker.id=1\n", 0, "ZooKeeper"},
		{erase(ParseMetaProperties), "version=2\n", 1, "version"},
		{erase(ParseMetaProperties), "version=1\nnode.id=1\n", 0, "cluster.id"},
		{erase(ParseMetaProperties), "version=1\ncluster.id=a\n", 0, "node.id"},
		{erase(ParseMetaProperties), "version=1\ncluster.id=a\nnode.id=one\n", 3, "node.id"},
		{erase(ParseMetaProperties), "version=1\ncluster.id=a\nnode.id=1\ndirectory.id=x\n", 4, "directory.id"},
		{erase(ParseMetaProperties), "version=\\u12\n", 1, "escape"},
		{erase(ParseCleanShutdown), "{", 0, ""},
		{erase(ParseCleanShutdown), "{}", 0, "version"},
		{erase(ParseCleanShutdown), `{"version":0,"brokerEpoch":"x"}`, 0, ""},
		{erase(ParseCleanShutdown), "\x00\x00\x00", 0, "JSON"},
		{erase(ParseQuorumState), "", 0, "JSON"},
		{erase(ParseQuorumState), "[]", 0, "JSON"},
		{erase(ParseQuorumState), `{"leaderId":1}`, 0, "data_version"},
		{erase(ParseQuorumState), `{"data_version":2}`, 0, "known are 0 and 1"},
		{erase(ParseQuorumState), `{"data_version":1,"leaderId":1,"leaderEpoch":1}`, 0, "votedId"},
		{erase(ParseQuorumState), `{"data_version":1,"leaderId":1,"leaderEpoch":1,"votedId":1}`, 0, "votedDirectoryId"},
		{erase(ParseQuorumState), `{"data_version":0,"leaderId":1,"leaderEpoch":1,"votedId":1}`, 0, "clusterId"},
		{erase(ParseQuorumState), `{"data_version":1,"leaderId":-2,"leaderEpoch":1,"votedId":1}`, 0, "leader -2"},
	} {
		v, err := c.parse([]byte(c.text))
		var bad *Damaged
		if !errors.As(err, &bad) || !errors.Is(err, ErrDamaged) {
			t.Errorf("%q: got %+v, %v", c.text, v, err)
			continue
		}
		if bad.Line != c.line || !strings.Contains(bad.Why, c.why) {
			t.Errorf("%q: line %d: %s; want line %d: ...%s", c.text, bad.Line, bad.Why, c.line, c.why)
		}
	}
}

func TestPropertiesSyntaxIsJavas(t *testing.T) {
	text := "! comment\r\n  # another\n\n version : 1\ncluster.id   my\\ cl\\u00fcst\\\n    er\\:\\=\\\\\nnode.id=1\nnode.id=2\nother\n"
	p, err := ParseMetaProperties([]byte(text))
	if err != nil || p.ClusterID != `my clüster:=\` || p.NodeID != 2 || p.DirectoryID != (UUID{}) {
		t.Fatalf("%+v, %v", p, err)
	}
	q, err := ParseMetaProperties(EncodeMetaProperties(p))
	if err != nil || q != p {
		t.Fatalf("written and read back: %+v, %v", q, err)
	}
	pair, err := ParseMetaProperties([]byte("version=1\nnode.id=1\ncluster.id=\\ud83d\\ude00"))
	if err != nil || pair.ClusterID != "😀" {
		t.Fatalf("surrogate pair: %+v, %v", pair, err)
	}
}

func TestAnEmptyCheckpointIsAnEmptyList(t *testing.T) {
	if o, err := ParseOffsets(nil); err != nil || len(o) != 0 {
		t.Errorf("%v, %v", o, err)
	}
	if e, err := ParseCleanShutdown(nil); err != nil || e != NoBrokerEpoch {
		t.Errorf("an old, empty marker: %d, %v", e, err)
	}
}

func TestFilesOnDisk(t *testing.T) {
	dir := t.TempDir()
	d := osfs.New(osfs.Options{})
	live.Main(live.New(live.Options{}), func(tk *task.T) {
		path := dir + "/" + RecoveryPointFile
		if _, err := ReadOffsets(tk, d, path); !errors.Is(err, disk.ErrNotExist) {
			t.Errorf("missing: %v", err)
		}
		// A longer temporary file that a crash left is not mixed in.
		if err := os.WriteFile(path+".tmp", bytes.Repeat([]byte("junk\n"), 100), 0o644); err != nil {
			t.Error(err)
		}
		long := []Offset{{"a", 0, 1}, {"b", 0, 2}}
		for _, want := range [][]Offset{long, {{"c", 1, 5}}, {}} {
			if err := WriteOffsets(tk, d, path, want); err != nil {
				t.Error(err)
			}
			if got, err := ReadOffsets(tk, d, path); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("got %v, %v; want %v", got, err, want)
			}
		}
		if _, err := os.Stat(path + ".tmp"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the temporary file is still there: %v", err)
		}
		if err := os.WriteFile(path, []byte("0\n1\nbad\n"), 0o644); err != nil {
			t.Error(err)
		}
		_, err := ReadOffsets(tk, d, path)
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), path+" line 3: ") {
			t.Errorf("error does not name path and line: %v", err)
		}
		if err := os.WriteFile(dir+"/big", make([]byte, maxSmallBytes+1), 0o644); err != nil {
			t.Error(err)
		}
		if _, err := ReadMetaProperties(tk, d, dir+"/big"); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "big") {
			t.Errorf("a huge file was read: %v", err)
		}
		if err := Remove(tk, d, path); err != nil {
			t.Error(err)
		}
		if err := Remove(tk, d, path); err != nil {
			t.Errorf("removing what is not there: %v", err)
		}
		if err := WriteQuorumState(tk, d, dir+"/none/"+QuorumStateFile, QuorumState{}); !errors.Is(err, disk.ErrNotExist) {
			t.Errorf("write into no directory: %v", err)
		}
	})
}

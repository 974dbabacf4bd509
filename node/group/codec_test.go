package group

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// golden is bytes as Kafka's schemas give them, field by field: blanks separate fields.
func golden(t *testing.T, fields ...string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(strings.Join(fields, ""), " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestOffsetRecordsAreKafkas(t *testing.T) {
	k := OffsetKey{"grp", "top", 2}
	key := golden(t, "0001", "0003 677270", "0003 746f70", "00000002")
	id := [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	for _, c := range []struct {
		name  string
		o     Offset
		value []byte
	}{
		{"version 3", Offset{Offset: 258, LeaderEpoch: 7, Metadata: "md", CommitTimestampMs: 1000, ExpireTimestampMs: -1},
			golden(t, "0003", "0000000000000102", "00000007", "0002 6d64", "00000000000003e8")},
		{"version 1, with an expiry", Offset{Offset: 258, LeaderEpoch: -1, Metadata: "md", CommitTimestampMs: 1000, ExpireTimestampMs: 2000},
			golden(t, "0001", "0000000000000102", "0002 6d64", "00000000000003e8", "00000000000007d0")},
		{"version 4, with a topic id", Offset{Offset: 258, LeaderEpoch: -1, CommitTimestampMs: 1000, ExpireTimestampMs: -1, TopicID: id},
			golden(t, "0004", "0000000000000102", "ffffffff", "01", "00000000000003e8", "01", "00 10 0102030405060708090a0b0c0d0e0f10")},
	} {
		r := offsetRecord(k, c.o)
		if !bytes.Equal(r.Key, key) || !bytes.Equal(r.Value, c.value) {
			t.Errorf("%s: key %x value %x, want %x and %x", c.name, r.Key, r.Value, key, c.value)
		}
		got, err := ParseOffset(c.value)
		if err != nil || got != c.o {
			t.Errorf("%s: read %+v, %v; want %+v", c.name, got, err, c.o)
		}
	}
	if ok, _, err := ParseKey(key); err != nil || *ok != k {
		t.Errorf("key read as %v, %v", ok, err)
	}
}

func TestOlderOffsetRecordsAreRead(t *testing.T) {
	for _, c := range []struct {
		value []byte
		want  Offset
	}{
		{golden(t, "0000", "0000000000000005", "0001 6d", "0000000000000009"), Offset{Offset: 5, LeaderEpoch: -1, Metadata: "m", CommitTimestampMs: 9, ExpireTimestampMs: -1}},
		{golden(t, "0002", "0000000000000005", "0001 6d", "0000000000000009"), Offset{Offset: 5, LeaderEpoch: -1, Metadata: "m", CommitTimestampMs: 9, ExpireTimestampMs: -1}},
		{golden(t, "0004", "0000000000000005", "00000003", "02 6d", "0000000000000009", "01 07 02 abcd"), Offset{Offset: 5, LeaderEpoch: 3, Metadata: "m", CommitTimestampMs: 9, ExpireTimestampMs: -1}},
	} {
		got, err := ParseOffset(c.value)
		if err != nil || got != c.want {
			t.Errorf("%x: read %+v, %v; want %+v", c.value, got, err, c.want)
		}
	}
	if ok, _, err := ParseKey(golden(t, "0000", "0001 67", "0001 74", "00000001")); err != nil || *ok != (OffsetKey{"g", "t", 1}) {
		t.Errorf("key version 0: %v, %v", ok, err)
	}
}

func TestGroupRecordsAreKafkas(t *testing.T) {
	proto, instance := "range", "one"
	g := newGroup("grp")
	g.add(&member{id: "m1", instance: &instance, clientID: "c", clientHost: "/h", sessionMs: 10, rebalanceMs: 20,
		protocols: []protocol{{"range", []byte{0xaa}}}}, "consumer")
	g.add(&member{id: "m2", clientID: "c", clientHost: "/h", sessionMs: 10, rebalanceMs: 20, protocols: []protocol{{"range", []byte{0xbb}}}}, "consumer")
	r := g.metadataRecord(3, &proto, 1000, func(m *member) []byte { return []byte(m.id) })
	value := golden(t, "0003", "0008 636f6e73756d6572", "00000003", "0005 72616e6765", "0002 6d31", "00000000000003e8", "00000002",
		"0002 6d31", "0003 6f6e65", "0001 63", "0002 2f68", "00000014", "0000000a", "00000001 aa", "00000002 6d31",
		"0002 6d32", "ffff", "0001 63", "0002 2f68", "00000014", "0000000a", "00000001 bb", "00000002 6d32")
	if !bytes.Equal(r.Value, value) {
		t.Errorf("value\n%x, want\n%x", r.Value, value)
	}
	if key := golden(t, "0002", "0003 677270"); !bytes.Equal(r.Key, key) {
		t.Errorf("key %x, want %x", r.Key, key)
	}
	empty := newGroup("grp").metadataRecord(4, nil, 1000, nil)
	if want := golden(t, "0003", "0000", "00000004", "ffff", "ffff", "00000000000003e8", "00000000"); !bytes.Equal(empty.Value, want) {
		t.Errorf("empty group %x, want %x", empty.Value, want)
	}
}

// Kafka wrote these versions over the years: without rebalance time-out, timestamp, instance.
func TestOlderGroupRecordsAreLoaded(t *testing.T) {
	members := map[int16]string{
		0: "0001 6d" + "0001 63" + "0001 68" + "0000000a" + "00000001 aa" + "00000001 bb",
		1: "0001 6d" + "0001 63" + "0001 68" + "00000014" + "0000000a" + "00000001 aa" + "00000001 bb",
		2: "0001 6d" + "0001 63" + "0001 68" + "00000014" + "0000000a" + "00000001 aa" + "00000001 bb",
		4: "02 6d" + "00" + "02 63" + "02 68" + "00000014" + "0000000a" + "02 aa" + "02 bb" + "00",
	}
	for _, v := range []int16{0, 1, 2, 4} {
		b := golden(t, "0000", "0004 74797065", "00000005", "0001 70", "0001 6d")
		if v == 4 {
			b = golden(t, "0000", "05 74797065", "00000005", "02 70", "02 6d")
		}
		b[1] = byte(v)
		if v >= 2 {
			b = append(b, golden(t, "00000000000003e8")...)
		}
		if v < 4 {
			b = append(b, golden(t, "00000001", members[v])...)
		} else {
			b = append(b, golden(t, "02", members[v], "00")...)
		}
		s := NewShard(DefaultConfig(), nil)
		if err := s.Replay(0, -1, groupKey("g"), b); err != nil {
			t.Fatalf("version %d: %v", v, err)
		}
		g := s.groups["g"]
		m := g.members[0]
		want := int32(20)
		if v == 0 {
			want = 10
		}
		if g.state != Stable || g.generation != 5 || g.leader != "m" || m.rebalanceMs != want || m.sessionMs != 10 || string(m.assignment) != "\xbb" {
			t.Errorf("version %d: %+v %+v", v, g, m)
		}
	}
}

func TestReplayToleratesWhatCompactionLeaves(t *testing.T) {
	h := newHost(t, DefaultConfig(), 1)
	h.log = []Record{
		groupTombstone("never seen"),
		offsetTombstone(OffsetKey{"never seen", "t", 0}),
		offsetRecord(OffsetKey{"only offsets", "t", 0}, Offset{Offset: 4, LeaderEpoch: -1, ExpireTimestampMs: -1}),
		groupTombstone("only offsets"), // the group's record is gone before its offsets
		{Key: []byte{0, 9, 1, 2}, Value: []byte("a protocol of the future")},
		{Key: []byte{0, 3, 1, 2}},
	}
	h.boot()
	if h.shard.Unserved != 2 {
		t.Errorf("unserved: %d", h.shard.Unserved)
	}
	if got, want := h.shard.Dump(), "offset \"only offsets\" \"t\" 0: 4 epoch -1 metadata \"\" committed 0 expires -1 topic 00000000000000000000000000000000\n"; got != want {
		t.Errorf("state is %q, want %q", got, want)
	}
}

func TestTransactionalOffsets(t *testing.T) {
	s := NewShard(DefaultConfig(), nil)
	put := func(at, producer, offset int64) {
		r := offsetRecord(OffsetKey{"g", "t", 0}, Offset{Offset: offset, LeaderEpoch: -1, ExpireTimestampMs: -1})
		if err := s.Replay(at, producer, r.Key, r.Value); err != nil {
			t.Fatal(err)
		}
	}
	fetch := func(stable bool) kmsg.OffsetFetchResponseGroupTopicPartition {
		fx := s.Handle(Fetch{Ticket: 1, Group: "g", RequireStable: stable, Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: []int32{0}}}}, Now{})
		return fx.Replies[0].Msg.(FetchReply).Group.Topics[0].Partitions[0]
	}
	put(0, -1, 1)
	put(1, 77, 2)
	if p := fetch(true); p.ErrorCode != kerr.UnstableOffsetCommit.Code {
		t.Errorf("require stable: %+v", p)
	}
	if p := fetch(false); p.Offset != 1 {
		t.Errorf("before the marker: %+v", p)
	}
	// A plain commit that came later stays, whichever is committed last.
	put(2, -1, 3)
	s.ReplayMarker(77, true)
	if p := fetch(true); p.Offset != 3 {
		t.Errorf("after the marker of an earlier write: %+v", p)
	}
	put(4, 78, 4)
	s.ReplayMarker(78, false)
	put(6, 79, 5)
	s.ReplayMarker(79, true)
	if p := fetch(true); p.Offset != 5 {
		t.Errorf("after abort and commit: %+v", p)
	}
}

func TestCodesAreKafkas(t *testing.T) {
	got := []int16{codeIllegalGeneration, codeInconsistent, codeInvalidGroupID, codeUnknownMember, codeRebalanceInProgress, codeFencedInstance}
	want := []int16{kerr.IllegalGeneration.Code, kerr.InconsistentGroupProtocol.Code, kerr.InvalidGroupID.Code, kerr.UnknownMemberID.Code, kerr.RebalanceInProgress.Code, kerr.FencedInstanceID.Code}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// FuzzReplay feeds a shard any key and value: it may refuse, and must not panic, and what it
// took must replay to the same state.
func FuzzReplay(f *testing.F) {
	h := newHost(f, DefaultConfig(), 1)
	h.step("join client=a version=3 instance=i")
	h.step("advance 3s")
	h.step("commit group=h offset=3 metadata=m version=2 retention=5")
	for _, r := range h.log {
		f.Add(r.Key, r.Value, false)
	}
	f.Add(groupKey("g"), []byte(nil), true)
	f.Add([]byte{0, 5}, []byte{}, true)
	f.Fuzz(func(t *testing.T, key, value []byte, tombstone bool) {
		if tombstone {
			value = nil
		}
		a, b := NewShard(DefaultConfig(), nil), NewShard(DefaultConfig(), nil)
		errA, errB := a.Replay(0, -1, key, value), b.Replay(0, -1, key, value)
		if (errA == nil) != (errB == nil) || a.Dump() != b.Dump() {
			t.Fatalf("two replays differ: %v %v", errA, errB)
		}
		a.Loaded(Now{})
		a.Handle(Expired{TimerKey{Kind: TimerRetention}}, Now{UnixMs: 1 << 50})
	})
}

package meta

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func ptr[V any](v V) *V { return &v }

// golden are records whose bytes were worked out by hand from Kafka's schemas.
var golden = []struct {
	name   string
	record Record
	hex    string
}{
	{"feature level", Record{0, &FeatureLevelRecord{MetadataVersionFeature, 25}},
		"01 0c 00  11 6d657461646174612e76657273696f6e  0019  00"},
	{"topic", Record{0, &TopicRecord{"foo", UUID{0: 0xaa, 15: 0xbb}}},
		"01 02 00  04 666f6f  aa0000000000000000000000000000bb  00"},
	{"partition 2 without ELR", Record{2, &PartitionRecord{PartitionID: 3, TopicID: UUID{15: 9}, Replicas: []int32{1}, ISR: []int32{1},
		Leader: 1, LeaderEpoch: 2, PartitionEpoch: 4, Directories: []UUID{{0: 7}}}},
		"01 03 02  00000003  00000000000000000000000000000009  02 00000001  02 00000001  01  01  00000001  00000002  00000004" +
			"02 07000000000000000000000000000000  00"},
	{"partition 2 with ELR and recovery", Record{2, &PartitionRecord{PartitionID: 0, Replicas: []int32{1, 2}, Leader: -1,
		LeaderRecoveryState: 1, EligibleLeaderReplicas: []int32{2}, LastKnownELR: []int32{1}, Directories: []UUID{{}, {}}}},
		"01 03 02  00000000  00000000000000000000000000000000  03 00000001 00000002  01  01  01  ffffffff  00000000  00000000" +
			"03 00000000000000000000000000000000 00000000000000000000000000000000  03  00 01 01  01 05 02 00000002  02 05 02 00000001"},
	{"partition change of the leader", Record{2, func() Body { r := NewPartitionChange(UUID{15: 1}, 1); r.Leader = 5; r.ISR = []int32{}; return r }()},
		"01 05 02  00000001  00000000000000000000000000000001  02  00 01 01  01 04 00000005"},
	{"config", Record{0, &ConfigRecord{TopicResource, "t", "retention.ms", ptr("5")}},
		"01 04 00  02  02 74  0d 726574656e74696f6e2e6d73  02 35  00"},
	{"config removed", Record{0, &ConfigRecord{BrokerResource, "", "a", nil}},
		"01 04 00  04  01  02 61  00  00"},
	{"unfenced", Record{2, &BrokerRegistrationChangeRecord{BrokerID: 1, BrokerEpoch: 7, Fenced: -1}},
		"01 11 02  00000001  0000000000000007  01  00 01 ff"},
	{"register broker 3", Record{3, &RegisterBrokerRecord{BrokerID: 1, BrokerEpoch: 9, Fenced: true,
		Endpoints: []Endpoint{{"P", "h", 9092, 0}}, Features: []FeatureRange{{"f", 0, 1}}, LogDirs: []UUID{{15: 2}}}},
		"01 00 03  00000001  00  00000000000000000000000000000000  0000000000000009" +
			"02 02 50 02 68 2384 0000 00  02 02 66 0000 0001 00  00  01  00  01 00 11 02 00000000000000000000000000000002"},
	{"begin transaction", Record{0, &BeginTransactionRecord{ptr("Bootstrap records")}},
		"01 17 00  01 00 12 12 426f6f747374726170207265636f726473"},
	{"clear ELR", Record{0, &ClearElrRecord{"foo"}}, "01 1c 00  04 666f6f  00"},
	{"no-op", Record{0, &NoOpRecord{}}, "01 14 00  00"},
}

func unhex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRecordBytesAreKafkas(t *testing.T) {
	for _, g := range golden {
		want := unhex(t, g.hex)
		if got := AppendRecord(nil, g.record); !bytes.Equal(got, want) {
			t.Errorf("%s:\n got %x\nwant %x", g.name, got, want)
		}
		back, err := ParseRecord(want)
		if err != nil {
			t.Errorf("%s: %v", g.name, err)
			continue
		}
		if again := AppendRecord(nil, back); !bytes.Equal(again, want) {
			t.Errorf("%s does not survive a round trip:\n got %x\nwant %x", g.name, again, want)
		}
	}
}

// everyKind fills every field of every record type with something.
func everyKind() []Body {
	ids := []UUID{{1}, {2}}
	return []Body{
		&RegisterBrokerRecord{BrokerID: 1, IncarnationID: UUID{3}, BrokerEpoch: 4, Endpoints: []Endpoint{{"n", "h", 1, 2}},
			Features: []FeatureRange{{"f", 1, 2}}, Rack: ptr("r"), Fenced: true, InControlledShutdown: true, LogDirs: ids, IsMigratingZkBroker: true},
		&UnregisterBrokerRecord{1, 2},
		&TopicRecord{"t", UUID{1}},
		&PartitionRecord{1, UUID{1}, []int32{1}, []int32{2}, []int32{3}, []int32{4}, 5, 1, 7, 8, ids, []int32{9}, []int32{10}},
		&ConfigRecord{TopicResource, "t", "n", ptr("v")},
		&PartitionChangeRecord{1, UUID{1}, []int32{1}, 5, []int32{2}, []int32{3}, []int32{4}, 1, []int32{6}, []int32{7}, ids},
		&FenceBrokerRecord{1, 2},
		&UnfenceBrokerRecord{1, 2},
		&RemoveTopicRecord{UUID{1}},
		&DelegationTokenRecord{"o", "r", []string{"a", "b"}, 1, 2, 3, "id"},
		&UserScramCredentialRecord{"u", 1, []byte{1}, []byte{2}, []byte{3}, 4096},
		&FeatureLevelRecord{"f", 1},
		&ClientQuotaRecord{[]QuotaEntity{{"user", ptr("u")}, {"client-id", nil}}, "producer_byte_rate", 1.5, true},
		&ProducerIdsRecord{1, 2, 3000},
		&BrokerRegistrationChangeRecord{1, 2, 1, 1, ids},
		&AccessControlEntryRecord{UUID{1}, 2, "n", 3, "User:a", "*", 4, 5},
		&RemoveAccessControlEntryRecord{UUID{1}},
		&NoOpRecord{},
		&ZkMigrationStateRecord{1},
		&RemoveUserScramCredentialRecord{"u", 1},
		&BeginTransactionRecord{ptr("x")},
		&EndTransactionRecord{},
		&AbortTransactionRecord{ptr("x")},
		&RemoveDelegationTokenRecord{"id"},
		&RegisterControllerRecord{1, UUID{1}, true, []Endpoint{{"n", "h", 1, 2}}, []FeatureRange{{"f", 1, 2}}},
		&ClearElrRecord{"t"},
	}
}

func TestEveryRecordTypeRoundTripsInEveryVersion(t *testing.T) {
	seen := 0
	for _, body := range everyKind() {
		seen++
		for v := int16(0); v <= body.MaxVersion(); v++ {
			b := AppendRecord(nil, Record{v, body})
			back, err := ParseRecord(b)
			if err != nil {
				t.Errorf("%s version %d: %v", Name(body), v, err)
				continue
			}
			if v == body.MaxVersion() && !reflect.DeepEqual(back.Body, body) {
				t.Errorf("%s: %s", Name(body), cmp.Diff(body, back.Body))
			}
			if again := AppendRecord(nil, back); !bytes.Equal(again, b) {
				t.Errorf("%s version %d: %x became %x", Name(body), v, b, again)
			}
			for cut := range b {
				if _, err := ParseRecord(b[:cut]); err == nil {
					t.Errorf("%s version %d cut to %d of %d bytes parses", Name(body), v, cut, len(b))
				}
			}
		}
	}
	known := 0
	for key := uint64(0); key < 1000; key++ {
		if newBody(key) != nil {
			known++
		}
	}
	if known != seen {
		t.Errorf("%d record types are known and %d are tested", known, seen)
	}
}

func TestUnknownRecordsAreRefusedByName(t *testing.T) {
	for _, b := range [][]byte{{1, 29, 0, 0}, {1, 2, 1, 0}, {2, 2, 0, 0}} {
		if _, err := ParseRecord(b); !errors.Is(err, ErrUnknownRecord) {
			t.Errorf("%x: %v", b, err)
		}
	}
}

func TestUnknownTagsOfAKnownVersionAreSkipped(t *testing.T) {
	r, err := ParseRecord(unhex(t, "01 14 00  01 63 02 abcd"))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := r.Body.(*NoOpRecord); !ok {
		t.Fatalf("got %T", r.Body)
	}
}

func TestParsingIsBoundedByTheInput(t *testing.T) {
	// A partition whose list of replicas claims 2^28 elements.
	b := append(unhex(t, "01 03 00  00000000"), make([]byte, 16)...)
	b = append(b, 0x80, 0x80, 0x80, 0x80, 0x01)
	if n := testing.AllocsPerRun(10, func() { _, _ = ParseRecord(b) }); n > 30 {
		t.Errorf("%v allocations for a lying length", n)
	}
	if _, err := ParseRecord(b); !errors.Is(err, ErrCorruptRecord) {
		t.Error(err)
	}
}

func FuzzParseRecord(f *testing.F) {
	for _, g := range golden {
		f.Add(unhex(f, g.hex))
	}
	for _, body := range everyKind() {
		f.Add(AppendRecord(nil, Record{body.MaxVersion(), body}))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseRecord(b)
		if err != nil {
			return
		}
		enc := AppendRecord(nil, r)
		again, err := ParseRecord(enc)
		if err != nil {
			t.Fatalf("own encoding %x of %x does not parse: %v", enc, b, err)
		}
		if !bytes.Equal(AppendRecord(nil, again), enc) {
			t.Fatalf("encoding of %x is not stable", b)
		}
	})
}

func TestSortedMapIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := orderedMap[int, int]()
		model := map[int]int{}
		var old []sorted[int, int]
		for i := range rapid.IntRange(0, 600).Draw(t, "steps") {
			k := rapid.IntRange(0, 400).Draw(t, "key")
			old = append(old, m)
			if rapid.IntRange(0, 3).Draw(t, "op") == 0 {
				m = m.delete(k)
				delete(model, k)
			} else {
				m = m.set(k, i)
				model[k] = i
			}
		}
		if m.size != len(model) {
			t.Fatalf("size %d, want %d", m.size, len(model))
		}
		prev, n := -1, 0
		for k, v := range m.all() {
			if got, ok := m.get(k); !ok || got != v || model[k] != v || k <= prev {
				t.Fatalf("key %d after %d: get %d %v, all %d, model %d", k, prev, got, ok, v, model[k])
			}
			prev = k
			n++
		}
		if n != len(model) {
			t.Fatalf("%d keys visited, want %d", n, len(model))
		}
		for _, o := range old { // no version moved under its holder
			count := 0
			for range o.all() {
				count++
			}
			if count != o.size {
				t.Fatalf("an old version of size %d has %d keys now", o.size, count)
			}
		}
	})
}

package record_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/storage/record"
	"seedlog/storage/record/recordtest"
)

func legacyRecords(magic int8) []record.Record {
	list := []record.Record{
		{Offset: 100, Timestamp: 1000, Key: []byte("a"), Value: []byte("one")},
		{Offset: 101, Timestamp: 3000, Value: bytes.Repeat([]byte("two"), 500)},
		{Offset: 102, Timestamp: 2000, Key: []byte{}},
	}
	if magic == 0 {
		for i := range list {
			list[i].Timestamp = record.NoTimestamp
		}
	}
	return list
}

// messages reads a whole set, wrapped or not.
func messages(t testing.TB, set []byte) []record.Record {
	t.Helper()
	d := new(record.Decompressor)
	var list []record.Record
	it := record.NewMessages(set)
	for it.Next() {
		m := it.Message()
		if !m.Valid() {
			t.Fatalf("CRC of the message at byte %d", it.Position())
		}
		rs, err := m.Records(d, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, rs...)
	}
	if it.Err() != nil {
		t.Fatal(it.Err())
	}
	return list
}

func TestPlainMessageSetsAreRead(t *testing.T) {
	for magic := int8(0); magic <= 1; magic++ {
		var set []byte
		for _, r := range legacyRecords(magic) {
			set = recordtest.AppendMessage(set, magic, r)
		}
		if d := diffRecords(legacyRecords(magic), messages(t, set)); d != "" {
			t.Errorf("magic %d (-want +got):\n%s", magic, d)
		}
		for cut := range len(set) {
			it := record.NewMessages(set[:cut])
			for it.Next() {
			}
			if it.Err() != nil {
				t.Fatalf("magic %d cut at %d: %v", magic, cut, it.Err())
			}
		}
	}
}

func TestFranzGoReadsOurLegacyMessages(t *testing.T) {
	set := recordtest.AppendMessage(nil, 1, legacyRecords(1)[0])
	var m kmsg.MessageV1
	if err := m.ReadFrom(set); err != nil {
		t.Fatal(err)
	}
	if m.Offset != 100 || m.Timestamp != 1000 || string(m.Key) != "a" || string(m.Value) != "one" || m.Magic != 1 {
		t.Errorf("%+v", m)
	}
}

func TestWrappedMessageSetsAreRead(t *testing.T) {
	for magic := int8(0); magic <= 1; magic++ {
		for _, codec := range codecs[1:4] {
			set := recordtest.AppendWrapper(nil, magic, codec, false, 3000, legacyRecords(magic))
			set = recordtest.AppendMessage(set, magic, record.Record{Offset: 103, Timestamp: 7, Value: []byte("after")})
			got := messages(t, set)
			if len(got) != 4 || got[3].Offset != 103 {
				t.Fatalf("magic %d %v: %d records", magic, codec, len(got))
			}
			if d := diffRecords(legacyRecords(magic), got[:3]); d != "" {
				t.Errorf("magic %d %v (-want +got):\n%s", magic, codec, d)
			}
		}
	}
}

func TestAppendTimeOfAWrapperHoldsForAll(t *testing.T) {
	set := recordtest.AppendWrapper(nil, 1, record.Gzip, true, 9999, legacyRecords(1))
	for _, r := range messages(t, set) {
		if r.Timestamp != 9999 {
			t.Errorf("offset %d has %d", r.Offset, r.Timestamp)
		}
	}
}

func TestOnlyMagic0MayHaveTheWrongLz4Checksum(t *testing.T) {
	good := recordtest.AppendWrapper(nil, 1, record.Lz4, false, 0, legacyRecords(1))
	value := bytes.Index(good, []byte{0x04, 0x22, 0x4d, 0x18})
	bad := bytes.Clone(good)
	bad[value+6] ^= 0x5a
	m, err := record.ParseMessage(bad)
	if err != nil || m.Valid() {
		t.Fatalf("%+v %v", m, err)
	}
	if _, err := m.Records(nil, 0); !errors.Is(err, record.ErrInvalid) {
		t.Errorf("magic 1 with the wrong checksum: %v", err)
	}
}

func TestHostileMessageSets(t *testing.T) {
	good := recordtest.AppendMessage(nil, 1, legacyRecords(1)[0])
	bend := func(at int, v byte) []byte { b := bytes.Clone(good); b[at] = v; return b }
	for name, b := range map[string][]byte{
		"length below the overhead": bend(11, 13),
		"length of magic 0":         good[:0:0],
		"negative length":           bend(8, 0x80),
		"key length":                bend(29, 200),
		"key length -2":             append(bytes.Clone(good[:26]), append([]byte{0xff, 0xff, 0xff, 0xfe}, good[30:]...)...),
		"value length":              bend(34, 200),
		"magic 2":                   bend(16, 2),
	} {
		if _, err := record.ParseMessage(b); err == nil {
			t.Errorf("%s passes", name)
		}
	}
	wrap := recordtest.AppendWrapper(nil, 1, record.Gzip, false, 0, legacyRecords(1))
	nested := recordtest.AppendWrapper(nil, 1, record.Gzip, false, 0, []record.Record{{Offset: 1, Value: wrap}})
	m, err := record.ParseMessage(nested)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Records(nil, 10); !errors.Is(err, record.ErrTooLarge) {
		t.Errorf("beyond the bound: %v", err)
	}
	m.Offset = -5
	if _, err := m.Records(nil, 0); !errors.Is(err, record.ErrInvalid) {
		t.Errorf("wrapper before its messages: %v", err)
	}
	m.Value = nil
	if _, err := m.Records(nil, 0); !errors.Is(err, record.ErrInvalid) {
		t.Errorf("wrapper without value: %v", err)
	}
	m.Codec = record.Zstd
	if _, err := m.Records(nil, 0); !errors.Is(err, record.ErrCodec) {
		t.Errorf("zstd in magic 1: %v", err)
	}
}

package record_test

import (
	"encoding/hex"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/storage/record"
)

var dirID = [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}

func controlValues() []record.ControlValue {
	return []record.ControlValue{
		record.LeaderChangeValue{LeaderID: 3, Voters: []record.LeaderChangeVoter{{ID: 1}, {ID: 3}}, GrantingVoters: []record.LeaderChangeVoter{{ID: 3}}},
		record.LeaderChangeValue{Version: 1, LeaderID: 3, Voters: []record.LeaderChangeVoter{{ID: 3, DirectoryID: dirID}}},
		record.SnapshotHeaderValue{LastContainedLogTimestamp: 1_700_000_000_000},
		record.SnapshotFooterValue{},
		record.KRaftVersionValue{KRaftVersion: 1},
		record.VotersValue{Voters: []record.Voter{
			{ID: 1, DirectoryID: dirID, Endpoints: []record.VoterEndpoint{{Name: "CONTROLLER", Host: "localhost", Port: 65535}}, MaxKRaftVersion: 1},
			{ID: 2, MinKRaftVersion: 1, MaxKRaftVersion: 1},
		}},
	}
}

// The bytes follow from the schemas by hand: flexible arrays and strings carry length + 1, each
// struct ends with a count of tags.
func TestControlValuesHaveKafkasBytes(t *testing.T) {
	want := []string{
		"0000 00000003 03 00000001 00 00000003 00 02 00000003 00 00",
		"0001 00000003 02 00000003 0102030405060708090a0b0c0d0e0f10 00 01 00",
		"0000 0000018bcfe56800 00",
		"0000 00",
		"0000 0001 00",
		"0000 03 00000001 0102030405060708090a0b0c0d0e0f10 02 0b 434f4e54524f4c4c4552 0a 6c6f63616c686f7374 ffff 00 0000 0001 00 00" +
			" 00000002 00000000000000000000000000000000 01 0001 0001 00 00 00",
	}
	for i, v := range controlValues() {
		b := v.AppendValue(nil)
		if got := hex.EncodeToString(b); got != squeeze(want[i]) {
			t.Errorf("%v:\n got %s\nwant %s", v.ControlType(), got, squeeze(want[i]))
		}
		back, err := record.ParseControlValue(v.ControlType(), b)
		if err != nil {
			t.Errorf("%v: %v", v.ControlType(), err)
		}
		if d := cmp.Diff(v, back); d != "" {
			t.Errorf("%v (-want +got):\n%s", v.ControlType(), d)
		}
		for cut := range len(b) {
			if _, err := record.ParseControlValue(v.ControlType(), b[:cut]); !errors.Is(err, record.ErrInvalid) {
				t.Errorf("%v: the first %d of %d bytes: %v", v.ControlType(), cut, len(b), err)
			}
		}
	}
}

func squeeze(s string) string {
	var out []byte
	for i := range len(s) {
		if s[i] != ' ' {
			out = append(out, s[i])
		}
	}
	return string(out)
}

func TestFranzGoReadsALeaderChange(t *testing.T) {
	var m kmsg.LeaderChangeMessage
	if err := m.ReadFrom(controlValues()[0].AppendValue(nil)); err != nil {
		t.Fatal(err)
	}
	if m.LeaderID != 3 || len(m.Voters) != 2 || m.Voters[1].VoterID != 3 || len(m.GrantingVoters) != 1 {
		t.Errorf("%+v", m)
	}
}

func TestUnknownTagsArePassedOver(t *testing.T) {
	v, err := record.ParseControlValue(record.KRaftVersion, []byte{0, 0, 0, 1, 2, 5, 1, 0xaa, 9, 0})
	if err != nil || v != (record.KRaftVersionValue{KRaftVersion: 1}) {
		t.Errorf("%v %v", v, err)
	}
	if _, err := record.ParseControlValue(record.KRaftVersion, []byte{0, 0, 0, 1, 1, 5, 200, 0}); err == nil {
		t.Error("a tag longer than the value passes")
	}
}

func TestATransactionMarkerIsABatchOfItsOwn(t *testing.T) {
	b := record.AppendEndTxnBatch(nil, 9, 2, record.EndTxnMarker{Type: record.Abort, CoordinatorEpoch: 17}, 12345)
	if err := record.CheckCRC(b); err != nil {
		t.Fatal(err)
	}
	if len(b) != 78 { // as Kafka's: 61 + 17
		t.Errorf("%d bytes", len(b))
	}
	h, _ := record.ParseHeader(b)
	if !h.IsControl() || !h.IsTransactional() || h.ProducerID != 9 || h.ProducerEpoch != 2 || h.BaseSequence != record.NoSequence || h.LastSequence() != -1 {
		t.Errorf("%+v", h)
	}
	r := readBack(t, b, nil)[0]
	m, err := record.ParseEndTxnMarker(r.Key, r.Value)
	if err != nil || m.Type != record.Abort || m.CoordinatorEpoch != 17 || r.Timestamp != 12345 {
		t.Errorf("%+v %v", m, err)
	}
	var end kmsg.EndTxnMarker
	var key kmsg.ControlRecordKey
	if key.ReadFrom(r.Key) != nil || key.Type != kmsg.ControlRecordKeyTypeAbort || end.ReadFrom(r.Value) != nil || end.CoordinatorEpoch != 17 {
		t.Errorf("franz-go reads %+v %+v", key, end)
	}
	for _, bad := range [][2][]byte{{{0, 0, 0}, r.Value}, {{0, 0, 0, 2}, r.Value}, {r.Key, r.Value[:5]}, {{0xff, 0, 0, 1}, r.Value}, {r.Key, {0xff, 0, 0, 0, 0, 0}}} {
		if _, err := record.ParseEndTxnMarker(bad[0], bad[1]); !errors.Is(err, record.ErrInvalid) {
			t.Errorf("key %x value %x: %v", bad[0], bad[1], err)
		}
	}
}

func TestControlBatchesOfTheMetadataLog(t *testing.T) {
	b, err := record.AppendControlBatch(nil, 50, 4, 99, controlValues()...)
	if err != nil {
		t.Fatal(err)
	}
	h, _ := record.ParseHeader(b)
	if !h.IsControl() || h.IsTransactional() || h.HasProducerID() || h.LeaderEpoch != 4 || h.BaseOffset != 50 || h.Count != 6 {
		t.Errorf("%+v", h)
	}
	for i, r := range readBack(t, b, nil) {
		ct, err := record.ParseControlKey(r.Key)
		if err != nil || ct != controlValues()[i].ControlType() || r.Offset != 50+int64(i) {
			t.Errorf("record %d: %v %v", i, ct, err)
		}
	}
	if s := record.ControlType(9).String() + record.KRaftVoters.String(); s != "UNKNOWNKRAFT_VOTERS" {
		t.Error(s)
	}
}

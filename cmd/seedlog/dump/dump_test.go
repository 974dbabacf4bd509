package dump_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/cmd/seedlog/dump"
	"seedlog/node/meta"
	"seedlog/storage/checkpoint"
	"seedlog/storage/index"
	"seedlog/storage/producer"
	"seedlog/storage/record"
	"seedlog/storage/record/recordtest"
)

// go test ./cmd/seedlog/dump -update rewrites testdata/*.txt; read the diff before you commit it.
var update = flag.Bool("update", false, "rewrite testdata")

const segment = "00000000000000000100"

// dir writes a data directory in miniature and returns its path.
func dir(t *testing.T) string {
	t.Helper()
	d := t.TempDir()
	put := func(name string, b []byte) {
		if err := os.WriteFile(filepath.Join(d, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var log []byte
	batch := func(o record.Options, records ...record.Record) {
		var err error
		if log, err = record.AppendBatch(log, o, nil, records...); err != nil {
			t.Fatal(err)
		}
	}
	o := record.NewOptions(100)
	o.LeaderEpoch, o.ProducerID, o.ProducerEpoch, o.BaseSequence, o.Transactional = 3, 4711, 1, 0, true
	batch(o, record.Record{Timestamp: 1000, Key: []byte("k"), Value: []byte("hello")},
		record.Record{Timestamp: 1500, Value: []byte("line\nbreak"), Headers: []record.RecordHeader{{Key: "h"}, {Key: "i"}}})
	second := len(log)
	o = record.NewOptions(102)
	o.LeaderEpoch, o.Codec, o.DeleteHorizonMs = 3, record.Snappy, 900
	batch(o, record.Record{Timestamp: 2000, Key: []byte("tombstone")})
	third := len(log)
	marker := record.AppendEndTxnBatch(nil, 4711, 1, record.EndTxnMarker{Type: record.Abort, CoordinatorEpoch: 9}, 2500)
	record.Stamp(marker, 103, 3)
	put(segment+".log", append(log, marker...))
	at := func(rel, pos int) index.Offset { return index.Offset{Rel: int32(rel), Position: int32(pos)} }
	put(segment+".index", append(index.AppendOffset(index.AppendOffset(nil, at(2, second)), at(3, third)), make([]byte, 16)...))
	put(segment+".timeindex", index.AppendTime(index.AppendTime(nil, index.Time{Timestamp: 1500, Rel: 1}), index.Time{Timestamp: 2500, Rel: 3}))
	put(segment+".txnindex", index.AppendTxn(nil, index.Txn{ProducerID: 4711, FirstOffset: 100, LastOffset: 103, LastStableOffset: 104}))
	s := producer.NewState(100)
	s.Apply(&producer.Append{ProducerID: 4711, Epoch: 1, LastSeq: 1, FirstOffset: 100, LastOffset: 101, MaxTimestamp: 1500, Transactional: true})
	s.ApplyMarker(&producer.Marker{ProducerID: 9, CoordinatorEpoch: 2, Offset: 102, Timestamp: 7})
	put("00000000000000000103.snapshot", s.Snapshot())
	put("old.log", nil)
	legacy(t, put)
	small(put)
	internal(t, put)
	return d
}

func legacy(t *testing.T, put func(string, []byte)) {
	t.Helper()
	records := []record.Record{{Offset: 1, Timestamp: 10, Key: []byte("a"), Value: []byte("one")}, {Offset: 2, Timestamp: 20}}
	set := recordtest.AppendMessage(nil, 0, record.Record{Offset: 0, Value: []byte("zero")})
	put("00000000000000000000.log", recordtest.AppendWrapper(set, 1, record.Gzip, false, 20, records))
}

func small(put func(string, []byte)) {
	id := checkpoint.UUID{1, 2, 3}
	put("leader-epoch-checkpoint", checkpoint.EncodeEpochs([]checkpoint.Epoch{{Epoch: 0, StartOffset: 0}, {Epoch: 3, StartOffset: 100}}))
	put("recovery-point-offset-checkpoint", checkpoint.EncodeOffsets([]checkpoint.Offset{{Topic: "t", Partition: 1, Offset: 100}}))
	put("partition.metadata", checkpoint.EncodePartitionMetadata(id))
	put("meta.properties", checkpoint.EncodeMetaProperties(checkpoint.MetaProperties{ClusterID: "c", NodeID: 1, DirectoryID: id}))
	put("quorum-state", checkpoint.EncodeQuorumState(checkpoint.QuorumState{DataVersion: 1, LeaderID: 1, LeaderEpoch: 5, VotedID: -1}))
	put(".kafka_cleanshutdown", checkpoint.EncodeCleanShutdown(42))
}

// internal writes a metadata snapshot, an offsets segment and a transactions segment.
func internal(t *testing.T, put func(string, []byte)) {
	t.Helper()
	must := func(b []byte, err error) []byte {
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	snap := must(record.AppendControlBatch(nil, 0, 5, 77, record.SnapshotHeaderValue{LastContainedLogTimestamp: 70},
		record.KRaftVersionValue{KRaftVersion: 1},
		record.VotersValue{Voters: []record.Voter{{ID: 1, DirectoryID: [16]byte{9}, Endpoints: []record.VoterEndpoint{{Name: "CONTROLLER", Host: "h", Port: 9093}}, MaxKRaftVersion: 1}}},
		record.LeaderChangeValue{LeaderID: 1, Voters: []record.LeaderChangeVoter{{ID: 1}}}))
	o := record.NewOptions(4)
	o.LeaderEpoch = 5
	snap = must(record.AppendBatch(snap, o, nil,
		record.Record{Timestamp: 77, Value: meta.AppendRecord(nil, meta.Record{Body: &meta.TopicRecord{Name: "orders", TopicID: meta.UUID{7}}})},
		record.Record{Timestamp: 77, Value: []byte{1, 99, 0}}))
	put("00000000000000000010-0000000005.checkpoint", must(record.AppendControlBatch(snap, 6, 5, 77, record.SnapshotFooterValue{})))
	key := kmsg.OffsetCommitKey{Version: 1, Group: "g", Topic: "orders", Partition: 2}
	value := kmsg.OffsetCommitValue{Version: 3, Offset: 55, Metadata: "m", CommitTimestamp: 1}
	put("00000000000000000020.log", must(record.AppendBatch(nil, record.NewOptions(20), nil,
		record.Record{Timestamp: 1, Key: key.AppendTo(nil), Value: value.AppendTo(nil)}, record.Record{Timestamp: 2, Key: key.AppendTo(nil)},
		record.Record{Timestamp: 3, Key: []byte{0, 99}})))
	tk := kmsg.TxnMetadataKey{TransactionalID: "tx"}
	tv := kmsg.TxnMetadataValue{ProducerID: 4, ProducerEpoch: 2, State: kmsg.TransactionStateEmpty}
	put("00000000000000000030.log", must(record.AppendBatch(nil, record.NewOptions(30), nil, record.Record{Timestamp: 1, Key: tk.AppendTo(nil), Value: tv.AppendTo(nil)})))
}

func run(t *testing.T, path string, o dump.Options) (string, error) {
	t.Helper()
	var out bytes.Buffer
	o.Out, o.Err = &out, &out
	err := dump.File(path, o)
	return strings.ReplaceAll(out.String(), filepath.Dir(path)+string(filepath.Separator), "<dir>/"), err
}

func TestGoldenDumps(t *testing.T) {
	d := dir(t)
	cases := []struct {
		golden, file string
		o            dump.Options
	}{
		{"batches", segment + ".log", dump.Options{}},
		{"records", segment + ".log", dump.Options{DeepIteration: true}},
		{"data", segment + ".log", dump.Options{PrintDataLog: true}},
		{"data-only", segment + ".log", dump.Options{PrintDataLog: true, SkipRecordMetadata: true}},
		{"legacy", "00000000000000000000.log", dump.Options{PrintDataLog: true}},
		{"index", segment + ".index", dump.Options{}},
		{"index-sanity", segment + ".index", dump.Options{IndexSanityCheck: true}},
		{"timeindex", segment + ".timeindex", dump.Options{}},
		{"txnindex", segment + ".txnindex", dump.Options{}},
		{"snapshot", "00000000000000000103.snapshot", dump.Options{}},
		{"metadata", "00000000000000000010-0000000005.checkpoint", dump.Options{Decoder: dump.ClusterMetadata}},
		{"offsets", "00000000000000000020.log", dump.Options{Decoder: dump.Offsets}},
		{"transactions", "00000000000000000030.log", dump.Options{Decoder: dump.TransactionLog}},
		{"leader-epochs", "leader-epoch-checkpoint", dump.Options{}},
		{"recovery-points", "recovery-point-offset-checkpoint", dump.Options{}},
		{"partition-metadata", "partition.metadata", dump.Options{}},
		{"meta-properties", "meta.properties", dump.Options{}},
		{"quorum-state", "quorum-state", dump.Options{}},
		{"clean-shutdown", ".kafka_cleanshutdown", dump.Options{}},
	}
	for _, c := range cases {
		t.Run(c.golden, func(t *testing.T) {
			got, err := run(t, filepath.Join(d, c.file), c.o)
			if err != nil {
				t.Errorf("%v\n%s", err, got)
			}
			golden := filepath.Join("testdata", c.golden+".txt")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("(-golden +now):\n%s", diff)
			}
		})
	}
}

func TestDamageIsReportedAndPassedOver(t *testing.T) {
	d := dir(t)
	path := func(name string) string { return filepath.Join(d, name) }
	bend := func(name string, f func(b []byte) []byte) {
		b, err := os.ReadFile(path(name))
		if err == nil {
			err = os.WriteFile(path(name), f(b), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	bend(segment+".log", func(b []byte) []byte { b[70] ^= 1; return b }) // in the first batch's records
	bend(segment+".index", func(b []byte) []byte { binary.BigEndian.PutUint32(b[4:], 5); return b })
	bend(segment+".timeindex", func(b []byte) []byte { b[7] ^= 1; return b })
	bend(segment+".txnindex", func(b []byte) []byte { return b[:20] })
	bend("00000000000000000103.snapshot", func(b []byte) []byte { b[20] ^= 1; return b })
	bend("leader-epoch-checkpoint", func(b []byte) []byte { return append(b, "x\n"...) })
	for name, want := range map[string]string{
		segment + ".log":                "isvalid: false",
		segment + ".index":              "no batch at position 5",
		segment + ".timeindex":          "Found timestamp mismatch",
		segment + ".txnindex":           "",
		"00000000000000000103.snapshot": "",
		"leader-epoch-checkpoint":       "epoch",
	} {
		out, err := run(t, path(name), dump.Options{PrintDataLog: true})
		if !errors.Is(err, dump.ErrMismatch) || !strings.Contains(out, want) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	for _, tail := range []string{"torn", strings.Repeat("\x00", 100)} {
		bend("00000000000000000000.log", func(b []byte) []byte { return append(b, tail...) })
		out, err := run(t, path("00000000000000000000.log"), dump.Options{})
		if !errors.Is(err, dump.ErrMismatch) || !strings.Contains(out, "invalid bytes at the end of") {
			t.Errorf("a tail of %q: %v\n%s", tail, err, out)
		}
	}
	out, _ := run(t, path(segment+".log"), dump.Options{DeepIteration: true})
	if !strings.Contains(out, "endTxnMarker: ABORT") {
		t.Errorf("the dump stopped at the damage:\n%s", out)
	}
}

func TestEveryPrefixOfEveryFileIsDumpedWithoutPanic(t *testing.T) {
	d := dir(t)
	entries, err := os.ReadDir(d)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		path := filepath.Join(d, e.Name())
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for cut := len(whole); cut >= 0; cut-- {
			if err := os.Truncate(path, int64(cut)); err != nil {
				t.Fatal(err)
			}
			for _, dec := range []dump.Decoder{dump.Text, dump.ClusterMetadata, dump.Offsets, dump.TransactionLog} {
				_ = dump.File(path, dump.Options{PrintDataLog: true, Decoder: dec, Out: io.Discard, Err: io.Discard})
			}
		}
		if err := os.WriteFile(path, whole, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestGapsAreMentionedAndNoDamage(t *testing.T) {
	b := record.NewBuilder(record.NewOptions(0), nil)
	b.AppendAt(record.Record{Offset: 0})
	b.AppendAt(record.Record{Offset: 7})
	batch, err := b.Build(nil)
	path := filepath.Join(t.TempDir(), "00000000000000000000.log")
	if err == nil {
		err = os.WriteFile(path, batch, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := run(t, path, dump.Options{DeepIteration: true}); err != nil || !strings.Contains(out, "0 is followed by 7") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestNamesDecide(t *testing.T) {
	d := dir(t)
	if err := os.Rename(filepath.Join(d, segment+".log"), filepath.Join(d, segment+".log.deleted")); err != nil {
		t.Fatal(err)
	}
	if out, err := run(t, filepath.Join(d, segment+".log.deleted"), dump.Options{}); err != nil || !strings.Contains(out, "Log starting offset: 100") {
		t.Errorf("a deleted segment: %v\n%s", err, out)
	}
	for name, want := range map[string]error{"old.log": nil, "what.is.this": dump.ErrUnknownFile, "missing.index": os.ErrNotExist} {
		path := filepath.Join(d, name)
		if name == "missing.index" {
			path = filepath.Join(d, "00000000000000000009.index")
		}
		if _, err := run(t, path, dump.Options{}); err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	err := dump.Files([]string{filepath.Join(d, "nothing"), filepath.Join(d, "quorum-state")}, dump.Options{Out: io.Discard, Err: io.Discard})
	if !errors.Is(err, dump.ErrUnknownFile) {
		t.Errorf("%v", err)
	}
}

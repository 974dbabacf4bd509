package storage

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"seedlog/clock/task"
	"seedlog/storage/record"
)

// kafkaWritten are directories as Apache Kafka left them; the README there says how to make them anew.
const kafkaWritten = "../testdata/kafka-written"

// What Kafka wrote into them, by java/Golden.java of the interop run.
var kafkaLogs = map[string]struct {
	end      int64
	epoch    int32
	segments int
	records  int // without control records
	aborted  int
}{
	"append-time-0": {10, 0, 1, 10, 0},
	"codecs-0":      {100, 0, 5, 100, 0},
	"txn-0":         {24, 0, 2, 20, 2},
	"unclean-0":     {40, 2, 1, 40, 0}, // the stop and the next start each cost an epoch
}

// copyKafkaLogs makes a log.dir of the partitions, with the marker of a clean stop if it is one.
func copyKafkaLogs(root string, clean bool) {
	for name := range kafkaLogs {
		if clean && name == "unclean-0" {
			continue // a killed broker's
		}
		check(os.CopyFS(filepath.Join(root, name), os.DirFS(filepath.Join(kafkaWritten, name))))
	}
	for _, name := range []string{"recovery-point-offset-checkpoint", "log-start-offset-checkpoint"} {
		check(os.WriteFile(filepath.Join(root, name), must(os.ReadFile(filepath.Join(kafkaWritten, name))), 0o644))
	}
	if clean {
		check(os.WriteFile(filepath.Join(root, ".kafka_cleanshutdown"), []byte(`{"version":0,"brokerEpoch":10}`), 0o644))
	}
}

// TestLogsThatKafkaWroteAreRead: every segment, index, snapshot and checkpoint of Kafka's is
// taken as it is after a clean stop, recovered without one, and goes on from where it ended.
func TestLogsThatKafkaWroteAreRead(t *testing.T) {
	for _, clean := range []bool{true, false} {
		t.Run(fmt.Sprintf("clean=%v", clean), func(t *testing.T) {
			onDisk(t, func(tk *task.T, env Env, root string) {
				copyKafkaLogs(root, clean)
				load := func() (*Dir, []*Log) {
					d := must(OpenDir(tk, env, root, DirConfig{}))
					return d, must(d.Load(tk, func(string, [16]byte) Config { return Config{IndexIntervalBytes: 256, SegmentMs: 1 << 40} }, nil))
				}
				d, logs := load()
				expect("logs", len(logs), len(kafkaLogs)-map[bool]int{true: 1}[clean])
				for _, l := range logs {
					verifyKafkaLog(tk, l)
					l.SetHighWatermark(l.LogEndOffset())
					info := must(l.Append(tk, 3, batchOf(1, 10, 0, nil), Client))
					expect("the offset of our first record", info.BaseOffset, kafkaLogs[l.Name()].end)
				}
				check(d.CloseClean(tk, 11))
				d, logs = load()
				for _, l := range logs {
					expect("log end after our own stop", l.LogEndOffset(), kafkaLogs[l.Name()].end+1)
					expect("latest epoch after our own append", l.LatestEpoch(), int32(3))
				}
				check(d.CloseClean(tk, 12))
			})
		})
	}
}

func verifyKafkaLog(tk *task.T, l *Log) {
	want, ok := kafkaLogs[l.Name()]
	if !ok {
		panic("no such log: " + l.Name())
	}
	expect("log end of "+l.Name(), l.LogEndOffset(), want.end)
	expect("latest epoch of "+l.Name(), l.LatestEpoch(), want.epoch)
	segments := *l.segs.Load()
	expect("segments of "+l.Name(), len(segments), want.segments)
	for i, s := range segments {
		if l.Name() != "append-time-0" { // it has another interval
			verifyIndexes(tk, l, s, i)
		}
	}
	l.SetHighWatermark(want.end)
	expect("last stable offset of "+l.Name(), l.LastStableOffset(), want.end)
	expect("records of "+l.Name(), countRecords(readAll(tk, l, ToLastStable)), want.records)
	aborted := 0
	var f Fetched
	for _, s := range segments {
		check(l.Read(tk, s.base, 1<<20, ToLastStable, true, &f))
		aborted += len(f.Aborted)
	}
	f.Release()
	expect("aborted transactions of "+l.Name(), aborted, want.aborted)
}

func countRecords(b []byte) (n int) {
	batches := record.NewBatches(b)
	var d record.Decompressor
	for batches.Next() {
		check(record.CheckCRC(batches.Bytes()))
		if batches.Header().IsControl() {
			continue
		}
		records := record.NewRecords(batches.Bytes(), &d, 1<<20)
		for records.Next() {
			n++
		}
		check(records.Err())
		records.Close()
	}
	check(batches.Err())
	return n
}

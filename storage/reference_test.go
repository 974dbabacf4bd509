package storage

import (
	"fmt"
	"testing"

	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/storage/index"
)

// The reference experiment: 20,000 records of 200 bytes of one idempotent producer, in
// batches of four, into segments of 1 MiB, as measured on a real broker.
func TestReferenceExperiment(t *testing.T) {
	onDisk(t, func(t2 *task.T, env Env, root string) {
		d := openDir(t2, env, root+"/data")
		l := must(d.Create(t2, "exp", [16]byte{1}, 0, Config{SegmentBytes: 1048576}))
		for seq := int32(0); seq < 20000; seq += 4 {
			b := batchOf(4, 200, 1_700_000_000_000, idempotent(0, 0, seq))
			if len(b) != 897 {
				t.Fatalf("a batch has %d bytes", len(b))
			}
			info := must(l.Append(t2, 0, b, Client))
			if info.BaseOffset != int64(seq) || info.Duplicate {
				t.Fatalf("batch of sequence %d: %+v", seq, info)
			}
		}
		check(l.Flush(t2))
		bases := []int64{0, 4672, 9344, 14016, 18688}
		segs := l.Segments()
		if len(segs) != len(bases) {
			t.Fatalf("segments: %+v", segs)
		}
		size := func(base int64, suffix string) int64 {
			return fileSize(t2, env.Disk, segmentName(l.Path(), base, suffix))
		}
		expect := func(what string, got, want int64) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %d, measured %d", what, got, want)
			}
		}
		var total int64
		for i, base := range bases {
			expect("base", segs[i].BaseOffset, base)
			log, offsets, snapshot := int64(1047696), int64(1864), int64(56)
			if i == 4 {
				log, offsets = 294216, 10485760
				expect("active timeindex", size(base, timesSuffix), 10485756)
			}
			if i == 0 {
				snapshot = -1
			}
			expect(fmt.Sprint("log ", base), size(base, logSuffix), log)
			expect(fmt.Sprint("index ", base), size(base, offsetsSuffix), offsets)
			expect(fmt.Sprint("snapshot ", base), size(base, snapshotSuffix), snapshot)
			total += log
		}
		expect("log in all", total, 4485000)
		expect("Size", l.Size(), 4485000)
		expect("leader-epoch-checkpoint", fileSize(t2, env.Disk, l.Path()+"/leader-epoch-checkpoint"), 8)
		expect("partition.metadata", fileSize(t2, env.Disk, l.Path()+"/partition.metadata"), 43)

		f := must(env.Disk.Open(t2, segmentName(l.Path(), 0, offsetsSuffix), disk.Read))
		b := make([]byte, 1864)
		must(f.ReadAt(t2, b, 0))
		check(f.Close(t2))
		for i, e := range []index.Offset{{Rel: 23, Position: 4485}, {Rel: 43, Position: 8970}, {Rel: 63, Position: 13455}} {
			if got := index.OffsetAt(b, i); got != e {
				t.Errorf("index entry %d: %+v, measured %+v", i, got, e)
			}
		}
		// Offset 4730: segment 4672, entry 4715→8970, batch 4728–4731 at 12558.
		s := (*l.segs.Load())[1]
		check(l.loadSegment(t2, s))
		var buf []byte
		expect("floor of 4730", must(s.floor(t2, 4730, &buf)), 8970)
		l.SetHighWatermark(20000)
		var got Fetched
		check(l.Read(t2, 4730, 1<<20, ToHighWatermark, true, &got))
		expect("fetch of 4730 begins at", got.Ranges[0].Off, 12558)
		expect("fetch of 4730 has", got.Size, 1047696-12558)
		got.Release()
		check(d.CloseClean(t2, 7))
		expect("snapshot of the stop", size(20000, snapshotSuffix), 56)
		expect("closed index", size(18688, offsetsSuffix), 8*(294216/4485))
	})
}

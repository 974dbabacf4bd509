package storage

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/storage/producer"
	"seedlog/storage/record"
)

// inLog runs main with an empty log on a simulated machine.
func inLog(t *testing.T, cfg Config, main func(t *task.T, m *machine, d *Dir, l *Log)) {
	t.Helper()
	m := newMachine(t, 11)
	m.boot(func(tk *task.T, env Env) {
		d := openDir(tk, env, "/data/logs")
		main(tk, m, d, must(d.Create(tk, "a", [16]byte{1}, 0, cfg)))
		check(d.CloseClean(tk, 1))
	})
}

func expect(what string, got, want any) {
	if got != want {
		panic(fmt.Sprintf("%s: %v, want %v", what, got, want))
	}
}

func expectErr(what string, err, want error) {
	if !errors.Is(err, want) {
		panic(fmt.Sprintf("%s: %v, want %v", what, err, want))
	}
}

// B44, B45: any of the last five batches that is sent again is answered with its offsets.
func TestRetriesOfTheLastFiveBatches(t *testing.T) {
	inLog(t, Config{FlushMessages: 1}, func(tk *task.T, _ *machine, _ *Dir, l *Log) {
		for seq := int32(0); seq < 14; seq += 2 {
			must(l.Append(tk, 0, batchOf(2, 10, 1000, idempotent(7, 0, seq)), Client))
		}
		for seq := int32(4); seq < 14; seq += 2 {
			info := must(l.Append(tk, 0, batchOf(2, 10, 1000, idempotent(7, 0, seq)), Client))
			if !info.Duplicate || info.BaseOffset != int64(seq) || info.LastOffset != int64(seq)+1 || !info.MustSync {
				panic(fmt.Sprintf("retry of sequence %d: %+v", seq, info))
			}
		}
		_, err := l.Append(tk, 0, batchOf(2, 10, 1000, idempotent(7, 0, 0)), Client)
		expectErr("retry of the oldest", err, producer.ErrDuplicate)
		_, err = l.Append(tk, 0, batchOf(2, 10, 1000, idempotent(7, 0, 16)), Client)
		expectErr("gap", err, producer.ErrOutOfOrder)
		expect("log end", l.LogEndOffset(), int64(14))
		check(l.SyncTo(tk, 14))
		info := must(l.Append(tk, 0, batchOf(2, 10, 1000, idempotent(7, 0, 12)), Client))
		expect("MustSync of a durable duplicate", info.MustSync, false)
	})
}

func TestLogAppendTimeStampsTheBatch(t *testing.T) {
	inLog(t, Config{TimestampType: LogAppendTime}, func(tk *task.T, _ *machine, _ *Dir, l *Log) {
		before := tk.UnixMilli()
		info := must(l.Append(tk, 3, batchOf(2, 10, 5, nil), Client))
		if info.LogAppendTimeMs < before || info.LogAppendTimeMs > tk.UnixMilli() {
			panic(fmt.Sprintf("stamped %d at %d", info.LogAppendTimeMs, before))
		}
		b := readAll(tk, l, ToLogEnd)
		check(record.CheckCRC(b))
		h := must(record.ParseHeader(b))
		expect("timestamp", h.MaxTimestamp, info.LogAppendTimeMs)
		expect("leader epoch", h.LeaderEpoch, int32(3))
		expect("time look-up", must(l.OffsetForTime(tk, before)), TimeOffset{info.LogAppendTimeMs, 0, 3})
	})
}

// B33: what does not continue the log is refused, and so are damaged bytes.
func TestFollowerAppendsAreChecked(t *testing.T) {
	inLog(t, Config{}, func(tk *task.T, _ *machine, _ *Dir, l *Log) {
		b := batchOf(3, 10, 5, nil)
		record.Stamp(b, 10, 2)
		info := must(l.AppendFollower(tk, b))
		expect("base", info.BaseOffset, int64(10))
		_, err := l.AppendFollower(tk, b)
		expectErr("the same again", err, ErrUnexpectedOffset)
		record.Stamp(b, 20, 1)
		_, err = l.AppendFollower(tk, b)
		expectErr("an older epoch", err, ErrEpoch)
		record.Stamp(b, 20, 2)
		b[len(b)-1] ^= 1
		_, err = l.AppendFollower(tk, b)
		expectErr("a flipped bit", err, record.ErrCorrupt)
		info = must(l.AppendFollower(tk, b[:20]))
		expect("batches in a torn reply", info.Batches, 0)
		expect("log end", l.LogEndOffset(), int64(13))
		_, err = l.Append(tk, 1, batchOf(1, 1, 1, nil), Client)
		expectErr("a leader of an older epoch", err, ErrEpoch)
	})
}

// B7: a leadership without a write has its entry, and loses it to one that begins there too.
func TestEpochsOfLeadershipsWithoutWrites(t *testing.T) {
	inLog(t, Config{}, func(tk *task.T, _ *machine, _ *Dir, l *Log) {
		expect("start", must(l.AssignEpochStart(tk, 0)), int64(0))
		must(l.Append(tk, 0, batchOf(5, 1, 1, nil), Client))
		expect("start", must(l.AssignEpochStart(tk, 4)), int64(5))
		expect("start", must(l.AssignEpochStart(tk, 6)), int64(5))
		expect("latest", l.LatestEpoch(), int32(6))
		for _, c := range []struct{ ask, epoch, end int64 }{{0, 0, 5}, {4, 0, 5}, {5, 0, 5}, {6, 6, 5}, {7, -1, -1}} {
			e, end := l.EndOffsetForEpoch(int32(c.ask))
			expect(fmt.Sprint("epoch of ", c.ask), int64(e), c.epoch)
			expect(fmt.Sprint("end of ", c.ask), end, c.end)
		}
		must(l.Append(tk, 6, batchOf(1, 1, 1, nil), Client))
		expect("epoch at 5", l.EpochAt(5), int32(6))
	})
}

// B20: the high watermark's position belongs to a segment: after a roll at the watermark the
// new segment shows nothing.
func TestHighWatermarkAtARoll(t *testing.T) {
	inLog(t, Config{}, func(tk *task.T, _ *machine, _ *Dir, l *Log) {
		must(l.Append(tk, 0, batchOf(3, 10, 1, nil), Client))
		l.SetHighWatermark(3)
		check(l.Roll(tk))
		must(l.Append(tk, 0, batchOf(3, 10, 1, nil), Client))
		var f Fetched
		for _, at := range []int64{3, 4} {
			check(l.Read(tk, at, 1<<20, ToHighWatermark, true, &f))
			expect(fmt.Sprint("bytes at ", at), f.Size, int64(0))
		}
		check(l.Read(tk, 2, 1<<20, ToHighWatermark, true, &f))
		expect("bytes at 2", f.Size, (*l.segs.Load())[0].size.Load())
		f.Release()
		expectErr("beyond the end", l.Read(tk, 7, 1, ToHighWatermark, true, &f), ErrOffsetOutOfRange)
	})
}

func TestFirstBatchComesWholeOrIsReported(t *testing.T) {
	inLog(t, Config{}, func(tk *task.T, _ *machine, _ *Dir, l *Log) {
		must(l.Append(tk, 0, batchOf(1, 500, 1, nil), Client))
		must(l.Append(tk, 0, batchOf(1, 10, 1, nil), Client))
		first := int64(len(batchOf(1, 500, 1, nil)))
		var f Fetched
		check(l.Read(tk, 0, 100, ToLogEnd, true, &f))
		expect("with minOne", f.Size, first)
		check(l.Read(tk, 0, 100, ToLogEnd, false, &f))
		expect("without", f.Size, int64(100))
		expect("said so", f.FirstBatchIncomplete, true)
		check(l.Read(tk, 0, int32(first)+1, ToLogEnd, true, &f))
		expect("cut in the second", f.Size, first+1)
		f.Release()
	})
}

// Rolling and deleting do not disturb a reader; truncating ends it.
func TestReadersAndDisappearingBytes(t *testing.T) {
	inLog(t, Config{SegmentBytes: 1000, FileDeleteDelayMs: 60_000}, func(tk *task.T, _ *machine, d *Dir, l *Log) {
		for range 30 {
			must(l.Append(tk, 0, plainBatch(), Client))
		}
		l.SetHighWatermark(30)
		var deleted, cut, below Fetched
		check(l.Read(tk, 0, 1<<20, ToLogEnd, true, &deleted))
		check(l.Read(tk, 25, 1<<20, ToLogEnd, true, &cut))
		check(l.Read(tk, 10, 200, ToLogEnd, true, &below))
		want := bytes.Clone(must(l.ReadInto(tk, 0, 1<<20, ToLogEnd, true, nil)))
		expect("log start", must(l.DeleteRecords(tk, 7)), int64(7))
		check(l.TruncateTo(tk, 20))
		expectErr("reading what was deleted", l.Read(tk, 3, 1, ToLogEnd, true, new(Fetched)), ErrOffsetOutOfRange)
		got := make([]byte, 0, deleted.Size)
		check(deleted.copyTo(tk, &got))
		if !bytes.Equal(got, want) {
			panic("a reader of a deleted segment sees other bytes")
		}
		expect("the range above the cut ended", cut.Ranges[0].Cut(), true)
		expect("the range below it did not", below.Ranges[0].Cut(), false)
		deleted.Release()
		cut.Release()
		below.Release()
	})
}

// B35: the late unlinking of a truncated segment does not hit its successor of the same name.
func TestLateUnlinkingSparesTheSuccessor(t *testing.T) {
	inLog(t, Config{SegmentBytes: 1000, FileDeleteDelayMs: 50}, func(tk *task.T, _ *machine, d *Dir, l *Log) {
		var want []byte
		for round := range 4 {
			for range 20 {
				must(l.Append(tk, int32(round), plainBatch(), Client))
			}
			want = readAll(tk, l, ToLogEnd)
			if round < 3 {
				check(l.TruncateTo(tk, 3))
			}
		}
		tk.Sleep(tk.Now().Add(time.Second))
		if next := d.Housekeep(tk); next < clock.Never {
			d.Housekeep(tk)
		}
		if !bytes.Equal(readAll(tk, l, ToLogEnd), want) {
			panic("the log lost bytes to the unlinking")
		}
		infos := must(l.env.Disk.ReadDir(tk, l.Path()))
		for _, in := range infos {
			if bytes.HasSuffix([]byte(in.Name), []byte(deletedSuffix)) {
				panic("not unlinked: " + in.Name)
			}
		}
	})
}

// A segment is as old as its first batch: the timestamps decide, not the clock.
func TestSegmentsRollByTimestamp(t *testing.T) {
	inLog(t, Config{SegmentMs: 10_000}, func(tk *task.T, m *machine, _ *Dir, l *Log) {
		base := int64(1_000_000)
		for _, ts := range []int64{base, base + 9_000, base + 10_000, base + 10_001, base + 12_000} {
			must(l.Append(tk, 0, batchOf(1, 1, ts, nil), Client))
		}
		expect("segments", len(l.Segments()), 2)
		expect("the second begins at", l.Segments()[1].BaseOffset, int64(3))
		l.SetConfig(Config{SegmentMs: 10_000, SegmentJitterMs: 10_000})
		if l.jitterMs < 0 || l.jitterMs >= 10_000 {
			panic("jitter out of range")
		}
	})
}

// The housekeeping task writes index entries within a second, and syncs by flush.ms.
func TestHousekeeping(t *testing.T) {
	inLog(t, Config{IndexIntervalBytes: 100, FlushMs: 3000}, func(tk *task.T, m *machine, d *Dir, l *Log) {
		tk.Go("housekeeping", d.Run)
		for range 10 {
			must(l.Append(tk, 0, plainBatch(), Client))
		}
		s := l.active()
		expect("an entry is in memory", s.offsets.Dirty(), true)
		tk.Sleep(tk.Now().Add(1500 * time.Millisecond))
		for s.offsets.Dirty() { // the scheduler may hold the task back
			tk.Sleep(tk.Now().Add(100 * time.Millisecond))
		}
		expect("synced", l.SyncedEnd(), int64(0))
		for start := tk.Now(); l.SyncedEnd() != 10; {
			if !tk.Sleep(tk.Now().Add(100*time.Millisecond)) || tk.Now().Sub(start) > time.Minute {
				panic("flush.ms never came")
			}
		}
		expect("next", d.nextDue(), clock.Never)
		tk.Group().Stop()
	})
}

func TestFlushMessagesSyncsInTheAppend(t *testing.T) {
	inLog(t, Config{FlushMessages: 3}, func(tk *task.T, _ *machine, _ *Dir, l *Log) {
		for i := int64(1); i <= 7; i++ {
			info := must(l.Append(tk, 0, plainBatch(), Client))
			expect("MustSync", info.MustSync, false)
			expect("synced end", l.SyncedEnd(), i/3*3)
		}
	})
}

// Group commit: those who wait while one syncs share the next sync.
func TestGroupCommit(t *testing.T) {
	inLog(t, Config{FlushMessages: 1}, func(tk *task.T, m *machine, d *Dir, l *Log) {
		var told int64
		l.OnSynced(func(end int64) {
			if end <= told {
				panic("the synced end did not advance")
			}
			told = end
		})
		before := m.events.count(LogFlushed)
		g := task.NewGroup(tk.Runtime(), "clients")
		const clients, each = 20, 10
		for range clients {
			g.Go("client", func(t *task.T) {
				for range each {
					info := must(l.Append(t, 0, plainBatch(), Client))
					check(l.SyncTo(t, info.LastOffset+1))
					if l.SyncedEnd() <= info.LastOffset {
						panic("acknowledged before it was synced")
					}
				}
			})
		}
		g.Wait(tk)
		expect("synced end", told, int64(clients*each))
		if n := m.events.count(LogFlushed) - before; n > clients*each/2 {
			panic(fmt.Sprintf("%d syncs for %d appends of %d clients", n, clients*each, clients))
		}
	})
}

// Many segments, few descriptors.
func TestDescriptorsAreBounded(t *testing.T) {
	m := newMachine(t, 12)
	m.boot(func(tk *task.T, env Env) {
		d := must(OpenDir(tk, env, "/data/logs", DirConfig{MaxOpenFiles: 4}))
		l := must(d.Create(tk, "a", [16]byte{1}, 0, Config{SegmentBytes: 500}))
		for range 100 {
			must(l.Append(tk, 0, plainBatch(), Client))
		}
		check(l.Flush(tk))
		if len(l.Segments()) < 25 {
			panic("too few segments for the test")
		}
		var held []Fetched
		for at := int64(0); at < 100; at += 9 {
			var f Fetched
			check(l.Read(tk, at, 1000, ToLogEnd, true, &f))
			must(l.OffsetForTime(tk, at))
			held = append(held, f)
		}
		if d.files.open > 4+1+len(held) { // and the active segment's, and those that are being sent
			panic(fmt.Sprintf("%d descriptors are open", d.files.open))
		}
		for i := range held {
			var b []byte = make([]byte, 0, held[i].Size)
			check(held[i].copyTo(tk, &b))
			held[i].Release()
		}
		must(l.OffsetForTime(tk, 0))
		must(l.OffsetForTime(tk, 50))
		if d.files.open > 4+1 {
			panic(fmt.Sprintf("%d descriptors are open, and nothing is being sent", d.files.open))
		}
		check(d.CloseClean(tk, 1))
	})
}

// What is being sent is cut with the log, whichever descriptors were needed meanwhile: what is
// appended next is not sent in its place.
func TestATruncationCutsWhatWasReadLongAgo(t *testing.T) {
	m := newMachine(t, 12)
	m.boot(func(tk *task.T, env Env) {
		d := must(OpenDir(tk, env, "/data/logs", DirConfig{MaxOpenFiles: 4}))
		l := must(d.Create(tk, "a", [16]byte{1}, 0, Config{SegmentBytes: 500}))
		for range 40 {
			must(l.Append(tk, 0, plainBatch(), Client))
		}
		var held, f Fetched
		check(l.Read(tk, 0, 1000, ToLogEnd, true, &held))
		for at := int64(39); at > 5; at-- {
			check(l.Read(tk, at, 1000, ToLogEnd, true, &f))
			f.Release()
		}
		if d.files.open > 4+1+1 { // the active segment's, and what is being sent
			panic(fmt.Sprintf("%d descriptors are open", d.files.open))
		}
		check(l.TruncateTo(tk, 1))
		must(l.Append(tk, 1, plainBatch(), Client))
		if !held.Ranges[0].Cut() {
			panic("what was cut off the log is sent on")
		}
		held.Release()
		check(d.CloseClean(tk, 1))
	})
}

// A directory has one process; its logs one name each.
func TestNamesAreExclusive(t *testing.T) {
	inLog(t, Config{}, func(tk *task.T, m *machine, d *Dir, l *Log) {
		_, err := OpenDir(tk, d.env, "/data/logs", DirConfig{})
		expectErr("opening twice", err, disk.ErrLocked)
		_, err = d.Create(tk, "a", [16]byte{2}, 0, Config{})
		expectErr("creating twice", err, ErrExists)
		_, err = l.Append(tk, 0, make([]byte, 2), Client)
		expectErr("appending nonsense", err, record.ErrShort)
		l.SetConfig(Config{SegmentBytes: 100})
		_, err = l.Append(tk, 0, batchOf(1, 200, 1, nil), Client)
		expectErr("appending more than a segment", err, ErrBatchTooLarge)
	})
}

package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"seedlog/clock/live"
	"seedlog/clock/task"
	"seedlog/disk/osfs"
	"seedlog/storage/record"
)

// Writers, readers, deletions and truncations at once on goroutines and a real disk: for the
// race detector, and for what is not atomic outside of the simulator.
func TestConcurrentUseOnARealDisk(t *testing.T) {
	rt := live.New(live.Options{Chaos: 1})
	root := t.TempDir()
	live.Main(rt, func(tk *task.T) {
		env := Env{RT: rt, Disk: osfs.New(osfs.Options{}), Rand: rand.New(rand.NewPCG(1, 2))}
		d := must(OpenDir(tk, env, root+"/logs", DirConfig{MaxOpenFiles: 3, RecoveryThreads: 2}))
		l := must(d.Create(tk, "a", [16]byte{1}, 0, Config{SegmentBytes: 20_000, IndexIntervalBytes: 300, FlushMessages: 1, FileDeleteDelayMs: 5}))
		keeper := task.NewGroup(rt, "housekeeping")
		keeper.Go("housekeeping", d.Run)
		g := task.NewGroup(rt, "users")
		for w := range int64(2) {
			g.Go("writer", func(t *task.T) { writeSome(t, l, w) })
		}
		for i := range uint64(2) {
			g.Go("reader", func(t *task.T) { readSome(t, l, rand.New(rand.NewPCG(i, 3))) })
		}
		g.Go("deleter", func(t *task.T) {
			for range 20 {
				// A truncation may take the high watermark down in between.
				if _, err := l.DeleteRecords(t, l.HighWatermark()/2); err != nil && !errors.Is(err, ErrOffsetOutOfRange) {
					panic(err)
				}
			}
		})
		g.Go("truncater", func(t *task.T) {
			for range 15 {
				o := l.Offsets()
				check(l.TruncateTo(t, max(o.LogEnd-3, o.HighWatermark)))
			}
		})
		g.Wait(tk)
		keeper.Stop()
		keeper.Wait(tk)
		end := l.LogEndOffset()
		check(d.CloseClean(tk, 1))
		d = must(OpenDir(tk, env, root+"/logs", DirConfig{}))
		again := must(d.Load(tk, func(string, [16]byte) Config { return l.Config() }, nil))[0]
		expect("log end after a clean stop", again.LogEndOffset(), end)
		for i, s := range *again.segs.Load() {
			verifyIndexes(tk, again, s, i)
		}
		check(d.CloseClean(tk, 1))
	})
}

func writeSome(t *task.T, l *Log, id int64) {
	for n := range 300 {
		info := must(l.Append(t, 0, batchOf(1+n%3, 100, int64(n), nil), Client))
		if n%10 == 0 {
			check(l.SyncTo(t, info.LastOffset+1))
		}
		if n%4 == 0 {
			l.SetHighWatermark(max(l.HighWatermark(), info.LastOffset))
		}
	}
}

func readSome(t *task.T, l *Log, r *rand.Rand) {
	var buf []byte
	for range 300 {
		start, end := l.LogStartOffset(), l.LogEndOffset()
		at := start + r.Int64N(end-start+1)
		b, err := l.ReadInto(t, at, 4000, ToHighWatermark, true, buf)
		if errors.Is(err, ErrOffsetOutOfRange) {
			continue
		}
		check(err)
		buf = b
		for it := record.NewBatches(b); it.Next(); at = it.Header().NextOffset() {
			check(record.CheckCRC(it.Bytes()))
			if it.Header().NextOffset() <= at {
				panic(fmt.Sprintf("batch [%d, %d] in a read at %d", it.Header().BaseOffset, it.Header().LastOffset(), at))
			}
		}
		if r.IntN(10) == 0 {
			must(l.OffsetForTime(t, r.Int64N(300)))
		}
	}
}

func benchLog(b *testing.B, cfg Config, main func(t *task.T, l *Log)) {
	rt := live.New(live.Options{})
	live.Main(rt, func(tk *task.T) {
		env := Env{RT: rt, Disk: osfs.New(osfs.Options{})}
		d := must(OpenDir(tk, env, b.TempDir()+"/logs", DirConfig{}))
		main(tk, must(d.Create(tk, "a", [16]byte{1}, 0, cfg)))
		check(d.Close(tk))
	})
}

func BenchmarkAppend1KB(b *testing.B) {
	benchLog(b, Config{SegmentBytes: 256 << 20}, func(t *task.T, l *Log) {
		one := batchOf(1, 950, 1_700_000_000_000, nil)
		b.SetBytes(int64(len(one)))
		b.ReportAllocs()
		for b.Loop() {
			must(l.Append(t, 0, one, Client))
		}
	})
}

func BenchmarkAppend16KB(b *testing.B) {
	benchLog(b, Config{SegmentBytes: 256 << 20}, func(t *task.T, l *Log) {
		one := batchOf(16, 1000, 1_700_000_000_000, nil)
		b.SetBytes(int64(len(one)))
		b.ReportAllocs()
		for b.Loop() {
			must(l.Append(t, 0, one, Client))
		}
	})
}

func BenchmarkAppendSynced64Clients(b *testing.B) {
	benchLog(b, Config{SegmentBytes: 256 << 20, FlushMessages: 1}, func(t *task.T, l *Log) {
		g := task.NewGroup(t.Runtime(), "clients")
		left := task.Int64{}
		left.Store(int64(b.N))
		b.ResetTimer()
		for range 64 {
			g.Go("client", func(t *task.T) {
				one := batchOf(1, 950, 1_700_000_000_000, nil)
				for left.Add(-1) >= 0 {
					info := must(l.Append(t, 0, one, Client))
					check(l.SyncTo(t, info.LastOffset+1))
				}
			})
		}
		g.Wait(t)
	})
}

func benchRead(b *testing.B, bytes int32, at func(i, end int64) int64) {
	benchLog(b, Config{SegmentBytes: 16 << 20}, func(t *task.T, l *Log) {
		one := batchOf(1, 950, 1_700_000_000_000, nil)
		for range 50_000 {
			must(l.Append(t, 0, one, Client))
		}
		l.SetHighWatermark(50_000)
		var f Fetched
		i := int64(0)
		b.ReportAllocs()
		for b.Loop() {
			check(l.Read(t, at(i, 50_000), bytes, ToHighWatermark, true, &f))
			i++
		}
		f.Release()
	})
}

func BenchmarkReadTail(b *testing.B) {
	benchRead(b, 1<<20, func(i, end int64) int64 { return end - 1 - i%60 })
}

func BenchmarkReadRandom(b *testing.B) {
	benchRead(b, 1<<20, func(i, end int64) int64 { return i * 7919 % end })
}

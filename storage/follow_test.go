package storage

import (
	"testing"

	"seedlog/clock/task"
	"seedlog/storage/epoch"
	"seedlog/storage/record"
)

// inEpoch makes the options of a fetched batch.
func inEpoch(e int32, base int64) func(o *record.Options) {
	return func(o *record.Options) { o.LeaderEpoch, o.BaseOffset = e, base }
}

// An epoch that a leader began and never wrote in is forgotten when the replica truncates,
// even where there is nothing to cut: otherwise it asks with that epoch for ever.
func TestTruncationForgetsAnEpochWithoutRecords(t *testing.T) {
	inLog(t, Config{}, func(tk *task.T, _ *machine, _ *Dir, l *Log) {
		must(l.AppendFetched(tk, 3, batchOf(2, 10, 1000, inEpoch(3, 0))))
		must(l.AssignEpochStart(tk, 5))
		expect("latest epoch", l.LatestEpoch(), int32(5))
		check(l.TruncateTo(tk, 2))
		expect("latest epoch after truncating to the end", l.LatestEpoch(), int32(3))
		expect("log end", l.LogEndOffset(), int64(2))
		expect("epochs", len(l.Epochs()), 1)
		expect("first epoch", l.Epochs()[0], epoch.Entry{Epoch: 3, Start: 0})
	})
}

// KAFKA-18723: batches of a later epoch than the fetch's are left out.
func TestFetchedBatchesOfALaterEpochAreLeftOut(t *testing.T) {
	inLog(t, Config{}, func(tk *task.T, _ *machine, _ *Dir, l *Log) {
		fetched := append(batchOf(2, 10, 1000, inEpoch(3, 0)), batchOf(1, 10, 1000, inEpoch(4, 2))...)
		info := must(l.AppendFetched(tk, 3, fetched))
		expect("batches", info.Batches, 1)
		expect("log end", l.LogEndOffset(), int64(2))
		must(l.AppendFetched(tk, 4, batchOf(1, 10, 1000, inEpoch(4, 2))))
		expect("log end", l.LogEndOffset(), int64(3))
	})
}

// Fence waits for the append that is under way and refuses the next: nothing of an old
// leadership lands behind what its replica truncated.
func TestAFencedLeaderAppendsNoMore(t *testing.T) {
	inLog(t, Config{}, func(tk *task.T, _ *machine, _ *Dir, l *Log) {
		tries := tk.Group().Sub("leaders")
		ended := 0
		for range 4 {
			tries.Go("append", func(tk *task.T) {
				_, err := l.Append(tk, 2, batchOf(1, 10, 1000, nil), Client)
				if err != nil {
					expectErr("an append behind the fence", err, ErrEpoch)
				}
				ended++
			})
		}
		l.Fence(tk, 3)
		end := l.LogEndOffset()
		for ended < 4 {
			tk.Sleep(tk.Now().Add(1e6))
		}
		expect("log end", l.LogEndOffset(), end)
		_, err := l.Append(tk, 2, batchOf(1, 10, 1000, nil), Client)
		expectErr("append", err, ErrEpoch)
		must(l.Append(tk, 3, batchOf(1, 10, 1000, nil), Client))
		tries.Stop()
	})
}

// A leadership that is over does not begin again: it would take the epochs after it with it.
func TestAnOldEpochDoesNotBegin(t *testing.T) {
	inLog(t, Config{}, func(tk *task.T, _ *machine, _ *Dir, l *Log) {
		must(l.AppendFetched(tk, 6, batchOf(2, 10, 1000, inEpoch(6, 0))))
		_, err := l.AssignEpochStart(tk, 4)
		expectErr("epoch 4 after 6", err, ErrEpoch)
		expect("latest epoch", l.LatestEpoch(), int32(6))
		expect("end of epoch 6", must(l.AssignEpochStart(tk, 6)), int64(2))
	})
}

// A follower that takes many batches with one write begins its segments where a leader does that
// takes them one by one: where an index is full, too. Otherwise the index would lack the rest.
func TestFetchedBatchesFillNoIndexBeyondItsEnd(t *testing.T) {
	for _, cfg := range []Config{
		{IndexIntervalBytes: 90, SegmentIndexBytes: 8 * 5},
		{IndexIntervalBytes: 90, SegmentIndexBytes: 12 * 4},
		{IndexIntervalBytes: 300, SegmentIndexBytes: 8 * 3, SegmentBytes: 4000},
	} {
		inLog(t, cfg, func(tk *task.T, _ *machine, d *Dir, leader *Log) {
			follower := must(d.Create(tk, "follower", [16]byte{9}, 0, cfg))
			var all []byte
			for i := range int64(120) {
				b := batchOf(1, 10, 1000+i/3, inEpoch(0, i))
				must(leader.AppendFetched(tk, 0, b))
				all = append(all, b...)
			}
			must(follower.AppendFetched(tk, 0, all))
			one, many := *leader.segs.Load(), *follower.segs.Load()
			expect("segments", len(many), len(one))
			expect("more than one", len(one) > 3, true)
			for i := range one {
				expect("base", many[i].base, one[i].base)
				expect("index entries", many[i].offsets.Len(), one[i].offsets.Len())
				expect("time entries", many[i].times.Len(), one[i].times.Len())
			}
		})
	}
}

// A high watermark is stored now and then. Where a crash or a truncation takes some of what it says
// is committed, a later start must not take for committed what is appended there instead.
func TestALostHighWatermarkDoesNotComeBack(t *testing.T) {
	grow := func(tk *task.T, l *Log) { must(l.Append(tk, 1, batchOf(9, 10, 1000, nil), Client)) }
	load := func(tk *task.T, env Env) *Log {
		d := openDir(tk, env, "/data/logs")
		return must(d.Load(tk, func(string, [16]byte) Config { return Config{} }, nil))[0]
	}
	// written is a log whose high watermark of 11 is stored, with 2 records that are durable.
	written := func(m *machine, then func(tk *task.T, l *Log)) {
		m.boot(func(tk *task.T, env Env) {
			d := openDir(tk, env, "/data/logs")
			l := must(d.Create(tk, "a", [16]byte{1}, 0, Config{}))
			must(l.Append(tk, 0, batchOf(2, 10, 1000, nil), Client))
			check(l.Flush(tk))
			grow(tk, l)
			l.SetHighWatermark(11)
			check(d.CheckpointHighWatermarks(tk))
			then(tk, l)
		})
	}
	uncommitted := func(m *machine) {
		m.boot(func(tk *task.T, env Env) {
			l := load(tk, env)
			expect("what was appended last is there", l.LogEndOffset() >= 9, true)
			expect("and not committed", l.HighWatermark() <= 2, true)
		})
	}
	for name, cut := range map[string]func(tk *task.T, l *Log) error{
		"by a truncation":         func(tk *task.T, l *Log) error { return l.TruncateTo(tk, 2) },
		"by a new beginning at 0": func(tk *task.T, l *Log) error { return l.TruncateFullyAt(tk, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, 1)
			written(m, func(tk *task.T, l *Log) { check(cut(tk, l)); grow(tk, l) })
			uncommitted(m)
		})
	}
	t.Run("by a power loss", func(t *testing.T) {
		effective := 0
		for seed := range uint64(20) {
			m := newMachine(t, seed)
			written(m, func(*task.T, *Log) {})
			m.d.PowerLoss()
			lost := false
			m.boot(func(tk *task.T, env Env) {
				l := load(tk, env)
				lost = l.LogEndOffset() < 11
				grow(tk, l)
			})
			if lost {
				effective++
				uncommitted(m)
			}
		}
		if effective < 5 {
			t.Errorf("%d of 20 power losses took something", effective)
		}
	})
}

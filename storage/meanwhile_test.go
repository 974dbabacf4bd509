package storage

import (
	"fmt"
	"testing"
	"time"

	"seedlog/clock/task"
	"seedlog/storage/record"
)

// A file that is being renamed can be opened all the time, wherever it lies.
func TestOpenDuringARename(t *testing.T) {
	for seed := range uint64(100) {
		m := newMachine(t, seed)
		m.boot(func(tk *task.T, env Env) {
			d := openDir(tk, env, "/data/logs")
			l := must(d.Create(tk, "a", [16]byte{1}, 0, Config{}))
			h := &l.active().offsetsFile
			g := task.NewGroup(env.RT, "open")
			done := false
			g.Go("open", func(t *task.T) {
				for !done {
					must(d.files.acquire(t, h))
					d.files.release(t, h)
					check(d.files.setMode(t, h, 1-h.mode)) // closes it
				}
			})
			check(d.files.rename(tk, h, h.path+deletedSuffix))
			done = true
			g.Wait(tk)
		})
	}
}

// Syncs go on while a log is emptied, cut and trimmed, and files are unlinked at once: what is
// gone needs no sync, and takes nothing offline.
func TestSyncDuringTruncations(t *testing.T) {
	for seed := range uint64(40) {
		m := newMachine(t, seed)
		m.boot(func(tk *task.T, env Env) {
			d := openDir(tk, env, "/data/logs")
			l := must(d.Create(tk, "a", [16]byte{1}, 0, Config{SegmentBytes: 400, FileDeleteDelayMs: -1}))
			g := task.NewGroup(env.RT, "others")
			g.Go("housekeeping", d.Run)
			done := false
			g.Go("sync", func(t *task.T) {
				for !done {
					check(l.Flush(t))
					t.Sleep(t.Now().Add(time.Microsecond))
				}
			})
			for n := range 12 {
				for range 5 {
					must(l.Append(tk, 0, plainBatch(), Client))
				}
				end := l.LogEndOffset()
				l.SetHighWatermark(end - 2)
				switch n % 3 {
				case 0:
					must(l.DeleteRecords(tk, end-2))
				case 1:
					check(l.TruncateTo(tk, end-3))
				default:
					check(l.TruncateFullyAt(tk, end))
				}
			}
			done = true
			g.Stop()
			g.Wait(tk)
			check(d.CloseClean(tk, 1))
		})
	}
}

// A new leadership begins where the appends of the one before end, those that are under way as
// well, and refuses what comes later (I12).
func TestAnEpochBeginsBehindTheAppendsUnderWay(t *testing.T) {
	for seed := range uint64(20) {
		m := newMachine(t, seed)
		m.boot(func(tk *task.T, env Env) {
			d := openDir(tk, env, "/data/logs")
			l := must(d.Create(tk, "a", [16]byte{1}, 0, Config{SegmentBytes: 400}))
			g := task.NewGroup(env.RT, "producers")
			for range 3 {
				g.Go("producer", func(t *task.T) {
					for {
						if _, err := l.Append(t, 3, plainBatch(), Client); err != nil {
							expectErr("after the change", err, ErrEpoch)
							return
						}
					}
				})
			}
			for l.LogEndOffset() < 5 {
				tk.Sleep(tk.Now().Add(time.Microsecond))
			}
			start := must(l.AssignEpochStart(tk, 5))
			g.Wait(tk)
			must(l.Append(tk, 5, plainBatch(), Client))
			if _, end := l.EndOffsetForEpoch(3); end != start || l.LogEndOffset() != start+1 {
				panic(fmt.Sprintf("epoch 5 begins at %d, epoch 3 ends at %d, the log at %d", start, end, l.LogEndOffset()))
			}
			for it := record.NewBatches(readAll(tk, l, ToLogEnd)); it.Next(); {
				if h := it.Header(); (h.BaseOffset >= start) != (h.LeaderEpoch == 5) {
					panic(fmt.Sprintf("offset %d has epoch %d, epoch 5 begins at %d", h.BaseOffset, h.LeaderEpoch, start))
				}
			}
			check(d.CloseClean(tk, 1))
		})
	}
}

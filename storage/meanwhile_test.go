package storage

import (
	"testing"

	"seedlog/clock/task"
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
					t.Sleep(t.Now().Add(1000))
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

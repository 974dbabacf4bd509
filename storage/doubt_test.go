package storage

import (
	"testing"
	"time"

	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/sim/simdisk"
)

// B72 over a restart: after a failed sync the kernel may hold pages that it takes for clean and
// that are on no disk. The process that comes next can read them; to sync them again proves
// nothing. What it says to be synced has to survive a power loss all the same.
func TestWhatAFailedSyncLeftInTheCacheIsNotTakenForDurable(t *testing.T) {
	cached := 0
	for seed := range uint64(40) {
		m := newMachine(t, seed)
		m.boot(func(tk *task.T, env Env) {
			d := openDir(tk, env, "/data/logs")
			l := must(d.Create(tk, "a", [16]byte{1}, 0, Config{SegmentBytes: 2000}))
			must(l.Append(tk, 0, plainBatch(), Client))
			check(l.SyncTo(tk, 1))
			m.d.Arm(&simdisk.Injection{Fault: simdisk.SyncForgets, Match: isLog})
			var err error
			for n := 0; err == nil; n++ { // from some seeds on a roll's sync is what fails
				if _, err = l.Append(tk, 0, plainBatch(), Client); err == nil && n > int(seed) {
					err = l.Flush(tk)
				}
			}
			expectOffline(err, disk.ErrIO)
		})
		var synced int64
		m.boot(func(tk *task.T, env Env) {
			d := openDir(tk, env, "/data/logs")
			l := must(d.Load(tk, func(string, [16]byte) Config { return Config{} }, nil))[0]
			check(l.Flush(tk))
			synced = l.SyncedEnd()
			if synced > 2 {
				cached++
			}
		})
		m.d.PowerLoss()
		m.boot(func(tk *task.T, env Env) {
			d := openDir(tk, env, "/data/logs")
			l := must(d.Load(tk, func(string, [16]byte) Config { return Config{} }, nil))[0]
			if end := l.LogEndOffset(); end < synced {
				t.Errorf("seed %d: %d records were synced, the power loss left %d", seed, synced, end)
			}
			check(d.Close(tk))
		})
	}
	if cached == 0 {
		t.Error("in no seed was the forgotten data still in the cache")
	}
}

// The log start never goes back for those who saw it: it is durable before it is shown.
func TestALogStartIsDurableBeforeItIsSeen(t *testing.T) {
	moved := 0
	for seed := range uint64(60) {
		m := newMachine(t, seed)
		var seen int64
		m.boot(func(tk *task.T, env Env) {
			d := openDir(tk, env, "/data/logs")
			l := must(d.Create(tk, "a", [16]byte{1}, 0, Config{SegmentBytes: 500}))
			for range 20 {
				must(l.Append(tk, 0, plainBatch(), Client))
			}
			check(l.Flush(tk))
			l.SetHighWatermark(20)
			rt := m.rt
			tk.Go("trimmer", func(tk *task.T) {
				for before := int64(1); before < 20; before++ {
					must(l.DeleteRecords(tk, before))
				}
			})
			until := tk.Now().Add(time.Duration(m.s.Stream("killer").Int64N(10e6)))
			for tk.Now() < until {
				tk.Park(until)
				seen = l.LogStartOffset()
			}
			rt.Kill()
		})
		if seen > 0 {
			moved++
		}
		m.d.PowerLoss()
		m.boot(func(tk *task.T, env Env) {
			d := openDir(tk, env, "/data/logs")
			l := must(d.Load(tk, func(string, [16]byte) Config { return Config{} }, nil))[0]
			if start := l.LogStartOffset(); start < seen {
				t.Errorf("seed %d: the log start was %d and is %d after a power loss", seed, seen, start)
			}
			check(d.Close(tk))
		})
	}
	if moved == 0 {
		t.Error("in no seed the log start had moved")
	}
}

// A follower's log start is as durable as its leader's, whether a segment goes with it or not:
// its next process begins there, and its epochs do, too. A start that went back would be below
// the epochs that were dropped with it.
func TestAFollowersLogStartOutlivesAKill(t *testing.T) {
	for _, power := range []bool{false, true} {
		m := newMachine(t, 3)
		m.boot(func(tk *task.T, env Env) {
			d := openDir(tk, env, "/data/logs")
			l := must(d.Create(tk, "a", [16]byte{1}, 0, Config{}))
			for range 10 {
				must(l.Append(tk, 4, plainBatch(), Client))
			}
			check(l.Flush(tk))
			check(l.MoveLogStart(tk, 7))
			m.rt.Kill()
		})
		if power {
			m.d.PowerLoss()
		}
		m.boot(func(tk *task.T, env Env) {
			d := openDir(tk, env, "/data/logs")
			l := must(d.Load(tk, func(string, [16]byte) Config { return Config{} }, nil))[0]
			if start, epochs := l.LogStartOffset(), l.Epochs(); start != 7 || len(epochs) != 1 || epochs[0].Start != 7 {
				t.Errorf("power loss %v: the log begins at %d, its epochs are %v", power, start, epochs)
			}
			check(d.Close(tk))
		})
	}
}

// A log that begins anew below its start, for another leader has more, is not emptied by the start
// that was stored before: a follower that was in sync would come back without what it has.
func TestALogThatBeginsAnewBelowItsStartOutlivesAKill(t *testing.T) {
	for _, power := range []bool{false, true} {
		m := newMachine(t, 3)
		m.boot(func(tk *task.T, env Env) {
			d := openDir(tk, env, "/data/logs")
			l := must(d.Create(tk, "a", [16]byte{1}, 0, Config{}))
			for range 10 {
				must(l.Append(tk, 4, plainBatch(), Client))
			}
			check(l.Flush(tk))
			check(l.MoveLogStart(tk, 7))
			check(l.TruncateFullyAt(tk, 3))
			for range 3 {
				must(l.Append(tk, 5, plainBatch(), Client))
			}
			check(l.Flush(tk))
			m.rt.Kill()
		})
		if power {
			m.d.PowerLoss()
		}
		m.boot(func(tk *task.T, env Env) {
			d := openDir(tk, env, "/data/logs")
			l := must(d.Load(tk, func(string, [16]byte) Config { return Config{} }, nil))[0]
			if o := l.Offsets(); o.LogStart != 3 || o.LogEnd != 6 {
				t.Errorf("power loss %v: the log is [%d, %d)", power, o.LogStart, o.LogEnd)
			}
			check(d.Close(tk))
		})
	}
}

// The CRC of a batch covers neither its offset nor its epoch. A write that was torn there, at a
// sector's border, leaves a batch that is sound by itself and does not follow.
func TestATornHeaderEndsTheLog(t *testing.T) {
	for at, field := range map[int64]string{0: "offset", 12: "epoch"} {
		m := newMachine(t, 1)
		m.boot(func(tk *task.T, env Env) {
			d := openDir(tk, env, "/data/logs")
			l := must(d.Create(tk, "a", [16]byte{1}, 0, Config{}))
			must(l.Append(tk, 7, plainBatch(), Client))
			pos := l.Size()
			must(l.Append(tk, 7, plainBatch(), Client))
			f := must(env.Disk.Open(tk, "/data/logs/a-0/00000000000000000000.log", disk.Write))
			must(f.WriteAt(tk, make([]byte, 8-at/3), pos+at))
		})
		m.boot(func(tk *task.T, env Env) {
			d := openDir(tk, env, "/data/logs")
			l := must(d.Load(tk, func(string, [16]byte) Config { return Config{} }, nil))[0]
			if end := l.LogEndOffset(); end != 1 {
				t.Errorf("torn %s: the log ends at %d", field, end)
			}
			check(d.Close(tk))
		})
	}
}

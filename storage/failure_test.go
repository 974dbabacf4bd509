package storage

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/sim/simdisk"
	"seedlog/storage/checkpoint"
)

func isLog(path string) bool { return strings.HasSuffix(path, logSuffix) }

// plainBatch is a batch of one record without a producer.
func plainBatch() []byte { return batchOf(1, 100, 1_700_000_000_000, nil) }

func expectOffline(err error, cause error) {
	if !errors.Is(err, ErrOffline) || cause != nil && !errors.Is(err, cause) {
		panic("expected offline, got " + errText(err))
	}
}

func errText(err error) string {
	if err == nil {
		return "no error"
	}
	return err.Error()
}

// I34, B72: after a failed sync nothing is appended, acknowledged or synced again, on any log
// of the directory, and a kernel that forgot the data is not believed.
func TestFailedSyncTakesTheDirectoryOffline(t *testing.T) {
	for _, fault := range []simdisk.Fault{simdisk.SyncError, simdisk.SyncForgets} {
		m := newMachine(t, uint64(fault))
		m.boot(func(tk *task.T, env Env) {
			d := openDir(tk, env, "/data/logs")
			a := must(d.Create(tk, "a", [16]byte{1}, 0, Config{FlushMessages: 1}))
			b := must(d.Create(tk, "b", [16]byte{2}, 0, Config{FlushMessages: 1}))
			told := 0
			d.OnOffline(func(error) { told++ })
			must(a.Append(tk, 0, plainBatch(), Client))
			check(a.SyncTo(tk, 1))
			must(a.Append(tk, 0, plainBatch(), Client))
			must(b.Append(tk, 0, plainBatch(), Client))
			m.d.Arm(&simdisk.Injection{Fault: fault, Match: func(p string) bool { return isLog(p) && strings.Contains(p, "/a-0/") }})
			g := task.NewGroup(env.RT, "waiters")
			failed := 0
			for range 3 {
				g.Go("waiter", func(t *task.T) {
					if err := a.SyncTo(t, 2); errors.Is(err, ErrOffline) {
						failed++
					}
				})
			}
			g.Wait(tk)
			if failed != 3 || told != 1 || a.SyncedEnd() != 1 {
				panic("a waiter was acknowledged after the failed sync")
			}
			expectOffline(a.SyncTo(tk, 2), nil)
			_, err := a.Append(tk, 0, plainBatch(), Client)
			expectOffline(err, disk.ErrIO)
			_, err = b.Append(tk, 0, plainBatch(), Client)
			expectOffline(err, disk.ErrIO)
			expectOffline(b.SyncTo(tk, 1), disk.ErrIO)
			if len(readAll(tk, b, ToLogEnd)) == 0 {
				panic("the directory's other logs are not readable")
			}
			var f Fetched
			expectOffline(a.Read(tk, 0, 100, ToLogEnd, true, &f), disk.ErrIO) // its bytes are in doubt
			if err := d.CloseClean(tk, 1); err == nil {
				panic("an offline directory was closed as a clean one")
			}
		})
		m.d.PowerLoss()
		m.boot(func(tk *task.T, env Env) {
			d := openDir(tk, env, "/data/logs")
			logs := must(d.Load(tk, func(string, [16]byte) Config { return Config{} }, nil))
			if d.WasClean() || logs[0].LogEndOffset() < 1 || logs[0].LogEndOffset() > 2 {
				panic("recovered wrongly")
			}
			check(d.Close(tk))
		})
	}
}

// B32: after a failed write no append is accepted, at once.
func TestFailedWriteTakesTheDirectoryOffline(t *testing.T) {
	m := newMachine(t, 1)
	m.boot(func(tk *task.T, env Env) {
		d := openDir(tk, env, "/data/logs")
		l := must(d.Create(tk, "a", [16]byte{1}, 0, Config{}))
		must(l.Append(tk, 0, plainBatch(), Client))
		m.d.Arm(&simdisk.Injection{Fault: simdisk.WriteError, Match: isLog})
		_, err := l.Append(tk, 0, plainBatch(), Client)
		expectOffline(err, disk.ErrIO)
		_, err = l.Append(tk, 0, plainBatch(), Client)
		expectOffline(err, disk.ErrIO)
		if l.LogEndOffset() != 1 || m.events.count(DirOffline) != 1 {
			panic("the failed append is visible")
		}
	})
	m.boot(func(tk *task.T, env Env) {
		d := openDir(tk, env, "/data/logs")
		l := must(d.Load(tk, func(string, [16]byte) Config { return Config{} }, nil))[0]
		// The process died, the machine did not: what was written is there, a part is cut.
		if end := l.LogEndOffset(); end != 1 && end != 2 {
			panic("recovered wrongly")
		}
		check(d.Close(tk))
	})
}

// S11: a full disk takes one directory offline; the ballast lets deletions through.
func TestFullDisk(t *testing.T) {
	m := newMachine(t, 2)
	m.boot(func(tk *task.T, env Env) {
		d := must(OpenDir(tk, env, "/data/logs", DirConfig{BallastBytes: 1 << 20}))
		if m.d.Used() < 1<<20 {
			panic("the ballast keeps no room")
		}
		a := must(d.Create(tk, "a", [16]byte{1}, 0, Config{FileDeleteDelayMs: -1}))
		m.d.SetCapacity(m.d.Used() + 64<<10)
		var err error
		for n := 0; err == nil && n < 10000; n++ {
			_, err = a.Append(tk, 0, plainBatch(), Client)
		}
		expectOffline(err, disk.ErrNoSpace)
		if m.events.count(BallastReleased) != 1 {
			panic("the ballast was not released")
		}
		used := m.d.Used()
		check(d.Delete(tk, a))
		d.Housekeep(tk)
		if m.d.Used() >= used {
			panic("deleting gave nothing back")
		}
		if names := m.d.List("/data/logs"); len(names) > 3 {
			panic("the directory of the deleted log is still there")
		}
	})
}

// B73: damage below the recovery point is not a torn tail. Nothing is cut; the log is
// offline with its name and the offsets; the others go on.
func TestDamageBelowTheRecoveryPoint(t *testing.T) {
	for _, c := range []struct {
		name string
		at   int64 // in the batch at offset 4
		bits byte
	}{{"a record", 80, 1}, {"the offset grows a little", 7, 2}, {"the offset leaps over the recovery point", 5, 1}, {"the size", 11, 1}} {
		t.Run(c.name, func(t *testing.T) { damageBelowTheRecoveryPoint(t, c.at, c.bits) })
	}
}

func damageBelowTheRecoveryPoint(t *testing.T, at int64, bits byte) {
	m := newMachine(t, 3)
	name := segmentName("/data/logs/a-7", 0, logSuffix)
	m.boot(func(tk *task.T, env Env) {
		d := openDir(tk, env, "/data/logs")
		for _, topic := range []string{"a", "b"} {
			l := must(d.Create(tk, topic, [16]byte{1}, 7, Config{}))
			for range 10 {
				must(l.Append(tk, 0, plainBatch(), Client))
			}
			check(l.Flush(tk))
			must(l.Append(tk, 0, plainBatch(), Client))
		}
		check(d.CheckpointRecoveryPoints(tk))
	})
	size, _ := m.d.Size(name)
	one := size / 11
	m.d.FlipBits(name, 4*one+at, bits)
	before, _ := m.d.ReadFile(name)
	for range 2 {
		m.boot(func(tk *task.T, env Env) {
			d := openDir(tk, env, "/data/logs")
			logs := must(d.Load(tk, func(string, [16]byte) Config { return Config{} }, nil))
			err := logs[0].Err()
			expectOffline(err, ErrCorrupt)
			if text := err.Error(); !strings.Contains(text, "a-7") || !strings.Contains(text, "[4, 10)") {
				panic("the error does not say what is damaged: " + text)
			}
			_, err = logs[0].Append(tk, 0, plainBatch(), Client)
			expectOffline(err, ErrCorrupt)
			must(logs[1].Append(tk, 0, plainBatch(), Client))
			check(d.CloseClean(tk, 1)) // which leaves no clean marker: the damage is still there
		})
	}
	if after, _ := m.d.ReadFile(name); !bytes.Equal(before, after) {
		t.Fatal("the damaged log was changed")
	}
}

// Above the recovery point the first bad batch is where the log ends, whatever follows.
func TestDamageAboveTheRecoveryPointIsCut(t *testing.T) {
	m := newMachine(t, 4)
	m.boot(func(tk *task.T, env Env) {
		d := openDir(tk, env, "/data/logs")
		l := must(d.Create(tk, "a", [16]byte{1}, 0, Config{SegmentBytes: 1000}))
		for range 30 {
			must(l.Append(tk, 0, plainBatch(), Client))
		}
	})
	m.d.FlipBits(segmentName("/data/logs/a-0", 5, logSuffix), 300, 0x10)
	m.boot(func(tk *task.T, env Env) {
		d := openDir(tk, env, "/data/logs")
		l := must(d.Load(tk, func(string, [16]byte) Config { return Config{SegmentBytes: 1000} }, nil))[0]
		if l.LogEndOffset() != 6 || len(l.Segments()) != 2 || !l.WasUnclean() || m.events.count(LogCut) == 0 {
			panic("the log was not cut at the damage")
		}
		must(l.Append(tk, 0, plainBatch(), Client))
		if len(readAll(tk, l, ToLogEnd)) == 0 {
			panic("nothing can be read")
		}
		check(d.Close(tk))
	})
}

// B29, B30: the clean marker is gone once loading begins, and a crash while loading is an
// unclean stop, however often.
func TestMarkerDoesNotOutliveAnUncleanStart(t *testing.T) {
	m := newMachine(t, 5)
	cfgOf := func(string, [16]byte) Config { return Config{} }
	m.boot(func(tk *task.T, env Env) {
		d := openDir(tk, env, "/data/logs")
		must(must(d.Create(tk, "a", [16]byte{1}, 0, Config{})).Append(tk, 0, plainBatch(), Client))
		check(d.CloseClean(tk, 42))
	})
	m.boot(func(tk *task.T, env Env) {
		d := openDir(tk, env, "/data/logs")
		if !d.WasClean() || d.PreviousBrokerEpoch() != 42 {
			panic("the clean stop is not seen")
		}
	})
	m.boot(func(tk *task.T, env Env) {
		d := openDir(tk, env, "/data/logs")
		if d.WasClean() || d.PreviousBrokerEpoch() != -1 {
			panic("the marker survived a start that did not end")
		}
		if !must(d.Load(tk, cfgOf, nil))[0].WasUnclean() {
			panic("the log was believed")
		}
	})
	if m.events.count(LogCorrupt) > 0 {
		t.Fatal("a crash was taken for corruption")
	}
}

// A start that is killed between removing the marker and syncing that leaves an absence which
// a power loss undoes: the next start must make it last (seed 502005 of the swarm).
func TestMarkerThatAKilledStartRemovedStaysAway(t *testing.T) {
	cfgOf := func(string, [16]byte) Config { return Config{} }
	killed, returned := 0, 0
	for seed := range uint64(60) {
		m := newMachine(t, seed)
		m.boot(func(tk *task.T, env Env) {
			d := openDir(tk, env, "/data/logs")
			must(d.Create(tk, "a", [16]byte{1}, 0, Config{}))
			check(d.CloseClean(tk, 42))
		})
		m.d.Arm(&simdisk.Injection{Fault: simdisk.Stalled, Match: func(path string) bool { return path == "/data/logs" }})
		m.s.At(m.s.Now().Add(10*time.Millisecond), func() { m.rt.Kill() })
		open := false
		m.boot(func(tk *task.T, env Env) {
			openDir(tk, env, "/data/logs")
			open = true
		})
		if _, there := m.d.ReadFile("/data/logs/" + checkpoint.CleanShutdownFile); !open && !there {
			killed++
		}
		m.boot(func(tk *task.T, env Env) {
			d := openDir(tk, env, "/data/logs")
			l := must(d.Load(tk, cfgOf, nil))[0]
			check(l.SyncTo(tk, must(l.Append(tk, 0, plainBatch(), Client)).LastOffset+1))
		})
		m.d.PowerLoss()
		if _, there := m.d.ReadFile("/data/logs/" + checkpoint.CleanShutdownFile); there {
			returned++
		}
	}
	if killed == 0 || returned > 0 {
		t.Fatalf("of %d starts that were killed with the removal not yet synced, %d left a marker that a power loss brought back", killed, returned)
	}
}

// Lost and damaged indexes, epochs and snapshots are rebuilt after a clean stop, too.
func TestDerivedFilesAreRebuilt(t *testing.T) {
	m := newMachine(t, 6)
	cfg := Config{SegmentBytes: 2000, IndexIntervalBytes: 200}
	var want []byte
	m.boot(func(tk *task.T, env Env) {
		d := openDir(tk, env, "/data/logs")
		l := must(d.Create(tk, "a", [16]byte{1}, 0, cfg))
		for seq := range int32(60) {
			must(l.Append(tk, seq/20, batchOf(1, 100, int64(seq), idempotent(5, 0, seq)), Client))
		}
		want = readAll(tk, l, ToLogEnd)
		check(d.CloseClean(tk, 1))
	})
	dir := "/data/logs/a-0"
	bases := []int64{}
	for _, in := range m.d.List(dir) {
		if o, ok := offsetName(in.Name, logSuffix); ok {
			bases = append(bases, o)
		}
	}
	m.d.WriteFile(segmentName(dir, bases[0], offsetsSuffix), []byte("garbage!garbage!"))
	m.d.WriteFile(segmentName(dir, bases[1], timesSuffix), []byte("odd"))
	m.d.WriteFile(dir+"/leader-epoch-checkpoint", []byte("0\n7\n"))
	m.d.WriteFile(segmentName(dir, 60, snapshotSuffix), []byte("not a snapshot"))
	m.boot(func(tk *task.T, env Env) {
		check(env.Disk.Remove(tk, segmentName(dir, bases[2], offsetsSuffix)))
		check(env.Disk.Remove(tk, segmentName(dir, bases[len(bases)-1], timesSuffix)))
		d := openDir(tk, env, "/data/logs")
		l := must(d.Load(tk, func(string, [16]byte) Config { return cfg }, nil))[0]
		if l.WasUnclean() || !bytes.Equal(readAll(tk, l, ToLogEnd), want) {
			panic("the log is not what it was")
		}
		for i, s := range *l.segs.Load() {
			verifyIndexes(tk, l, s, i)
		}
		if e := l.Epochs(); len(e) != 3 || e[2].Start != 40 {
			panic("the epochs were not rebuilt")
		}
		if p := l.Producers(); len(p) != 1 || p[0].LastSeq() != 59 {
			panic("the producers were not rebuilt")
		}
		check(d.CloseClean(tk, 1))
	})
}

// A topic that was deleted and made again must not meet its predecessor's recovery point.
func TestRecreatedTopicForgetsItsPredecessor(t *testing.T) {
	m := newMachine(t, 7)
	m.boot(func(tk *task.T, env Env) {
		d := openDir(tk, env, "/data/logs")
		l := must(d.Create(tk, "a", [16]byte{1}, 0, Config{}))
		for range 10 {
			must(l.Append(tk, 0, plainBatch(), Client))
		}
		check(l.Flush(tk))
		l.SetHighWatermark(10)
		must(l.DeleteRecords(tk, 8))
		check(errors.Join(d.CheckpointRecoveryPoints(tk), d.CheckpointHighWatermarks(tk)))
		check(d.Delete(tk, l))
		if _, err := l.Append(tk, 0, plainBatch(), Client); !errors.Is(err, ErrClosed) {
			panic("a deleted log takes appends")
		}
		l = must(d.Create(tk, "a", [16]byte{2}, 0, Config{}))
		must(l.Append(tk, 0, plainBatch(), Client))
	})
	m.boot(func(tk *task.T, env Env) {
		d := openDir(tk, env, "/data/logs")
		logs := must(d.Load(tk, func(string, [16]byte) Config { return Config{} }, nil))
		if len(logs) != 1 || logs[0].TopicID() != [16]byte{2} {
			panic("wrong logs")
		}
		check(logs[0].Err())
		if logs[0].LogStartOffset() != 0 || logs[0].LogEndOffset() != 1 || logs[0].HighWatermark() != 0 {
			panic("the new topic has the old one's numbers")
		}
		d.Housekeep(tk)
		for _, in := range m.d.List("/data/logs") {
			if strings.HasSuffix(in.Name, deleteDirSuffix) {
				panic("the deleted directory is still there")
			}
		}
	})
}

// What a compaction left half done is finished or undone.
func TestInterruptedSwaps(t *testing.T) {
	m := newMachine(t, 8)
	dir := "/data/logs/a-0"
	m.boot(func(tk *task.T, env Env) {
		d := openDir(tk, env, "/data/logs")
		l := must(d.Create(tk, "a", [16]byte{1}, 0, Config{SegmentBytes: 1000}))
		for range 20 {
			must(l.Append(tk, 0, plainBatch(), Client))
		}
		check(d.CloseClean(tk, 1))
	})
	first, _ := m.d.ReadFile(segmentName(dir, 0, logSuffix))
	m.d.WriteFile(segmentName(dir, 0, logSuffix+swapSuffix), first[:len(first)/5*2]) // two of five batches are left
	m.d.WriteFile(segmentName(dir, 15, logSuffix+cleanedSuffix), []byte("half"))
	m.d.WriteFile(segmentName(dir, 15, logSuffix+swapSuffix), []byte("half"))
	m.d.WriteFile(segmentName(dir, 10, logSuffix+deletedSuffix), []byte("gone"))
	m.boot(func(tk *task.T, env Env) {
		d := openDir(tk, env, "/data/logs")
		l := must(d.Load(tk, func(string, [16]byte) Config { return Config{SegmentBytes: 1000} }, nil))[0]
		if got := l.Segments(); len(got) != 4 || got[0].Size != int64(len(first)/5*2) || l.LogEndOffset() != 20 {
			panic("the swap was not completed")
		}
		for _, in := range m.d.List(dir) {
			if strings.HasSuffix(in.Name, swapSuffix) || strings.HasSuffix(in.Name, cleanedSuffix) || strings.HasSuffix(in.Name, deletedSuffix) {
				panic("left over: " + in.Name)
			}
		}
		check(d.Close(tk))
	})
}

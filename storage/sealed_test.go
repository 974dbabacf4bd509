package storage

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/storage/checkpoint"
	"seedlog/storage/record"
)

// A clean stop's recovery point is the log's end. If the next life's first append begins a new
// segment there, the old one's indexes were opened for appending and trimmed again, and nobody
// has synced that: the point is lowered first, or they would be taken for durable.
func TestARollAtTheRecoveryPointLowersIt(t *testing.T) {
	damaged := 0
	for seed := range uint64(40) {
		m := newMachine(t, seed)
		cfg := Config{SegmentBytes: 1000, IndexIntervalBytes: 1, SegmentIndexBytes: 400}
		cfgOf := func(string, [16]byte) Config { return cfg }
		m.boot(func(tk *task.T, env Env) {
			d := openDir(tk, env, "/data/logs")
			l := must(d.Create(tk, "a", [16]byte{1}, 0, cfg))
			for len(*l.segs.Load()) == 1 && l.Size()+int64(len(plainBatch())) <= int64(cfg.SegmentBytes) {
				must(l.Append(tk, 0, plainBatch(), Client))
			}
			check(d.CloseClean(tk, 1))
		})
		m.boot(func(tk *task.T, env Env) {
			d := openDir(tk, env, "/data/logs")
			l := must(d.Load(tk, cfgOf, nil))[0]
			l.mu.Lock()
			l.syncing = true // whoever syncs waits for ever
			l.mu.Unlock()
			must(l.Append(tk, 0, plainBatch(), Client))
			if len(*l.segs.Load()) != 2 {
				panic("no roll")
			}
			if points := must(d.readOffsets(tk, checkpoint.RecoveryPointFile)); points["a-0"] >= l.active().base {
				panic(fmt.Sprintf("recovery point %d, and the segment before %d is not synced", points["a-0"], l.active().base))
			}
		})
		m.d.PowerLoss()
		if size, _ := m.d.Size(segmentName("/data/logs/a-0", 0, offsetsSuffix)); size == int64(cfg.SegmentIndexBytes) {
			damaged++
		}
		m.boot(func(tk *task.T, env Env) {
			d := openDir(tk, env, "/data/logs")
			l := must(d.Load(tk, cfgOf, nil))[0]
			check(l.Err())
			check(d.CloseClean(tk, 2))
			d = openDir(tk, env, "/data/logs")
			l = must(d.Load(tk, cfgOf, nil))[0]
			for _, s := range *l.segs.Load() {
				if _, _, err := s.readTables(tk); err != nil && s != l.active() {
					t.Errorf("seed %d: %v", seed, err)
				}
			}
			check(d.Close(tk))
		})
	}
	if damaged == 0 {
		t.Error("no power loss left an index at its full size")
	}
}

// An empty segment that cannot name the offsets to come is replaced; the segment before it may
// not be synced yet, and then ends with a snapshot of the new one's name.
func TestAnEmptySegmentIsReplacedBehindAnUnsyncedOne(t *testing.T) {
	m := newMachine(t, 3)
	m.boot(func(tk *task.T, env Env) {
		d := openDir(tk, env, "/data/logs")
		l := snapshotted(tk, d)
		check(l.Roll(tk))
		must(l.AppendFollower(tk, followerBatch(1<<33)))
		l.mu.Lock()
		l.syncing = false
		l.mu.Unlock()
		l.wakeSyncWaiters()
		check(l.Flush(tk))
		l.SetHighWatermark(l.LogEndOffset())
		m.expectDurable(segmentName(l.path, l.active().base, snapshotSuffix))
	})
	m.d.PowerLoss()
	m.boot(func(tk *task.T, env Env) {
		d := openDir(tk, env, "/data/logs")
		l := must(d.Load(tk, func(string, [16]byte) Config { return Config{} }, nil))[0]
		if p := l.Producers(); l.LogEndOffset() != 1<<33+1 || len(p) != 1 || p[0].LastSeq() != 7 {
			panic(fmt.Sprintf("ends at %d, %+v", l.LogEndOffset(), p))
		}
		check(d.Close(tk))
	})
}

// followerBatch is a plain batch of one record as a leader sends it.
func followerBatch(offset int64) []byte {
	b := plainBatch()
	record.Stamp(b, offset, 0)
	return b
}

// A recovery point that lies where a truncation ends the log is lowered with it: the next segment
// may begin right there, and nobody has synced what the one before it is left with.
func TestATruncationToTheRecoveryPointLowersIt(t *testing.T) {
	m := newMachine(t, 4)
	m.boot(func(tk *task.T, env Env) {
		d := openDir(tk, env, "/data/logs")
		l := must(d.Create(tk, "a", [16]byte{1}, 0, Config{}))
		must(l.Append(tk, 0, plainBatch(), Client))
		check(l.Flush(tk))
		at := l.SyncedEnd()
		must(l.Append(tk, 0, plainBatch(), Client))
		check(d.CheckpointRecoveryPoints(tk))
		check(l.TruncateTo(tk, at))
		l.mu.Lock()
		l.syncing = true // whoever syncs waits for ever
		l.mu.Unlock()
		check(l.Roll(tk))
		if points := must(d.readOffsets(tk, checkpoint.RecoveryPointFile)); points["a-0"] >= at {
			panic(fmt.Sprintf("recovery point %d, and the segment before %d is not synced", points["a-0"], at))
		}
	})
}

// Who checkpoints while a log takes the place of its copy may still have the copy on the list, and
// writes what it says under the name of both: as of a log that goes on.
func TestACopysLastRecoveryPointIsOfALogThatGoesOn(t *testing.T) {
	m := newMachine(t, 5)
	m.boot(func(tk *task.T, env Env) {
		from, to := openDir(tk, env, "/data/from"), openDir(tk, env, "/data/to")
		l := must(from.Create(tk, "a", [16]byte{1}, 0, Config{}))
		must(l.Append(tk, 0, plainBatch(), Client))
		copied := must(to.CreateFuture(tk, "a", [16]byte{1}, 0, l.Config()))
		check(moveTo(tk, l, to, copied))
		copied.mu.Lock()
		defer copied.mu.Unlock()
		if p := copied.recoveryPoint(); p >= l.active().base+1 {
			panic(fmt.Sprintf("recovery point %d of a log that may begin a segment there", p))
		}
	})
}

// A truncation that is refused, for the directory is offline, holds up nobody: the metadata log
// goes on where the disk is merely full.
func TestARefusedTruncationHoldsUpNobody(t *testing.T) {
	m := newMachine(t, 6)
	m.boot(func(tk *task.T, env Env) {
		d := openDir(tk, env, "/data/logs")
		l := must(d.Open(tk, MetadataTopic, [16]byte{1}, 0, Config{}))
		must(l.Append(tk, 0, plainBatch(), Client))
		must(l.Append(tk, 0, plainBatch(), Client))
		check(l.Flush(tk))
		d.Fail(disk.ErrNoSpace)
		if err := l.TruncateTo(tk, 1); !errors.Is(err, ErrOffline) || l.LogEndOffset() != 2 {
			panic(fmt.Sprintf("ends at %d: %v", l.LogEndOffset(), err))
		}
		must(l.Append(tk, 0, plainBatch(), Client))
		check(l.Flush(tk))
	})
}

// A crash in the midst of a truncation that leaves nothing finds some of the log's files gone and
// others not. That is no damage, whatever the recovery point was before.
func TestAnUnfinishedFullTruncationIsNoDamage(t *testing.T) {
	const at = 200
	midst := 0
	for seed := range uint64(80) {
		m := newMachine(t, seed)
		m.boot(func(tk *task.T, env Env) {
			d := openDir(tk, env, "/data/logs")
			l := must(d.Create(tk, "a", [16]byte{1}, 0, Config{}))
			for range 4 {
				must(l.Append(tk, 0, plainBatch(), Client))
				check(l.Roll(tk))
			}
			must(l.Append(tk, 0, plainBatch(), Client))
			check(errors.Join(l.Flush(tk), d.CheckpointRecoveryPoints(tk)))
			m.s.At(m.s.Now().Add(time.Duration(m.s.Stream("when").IntN(8000))*time.Microsecond), m.rt.Kill)
			check(l.TruncateFullyAt(tk, at))
			tk.Sleep(tk.Now().Add(time.Second))
		})
		if seed%2 == 0 {
			m.d.PowerLoss()
		}
		for range 2 { // a second start finds what the first one made of it
			m.boot(func(tk *task.T, env Env) {
				d := openDir(tk, env, "/data/logs")
				l := must(d.Load(tk, func(string, [16]byte) Config { return Config{} }, nil))[0]
				if l.Err() != nil {
					t.Errorf("seed %d: %v", seed, l.Err())
				}
				if end := l.LogEndOffset(); end < 5 {
					midst++
				}
			})
		}
	}
	if midst == 0 {
		t.Error("no crash came in the midst")
	}
}

// A crash behind the beginning of the new log and before the old one's epochs are gone: the new
// log has none of them.
func TestALogThatBeginsAnewHasNoEpochs(t *testing.T) {
	m := newMachine(t, 7)
	m.boot(func(tk *task.T, env Env) {
		d := openDir(tk, env, "/data/logs")
		l := must(d.Create(tk, "a", [16]byte{1}, 0, Config{}))
		must(l.Append(tk, 5, plainBatch(), Client))
		check(l.lowerRecoveryPoint(tk, 200, 0))
		check(l.discard(tk, l.active(), true))
		must(l.newActive(tk, 200))
	})
	m.boot(func(tk *task.T, env Env) {
		d := openDir(tk, env, "/data/logs")
		l := must(d.Load(tk, func(string, [16]byte) Config { return Config{} }, nil))[0]
		if e := l.Epochs(); len(e) > 0 || l.LogStartOffset() != 200 {
			panic(fmt.Sprintf("begins at %d with epochs %v", l.LogStartOffset(), e))
		}
	})
}

package storage

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/sim/simdisk"
	"seedlog/storage/checkpoint"
	"seedlog/storage/producer"
)

// verifySnapshots compares every producer snapshot that the log has with its batches, of which
// m has those from the log start on.
func (m *model) verifySnapshots(t *task.T, l *Log) {
	for _, o := range must(l.snapshots(t)) {
		if o > m.end {
			panic(fmt.Sprintf("%s: snapshot %d above the end %d", l.Name(), o, m.end))
		}
		for _, e := range must(l.readSnapshot(t, o)) {
			for _, b := range slices.Backward(m.batches) {
				if b.ProducerID != e.ProducerID || b.IsControl() || b.BaseOffset >= o {
					continue
				}
				if e.LastSeq() != b.LastSequence() {
					panic(fmt.Sprintf("%s: snapshot %d has producer %d at sequence %d, log at %d", l.Name(), o, e.ProducerID, e.LastSeq(), b.LastSequence()))
				}
				break
			}
		}
	}
}

// snapshotted makes a log of one idempotent producer's batches, with a snapshot at 2, 4 and 6 of
// 8 records, of which nothing is durable: whoever syncs waits for ever.
func snapshotted(t *task.T, d *Dir) *Log {
	l := must(d.Create(t, "a", [16]byte{1}, 0, Config{}))
	l.mu.Lock()
	l.syncing = true
	l.mu.Unlock()
	for i := range int32(8) {
		if i > 0 && i%2 == 0 {
			check(l.Roll(t))
		}
		must(l.Append(t, 0, batchOf(1, 10, 1_700_000_000_000, idempotent(5, 0, i)), Client))
	}
	l.SetHighWatermark(8)
	return l
}

func overwrite(t *task.T, d disk.Disk, path string, b []byte) {
	f := must(d.Open(t, path, disk.Create))
	check(f.Truncate(t, 0))
	must(f.WriteAt(t, b, 0))
	check(f.Close(t))
}

func (m *machine) expectDurable(path string) {
	b, ok := m.d.ReadDurable(path)
	if !ok {
		panic(path + " is not durable")
	}
	must(producer.DecodeSnapshot(b))
}

// I17: what a power loss made of snapshots that were never synced is removed, wherever they lie,
// and what is left is made durable, for nobody looks at it again once the recovery point passed.
func TestRecoverySettlesSnapshots(t *testing.T) {
	m := newMachine(t, 3)
	name := func(o int64) string { return segmentName("/data/logs/a-0", o, snapshotSuffix) }
	m.boot(func(tk *task.T, env Env) {
		snapshotted(tk, openDir(tk, env, "/data/logs"))
		overwrite(tk, env.Disk, name(2), make([]byte, 56))
		overwrite(tk, env.Disk, name(4), nil)
	})
	m.boot(func(tk *task.T, env Env) {
		d := openDir(tk, env, "/data/logs")
		l := must(d.Load(tk, func(string, [16]byte) Config { return Config{} }, nil))[0]
		if got := must(l.snapshots(tk)); l.Err() != nil || !slices.Equal(got, []int64{6}) {
			panic(fmt.Sprint("after the recovery: ", l.Err(), got))
		}
		m.expectDurable(name(6))
		if p := l.Producers(); len(p) != 1 || p[0].LastSeq() != 7 {
			panic(fmt.Sprintf("the producer is forgotten: %+v", p))
		}
		check(d.Close(tk))
	})
}

// A snapshot above a cut is gone for good when the cut returns. If the power loss brought it back,
// it would lie within a log that has grown past it since, and be believed of producers whose
// batches went.
func TestACutLeavesNoSnapshotAbove(t *testing.T) {
	m := newMachine(t, 3)
	m.boot(func(tk *task.T, env Env) {
		d := openDir(tk, env, "/data/logs")
		l := snapshotted(tk, d)
		l.mu.Lock()
		l.syncing = false
		l.mu.Unlock()
		l.wakeSyncWaiters()
		check(l.Flush(tk))
		check(env.Disk.SyncDir(tk, l.path))
		for _, o := range []int64{2, 4, 6} {
			m.expectDurable(segmentName(l.path, o, snapshotSuffix))
		}
		check(l.TruncateTo(tk, 5))
		if got := must(l.snapshots(tk)); !slices.Equal(got, []int64{2, 4}) {
			panic(fmt.Sprint("after the cut: ", got))
		}
		if _, there := m.d.ReadDurable(segmentName(l.path, 6, snapshotSuffix)); there {
			panic("a snapshot above the cut outlives a power loss")
		}
		check(d.Close(tk))
	})
}

// The snapshot that a trimmed segment ended with stays: it has to be durable before the recovery
// point passes it, though the segment that it was to be synced with is gone.
func TestTrimKeepsADurableSnapshot(t *testing.T) {
	m := newMachine(t, 3)
	m.boot(func(tk *task.T, env Env) {
		d := openDir(tk, env, "/data/logs")
		l := snapshotted(tk, d)
		must(l.DeleteRecords(tk, 7))
		l.mu.Lock()
		l.syncing = false
		l.mu.Unlock()
		l.wakeSyncWaiters()
		check(l.Flush(tk))
		m.expectDurable(segmentName(l.path, 6, snapshotSuffix))
		check(d.Close(tk))
	})
}

// A sync that runs while a segment is rolled must not count the segment as synced before it knows
// the snapshot's name.
func TestSyncDuringARollLeavesTheSnapshotToTheNext(t *testing.T) {
	for seed := range uint64(20) {
		m := newMachine(t, seed)
		m.boot(func(tk *task.T, env Env) {
			d := openDir(tk, env, "/data/logs")
			l := must(d.Create(tk, "a", [16]byte{1}, 0, Config{}))
			must(l.Append(tk, 0, batchOf(1, 10, 1_700_000_000_000, idempotent(5, 0, 0)), Client))
			m.d.Arm(&simdisk.Injection{Fault: simdisk.Slow, Match: func(p string) bool { return strings.HasSuffix(p, snapshotSuffix) }})
			g := task.NewGroup(env.RT, "flush")
			g.Go("flush", func(t *task.T) {
				for len(*l.segs.Load()) == 1 {
					l.mu.Lock()
					l.synced = 0 // as if something had been appended
					l.mu.Unlock()
					check(l.Flush(t))
				}
			})
			check(l.Roll(tk))
			g.Wait(tk)
			check(l.syncUntil(tk, func() bool { return len(l.unsealed) == 0 }))
			m.expectDurable(segmentName(l.path, 1, snapshotSuffix))
			check(d.Close(tk))
		})
	}
}

// What the recovery point calls durable is not written to by a recovery, which may crash, and by
// a stop only as a whole.
func TestWhatIsDurableIsNotWrittenInPlace(t *testing.T) {
	m := newMachine(t, 3)
	m.boot(func(tk *task.T, env Env) {
		d := openDir(tk, env, "/data/logs")
		l := snapshotted(tk, d)
		l.mu.Lock()
		l.syncing = false
		l.mu.Unlock()
		l.wakeSyncWaiters()
		check(l.Roll(tk))
		check(l.syncUntil(tk, func() bool { return l.synced == 8 && len(l.unsealed) == 0 }))
		check(d.CheckpointRecoveryPoints(tk))
		if p := must(d.readOffsets(tk, checkpoint.RecoveryPointFile)); p["a-0"] != 8 {
			panic(p)
		}
	})
	in := m.d.Arm(&simdisk.Injection{Fault: simdisk.WriteError, Match: func(p string) bool {
		base, _, ok := strings.Cut(strings.TrimPrefix(p, "/data/logs/a-0/"), ".")
		return ok && len(base) == 20 && (base < "00000000000000000008" || strings.HasSuffix(p, "8"+snapshotSuffix))
	}})
	m.boot(func(tk *task.T, env Env) {
		d := openDir(tk, env, "/data/logs")
		l := must(d.Load(tk, func(string, [16]byte) Config { return Config{} }, nil))[0]
		if got := must(l.snapshots(tk)); l.Err() != nil || !slices.Equal(got, []int64{2, 4, 6, 8}) {
			panic(fmt.Sprint("after the recovery: ", l.Err(), got))
		}
		check(d.CloseClean(tk, 1))
		m.expectDurable(segmentName(l.path, 8, snapshotSuffix))
	})
	if in.Fired {
		t.Error("a durable file was written to")
	}
}

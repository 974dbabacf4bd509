package storage

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"seedlog/clock"
	"seedlog/clock/live"
	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/disk/osfs"
	"seedlog/node/partition"
)

// copyStep makes the copy a little more like the log, as a mover does, and reports whether it
// is it.
func copyStep(t *task.T, l, f *Log) (bool, error) {
	o := f.Offsets()
	look := l.Standing(o.LatestEpoch)
	d := partition.Reconcile(partition.Original{LogStart: look.LogStart, LogEnd: look.LogEnd, Epoch: look.Epoch, EpochEnd: look.EpochEnd},
		partition.Copied{LogStart: o.LogStart, LogEnd: o.LogEnd, LatestEpoch: o.LatestEpoch}, f)
	switch d.Step {
	case partition.MoveSwap:
		return true, nil
	case partition.MoveTruncate:
		return false, f.TruncateTo(t, d.Offset)
	case partition.MoveRestart:
		return false, l.RestartCopy(t, f, d.Offset, look)
	case partition.MoveRaise:
		return false, f.MoveLogStart(t, d.Offset)
	}
	b, err := l.ReadInto(t, o.LogEnd, 3000, ToLogEnd, true, nil)
	if !l.Stands(look) || errors.Is(err, ErrOffsetOutOfRange) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, err = f.AppendFollower(t, b)
	if errors.Is(err, ErrUnexpectedOffset) { // the log begins within the batch
		h := must(cutFirst(b))
		check(l.RestartCopy(t, f, h, look))
		if f.LogEndOffset() != h {
			return false, nil // the log was cut meanwhile, and nothing was done
		}
		_, err = f.AppendFollower(t, b)
	}
	return false, err
}

func cutFirst(b []byte) (int64, error) {
	h, _, err := cutBatch(b)
	return h.BaseOffset, err
}

// moveTo moves the log to the directory, or goes on with a copy that is there.
func moveTo(t *task.T, l *Log, to *Dir, f *Log) error {
	if f == nil {
		var err error
		if f, err = to.CreateFuture(t, l.Topic(), l.TopicID(), l.Partition(), l.Config()); err != nil {
			return err
		}
	}
	for range 6 {
		if _, err := copyStep(t, l, f); err != nil {
			return err
		}
	}
	for {
		done, err := l.Exchange(t, f, func(t *task.T) (bool, error) {
			for range 100 {
				if same, err := copyStep(t, l, f); same || err != nil {
					return same, err
				}
			}
			return false, nil
		})
		if done || err != nil {
			return err
		}
	}
}

// A log that is read, cut, deleted from and written to moves between two directories; whoever
// uses it does not notice, and the old files go.
func TestALogMovesUnderItsUsers(t *testing.T) {
	rt := live.New(live.Options{Chaos: 1})
	root := t.TempDir()
	live.Main(rt, func(tk *task.T) {
		env := Env{RT: rt, Disk: osfs.New(osfs.Options{}), Rand: rand.New(rand.NewPCG(1, 2))}
		var dirs [2]*Dir
		keeper := task.NewGroup(rt, "housekeeping")
		for i := range dirs {
			dirs[i] = must(OpenDir(tk, env, fmt.Sprint(root, "/d", i), DirConfig{MaxOpenFiles: 3}))
			keeper.Go("housekeeping", dirs[i].Run)
		}
		l := must(dirs[0].Create(tk, "a", [16]byte{1}, 0, Config{SegmentBytes: 20_000, IndexIntervalBytes: 300, FlushMessages: 1, FileDeleteDelayMs: 5, FlushMs: 1}))
		g := task.NewGroup(rt, "users")
		for w := range int64(2) {
			g.Go("writer", func(t *task.T) { writeSome(t, l, w) })
		}
		for i := range uint64(2) {
			g.Go("reader", func(t *task.T) { readSome(t, l, rand.New(rand.NewPCG(i, 3))) })
		}
		g.Go("deleter", func(t *task.T) {
			for range 20 {
				if _, err := l.DeleteRecords(t, l.HighWatermark()/2); err != nil && !errors.Is(err, ErrOffsetOutOfRange) {
					panic(err)
				}
			}
		})
		const moves = 6
		g.Go("mover", func(t *task.T) {
			for n := range moves {
				check(moveTo(t, l, dirs[(n+1)%2], nil))
				check(dirs[0].CheckpointRecoveryPoints(t))
			}
		})
		g.Wait(tk)
		before := readAll(tk, l, ToLogEnd)
		check(moveTo(tk, l, dirs[1], nil))
		if l.Dir() != dirs[1] || len(dirs[0].Logs()) != 0 || len(dirs[1].Logs()) != 1 {
			panic("the log is not where it was moved to")
		}
		if after := readAll(tk, l, ToLogEnd); !bytes.Equal(before, after) {
			panic("the log is another one")
		}
		keeper.Stop()
		keeper.Wait(tk)
		for i, s := range *l.segs.Load() {
			verifyIndexes(tk, l, s, i)
		}
		for _, d := range dirs {
			d.unlinkDue(tk, clock.Never)
			for _, in := range must(env.Disk.ReadDir(tk, d.path)) {
				if in.Dir && (d == dirs[0] || in.Name != "a-0") {
					panic("left behind: " + in.Name)
				}
			}
			check(d.CloseClean(tk, 1))
			if d.files.open != 0 {
				panic(fmt.Sprint(d.files.open, " descriptors are open in ", d.path))
			}
		}
		d := must(OpenDir(tk, env, root+"/d1", DirConfig{}))
		again := must(d.Load(tk, func(string, [16]byte) Config { return l.Config() }, nil))[0]
		if !bytes.Equal(before, readAll(tk, again, ToLogEnd)) || again.LogStartOffset() != l.LogStartOffset() || again.WasUnclean() {
			panic("the log is another one after a clean stop")
		}
		check(d.CloseClean(tk, 1))
	})
}

// moveCrashRun moves a log to and fro while it is written to, until the power fails or the
// process ends at a drawn moment; and again during recovery. There is always a log that has all
// that was synced, and a copy that was being made can be made on.
func moveCrashRun(t *testing.T, seed uint64, seen map[string]int) {
	m := newMachine(t, seed)
	r := rand.New(rand.NewPCG(seed, 7))
	cfg := Config{SegmentBytes: int32(2000 + r.IntN(8000)), IndexIntervalBytes: int32(1 + r.IntN(800)), SegmentIndexBytes: 400, FlushMessages: 1}
	var c crashLog
	power := r.IntN(3) > 0
	crash := func() {
		m.rt.Kill()
		if power {
			m.d.PowerLoss()
		} else {
			m.d.Kill()
		}
	}
	crashAt := func(within time.Duration) { m.s.At(m.s.Now().Add(time.Duration(r.Int64N(int64(within)))), crash) }
	open := func(t *task.T, env Env) (dirs [2]*Dir) {
		for i := range dirs {
			dirs[i] = openDir(t, env, fmt.Sprint("/data/d", i))
		}
		return dirs
	}
	load := func(t *task.T, dirs [2]*Dir) (l, future *Log) {
		var logs []*Log
		for _, d := range dirs {
			for _, x := range must(d.Load(t, func(string, [16]byte) Config { return cfg }, nil)) {
				check(x.Err())
				if x.Future() {
					future = x
				} else {
					logs = append(logs, x)
				}
			}
		}
		return chooseLog(t, logs, seen), future
	}
	m.boot(func(t *task.T, env Env) {
		dirs := open(t, env)
		l := must(dirs[0].Create(t, "t0", [16]byte{1}, 0, cfg))
		for _, d := range dirs {
			t.Go("housekeeping", d.Run)
		}
		g := task.NewGroup(env.RT, "users")
		g.Go("writer", func(t *task.T) { c.write(t, l, rand.New(rand.NewPCG(seed, 1))) })
		g.Go("mover", func(t *task.T) {
			for n := 1; ; n++ {
				check(moveTo(t, l, dirs[n%2], nil))
				seen["moved"]++
			}
		})
		crashAt(200 * time.Millisecond)
		for t.Park(clock.Never) == task.Woken {
		}
	})
	for range r.IntN(3) {
		m.boot(func(t *task.T, env Env) {
			crashAt(8 * time.Millisecond)
			dirs := open(t, env)
			if l, f := load(t, dirs); f != nil {
				check(moveTo(t, l, f.Dir(), f))
			}
			for t.Park(clock.Never) == task.Woken {
			}
		})
	}
	m.boot(func(t *task.T, env Env) {
		dirs := open(t, env)
		l, f := load(t, dirs)
		effective := false
		c.compare(t, l, &effective)
		if effective {
			seen["lost"]++
		}
		if f != nil {
			seen["resumed"]++
			check(moveTo(t, l, f.Dir(), f))
			c.compare(t, l, &effective)
		}
		for _, d := range dirs {
			check(d.CloseClean(t, 3))
		}
	})
	m.boot(func(t *task.T, env Env) {
		dirs := open(t, env)
		l, f := load(t, dirs)
		c.compare(t, l, new(bool))
		if f != nil || l.WasUnclean() {
			panic("a clean stop left a copy, or was not clean")
		}
		for _, d := range dirs {
			d.unlinkDue(t, clock.Never)
			for _, in := range must(env.Disk.ReadDir(t, d.path)) {
				if strings.Contains(in.Name, "-future") || strings.Contains(in.Name, "-delete") {
					panic("left behind: " + in.Name)
				}
			}
			check(d.Close(t))
		}
	})
}

// chooseLog is what a broker does with two logs of one replica.
func chooseLog(t *task.T, logs []*Log, seen map[string]int) *Log {
	if len(logs) == 0 {
		panic("the log is in none of the directories")
	}
	held := func(l *Log) partition.Held {
		o := l.Offsets()
		return partition.Held{LatestEpoch: o.LatestEpoch, LogEnd: o.LogEnd, LogStart: o.LogStart}
	}
	l := logs[0]
	for _, o := range logs[1:] {
		seen["two"]++
		if partition.Newer(held(o), held(l)) {
			l, o = o, l
		}
		check(o.Dir().Delete(t, o))
	}
	return l
}

func TestACrashDuringAMoveLeavesOneLogOrTheOther(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(moveCrashSeeds) {
		moveCrashRun(t, seed, seen)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Log(seen)
	for what, least := range map[string]int{"moved": moveCrashSeeds, "lost": moveCrashSeeds / 10, "resumed": moveCrashSeeds / 4, "two": 1} {
		if seen[what] < least {
			t.Errorf("%s: %d of at least %d", what, seen[what], least)
		}
	}
}

// moveCrashSeeds is how many crashes a test run tries.
const moveCrashSeeds = 150

// The power fails at every one of the disk calls of a move, one run after the other, of either
// directory; the process ends there, too. A start finds the log, whole.
func TestACrashAtEachDiskCallOfAMoveLeavesTheLog(t *testing.T) {
	seen := map[string]int{}
	for _, power := range []bool{true, false} {
		for call, fired := 0, true; fired; call++ {
			fired = moveCallRun(t, call, power, seen)
			if t.Failed() {
				t.Fatalf("call %d, power loss %v", call, power)
			}
			seen["runs"]++
		}
	}
	if seen["two"] < 4 || seen["old"] < 40 || seen["new"] < 4 {
		t.Errorf("what was found: %v", seen)
	}
}

func moveCallRun(t *testing.T, call int, power bool, seen map[string]int) (fired bool) {
	m := newMachine(t, uint64(call))
	cfg := Config{SegmentBytes: 2000, IndexIntervalBytes: 300}
	var want []byte
	m.boot(func(t *task.T, env Env) {
		f := &failingDisk{Disk: env.Disk, prefix: "/data/", left: -1}
		f.crash = func() {
			fired = true
			m.rt.Kill()
			if power {
				m.d.PowerLoss()
			} else {
				m.d.Kill()
			}
		}
		env.Disk = f
		from, to := openDir(t, env, "/data/d0"), openDir(t, env, "/data/d1")
		l := must(from.Create(t, "a", [16]byte{1}, 0, cfg))
		for n := range 30 {
			must(l.Append(t, int32(n/10), batchOf(2, 100, 1000, nil), Client))
		}
		check(l.Flush(t))
		want = readAll(t, l, ToLogEnd)
		f.left = call
		check(moveTo(t, l, to, nil))
		// From here on the new place counts, whatever comes back of the old one.
		must(l.Append(t, 3, batchOf(2, 100, 1000, nil), Client))
		check(l.Flush(t))
		want = readAll(t, l, ToLogEnd)
		f.left = -1
	})
	m.boot(func(t *task.T, env Env) {
		var logs []*Log
		for i := range 2 {
			d := openDir(t, env, fmt.Sprint("/data/d", i))
			for _, x := range must(d.Load(t, func(string, [16]byte) Config { return cfg }, nil)) {
				check(x.Err())
				if !x.Future() {
					logs = append(logs, x)
				}
			}
		}
		l := chooseLog(t, logs, seen)
		if !bytes.HasPrefix(readAll(t, l, ToLogEnd), want) {
			panic("the log has not all that was synced after a start")
		}
		if strings.HasSuffix(l.Dir().Path(), "0") {
			seen["old"]++
		} else {
			seen["new"]++
		}
	})
	return fired
}

// The new directory fails at every one of its disk calls, one run after the other; so does the
// old one. The log is where it was, or where it was to be, and has everything.
func TestADirectoryThatFailsDuringAMoveCostsNothing(t *testing.T) {
	for _, failing := range []int{0, 1} {
		fired := true
		for call := 0; fired; call++ {
			fired = moveFaultRun(t, failing, call)
			if t.Failed() {
				t.Fatalf("directory %d, call %d", failing, call)
			}
		}
	}
}

func moveFaultRun(t *testing.T, failing, call int) (fired bool) {
	m := newMachine(t, 1)
	cfg := Config{SegmentBytes: 2000, IndexIntervalBytes: 300}
	m.boot(func(t *task.T, env Env) {
		f := &failingDisk{Disk: env.Disk, prefix: fmt.Sprint("/data/d", failing), left: -1}
		env.Disk = f
		var dirs [2]*Dir
		for i := range dirs {
			dirs[i] = openDir(t, env, fmt.Sprint("/data/d", i))
		}
		l := must(dirs[0].Create(t, "a", [16]byte{1}, 0, cfg))
		for n := range 30 {
			must(l.Append(t, int32(n/10), batchOf(2, 100, 1000, nil), Client))
		}
		want := readAll(t, l, ToLogEnd)
		f.left = call
		err := moveTo(t, l, dirs[1], nil)
		fired = f.left < 0
		moved := l.Dir() == dirs[1]
		if (err == nil) != moved || failing == 1 && fired && moved && dirs[1].Err() == nil || !fired && !moved {
			panic(fmt.Sprintf("moved %v, fired %v: %v", moved, fired, err))
		}
		f.left = -1
		if l.Err() == nil && !bytes.Equal(want, readAll(t, l, ToLogEnd)) {
			panic("the log is another one")
		}
		if failing == 1 && !moved && l.Err() != nil {
			panic(fmt.Sprintf("the log went offline with the copy's directory: %v", l.Err()))
		}
		if moved && failing == 0 && l.Err() != nil {
			panic(fmt.Sprintf("the log went offline with the directory that it left: %v", l.Err()))
		}
		for _, d := range dirs {
			check(d.Close(t))
		}
		// A start with both directories finds it.
		var logs []*Log
		for i := range dirs {
			d := openDir(t, env, fmt.Sprint("/data/d", i))
			for _, x := range must(d.Load(t, func(string, [16]byte) Config { return cfg }, nil)) {
				if !x.Future() {
					logs = append(logs, x)
				}
			}
		}
		if again := chooseLog(t, logs, map[string]int{}); !bytes.Equal(want, readAll(t, again, ToLogEnd)) {
			panic("the log is another one after a start")
		}
	})
	return fired
}

// failingDisk fails one call of those that change something below prefix.
type failingDisk struct {
	disk.Disk
	prefix string
	left   int // calls until then; below zero: no more
	crash  func()
}

func (f *failingDisk) hit(path string) error {
	if f.left < 0 || !strings.HasPrefix(path, f.prefix) {
		return nil
	}
	f.left--
	if f.left < 0 && f.crash != nil {
		f.crash()
	}
	if f.left < 0 {
		return fmt.Errorf("%w: %s", disk.ErrIO, path)
	}
	return nil
}

func (f *failingDisk) Rename(t *task.T, from, to string) error {
	if err := f.hit(from); err != nil {
		return err
	}
	return f.Disk.Rename(t, from, to)
}

func (f *failingDisk) SyncDir(t *task.T, path string) error {
	if err := f.hit(path); err != nil {
		return err
	}
	return f.Disk.SyncDir(t, path)
}

func (f *failingDisk) MkdirAll(t *task.T, path string) error {
	if err := f.hit(path); err != nil {
		return err
	}
	return f.Disk.MkdirAll(t, path)
}

func (f *failingDisk) Open(t *task.T, path string, mode disk.Mode) (disk.File, error) {
	if err := f.hit(path); err != nil {
		return nil, err
	}
	file, err := f.Disk.Open(t, path, mode)
	if err != nil {
		return nil, err
	}
	return &failingFile{file, f, path}, nil
}

type failingFile struct {
	disk.File
	d    *failingDisk
	path string
}

func (f *failingFile) WriteAt(t *task.T, b []byte, at int64) (int, error) {
	if err := f.d.hit(f.path); err != nil {
		return 0, err
	}
	return f.File.WriteAt(t, b, at)
}

func (f *failingFile) Sync(t *task.T) error {
	if err := f.d.hit(f.path); err != nil {
		return err
	}
	return f.File.Sync(t)
}

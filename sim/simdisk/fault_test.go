package simdisk

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"seedlog/clock/task"
	"seedlog/disk"
)

func isErr(t *testing.T, what string, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%s: got %v, want %v", what, err, kind)
	}
}

func TestArmedFaultsFireOnce(t *testing.T) {
	m := newMachine(t, 1, Config{})
	onF := func(p string) bool { return p == "/data/f" }
	m.boot(t, func(tk *task.T, d *Mount) {
		f := must(d.Open(tk, "/data/f", disk.Create))
		g := must(d.Open(tk, "/data/g", disk.Create))
		must(f.WriteAt(tk, filled('x', 5000), 0))
		b := make([]byte, 10)

		in := m.d.Arm(&Injection{Fault: ReadError, Match: onF, Skip: 1})
		must(f.ReadAt(tk, b, 0))
		_, err := g.ReadAt(tk, b, 0)
		isErr(t, "other file", err, io.EOF)
		_, err = f.ReadAt(tk, b, 0)
		isErr(t, "read", err, disk.ErrIO)
		must(f.ReadAt(tk, b, 0))
		if !in.Fired {
			t.Error("does not say that it fired")
		}
		m.d.Arm(&Injection{Fault: WriteError, Match: onF})
		n, err := f.WriteAt(tk, filled('y', 100), 0)
		isErr(t, "write", err, disk.ErrIO)
		if n > 100 {
			t.Errorf("wrote %d of 100", n)
		}
		m.d.Arm(&Injection{Fault: WriteFull})
		_, err = f.WriteAt(tk, filled('y', 100), 0)
		isErr(t, "write", err, disk.ErrNoSpace)
		m.d.Arm(&Injection{Fault: SyncError})
		isErr(t, "sync", f.Sync(tk), disk.ErrIO)
		m.d.Arm(&Injection{Fault: SyncError})
		isErr(t, "sync directory", d.SyncDir(tk, "/data"), disk.ErrIO)
		m.d.Arm(&Injection{Fault: CloseError})
		isErr(t, "close", g.Close(tk), disk.ErrIO)
		isErr(t, "close again", g.Close(tk), disk.ErrClosed)
	})
	for _, f := range []Fault{ReadError, WriteError, WriteFull, CloseError} {
		if c := m.d.Count(f); c != (Counter{1, 1}) {
			t.Errorf("%s: %+v", f, c)
		}
	}
}

// The fsync that lies the second time (Rebello et al., ATC 2020).
func TestFailedSyncForgets(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(100) {
		m := newMachine(t, seed, Config{})
		m.boot(t, func(tk *task.T, d *Mount) {
			f := must(d.Open(tk, "/data/f", disk.Create))
			must(f.WriteAt(tk, filled('s', 2048), 0))
			check(f.Sync(tk))
			check(d.SyncDir(tk, "/data"))
			must(f.WriteAt(tk, filled('u', 4096), 2048))
			m.d.Arm(&Injection{Fault: SyncForgets})
			isErr(t, "sync", f.Sync(tk), disk.ErrIO)
			must(f.WriteAt(tk, filled('v', 512), 6144))
			check(f.Sync(tk)) // succeeds, and proves nothing
			b := make([]byte, 4096)
			must(f.ReadAt(tk, b, 2048))
			switch {
			case bytes.Equal(b, filled('u', 4096)):
				seen["still cached"]++
			case bytes.Equal(b, filled(0, 4096)):
				seen["evicted"]++
			default:
				t.Errorf("seed %d: neither", seed)
			}
		})
		m.d.PowerLoss()
		b, _ := m.d.ReadFile("/data/f")
		want := append(append(filled('s', 2048), filled(0, 4096)...), filled('v', 512)...)
		if !bytes.Equal(b, want) {
			t.Fatalf("seed %d: forgotten data came back, or synced data was lost", seed)
		}
		if c := m.d.Count(SyncForgets); c != (Counter{1, 1}) {
			t.Fatalf("%+v", c)
		}
		if f := m.d.Forgotten(); len(f) != 1 || f[0] != "/data/f" {
			t.Fatalf("forgotten: %v", f)
		}
	}
	want(t, seen, "still cached", "evicted")
}

// What is unsynced may be gone from the page cache: nobody sends it on.
func TestAFailedSyncCutsTheRanges(t *testing.T) {
	for _, fault := range []Fault{SyncError, SyncForgets} {
		m := newMachine(t, 1, Config{})
		m.boot(t, func(tk *task.T, d *Mount) {
			f := must(d.Open(tk, "/data/f", disk.Create))
			must(f.WriteAt(tk, filled('u', 4096), 0))
			before := f.Range(0, 4096)
			m.d.Arm(&Injection{Fault: fault})
			isErr(t, "sync", f.Sync(tk), disk.ErrIO)
			if !before.Cut() || before.Begin() {
				t.Errorf("%v: a range of before the failure can still be sent", fault)
			}
			before.Release()
		})
	}
}

func TestRewritingForgottenDataMakesItDurable(t *testing.T) {
	m := newMachine(t, 1, Config{})
	m.boot(t, func(tk *task.T, d *Mount) {
		f := must(d.Open(tk, "/data/f", disk.Create))
		check(d.SyncDir(tk, "/data"))
		must(f.WriteAt(tk, filled('u', 1024), 0))
		m.d.Arm(&Injection{Fault: SyncForgets})
		isErr(t, "sync", f.Sync(tk), disk.ErrIO)
		must(f.WriteAt(tk, filled('w', 1024), 0))
		check(f.Sync(tk))
	})
	m.d.PowerLoss()
	if b, _ := m.d.ReadFile("/data/f"); !bytes.Equal(b, filled('w', 1024)) {
		t.Errorf("%q", b)
	}
}

func TestFullDisk(t *testing.T) {
	m := newMachine(t, 1, Config{Capacity: 10 * sectorSize})
	m.boot(t, func(tk *task.T, d *Mount) {
		f := must(d.Open(tk, "/data/f", disk.Create))
		n, err := f.WriteAt(tk, filled('x', 20*sectorSize), 0)
		isErr(t, "write", err, disk.ErrNoSpace)
		if n != 10*sectorSize {
			t.Errorf("wrote %d", n)
		}
		must(f.WriteAt(tk, filled('y', sectorSize), 0)) // overwriting needs no space
		g := must(d.Open(tk, "/data/g", disk.Create))
		_, err = g.WriteAt(tk, []byte("x"), 0)
		isErr(t, "write", err, disk.ErrNoSpace)
		check(d.Remove(tk, "/data/f"))
		_, err = g.WriteAt(tk, []byte("x"), 0)
		isErr(t, "write while the removed file is open", err, disk.ErrNoSpace)
		check(f.Close(tk))
		must(g.WriteAt(tk, []byte("x"), 0))
		if m.d.Used() != sectorSize {
			t.Errorf("%d bytes used", m.d.Used())
		}
		check(g.Truncate(tk, 0))
		if m.d.Used() != 0 {
			t.Errorf("%d bytes used", m.d.Used())
		}
	})
	if c := m.d.Count(NoSpace); c != (Counter{3, 3}) {
		t.Errorf("%+v", c)
	}
}

func TestReadOnlyAndWiped(t *testing.T) {
	m := newMachine(t, 1, Config{})
	m.boot(t, func(tk *task.T, d *Mount) {
		f := must(d.Open(tk, "/data/f", disk.Create))
		must(f.WriteAt(tk, []byte("abc"), 0))
		m.d.SetReadOnly(true)
		isErr(t, "write", second(f.WriteAt(tk, []byte("x"), 0)), disk.ErrReadOnly)
		isErr(t, "truncate", f.Truncate(tk, 0), disk.ErrReadOnly)
		isErr(t, "sync", f.Sync(tk), disk.ErrReadOnly)
		isErr(t, "open", second(d.Open(tk, "/data/f", disk.Write)), disk.ErrReadOnly)
		isErr(t, "create", second(d.Open(tk, "/data/g", disk.Create)), disk.ErrReadOnly)
		isErr(t, "remove", d.Remove(tk, "/data/f"), disk.ErrReadOnly)
		isErr(t, "rename", d.Rename(tk, "/data/f", "/data/g"), disk.ErrReadOnly)
		isErr(t, "mkdir", d.MkdirAll(tk, "/data/sub"), disk.ErrReadOnly)
		isErr(t, "lock", second(d.Lock(tk, "/data/.lock")), disk.ErrReadOnly)
		check(must(d.Open(tk, "/data/f", disk.Read)).Close(tk))
		m.d.CalmDown()
		check(f.Sync(tk))
	})
	if c := m.d.Count(ReadOnly); c.Fired != 1 || c.Effective < 5 {
		t.Errorf("%+v", c)
	}
	m.d.Wipe()
	if len(m.d.List("/")) != 0 || m.d.Used() != 0 {
		t.Error("a wiped disk is not empty")
	}
}

func TestDamageIsEffectiveWhenRead(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(60) {
		m := newMachine(t, seed, Config{})
		m.d.WriteFile("/data/f", filled('x', 3000))
		m.d.WriteFile("/data/g", filled('\x87', 3000)) // not one bit away from x
		x, ok := m.d.Rot(nil)
		if !ok || m.d.Count(BitRot) != (Counter{1, 0}) {
			t.Fatalf("%v %+v", ok, m.d.Count(BitRot))
		}
		seen[x.Path]++
		m.boot(t, func(tk *task.T, d *Mount) {
			f := must(d.Open(tk, x.Path, disk.Write))
			b := make([]byte, 3000)
			must(f.ReadAt(tk, b, 0))
			if v := b[x.Off]; v == 'x' || v == '\x87' {
				t.Errorf("byte %d is well", x.Off)
			}
			must(f.ReadAt(tk, b, 0))
		})
		if c := m.d.Count(BitRot); c != (Counter{1, 1}) {
			t.Fatalf("%+v", c)
		}
	}
	want(t, seen, "/data/f", "/data/g")
}

func TestMisdirectedWrite(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(100) {
		m := newMachine(t, seed, Config{})
		m.d.WriteFile("/data/f", filled('x', 3000))
		m.d.WriteFile("/data/g", filled('y', 3000))
		m.boot(t, func(tk *task.T, d *Mount) {
			f := must(d.Open(tk, "/data/f", disk.Write))
			m.d.Arm(&Injection{Fault: Misdirected})
			must(f.WriteAt(tk, filled('z', 700), 3000))
			b := make([]byte, 700)
			must(f.ReadAt(tk, b, 3000))
			if bytes.Contains(b, []byte{'z'}) {
				t.Errorf("seed %d: the write hit", seed)
			}
		})
		f, _ := m.d.ReadFile("/data/f")
		g, _ := m.d.ReadFile("/data/g")
		if len(f) != 3700 || len(g) != 3000 {
			t.Fatalf("seed %d: sizes %d, %d", seed, len(f), len(g))
		}
		seen[fmt.Sprint(bytes.Contains(f, []byte{'z'}), bytes.Contains(g, []byte{'z'}))]++
		if c := m.d.Count(Misdirected); c != (Counter{1, 1}) {
			t.Fatalf("%+v", c)
		}
	}
	want(t, seen, "true false", "false true", "false false")
	if seen["true true"] > 0 {
		t.Errorf("%v", seen)
	}
}

// Turning one fault off leaves the others where they were.
func TestFaultStreamsAreIndependent(t *testing.T) {
	run := func(faults ...Fault) (failed []int) {
		m := newMachine(t, 5, Config{Latency: None{}})
		for _, f := range faults {
			m.d.SetRate(f, 5, nil)
		}
		m.boot(t, func(tk *task.T, d *Mount) {
			f := must(d.Open(tk, "/data/f", disk.Create))
			for i := range 200 {
				if _, err := f.WriteAt(tk, filled('x', 100), int64(i*100)); errors.Is(err, disk.ErrIO) {
					failed = append(failed, i)
				}
				f.ReadAt(tk, make([]byte, 10), 0)
				f.Sync(tk)
			}
		})
		return failed
	}
	alone, others := run(WriteError), run(WriteError, ReadError, SyncError, SyncForgets, BitRot, Slow)
	if len(alone) < 10 || fmt.Sprint(alone) != fmt.Sprint(others) {
		t.Errorf("writes that fail alone: %v\nwith other faults on: %v", alone, others)
	}
}

func TestSlowAndStalled(t *testing.T) {
	m := newMachine(t, 1, Config{Latency: None{}})
	m.boot(t, func(tk *task.T, d *Mount) {
		f := must(d.Open(tk, "/data/f", disk.Create))
		start := tk.Now()
		m.d.StallFor(2 * time.Second)
		must(f.WriteAt(tk, []byte("x"), 0))
		if took := tk.Now().Sub(start); took < 2*time.Second {
			t.Errorf("a stalled disk took %v", took)
		}
		start = tk.Now()
		m.d.Arm(&Injection{Fault: Slow})
		check(f.Sync(tk))
		if took := tk.Now().Sub(start); took < 100*time.Microsecond {
			t.Errorf("a slow sync took %v", took)
		}
		start = tk.Now()
		m.d.HoldFor(OpSync, time.Second, func(path string) bool { return path == "/data/f" })
		must(f.WriteAt(tk, []byte("x"), 0))
		if took := tk.Now().Sub(start); took > 0 {
			t.Errorf("a write took %v, and syncs are held", took)
		}
		check(f.Sync(tk))
		if took := tk.Now().Sub(start); took < time.Second {
			t.Errorf("a held sync took %v", took)
		}
		m.d.HoldFor(OpSync, 0, nil)
		start = tk.Now()
		check(f.Sync(tk))
		if took := tk.Now().Sub(start); took > 0 {
			t.Errorf("a sync that is held no more took %v", took)
		}
	})
	for _, f := range []Fault{Slow, Stalled} {
		if c := m.d.Count(f); c.Fired != 1 || c.Effective < 1 {
			t.Errorf("%s: %+v", f, c)
		}
	}
}

func BenchmarkAppendAndRead(b *testing.B) {
	m := newMachine(b, 1, Config{Latency: None{}})
	b.ReportAllocs()
	m.boot(b, func(tk *task.T, d *Mount) {
		f := must(d.Open(tk, "/data/f", disk.Create))
		p := make([]byte, 1024)
		off := int64(0)
		for b.Loop() {
			must(f.WriteAt(tk, p, off))
			must(f.ReadAt(tk, p, off))
			if off += 1024; off == 1<<20 {
				off = 0
				check(f.Sync(tk))
				check(f.Truncate(tk, 0))
			}
		}
	})
}

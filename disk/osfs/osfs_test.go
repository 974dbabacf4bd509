//go:build linux

package osfs

import (
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"seedlog/clock"
	"seedlog/clock/live"
	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/disk/disktest"
)

func TestConformance(t *testing.T) {
	disktest.Run(t, func(tb testing.TB) disktest.Host {
		return host(tb, New(Options{}))
	})
}

// With one call at a time every wait for admission is taken that there is.
func TestConformanceOneCallAtATime(t *testing.T) {
	disktest.Run(t, func(tb testing.TB) disktest.Host {
		return host(tb, New(Options{BlockingPerDir: 1}))
	})
}

func host(tb testing.TB, d *Disk) disktest.Host {
	rt := live.New(live.Options{})
	return disktest.Host{Disk: d, Root: tb.TempDir(), Run: func(main func(t *task.T)) { live.Main(rt, main) }}
}

// run runs fn as a task and reports its error.
func run(t *testing.T, fn func(t *task.T) error) {
	t.Helper()
	var err error
	live.Main(live.New(live.Options{}), func(tk *task.T) { err = fn(tk) })
	if err != nil {
		t.Fatal(err)
	}
}

func TestReadAndWriteAllocateNothing(t *testing.T) {
	d := New(Options{})
	dir := t.TempDir()
	run(t, func(tk *task.T) error {
		f, err := d.Open(tk, dir+"/f", disk.Create)
		if err != nil {
			return err
		}
		b, vec := make([]byte, 1024), make([][]byte, 4)
		for _, c := range []struct {
			name string
			fn   func()
		}{
			{"WriteAt", func() { f.WriteAt(tk, b, 0) }},
			{"ReadAt", func() { f.ReadAt(tk, b, 0) }},
			{"WriteVec", func() {
				for i := range vec {
					vec[i] = b[i*256 : i*256+256]
				}
				f.WriteVec(tk, vec, 0)
			}},
			{"Size", func() { f.Size(tk) }},
			{"Admit", func() { f.(disk.Descriptor).Admit(tk); f.(disk.Descriptor).Release() }},
		} {
			if n := testing.AllocsPerRun(100, c.fn); n != 0 {
				t.Errorf("%s allocates %v times", c.name, n)
			}
		}
		return f.Close(tk)
	})
}

// A sick disk holds as many calls as its tree admits, the others wait as parked tasks, in
// order; and another tree goes on.
func TestAdmissionIsBoundedPerTree(t *testing.T) {
	const k = 2
	d := New(Options{BlockingPerDir: k})
	dir := t.TempDir()
	run(t, func(tk *task.T) error {
		for _, sub := range []string{"/sick", "/well"} {
			if err := d.MkdirAll(tk, dir+sub); err != nil {
				return err
			}
			if _, err := d.Lock(tk, dir+sub+"/.lock"); err != nil {
				return err
			}
		}
		sick, err := d.Open(tk, dir+"/sick/f", disk.Create)
		if err != nil {
			return err
		}
		well, err := d.Open(tk, dir+"/well/f", disk.Create)
		if err != nil {
			return err
		}
		var in, most, through atomic.Int32
		hold := task.NewEvent(tk.Runtime(), "test")
		g := task.NewGroup(tk.Runtime(), "callers")
		desc := sick.(disk.Descriptor)
		for range 20 {
			g.Go("caller", func(t *task.T) {
				desc.Admit(t)
				now := in.Add(1)
				for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
				}
				hold.Wait(t, clock.Never)
				in.Add(-1)
				desc.Release()
				through.Add(1)
			})
		}
		for in.Load() < k {
			tk.Park(tk.Now().Add(1e6))
		}
		if _, err := well.WriteAt(tk, []byte("goes on"), 0); err != nil {
			return err
		}
		hold.Set()
		g.Wait(tk)
		if most.Load() != k || through.Load() != 20 {
			t.Errorf("at most %d calls were admitted, want %d; %d of 20 came through", most.Load(), k, through.Load())
		}
		return nil
	})
}

func TestErrorsKeepTheErrno(t *testing.T) {
	err := fail("write", "/data/x", unix.ENOSPC)
	if !errors.Is(err, disk.ErrNoSpace) || !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("%v is not both", err)
	}
	if got, want := err.Error(), "write /data/x: no space left on device"; got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
	if err := fail("open", "/x", unix.EMFILE); !errors.Is(err, unix.EMFILE) || !strings.Contains(err.Error(), "/x") {
		t.Fatal(err)
	}
}

// A full device: what fitted is reported, and the error is the contract's.
func TestFullDevice(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skipf("no /dev/full here: %v", err)
	}
	run(t, func(tk *task.T) error {
		f, err := New(Options{}).Open(tk, "/dev/full", disk.Write)
		if err != nil {
			return err
		}
		n, err := f.WriteAt(tk, []byte("x"), 0)
		if n != 0 || !errors.Is(err, disk.ErrNoSpace) {
			t.Errorf("n=%d err=%v", n, err)
		}
		return f.Close(tk)
	})
}

// A lock of another process, taken the way a JVM takes it, excludes us. The other process
// is this test binary once more.
func TestLockOfAnotherProcess(t *testing.T) {
	path := t.TempDir() + "/.lock"
	if target := os.Getenv("OSFS_TEST_LOCK"); target != "" {
		posixLockAndReport(target)
		return
	}
	d := New(Options{})
	run(t, func(tk *task.T) error {
		l, err := d.Lock(tk, path)
		if err != nil {
			return err
		}
		if out := lockInChild(t, path); !strings.Contains(out, "refused") {
			t.Errorf("another process took our lock: %s", out)
		}
		if err := l.Close(tk); err != nil {
			return err
		}
		if out := lockInChild(t, path); !strings.Contains(out, "granted") {
			t.Errorf("another process is refused a free lock: %s", out)
		}
		return nil
	})
}

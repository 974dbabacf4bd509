package simdisk

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/disk/disktest"
	"seedlog/sim/sched"
	"seedlog/sim/trace"
)

// machine is a disk in a world of its own.
type machine struct {
	s   *sched.Scheduler
	log *trace.Log
	d   *Disk
	n   int
}

func newMachine(tb testing.TB, seed uint64, c Config) *machine {
	m := &machine{log: new(trace.Log)}
	m.s = sched.New(seed, sched.DrawConfig(sched.Stream(seed, "config")), m.log)
	tb.Cleanup(m.s.Close)
	c.Rand, c.Trace, c.ID = m.s.Stream, m.log, 1
	m.d = New(c)
	m.d.MakeDir("/data")
	return m
}

// boot runs main in a new incarnation until it and its tasks end, or the incarnation.
func (m *machine) boot(tb testing.TB, main func(t *task.T, d *Mount)) {
	tb.Helper()
	m.n++
	rt := m.s.NewRuntime(fmt.Sprint("m", m.n), sched.ClockParams{})
	mount := m.d.Mount(rt)
	g := task.NewGroup(rt, "main")
	g.Go("main", func(t *task.T) {
		main(t, mount)
		g.Stop()
	})
	m.s.Run(func() bool { return rt.Dead() || g.Len() == 0 }, clock.Never)
	if f := m.s.Failure(); f != nil {
		tb.Fatal(f)
	}
	mount.Kill()
}

// lateDisk is a disk.Disk that is known when the task runs.
type lateDisk struct{ *Mount }

func TestConformance(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			disktest.Run(t, func(tb testing.TB) disktest.Host {
				m := newMachine(tb, seed, Config{})
				late := new(lateDisk)
				return disktest.Host{Disk: late, Root: "/data", Run: func(main func(t *task.T)) {
					m.boot(tb, func(t *task.T, d *Mount) {
						late.Mount = d
						main(t)
					})
				}}
			})
		})
	}
}

// must fails the run with the task's name.
func must[V any](v V, err error) V {
	if err != nil {
		panic(err)
	}
	return v
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func TestSameSeedSameTrace(t *testing.T) {
	run := func(seed uint64) (uint64, string) {
		m := newMachine(t, seed, Config{})
		for _, f := range AllFaults() {
			m.d.SetRate(f, 7, nil)
		}
		m.boot(t, func(tk *task.T, d *Mount) {
			r := rand.New(rand.NewPCG(seed, 0))
			for i := range 60 {
				f, err := d.Open(tk, fmt.Sprintf("/data/f%d", r.IntN(5)), disk.Create)
				if err != nil {
					continue
				}
				f.WriteAt(tk, make([]byte, r.IntN(9000)), int64(r.IntN(9000)))
				f.ReadAt(tk, make([]byte, 5000), 0)
				f.Truncate(tk, int64(r.IntN(20000)))
				if i%3 == 0 {
					f.Sync(tk)
				}
				d.Rename(tk, f.Path(), "/data/g")
				d.SyncDir(tk, "/data")
				f.Close(tk)
			}
		})
		m.d.PowerLoss()
		return m.log.Hash(), dump(m.d)
	}
	h1, d1 := run(3)
	h2, d2 := run(3)
	if h1 != h2 || d1 != d2 {
		t.Fatal("one seed, two outcomes")
	}
	if h3, _ := run(4); h3 == h1 {
		t.Fatal("two seeds, one trace")
	}
}

func dump(d *Disk) (s string) {
	d.Walk(func(p string, size int64) {
		b, _ := d.ReadFile(p)
		s += fmt.Sprintf("%s %d %x\n", p, size, b)
	})
	return s
}

func TestKillLosesNothingThatWasWritten(t *testing.T) {
	for seed := range uint64(100) {
		m := newMachine(t, seed, Config{})
		var wrote int
		m.boot(t, func(tk *task.T, d *Mount) {
			f := must(d.Open(tk, "/data/f", disk.Create))
			tk.Go("killer", func(k *task.T) {
				k.Park(k.Now().Add(400_000)) // some time in the middle
				d.Kill()
				k.Runtime().(*sched.Runtime).Kill()
			})
			for i := range 1000 {
				if _, err := f.WriteAt(tk, pattern(i), int64(i*700)); err != nil {
					panic(err)
				}
				wrote = i + 1
			}
		})
		b, _ := m.d.ReadFile("/data/f")
		for i := range wrote {
			if got := string(b[i*700 : i*700+700]); got != string(pattern(i)) {
				t.Fatalf("seed %d: write %d of %d acknowledged ones is not there", seed, i, wrote)
			}
		}
		if len(b) > (wrote+1)*700 {
			t.Fatalf("seed %d: %d bytes from %d writes: a write after death had an effect", seed, len(b), wrote)
		}
	}
}

func pattern(i int) []byte {
	b := make([]byte, 700)
	for k := range b {
		b[k] = byte(i*31 + k + 1)
		if b[k] == 0 {
			b[k] = 1
		}
	}
	return b
}

func TestDeadHandlesRefuse(t *testing.T) {
	m := newMachine(t, 1, Config{})
	var old disk.File
	var oldMount *Mount
	m.boot(t, func(tk *task.T, d *Mount) {
		oldMount = d
		old = must(d.Open(tk, "/data/f", disk.Create))
		must(old.WriteAt(tk, []byte("before"), 0))
		must(d.Lock(tk, "/data/.lock"))
	})
	m.boot(t, func(tk *task.T, d *Mount) {
		check(must(d.Lock(tk, "/data/.lock")).Close(tk)) // the dead one's lock is free
		for name, err := range map[string]error{
			"write":  second(old.WriteAt(tk, []byte("after"), 0)),
			"read":   second(old.ReadAt(tk, make([]byte, 1), 0)),
			"sync":   old.Sync(tk),
			"close":  old.Close(tk),
			"remove": oldMount.Remove(tk, "/data/f"),
		} {
			if !errors.Is(err, disk.ErrClosed) {
				t.Errorf("%s by a dead incarnation: %v", name, err)
			}
		}
	})
	if b, _ := m.d.ReadFile("/data/f"); string(b) != "before" {
		t.Errorf("the dead incarnation changed the file: %q", b)
	}
}

func second[V any](_ V, err error) error { return err }

func TestSparseFilesCostNothing(t *testing.T) {
	m := newMachine(t, 1, Config{Capacity: 100_000})
	m.boot(t, func(tk *task.T, d *Mount) {
		for i := range 100 {
			f := must(d.Open(tk, fmt.Sprint("/data/", i, ".index"), disk.Create))
			check(f.Truncate(tk, 10<<20))
			check(f.Sync(tk))
		}
		if u := must(d.Usage(tk, "/data")); u.Free != 100_000 {
			t.Errorf("100 empty files of 10 MiB use %d bytes", u.Total-u.Free)
		}
	})
}

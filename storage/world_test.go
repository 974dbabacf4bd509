package storage

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"seedlog/clock"
	"seedlog/clock/live"
	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/disk/osfs"
	"seedlog/sim/sched"
	"seedlog/sim/simdisk"
	"seedlog/sim/trace"
	"seedlog/storage/record"
)

// events collects what a Dir says.
type events struct {
	list []Event
}

func (e *events) Observe(ev Event) { e.list = append(e.list, ev) }

func (e *events) count(k Kind) (n int) {
	for _, ev := range e.list {
		if ev.Kind == k {
			n++
		}
	}
	return n
}

// testTB is what *testing.T and *rapid.T have in common, as far as it is needed.
type testTB interface {
	Helper()
	Fatal(args ...any)
	Cleanup(func())
}

// machine is a simulated machine: a disk that outlives its incarnations.
type machine struct {
	tb     testTB
	s      *sched.Scheduler
	d      *simdisk.Disk
	events *events
	n      int
	rt     *sched.Runtime // of the incarnation that runs
}

func newMachine(tb testTB, seed uint64) *machine {
	m := &machine{tb: tb, events: new(events)}
	m.s = sched.New(seed, sched.DrawConfig(sched.Stream(seed, "config")), new(trace.Log))
	tb.Cleanup(m.s.Close)
	m.d = simdisk.New(simdisk.Config{Rand: m.s.Stream, ID: 1})
	m.d.MakeDir("/data")
	return m
}

// boot runs main in a new incarnation until it, or the incarnation, ends.
func (m *machine) boot(main func(t *task.T, env Env)) {
	m.tb.Helper()
	m.n++
	rt := m.s.NewRuntime(fmt.Sprint("m", m.n), sched.ClockParams{})
	m.rt = rt
	mount := m.d.Mount(rt)
	g := task.NewGroup(rt, "main")
	g.Go("main", func(t *task.T) {
		main(t, Env{RT: rt, Disk: mount, Events: m.events, Rand: m.s.Stream(fmt.Sprint("storage", m.n))})
		g.Stop()
	})
	m.s.Run(func() bool { return rt.Dead() || g.Len() == 0 }, clock.Never)
	if f := m.s.Failure(); f != nil {
		m.tb.Fatal(f)
	}
	mount.Kill()
}

// onDisk runs main on the machine's real disk, in a directory of the test.
func onDisk(tb testing.TB, main func(t *task.T, env Env, root string)) {
	tb.Helper()
	rt := live.New(live.Options{})
	root := tb.TempDir()
	live.Main(rt, func(t *task.T) {
		main(t, Env{RT: rt, Disk: osfs.New(osfs.Options{}), Rand: rand.New(rand.NewPCG(1, 2))}, root)
	})
}

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

// batchOf builds a batch of n records of size bytes of value.
func batchOf(n, size int, ts int64, edit func(o *record.Options)) []byte {
	o := record.NewOptions(0)
	if edit != nil {
		edit(&o)
	}
	records := make([]record.Record, n)
	for i := range records {
		records[i] = record.Record{Offset: o.BaseOffset + int64(i), Timestamp: ts + int64(i)*7%10, Value: make([]byte, size)}
	}
	return must(record.AppendBatch(nil, o, nil, records...))
}

// idempotent makes the options of producer id's batch at the sequence.
func idempotent(id int64, epoch int16, seq int32) func(o *record.Options) {
	return func(o *record.Options) { o.ProducerID, o.ProducerEpoch, o.BaseSequence = id, epoch, seq }
}

// readAll reads the whole log, from its start, batch by batch.
func readAll(t *task.T, l *Log, bound Bound) []byte {
	var out []byte
	at := l.LogStartOffset()
	for {
		b := must(l.ReadInto(t, at, 1<<20, bound, true, nil))
		it := record.NewBatches(b)
		before := at
		for it.Next() {
			at = it.Header().NextOffset()
			out = append(out, it.Bytes()...)
		}
		if at == before {
			return out
		}
	}
}

func fileSize(t *task.T, d disk.Disk, path string) int64 {
	in, err := d.Stat(t, path)
	if err != nil {
		return -1
	}
	return in.Size
}

func openDir(t *task.T, env Env, path string) *Dir {
	return must(OpenDir(t, env, path, DirConfig{RecoveryThreads: 2}))
}

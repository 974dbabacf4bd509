package storage

import (
	"errors"
	"fmt"
	"testing"

	"seedlog/clock/task"
	"seedlog/sim/simdisk"
)

// errStep tells which step of a life failed.
type errStep struct {
	name string
	err  error
}

func (e errStep) Error() string { return e.name + ": " + e.err.Error() }

// wholeLife opens a directory twice and does in it what makes and unmakes files, up to the
// first failure; then it closes the directory, and returns what is open after that.
func wholeLife(tk *task.T, env Env, life int, clean bool) (open []string, failed error) {
	cfg := Config{SegmentBytes: 400}
	d, err := OpenDir(tk, env, "/data/logs", DirConfig{RecoveryThreads: 2, MaxOpenFiles: 4, BallastBytes: 1 << 12})
	if err != nil {
		return env.Disk.(*simdisk.Mount).OpenFiles(), err
	}
	step := func(name string, fn func() error) {
		if failed == nil {
			if err := fn(); err != nil {
				failed = errStep{name, err}
			}
		}
	}
	var m, a *Log
	step("metadata", func() (err error) { m, err = d.Open(tk, MetadataTopic, [16]byte{9}, 0, cfg); return err })
	step("load", func() error {
		_, err := d.Load(tk, func(string, [16]byte) Config { return cfg }, nil)
		return err
	})
	step("create", func() (err error) { a, err = d.Create(tk, "a", [16]byte{byte(life)}, 0, cfg); return err })
	if life == 0 { // the second life finds these, and recovers them
		step("create more", func() error {
			for i := range int32(3) {
				b, err := d.Create(tk, "b", [16]byte{2}, i, cfg)
				if err != nil {
					return err
				}
				for range 5 {
					if _, err := b.Append(tk, 0, plainBatch(), Client); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	step("append", func() error {
		for i := range 10 {
			for _, l := range []*Log{m, a} {
				if _, err := l.Append(tk, int32(life), plainBatch(), Client); err != nil {
					return err
				}
				l.SetHighWatermark(l.LogEndOffset())
			}
			if i%3 == 2 {
				if err := m.Roll(tk); err != nil {
					return err
				}
			}
		}
		return nil
	})
	step("read", func() error {
		_, err := a.ReadInto(tk, 0, 1<<20, ToLogEnd, true, nil)
		return err
	})
	step("trim", func() error { _, err := m.DeleteRecords(tk, m.LogEndOffset()-2); return err })
	step("cut", func() error { return a.TruncateTo(tk, 4) })
	step("append after the cut", func() error { _, err := a.Append(tk, int32(life), plainBatch(), Client); return err })
	step("empty", func() error { return m.TruncateFullyAt(tk, m.LogEndOffset()) })
	step("delete", func() error { return d.Delete(tk, a) })
	if clean && failed == nil {
		failed = d.CloseClean(tk, 1)
	} else if err := d.Close(tk); failed == nil {
		failed = err
	}
	return env.Disk.(*simdisk.Mount).OpenFiles(), failed
}

// A stop closes every file: of logs that serve, of segments that were trimmed or cut away
// and wait for being unlinked, of deleted logs; and so it does after a failure at any call.
func TestStopClosesEveryFile(t *testing.T) {
	for _, fault := range []simdisk.Fault{simdisk.ReadError, simdisk.WriteError, simdisk.SyncError, simdisk.CloseError} {
		fired := true
		for skip := int(fault); fired; skip += 7 { // every seventh call, for time
			m := newMachine(t, uint64(skip))
			in := m.d.Arm(&simdisk.Injection{Fault: fault, Skip: skip})
			for life := range 2 {
				m.boot(func(tk *task.T, env Env) {
					open, err := wholeLife(tk, env, life, skip%2 == 0)
					if len(open) > 0 {
						t.Errorf("fault %v at call %d, life %d, %v: %d files stay open: %v", fault, skip, life, err, len(open), open)
					}
					if err != nil && !in.Fired {
						t.Errorf("nothing failed, and yet: %v", err)
					}
				})
			}
			fired = in.Fired
			if t.Failed() {
				return
			}
		}
	}
}

// A file in use when its directory is closed is closed by its last user.
func TestLastUserClosesTheFile(t *testing.T) {
	m := newMachine(t, 1)
	m.boot(func(tk *task.T, env Env) {
		d := openDir(tk, env, "/data/logs")
		l := must(d.Create(tk, "a", [16]byte{1}, 0, Config{}))
		must(l.Append(tk, 0, plainBatch(), Client))
		s := l.active()
		must(d.files.acquire(tk, &s.log))
		check(d.CloseClean(tk, 1))
		if open := env.Disk.(*simdisk.Mount).OpenFiles(); len(open) != 1 {
			panic(fmt.Sprint("in use: ", open))
		}
		if _, err := d.files.acquire(tk, &fileHandle{path: s.log.path}); !errors.Is(err, ErrClosed) {
			panic("opened after the end: " + errText(err))
		}
		d.files.release(tk, &s.log)
		if open := env.Disk.(*simdisk.Mount).OpenFiles(); len(open) != 0 {
			panic(fmt.Sprint("stay open: ", open))
		}
	})
}

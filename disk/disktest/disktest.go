// Package disktest is the conformance suite of package disk: what every disk does while
// power lasts. It runs on the files of the operating system and on the simulated disk; what
// a power loss leaves is tested where it can be caused, in sim/simdisk.
//
// Checks run inside tasks, where a test must not end the goroutine; a failed check unwinds
// to the case and is reported by the test's own goroutine.
package disktest

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"seedlog/clock/task"
	"seedlog/disk"
)

// Host is one machine to test.
type Host struct {
	Disk disk.Disk
	// Root is an existing, empty directory.
	Root string
	// Run runs main as a task and returns when it and the tasks it started have ended.
	Run func(main func(t *task.T))
}

// Run runs the suite; factory makes a fresh machine per case.
func Run(t *testing.T, factory func(tb testing.TB) Host) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := factory(t)
			var failure error
			h.Run(func(tk *task.T) {
				failure = guard(func() { c.fn(&C{T: tk, Host: h}) })
			})
			if failure != nil {
				t.Fatal(failure)
			}
		})
	}
}

type testCase struct {
	name string
	fn   func(c *C)
}

var cases = []testCase{
	{"OpenModes", openModes},
	{"ErrorsNameThePath", errorsNamePath},
	{"ReadToTheEnd", readEOF},
	{"HolesReadAsZeros", holes},
	{"Overwrite", overwrite},
	{"WriteVec", writeVec},
	{"Truncate", truncate},
	{"PunchHole", punchHole},
	{"SyncAndAdvise", syncAdvise},
	{"CloseRefuses", closeRefuses},
	{"RenameReplaces", renameReplaces},
	{"RenameDirectory", renameDirectory},
	{"ReadDirInOrder", readDirOrder},
	{"Directories", directories},
	{"RemoveWhileOpen", removeWhileOpen},
	{"Stat", stat},
	{"Usage", usage},
	{"LockExcludes", lockExcludes},
	{"RangeOutlivesClose", rangeOutlivesClose},
	{"RangeBindsLate", rangeBindsLate},
	{"RangeOfAnotherOffset", rangeOffset},
	{"TruncateCutsRanges", truncateCuts},
	{"TruncateWaitsForPiece", truncateWaits},
	{"ReleaseDuringPiece", releaseDuringPiece},
	{"TasksShareAFile", tasksShare},
}

// C is one running case.
type C struct {
	*task.T
	Host Host
}

// stop is what a failed check panics with.
type stop struct{ err error }

func guard(fn func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			s, ok := r.(stop)
			if !ok {
				panic(r)
			}
			err = s.err
		}
	}()
	fn()
	return nil
}

func failf(format string, args ...any) { panic(stop{fmt.Errorf(format, args...)}) }

func (c *C) ok(err error) {
	if err != nil {
		failf("unexpected error: %w", err)
	}
}

func (c *C) is(err, want error) {
	if !errors.Is(err, want) {
		failf("got error %v, want %v", err, want)
	}
}

func (c *C) path(name string) string { return c.Host.Root + "/" + name }

func (c *C) open(name string, m disk.Mode) disk.File {
	f, err := c.Host.Disk.Open(c.T, c.path(name), m)
	c.ok(err)
	return f
}

func (c *C) create(name, content string) disk.File {
	f := c.open(name, disk.CreateNew)
	c.write(f, content, 0)
	return f
}

func (c *C) write(f disk.File, s string, off int64) {
	n, err := f.WriteAt(c.T, []byte(s), off)
	c.ok(err)
	if n != len(s) {
		failf("wrote %d bytes of %d without an error", n, len(s))
	}
}

func (c *C) read(f disk.File, off int64, n int) string {
	b := make([]byte, n)
	m, err := f.ReadAt(c.T, b, off)
	if m != n {
		failf("read %d of %d bytes at %d: %v", m, n, off, err)
	}
	return string(b)
}

func (c *C) want(got, want string) {
	if got != want {
		failf("got %q, want %q", got, want)
	}
}

func (c *C) size(f disk.File, want int64) {
	n, err := f.Size(c.T)
	c.ok(err)
	if n != want {
		failf("size is %d, want %d", n, want)
	}
}

func (c *C) close(f disk.Closer) { c.ok(f.Close(c.T)) }

// gone checks that a path does not exist.
func (c *C) gone(name string) {
	_, err := c.Host.Disk.Stat(c.T, c.path(name))
	c.is(err, disk.ErrNotExist)
}

// zeros checks that a part of a file reads as zeros.
func (c *C) zeros(f disk.File, off int64, n int) {
	if got := c.read(f, off, n); got != string(bytes.Repeat([]byte{0}, n)) {
		failf("bytes %d to %d are not zeros", off, off+int64(n))
	}
}

// until parks until the condition holds, letting other tasks run.
func (c *C) until(what string, cond func() bool) {
	limit := c.Now().Add(10e9)
	for !cond() {
		now := c.Now()
		if now > limit {
			failf("waited 10 s for: %s", what)
		}
		c.Park(now.Add(1e6))
	}
}

package disktest

import (
	"strings"

	"seedlog/clock/task"
	"seedlog/disk"
)

func (c *C) readRange(r *disk.Range, off int64, n int) string {
	b := make([]byte, n)
	m, err := r.ReadAt(c.T, b, off)
	if m != n {
		failf("range: read %d of %d bytes at %d: %v", m, n, off, err)
	}
	return string(b)
}

func rangeOutlivesClose(c *C) {
	f := c.create("f", "pinned bytes")
	if f.HasRanges() {
		failf("a file has ranges from the start")
	}
	r1, r2 := f.Range(0, 12), f.Range(7, 5)
	if !f.HasRanges() {
		failf("a file has no ranges while there are two")
	}
	c.close(f)
	c.ok(c.Host.Disk.Remove(c.T, c.path("f")))
	// Whoever opens files now would get the descriptor if it were free.
	for _, n := range []string{"g", "h", "i"} {
		c.create(n, "other things")
	}
	_, err := f.ReadAt(c.T, make([]byte, 1), 0)
	c.is(err, disk.ErrClosed) // for all but the ranges
	c.want(c.readRange(r1, 0, 12), "pinned bytes")
	r1.Release()
	r1.Release()
	c.want(c.readRange(r2, 0, 5), "bytes")
	r2.Release()
	if f.HasRanges() {
		failf("a file has ranges when all are released")
	}
	if r2.Begin() {
		failf("a released range can be read")
	}
}

func rangeBindsLate(c *C) {
	f := c.create("f", "first bytes!")
	r := f.Range(0, 12)
	c.want(c.readRange(r, 0, 5), "first")
	c.write(f, "FIRST BYTES!", 0)
	c.want(c.readRange(r, 6, 6), "BYTES!")
	if r.Cut() {
		failf("an overwritten range is cut")
	}
	r.Release()
	c.close(f)
}

func rangeOffset(c *C) {
	f := c.create("f", "0123456789")
	r := f.Range(3, 4)
	if r.Off != 3 || r.Len != 4 || r.File().Path() != f.Path() {
		failf("range is %d+%d of %s", r.Off, r.Len, r.File().Path())
	}
	c.want(c.readRange(r, 1, 3), "456")
	r.Release()
	c.close(f)
}

func truncateCuts(c *C) {
	f := c.create("f", strings.Repeat("x", 100))
	below, above := f.Range(0, 50), f.Range(40, 11)
	c.ok(f.Truncate(c.T, 50))
	if below.Cut() || !below.Begin() {
		failf("a range that ends at the cut was cut")
	}
	below.End()
	if !above.Cut() || above.Begin() {
		failf("a range that reaches above the cut was not cut")
	}
	if _, err := above.ReadAt(c.T, make([]byte, 1), 0); err == nil {
		failf("a cut range can be read")
	}
	after := f.Range(0, 50)
	c.ok(f.Truncate(c.T, 200)) // extending cuts nothing
	if after.Cut() || below.Cut() {
		failf("extending the file cut a range")
	}
	for _, r := range []*disk.Range{below, above, after} {
		r.Release()
	}
	c.close(f)
}

func truncateWaits(c *C) {
	f := c.create("f", strings.Repeat("x", 100))
	r := f.Range(0, 100)
	if !r.Begin() {
		failf("cannot begin")
	}
	done := task.NewEvent(c.Runtime(), "disktest")
	var cutErr error
	c.Go("truncate", func(t *task.T) {
		cutErr = f.Truncate(t, 10)
		done.Set()
	})
	c.until("the range to be cut", r.Cut)
	if r.Begin() {
		failf("a cut range starts another piece")
	}
	c.Park(c.Now().Add(2e6)) // the truncation has every chance to run ahead, and must not
	if done.IsSet() {
		failf("truncated under a piece in progress")
	}
	c.size(f, 100)
	r.End()
	c.until("the truncation", done.IsSet)
	c.ok(cutErr)
	c.size(f, 10)
	r.Release()
	c.close(f)
}

func releaseDuringPiece(c *C) {
	f := c.create("f", "bytes")
	r := f.Range(0, 5)
	if !r.Begin() {
		failf("cannot begin")
	}
	r.Release()
	c.close(f)
	c.create("g", "other") // must not get the descriptor of the piece in progress
	b := make([]byte, 5)
	_, err := r.File().(disk.Pinned).ReadPinned(c.T, b, 0)
	c.ok(err)
	c.want(string(b), "bytes")
	r.End()
	if r.Begin() {
		failf("a released range can be read")
	}
}

func tasksShare(c *C) {
	f := c.open("f", disk.CreateNew)
	const tasks, rounds, n = 8, 20, 100
	left := task.NewGroup(c.Runtime(), "writers")
	errs := make([]error, tasks)
	for i := range tasks {
		left.Go("writer", func(t *task.T) {
			mine := strings.Repeat(string(rune('a'+i)), n)
			for k := range rounds {
				off := int64((k*tasks + i) * n)
				if _, err := f.WriteAt(t, []byte(mine), off); err != nil {
					errs[i] = err
					return
				}
				b := make([]byte, n)
				if _, err := f.ReadAt(t, b, off); err != nil || string(b) != mine {
					errs[i] = guard(func() { failf("read %q back: %v", b, err) })
					return
				}
			}
			errs[i] = f.Sync(t)
		})
	}
	left.Wait(c.T)
	for _, err := range errs {
		c.ok(err)
	}
	c.size(f, tasks*rounds*n)
	c.close(f)
}

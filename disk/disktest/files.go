package disktest

import (
	"bytes"
	"io"
	"strings"

	"seedlog/disk"
)

func openModes(c *C) {
	d := c.Host.Disk
	_, err := d.Open(c.T, c.path("f"), disk.Read)
	c.is(err, disk.ErrNotExist)
	_, err = d.Open(c.T, c.path("f"), disk.Write)
	c.is(err, disk.ErrNotExist)
	_, err = d.Open(c.T, c.path("no/f"), disk.Create)
	c.is(err, disk.ErrNotExist)

	f := c.open("f", disk.CreateNew)
	c.size(f, 0)
	c.write(f, "abc", 0)
	c.close(f)
	_, err = d.Open(c.T, c.path("f"), disk.CreateNew)
	c.is(err, disk.ErrExist)

	f = c.open("f", disk.Create) // an existing file keeps its bytes
	c.want(c.read(f, 0, 3), "abc")
	c.close(f)
	f = c.open("f", disk.Write)
	c.write(f, "X", 1)
	c.close(f)
	f = c.open("f", disk.Read)
	c.want(c.read(f, 0, 3), "aXc")
	if n, err := f.WriteAt(c.T, []byte("y"), 0); err == nil || n != 0 {
		failf("a file opened for reading was written: n=%d err=%v", n, err)
	}
	if f.Truncate(c.T, 0) == nil {
		failf("a file opened for reading was truncated")
	}
	c.want(f.Path(), c.path("f"))
	c.close(f)

	c.ok(d.MkdirAll(c.T, c.path("dir")))
	for _, m := range []disk.Mode{disk.Read, disk.Write, disk.Create} {
		_, err = d.Open(c.T, c.path("dir"), m)
		c.is(err, disk.ErrIsDir)
	}
}

func errorsNamePath(c *C) {
	_, err := c.Host.Disk.Open(c.T, c.path("missing"), disk.Read)
	c.is(err, disk.ErrNotExist)
	if !strings.Contains(err.Error(), c.path("missing")) || !strings.Contains(err.Error(), "open") {
		failf("error does not name operation and path: %v", err)
	}
}

func readEOF(c *C) {
	f := c.create("f", "hello")
	b := make([]byte, 10)
	n, err := f.ReadAt(c.T, b, 0)
	if n != 5 || err != io.EOF {
		failf("read past the end: n=%d err=%v", n, err)
	}
	n, err = f.ReadAt(c.T, b[:2], 3) // exactly to the end is no EOF
	if n != 2 || err != nil {
		failf("read to the end: n=%d err=%v", n, err)
	}
	if n, err = f.ReadAt(c.T, b, 5); n != 0 || err != io.EOF {
		failf("read at the end: n=%d err=%v", n, err)
	}
	if n, err = f.ReadAt(c.T, b, 1<<40); n != 0 || err != io.EOF {
		failf("read far past the end: n=%d err=%v", n, err)
	}
	if n, err = f.ReadAt(c.T, nil, 5); n != 0 || err != nil {
		failf("empty read: n=%d err=%v", n, err)
	}
	c.close(f)
}

func holes(c *C) {
	f := c.create("f", "head")
	const far = 10<<20 + 7
	c.write(f, "tail", far)
	c.size(f, far+4)
	c.zeros(f, 4, 5000)
	c.zeros(f, far-5000, 5000)
	c.want(c.read(f, far, 4), "tail")
	c.close(f)
}

func overwrite(c *C) {
	// Across every kind of boundary: sector, page, and the end of the file.
	f := c.open("f", disk.CreateNew)
	model := bytes.Repeat([]byte{0}, 20000)
	end := 0
	for i, at := range []int{0, 511, 512, 4095, 4096, 100, 8000, 3, 12288, 9999} {
		n := 700*i + 1
		b := bytes.Repeat([]byte{byte('a' + i)}, n)
		c.write(f, string(b), int64(at))
		copy(model[at:], b)
		end = max(end, at+n)
		c.size(f, int64(end))
		c.want(c.read(f, 0, end), string(model[:end]))
	}
	n, err := f.WriteAt(c.T, nil, int64(end)+100)
	if n != 0 || err != nil {
		failf("empty write: n=%d err=%v", n, err)
	}
	c.size(f, int64(end))
	c.close(f)
}

func writeVec(c *C) {
	f := c.create("f", "0123456789")
	var bufs [][]byte
	var all []byte
	for i := range 150 { // more than one system call's worth, with empty ones between
		b := bytes.Repeat([]byte{byte('A' + i%26)}, (i*37)%200)
		bufs = append(bufs, b)
		all = append(all, b...)
	}
	keep := len(bufs[1])
	n, err := f.WriteVec(c.T, bufs, 5)
	c.ok(err)
	if n != int64(len(all)) {
		failf("WriteVec wrote %d of %d", n, len(all))
	}
	if len(bufs) != 150 || len(bufs[1]) != keep {
		failf("WriteVec changed the caller's buffers")
	}
	c.size(f, int64(5+len(all)))
	c.want(c.read(f, 0, 5+len(all)), "01234"+string(all))
	n, err = f.WriteVec(c.T, [][]byte{nil, {}}, 0)
	if n != 0 || err != nil {
		failf("empty WriteVec: n=%d err=%v", n, err)
	}
	c.close(f)
}

func truncate(c *C) {
	f := c.create("f", strings.Repeat("x", 3000))
	c.ok(f.Truncate(c.T, 1000))
	c.size(f, 1000)
	b := make([]byte, 2000)
	if n, err := f.ReadAt(c.T, b, 0); n != 1000 || err != io.EOF {
		failf("read after truncation: n=%d err=%v", n, err)
	}
	c.ok(f.Truncate(c.T, 10<<20)) // extending makes zeros, not the old bytes
	c.size(f, 10<<20)
	c.want(c.read(f, 999, 1), "x")
	c.zeros(f, 1000, 3000)
	c.write(f, "y", 2000)
	c.ok(f.Truncate(c.T, 0))
	c.size(f, 0)
	c.ok(f.Truncate(c.T, 2500))
	c.zeros(f, 0, 2500)
	c.close(f)
}

func punchHole(c *C) {
	f := c.create("f", strings.Repeat("x", 20000))
	c.ok(f.PunchHole(c.T, 100, 15000))
	c.size(f, 20000)
	c.want(c.read(f, 0, 100), strings.Repeat("x", 100))
	c.zeros(f, 100, 15000)
	c.want(c.read(f, 15100, 4900), strings.Repeat("x", 4900))
	c.ok(f.PunchHole(c.T, 19000, 5000)) // past the end: the size stays
	c.size(f, 20000)
	c.zeros(f, 19000, 1000)
	c.close(f)
}

func syncAdvise(c *C) {
	f := c.create("f", strings.Repeat("x", 9000))
	c.ok(f.Sync(c.T))
	c.ok(f.Sync(c.T))
	f.Advise(c.T, disk.DontNeed, 0, 9000)
	f.Advise(c.T, disk.WillNeed, 0, 1<<40)
	c.want(c.read(f, 0, 9000), strings.Repeat("x", 9000))
	c.ok(c.Host.Disk.SyncDir(c.T, c.Host.Root))
	c.is(c.Host.Disk.SyncDir(c.T, c.path("none")), disk.ErrNotExist)
	c.close(f)
}

func closeRefuses(c *C) {
	f := c.create("f", "abc")
	c.close(f)
	b := make([]byte, 1)
	_, err := f.ReadAt(c.T, b, 0)
	c.is(err, disk.ErrClosed)
	_, err = f.WriteAt(c.T, b, 0)
	c.is(err, disk.ErrClosed)
	_, err = f.WriteVec(c.T, [][]byte{b}, 0)
	c.is(err, disk.ErrClosed)
	c.is(f.Sync(c.T), disk.ErrClosed)
	c.is(f.Truncate(c.T, 0), disk.ErrClosed)
	c.is(f.PunchHole(c.T, 0, 1), disk.ErrClosed)
	_, err = f.Size(c.T)
	c.is(err, disk.ErrClosed)
	c.is(f.Close(c.T), disk.ErrClosed)
	if r := f.Range(0, 3); r.Begin() {
		failf("a range of a closed file can be read")
	}
}

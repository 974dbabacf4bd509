package disktest

import (
	"slices"

	"seedlog/disk"
)

func renameReplaces(c *C) {
	d := c.Host.Disk
	a := c.create("a", "new")
	b := c.create("b", "old bytes")
	c.ok(d.Rename(c.T, c.path("a"), c.path("b")))
	c.gone("a")
	f := c.open("b", disk.Read)
	c.size(f, 3)
	c.want(c.read(f, 0, 3), "new")
	c.want(c.read(b, 0, 9), "old bytes") // the replaced file lives while it is open
	c.write(a, "N", 0)                   // and a handle follows its file
	c.want(c.read(f, 0, 3), "New")
	for _, x := range []disk.File{a, b, f} {
		c.close(x)
	}
	c.is(d.Rename(c.T, c.path("a"), c.path("c")), disk.ErrNotExist)
	c.is(d.Rename(c.T, c.path("b"), c.path("no/c")), disk.ErrNotExist)
	c.ok(d.Rename(c.T, c.path("b"), c.path("b"))) // onto itself: nothing
	f = c.open("b", disk.Read)
	c.want(c.read(f, 0, 3), "New")
	c.close(f)
}

func renameDirectory(c *C) {
	d := c.Host.Disk
	c.ok(d.MkdirAll(c.T, c.path("t-0")))
	f := c.create("t-0/x", "abc")
	c.ok(d.Rename(c.T, c.path("t-0"), c.path("t-0.deleted")))
	c.gone("t-0")
	c.write(f, "A", 0)
	c.close(f)
	f = c.open("t-0.deleted/x", disk.Read)
	c.want(c.read(f, 0, 3), "Abc")
	c.close(f)
	c.ok(d.MkdirAll(c.T, c.path("full/sub")))
	if d.Rename(c.T, c.path("t-0.deleted"), c.path("full")) == nil {
		failf("a directory replaced one that is not empty")
	}
	if d.Rename(c.T, c.path("t-0.deleted"), c.path("t-0.deleted/in")) == nil {
		failf("a directory moved into itself")
	}
	c.create("plain", "")
	c.is(d.Rename(c.T, c.path("plain"), c.path("full")), disk.ErrIsDir)
}

func readDirOrder(c *C) {
	d := c.Host.Disk
	names := []string{"b", "a", "00000000000000000010.log", "00000000000000000002.log", ".lock", "Z", "a-1", "é"}
	for _, n := range names {
		c.close(c.create(n, n))
	}
	c.ok(d.MkdirAll(c.T, c.path("dir/sub")))
	names = append(names, "dir")
	slices.Sort(names)
	infos, err := d.ReadDir(c.T, c.Host.Root)
	c.ok(err)
	var got []string
	for _, i := range infos {
		got = append(got, i.Name)
		if i.Dir != (i.Name == "dir") {
			failf("%s: Dir=%v", i.Name, i.Dir)
		}
		if !i.Dir && i.Size != int64(len(i.Name)) {
			failf("%s: Size=%d", i.Name, i.Size)
		}
	}
	if !slices.Equal(got, names) {
		failf("got %q, want %q", got, names)
	}
	_, err = d.ReadDir(c.T, c.path("none"))
	c.is(err, disk.ErrNotExist)
	infos, err = d.ReadDir(c.T, c.path("dir/sub"))
	c.ok(err)
	if len(infos) != 0 {
		failf("an empty directory lists %v", infos)
	}
}

func directories(c *C) {
	d := c.Host.Disk
	c.ok(d.MkdirAll(c.T, c.path("a/b/c")))
	c.ok(d.MkdirAll(c.T, c.path("a/b/c")))
	c.close(c.create("a/file", "x"))
	if d.MkdirAll(c.T, c.path("a/file")) == nil || d.MkdirAll(c.T, c.path("a/file/sub")) == nil {
		failf("a directory was made over a file")
	}
	c.is(d.Remove(c.T, c.path("a/b")), disk.ErrNotEmpty)
	c.ok(d.Remove(c.T, c.path("a/b/c")))
	c.ok(d.Remove(c.T, c.path("a/b")))
	c.gone("a/b")
	c.is(d.Remove(c.T, c.path("a/b")), disk.ErrNotExist)
	c.ok(d.Remove(c.T, c.path("a/file")))
	c.ok(d.Remove(c.T, c.path("a")))
	c.gone("a")
}

func removeWhileOpen(c *C) {
	d := c.Host.Disk
	f := c.create("f", "old")
	c.ok(d.Remove(c.T, c.path("f")))
	c.gone("f")
	c.want(c.read(f, 0, 3), "old")
	c.write(f, "!", 3)
	g := c.create("f", "new") // another file, though the name is the same
	c.want(c.read(f, 0, 4), "old!")
	c.want(c.read(g, 0, 3), "new")
	c.ok(f.Sync(c.T))
	c.close(f)
	c.want(c.read(g, 0, 3), "new")
	c.close(g)
}

func stat(c *C) {
	d := c.Host.Disk
	c.close(c.create("f", "12345"))
	i, err := d.Stat(c.T, c.path("f"))
	c.ok(err)
	if i.Name != "f" || i.Size != 5 || i.Dir {
		failf("stat of a file: %+v", i)
	}
	if age := c.UnixMilli() - i.ModMillis; age < -5000 || age > 600_000 {
		failf("file was modified %d ms ago", age)
	}
	i, err = d.Stat(c.T, c.Host.Root)
	c.ok(err)
	if !i.Dir {
		failf("stat of a directory: %+v", i)
	}
	_, err = d.Stat(c.T, c.path("none"))
	c.is(err, disk.ErrNotExist)
}

func usage(c *C) {
	u, err := c.Host.Disk.Usage(c.T, c.Host.Root)
	c.ok(err)
	if u.Total <= 0 || u.Free < 0 || u.Free > u.Total {
		failf("usage %+v", u)
	}
	_, err = c.Host.Disk.Usage(c.T, c.path("none"))
	c.is(err, disk.ErrNotExist)
}

func lockExcludes(c *C) {
	d := c.Host.Disk
	c.ok(d.MkdirAll(c.T, c.path("data")))
	l, err := d.Lock(c.T, c.path("data/.lock"))
	c.ok(err)
	_, err = d.Lock(c.T, c.path("data/.lock"))
	c.is(err, disk.ErrLocked)
	// Opening and closing the lock file by other means does not release the lock.
	c.close(c.open("data/.lock", disk.Write))
	_, err = d.Lock(c.T, c.path("data/.lock"))
	c.is(err, disk.ErrLocked)
	other, err := d.Lock(c.T, c.path(".lock"))
	c.ok(err)
	c.close(other)
	c.close(l)
	c.is(l.Close(c.T), disk.ErrClosed)
	l, err = d.Lock(c.T, c.path("data/.lock"))
	c.ok(err)
	c.close(l)
	_, err = d.Lock(c.T, c.path("none/.lock"))
	c.is(err, disk.ErrNotExist)
}

//go:build linux

// Package osfs is the disk of production: Linux files, through raw system calls.
//
// It owns the mapping of the contract onto the kernel:
//
//	ReadAt, WriteAt   pread, pwrite until done     Sync       fdatasync (covers the size)
//	WriteVec          pwritev                      SyncDir    fsync of the directory
//	Truncate          ftruncate                    Lock       fcntl write lock of the file
//	PunchHole         fallocate                    Advise     posix_fadvise
//
// A call that reaches the device may take seconds on a sick disk, and each one that blocks
// costs a thread. So every directory tree admits a bounded number of calls at a time; the
// rest waits as parked tasks, which cost nothing. A tree is what was locked with Lock;
// everything outside of any tree shares one bound. A file belongs to the tree that it was
// opened in.
//
// It never caches, buffers, retries a failed sync, or moves a file's position.
package osfs

import (
	"path"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"seedlog/clock/task"
	"seedlog/disk"
)

// DefaultBlockingPerDir is the bound on calls in progress in one directory tree: enough to
// keep a device's queue full, far below what would exhaust threads.
const DefaultBlockingPerDir = 32

// Options configure a Disk.
type Options struct {
	// BlockingPerDir is how many calls of one directory tree may be in the kernel at a time;
	// 0 is DefaultBlockingPerDir.
	BlockingPerDir int
}

// Disk is the machine's file system.
type Disk struct {
	perDir int
	other  *admission

	mu    sync.Mutex
	trees atomic.Pointer[[]tree] // copied on write; few, one per log directory
}

type tree struct {
	prefix string // with its slash
	adm    *admission
}

var _ disk.Disk = (*Disk)(nil)

// New returns the file system.
func New(o Options) *Disk {
	if o.BlockingPerDir <= 0 {
		o.BlockingPerDir = DefaultBlockingPerDir
	}
	d := &Disk{perDir: o.BlockingPerDir, other: newAdmission(o.BlockingPerDir)}
	d.trees.Store(new([]tree))
	return d
}

// admission finds the bound of a path's tree: that of the longest prefix.
func (d *Disk) admission(name string) *admission {
	trees := *d.trees.Load()
	if len(trees) == 0 {
		return d.other
	}
	clean := path.Clean(name) + "/"
	best, found := 0, d.other
	for i := range trees {
		if p := trees[i].prefix; len(p) > best && strings.HasPrefix(clean, p) {
			best, found = len(p), trees[i].adm
		}
	}
	return found
}

// addTree gives a directory tree a bound of its own.
func (d *Disk) addTree(dir string) {
	prefix := path.Clean(dir) + "/"
	d.mu.Lock()
	defer d.mu.Unlock()
	old := *d.trees.Load()
	for _, tr := range old {
		if tr.prefix == prefix {
			return
		}
	}
	next := append(append([]tree(nil), old...), tree{prefix, newAdmission(d.perDir)})
	d.trees.Store(&next)
}

// Open opens a file.
func (d *Disk) Open(t *task.T, name string, mode disk.Mode) (disk.File, error) {
	flags := unix.O_CLOEXEC
	switch mode {
	case disk.Read:
		flags |= unix.O_RDONLY
	case disk.Write:
		flags |= unix.O_RDWR
	case disk.Create:
		flags |= unix.O_RDWR | unix.O_CREAT
	case disk.CreateNew:
		flags |= unix.O_RDWR | unix.O_CREAT | unix.O_EXCL
	}
	adm := d.admission(name)
	adm.enter(t)
	defer adm.leave()
	fd, err := openRetry(name, flags)
	if err != nil {
		return nil, fail("open", name, err)
	}
	if mode == disk.Read {
		// The kernel opens directories for reading; the contract does not.
		var st unix.Stat_t
		if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			err = unix.EISDIR
		}
		if err != nil {
			unix.Close(fd)
			return nil, fail("open", name, err)
		}
	}
	return &file{fd: fd, path: name, adm: adm}, nil
}

// Stat describes a path.
func (d *Disk) Stat(t *task.T, name string) (disk.Info, error) {
	adm := d.admission(name)
	adm.enter(t)
	defer adm.leave()
	var st unix.Stat_t
	if err := retry(func() error { return unix.Stat(name, &st) }); err != nil {
		return disk.Info{}, fail("stat", name, err)
	}
	return info(path.Base(name), &st), nil
}

// MkdirAll makes a directory and its parents.
func (d *Disk) MkdirAll(t *task.T, name string) error {
	adm := d.admission(name)
	adm.enter(t)
	defer adm.leave()
	return mkdirAll(path.Clean(name))
}

func mkdirAll(name string) error {
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err == nil {
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return fail("mkdir", name, unix.EEXIST)
		}
		return nil
	}
	err := unix.Mkdir(name, 0o755)
	if err == unix.ENOENT && path.Dir(name) != name {
		if err := mkdirAll(path.Dir(name)); err != nil {
			return err
		}
		err = unix.Mkdir(name, 0o755)
	}
	if err == unix.EEXIST { // somebody else was faster, or it is a dangling link
		if unix.Stat(name, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			return nil
		}
	}
	if err != nil {
		return fail("mkdir", name, err)
	}
	return nil
}

// Rename replaces to by from.
func (d *Disk) Rename(t *task.T, from, to string) error {
	adm := d.admission(from)
	adm.enter(t)
	defer adm.leave()
	if err := retry(func() error { return unix.Rename(from, to) }); err != nil {
		return fail("rename", from+" to "+to, err)
	}
	return nil
}

// Remove removes a file or an empty directory.
func (d *Disk) Remove(t *task.T, name string) error {
	adm := d.admission(name)
	adm.enter(t)
	defer adm.leave()
	err := retry(func() error { return unix.Unlink(name) })
	if err == unix.EISDIR || err == unix.EPERM {
		if e := unix.Rmdir(name); e != unix.ENOTDIR {
			err = e
		}
	}
	if err != nil {
		return fail("remove", name, err)
	}
	return nil
}

// SyncDir makes the names in a directory durable.
func (d *Disk) SyncDir(t *task.T, name string) error {
	adm := d.admission(name)
	adm.enter(t)
	defer adm.leave()
	fd, err := openRetry(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return fail("sync directory", name, err)
	}
	err = retry(func() error { return unix.Fsync(fd) })
	if e := closeFD(fd); err == nil {
		err = e
	}
	if err != nil {
		return fail("sync directory", name, err)
	}
	return nil
}

// Usage tells the size and free space of the file system; free is what an unprivileged
// process may use.
func (d *Disk) Usage(t *task.T, name string) (disk.Usage, error) {
	adm := d.admission(name)
	adm.enter(t)
	defer adm.leave()
	var st unix.Statfs_t
	if err := retry(func() error { return unix.Statfs(name, &st) }); err != nil {
		return disk.Usage{}, fail("statfs", name, err)
	}
	unit := int64(st.Frsize)
	if unit == 0 {
		unit = int64(st.Bsize)
	}
	return disk.Usage{Total: int64(st.Blocks) * unit, Free: int64(st.Bavail) * unit}, nil
}

func info(name string, st *unix.Stat_t) disk.Info {
	i := disk.Info{
		Name:      name,
		Dir:       st.Mode&unix.S_IFMT == unix.S_IFDIR,
		ModMillis: int64(st.Mtim.Sec)*1000 + int64(st.Mtim.Nsec)/1e6,
	}
	if !i.Dir {
		i.Size = st.Size
	}
	return i
}

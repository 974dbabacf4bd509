//go:build linux

package osfs

import (
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"seedlog/clock/task"
	"seedlog/disk"
)

// direntBuffer holds a few hundred names per system call.
const direntBuffer = 32 << 10

// ReadDir lists a directory by name. A name that vanishes while it is listed is left out.
func (d *Disk) ReadDir(t *task.T, name string) ([]disk.Info, error) {
	adm := d.admission(name)
	adm.enter(t)
	defer adm.leave()
	fd, err := openRetry(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return nil, fail("read directory", name, err)
	}
	defer closeFD(fd)
	names, err := readNames(fd)
	if err != nil {
		return nil, fail("read directory", name, err)
	}
	infos := make([]disk.Info, 0, len(names))
	for _, n := range names {
		var st unix.Stat_t
		switch err := retry(func() error { return unix.Fstatat(fd, n, &st, 0) }); err {
		case nil:
			infos = append(infos, info(n, &st))
		case unix.ENOENT:
		default:
			return nil, fail("stat", path.Join(name, n), err)
		}
	}
	return infos, nil
}

func readNames(fd int) ([]string, error) {
	buf := make([]byte, direntBuffer)
	var names []string
	for {
		n, err := unix.ReadDirent(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		if n <= 0 {
			break
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
	slices.SortFunc(names, strings.Compare)
	return names, nil
}

// Lock takes the lock of a directory tree, which from now on has its own bound on calls.
//
// The lock belongs to the open file description (F_OFD_SETLK): it excludes the POSIX locks
// of other processes, a JVM's included, and, unlike those, also a second Lock in this
// process, and is not lost when some other descriptor of the same file is closed.
func (d *Disk) Lock(t *task.T, name string) (disk.Closer, error) {
	d.addTree(path.Dir(path.Clean(name)))
	adm := d.admission(name)
	adm.enter(t)
	defer adm.leave()
	fd, err := openRetry(name, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC)
	if err != nil {
		return nil, fail("lock", name, err)
	}
	whole := unix.Flock_t{Type: unix.F_WRLCK, Whence: unix.SEEK_SET}
	err = retry(func() error { return unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &whole) })
	if err != nil {
		closeFD(fd)
		if err == unix.EAGAIN || err == unix.EACCES {
			err = &mapped{disk.ErrLocked, err}
		}
		return nil, fail("lock", name, err)
	}
	return &lock{fd: fd, path: name}, nil
}

type lock struct {
	path string
	mu   sync.Mutex
	fd   int // -1 when closed
}

// Close releases the lock.
func (l *lock) Close(*task.T) error {
	l.mu.Lock()
	fd := l.fd
	l.fd = -1
	l.mu.Unlock()
	if fd < 0 {
		return fail("close", l.path, unix.EBADF)
	}
	if err := closeFD(fd); err != nil {
		return fail("close", l.path, err)
	}
	return nil
}

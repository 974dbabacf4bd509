package simdisk

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/sim/trace"
)

// Mount is the disk as one incarnation sees it.
type Mount struct {
	d          *Disk
	rt         task.Runtime
	dead       bool
	stallUntil clock.Instant
	files      []*file
	locks      []*lock
}

var _ disk.Disk = (*Mount)(nil)

// Kill ends the incarnation's use of the disk: its handles refuse from now on, its locks
// are free. What it wrote stays.
func (m *Mount) Kill() {
	if m.dead {
		return
	}
	m.dead = true
	for _, f := range m.files {
		f.n.open--
		m.d.freeIfGone(f.n)
	}
	for _, l := range m.locks {
		l.n.lock = nil
	}
	m.files, m.locks = nil, nil
	for i, o := range m.d.mounts {
		if o == m {
			m.d.mounts = append(m.d.mounts[:i], m.d.mounts[i+1:]...)
			break
		}
	}
}

// OpenFiles lists the paths of files that were opened and not closed, in order of opening.
func (m *Mount) OpenFiles() []string {
	var paths []string
	for _, f := range m.files {
		paths = append(paths, f.path)
	}
	return paths
}

// OpenNow lists what is open by the names of now, sorted; a file that has none any more is
// there with the name that it was opened by, below "unlinked:".
func (m *Mount) OpenNow() []string {
	names := make(map[*inode]string)
	m.d.eachFile(m.d.root, "", func(p string, n *inode) { names[n] = p })
	paths := make([]string, 0, len(m.files))
	for _, f := range m.files {
		name, ok := names[f.n]
		if !ok {
			name = "unlinked:" + f.path
		}
		paths = append(paths, name)
	}
	slices.Sort(paths)
	return paths
}

// call is one call in progress: it waits before its effect or after it.
type call struct {
	after time.Duration
}

// enter begins a call. Its time passes before the effect, or in leave.
func (m *Mount) enter(t *task.T, op Op, path string, bytes int) (call, error) {
	if m.gone() {
		return call{}, errDead(path)
	}
	d := m.d
	took := m.slowness(path, d.latency.Draw(op, bytes, d.waitRng), op == OpWrite || op == OpSync)
	if h := &d.held; h.op == op && h.least > took && h.match(path) {
		took = h.least
	}
	if took <= 0 {
		return call{}, nil
	}
	if d.sideRng.Uint64()&1 == 0 {
		return call{}, m.wait(t, took, path)
	}
	return call{after: took}, nil
}

// leave ends a call; its effect is done.
func (m *Mount) leave(t *task.T, c call, path string) error {
	if c.after <= 0 {
		return nil
	}
	return m.wait(t, c.after, path)
}

func (m *Mount) wait(t *task.T, time time.Duration, path string) error {
	until := t.Now().Add(time)
	for t.Now() < until {
		m.rt.Park(t, until)
		if m.gone() {
			return errDead(path)
		}
	}
	return nil
}

// gone reports whether the incarnation has ended: what its tasks still do, when they are
// unwound, has no effect.
func (m *Mount) gone() bool {
	if m.dead {
		return true
	}
	rt, ok := m.rt.(interface{ Dead() bool })
	return ok && rt.Dead()
}

func errDead(path string) error {
	return fmt.Errorf("%s: %w: the incarnation has ended", path, disk.ErrClosed)
}

func opErr(op, path string, err error) error { return fmt.Errorf("%s %s: %w", op, path, err) }

// meta runs a call on names.
func (m *Mount) meta(t *task.T, op, path string, effect func() error) error {
	c, err := m.enter(t, OpMeta, path, 0)
	if err != nil {
		return err
	}
	err = effect()
	if gone := m.leave(t, c, path); gone != nil {
		return gone
	}
	if err != nil {
		return opErr(op, path, err)
	}
	return nil
}

// change is meta for calls that a read-only disk refuses.
func (m *Mount) change(t *task.T, op, path string, effect func() error) error {
	return m.meta(t, op, path, func() error {
		if m.d.readOnly {
			m.d.effective(ReadOnly)
			return disk.ErrReadOnly
		}
		return effect()
	})
}

// Open implements disk.Disk.
func (m *Mount) Open(t *task.T, path string, mode disk.Mode) (disk.File, error) {
	var f *file
	err := m.meta(t, "open", path, func() error {
		n, err := m.openNode(path, mode)
		if err != nil {
			return err
		}
		n.open++
		f = &file{m: m, n: n, path: path, writable: mode != disk.Read}
		m.files = append(m.files, f)
		m.d.noteName(trace.DiskOpen, n.id, path)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (m *Mount) openNode(path string, mode disk.Mode) (*inode, error) {
	d := m.d
	n := d.resolve(path)
	switch {
	case n != nil && n.isDir:
		return nil, disk.ErrIsDir
	case n != nil && mode == disk.CreateNew:
		return nil, disk.ErrExist
	case n == nil && (mode == disk.Read || mode == disk.Write):
		return nil, disk.ErrNotExist
	}
	if mode != disk.Read && d.readOnly {
		d.effective(ReadOnly)
		return nil, disk.ErrReadOnly
	}
	if n == nil {
		dir, name := d.parent(path)
		if dir == nil || name == "" {
			return nil, disk.ErrNotExist
		}
		n = d.newInode(false)
		n.mtime = m.rt.UnixMilli()
		d.link(dir, name, n)
	}
	return n, nil
}

// Stat implements disk.Disk.
func (m *Mount) Stat(t *task.T, path string) (info disk.Info, err error) {
	err = m.meta(t, "stat", path, func() error {
		n := m.d.resolve(path)
		if n == nil {
			return disk.ErrNotExist
		}
		parts := splitPath(path)
		name := "/"
		if len(parts) > 0 {
			name = parts[len(parts)-1]
		}
		info = n.info(name)
		return nil
	})
	return info, err
}

// ReadDir implements disk.Disk.
func (m *Mount) ReadDir(t *task.T, path string) (infos []disk.Info, err error) {
	err = m.meta(t, "read directory", path, func() error {
		n := m.d.resolve(path)
		if n == nil {
			return disk.ErrNotExist
		}
		if !n.isDir {
			return errNotDir
		}
		infos = m.d.List(path)
		m.d.note(trace.DiskList, n.id, uint64(len(infos)), 0)
		return nil
	})
	return infos, err
}

// MkdirAll implements disk.Disk.
func (m *Mount) MkdirAll(t *task.T, path string) error {
	return m.meta(t, "mkdir", path, func() error {
		d, n := m.d, m.d.root
		for _, name := range splitPath(path) {
			if !n.isDir {
				return errNotDir
			}
			next := lookup(n.ents, name)
			if next == nil {
				if d.readOnly {
					d.effective(ReadOnly)
					return disk.ErrReadOnly
				}
				next = d.newInode(true)
				next.mtime = m.rt.UnixMilli()
				d.link(n, name, next)
				d.noteName(trace.DiskMkdir, next.id, name)
			}
			n = next
		}
		if !n.isDir {
			return disk.ErrExist
		}
		return nil
	})
}

// Rename implements disk.Disk.
func (m *Mount) Rename(t *task.T, from, to string) error {
	return m.change(t, "rename", from+" to "+to, func() error {
		a, name := m.d.parent(from)
		b, newName := m.d.parent(to)
		if a == nil || b == nil || name == "" || newName == "" {
			return disk.ErrNotExist
		}
		m.d.noteName(trace.DiskRename, a.id, name)
		m.d.noteName(trace.DiskRename, b.id, newName)
		return m.d.rename(a, name, b, newName)
	})
}

// Remove implements disk.Disk.
func (m *Mount) Remove(t *task.T, path string) error {
	return m.change(t, "remove", path, func() error {
		dir, name := m.d.parent(path)
		if dir == nil {
			return disk.ErrNotExist
		}
		n := lookup(dir.ents, name)
		if n == nil {
			return disk.ErrNotExist
		}
		if len(n.ents) > 0 {
			return disk.ErrNotEmpty
		}
		m.d.unlink(dir, name, n)
		m.d.noteName(trace.DiskRemove, n.id, path)
		return nil
	})
}

// SyncDir implements disk.Disk.
func (m *Mount) SyncDir(t *task.T, path string) error {
	c, err := m.enter(t, OpSync, path, 0)
	if err != nil {
		return err
	}
	err = m.syncDir(path)
	if gone := m.leave(t, c, path); gone != nil {
		return gone
	}
	if err != nil {
		return opErr("sync directory", path, err)
	}
	return nil
}

func (m *Mount) syncDir(path string) error {
	d := m.d
	n := d.resolve(path)
	if n == nil {
		return disk.ErrNotExist
	}
	if !n.isDir {
		return errNotDir
	}
	d.note(trace.DiskSyncDir, n.id, 0, 0)
	if d.fires(SyncError, path) {
		d.effective(SyncError)
		return disk.ErrIO
	}
	d.syncDir(n)
	return nil
}

// Usage implements disk.Disk.
func (m *Mount) Usage(t *task.T, path string) (u disk.Usage, err error) {
	err = m.meta(t, "statfs", path, func() error {
		if m.d.resolve(path) == nil {
			return disk.ErrNotExist
		}
		u = disk.Usage{Total: m.d.capacity, Free: max(m.d.capacity-m.d.Used(), 0)}
		return nil
	})
	return u, err
}

// lock is a held lock file.
type lock struct {
	m    *Mount
	n    *inode
	path string
}

// Lock implements disk.Disk.
func (m *Mount) Lock(t *task.T, path string) (disk.Closer, error) {
	var l *lock
	err := m.meta(t, "lock", path, func() error {
		n, err := m.openNode(path, disk.Create)
		if err != nil {
			return err
		}
		if n.lock != nil {
			return disk.ErrLocked
		}
		l = &lock{m: m, n: n, path: path}
		n.lock = l
		m.locks = append(m.locks, l)
		m.d.noteName(trace.DiskLock, n.id, path)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Close releases the lock.
func (l *lock) Close(t *task.T) error {
	return l.m.meta(t, "unlock", l.path, func() error {
		if l.n.lock != l {
			return disk.ErrClosed
		}
		l.n.lock = nil
		for i, o := range l.m.locks {
			if o == l {
				l.m.locks = append(l.m.locks[:i], l.m.locks[i+1:]...)
				break
			}
		}
		return nil
	})
}

// splitPath returns the names of a path.
func splitPath(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

package simdisk

import (
	"path"

	"seedlog/disk"
)

// What follows is for checkers and scenarios: no task, no time, no fault, no trace. The
// bytes are copies.

// ReadFile returns what a reader would see of a file now.
func (d *Disk) ReadFile(name string) ([]byte, bool) {
	n := d.resolve(name)
	if n == nil || n.isDir {
		return nil, false
	}
	return n.bytes(n.size, func(s *sector) *block { return s.cur }), true
}

// ReadDurable returns what is left of a file after a power loss that keeps nothing
// unsynced.
func (d *Disk) ReadDurable(name string) ([]byte, bool) {
	n := d.root
	for _, part := range splitPath(name) {
		if n = lookup(n.dur, part); n == nil {
			return nil, false
		}
	}
	if n.isDir {
		return nil, false
	}
	return n.bytes(n.durSize, func(s *sector) *block {
		if s.dirty || s.lost {
			return s.old
		}
		return s.cur
	}), true
}

func (n *inode) bytes(size int64, pick func(*sector) *block) []byte {
	b := make([]byte, size)
	for i := range n.sectors {
		s := &n.sectors[i]
		if p := pick(s); p != nil && s.no*sectorSize < size {
			copy(b[s.no*sectorSize:], p[:])
		}
	}
	return b
}

// Seen is how far a watcher has read a file that is mostly appended to.
type Seen struct {
	inode, rewrites uint64
	Size            int64
}

// Appended returns what was appended to a file since it was seen, and what to ask with next
// time. all says that something else changed, too: the bytes are then those of the whole
// file. ok is false if there is no file.
func (d *Disk) Appended(name string, since Seen) (b []byte, now Seen, all, ok bool) {
	n := d.resolve(name)
	if n == nil || n.isDir {
		return nil, Seen{}, false, false
	}
	now = Seen{n.id, n.rewrites, n.size}
	if since == now {
		return nil, now, false, true
	}
	from := since.Size
	if all = since.inode != n.id || since.rewrites != n.rewrites; all {
		from = 0
	}
	b = make([]byte, n.size-from)
	for i := n.find(from / sectorSize); i < len(n.sectors); i++ {
		s := &n.sectors[i]
		at := s.no * sectorSize
		if at >= n.size || s.cur == nil {
			continue
		}
		copy(b[max(at-from, 0):], s.cur[max(from-at, 0):])
	}
	return b, now, all, true
}

// DurableEnd is up to where a power loss cannot take what is in a file now.
func (d *Disk) DurableEnd(name string) int64 {
	n := d.root
	for _, part := range splitPath(name) {
		if n = lookup(n.dur, part); n == nil {
			return 0
		}
	}
	if n.isDir || n != d.resolve(name) {
		return 0
	}
	end := min(n.durSize, n.size)
	for i := n.find(min(n.dirtyFrom, end/sectorSize)); i < len(n.sectors); i++ {
		s := &n.sectors[i]
		at := s.no * sectorSize
		if at >= end {
			break
		}
		if !s.dirty && !s.lost {
			continue
		}
		var was, is block
		if s.old != nil {
			was = *s.old
		}
		if s.cur != nil {
			is = *s.cur
		}
		for k := range was {
			if was[k] != is[k] {
				return min(end, at+int64(k))
			}
		}
	}
	return end
}

// Size is the size of a file now; false if there is none.
func (d *Disk) Size(name string) (int64, bool) {
	n := d.resolve(name)
	if n == nil || n.isDir {
		return 0, false
	}
	return n.size, true
}

// List lists a directory by name, or nothing.
func (d *Disk) List(name string) []disk.Info {
	n := d.resolve(name)
	if n == nil || !n.isDir {
		return nil
	}
	infos := make([]disk.Info, len(n.ents))
	for i, e := range n.ents {
		infos[i] = e.node.info(e.name)
	}
	return infos
}

// Walk calls fn for every file in the order of paths.
func (d *Disk) Walk(fn func(path string, size int64)) {
	d.eachFile(d.root, "", func(p string, n *inode) { fn(p, n.size) })
}

// WriteFile puts a file there as if it had been synced, with its directories: what a
// scenario starts from.
func (d *Disk) WriteFile(name string, content []byte) {
	dir := d.MakeDir(path.Dir(name))
	base := path.Base(name)
	n := lookup(dir.ents, base)
	if n == nil {
		n = d.newInode(false)
		n.links++
		dir.ents = set(dir.ents, base, n)
	}
	dir.dur = set(dir.dur, base, n)
	n.truncate(d, 0)
	n.write(d, content, 0)
	n.sync(d)
}

// AppendFile adds to the end of a file that is there, as if it had been synced.
func (d *Disk) AppendFile(name string, more []byte) {
	if n := d.resolve(name); n != nil && !n.isDir {
		n.write(d, more, n.size)
		n.sync(d)
	}
}

// MakeDir makes a durable directory and its parents.
func (d *Disk) MakeDir(name string) *inode {
	n := d.root
	for _, part := range splitPath(name) {
		next := lookup(n.ents, part)
		if next == nil {
			next = d.newInode(true)
			next.links++
			n.ents = set(n.ents, part, next)
		}
		n.dur = set(n.dur, part, next)
		n = next
	}
	return n
}

// FlipBits flips bits of a stored byte of a file. It reports false if there is no such byte.
func (d *Disk) FlipBits(name string, off int64, bits byte) bool {
	n := d.resolve(name)
	if n == nil || n.isDir || off < 0 || off >= n.size {
		return false
	}
	d.faults[BitRot].fired++
	d.flip(name, n, off, bits)
	return true
}

func (d *Disk) eachFile(dir *inode, at string, fn func(path string, n *inode)) {
	for _, e := range dir.ents {
		p := at + "/" + e.name
		if e.node.isDir {
			d.eachFile(e.node, p, fn)
		} else {
			fn(p, e.node)
		}
	}
}

func (n *inode) info(name string) disk.Info {
	return disk.Info{Name: name, Size: n.size, Dir: n.isDir, ModMillis: n.mtime}
}

// At is the same state of the file, read up to another place.
func (s Seen) At(size int64) Seen {
	s.Size = size
	return s
}

// RemoveFile removes a file, durably.
func (d *Disk) RemoveFile(name string) {
	dir := d.resolve(path.Dir(name))
	if dir == nil {
		return
	}
	if n := lookup(dir.ents, path.Base(name)); n != nil && !n.isDir {
		dir.ents = unset(dir.ents, path.Base(name))
		dir.dur = unset(dir.dur, path.Base(name))
		n.links--
	}
}

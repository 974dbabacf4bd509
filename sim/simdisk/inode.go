package simdisk

import "slices"

// sectorSize is what a device writes in one go: a power loss tears nothing smaller, except
// the last one of a prefix.
const sectorSize = 512

// pageSize is what the kernel caches by; a killed process's write may end between pages.
const pageSize = 4096

type block = [sectorSize]byte

// sector is a stored part of a file. A file has only those that were written. The zero
// block is nil.
type sector struct {
	no    int64
	cur   *block  // what a reader sees
	old   *block  // what is durable, if dirty or lost
	bad   *Damage // the fault that changed it, until somebody reads it
	dirty bool    // cur is not durable, and the next Sync makes it so
	lost  bool    // a failed Sync forgot that cur is not durable
}

// fileOp is a change since the last Sync, in order.
type fileOp struct {
	kind   fileOpKind
	off, n int64 // sized: off is the new size
}

type fileOpKind uint8

const (
	wrote fileOpKind = iota
	punched
	sized
)

// weight is how many places to cut at the operation has.
func (op fileOp) weight() int64 { return max(op.n, 1) }

// inode is a file or a directory.
type inode struct {
	// The incarnation that was told that a write, or a sync, of the file failed.
	writeFailed, syncFailed *Mount

	id    uint64
	isDir bool
	links int   // names that lead here now
	open  int   // handles
	mtime int64 // wall clock, milliseconds

	size, durSize int64
	sectors       []sector // by number
	dirtyFrom     int64    // no sector below is dirty
	ops           []fileOp
	rewrites      uint64 // changes that were no appends
	held          int64  // sectors with data
	evictions     int    // sectors dropped from the page cache while the machine ran

	ents, dur []dent // of a directory: names now, and durable ones
	lock      *lock
}

const noDirty = 1<<62 - 1

func (d *Disk) newInode(dir bool) *inode {
	d.nextID++
	return &inode{id: d.nextID, isDir: dir, dirtyFrom: noDirty}
}

// alloc returns a block, zeroed or not.
func (d *Disk) alloc(zero bool) *block {
	if k := len(d.spare); k > 0 {
		b := d.spare[k-1]
		d.spare = d.spare[:k-1]
		if zero {
			*b = block{}
		}
		return b
	}
	if len(d.slab) == 0 {
		d.slab = make([]block, 16)
	}
	b := &d.slab[0]
	d.slab = d.slab[1:]
	return b
}

func (d *Disk) drop(b *block) {
	if b != nil {
		d.spare = append(d.spare, b)
	}
}

// hold counts stored sectors.
func (d *Disk) hold(n *inode, by int64) {
	n.held += by
	if n.links > 0 || n.open > 0 {
		d.used += by
	}
}

// find is the index of the first sector whose number is at least no.
func (n *inode) find(no int64) int {
	if k := len(n.sectors); k == 0 || n.sectors[k-1].no < no {
		return k
	}
	i, _ := slices.BinarySearchFunc(n.sectors, no, func(s sector, no int64) int {
		switch {
		case s.no < no:
			return -1
		case s.no > no:
			return 1
		}
		return 0
	})
	return i
}

// read copies what a reader sees at off. It returns the number of bytes below the end.
func (n *inode) read(d *Disk, p []byte, off int64) int {
	if off >= n.size {
		return 0
	}
	if rest := n.size - off; int64(len(p)) > rest {
		p = p[:rest]
	}
	total := len(p)
	i := n.find(off / sectorSize)
	for len(p) > 0 {
		gap := int64(len(p))
		if i < len(n.sectors) {
			gap = min(gap, n.sectors[i].no*sectorSize-off)
		}
		if gap > 0 { // a hole
			clear(p[:gap])
			p, off = p[gap:], off+gap
			continue
		}
		s := &n.sectors[i]
		at := off - s.no*sectorSize
		k := min(int64(len(p)), sectorSize-at)
		if s.cur == nil {
			clear(p[:k])
		} else {
			copy(p[:k], s.cur[at:])
		}
		if s.bad != nil {
			d.sawDamage(s)
		}
		p, off, i = p[k:], off+k, i+1
	}
	return total
}

// touch makes the i-th sector's cur changeable without touching what is durable.
func (n *inode) touch(d *Disk, i int, whole bool) *sector {
	s := &n.sectors[i]
	switch {
	case s.dirty:
	case s.lost:
		s.lost, s.dirty = false, true
	default:
		s.old, s.dirty = s.cur, true
		if s.cur != nil {
			s.cur = d.alloc(false)
			if !whole {
				*s.cur = *s.old
			}
		}
	}
	if s.cur == nil {
		s.cur = d.alloc(!whole)
		d.hold(n, 1)
	}
	n.dirtyFrom = min(n.dirtyFrom, s.no)
	return s
}

// write changes what a reader sees. It returns fewer than len(p) if the disk is full.
func (n *inode) write(d *Disk, p []byte, off int64) int {
	start := off
	i := n.find(off / sectorSize)
	for len(p) > 0 {
		no, at := off/sectorSize, off%sectorSize
		k := min(int64(len(p)), sectorSize-at)
		fresh := i == len(n.sectors) || n.sectors[i].no != no
		if (fresh || n.sectors[i].cur == nil) && (d.used+1)*sectorSize > d.capacity {
			break
		}
		if fresh {
			n.sectors = slices.Insert(n.sectors, i, sector{no: no})
		}
		s := n.touch(d, i, k == sectorSize)
		copy(s.cur[at:], p[:k])
		if k == sectorSize {
			s.bad = nil
		}
		p, off, i = p[k:], off+k, i+1
	}
	n.changed(start, off-start)
	return int(off - start)
}

// changed records a write of the range; contiguous ones are one, for a cut may fall
// between any two bytes anyway.
func (n *inode) changed(off, count int64) {
	if count == 0 {
		return
	}
	if off < n.size {
		n.rewrites++
	}
	n.size = max(n.size, off+count)
	if k := len(n.ops); k > 0 && n.ops[k-1].kind == wrote && n.ops[k-1].off+n.ops[k-1].n == off {
		n.ops[k-1].n += count
		return
	}
	n.ops = append(n.ops, fileOp{wrote, off, count})
}

// truncate sets the size; bytes above are gone for readers.
func (n *inode) truncate(d *Disk, size int64) {
	if size < n.size {
		n.rewrites++
		n.clear(d, size, n.size-size)
	}
	if size != n.size {
		n.size = size
		n.ops = append(n.ops, fileOp{sized, size, 0})
	}
}

// punch makes a range read as zeros.
func (n *inode) punch(d *Disk, off, count int64) {
	count = min(count, n.size-off)
	if count > 0 {
		n.clear(d, off, count)
		n.ops = append(n.ops, fileOp{punched, off, count})
	}
}

// clear zeroes a range. A sector that was never durable vanishes with it.
func (n *inode) clear(d *Disk, off, count int64) {
	end := off + count
	if end >= n.size { // above the end of the file there are only zeros
		end = (end + sectorSize - 1) / sectorSize * sectorSize
	}
	keep := n.find(off / sectorSize)
	i := keep
	for ; i < len(n.sectors) && n.sectors[i].no*sectorSize < end; i++ {
		base := n.sectors[i].no * sectorSize
		lo, hi := max(off-base, 0), min(end-base, sectorSize)
		needed := true
		if lo == 0 && hi == sectorSize {
			needed = n.erase(d, i)
		} else if n.sectors[i].cur != nil {
			clear(n.touch(d, i, false).cur[lo:hi])
		}
		if needed {
			n.sectors[keep] = n.sectors[i]
			keep++
		}
	}
	n.sectors = slices.Delete(n.sectors, keep, i)
}

// erase makes the i-th sector zero and reports whether it is still needed.
func (n *inode) erase(d *Disk, i int) bool {
	s := &n.sectors[i]
	s.bad = nil
	if s.cur != nil {
		if s.dirty || s.lost {
			d.drop(s.cur)
		} else {
			s.old = s.cur
		}
		s.cur = nil
		d.hold(n, -1)
	}
	s.lost = false
	s.dirty = s.old != nil
	if s.dirty {
		n.dirtyFrom = min(n.dirtyFrom, s.no)
	}
	return s.dirty
}

// sync makes contents and size durable.
func (n *inode) sync(d *Disk) {
	keep := n.find(n.dirtyFrom)
	for i := keep; i < len(n.sectors); i++ {
		s := &n.sectors[i]
		if s.dirty {
			d.drop(s.old)
			s.old, s.dirty = nil, false
		}
		if s.cur != nil || s.lost {
			n.sectors[keep] = *s
			keep++
		}
	}
	n.sectors = n.sectors[:keep]
	n.settled()
}

// settled notes that nothing is left for a Sync to do.
func (n *inode) settled() {
	n.ops = n.ops[:0]
	n.durSize = n.size
	n.dirtyFrom = noDirty
}

// unsynced reports whether a power loss could change the file.
func (n *inode) unsynced() bool { return len(n.ops) > 0 || n.size != n.durSize || n.hasLost() }

func (n *inode) hasLost() bool {
	return slices.ContainsFunc(n.sectors, func(s sector) bool { return s.lost })
}

// forget is a failed sync: the kernel marks the pages clean and never writes them. They can
// still be read, until they are evicted, which may be now.
func (n *inode) forget(d *Disk, evict bool) (dropped int) {
	for i := n.find(n.dirtyFrom); i < len(n.sectors); i++ {
		s := &n.sectors[i]
		if !s.dirty {
			continue
		}
		dropped++
		s.dirty, s.lost = false, true
		if evict && (s.no+1)*sectorSize <= n.size {
			n.revert(d, s)
			n.evictions++
		}
	}
	n.ops = n.ops[:0]
	n.dirtyFrom = noDirty
	return dropped
}

// revert makes the durable contents of a sector the current ones.
func (n *inode) revert(d *Disk, s *sector) {
	n.rewrites++
	if s.cur != nil {
		d.drop(s.cur)
		d.hold(n, -1)
	}
	s.cur, s.old, s.dirty, s.lost = s.old, nil, false, false
	if s.cur != nil {
		d.hold(n, 1)
	}
}

// poke changes stored bytes behind the file's back, as a fault of the device does.
func (n *inode) poke(d *Disk, p []byte, off int64, why *Damage) {
	n.rewrites++
	for len(p) > 0 {
		no, at := off/sectorSize, off%sectorSize
		k := min(int64(len(p)), sectorSize-at)
		i := n.find(no)
		if i == len(n.sectors) || n.sectors[i].no != no {
			n.sectors = slices.Insert(n.sectors, i, sector{no: no})
		}
		s := &n.sectors[i]
		if s.cur == nil {
			s.cur = d.alloc(true)
			d.hold(n, 1)
		}
		copy(s.cur[at:], p[:k])
		s.bad = why
		p, off = p[k:], off+k
	}
}

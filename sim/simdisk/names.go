package simdisk

import (
	"slices"
	"strings"

	"seedlog/disk"
)

// dent is a name in a directory.
type dent struct {
	name string
	node *inode
}

// nameOp is a change of names that is not durable yet. A rename is one operation: a
// power loss undoes it as a whole or not at all, as a journalling file system does.
type nameOp struct {
	kind opKind
	dir  *inode
	name string
	node *inode
	to   *inode // of a rename: the other directory, and the name there
	new  string
}

type opKind uint8

const (
	opLink opKind = iota
	opUnlink
	opRename
)

func search(ents []dent, name string) (int, bool) {
	return slices.BinarySearchFunc(ents, name, func(e dent, name string) int {
		return strings.Compare(e.name, name)
	})
}

func lookup(ents []dent, name string) *inode {
	if i, ok := search(ents, name); ok {
		return ents[i].node
	}
	return nil
}

func set(ents []dent, name string, n *inode) []dent {
	i, ok := search(ents, name)
	if ok {
		ents[i].node = n
		return ents
	}
	return slices.Insert(ents, i, dent{name, n})
}

func unset(ents []dent, name string) []dent {
	if i, ok := search(ents, name); ok {
		return slices.Delete(ents, i, i+1)
	}
	return ents
}

// resolve finds the inode of a path, or nil.
func (d *Disk) resolve(path string) *inode {
	n := d.root
	for name := range strings.SplitSeq(path, "/") {
		if name == "" || name == "." {
			continue
		}
		if !n.isDir {
			return nil
		}
		if n = lookup(n.ents, name); n == nil {
			return nil
		}
	}
	return n
}

// parent finds the directory of a path's last name.
func (d *Disk) parent(path string) (dir *inode, name string) {
	path = strings.TrimRight(path, "/")
	i := strings.LastIndexByte(path, '/')
	if dir = d.resolve(path[:max(i, 0)]); dir != nil && !dir.isDir {
		dir = nil
	}
	return dir, path[i+1:]
}

func (d *Disk) link(dir *inode, name string, n *inode) {
	dir.ents = set(dir.ents, name, n)
	n.links++
	d.journal = append(d.journal, nameOp{kind: opLink, dir: dir, name: name, node: n})
}

// unlink removes a name; the file lives on while it is open.
func (d *Disk) unlink(dir *inode, name string, n *inode) {
	dir.ents = unset(dir.ents, name)
	d.release(n)
	d.journal = append(d.journal, nameOp{kind: opUnlink, dir: dir, name: name, node: n})
}

func (d *Disk) release(n *inode) {
	n.links--
	d.freeIfGone(n)
}

// freeIfGone gives the space of a file back that nobody can reach. Its bytes stay for a
// power loss that brings the name back.
func (d *Disk) freeIfGone(n *inode) {
	if n.links == 0 && n.open == 0 {
		d.used -= n.held
	}
}

func (d *Disk) rename(from *inode, name string, to *inode, newName string) error {
	n := lookup(from.ents, name)
	if n == nil {
		return disk.ErrNotExist
	}
	old := lookup(to.ents, newName)
	switch {
	case old == n:
		return nil
	case n.isDir && contains(n, to):
		return disk.ErrExist // into itself
	case old != nil && old.isDir && !n.isDir:
		return disk.ErrIsDir
	case old != nil && n.isDir:
		if !old.isDir {
			return disk.ErrExist
		}
		if len(old.ents) > 0 {
			return disk.ErrNotEmpty
		}
	}
	from.ents = unset(from.ents, name)
	to.ents = set(to.ents, newName, n)
	if old != nil {
		d.release(old)
	}
	d.journal = append(d.journal, nameOp{opRename, from, name, n, to, newName})
	return nil
}

// contains reports whether n is dir or lies below it.
func contains(dir, n *inode) bool {
	if dir == n {
		return true
	}
	for _, e := range dir.ents {
		if e.node.isDir && contains(e.node, n) {
			return true
		}
	}
	return false
}

// syncDir makes the names of dir durable, and with a rename that it shares with another
// directory what that one did before.
func (d *Disk) syncDir(dir *inode) {
	if len(d.journal) == 0 {
		return
	}
	dirs := []*inode{dir}
	apply := make([]bool, len(d.journal))
	for i := len(d.journal) - 1; i >= 0; i-- {
		op := &d.journal[i]
		a, b := slices.Contains(dirs, op.dir), op.to != nil && slices.Contains(dirs, op.to)
		if !a && !b {
			continue
		}
		apply[i] = true
		if !a {
			dirs = append(dirs, op.dir)
		}
		if op.to != nil && !b {
			dirs = append(dirs, op.to)
		}
	}
	rest := d.journal[:0]
	var gone []*inode
	for i, op := range d.journal {
		if !apply[i] {
			rest = append(rest, op)
			continue
		}
		op.persist()
		if op.kind == opUnlink && op.node.isDir {
			gone = append(gone, op.node)
		}
	}
	clear(d.journal[len(rest):])
	d.journal = rest
	for _, g := range gone { // nobody can ever find what happened inside
		d.journal = slices.DeleteFunc(d.journal, func(op nameOp) bool { return op.dir == g && op.to == nil })
	}
}

// persist does the operation to the durable names.
func (op *nameOp) persist() {
	switch op.kind {
	case opLink:
		op.dir.dur = set(op.dir.dur, op.name, op.node)
	case opUnlink:
		op.dir.dur = unset(op.dir.dur, op.name)
	case opRename:
		op.dir.dur = unset(op.dir.dur, op.name)
		op.to.dur = set(op.to.dur, op.new, op.node)
	}
}

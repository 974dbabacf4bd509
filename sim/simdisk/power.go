package simdisk

import (
	"math/rand/v2"
	"slices"

	"seedlog/sim/trace"
)

// Fate is what a power loss leaves of a file's unsynced changes, or of the names.
type Fate uint8

const (
	// FateAll keeps everything, synced or not.
	FateAll Fate = iota
	// FateNone keeps what was synced only.
	FateNone
	// FatePrefix keeps the changes up to a moment, which may tear a sector.
	FatePrefix
	// FateHoles keeps a random part of the sectors (of the operations, for names).
	FateHoles
	numFates
)

var fateNames = [numFates]string{"all", "none", "prefix", "holes"}

func (f Fate) String() string { return fateNames[f] }

// Power weighs the draws of a power loss. The four weights are relative.
type Power struct {
	All, None, Prefix, Holes int
	// SizeAhead is the chance in 1000 that a size survives that is ahead of its data.
	SizeAhead int
	// Garbage is the chance in 1000 that a file's never-written sectors below its size hold
	// garbage, not zeros.
	Garbage int
}

// DefaultPower draws every fate as often, a size ahead of its data in half of the cases,
// and garbage in a quarter.
var DefaultPower = Power{All: 1, None: 1, Prefix: 1, Holes: 1, SizeAhead: 500, Garbage: 250}

func (p Power) draw(r *rand.Rand) Fate {
	k := r.IntN(p.All + p.None + p.Prefix + p.Holes)
	for f, w := range []int{p.All, p.None, p.Prefix, p.Holes} {
		if k -= w; k < 0 {
			return Fate(f)
		}
	}
	panic("simdisk: power-loss weights sum to nothing")
}

// SetPower changes the weights.
func (d *Disk) SetPower(p Power) { d.power = p }

// Fates counts the draws over all files with unsynced changes, and how many of them lost
// something, by Fate.
func (d *Disk) Fates() [numFates]Counter { return d.fates }

// PowerLoss ends every incarnation and draws what is left: names first, then the contents
// of each file that can still be found, in the order of paths.
func (d *Disk) PowerLoss() {
	d.Kill()
	d.faults[PowerLost].fired++
	lost := d.loseNames()
	used := int64(0)
	d.eachFile(d.root, "", func(_ string, n *inode) {
		fate, hurt := d.loseBytes(n)
		if hurt {
			lost = true
		}
		used += n.held
		d.note(trace.DiskCrash, n.id, uint64(fate), uint64(n.size))
	})
	d.used = used // what was counted on the way goes by names that may be gone
	if lost {
		d.faults[PowerLost].effective++
	}
}

// loseNames makes the directories what a power loss leaves of them.
func (d *Disk) loseNames() (lost bool) {
	r := d.lossRng
	fate := d.power.draw(r)
	n := len(d.journal)
	cut, chance := n, 0
	switch fate {
	case FateNone:
		cut = 0
	case FatePrefix:
		cut = r.IntN(n + 1)
	case FateHoles:
		chance = 1 + r.IntN(999)
	}
	for i := range d.journal {
		if i < cut && (fate != FateHoles || r.IntN(1000) < chance) {
			d.journal[i].persist()
		} else {
			lost = true
		}
	}
	if n > 0 {
		d.fates[fate].add(lost)
	}
	d.journal = nil
	d.note(trace.DiskCrash, 0, uint64(fate), uint64(n))
	d.settleNames(d.root)
	return lost
}

// settleNames makes the durable names the current ones, below dir.
func (d *Disk) settleNames(dir *inode) {
	dir.ents = slices.Clone(dir.dur)
	for _, e := range dir.ents {
		e.node.links = 0
	}
	for _, e := range dir.ents {
		e.node.links++
		if e.node.isDir {
			d.settleNames(e.node)
		}
	}
}

// loseBytes makes a file what a power loss leaves of it.
func (d *Disk) loseBytes(n *inode) (fate Fate, lost bool) {
	if !n.unsynced() {
		n.size = n.durSize
		return FateAll, false
	}
	r := d.lossRng
	fate = d.power.draw(r)
	garbage := r.IntN(1000) < d.power.Garbage
	ahead := r.IntN(1000) < d.power.SizeAhead
	durable := n.durSize
	for i := range n.sectors {
		if s := &n.sectors[i]; s.lost {
			n.revert(d, s)
		}
	}
	switch fate {
	case FateAll:
	case FateNone:
		lost = n.loseSectors(d, func(*sector) bool { return false })
		n.size = durable
	case FatePrefix:
		lost = n.keepPrefix(d, r, ahead)
	case FateHoles:
		chance := 1 + r.IntN(999)
		above := int64(noDirty) // sectors that end above revert
		if !ahead {
			above = n.lowestCut()
		}
		lost = n.loseSectors(d, func(s *sector) bool {
			return (s.no+1)*sectorSize <= above && r.IntN(1000) < chance
		})
		if !ahead {
			lost = lost || n.size != durable
			n.size = durable
		}
	}
	n.trim(d)
	if garbage && fate != FateAll {
		n.fillGarbage(d, r, durable)
	}
	n.settled()
	d.fates[fate].add(lost)
	return fate, lost
}

// loseSectors reverts each dirty sector that keep refuses.
func (n *inode) loseSectors(d *Disk, keep func(*sector) bool) (lost bool) {
	for i := range n.sectors {
		s := &n.sectors[i]
		if !s.dirty {
			continue
		}
		if keep(s) {
			d.drop(s.old)
			s.old, s.dirty = nil, false
			continue
		}
		n.revert(d, s)
		lost = true
	}
	return lost
}

// lowestCut is the lowest size that the file was set to since the last Sync. If that comes
// undone, what was there is there again, and what was written above is not.
func (n *inode) lowestCut() int64 {
	low := int64(noDirty)
	for _, op := range n.ops {
		if op.kind == sized {
			low = min(low, op.off)
		}
	}
	return low
}

// keepPrefix keeps the changes up to a byte drawn from all of them. Where a later change
// overwrote an earlier one, the earlier one is kept with the later one's bytes: that is
// what happens if the device writes the page late.
func (n *inode) keepPrefix(d *Disk, r *rand.Rand, ahead bool) (lost bool) {
	var total int64
	for _, op := range n.ops {
		total += op.weight()
	}
	cut := r.Int64N(total + 1)
	kept := cutOps(n.ops, cut)
	for i := n.find(n.dirtyFrom); i < len(n.sectors); i++ {
		if s := &n.sectors[i]; s.dirty {
			s.tear(d, n, kept)
		}
	}
	size := n.durSize
	for _, op := range kept {
		switch op.kind {
		case wrote:
			size = max(size, op.off+op.n)
		case sized:
			size = op.off
		}
	}
	if ahead {
		size = max(size, n.size)
	}
	n.size = size
	return cut < total
}

// cutOps keeps the operations before a place, and the first bytes of the one there.
func cutOps(ops []fileOp, left int64) []fileOp {
	for i := range ops {
		if w := ops[i].weight(); left >= w {
			left -= w
			continue
		}
		if ops[i].n > 0 && left > 0 {
			ops[i].n = left
			i++
		}
		return ops[:i]
	}
	return ops
}

// tear makes a dirty sector its durable contents plus what the kept changes wrote.
func (s *sector) tear(d *Disk, n *inode, kept []fileOp) {
	var was block
	if s.old != nil {
		was = *s.old
	}
	base := s.no * sectorSize
	for _, op := range kept {
		if op.kind == sized {
			clear(was[min(max(op.off-base, 0), sectorSize):])
			continue
		}
		lo, hi := max(op.off-base, 0), min(op.off+op.n-base, sectorSize)
		if lo >= hi {
			continue
		}
		if s.cur == nil {
			clear(was[lo:hi])
		} else {
			copy(was[lo:hi], s.cur[lo:hi])
		}
	}
	d.drop(s.old)
	s.old, s.dirty = nil, false
	if s.cur == nil {
		s.cur = d.alloc(false)
		d.hold(n, 1)
	}
	*s.cur = was
}

// trim drops what lies above the size.
func (n *inode) trim(d *Disk) {
	n.rewrites++
	i := n.find((n.size + sectorSize - 1) / sectorSize)
	for j := i; j < len(n.sectors); j++ {
		s := &n.sectors[j]
		if s.cur != nil {
			d.drop(s.cur)
			d.hold(n, -1)
		}
		d.drop(s.old)
	}
	n.sectors = slices.Delete(n.sectors, i, len(n.sectors))
	if i > 0 {
		s := &n.sectors[i-1]
		if end := n.size - s.no*sectorSize; end < sectorSize && s.cur != nil {
			clear(s.cur[end:])
		}
	}
	for i := range n.sectors {
		s := &n.sectors[i]
		d.drop(s.old)
		s.old, s.dirty, s.lost = nil, false, false
	}
	n.sectors = slices.DeleteFunc(n.sectors, func(s sector) bool { return s.cur == nil })
}

// garbageMax bounds how many sectors of a file become garbage.
const garbageMax = 64

// fillGarbage gives sectors between the durable and the present size that have no data
// what the device had there before.
func (n *inode) fillGarbage(d *Disk, r *rand.Rand, durable int64) {
	var junk block
	done := 0
	for no := (durable + sectorSize - 1) / sectorSize; no*sectorSize < n.size && done < garbageMax; no++ {
		i := n.find(no)
		if i < len(n.sectors) && n.sectors[i].no == no {
			continue
		}
		for k := 0; k < sectorSize; k += 8 {
			v := r.Uint64()
			for b := range 8 {
				junk[k+b] = byte(v >> (8 * b))
			}
		}
		n.poke(d, junk[:min(sectorSize, n.size-no*sectorSize)], no*sectorSize, nil)
		done++
	}
}

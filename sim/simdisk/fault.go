package simdisk

import (
	"math/rand/v2"
	"slices"
	"time"

	"seedlog/sim/trace"
)

// Fault is a kind of misbehaviour.
type Fault uint8

const (
	// ReadError fails one read with disk.ErrIO.
	ReadError Fault = iota
	// WriteError fails one write with disk.ErrIO after a drawn part of it.
	WriteError
	// SyncError fails one Sync or SyncDir; what is unsynced stays so and may yet be synced.
	SyncError
	// SyncForgets fails one Sync, and the kernel forgets that the data is unsynced: later
	// syncs succeed without it. It can be read until it is evicted, which may be at once.
	SyncForgets
	// CloseError fails one Close; the file is closed and nothing is lost.
	CloseError
	// WriteFull fails one write with disk.ErrNoSpace after a drawn part of it.
	WriteFull
	// Misdirected sends one write to another place of the same or of another file.
	Misdirected
	// BitRot flips a bit of a stored byte, somewhere on the disk. Drawn by reads.
	BitRot
	// Slow makes one call take ten to a thousand times as long.
	Slow
	// Stalled makes all calls wait up to seconds. Drawn by writes and syncs.
	Stalled
	// ReadOnly is SetReadOnly; Wiped is Wipe; PowerLost is PowerLoss; NoSpace is the
	// capacity. They are done, not drawn, and effective when a call fails or data is lost.
	ReadOnly
	NoSpace
	Wiped
	PowerLost
	numFaults
)

var faultNames = [numFaults]string{
	"read-error", "write-error", "sync-error", "sync-forgets", "close-error", "write-full",
	"misdirected", "bit-rot", "slow", "stalled", "read-only", "no-space", "wiped", "power-loss",
}

func (f Fault) String() string { return faultNames[f] }

// AllFaults lists the kinds in order.
func AllFaults() []Fault {
	all := make([]Fault, numFaults)
	for f := range all {
		all[f] = Fault(f)
	}
	return all
}

// Counter counts a kind of fault.
type Counter struct {
	Fired     int64
	Effective int64 // somebody could have noticed: a call failed, damage was read, data was lost
}

func (c *Counter) add(effective bool) {
	c.Fired++
	if effective {
		c.Effective++
	}
}

type faultState struct {
	fired, effective int64
	rng              *rand.Rand
	every            int64 // mean number of calls between two faults; 0: off
	left             int64
	match            func(path string) bool
	armed            []*Injection
}

// Injection is a fault armed for one call.
type Injection struct {
	Fault Fault
	// Match chooses the files by path; nil is any.
	Match func(path string) bool
	// Skip is how many matching calls go well before.
	Skip int
	// Fired tells that it happened.
	Fired bool
}

// SetRate makes a fault happen once in every calls on average (0: never) to the files that
// match chooses (nil: any).
func (d *Disk) SetRate(f Fault, every int64, match func(path string) bool) {
	s := &d.faults[f]
	s.every, s.match, s.left = every, match, 0
	if every > 0 {
		s.left = s.gap()
	}
}

// OnReuse registers what is called when an incarnation writes a file again of which a write
// failed, or syncs one again of which a sync failed: what is in the page cache then is not
// what is on the disk. what is "written" or "synced".
func (d *Disk) OnReuse(fn func(path, what string)) { d.onReuse = fn }

// OnForget registers what is called right before a failed sync forgets what it did not write.
func (d *Disk) OnForget(fn func()) { d.onForget = fn }

// Arm makes a fault happen to one call. A file path in Match is the one it was opened with.
func (d *Disk) Arm(in *Injection) *Injection {
	s := &d.faults[in.Fault]
	s.armed = append(s.armed, in)
	return in
}

// Count tells how often a fault fired and had an effect.
func (d *Disk) Count(f Fault) Counter {
	return Counter{Fired: d.faults[f].fired, Effective: d.faults[f].effective}
}

// CalmDown ends everything that goes on: rates, armed faults, stalls, holds, read-only. Damage that
// was done stays.
func (d *Disk) CalmDown() {
	for f := range d.faults {
		d.faults[f].every, d.faults[f].armed = 0, nil
	}
	for _, m := range d.mounts {
		m.stallUntil = 0
	}
	d.readOnly, d.held = false, hold{}
}

// gap draws the number of calls to the next fault; uniform, so that no float decides.
func (s *faultState) gap() int64 { return 1 + s.rng.Int64N(2*s.every) }

// fires decides whether the fault happens to this call.
func (d *Disk) fires(f Fault, path string) bool {
	s := &d.faults[f]
	hit := false
	for i, in := range s.armed {
		if in.Match != nil && !in.Match(path) {
			continue
		}
		if in.Skip > 0 {
			in.Skip--
			continue
		}
		in.Fired, hit = true, true
		s.armed = append(s.armed[:i], s.armed[i+1:]...)
		break
	}
	if s.every > 0 && (s.match == nil || s.match(path)) {
		if s.left--; s.left <= 0 {
			s.left, hit = s.gap(), true
		}
	}
	if hit {
		s.fired++
		d.noteName(trace.DiskFault, uint64(f), path)
	}
	return hit
}

func (d *Disk) effective(f Fault) { d.faults[f].effective++ }

// Damage is a place where stored bytes are not what was written.
type Damage struct {
	Fault Fault
	Path  string // at the time
	Off   int64
	Len   int64
	Seen  bool // a read returned some of it

	twin *Damage // of a misdirected write: the place that it missed
}

// Damages lists all damage ever done, in order. Some may be overwritten or removed since.
func (d *Disk) Damages() []Damage {
	list := make([]Damage, len(d.damage))
	for i, x := range d.damage {
		list[i] = *x
	}
	return list
}

// Forgotten lists the files whose unsynced data a failed sync forgot, in order.
func (d *Disk) Forgotten() []string { return slices.Clone(d.forgotten) }

func (d *Disk) sawDamage(s *sector) {
	if x := s.bad; !x.Seen {
		x.Seen = true
		if x.twin == nil || !x.twin.Seen { // one write, one effect
			d.effective(x.Fault)
		}
	}
	s.bad = nil
}

func (d *Disk) hurt(f Fault, path string, off, n int64) *Damage {
	x := &Damage{Fault: f, Path: path, Off: off, Len: n}
	d.damage = append(d.damage, x)
	return x
}

// Rot flips a drawn bit in a drawn file that match chooses (nil: any) and that stores
// something. It reports false if there is none.
func (d *Disk) Rot(match func(path string) bool) (Damage, bool) {
	x, ok := d.rot(match)
	if ok {
		d.faults[BitRot].fired++
		d.noteName(trace.DiskFault, uint64(BitRot), x.Path)
	}
	return x, ok
}

func (d *Disk) rot(match func(path string) bool) (Damage, bool) {
	r := d.faults[BitRot].rng
	path, n := d.drawFile(r, match)
	if n == nil {
		return Damage{}, false
	}
	s := &n.sectors[r.IntN(n.find((n.size+sectorSize-1)/sectorSize))]
	off := s.no*sectorSize + r.Int64N(min(sectorSize, n.size-s.no*sectorSize))
	bit := byte(1) << r.IntN(8)
	return *d.flip(path, n, off, bit), true
}

// flip flips bits of one byte of a file.
func (d *Disk) flip(path string, n *inode, off int64, bits byte) *Damage {
	var b [1]byte
	n.read(d, b[:], off)
	b[0] ^= bits
	x := d.hurt(BitRot, path, off, 1)
	n.poke(d, b[:], off, x)
	return x
}

// drawFile draws a file that stores something below its size.
func (d *Disk) drawFile(r *rand.Rand, match func(path string) bool) (path string, n *inode) {
	seen := 0
	d.eachFile(d.root, "", func(p string, f *inode) {
		if f.held == 0 || f.sectors[0].no*sectorSize >= f.size || (match != nil && !match(p)) {
			return
		}
		seen++
		if r.IntN(seen) == 0 { // each of them with the same chance
			path, n = p, f
		}
	})
	return path, n
}

// misdirect puts p somewhere else than at off of n: of n itself or of another file.
func (d *Disk) misdirect(n *inode, path string, p []byte, off int64) {
	r := d.faults[Misdirected].rng
	where, victim := path, n
	if r.IntN(2) == 0 {
		if q, v := d.drawFile(r, nil); v != nil {
			where, victim = q, v
		}
	}
	// What should have been written reads as it did before, or as zeros.
	missing := d.hurt(Misdirected, path, off, int64(len(p)))
	old := make([]byte, len(p))
	n.read(d, old, off)
	n.poke(d, old, off, missing)
	n.changed(off, int64(len(p)))
	if victim.size == 0 {
		return
	}
	at := r.Int64N(victim.size) / sectorSize * sectorSize
	p = p[:min(int64(len(p)), victim.size-at)]
	if victim == n && at < off+missing.Len && off < at+int64(len(p)) {
		return // it would have hit a part of where it belongs: let it be lost
	}
	hit := d.hurt(Misdirected, where, at, int64(len(p)))
	hit.twin, missing.twin = missing, hit
	victim.poke(d, p, at, hit)
}

// slowness is the time a fault adds to a call.
func (m *Mount) slowness(path string, took time.Duration, writes bool) time.Duration {
	d := m.d
	if d.fires(Slow, path) {
		took = max(took, 10*time.Microsecond) * time.Duration(10+d.faults[Slow].rng.IntN(990))
		d.effective(Slow)
	}
	if writes && d.fires(Stalled, path) {
		stall := time.Duration(1+d.faults[Stalled].rng.Int64N(3000)) * time.Millisecond
		m.stallUntil = max(m.stallUntil, m.rt.Now().Add(stall))
	}
	if now := m.rt.Now(); m.stallUntil > now {
		took = max(took, m.stallUntil.Sub(now))
		d.effective(Stalled)
	}
	return took
}

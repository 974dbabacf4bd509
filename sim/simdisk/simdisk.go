// Package simdisk is the simulated disk of one machine. It outlives the machine's
// incarnations and forgets what a real one would.
//
// It owns bytes and names twice: what a reader sees now, and what is durable.
//
//	         WriteAt, Truncate           Sync
//	bytes:  ------------------> current ------> durable     per file, by 512-byte sector
//	         Open, Rename, Remove        SyncDir
//	names:  ------------------> current ------> durable     per directory, by operation
//
// [Disk.Kill] ends the incarnations and loses nothing. [Disk.PowerLoss] also draws, for
// each file on its own, what of the unsynced rest survives: all, none, a prefix with a torn
// last sector, or a random part of the sectors; a size may survive without its data, which
// then reads as zeros or garbage; and for the names: all, none, a prefix, or any of the
// operations.
//
// A [Mount] is one incarnation's disk.Disk. Every call takes a drawn time, in which the
// task is parked, before or after its effect, or, for a write of several pages, between two
// parts of it. So every call is a place to crash on either side. After the incarnation has
// ended its handles refuse.
//
// Faults (see [Fault]) are drawn, armed for one call, or done at once; each has a stream of
// random numbers of its own, so that turning one off shifts nothing else. Each counts that
// it fired and that it had an effect.
//
// A Disk belongs to one World and is used by one task at a time, without a lock. It knows
// nothing of what the files mean. Nothing in it depends on the order of a map.
package simdisk

import (
	"math/rand/v2"
	"time"

	"seedlog/clock/task"
	"seedlog/sim/trace"
)

// Config is what a Disk is made from.
type Config struct {
	// Rand returns the stream of a name; it is called once per name, in a fixed order.
	Rand func(stream string) *rand.Rand
	// Trace records every operation, if it is not nil; ID is the disk's number in it.
	Trace *trace.Log
	ID    uint64
	// Latency draws the time of each call; nil is Default.
	Latency Latency
	// Capacity is the size in bytes; 0 is one tebibyte.
	Capacity int64
	// Power weighs what a power loss leaves; the zero value is DefaultPower.
	Power Power
}

// DefaultCapacity is used if Config.Capacity is 0.
const DefaultCapacity = 1 << 40

// Disk is the device: it belongs to the machine.
type Disk struct {
	onReuse  func(path, what string)
	onForget func()
	id       uint64
	trace    *trace.Log
	latency  Latency
	power    Power
	capacity int64
	readOnly bool

	root    *inode
	nextID  uint64
	journal []nameOp // not yet durable, in order
	used    int64    // sectors that hold data
	spare   []*block
	slab    []block

	mounts []*Mount // alive

	faults [numFaults]faultState
	held   hold
	damage []*Damage
	// forgotten are the files whose data failed syncs forgot.
	forgotten []string
	fates     [numFates]Counter
	waitRng   *rand.Rand // latencies
	sideRng   *rand.Rand // before or after the effect
	lossRng   *rand.Rand // what a power loss leaves
}

// New returns an empty disk with a durable root directory.
func New(c Config) *Disk {
	d := &Disk{id: c.ID, trace: c.Trace, latency: c.Latency, power: c.Power, capacity: c.Capacity}
	if d.latency == nil {
		d.latency = Default{}
	}
	if d.power == (Power{}) {
		d.power = DefaultPower
	}
	if d.capacity == 0 {
		d.capacity = DefaultCapacity
	}
	d.waitRng = c.Rand("disk/latency")
	d.sideRng = c.Rand("disk/order")
	d.lossRng = c.Rand("disk/power-loss")
	for f := range numFaults {
		d.faults[f].rng = c.Rand("disk/" + f.String())
	}
	d.root = d.newInode(true)
	return d
}

// Mount opens the disk for an incarnation, whose tasks run on rt.
func (d *Disk) Mount(rt task.Runtime) *Mount {
	m := &Mount{d: d, rt: rt}
	d.mounts = append(d.mounts, m)
	return m
}

// Kill ends every incarnation; what was written stays.
func (d *Disk) Kill() {
	for len(d.mounts) > 0 {
		d.mounts[0].Kill()
	}
}

// Wipe replaces the disk by an empty one, as after a failed drive, and ends every
// incarnation.
func (d *Disk) Wipe() {
	d.Kill()
	d.faults[Wiped].fired++
	if len(d.root.ents) > 0 {
		d.faults[Wiped].effective++
	}
	d.root = d.newInode(true)
	d.journal, d.damage, d.used = nil, nil, 0
	d.note(trace.DiskFault, uint64(Wiped), 0, 0)
}

// SetReadOnly makes every change fail with disk.ErrReadOnly, or lets it through again.
func (d *Disk) SetReadOnly(on bool) {
	if on && !d.readOnly {
		d.faults[ReadOnly].fired++
	}
	d.readOnly = on
	d.note(trace.DiskFault, uint64(ReadOnly), boolWord(on), 0)
}

// SetCapacity changes the size of the disk in bytes. What is stored already stays.
func (d *Disk) SetCapacity(bytes int64) {
	d.capacity = bytes
	d.note(trace.DiskFault, uint64(NoSpace), uint64(bytes), 0)
}

// StallFor makes every call that begins now wait at least so long.
func (d *Disk) StallFor(time time.Duration) {
	d.faults[Stalled].fired++
	for _, m := range d.mounts {
		m.stallUntil = max(m.stallUntil, m.rt.Now().Add(time))
	}
	d.note(trace.DiskFault, uint64(Stalled), uint64(time), 0)
}

// hold is how long calls of one kind to some files take.
type hold struct {
	op    Op
	least time.Duration
	match func(path string) bool
}

// HoldFor makes every call of one kind that begins from now on wait at least so long, if match
// chooses the path; with 0 none does any more.
func (d *Disk) HoldFor(op Op, least time.Duration, match func(path string) bool) {
	d.held = hold{op, least, match}
	d.note(trace.DiskFault, uint64(Stalled), uint64(least), uint64(op))
}

// Used is the number of bytes that are stored.
func (d *Disk) Used() int64 { return d.used * sectorSize }

// Capacity is the size in bytes.
func (d *Disk) Capacity() int64 { return d.capacity }

// note adds to the trace. Its first word is the disk and b, which is an inode or a fault.
func (d *Disk) note(k trace.Kind, b, c, e uint64) {
	if d.trace != nil {
		d.trace.Add(k, d.id<<48|b, c, e)
	}
}

func (d *Disk) noteName(k trace.Kind, b uint64, name string) {
	if d.trace != nil {
		d.trace.AddString(k, d.id<<48|b, name)
	}
}

func boolWord(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

package task

import (
	"sync/atomic"

	"seedlog/clock"
)

// Reason tells why a park ended.
type Reason uint8

const (
	// Woken: somebody called Wake since the last park, or the wake was spurious. A waiter
	// checks its condition again.
	Woken Reason = iota
	// TimedOut: the deadline passed.
	TimedOut
	// Stopping: the group of the task was told to stop. Every later soft park of the task
	// returns Stopping at once.
	Stopping
)

func (r Reason) String() string {
	switch r {
	case Woken:
		return "woken"
	case TimedOut:
		return "timed out"
	default:
		return "stopping"
	}
}

// Runtime is one incarnation's tasks, time and lock policy. clock/live and sim/sched
// implement it; everything else goes through [T], [Group] and the locks.
type Runtime interface {
	clock.Clock

	// Start sets t up and runs fn as a new task. It never blocks, and is called under a
	// Mutex: fn runs in its own time, and t can be woken as soon as Start returns.
	Start(t *T, fn func(t *T))
	// Park blocks the calling task t until Wake(t) was called since its last park (a wake
	// is a single token, it does not count), or until the deadline. It may return Woken
	// for no reason. It knows nothing of stopping.
	Park(t *T, until clock.Instant) Reason
	// Wake lets t's current or next park return. Any task may call it, and so may the
	// adapters' own goroutines. It never blocks.
	Wake(t *T)
	// Policy is what watches the locks, or nil in plain production.
	Policy() Policy
}

// Policy watches locks and published values. The simulator uses it to fail a run that
// locks a held Mutex or breaks the lock order, and to yield at places where production
// could be pre-empted; clock/live has one that yields at random for race runs.
type Policy interface {
	// Locking is called to lock m. It reports whether m's own lock is to be taken: the
	// simulator, where one task runs at a time, does without.
	Locking(m *Mutex) bool
	// Unlocking is called to unlock m. It reports whether m's own lock is to be released.
	Unlocking(m *Mutex) bool
	// Explore is called at points where another task could run in production.
	Explore()
}

// T is one task. It is made by [Group.Go] and lives until its function returns.
type T struct {
	rt    Runtime
	group *Group
	name  string
	fn    func(t *T)

	// Where it waits, guarded by the owner of the list.
	in         *waiters
	next, prev *T
	// Its place among its group's tasks, guarded by the group's Mutex.
	liveNext, livePrev *T

	// Impl belongs to the Runtime.
	Impl any
}

// Name is what traces and dumps call the task.
func (t *T) Name() string { return t.name }

// Group is the group the task belongs to.
func (t *T) Group() *Group { return t.group }

// Runtime is the world the task runs in.
func (t *T) Runtime() Runtime { return t.rt }

// Now is the monotonic time.
func (t *T) Now() clock.Instant { return t.rt.Now() }

// UnixMilli is the wall clock in milliseconds.
func (t *T) UnixMilli() int64 { return t.rt.UnixMilli() }

// Park waits until t is woken, the deadline passes, or t's group stops. Woken may be
// spurious.
func (t *T) Park(until clock.Instant) Reason {
	if t.group.stopping.Load() {
		return Stopping
	}
	r := t.rt.Park(t, until)
	if t.group.stopping.Load() {
		return Stopping
	}
	return r
}

// ParkHard waits until t is woken, whether its group stops or not; for waits that end by
// themselves soon (a Gate, the admission to a disk), so that stopping cannot tear a write
// sequence. Woken may be spurious.
func (t *T) ParkHard() { t.rt.Park(t, clock.Never) }

// Sleep waits until the instant. It returns false if the group stops first.
func (t *T) Sleep(until clock.Instant) bool {
	for t.Now() < until {
		if t.Park(until) == Stopping {
			return false
		}
	}
	return !t.Stopping()
}

// Wake lets t's current or next park return.
func (t *T) Wake() { t.rt.Wake(t) }

// Stopping reports whether t's group was told to stop.
func (t *T) Stopping() bool { return t.group.stopping.Load() }

// Go starts a sibling task in t's group.
func (t *T) Go(name string, fn func(t *T)) *T { return t.group.Go(name, fn) }

// stopFlag is separate so that a park reads it without the group's Mutex.
type stopFlag = atomic.Bool

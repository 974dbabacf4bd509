//go:build linux

package osfs

import (
	"sync"

	"seedlog/clock/task"
)

// admission bounds the calls that are in the kernel for one directory tree, first come,
// first served. The uncontended path is a short lock; only a waiter costs memory.
type admission struct {
	mu    sync.Mutex
	free  int
	queue []*waiter
}

type waiter struct {
	t       *task.T
	granted bool
}

func newAdmission(n int) *admission { return &admission{free: n} }

// enter waits for a place. It is not interrupted by stopping: places come back soon, or the
// disk is stalled and the caller could not go on either.
func (a *admission) enter(t *task.T) {
	a.mu.Lock()
	if a.free > 0 {
		a.free--
		a.mu.Unlock()
		return
	}
	w := &waiter{t: t}
	a.queue = append(a.queue, w)
	for !w.granted {
		a.mu.Unlock()
		t.ParkHard()
		a.mu.Lock()
	}
	a.mu.Unlock()
}

// leave gives the place to the longest waiter, or back.
func (a *admission) leave() {
	a.mu.Lock()
	if len(a.queue) == 0 {
		a.free++
		a.mu.Unlock()
		return
	}
	w := a.queue[0]
	a.queue[0] = nil
	a.queue = a.queue[1:]
	w.granted = true
	a.mu.Unlock()
	w.t.Wake()
}

// Package live runs tasks in production: every task is a goroutine, time is the machine's.
//
// Each task owns one channel of capacity one, which is its wake token, and one timer that
// is made at its first park with a deadline and reused ever after, so that Park and Wake
// allocate nothing. Adapters may call Wake from goroutines of their own.
//
// With [Options.Chaos] the runtime has a task.Policy that yields at random before every
// Mutex and at every exploration point. It is for runs of the real node under the race
// detector, which sees nothing in the simulator's coroutines.
package live

import (
	"time"

	"seedlog/clock"
	"seedlog/clock/task"
)

// Options choose how the runtime behaves.
type Options struct {
	// Chaos, if not zero, seeds random yields before locks.
	Chaos uint64
}

// Runtime is a task.Runtime on goroutines.
type Runtime struct {
	start  time.Time
	policy task.Policy
}

// New returns a runtime whose monotonic clock starts now.
func New(o Options) *Runtime {
	rt := &Runtime{start: time.Now()}
	if o.Chaos != 0 {
		rt.policy = &chaos{seed: o.Chaos}
	}
	return rt
}

// Now is the time since the runtime was made.
func (rt *Runtime) Now() clock.Instant { return clock.Instant(time.Since(rt.start)) }

// UnixMilli is the machine's wall clock.
func (rt *Runtime) UnixMilli() int64 { return time.Now().UnixMilli() }

// Policy is nil unless Options.Chaos was set.
func (rt *Runtime) Policy() task.Policy { return rt.policy }

// parker is the runtime's part of a task. Only the task itself touches the timer.
type parker struct {
	token chan struct{}
	timer *time.Timer
}

// Start runs fn as a goroutine. A task that ends by a panic or by runtime.Goexit ends the
// process, and its name is in the report.
func (rt *Runtime) Start(t *task.T, fn func(t *task.T)) {
	t.Impl = &parker{token: make(chan struct{}, 1)}
	go func() {
		returned := false
		defer func() {
			if !returned {
				panic("task " + t.Name() + " ended by a panic or by Goexit")
			}
		}()
		fn(t)
		returned = true
	}()
}

// Park implements task.Runtime.
func (rt *Runtime) Park(t *task.T, until clock.Instant) task.Reason {
	p := t.Impl.(*parker)
	if until == clock.Never {
		<-p.token
		return task.Woken
	}
	select {
	case <-p.token:
		return task.Woken
	default:
	}
	d := until.Sub(rt.Now())
	if d <= 0 {
		return task.TimedOut
	}
	// Since Go 1.23 neither Reset nor Stop leaves an old tick in the channel.
	if p.timer == nil {
		p.timer = time.NewTimer(d)
	} else {
		p.timer.Reset(d)
	}
	select {
	case <-p.token:
		p.timer.Stop()
		return task.Woken
	case <-p.timer.C:
		return task.TimedOut
	}
}

// Wake implements task.Runtime.
func (rt *Runtime) Wake(t *task.T) {
	select {
	case t.Impl.(*parker).token <- struct{}{}:
	default:
	}
}

// Main runs fn as the task "main" of a new group, from a plain goroutine, which it blocks.
// When fn returns the group is stopped, and Main returns when all its tasks have ended.
func Main(rt *Runtime, fn func(t *task.T)) {
	done := make(chan struct{})
	g := task.NewGroup(rt, "main")
	task.NewGroup(rt, "root").Go("root", func(t *task.T) {
		g.Go("main", func(t *task.T) {
			fn(t)
			g.Stop()
		})
		g.Wait(t)
		close(done)
	})
	<-done
}

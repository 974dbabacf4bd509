package sched

import (
	"fmt"
	"runtime"
	"strings"

	"seedlog/clock"
	"seedlog/clock/task"
)

// Kinds of failure.
const (
	Panic     = "panic"
	Goexit    = "goexit"
	Deadlock  = "deadlock"
	Livelock  = "livelock"
	HeldMutex = "held-mutex" // locked while held, or unlocked while not held
	LockOrder = "lock-order"
	Locked    = "locked" // parked or ended with a Mutex held
	Misuse    = "misuse" // of a *task.T
	Invariant = "invariant"
)

// Failure is why a run ended.
type Failure struct {
	Kind  string
	Seed  uint64
	Task  string // who was running, or empty
	Text  string
	Now   clock.Instant // simulated
	Stack string        // of the running task, if it panicked
	Tasks string        // what each task was waiting for
}

// Error is everything that is known, over several lines.
func (f *Failure) Error() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s at %d.%06ds, seed=%d", f.Kind, f.Now/1e9, f.Now%1e9/1e3, f.Seed)
	if f.Task != "" {
		fmt.Fprintf(&s, ", task %s", f.Task)
	}
	fmt.Fprintf(&s, ": %s", f.Text)
	if f.Stack != "" {
		fmt.Fprintf(&s, "\n%s", f.Stack)
	}
	if f.Tasks != "" {
		fmt.Fprintf(&s, "\ntasks:\n%s", f.Tasks)
	}
	return s.String()
}

// Failure is why the run failed, or nil.
func (s *Scheduler) Failure() *Failure { return s.failure }

// Fail ends the run as failed; the first failure counts. Called from a task, it returns, and
// the task is unwound at its next wait.
func (s *Scheduler) Fail(kind, format string, args ...any) {
	s.fail(kind, fmt.Sprintf(format, args...), "")
}

func (s *Scheduler) fail(kind, text, stack string) {
	if s.failure != nil || s.closing {
		return
	}
	s.failure = &Failure{Kind: kind, Seed: s.seed, Text: text, Now: s.now, Stack: stack}
	if s.cur != nil {
		s.failure.Task = s.cur.name()
	}
}

// failHere fails the run and unwinds whoever is running.
func (s *Scheduler) failHere(kind, format string, args ...any) {
	s.fail(kind, fmt.Sprintf(format, args...), "")
	panic(unwind{})
}

// Dump lists every task that has not ended with what it is doing, a line or more each. It
// must not be called from a task or a callback.
func (s *Scheduler) Dump() (dump string) {
	s.onLoop(func() { dump = s.dump() })
	return dump
}

func (s *Scheduler) dump() string {
	var b strings.Builder
	for _, rt := range s.runtimes {
		if rt.dead {
			continue
		}
		for p := rt.first; p != nil; p = p.next {
			fmt.Fprintf(&b, "  %s: %s", p.name(), p.state)
			if p.ev.pos >= 0 {
				fmt.Fprintf(&b, " until %s", s.heap.slots[p.ev.pos].at.Sub(0))
			}
			if p.token {
				b.WriteString(", wake pending")
			}
			b.WriteString("\n")
			b.WriteString(s.stackOf(p))
		}
	}
	return b.String()
}

// stackOf resumes a waiting task only to have it write down where it is.
func (s *Scheduler) stackOf(p *proc) string {
	if p.w == nil || p.state == running || p.state == ended {
		return ""
	}
	p.dumping = true
	p.w.next()
	return p.stack
}

// ownStack is the calling task's stack above the machinery of waiting.
func ownStack() string {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	var b strings.Builder
	for n := 0; n < 8; {
		f, more := frames.Next()
		fn := f.Function
		if !strings.HasPrefix(fn, "seedlog/sim/sched.(*") && !strings.HasPrefix(fn, "seedlog/clock/task.") &&
			!strings.HasPrefix(fn, "iter.") && !strings.HasPrefix(fn, "runtime.") && fn != "" {
			fmt.Fprintf(&b, "      %s %s:%d\n", fn[strings.LastIndexByte(fn, '/')+1:],
				f.File[strings.LastIndexByte(f.File, '/')+1:], f.Line)
			n++
		}
		if !more {
			break
		}
	}
	return b.String()
}

// deadlock is the failure of a run that waits for something that cannot come.
func (s *Scheduler) deadlock() {
	n := 0
	for _, rt := range s.runtimes {
		for p := rt.first; p != nil; p = p.next {
			n++
		}
	}
	s.fail(Deadlock, fmt.Sprintf("%d tasks wait and nothing will happen", n), "")
}

// owner names who holds a Mutex.
func owner(m *task.Mutex) string {
	if m.State.Owner == nil {
		return "the world"
	}
	return m.State.Owner.Impl.(*proc).name()
}

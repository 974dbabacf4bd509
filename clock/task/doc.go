// Package task is the contract for tasks, and the synchronisation that is written once
// on top of it.
//
// A task is a goroutine in production (package clock/live) and a coroutine in the
// simulator (package sim/sched). Every call that may wait takes the task, t *task.T,
// first: the signature shows the wait. There are two primitives, [T.Park] and [T.Wake];
// [Gate], [Event], [Queue] and [Group] are built here from these and from [Mutex].
//
// Two locks exist. A [Mutex] guards memory for a few statements and is never held across
// a call that takes a *T. A [Gate] is first come, first served, parks its waiters and may
// be held across such calls; it orders the writes of one log.
//
// What this package never does: start a goroutine, read a clock, or know which of the two
// worlds it runs in.
package task

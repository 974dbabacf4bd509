// Package sched runs tasks as coroutines under one seed.
//
// A [Scheduler] is the time and the processor of one simulated world. Its tasks are
// coroutines made with iter.Pull, one of which runs at a time; everything between two waits
// is atomic, and which runnable task is next, what a step costs, who is held back, woken
// for no reason or made to yield before a lock is drawn from the seed:
//
//	         Start                       pick
//	task --------------> runnable ------------------> running --> ended
//	                      ^   ^  ^                     |  |
//	          held back   |   |  +--- yields ----------+  | Park
//	          for a while |   |       before a Mutex      v
//	                     held +<------ wake, deadline -- parked
//
// Time is simulated: a step costs a little, and when nothing is runnable it jumps to the
// next event. Nothing ticks.
//
// Each incarnation of a machine's process has a [Runtime] of its own, with its own clock,
// random streams and lock policy. [Runtime.Kill] ends it wherever its tasks are: each is
// resumed once more, a private panic unwinds it, and from that moment its wakes, spawns,
// panics and unlocks have no effect.
//
// What fails a run, with the names of the tasks: a panic, a Goexit, locking a held
// task.Mutex, two lock classes taken in both orders, parking or ending with a Mutex held, a
// deadlock, and many steps that lead nowhere.
//
// There is no global state: many schedulers may run in one process, each used by one
// goroutine at a time. [Scheduler.Close] leaves no goroutine behind.
package sched

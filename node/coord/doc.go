// Package coord hosts the group coordinator: one shard (node/group) for each partition of
// __consumer_offsets that this broker leads, each with one task that owns it.
//
// It owns the mailbox, the loading, the appending, the timers, and the replies that wait
// for the high watermark. It never decides about groups and never looks into a record.
//
//	handler: Do ---> mailbox ---> the shard's task:  core.Handle
//	                                                 log.Append, core.Appended (replay)
//	                                                 timers -> wheel
//	   <------------------------- replies, when all that was appended before is committed
//
// A shard loads by replaying its partition from the start to the end that the log had when
// leadership came; requests meanwhile are told COORDINATOR_LOAD_IN_PROGRESS. Its replies
// wait until that end is committed too, so that what a client is told was never rolled
// back. When the log says that this broker does not lead any more, the shard ends, and
// everybody who waits is told NOT_COORDINATOR.
//
// Nothing ticks: the task parks until a request, a commit, or the next deadline.
package coord

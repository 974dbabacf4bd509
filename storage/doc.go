// Package storage is the log: append, read, truncate, roll, recover.
//
//	Dir    one log.dir: its lock, checkpoints, clean marker, logs, and whether it is online
//	Log    one partition: ordered batches in segments, offsets, producers, epochs
//	segment  <base>.log and its derived files <base>.index .timeindex .txnindex .snapshot
//
//	<log.dir>/.lock .kafka_cleanshutdown recovery-point-offset-checkpoint
//	          log-start-offset-checkpoint replication-offset-checkpoint .ballast
//	<log.dir>/<topic>-<partition>/00000000000000000000.log ...
//	                              leader-epoch-checkpoint partition.metadata
//
// Writers of one log are ordered by its Gate, which is held across their disk calls.
// Offsets, the high watermark and the segment list are guarded by its Mutex, held for a few
// statements; readers never take the Gate, so a write that stalls does not stop them. The
// segment list is copied on write and published.
//
// A failed write or sync takes the log and its Dir offline before anything else can be
// appended or acknowledged; no sync is ever retried.
//
// The package never decides what is replicated, retained or acknowledged: it keeps the
// numbers (log start, last stable offset, high watermark, synced end, log end) that those
// who decide work with. It parses no message and knows no network.
package storage

// Package producer owns what a partition knows of its producers: for each producer id the epoch,
// the last five batches, and the transaction that is open; for the partition the transactions
// whose outcome is not decided, or decided above the high watermark.
//
// It decides whether a batch is new, a repeat or out of order, what a transaction marker ends,
// and where the first unstable offset is. It is pure: times and offsets are arguments, and it
// neither reads nor writes the files whose bytes it encodes.
//
// The state is derived. It equals the latest snapshot plus a replay of the batches behind it,
// with one difference: a snapshot holds one batch per producer, memory the last five.
//
//	             Check            write            Apply
//	append  ──►  ok, repeat  ──►  to the log  ──►  entry, open transaction
//	             or an error
//	marker  ──►  CheckMarker ──►  to the log  ──►  ApplyMarker: entry, completed transaction,
//	                                               unreplicated until the high watermark passes it
//	replica, recovery ───────────────────────────► Replay: the same, without checks
//
// docs/formats/producer-snapshot.md draws the file.
package producer

package storage

import "errors"

// What a Log or a Dir refuses with. The text of the returned error adds the partition and
// the offsets.
var (
	// ErrOffsetOutOfRange: the offset is below the log start or above the bound.
	ErrOffsetOutOfRange = errors.New("offset out of range")
	// ErrOffline: the log, or its whole directory, stopped serving after a failed write,
	// a failed sync or damage found; it wraps the cause.
	ErrOffline = errors.New("log is offline")
	// ErrClosed: the log was closed or deleted.
	ErrClosed = errors.New("log is closed")
	// ErrUnexpectedOffset: a follower's append does not continue the log.
	ErrUnexpectedOffset = errors.New("append does not continue the log")
	// ErrBatchTooLarge: the append does not fit into a segment.
	ErrBatchTooLarge = errors.New("append is larger than a segment")
	// ErrCorrupt: bytes that were durable are damaged.
	ErrCorrupt = errors.New("log is corrupt")
	// ErrExists: the directory already has a log of that name.
	ErrExists = errors.New("log already exists")
	// ErrEpoch: a batch carries an epoch below the log's latest one.
	ErrEpoch = errors.New("leader epoch goes back")
)

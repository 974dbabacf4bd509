package coord

import (
	"errors"

	"seedlog/clock/task"
)

// Errors of a [Log]. Any other error means that the partition is lost to this broker, and
// ends the shard.
var (
	// ErrTooLarge: the batch is larger than the topic allows.
	ErrTooLarge = errors.New("batch of the coordinator is too large")
	// ErrUnavailable: the log cannot take batches now, such as with too few in-sync replicas.
	ErrUnavailable = errors.New("the coordinator's log takes nothing now")
)

// Log is one partition of __consumer_offsets, led by this broker in one epoch. Only the
// shard's task calls it.
type Log interface {
	// Append writes one batch, built at base offset 0, and returns where it went. A leader
	// of another epoch must not take it.
	Append(t *task.T, batch []byte) (base int64, err error)
	// Bounds returns the log start offset and the log end offset.
	Bounds() (start, end int64)
	// Read returns whole batches from the one that holds offset on, at least one, and about
	// max bytes. The result is valid until the next call.
	Read(t *task.T, offset int64, max int32) ([]byte, error)
	// Committed tells whether everything below next is committed, or that it will not be.
	Committed(next int64) (done bool, err error)
	// Watch calls wake once, when Committed(next) has an answer; it may do so at once. wake
	// does not wait.
	Watch(next int64, wake func())
}

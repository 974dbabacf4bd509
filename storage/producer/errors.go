package producer

import "errors"

// Why an append is refused. Beside each stands the Kafka error code.
var (
	// ErrOutOfOrder: a gap before the first sequence, or a repeat of something that is not
	// known any more (OUT_OF_ORDER_SEQUENCE_NUMBER).
	ErrOutOfOrder = errors.New("producer: out of order sequence number")
	// ErrDuplicate: a repeat of a batch that was appended, but so long ago that its offsets are
	// not remembered (DUPLICATE_SEQUENCE_NUMBER).
	ErrDuplicate = errors.New("producer: duplicate sequence number")
	// ErrEpoch: an epoch below the last seen one (INVALID_PRODUCER_EPOCH).
	ErrEpoch = errors.New("producer: invalid producer epoch")
	// ErrCoordinatorFenced: a marker from a coordinator that has been replaced
	// (TRANSACTION_COORDINATOR_FENCED).
	ErrCoordinatorFenced = errors.New("producer: transaction coordinator fenced")
	// ErrTxnState: a batch outside the transaction while one is open (INVALID_TXN_STATE).
	ErrTxnState = errors.New("producer: invalid transaction state")
	// ErrSnapshot: a snapshot file that is damaged or of an unknown version.
	ErrSnapshot = errors.New("producer: corrupt snapshot")
)

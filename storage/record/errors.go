package record

import (
	"errors"
	"fmt"
)

// The kinds of error, tested with errors.Is. Beside each stands the Kafka error code that a
// Produce handler answers with.
var (
	// ErrShort: fewer bytes than the header or its length field promises. Of a file it may
	// only mean that more has to be read; from a client it is INVALID_RECORD.
	ErrShort = errors.New("record: short data")
	// ErrMagic: not a batch of magic 2 (INVALID_RECORD). [Peek] tells which magic it is.
	ErrMagic = errors.New("record: magic is not 2")
	// ErrCorrupt: the CRC does not match, or a length cannot be (CORRUPT_MESSAGE).
	ErrCorrupt = errors.New("record: corrupt batch")
	// ErrInvalid: the bytes are as they were sent and break the rules (INVALID_RECORD).
	ErrInvalid = errors.New("record: invalid record")
	// ErrInvalidTimestamp: a timestamp outside the topic's limits (INVALID_TIMESTAMP).
	ErrInvalidTimestamp = errors.New("record: invalid timestamp")
	// ErrTooLarge: larger than max.message.bytes, or inflating beyond the limit
	// (MESSAGE_TOO_LARGE).
	ErrTooLarge = errors.New("record: batch too large")
	// ErrCodec: an unknown codec, or zstd from a client older than Produce 7
	// (UNSUPPORTED_COMPRESSION_TYPE).
	ErrCodec = errors.New("record: unsupported compression type")
)

// maxRecordErrors bounds how many records of one batch a [ValidationError] names.
const maxRecordErrors = 128

// RecordError says what is wrong with one record of a refused batch. Index counts from the first
// record of the batch, as record_errors of a Produce response does.
type RecordError struct {
	Index   int32
	Message string
}

// ValidationError refuses a batch because of single records. Kind is ErrInvalidTimestamp if any
// of them has a bad timestamp, ErrInvalid otherwise. At most 128 records are named.
type ValidationError struct {
	Kind    error
	Records []RecordError
	Total   int // how many records are bad, named or not
}

func (e *ValidationError) Error() string {
	first := e.Records[0]
	return fmt.Sprintf("%v: %d of the batch's records refused, the first at index %d: %s",
		e.Kind, e.Total, first.Index, first.Message)
}

// Unwrap returns the kind, so that errors.Is finds it.
func (e *ValidationError) Unwrap() error { return e.Kind }

package api

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"seedlog/node/control"
	"seedlog/node/partition"
	"seedlog/node/replica"
	"seedlog/storage"
	"seedlog/storage/producer"
	"seedlog/storage/record"
)

// codes translates errors of the node to Kafka's codes; the first that matches counts.
var codes = []struct {
	is   error
	code int16
}{
	{record.ErrTooLarge, kerr.MessageTooLarge.Code},
	{record.ErrCodec, kerr.UnsupportedCompressionType.Code},
	{record.ErrInvalidTimestamp, kerr.InvalidTimestamp.Code},
	{record.ErrCorrupt, kerr.CorruptMessage.Code},
	{record.ErrInvalid, kerr.InvalidRecord.Code},
	{record.ErrMagic, kerr.InvalidRecord.Code},
	{record.ErrShort, kerr.InvalidRecord.Code},

	{producer.ErrOutOfOrder, kerr.OutOfOrderSequenceNumber.Code},
	{producer.ErrDuplicate, kerr.DuplicateSequenceNumber.Code},
	{producer.ErrEpoch, kerr.InvalidProducerEpoch.Code},
	{producer.ErrTxnState, kerr.InvalidTxnState.Code},

	{partition.ErrFencedLeaderEpoch, kerr.FencedLeaderEpoch.Code},
	{partition.ErrUnknownLeaderEpoch, kerr.UnknownLeaderEpoch.Code},
	{partition.ErrNotEnoughReplicas, kerr.NotEnoughReplicas.Code},
	{replica.ErrNotLeader, kerr.NotLeaderForPartition.Code},
	{replica.ErrUnknownReplica, kerr.UnknownLeaderEpoch.Code},
	{replica.ErrUnknownPartition, kerr.UnknownTopicOrPartition.Code},

	{errUnknownEpoch, kerr.OffsetOutOfRange.Code},
	{errOffsetNotAvailable, kerr.OffsetNotAvailable.Code},
	{errStaleReplica, kerr.NotLeaderForPartition.Code},
	{storage.ErrOffsetOutOfRange, kerr.OffsetOutOfRange.Code},
	{storage.ErrBatchTooLarge, kerr.RecordListTooLarge.Code},
	{storage.ErrEpoch, kerr.NotLeaderForPartition.Code},
	{storage.ErrClosed, kerr.NotLeaderForPartition.Code},
	{storage.ErrOffline, kerr.KafkaStorageError.Code},
	{storage.ErrCorrupt, kerr.KafkaStorageError.Code},

	{control.ErrNotController, kerr.NotController.Code},
	{control.ErrTimeout, kerr.RequestTimedOut.Code},
	{control.ErrUnsettled, kerr.RequestTimedOut.Code},
	{control.ErrStopping, kerr.NotController.Code},
	{errStopping, kerr.NotLeaderForPartition.Code},
}

// errorCode is the code that a client is told for err; what nobody expected is a storage
// error, for anything else here came out of a disk call.
func errorCode(err error) int16 {
	if err == nil {
		return 0
	}
	for _, c := range codes {
		if errors.Is(err, c.is) {
			return c.code
		}
	}
	return kerr.KafkaStorageError.Code
}

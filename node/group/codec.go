package group

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Records of __consumer_offsets, in Kafka's schemas. A key starts with its version, which
// is also its type; a nil value is a tombstone.
//
//	key 0, 1   OffsetCommit   group, topic, partition         value 0..4 (we write 3;
//	                                                          4 with a topic id, 1 with an expiry)
//	key 2      GroupMetadata  group                           value 0..4 (we write 3)
//	key 3...   groups of the newer protocols, share groups: kept in the log, not served
const (
	keyOffsetCommit  = 1
	keyGroupMetadata = 2

	valueOffsetCommit        = 3
	valueOffsetCommitExpiry  = 1
	valueOffsetCommitTopicID = 4
	valueGroupMetadata       = 3
)

// ErrRecord is a record of __consumer_offsets that does not decode.
var ErrRecord = errors.New("malformed record of __consumer_offsets")

// Record is one record: a key, and a value or nil for a tombstone.
type Record struct {
	Key   []byte
	Value []byte
}

// OffsetKey names a committed offset.
type OffsetKey struct {
	Group     string
	Topic     string
	Partition int32
}

// Offset is a committed offset: the next record to read.
type Offset struct {
	Offset            int64
	LeaderEpoch       int32 // -1: unknown
	Metadata          string
	CommitTimestampMs int64
	ExpireTimestampMs int64 // -1: by retention
	TopicID           [16]byte
}

// ParseKey tells which kind of record a key is of: exactly one of the results is set, or
// none for a kind that this version does not serve.
func ParseKey(key []byte) (offset *OffsetKey, group *string, err error) {
	if len(key) < 2 {
		return nil, nil, fmt.Errorf("%w: key of %d bytes", ErrRecord, len(key))
	}
	switch v := int16(binary.BigEndian.Uint16(key)); v {
	case 0, keyOffsetCommit:
		var k kmsg.OffsetCommitKey
		if err := k.ReadFrom(key); err != nil {
			return nil, nil, fmt.Errorf("%w: offset commit key: %w", ErrRecord, err)
		}
		return &OffsetKey{k.Group, k.Topic, k.Partition}, nil, nil
	case keyGroupMetadata:
		var k kmsg.GroupMetadataKey
		if err := k.ReadFrom(key); err != nil {
			return nil, nil, fmt.Errorf("%w: group metadata key: %w", ErrRecord, err)
		}
		return nil, &k.Group, nil
	default:
		if v < 0 {
			return nil, nil, fmt.Errorf("%w: key version %d", ErrRecord, v)
		}
		return nil, nil, nil
	}
}

// checkVersion reads the version that a value starts with.
func checkVersion(what string, value []byte, max int16) error {
	if len(value) < 2 {
		return fmt.Errorf("%w: %s of %d bytes", ErrRecord, what, len(value))
	}
	if v := int16(binary.BigEndian.Uint16(value)); v < 0 || v > max {
		return fmt.Errorf("%w: %s version %d", ErrRecord, what, v)
	}
	return nil
}

// ParseOffset reads an OffsetCommitValue of any version.
func ParseOffset(value []byte) (Offset, error) {
	if err := checkVersion("offset commit", value, valueOffsetCommitTopicID); err != nil {
		return Offset{}, err
	}
	v := kmsg.NewOffsetCommitValue()
	v.LeaderEpoch, v.ExpireTimestamp = -1, -1
	if err := v.ReadFrom(value); err != nil {
		return Offset{}, fmt.Errorf("%w: offset commit: %w", ErrRecord, err)
	}
	o := Offset{v.Offset, v.LeaderEpoch, v.Metadata, v.CommitTimestamp, v.ExpireTimestamp, v.TopicID}
	if v.Version < 3 {
		o.LeaderEpoch = -1
	}
	if v.Version != 1 {
		o.ExpireTimestampMs = -1
	}
	return o, nil
}

// ParseGroup reads a GroupMetadataValue of any version.
func ParseGroup(value []byte) (*kmsg.GroupMetadataValue, error) {
	if err := checkVersion("group metadata", value, 4); err != nil {
		return nil, err
	}
	v := kmsg.NewGroupMetadataValue()
	if err := v.ReadFrom(value); err != nil {
		return nil, fmt.Errorf("%w: group metadata: %w", ErrRecord, err)
	}
	return &v, nil
}

func offsetKey(k OffsetKey) []byte {
	return (&kmsg.OffsetCommitKey{Version: keyOffsetCommit, Group: k.Group, Topic: k.Topic, Partition: k.Partition}).AppendTo(nil)
}

// offsetRecord writes the version that holds what the offset has.
func offsetRecord(k OffsetKey, o Offset) Record {
	v := kmsg.OffsetCommitValue{
		Version: valueOffsetCommit, Offset: o.Offset, LeaderEpoch: o.LeaderEpoch, Metadata: o.Metadata,
		CommitTimestamp: o.CommitTimestampMs, ExpireTimestamp: o.ExpireTimestampMs, TopicID: o.TopicID,
	}
	switch {
	case o.ExpireTimestampMs >= 0:
		v.Version = valueOffsetCommitExpiry
	case o.TopicID != [16]byte{}:
		v.Version = valueOffsetCommitTopicID
	}
	return Record{offsetKey(k), v.AppendTo(nil)}
}

func offsetTombstone(k OffsetKey) Record { return Record{Key: offsetKey(k)} }

func groupKey(id string) []byte {
	return (&kmsg.GroupMetadataKey{Version: keyGroupMetadata, Group: id}).AppendTo(nil)
}

func groupTombstone(id string) Record { return Record{Key: groupKey(id)} }

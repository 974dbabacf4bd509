package record

import (
	"encoding/binary"
	"fmt"
)

// ControlType is the type of a control record, the second half of its key.
type ControlType int16

// The control types. A reader ignores those it does not know.
const (
	Abort          ControlType = 0
	Commit         ControlType = 1
	LeaderChange   ControlType = 2
	SnapshotHeader ControlType = 3
	SnapshotFooter ControlType = 4
	KRaftVersion   ControlType = 5
	KRaftVoters    ControlType = 6
)

// controlNames is the constant table behind [ControlType.String].
var controlNames = [...]string{
	Abort: "ABORT", Commit: "COMMIT", LeaderChange: "LEADER_CHANGE", SnapshotHeader: "SNAPSHOT_HEADER",
	SnapshotFooter: "SNAPSHOT_FOOTER", KRaftVersion: "KRAFT_VERSION", KRaftVoters: "KRAFT_VOTERS",
}

// String is Kafka's name of the type.
func (t ControlType) String() string {
	if t >= 0 && int(t) < len(controlNames) {
		return controlNames[t]
	}
	return "UNKNOWN"
}

// AppendControlKey appends the key of a control record: version 0 and the type, two bytes each.
func AppendControlKey(dst []byte, t ControlType) []byte {
	dst = binary.BigEndian.AppendUint16(dst, 0)
	return binary.BigEndian.AppendUint16(dst, uint16(t))
}

// ParseControlKey reads the type from a control record's key. Later versions only add to the key.
func ParseControlKey(key []byte) (ControlType, error) {
	if len(key) < 4 {
		return -1, fmt.Errorf("%w: control record key of %d bytes", ErrInvalid, len(key))
	}
	if v := int16(binary.BigEndian.Uint16(key)); v < 0 {
		return -1, fmt.Errorf("%w: control record key version %d", ErrInvalid, v)
	}
	return ControlType(binary.BigEndian.Uint16(key[2:])), nil
}

// EndTxnMarker ends a transaction on a partition.
type EndTxnMarker struct {
	Type             ControlType // Commit or Abort
	CoordinatorEpoch int32
}

// AppendValue appends the value of the marker's record.
func (m EndTxnMarker) AppendValue(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, 0) // version
	return binary.BigEndian.AppendUint32(dst, uint32(m.CoordinatorEpoch))
}

// ParseEndTxnMarker reads a marker from key and value of its record. Another control type is
// ErrInvalid.
func ParseEndTxnMarker(key, value []byte) (EndTxnMarker, error) {
	t, err := ParseControlKey(key)
	if err != nil {
		return EndTxnMarker{}, err
	}
	if t != Commit && t != Abort {
		return EndTxnMarker{}, fmt.Errorf("%w: control type %v(%d) where a transaction marker should be", ErrInvalid, t, int16(t))
	}
	if len(value) < 6 {
		return EndTxnMarker{}, fmt.Errorf("%w: transaction marker of %d bytes", ErrInvalid, len(value))
	}
	if v := int16(binary.BigEndian.Uint16(value)); v < 0 {
		return EndTxnMarker{}, fmt.Errorf("%w: transaction marker version %d", ErrInvalid, v)
	}
	return EndTxnMarker{Type: t, CoordinatorEpoch: int32(binary.BigEndian.Uint32(value[2:]))}, nil
}

// AppendEndTxnBatch appends the control batch with one marker, at offset 0, to be stamped when
// it is appended to a log.
func AppendEndTxnBatch(dst []byte, producerID int64, producerEpoch int16, m EndTxnMarker, nowMs int64) []byte {
	o := NewOptions(0)
	o.ProducerID, o.ProducerEpoch, o.Transactional, o.Control = producerID, producerEpoch, true, true
	return appendControlBatch(dst, o, nowMs, m.Type, m.AppendValue(nil))
}

// ControlValue is a control record of the metadata log.
type ControlValue interface {
	ControlType() ControlType
	AppendValue(dst []byte) []byte
}

// AppendControlBatch appends a control batch of the metadata log: one record for each value, in
// their order, at baseOffset and in leaderEpoch, without producer.
func AppendControlBatch(dst []byte, baseOffset int64, leaderEpoch int32, nowMs int64, values ...ControlValue) ([]byte, error) {
	o := NewOptions(baseOffset)
	o.LeaderEpoch, o.Control = leaderEpoch, true
	b := NewBuilder(o, nil)
	for _, v := range values {
		b.Append(Record{Timestamp: nowMs, Key: AppendControlKey(nil, v.ControlType()), Value: v.AppendValue(nil)})
	}
	return b.Build(dst)
}

func appendControlBatch(dst []byte, o Options, nowMs int64, t ControlType, value []byte) []byte {
	dst, err := AppendBatch(dst, o, nil, Record{Timestamp: nowMs, Key: AppendControlKey(nil, t), Value: value})
	if err != nil {
		panic(fmt.Sprintf("record: a control batch of %d bytes cannot fail: %v", len(value), err))
	}
	return dst
}

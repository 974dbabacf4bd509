package record

import "fmt"

// Codec is how the records of a batch are compressed together.
type Codec int8

// The codecs, numbered as in the attributes of a batch.
const (
	None   Codec = 0
	Gzip   Codec = 1
	Snappy Codec = 2
	Lz4    Codec = 3
	Zstd   Codec = 4
)

// codecNames is the constant table behind [Codec.String] and [ParseCodec].
var codecNames = [...]string{None: "none", Gzip: "gzip", Snappy: "snappy", Lz4: "lz4", Zstd: "zstd"}

// String is Kafka's name of the codec.
func (c Codec) String() string {
	if c.Valid() {
		return codecNames[c]
	}
	return fmt.Sprintf("codec(%d)", int8(c))
}

// Valid reports whether c is one of the five.
func (c Codec) Valid() bool { return c >= None && c <= Zstd }

// ParseCodec reads a value of compression.type: a codec's name or "uncompressed". "producer",
// which keeps what was sent, is not a codec and is ErrCodec.
func ParseCodec(name string) (Codec, error) {
	if name == "uncompressed" {
		return None, nil
	}
	for c, n := range codecNames {
		if n == name {
			return Codec(c), nil
		}
	}
	return None, fmt.Errorf("%w: %q", ErrCodec, name)
}

// TimestampType says whose clock a batch's timestamps come from.
type TimestampType int8

// The timestamp types. Message sets of magic 0 have none.
const (
	NoTimestampType TimestampType = -1
	CreateTime      TimestampType = 0
	LogAppendTime   TimestampType = 1
)

// String is the value of message.timestamp.type.
func (t TimestampType) String() string {
	switch t {
	case CreateTime:
		return "CreateTime"
	case LogAppendTime:
		return "LogAppendTime"
	default:
		return "NoTimestampType"
	}
}

// Attributes is the bit set of a batch.
type Attributes int16

const (
	codecMask        Attributes = 0x07
	timestampTypeBit Attributes = 0x08
	transactionalBit Attributes = 0x10
	controlBit       Attributes = 0x20
	deleteHorizonBit Attributes = 0x40
)

// Codec returns bits 0 to 2; the values 5 to 7 are no codec.
func (a Attributes) Codec() Codec { return Codec(a & codecMask) }

// TimestampType returns bit 3.
func (a Attributes) TimestampType() TimestampType {
	if a&timestampTypeBit != 0 {
		return LogAppendTime
	}
	return CreateTime
}

// IsTransactional returns bit 4.
func (a Attributes) IsTransactional() bool { return a&transactionalBit != 0 }

// IsControl returns bit 5.
func (a Attributes) IsControl() bool { return a&controlBit != 0 }

// HasDeleteHorizon returns bit 6: the base timestamp is a delete horizon (KIP-534).
func (a Attributes) HasDeleteHorizon() bool { return a&deleteHorizonBit != 0 }

func (a Attributes) withTimestampType(t TimestampType) Attributes {
	if t == LogAppendTime {
		return a | timestampTypeBit
	}
	return a &^ timestampTypeBit
}

func (a Attributes) withCodec(c Codec) Attributes { return a&^codecMask | Attributes(c) }

func makeAttributes(c Codec, t TimestampType, transactional, control, deleteHorizon bool) Attributes {
	a := Attributes(0).withCodec(c).withTimestampType(t)
	if transactional {
		a |= transactionalBit
	}
	if control {
		a |= controlBit
	}
	if deleteHorizon {
		a |= deleteHorizonBit
	}
	return a
}

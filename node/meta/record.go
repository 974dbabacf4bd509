package meta

import "fmt"

// Record is one metadata record: a body and the version of its schema that it is written
// in.
type Record struct {
	Version int16
	Body    Body
}

// Body is one of the record types of this package, always as a pointer. It must not be
// changed once it is in an image.
type Body interface {
	// Key is Kafka's number of the record type.
	Key() int16
	// MaxVersion is the newest schema version that this package knows; the oldest is 0.
	MaxVersion() int16
	// walk visits the fields in the order of the schema.
	walk(c *codec)
}

// AppendRecord appends r in its frame to dst.
func AppendRecord(dst []byte, r Record) []byte {
	if r.Version < 0 || r.Version > r.Body.MaxVersion() {
		panic(fmt.Sprintf("meta: version %d of record type %d", r.Version, r.Body.Key()))
	}
	c := codec{buf: dst, version: r.Version}
	c.uvarint(FrameVersion)
	c.uvarint(uint64(r.Body.Key()))
	c.uvarint(uint64(r.Version))
	r.Body.walk(&c)
	return c.buf
}

// ParseRecord decodes a framed record. The error is ErrUnknownRecord or ErrCorruptRecord.
func ParseRecord(b []byte) (Record, error) {
	c := codec{buf: b, decoding: true}
	frame, key, version := c.uvarint(0), c.uvarint(0), c.uvarint(0)
	if c.err != nil {
		return Record{}, c.err
	}
	if frame != FrameVersion {
		return Record{}, fmt.Errorf("%w: frame version %d", ErrUnknownRecord, frame)
	}
	body := newBody(key)
	if body == nil {
		return Record{}, fmt.Errorf("%w: type %d version %d", ErrUnknownRecord, key, version)
	}
	if version > uint64(body.MaxVersion()) {
		return Record{}, fmt.Errorf("%w: %s version %d, newest known is %d", ErrUnknownRecord, Name(body), version, body.MaxVersion())
	}
	c.version = int16(version)
	body.walk(&c)
	if c.err == nil && c.pos != len(b) {
		c.fail("bytes left over")
	}
	if c.err != nil {
		return Record{}, fmt.Errorf("%s version %d: %w", Name(body), version, c.err)
	}
	return Record{Version: c.version, Body: body}, nil
}

// Name is the schema's name of the record type.
func Name(b Body) string { return fmt.Sprintf("%T", b)[len("*meta."):] }

// newBody returns an empty body with the schema's defaults, or nil for an unknown type.
func newBody(key uint64) Body {
	switch key {
	case 0:
		return &RegisterBrokerRecord{Fenced: true}
	case 1:
		return &UnregisterBrokerRecord{}
	case 2:
		return &TopicRecord{}
	case 3:
		return &PartitionRecord{}
	case 4:
		return &ConfigRecord{}
	case 5:
		return NewPartitionChange(UUID{}, -1)
	case 7:
		return &FenceBrokerRecord{}
	case 8:
		return &UnfenceBrokerRecord{}
	case 9:
		return &RemoveTopicRecord{}
	case 10:
		return &DelegationTokenRecord{}
	case 11:
		return &UserScramCredentialRecord{}
	case 12:
		return &FeatureLevelRecord{}
	case 14:
		return &ClientQuotaRecord{}
	case 15:
		return &ProducerIdsRecord{BrokerEpoch: -1}
	case 17:
		return &BrokerRegistrationChangeRecord{}
	case 18:
		return &AccessControlEntryRecord{}
	case 19:
		return &RemoveAccessControlEntryRecord{}
	case 20:
		return &NoOpRecord{}
	case 21:
		return &ZkMigrationStateRecord{}
	case 22:
		return &RemoveUserScramCredentialRecord{}
	case 23:
		return &BeginTransactionRecord{}
	case 24:
		return &EndTransactionRecord{}
	case 25:
		return &AbortTransactionRecord{}
	case 26:
		return &RemoveDelegationTokenRecord{}
	case 27:
		return &RegisterControllerRecord{}
	case 28:
		return &ClearElrRecord{}
	}
	return nil
}

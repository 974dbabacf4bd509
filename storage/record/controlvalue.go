package record

import (
	"encoding/binary"
	"fmt"
)

// The values of the metadata log's control records. All are flexible: counts and lengths are
// unsigned varints plus one, and every struct ends with its tagged fields, of which none are
// defined; unknown ones are passed over.

// LeaderChangeValue opens an epoch of the metadata log.
type LeaderChangeValue struct {
	Version        int16 // 0; 1 has directory ids
	LeaderID       int32
	Voters         []LeaderChangeVoter
	GrantingVoters []LeaderChangeVoter
}

// LeaderChangeVoter is a voter as a [LeaderChangeValue] names it.
type LeaderChangeVoter struct {
	ID          int32
	DirectoryID [16]byte // version 1
}

// SnapshotHeaderValue opens a metadata snapshot.
type SnapshotHeaderValue struct {
	Version                   int16
	LastContainedLogTimestamp int64 // ms
}

// SnapshotFooterValue closes a metadata snapshot; one without it is incomplete.
type SnapshotFooterValue struct{ Version int16 }

// KRaftVersionValue sets the finalized kraft.version (KIP-853).
type KRaftVersionValue struct {
	Version      int16
	KRaftVersion int16
}

// VotersValue is the set of voters (KIP-853).
type VotersValue struct {
	Version int16
	Voters  []Voter
}

// Voter is one voter of a [VotersValue].
type Voter struct {
	ID              int32
	DirectoryID     [16]byte
	Endpoints       []VoterEndpoint
	MinKRaftVersion int16
	MaxKRaftVersion int16
}

// VoterEndpoint is where a voter listens; Name is the listener's.
type VoterEndpoint struct {
	Name string
	Host string
	Port uint16
}

// ControlType implements [ControlValue].
func (LeaderChangeValue) ControlType() ControlType { return LeaderChange }

// ControlType implements [ControlValue].
func (SnapshotHeaderValue) ControlType() ControlType { return SnapshotHeader }

// ControlType implements [ControlValue].
func (SnapshotFooterValue) ControlType() ControlType { return SnapshotFooter }

// ControlType implements [ControlValue].
func (KRaftVersionValue) ControlType() ControlType { return KRaftVersion }

// ControlType implements [ControlValue].
func (VotersValue) ControlType() ControlType { return KRaftVoters }

// AppendValue implements [ControlValue].
func (v LeaderChangeValue) AppendValue(dst []byte) []byte {
	be := binary.BigEndian
	dst = be.AppendUint16(dst, uint16(v.Version))
	dst = be.AppendUint32(dst, uint32(v.LeaderID))
	for _, voters := range [][]LeaderChangeVoter{v.Voters, v.GrantingVoters} {
		dst = appendUvarint(dst, uint64(len(voters)+1))
		for _, x := range voters {
			dst = be.AppendUint32(dst, uint32(x.ID))
			if v.Version >= 1 {
				dst = append(dst, x.DirectoryID[:]...)
			}
			dst = append(dst, 0)
		}
	}
	return append(dst, 0)
}

// AppendValue implements [ControlValue].
func (v SnapshotHeaderValue) AppendValue(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(v.Version))
	dst = binary.BigEndian.AppendUint64(dst, uint64(v.LastContainedLogTimestamp))
	return append(dst, 0)
}

// AppendValue implements [ControlValue].
func (v SnapshotFooterValue) AppendValue(dst []byte) []byte {
	return append(binary.BigEndian.AppendUint16(dst, uint16(v.Version)), 0)
}

// AppendValue implements [ControlValue].
func (v KRaftVersionValue) AppendValue(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(v.Version))
	dst = binary.BigEndian.AppendUint16(dst, uint16(v.KRaftVersion))
	return append(dst, 0)
}

// AppendValue implements [ControlValue].
func (v VotersValue) AppendValue(dst []byte) []byte {
	be := binary.BigEndian
	dst = be.AppendUint16(dst, uint16(v.Version))
	dst = appendUvarint(dst, uint64(len(v.Voters)+1))
	for i := range v.Voters {
		x := &v.Voters[i]
		dst = be.AppendUint32(dst, uint32(x.ID))
		dst = append(dst, x.DirectoryID[:]...)
		dst = appendUvarint(dst, uint64(len(x.Endpoints)+1))
		for _, e := range x.Endpoints {
			dst = appendCompactString(dst, e.Name)
			dst = appendCompactString(dst, e.Host)
			dst = be.AppendUint16(dst, e.Port)
			dst = append(dst, 0)
		}
		dst = be.AppendUint16(dst, uint16(x.MinKRaftVersion))
		dst = be.AppendUint16(dst, uint16(x.MaxKRaftVersion))
		dst = append(dst, 0, 0) // tags of the feature range, of the voter
	}
	return append(dst, 0)
}

func appendCompactString(dst []byte, s string) []byte {
	return append(appendUvarint(dst, uint64(len(s)+1)), s...)
}

// ParseControlValue decodes the value of a metadata control record of type t. Transaction
// markers and unknown types are ErrInvalid.
func ParseControlValue(t ControlType, value []byte) (ControlValue, error) {
	r := fieldReader{b: value}
	var v ControlValue
	switch t {
	case LeaderChange:
		v = r.leaderChange()
	case SnapshotHeader:
		v = SnapshotHeaderValue{Version: r.int16(), LastContainedLogTimestamp: r.int64()}
	case SnapshotFooter:
		v = SnapshotFooterValue{Version: r.int16()}
	case KRaftVersion:
		v = KRaftVersionValue{Version: r.int16(), KRaftVersion: r.int16()}
	case KRaftVoters:
		v = r.voters()
	default:
		return nil, fmt.Errorf("%w: control type %v(%d) has no value of the metadata log", ErrInvalid, t, int16(t))
	}
	r.tags()
	if r.bad {
		return nil, fmt.Errorf("%w: %v value of %d bytes is malformed", ErrInvalid, t, len(value))
	}
	return v, nil
}

func (r *fieldReader) leaderChange() LeaderChangeValue {
	v := LeaderChangeValue{Version: r.int16(), LeaderID: r.int32()}
	size := 5
	if v.Version >= 1 {
		size += 16
	}
	for _, voters := range []*[]LeaderChangeVoter{&v.Voters, &v.GrantingVoters} {
		for range r.count(size) {
			x := LeaderChangeVoter{ID: r.int32()}
			if v.Version >= 1 {
				copy(x.DirectoryID[:], r.take(16))
			}
			r.tags()
			*voters = append(*voters, x)
		}
	}
	return v
}

func (r *fieldReader) voters() VotersValue {
	v := VotersValue{Version: r.int16()}
	for range r.count(27) {
		x := Voter{ID: r.int32()}
		copy(x.DirectoryID[:], r.take(16))
		for range r.count(5) {
			x.Endpoints = append(x.Endpoints, VoterEndpoint{Name: r.string(), Host: r.string(), Port: uint16(r.int16())})
			r.tags()
		}
		x.MinKRaftVersion, x.MaxKRaftVersion = r.int16(), r.int16()
		r.tags()
		r.tags()
		v.Voters = append(v.Voters, x)
	}
	return v
}

// fieldReader reads flexible fields. Past a failure it returns zeros, and bad stays set.
type fieldReader struct {
	b   []byte
	bad bool
}

func (r *fieldReader) take(n int) []byte {
	if r.bad || n < 0 || n > len(r.b) {
		r.bad = true
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *fieldReader) int16() int16 {
	if b := r.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *fieldReader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *fieldReader) int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *fieldReader) uvarint() int {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || n > 5 || v > 1<<31-1 {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return int(v)
}

// count reads the length of an array whose elements take size bytes at least.
func (r *fieldReader) count(size int) int {
	n := r.uvarint() - 1
	if n < 0 || n > len(r.b)/size {
		r.bad = true
		return 0
	}
	return n
}

func (r *fieldReader) string() string { return string(r.take(r.uvarint() - 1)) }

func (r *fieldReader) tags() {
	for range min(r.uvarint(), len(r.b)) {
		r.uvarint()
		r.take(r.uvarint())
	}
}

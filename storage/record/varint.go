package record

import "math"

// Zigzag varints as in Kafka's records: up to 5 bytes for 32 bits, up to 10 for 64. A padded
// encoding is accepted, as Kafka accepts it; one that does not end in time or overflows is not.

// varint decodes a 32-bit zigzag varint. n is 0 if b does not begin with one.
func varint(b []byte) (v int32, n int) {
	if len(b) > 0 && b[0] < 0x80 {
		return int32(b[0]>>1) ^ -int32(b[0]&1), 1
	}
	return varintLong(b)
}

func varintLong(b []byte) (int32, int) {
	var u uint64
	for i := 0; i < len(b) && i < 5; i++ {
		u |= uint64(b[i]&0x7f) << (7 * i)
		if b[i] < 0x80 {
			if u > math.MaxUint32 {
				return 0, 0
			}
			return unzigzag32(uint32(u)), i + 1
		}
	}
	return 0, 0
}

// varlong decodes a 64-bit zigzag varint. n is 0 if b does not begin with one.
func varlong(b []byte) (v int64, n int) {
	if len(b) > 0 && b[0] < 0x80 {
		return int64(b[0]>>1) ^ -int64(b[0]&1), 1
	}
	return varlongLong(b)
}

func varlongLong(b []byte) (int64, int) {
	var u uint64
	for i := 0; i < len(b) && i < 10; i++ {
		if i == 9 && b[i] > 1 {
			return 0, 0
		}
		u |= uint64(b[i]&0x7f) << (7 * i)
		if b[i] < 0x80 {
			return unzigzag64(u), i + 1
		}
	}
	return 0, 0
}

func unzigzag32(u uint32) int32 { return int32(u>>1) ^ -int32(u&1) }
func unzigzag64(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

func appendVarint(dst []byte, v int32) []byte {
	return appendUvarint(dst, uint64(uint32(v<<1)^uint32(v>>31)))
}

func appendVarlong(dst []byte, v int64) []byte {
	return appendUvarint(dst, uint64(v<<1)^uint64(v>>63))
}

func appendUvarint(dst []byte, u uint64) []byte {
	for u >= 0x80 {
		dst = append(dst, byte(u)|0x80)
		u >>= 7
	}
	return append(dst, byte(u))
}

// varintSize is how many bytes appendVarint writes.
func varintSize(v int32) int { return len(appendVarint(make([]byte, 0, 5), v)) }

// varlongSize is how many bytes appendVarlong writes.
func varlongSize(v int64) int { return len(appendVarlong(make([]byte, 0, 10), v)) }

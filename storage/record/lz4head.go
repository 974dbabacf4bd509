package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/bits"
)

// Kafka's first clients computed the checksum of the LZ4 frame header over the frame's magic too
// (KAFKA-3160). Message sets of magic 0 carry that wrong byte; readers must not look at it. We
// put the right byte in its place, and let the decoder check it.

const (
	lz4Magic        = 0x184D2204
	lz4HeadMax      = 4 + 2 + 8 + 4 + 1 // magic, FLG, BD, content size, dictionary, checksum
	lz4FlagAlone    = 1 << 5            // blocks do not depend on the ones before
	lz4FlagSize     = 1 << 3
	lz4FlagDictID   = 1 << 0
	lz4MinHeadBytes = 7
)

var errLz4Frame = errors.New("not an LZ4 frame")

// Kafka's consumers in Java cannot read blocks that depend on the ones before. A broker that
// takes them from a producer holds a partition that nobody in Java gets past.
var errLz4Dependent = errors.New("an LZ4 frame of dependent blocks")

// lz4Head reads a frame whose header checksum has been mended.
type lz4Head struct {
	head [lz4HeadMax]byte
	left []byte
	rest *bytes.Reader
}

func (h *lz4Head) reset(src []byte, magic int8, rest *bytes.Reader) error {
	h.left, h.rest = nil, rest
	if len(src) < lz4MinHeadBytes || binary.LittleEndian.Uint32(src) != lz4Magic {
		return errLz4Frame
	}
	if src[4]&lz4FlagAlone == 0 {
		return errLz4Dependent
	}
	if magic >= 1 {
		return nil
	}
	size := lz4MinHeadBytes
	if src[4]&lz4FlagSize != 0 {
		size += 8
	}
	if src[4]&lz4FlagDictID != 0 {
		size += 4
	}
	if len(src) < size {
		return io.ErrUnexpectedEOF
	}
	copy(h.head[:], src[:size])
	h.head[size-1] = lz4HeadChecksum(h.head[4 : size-1])
	h.left = h.head[:size]
	_, err := rest.Seek(int64(size), io.SeekStart)
	return err
}

// Read implements io.Reader.
func (h *lz4Head) Read(p []byte) (int, error) {
	if len(h.left) > 0 {
		n := copy(p, h.left)
		h.left = h.left[n:]
		return n, nil
	}
	return h.rest.Read(p)
}

// lz4HeadChecksum is the second byte of XXH32 with seed 0, for the fewer than 16 bytes that a
// frame descriptor has.
func lz4HeadChecksum(b []byte) byte {
	const (
		p1 = 2654435761
		p2 = 2246822519
		p3 = 3266489917
		p4 = 668265263
		p5 = 374761393
	)
	h := uint32(p5) + uint32(len(b))
	for ; len(b) >= 4; b = b[4:] {
		h = bits.RotateLeft32(h+binary.LittleEndian.Uint32(b)*p3, 17) * p4
	}
	for _, c := range b {
		h = bits.RotateLeft32(h+uint32(c)*p5, 11) * p1
	}
	h ^= h >> 15
	h *= p2
	h ^= h >> 13
	h *= p3
	h ^= h >> 16
	return byte(h >> 8)
}

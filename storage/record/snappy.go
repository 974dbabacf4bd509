package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/snappy"
)

// Snappy comes in two shapes, told apart by the first eight bytes. The Java clients write
// xerial's framing: a header of 16 bytes (magic, version, lowest compatible version), then
// blocks, each behind its length in 4 bytes, big endian. Others write one bare block. Both
// inflate a block at a time, so a bare block has to fit in memory; its length is bounded.

const (
	xerialMagic      = "\x82SNAPPY\x00"
	xerialHeaderSize = 16
)

var errSnappyBlock = errors.New("block length out of bounds")

// snappyBlocks yields the inflated blocks of one batch, in a buffer that it reuses.
type snappyBlocks struct {
	src    []byte
	block  []byte
	max    int
	framed bool
}

func (s *snappyBlocks) reset(src []byte, max int) {
	s.src, s.max = src, max
	s.framed = len(src) >= xerialHeaderSize && string(src[:len(xerialMagic)]) == xerialMagic
	if s.framed {
		s.src = src[xerialHeaderSize:]
	}
}

// next inflates the next block, of at most left bytes. io.EOF at the end.
func (s *snappyBlocks) next(left int64) ([]byte, error) {
	chunk, err := s.chunk()
	if err != nil {
		return nil, err
	}
	n, err := snappy.DecodedLen(chunk)
	if err != nil {
		return nil, err
	}
	if int64(n) > left {
		return nil, fmt.Errorf("%w: a snappy block of %d bytes", ErrTooLarge, n)
	}
	// Three bytes of snappy make at most 64: a block that claims more lies.
	if n > s.max || n > 22*len(chunk) {
		return nil, fmt.Errorf("%w: %d", errSnappyBlock, n)
	}
	s.block, err = snappy.DecodeStrict(s.block[:cap(s.block)], chunk)
	return s.block, err
}

func (s *snappyBlocks) chunk() ([]byte, error) {
	if len(s.src) == 0 {
		return nil, io.EOF
	}
	if !s.framed {
		chunk := s.src
		s.src = nil
		return chunk, nil
	}
	// Streams may be concatenated: their header's first four bytes are no length.
	for len(s.src) >= xerialHeaderSize && string(s.src[:len(xerialMagic)]) == xerialMagic {
		s.src = s.src[xerialHeaderSize:]
	}
	if len(s.src) < 4 {
		return nil, io.ErrUnexpectedEOF
	}
	n := int(int32(binary.BigEndian.Uint32(s.src)))
	if n <= 0 || n > len(s.src)-4 {
		return nil, fmt.Errorf("%w: %d of %d left", errSnappyBlock, n, len(s.src)-4)
	}
	chunk := s.src[4 : 4+n]
	s.src = s.src[4+n:]
	return chunk, nil
}

package conn

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrTags: the tagged fields of a header are malformed, or too many.
var ErrTags = errors.New("malformed tagged fields")

// tagsMax is how many tagged fields a header may have; none is defined.
const tagsMax = 64

// SkipTags skips the tagged fields of a request's or a response's header, a count, then
// number, size and bytes of each, and returns what is behind them.
func SkipTags(b []byte) ([]byte, error) {
	count, b, err := uvarint(b)
	if err != nil {
		return nil, err
	}
	if count > tagsMax {
		return nil, fmt.Errorf("%w: %d tagged fields", ErrTags, count)
	}
	for range count {
		var size uint64
		if _, b, err = uvarint(b); err != nil {
			return nil, err
		}
		if size, b, err = uvarint(b); err != nil {
			return nil, err
		}
		if size > uint64(len(b)) {
			return nil, fmt.Errorf("%w: tagged field of %d bytes, %d left", ErrTags, size, len(b))
		}
		b = b[size:]
	}
	return b, nil
}

func uvarint(b []byte) (uint64, []byte, error) {
	v, n := binary.Uvarint(b)
	if n <= 0 || n > 5 {
		return 0, nil, fmt.Errorf("%w: bad number", ErrTags)
	}
	return v, b[n:], nil
}

package record

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// TestDependentLz4BlocksAreRefused: a sound frame, its header checksum too, of the one kind that
// Java's clients do not read; lz4js makes it.
func TestDependentLz4BlocksAreRefused(t *testing.T) {
	good, err := new(Compressor).compress(nil, Lz4, 6, []byte(strings.Repeat("a record ", 1000)))
	if err != nil {
		t.Fatal(err)
	}
	var d Decompressor
	if err := d.open(Lz4, 2, good, 0); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, d.reader); n != 9000 || err != nil {
		t.Fatalf("%d bytes, %v", n, err)
	}
	good[4] &^= lz4FlagAlone
	good[6] = lz4HeadChecksum(good[4:6])
	if err := d.open(Lz4, 2, good, 0); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), errLz4Dependent.Error()) {
		t.Errorf("%v", err)
	}
}

package checkpoint

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

// fuzz feeds a parser. What it accepts is written and read back as the same value, and
// writing that again gives the same bytes; what it refuses is a Damaged.
func fuzz(f *testing.F, name string) {
	var fm format
	for _, x := range formats {
		if x.name == name {
			fm = x
		}
	}
	for _, g := range fm.golden {
		b := golden(f, g)
		f.Add(b)
		f.Add(b[:len(b)/2])
		f.Add(append(b[:len(b):len(b)], 0))
		f.Add(bytes.ReplaceAll(b, []byte("1"), []byte("-9")))
	}
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := fm.parse(b)
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Fatalf("%T is not a Damaged: %v", err, err)
			}
			return
		}
		text := fm.encode(v)
		w, err := fm.parse(text)
		if err != nil {
			t.Fatalf("%q was accepted as %+v, which is written as %q: %v", b, v, text, err)
		}
		if len(text) > 0 && !equal(v, w) {
			t.Fatalf("%+v comes back as %+v", v, w)
		}
		if again := fm.encode(w); !bytes.Equal(again, text) {
			t.Fatalf("%q is written again as %q", text, again)
		}
	})
}

// equal takes a nil list for an empty one.
func equal(a, b any) bool {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	if x.Kind() == reflect.Slice && x.Len() == 0 && y.Len() == 0 {
		return true
	}
	return reflect.DeepEqual(a, b)
}

func FuzzOffsets(f *testing.F)           { fuzz(f, "offsets") }
func FuzzEpochs(f *testing.F)            { fuzz(f, "epochs") }
func FuzzPartitionMetadata(f *testing.F) { fuzz(f, "partition metadata") }
func FuzzMetaProperties(f *testing.F)    { fuzz(f, "meta properties") }
func FuzzCleanShutdown(f *testing.F)     { fuzz(f, "clean shutdown") }
func FuzzQuorumState(f *testing.F)       { fuzz(f, "quorum state") }

package api

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/node/api/apitest"
	"seedlog/node/conn"
)

// lies are bodies of about size bytes that begin like a real one and then, wherever a count
// could stand, claim that all the rest is elements, each as small as it can get.
func lies(body []byte, flexible bool, size int, yield func([]byte)) {
	for at := range body {
		for _, element := range []int{1, 2, 3, 4, 6, 8, 10, 13, 18, 22} {
			for _, filler := range []byte{0, 1, 2} {
				left := size - at
				b := append(make([]byte, 0, size+8), body[:at]...)
				if flexible {
					b = binary.AppendUvarint(b, uint64(left/element+1))
				} else {
					b = binary.BigEndian.AppendUint32(b, uint32(left/element))
				}
				yield(append(b, bytes.Repeat([]byte{filler}, left)...))
			}
		}
	}
}

// A frame that lies about its counts, or really is full of tiny elements, is decoded in the
// memory that is reserved for it.
func TestDecodingTakesNoMoreThanIsReserved(t *testing.T) {
	const size = 4 << 10
	for _, e := range table() {
		if e.raw != nil {
			continue
		}
		worst, at := 0.0, int16(0)
		for version := e.min; version <= e.max; version++ {
			if version > e.min+1 && version < e.max && version != e.flexible {
				continue // the same arrays
			}
			body := apitest.Filled(e.key, version, 1).AppendTo(nil)
			lies(body, version >= e.flexible, size, func(b []byte) {
				var before, after runtime.MemStats
				r := conn.Request{Key: e.key, Version: version, Body: b}
				runtime.ReadMemStats(&before)
				held, err := e.cost(&r)
				if err == nil {
					req := kmsg.RequestForKey(e.key)
					req.SetVersion(version)
					_ = req.ReadFrom(b)
				}
				runtime.ReadMemStats(&after)
				if ratio := float64(after.TotalAlloc-before.TotalAlloc) / float64(held); ratio > worst {
					worst, at = ratio, version
				}
			})
		}
		t.Logf("%s %d takes %.2f of what is reserved", kmsg.NameForKey(e.key), at, worst)
		if worst > 1 {
			t.Errorf("%s %d takes %.2f times what is reserved", kmsg.NameForKey(e.key), at, worst)
		}
	}
}

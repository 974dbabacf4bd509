package api

import (
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
)

// unsafeText is b as a string without a copy, for look-ups only: b lies in a frame.
func unsafeText(b []byte) string { return kbin.UnsafeString(b) }

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// textMax is the longest string of the protocol, in bytes. What is not compact has two bytes for
// its length; a compact string could be longer, and would then fit into no record and no answer
// of an older version.
const textMax = 1<<15 - 1

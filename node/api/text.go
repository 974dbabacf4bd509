package api

import (
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
)

// unsafeText is b as a string without a copy, for look-ups only: b lies in a frame.
func unsafeText(b []byte) string { return kbin.UnsafeString(b) }

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

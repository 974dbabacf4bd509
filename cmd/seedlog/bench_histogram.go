package main

import (
	"math/bits"
	"time"
)

// histogram counts durations in buckets that are 1/32 of their power of two wide.
type histogram struct {
	count [64 * 32]int64
	n     int64
	max   time.Duration
}

func (h *histogram) add(d time.Duration) {
	h.count[bucketOf(uint64(d.Microseconds()))]++
	h.n++
	h.max = max(h.max, d)
}

// percentiles are in milliseconds.
func (h *histogram) percentiles() map[string]float64 {
	out := map[string]float64{"max": float64(h.max.Microseconds()) / 1000}
	for name, q := range map[string]float64{"p50": 0.5, "p95": 0.95, "p99": 0.99, "p99.9": 0.999} {
		out[name] = h.quantile(q)
	}
	return out
}

func (h *histogram) quantile(q float64) float64 {
	left := int64(q * float64(h.n))
	for i, n := range h.count {
		if left -= n; left < 0 {
			return float64(bucketStart(i)) / 1000
		}
	}
	return float64(h.max.Microseconds()) / 1000
}

// bucketOf is exact below 32, and then 32 buckets for every power of two.
func bucketOf(v uint64) int {
	if v < 32 {
		return int(v)
	}
	shift := bits.Len64(v) - 6
	return (shift+1)*32 + int(v>>shift) - 32
}

// bucketStart is the least value of a bucket.
func bucketStart(i int) uint64 {
	if i < 32 {
		return uint64(i)
	}
	return uint64(i%32+32) << (i/32 - 1)
}

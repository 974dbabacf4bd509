// Package epoch owns the leader-epoch cache of a log: which leadership began at which
// offset. Followers and leaders find by it where their logs part (KIP-101, KIP-279).
//
// Both columns increase strictly: assigning an entry removes those that it contradicts.
// An entry lives as long as the log has, or may have had, a record of its epoch.
//
// The package does no I/O: package checkpoint owns the file leader-epoch-checkpoint.
package epoch

import (
	"errors"
	"fmt"
	"slices"
)

// ErrDamaged says that stored entries cannot be a cache.
var ErrDamaged = errors.New("leader epochs are damaged")

// None is the epoch and the offset of "unknown".
const None = -1

// Entry says that the leadership Epoch began at the offset Start.
type Entry struct {
	Epoch int32
	Start int64
}

// Cache is the entries of one log in order. The zero Cache is empty.
type Cache struct {
	entries []Entry
}

// Entries is a copy of the entries.
func (c *Cache) Entries() []Entry { return slices.Clone(c.entries) }

// Len is the number of entries.
func (c *Cache) Len() int { return len(c.entries) }

// Latest is the last epoch, or None.
func (c *Cache) Latest() int32 {
	if len(c.entries) == 0 {
		return None
	}
	return c.entries[len(c.entries)-1].Epoch
}

// LatestEntry is the last entry, if any.
func (c *Cache) LatestEntry() (Entry, bool) {
	if len(c.entries) == 0 {
		return Entry{None, None}, false
	}
	return c.entries[len(c.entries)-1], true
}

// Earliest is the first entry, if any.
func (c *Cache) Earliest() (Entry, bool) {
	if len(c.entries) == 0 {
		return Entry{None, None}, false
	}
	return c.entries[0], true
}

// Assign records that epoch began at start and reports whether that changed anything. What
// it contradicts (an epoch or a start not below its own) goes.
func (c *Cache) Assign(epoch int32, start int64) bool {
	if epoch < 0 || start < 0 {
		panic(fmt.Sprintf("epoch: assigning (%d, %d)", epoch, start))
	}
	if last, ok := c.LatestEntry(); ok && last.Epoch == epoch && last.Start <= start {
		return false
	}
	n := len(c.entries)
	for n > 0 && (c.entries[n-1].Epoch >= epoch || c.entries[n-1].Start >= start) {
		n--
	}
	c.entries = append(c.entries[:n], Entry{epoch, start})
	return true
}

// Confirm makes the cache agree with a batch of the epoch that begins at offset, reading a
// log upwards; it reports whether anything changed.
func (c *Cache) Confirm(epoch int32, offset int64) bool {
	if epoch < 0 || c.EpochFor(offset) == epoch {
		return false
	}
	c.TruncateFromEnd(offset)
	if epoch > c.Latest() {
		c.Assign(epoch, offset)
	}
	return true
}

// EpochFor is the epoch of the record at offset, or None.
func (c *Cache) EpochFor(offset int64) int32 {
	for i := len(c.entries) - 1; i >= 0; i-- {
		if c.entries[i].Start <= offset {
			return c.entries[i].Epoch
		}
	}
	return None
}

// EndOffsetFor answers OffsetsForLeaderEpoch: the largest epoch known that is not above
// the one asked for, and the offset where it ended (the log's end for the latest). An epoch
// above the latest, or None, is unknown: (None, None). One below the first ends where the
// first begins.
func (c *Cache) EndOffsetFor(epoch int32, logEnd int64) (int32, int64) {
	if epoch == None || len(c.entries) == 0 || epoch > c.Latest() {
		return None, None
	}
	if epoch == c.Latest() {
		return epoch, logEnd
	}
	// The first entry above epoch exists: the latest is one.
	i, _ := slices.BinarySearchFunc(c.entries, epoch, func(e Entry, want int32) int {
		if e.Epoch <= want {
			return -1
		}
		return 1
	})
	if i == 0 {
		return epoch, c.entries[0].Start
	}
	return c.entries[i-1].Epoch, c.entries[i].Start
}

// TruncateFromEnd removes what begins at or above the log's new end, and reports whether
// anything did.
func (c *Cache) TruncateFromEnd(end int64) bool {
	n := len(c.entries)
	for n > 0 && c.entries[n-1].Start >= end {
		n--
	}
	changed := n < len(c.entries)
	c.entries = c.entries[:n]
	return changed
}

// TruncateFromStart removes what lies below the log's new start; the epoch in force there
// begins there now. It reports whether anything changed.
func (c *Cache) TruncateFromStart(start int64) bool {
	n := 0
	for n < len(c.entries) && c.entries[n].Start <= start {
		n++
	}
	if n == 0 || n == 1 && c.entries[0].Start == start {
		return false
	}
	c.entries = slices.Delete(c.entries, 0, n-1)
	c.entries[0].Start = start
	return true
}

// Clear removes everything.
func (c *Cache) Clear() { c.entries = nil }

// Clone is an independent copy.
func (c *Cache) Clone() Cache { return Cache{slices.Clone(c.entries)} }

// FromEntries is the cache of entries that were stored. Both columns must rise strictly.
func FromEntries(entries []Entry) (Cache, error) {
	last := Entry{None, None}
	for _, e := range entries {
		if e.Epoch <= last.Epoch || e.Start <= last.Start {
			return Cache{}, fmt.Errorf("%w: epoch %d from %d after epoch %d from %d", ErrDamaged, e.Epoch, e.Start, last.Epoch, last.Start)
		}
		last = e
	}
	return Cache{slices.Clone(entries)}, nil
}

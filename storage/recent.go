package storage

// recent remembers where the last batches of a log lie, so that readers at the tail and the
// high watermark need neither index nor disk. Guarded by the log's Mutex.
type recent struct {
	ring [recentBatches]position // offset is the batch's base
	last [recentBatches]int64    // its last offset
	size [recentBatches]int64    // its bytes
	n    int                     // added since the reset
}

const recentBatches = 32

func (r *recent) reset() { r.n = 0 }

func (r *recent) add(p position, last, size int64) {
	i := r.n % recentBatches
	r.ring[i], r.last[i], r.size[i] = p, last, size
	r.n++
}

// find is the batch that offset falls into, or the first one behind it, if that is certain.
func (r *recent) find(offset int64) (position, bool) {
	i := r.index(offset)
	if i < 0 {
		return position{}, false
	}
	return r.ring[i], true
}

// findSized is find, with the batch's bytes.
func (r *recent) findSized(offset int64) (position, int64, bool) {
	i := r.index(offset)
	if i < 0 {
		return position{}, 0, false
	}
	return r.ring[i], r.size[i], true
}

func (r *recent) index(offset int64) int {
	have := min(r.n, recentBatches)
	// The oldest batch bounds what is certain: offset must not lie before it.
	lo, hi := r.n-have, r.n
	if have == 0 || r.ring[lo%recentBatches].offset > offset || r.last[(hi-1)%recentBatches] < offset {
		return -1
	}
	for lo < hi {
		mid := (lo + hi) / 2
		if r.last[mid%recentBatches] < offset {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo % recentBatches
}

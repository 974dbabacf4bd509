package partition

import "seedlog/clock"

// The rate of a throttle is measured over its last windows, each a second, as Kafka's is
// (replication.quota.window.num, replication.quota.window.size.seconds).
const (
	throttleWindows    = 11
	throttleWindowNano = 1_000_000_000
)

// Throttle measures how fast replication runs, to keep it below a rate. The zero Throttle
// is ready for use.
type Throttle struct {
	bytes [throttleWindows]int64
	last  int64 // the newest window
}

// Add counts bytes.
func (q *Throttle) Add(bytes int64, now clock.Instant) {
	q.advance(now)
	q.bytes[q.last%throttleWindows] += bytes
}

// Exceeded tells whether more than bytesPerSecond were replicated of late.
func (q *Throttle) Exceeded(bytesPerSecond int64, now clock.Instant) bool {
	q.advance(now)
	sum := int64(0)
	for _, b := range q.bytes {
		sum += b
	}
	// The newest window is not over: the others are the least time that counts.
	return sum/(throttleWindows-1) > bytesPerSecond
}

// advance forgets the windows that are too old.
func (q *Throttle) advance(now clock.Instant) {
	w := int64(now) / throttleWindowNano
	for i := max(q.last+1, w-throttleWindows+1); i <= w; i++ {
		q.bytes[i%throttleWindows] = 0
	}
	q.last = max(q.last, w)
}

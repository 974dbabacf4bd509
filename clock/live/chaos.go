package live

import (
	"runtime"
	"sync/atomic"
	"time"

	"seedlog/clock/task"
)

// chaos yields at random places. The draws are seeded, but which task gets which draw is
// the machine's choice: this widens races, it does not replay them.
type chaos struct {
	seed  uint64
	draws atomic.Uint64
}

// Locking yields and has the lock taken.
func (c *chaos) Locking(*task.Mutex) bool {
	c.Explore()
	return true
}

// Unlocking has the lock released.
func (c *chaos) Unlocking(*task.Mutex) bool { return true }

// Explore yields one time in four, and one time in 1,024 sleeps for some microseconds.
func (c *chaos) Explore() {
	// splitmix64
	x := c.seed + c.draws.Add(1)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	switch {
	case x%1024 == 0:
		time.Sleep(time.Duration(x>>32%64) * time.Microsecond)
	case x%4 == 0:
		runtime.Gosched()
	}
}

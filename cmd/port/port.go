// Package port finds ports for brokers that this machine's tools start.
//
// Such a port must still be free when its broker binds it, and again each time the broker
// comes back from a crash. So it lies below the range from which the kernel takes ports for
// outgoing connections, and no port is named twice by one process:
//
//	0        10000 ------------------------ 32768 ------------- 61000
//	         named in a row, from a place     the kernel's
//	         drawn at random, then around
package port

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

const (
	first = 10_000
	after = 32_768
)

// ErrNone: all ports are in use.
var ErrNone = errors.New("no free ports in a row")

// next is where the search goes on.
var next = struct {
	sync.Mutex
	port int
}{port: first + rand.IntN(after-first)}

// Free is the first of n ports in a row of 127.0.0.1 that nobody listens on.
func Free(n int) (int, error) {
	next.Lock()
	defer next.Unlock()
	for tries := after - first; tries >= n; tries-- {
		at := next.port
		if at+n > after {
			at = first
		}
		used := firstUsed(at, n)
		if used < 0 {
			next.port = at + n
			return at, nil
		}
		next.port = used + 1
	}
	return 0, fmt.Errorf("%w: %d below %d", ErrNone, n, after)
}

// firstUsed is the first of n ports from one on that cannot be listened on, or -1.
func firstUsed(from, n int) int {
	for p := from; p < from+n; p++ {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p))
		if err != nil {
			return p
		}
		l.Close()
	}
	return -1
}

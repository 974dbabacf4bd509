// Package task breaks every rule of a package of tasks, each on a line that says so.
package task

import (
	"context"           // want `imports context, which is not on the allow-list; instead: t *task.T`
	crand "crypto/rand" // want `imports crypto/rand, which is not on the allow-list; instead: node.Host.Entropy`
	"errors"            //
	"fmt"               //
	"hash/crc32"        //
	"hash/maphash"      // want `instead: hash/crc32`
	"log/slog"          // want `instead: an event of node/event`
	"maps"              //
	"math/rand/v2"      //
	stdnet "net"        // want `instead: seedlog/net`
	"os"                // want `instead: disk.Disk`
	"runtime"           // want `instead: nothing: no finalizers`
	"slices"
	"sync"        // want `instead: task.Mutex`
	"sync/atomic" // want `instead: task.Published`
	"time"
	"unique" // want `instead: comparing strings`
	"weak"   // want `instead: a reference that its owner clears`

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix" // want `imports golang.org/x/sys/unix`

	"seedlog/clock"
	"seedlog/clock/live" // want `a task package must not import clock/live: it comes in through node.Host`
	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/net" // want `must never import seedlog/net: hand out a *disk.Range`
)

var (
	ErrFine = errors.New("an error is fine")
	table   = map[string]int{"a": 1, "b": 2}
	crc     = crc32.MakeTable(crc32.Castagnoli)
	names   = [...]string{"a", "b"}
	funcs   = []func(){func() {}}

	counter int
	cache   = map[string]*int{}        // want `package-level variable cache is or holds a *int`
	mu      task.Mutex                 // want `package-level variable mu is or holds a seedlog/clock/task.Policy`
	pool    = &struct{ free []byte }{} // want `package-level variable pool is`
	current any                        // want `package-level variable current is or holds a any`
	_       disk.Disk
)

func changesGlobals() {
	counter++      // want `changes the package-level variable counter`
	table["c"] = 3 // want `changes the package-level variable table`
	names[0] = "x" // want `changes the package-level variable names`
	_ = &names[1]  // want `changes the package-level variable names`
	clear(table)   // want `changes the package-level variable table`
	counter = 7    // want `changes the package-level variable counter`
	table := 5     // a local one
	table++        //
	_, _ = crc, mu //
	_, _ = pool, table
	_, _ = cache, funcs
}

func goroutines() {
	go changesGlobals()    // want `go statement; instead: task.Group.Go`
	c := make(chan int, 1) // want `channel; instead: task.Queue`
	c <- 1                 // want `channel send`
	<-c                    // want `channel receive`
	for range c {          // want `range over a channel`
	}
	select { // want `select; instead: t.Park`
	default:
	}
	defer func() {
		recover() // want `recover; instead: return an error`
	}()
	println(context.Background()) // want `println; instead: an event`
}

func clocks() {
	_ = time.Now()              // want `time.Now; instead: t.Now() and t.UnixMilli()`
	time.Sleep(time.Second)     // want `time.Sleep; instead: t.Sleep`
	_ = time.After(1)           // want `time.After; instead: t.Park`
	_ = time.NewTimer(1)        // want `time.NewTimer; instead: t.Park`
	_ = time.Since(time.Time{}) // want `time.Since; instead: clock.Instant.Sub` want `time.Time; instead` // want `time.Time; instead: one of Duration`
	var fine time.Duration = 3 * time.Millisecond
	_ = fine
}

func randomness(r *rand.Rand) {
	_ = rand.IntN(3) // want `draws from a global; instead: a method of the *rand.Rand`
	_ = rand.Shuffle // want `draws from a global`
	_ = r.IntN(3)
	_ = rand.New(rand.NewPCG(1, 2))
}

type keyed[M ~map[string]int] struct{ m M }

func (k keyed[M]) each() {
	for range k.m { // want `range over a map`
	}
}

func order(m map[string]int) (sum int) {
	for k := range m { // want `range over a map; instead: slices.Sorted(maps.Keys(m))`
		_ = k
	}
	for _, v := range m { //order: a sum does not depend on it
		sum += v
	}
	for range m { /* // want `range over a map` */ //order:
		sum++
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		_ = k
	}
	_ = slices.Collect(maps.Keys(m))   // want `maps.Keys in the map's order; instead: slices.Sorted(maps.Keys(m))`
	_ = slices.Collect(maps.Values(m)) // want `maps.Values in the map's order`
	maps.DeleteFunc(m, nil)            // want `maps.DeleteFunc; instead: one of Clone`
	return sum
}

func prints(p *int, a, b float64) int {
	fmt.Println("x")         // want `fmt.Println; instead: an event of node/event`
	_ = fmt.Sprintf("%p", p) // want `%p prints a pointer; instead: a name or a number`
	_ = fmt.Errorf("at %d: %w", *p, ErrFine)
	if a < b { // want `a float decides; instead: integers`
		return 1
	}
	_ = int64(a * 2) // want `a float becomes a number that decides; instead: integers`
	if a == b {      //float: shown to people only
		return 2
	}
	const half = 0.5
	_ = half > 0.25
	return 3
}

func codecs() {
	_, _ = zstd.NewReader(nil)                                 // want `zstd.NewReader starts goroutines; instead: pass zstd.WithDecoderConcurrency(1)`
	_, _ = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(4)) // want `zstd.NewWriter starts goroutines; instead: pass zstd.WithEncoderConcurrency(1)`
	_, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
}

type log struct {
	mu   task.Mutex
	gate task.Gate
	f    disk.File
	wait task.Event
	cond bool
}

func (l *log) waitsUnderTheMutex(t *task.T, p []byte) error {
	l.mu.Lock()
	_, err := l.f.WriteAt(t, p, 0) // want `a call that may wait while l.mu is held; instead: unlock before it`
	l.mu.Unlock()
	_, err = l.f.WriteAt(t, p, 0)
	l.gate.Enter(t)
	err = l.f.Sync(t)
	l.gate.Leave(t)
	return err
}

func (l *log) waitsUnderADeferredUnlock(t *task.T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cond {
		l.gate.Enter(t) // want `a call that may wait while l.mu is held`
	}
	t.Park(clock.Never)                  // want `a call that may wait while l.mu is held`
	if l.wait.Wait(t, 0) == task.Woken { // want `a call that may wait while l.mu is held`
		return
	}
	t.Wake()
	t.Go("other", func(t *task.T) { l.f.Sync(t) })
}

func (l *log) unlocksOnEveryWay(t *task.T) error {
	l.mu.Lock()
	if l.cond {
		l.mu.Unlock()
		return l.f.Sync(t)
	}
	switch {
	case l.wait.IsSet():
		l.mu.Unlock()
	default:
		l.mu.Unlock()
	}
	return l.f.Close(t)
}

func (l *log) forgetsOneWay(t *task.T) {
	for range 3 {
		if err := l.f.Sync(t); err != nil { // want `a call that may wait while l.mu is held`
			continue
		}
		l.mu.Lock()
	}
	l.mu.Lock()
	if l.cond {
		l.mu.Unlock()
	}
	l.f.Sync(t) // want `a call that may wait while l.mu is held`
}

var _ = []any{maphash.Hash{}, slog.Info, crand.Int, stdnet.Dial, os.Open, runtime.GC, sync.Once{}, atomic.AddInt32,
	unique.Make[int], weak.Make[int], unix.Open, live.New, net.ErrCut, keyed[map[string]int]{}}

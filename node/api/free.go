package api

import (
	"seedlog/clock/task"
)

// freeMax bounds how many unused objects a list keeps.
const freeMax = 64

// keepParts is the most partitions that a request may have had whose memory is kept.
const keepParts = 1024

// free is a list of objects that are used again.
type free[V any] struct {
	mu   task.Mutex
	list []*V
}

func (f *free[V]) init(rt task.Runtime, class string) { f.mu.Init(rt, class) }

func (f *free[V]) get() *V {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.list)
	if n == 0 {
		return new(V)
	}
	v := f.list[n-1]
	f.list[n-1] = nil
	f.list = f.list[:n-1]
	return v
}

func (f *free[V]) put(v *V) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.list) < freeMax {
		f.list = append(f.list, v)
	}
}

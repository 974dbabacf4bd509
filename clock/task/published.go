package task

import "sync/atomic"

// Published is a pointer that one task publishes and others read without a lock: the
// metadata image, a copy-on-write list. What it points at is never changed after Store.
type Published[V any] struct {
	p      atomic.Pointer[V]
	policy Policy
}

// Init sets the value up with an exploration point of the world.
func (p *Published[V]) Init(rt Runtime, v *V) {
	p.policy = rt.Policy()
	p.p.Store(v)
}

// Load returns what was stored last.
func (p *Published[V]) Load() *V {
	if p.policy != nil {
		p.policy.Explore()
	}
	return p.p.Load()
}

// Store publishes v.
func (p *Published[V]) Store(v *V) {
	p.p.Store(v)
	if p.policy != nil {
		p.policy.Explore()
	}
}

// Int64 is a published number: a high watermark read outside its lock, a counter.
type Int64 struct {
	v atomic.Int64
}

// Load returns the value.
func (i *Int64) Load() int64 { return i.v.Load() }

// Store publishes v.
func (i *Int64) Store(v int64) { i.v.Store(v) }

// Add adds d and returns the sum.
func (i *Int64) Add(d int64) int64 { return i.v.Add(d) }

package task

import "sync"

// Mutex guards memory for a few statements. It must be made by [NewMutex], or set up by
// [Mutex.Init], so that the simulator sees it; it is never held across a call that takes a
// *T. Production pays one nil check over a sync.Mutex.
type Mutex struct {
	mu     sync.Mutex
	policy Policy
	class  string
	ready  bool

	// State belongs to the Policy.
	State MutexState
}

// MutexState is what a Policy remembers of a Mutex: in the simulator, where one task runs
// at a time, this is the whole lock.
type MutexState struct {
	Held    bool
	Owner   *T // nil if held by the world itself
	ClassID int32
}

// NewMutex returns an unlocked Mutex of the class, which is what lock order is recorded
// by: all logs' locks are one class.
func NewMutex(rt Runtime, class string) *Mutex {
	m := new(Mutex)
	m.Init(rt, class)
	return m
}

// Init sets an embedded Mutex up.
func (m *Mutex) Init(rt Runtime, class string) {
	m.policy, m.class, m.ready = rt.Policy(), class, true
}

// Class is the lock-order class.
func (m *Mutex) Class() string { return m.class }

// Lock locks m.
func (m *Mutex) Lock() {
	if m.policy != nil {
		if m.policy.Locking(m) {
			m.mu.Lock()
		}
		return
	}
	if !m.ready {
		panic("task: Mutex used before Init")
	}
	m.mu.Lock()
}

// Unlock unlocks m.
func (m *Mutex) Unlock() {
	if m.policy == nil || m.policy.Unlocking(m) {
		m.mu.Unlock()
	}
}

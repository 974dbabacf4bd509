package task

// Gate is a lock that parks its waiters, first come, first served, and that may be held
// across calls that wait. It orders the writes of one log. Entering is not interrupted by
// stopping: whoever holds a Gate leaves it in bounded time.
type Gate struct {
	mu      Mutex
	holder  *T
	waiters waiters
}

// Init sets an embedded Gate up.
func (g *Gate) Init(rt Runtime, class string) { g.mu.Init(rt, class) }

// NewGate returns a gate that nobody holds.
func NewGate(rt Runtime, class string) *Gate {
	g := new(Gate)
	g.Init(rt, class)
	return g
}

// Enter waits for its turn and holds the gate.
func (g *Gate) Enter(t *T) {
	g.mu.Lock()
	switch g.holder {
	case nil:
		g.holder = t
		g.mu.Unlock()
		return
	case t:
		g.mu.Unlock()
		panic("task: " + t.name + " enters a Gate that it holds: " + g.mu.class)
	}
	g.waiters.add(t)
	for g.holder != t {
		g.mu.Unlock()
		t.ParkHard()
		g.mu.Lock()
	}
	g.mu.Unlock()
}

// TryEnter holds the gate if nobody does.
func (g *Gate) TryEnter(t *T) bool {
	g.mu.Lock()
	ok := g.holder == nil
	if ok {
		g.holder = t
	}
	g.mu.Unlock()
	return ok
}

// Leave hands the gate to the longest waiter.
func (g *Gate) Leave(t *T) {
	g.mu.Lock()
	if g.holder != t {
		g.mu.Unlock()
		panic("task: " + t.name + " leaves a Gate that it does not hold: " + g.mu.class)
	}
	g.holder = g.waiters.head
	g.waiters.wakeOne()
	g.mu.Unlock()
}

// Waiting is the number of tasks that wait for their turn.
func (g *Gate) Waiting() int {
	n := 0
	g.mu.Lock()
	for t := g.waiters.head; t != nil; t = t.next {
		n++
	}
	g.mu.Unlock()
	return n
}

// Held reports whether t holds the gate.
func (g *Gate) Held(t *T) bool {
	g.mu.Lock()
	held := g.holder == t
	g.mu.Unlock()
	return held
}

package task

// Gate is a lock that parks its waiters, first come, first served, and that may be held
// across calls that wait. It orders the writes of one log. Entering is not interrupted by
// stopping: whoever holds a Gate leaves it in bounded time.
type Gate struct {
	mu      Mutex
	holder  *T
	waiters []*T
}

// Init sets an embedded Gate up.
func (g *Gate) Init(rt Runtime, class string) { g.mu.Init(rt, class) }

// Enter waits for its turn and holds the gate.
func (g *Gate) Enter(t *T) {
	g.mu.Lock()
	if g.holder == t {
		g.mu.Unlock()
		panic("task: " + t.name + " enters a Gate that it holds: " + g.mu.class)
	}
	if g.holder == nil {
		g.holder = t
		g.mu.Unlock()
		return
	}
	g.waiters = append(g.waiters, t)
	for g.holder != t {
		g.mu.Unlock()
		t.ParkHard()
		g.mu.Lock()
	}
	g.mu.Unlock()
}

// Leave hands the gate to the longest waiter.
func (g *Gate) Leave(t *T) {
	g.mu.Lock()
	if g.holder != t {
		g.mu.Unlock()
		panic("task: " + t.name + " leaves a Gate that it does not hold: " + g.mu.class)
	}
	var next *T
	if len(g.waiters) > 0 {
		next = g.waiters[0]
		copy(g.waiters, g.waiters[1:])
		g.waiters[len(g.waiters)-1] = nil
		g.waiters = g.waiters[:len(g.waiters)-1]
	}
	g.holder = next
	g.mu.Unlock()
	if next != nil {
		next.Wake()
	}
}

// Held reports whether t holds the gate.
func (g *Gate) Held(t *T) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.holder == t
}

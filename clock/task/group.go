package task

// Group is a set of tasks that are stopped and awaited together. The zero Group is not
// usable; see [NewGroup].
type Group struct {
	rt       Runtime
	name     string
	parent   *Group
	stopping stopFlag

	mu       Mutex
	live     *T // the tasks that have not ended, in start order
	liveTail *T
	n        int
	children []*Group
	waiters  waiters
}

// NewGroup returns an empty group.
func NewGroup(rt Runtime, name string) *Group {
	g := &Group{rt: rt, name: name}
	g.mu.Init(rt, "task.Group")
	return g
}

// Runtime is the world of the group's tasks.
func (g *Group) Runtime() Runtime { return g.rt }

// Name is what dumps call the group.
func (g *Group) Name() string { return g.name }

// Sub returns a new group that stops when g stops. It is awaited on its own. g remembers
// it until it is stopped: stop it when its work is over, even if its tasks have ended.
func (g *Group) Sub(name string) *Group {
	c := NewGroup(g.rt, name)
	c.parent = g
	g.mu.Lock()
	stopping := g.stopping.Load()
	if !stopping {
		g.children = append(g.children, c)
	}
	g.mu.Unlock()
	if stopping {
		c.Stop()
	}
	return c
}

// Go starts fn as a task of the group. A task started in a stopping group runs and sees
// Stopping at its first soft park.
func (g *Group) Go(name string, fn func(t *T)) *T {
	t := &T{rt: g.rt, group: g, name: name, fn: fn}
	// Started under the Mutex, so that whoever finds t in the group can wake it.
	g.mu.Lock()
	t.livePrev = g.liveTail
	if g.liveTail == nil {
		g.live = t
	} else {
		g.liveTail.liveNext = t
	}
	g.liveTail = t
	g.n++
	g.rt.Start(t, run)
	g.mu.Unlock()
	return t
}

func run(t *T) {
	fn := t.fn
	t.fn = nil
	fn(t)
	t.group.ended(t)
}

func (g *Group) ended(t *T) {
	g.mu.Lock()
	if t.livePrev == nil {
		g.live = t.liveNext
	} else {
		t.livePrev.liveNext = t.liveNext
	}
	if t.liveNext == nil {
		g.liveTail = t.livePrev
	} else {
		t.liveNext.livePrev = t.livePrev
	}
	t.livePrev, t.liveNext = nil, nil
	g.n--
	if g.n == 0 {
		g.waiters.wakeAll()
	}
	g.mu.Unlock()
}

// Stop tells every task of the group, and of its sub-groups, to stop: their soft parks
// return Stopping from now on. It does not wait, and stopping twice is nothing.
func (g *Group) Stop() {
	g.mu.Lock()
	if g.stopping.Load() {
		g.mu.Unlock()
		return
	}
	g.stopping.Store(true)
	for t := g.live; t != nil; t = t.liveNext {
		t.Wake()
	}
	children := g.children
	g.children = nil
	g.mu.Unlock()
	for _, c := range children {
		c.Stop()
	}
	if g.parent != nil {
		g.parent.forget(g)
	}
}

func (g *Group) forget(c *Group) {
	g.mu.Lock()
	for i, o := range g.children {
		if o == c {
			last := len(g.children) - 1
			copy(g.children[i:], g.children[i+1:])
			g.children[last] = nil
			g.children = g.children[:last]
			break
		}
	}
	g.mu.Unlock()
}

// Stopping reports whether Stop was called.
func (g *Group) Stopping() bool { return g.stopping.Load() }

// Len is the number of tasks that have not ended.
func (g *Group) Len() int {
	g.mu.Lock()
	n := g.n
	g.mu.Unlock()
	return n
}

// Wait waits until every task of the group itself has ended, whether t's own group stops
// or not. t must not belong to g.
func (g *Group) Wait(t *T) {
	if t.group == g {
		panic("task: " + t.name + " waits for its own group: " + g.name)
	}
	g.mu.Lock()
	for g.n > 0 {
		g.waiters.add(t)
		g.mu.Unlock()
		t.ParkHard()
		g.mu.Lock()
		g.waiters.remove(t)
	}
	g.mu.Unlock()
}

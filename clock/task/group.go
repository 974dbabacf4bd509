package task

// Group is a set of tasks that are stopped and awaited together. The zero Group is not
// usable; see [NewGroup].
type Group struct {
	rt       Runtime
	name     string
	mu       Mutex
	live     []*T // in start order
	children []*Group
	waiters  []*T
	stopping stopFlag
}

// NewGroup returns an empty group.
func NewGroup(rt Runtime, name string) *Group {
	g := &Group{rt: rt, name: name}
	g.mu.Init(rt, "task.Group")
	return g
}

// Runtime is the world of the group's tasks.
func (g *Group) Runtime() Runtime { return g.rt }

// Sub returns a new group that stops when g stops. It is awaited on its own.
func (g *Group) Sub(name string) *Group {
	c := NewGroup(g.rt, name)
	g.mu.Lock()
	g.children = append(g.children, c)
	stopping := g.stopping.Load()
	g.mu.Unlock()
	if stopping {
		c.Stop()
	}
	return c
}

// Go starts fn as a task of the group. A task started in a stopping group runs and sees
// Stopping at its first soft park.
func (g *Group) Go(name string, fn func(t *T)) *T {
	t := &T{rt: g.rt, group: g, name: name}
	g.mu.Lock()
	g.live = append(g.live, t)
	g.mu.Unlock()
	g.rt.Start(t, func(t *T) {
		fn(t)
		g.ended(t)
	})
	return t
}

func (g *Group) ended(t *T) {
	g.mu.Lock()
	for i, o := range g.live {
		if o == t {
			g.live = append(g.live[:i], g.live[i+1:]...)
			break
		}
	}
	var wake []*T
	if len(g.live) == 0 {
		wake, g.waiters = g.waiters, nil
	}
	g.mu.Unlock()
	for _, w := range wake {
		w.Wake()
	}
}

// Stop tells every task of the group, and of its sub-groups, to stop: their soft parks
// return Stopping from now on. It does not wait.
func (g *Group) Stop() {
	g.mu.Lock()
	g.stopping.Store(true)
	live := append([]*T(nil), g.live...)
	children := append([]*Group(nil), g.children...)
	g.mu.Unlock()
	for _, t := range live {
		t.Wake()
	}
	for _, c := range children {
		c.Stop()
	}
}

// Stopping reports whether Stop was called.
func (g *Group) Stopping() bool { return g.stopping.Load() }

// Len is the number of tasks that have not ended.
func (g *Group) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.live)
}

// Wait waits until every task of the group itself has ended. t must not belong to g.
func (g *Group) Wait(t *T) {
	for {
		g.mu.Lock()
		if len(g.live) == 0 {
			g.mu.Unlock()
			return
		}
		g.waiters = append(g.waiters, t)
		g.mu.Unlock()
		t.ParkHard()
	}
}

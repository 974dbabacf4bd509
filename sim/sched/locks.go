package sched

import "seedlog/clock/task"

// lockOrder records, per class of Mutex, which classes were ever locked while it was held.
type lockOrder struct {
	ids   map[string]int32
	names []string // by class, from one
	after [][]bool // after[a][b]: b was locked while a was held
	who   map[[2]int32]string
}

func (o *lockOrder) class(name string) int32 {
	if id, ok := o.ids[name]; ok {
		return id
	}
	if o.ids == nil {
		o.ids, o.who = map[string]int32{}, map[[2]int32]string{}
		o.names = []string{""}
	}
	id := int32(len(o.names))
	o.ids[name] = id
	o.names = append(o.names, name)
	return id
}

func (o *lockOrder) known(a, b int32) bool {
	return int(a) < len(o.after) && int(b) < len(o.after[a]) && o.after[a][b]
}

// add records a→b and returns the cycle that it closes, as class names, or nil.
func (o *lockOrder) add(a, b int32, who string) []int32 {
	for len(o.after) < len(o.names) {
		o.after = append(o.after, nil)
	}
	for len(o.after[a]) < len(o.names) {
		o.after[a] = append(o.after[a], false)
	}
	o.after[a][b] = true
	o.who[[2]int32{a, b}] = who
	return o.path(b, a, make([]bool, len(o.names)))
}

// path finds a way from a to b.
func (o *lockOrder) path(a, b int32, seen []bool) []int32 {
	if a == b {
		return []int32{a}
	}
	seen[a] = true
	if int(a) >= len(o.after) {
		return nil
	}
	for next, yes := range o.after[a] {
		if yes && !seen[next] {
			if rest := o.path(int32(next), b, seen); rest != nil {
				return append([]int32{a}, rest...)
			}
		}
	}
	return nil
}

// inert reports whether locks have no effect here: the incarnation is dead, or the run over.
func (rt *Runtime) inert() bool { return rt.dead || rt.s.failure != nil || rt.s.muted() }

// Locking implements task.Policy.
func (rt *Runtime) Locking(m *task.Mutex) bool {
	if rt.inert() {
		return false
	}
	s := rt.s
	if s.exploreNow() {
		s.preempt()
	}
	var t *task.T
	if s.cur != nil {
		t = s.cur.t
	}
	if m.State.Held {
		s.failHere(HeldMutex, "locks %s, which %s holds", m.Class(), owner(m))
	}
	if m.State.ClassID == 0 {
		m.State.ClassID = s.order.class(m.Class())
	}
	m.State.Held, m.State.Owner = true, t
	if p := s.cur; p != nil {
		for _, h := range p.locks {
			s.checkOrder(p, h, m)
		}
		p.locks = append(p.locks, m)
	}
	return false
}

func (s *Scheduler) checkOrder(p *proc, held, m *task.Mutex) {
	o, a, b := &s.order, held.State.ClassID, m.State.ClassID
	if o.known(a, b) {
		return
	}
	cycle := o.add(a, b, p.name())
	if cycle == nil {
		return
	}
	text := "locks " + m.Class() + " while it holds " + held.Class()
	for i := 1; i < len(cycle); i++ {
		text += "; " + o.who[[2]int32{cycle[i-1], cycle[i]}] + " locked " + o.names[cycle[i]] + " while it held " + o.names[cycle[i-1]]
	}
	s.failHere(LockOrder, "%s", text)
}

// Unlocking implements task.Policy.
func (rt *Runtime) Unlocking(m *task.Mutex) bool {
	if rt.inert() {
		return false
	}
	s := rt.s
	var t *task.T
	if s.cur != nil {
		t = s.cur.t
	}
	if !m.State.Held {
		s.failHere(HeldMutex, "unlocks %s, which is not locked", m.Class())
	}
	if m.State.Owner != t {
		s.failHere(HeldMutex, "unlocks %s, which %s holds", m.Class(), owner(m))
	}
	m.State.Held, m.State.Owner = false, nil
	if p := s.cur; p != nil {
		for i := len(p.locks) - 1; i >= 0; i-- {
			if p.locks[i] == m {
				p.locks = append(p.locks[:i], p.locks[i+1:]...)
				break
			}
		}
	}
	return false
}

// Explore implements task.Policy.
func (rt *Runtime) Explore() {
	if !rt.inert() && rt.s.exploreNow() {
		rt.s.preempt()
	}
}

// preempt lets other tasks run before the current one goes on.
func (s *Scheduler) preempt() {
	p := s.cur
	s.ready(p, p.reason)
	p.yield()
}

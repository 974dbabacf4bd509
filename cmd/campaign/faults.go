package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"seedlog/cmd/campaign/links"
)

// faultPlan draws faults and does them, one decision at a time: everything about processes
// happens in run.
type faultPlan struct {
	r      *clusterRun
	rng    *rand.Rand
	agenda []later
	counts map[string]int
	calm   time.Duration // the longest between two faults
	// single: a fault waits until the nodes have got over the last one.
	single  bool
	changes int // of the network, that still hold
	healing bool
}

// later is something that is to be done at a time.
type later struct {
	at time.Time
	do func() error
}

// fault is a class of faults, with its weight.
type fault struct {
	name   string
	weight int
	do     func() error
}

func newFaultPlan(r *clusterRun) *faultPlan {
	p := &faultPlan{r: r, rng: stream(r.seed, "faults"), counts: make(map[string]int)}
	if p.single = p.rng.IntN(2) == 0; p.single {
		p.calm = 4 * time.Second << p.rng.IntN(2)
	} else {
		p.calm = 6 * time.Second << p.rng.IntN(2)
	}
	return p
}

func (p *faultPlan) classes() []fault {
	all := []fault{
		{"kill", 4, func() error { return p.kill(p.any()) }},
		{"controller-kill", 3, func() error { return p.kill(p.leader()) }},
		{"kill-several", 1, p.killSeveral},
		{"pause", 2, func() error { return p.pause(p.any()) }},
		{"controller-pause", 2, func() error { return p.pause(p.leader()) }},
		{"restart", 3, func() error { return p.restart(p.any()) }},
		{"rolling-restart", 1, p.roll},
	}
	if p.r.rules != nil {
		all = append(all,
			fault{"cut-one-way", 2, func() error { return p.cut(false) }},
			fault{"cut-both-ways", 2, func() error { return p.cut(true) }},
			fault{"isolate", 2, func() error { return p.isolate(p.any()) }},
			fault{"isolate-controller", 2, func() error { return p.isolate(p.leader()) }},
			fault{"delay", 2, p.slow},
		)
	}
	return all
}

// run does faults until the time is over. An error is what no node may do: ending by itself.
func (p *faultPlan) run(duration time.Duration) error {
	all, sum := p.classes(), 0
	for _, f := range all {
		sum += f.weight
	}
	var next func() error
	next = func() error {
		p.after(p.between(300*time.Millisecond, p.calm), next)
		if p.single && p.troubled() {
			return nil
		}
		k := p.rng.IntN(sum)
		for _, f := range all {
			if k -= f.weight; k < 0 {
				p.counts[f.name]++
				return f.do()
			}
		}
		return nil
	}
	p.after(p.between(time.Second, 3*time.Second), next)
	return p.until(time.Now().Add(duration))
}

// troubled reports whether some node is away, or cut off.
func (p *faultPlan) troubled() bool {
	return p.changes > 0 || slices.ContainsFunc(p.r.nodes, func(n *node) bool { return n.state != nodeUp || n.paused })
}

// until does what is on the agenda, and takes what happens, up to a time.
func (p *faultPlan) until(end time.Time) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		slices.SortStableFunc(p.agenda, func(a, b later) int { return a.at.Compare(b.at) })
		wake := end
		if len(p.agenda) > 0 && p.agenda[0].at.Before(end) {
			wake = p.agenda[0].at
		}
		timer.Reset(time.Until(wake))
		select {
		case x := <-p.r.exits:
			if err := p.exited(x); err != nil {
				return err
			}
			continue
		case <-timer.C:
		}
		if len(p.agenda) == 0 || p.agenda[0].at.After(time.Now()) {
			if !time.Now().Before(end) {
				return nil
			}
			continue
		}
		first := p.agenda[0]
		p.agenda = p.agenda[1:]
		if err := first.do(); err != nil {
			return err
		}
	}
}

// exited starts a node again, some time after its process has ended.
func (p *faultPlan) exited(x nodeExit) error {
	if err := x.n.ended(x.err); err != nil {
		return err
	}
	rest := p.between(0, 6*time.Second)
	if p.rng.IntN(3) == 0 {
		rest = 0
	}
	p.r.say("node %d has ended, it comes back in %v", x.n.id, rest)
	p.after(rest, func() error { return p.boot(x.n) })
	return nil
}

func (p *faultPlan) boot(n *node) error {
	if n.state != nodeDown {
		return nil
	}
	p.r.rec.Boot(n.broker)
	p.r.say("node %d starts", n.id)
	if err := n.start(); err != nil {
		return err
	}
	if !p.healing && p.rng.IntN(5) == 0 { // once more, while it recovers
		begun := n.begun
		p.after(p.between(0, 300*time.Millisecond), func() error {
			if n.state == nodeUp && n.begun.Equal(begun) {
				p.counts["kill-in-recovery"]++
				p.r.say("node %d is killed while it recovers", n.id)
				n.kill()
			}
			return nil
		})
	}
	return nil
}

func (p *faultPlan) after(d time.Duration, do func() error) {
	p.agenda = append(p.agenda, later{time.Now().Add(d), do})
}

func (p *faultPlan) between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(p.rng.Int64N(int64(hi-lo)))
}

func (p *faultPlan) any() *node { return p.r.nodes[p.rng.IntN(len(p.r.nodes))] }

// leader is the active controller, as far as the disks say.
func (p *faultPlan) leader() *node {
	if n := controller(p.r.nodes); n != nil {
		return n
	}
	return p.any()
}

func (p *faultPlan) kill(n *node) error {
	if n.state == nodeUp || n.state == nodeStopping {
		p.r.say("node %d is killed%s", n.id, p.role(n))
		n.kill()
	}
	return nil
}

// role says for the report whether a node leads the quorum.
func (p *faultPlan) role(n *node) string {
	if controller(p.r.nodes) == n {
		return ", the active controller"
	}
	return ""
}

func (p *faultPlan) killSeveral() error {
	some := p.rng.Perm(len(p.r.nodes))[:min(len(p.r.nodes), 2+p.rng.IntN(2))]
	for _, i := range some {
		_ = p.kill(p.r.nodes[i])
	}
	return nil
}

func (p *faultPlan) pause(n *node) error {
	if n.state != nodeUp || n.paused {
		return nil
	}
	d := p.between(50*time.Millisecond, 3*time.Second)
	if p.rng.IntN(3) == 0 {
		d = p.between(3*time.Second, 14*time.Second) // beyond its session
	}
	p.r.say("node %d is paused for %v%s", n.id, d, p.role(n))
	n.pause()
	begun := n.begun
	p.after(d, func() error {
		if n.begun.Equal(begun) && n.state == nodeUp {
			n.resume()
			p.r.say("node %d goes on", n.id)
		}
		return nil
	})
	return nil
}

func (p *faultPlan) restart(n *node) error {
	if n.state == nodeUp {
		p.r.say("node %d is asked to stop%s", n.id, p.role(n))
		n.stop()
		begun := n.begun
		// It may wait for a quorum that others, or a cut, keep away.
		p.after(40*time.Second, func() error {
			if n.state == nodeStopping && n.begun.Equal(begun) {
				p.counts["stop-that-was-killed"]++
				p.r.say("node %d does not stop, and is killed", n.id)
				n.kill()
			}
			return nil
		})
	}
	return nil
}

// roll restarts one node after the other.
func (p *faultPlan) roll() error {
	for i, n := range p.r.nodes {
		p.after(time.Duration(i)*p.between(2*time.Second, 5*time.Second), func() error { return p.restart(n) })
	}
	return nil
}

// cut cuts the link between two nodes, one way or both.
func (p *faultPlan) cut(both bool) error {
	n := len(p.r.nodes)
	a := 1 + p.rng.IntN(n)
	b := 1 + (a+p.rng.IntN(n-1))%n
	pairs := [][2]int{{a, b}}
	if both {
		pairs = append(pairs, [2]int{b, a})
	}
	p.change(pairs, links.Rule{Cut: true}, "cut")
	return nil
}

// isolate cuts a node off from the others: what it says, what it hears, or both; clients may
// be among the others.
func (p *faultPlan) isolate(n *node) error {
	how, from := p.rng.IntN(3), 1
	if p.rng.IntN(3) == 0 {
		from = links.Clients
	}
	var pairs [][2]int
	for o := from; o <= len(p.r.nodes); o++ {
		if o == n.id {
			continue
		}
		if how != 0 {
			pairs = append(pairs, [2]int{n.id, o})
		}
		if how != 1 {
			pairs = append(pairs, [2]int{o, n.id})
		}
	}
	p.change(pairs, links.Rule{Cut: true}, "isolated"+p.role(n))
	return nil
}

// slow delays what goes between nodes, or loses some of it.
func (p *faultPlan) slow() error {
	rule := links.Rule{Delay: p.between(5*time.Millisecond, 600*time.Millisecond)}
	if p.rng.IntN(2) == 0 {
		rule.Loss = 1 + p.rng.IntN(200)
	}
	n := p.any()
	var pairs [][2]int
	for o := 0; o <= len(p.r.nodes); o++ {
		if o != n.id && p.rng.IntN(3) > 0 {
			pairs = append(pairs, [2]int{n.id, o})
			if p.rng.IntN(2) == 0 {
				pairs = append(pairs, [2]int{o, n.id})
			}
		}
	}
	p.change(pairs, rule, fmt.Sprintf("delayed by %v, %d of 1,000 packets lost", rule.Delay, rule.Loss))
	return nil
}

// change sets a rule for a while.
func (p *faultPlan) change(pairs [][2]int, rule links.Rule, what string) {
	d := p.between(200*time.Millisecond, 4*time.Second)
	if p.rng.IntN(2) == 0 {
		d = p.between(4*time.Second, 15*time.Second)
	}
	var text []string
	for _, x := range pairs {
		text = append(text, fmt.Sprintf("%s->%s", place(x[0]), place(x[1])))
		p.r.rules.Set(x[0], x[1], rule)
	}
	p.r.say("%s: %s, for %v", strings.Join(text, " "), what, d)
	p.changes++
	p.after(d, func() error {
		p.changes--
		for _, x := range pairs {
			p.r.rules.Set(x[0], x[1], links.Rule{})
		}
		return nil
	})
}

func place(i int) string {
	if i == links.Clients {
		return "clients"
	}
	return fmt.Sprint(i)
}

// heal ends every fault and brings every node back.
func (p *faultPlan) heal() error {
	p.healing, p.agenda = true, nil
	p.r.say("everything is healed")
	if p.r.rules != nil {
		p.r.rules.Clear()
	}
	for _, n := range p.r.nodes {
		n.resume()
		if n.state == nodeDown {
			if err := p.boot(n); err != nil {
				return err
			}
		}
	}
	for end := time.Now().Add(stopWithin); ; {
		busy := slices.ContainsFunc(p.r.nodes, func(n *node) bool { return n.state != nodeUp })
		if !busy {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("a node that was asked to stop did not within %v of the last fault", stopWithin)
		}
		if err := p.until(time.Now().Add(100 * time.Millisecond)); err != nil {
			return err
		}
	}
}

// String counts what was done.
func (p *faultPlan) String() string {
	names := []string{fmt.Sprintf("one-at-a-time=%v", p.single)}
	for name := range p.counts {
		names = append(names, name)
	}
	slices.Sort(names[1:])
	for i, name := range names[1:] {
		names[1+i] = fmt.Sprintf("%s=%d", name, p.counts[name])
	}
	return strings.Join(names, " ")
}

package simnet

import (
	"fmt"
	"time"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/net"
	"seedlog/sim/trace"
)

const (
	// backlogMax is how many connections wait for Accept; further ones try again.
	backlogMax = 128
	// dialMax is when a system gives up to connect.
	dialMax = 127 * time.Second
	// redial is the time between two attempts that nobody answers.
	redial = time.Second
)

type listener struct {
	ifc     *Iface
	addr    string
	backlog []*end
	closed  bool
	waiter  *task.T
}

// Listen implements net.Network.
func (i *Iface) Listen(_ *task.T, addr string) (net.Listener, error) {
	if i.dead() {
		return nil, fmt.Errorf("listen %s: %w", addr, net.ErrClosed)
	}
	m, port, err := i.resolve(addr)
	if err != nil {
		return nil, fmt.Errorf("listen %s: %w", addr, err)
	}
	if m != i.m {
		return nil, fmt.Errorf("listen %s: not an address of %s", addr, i.m.name)
	}
	if port == 0 {
		port = m.port()
	}
	l := &listener{ifc: i, addr: m.addr(port)}
	if m.listeners[l.addr] != nil {
		return nil, fmt.Errorf("listen %s: %w", l.addr, net.ErrInUse)
	}
	m.listeners[l.addr] = l
	i.listeners = append(i.listeners, l)
	i.n.log.AddString(trace.NetListen, uint64(port), l.addr)
	return l, nil
}

func (l *listener) Addr() string { return l.addr }

// Accept implements net.Listener.
func (l *listener) Accept(t *task.T) (net.Conn, error) {
	for {
		if l.closed || l.ifc.dead() {
			return nil, fmt.Errorf("accept %s: %w", l.addr, net.ErrClosed)
		}
		if len(l.backlog) > 0 {
			e := l.backlog[0]
			l.backlog = append(l.backlog[:0], l.backlog[1:]...)
			l.ifc.n.log.Add(trace.NetAccept, e.id, 0, 0)
			return e, nil
		}
		l.waiter = t
		t.Runtime().Park(t, clock.Never)
		l.waiter = nil
	}
}

// Close implements net.Listener.
func (l *listener) Close() {
	if l.ifc.dead() {
		return
	}
	l.shut()
}

func (l *listener) shut() {
	if l.closed {
		return
	}
	l.closed = true
	delete(l.ifc.m.listeners, l.addr)
	for _, e := range l.backlog {
		e.shut()
	}
	l.backlog = nil
	if l.waiter != nil {
		l.waiter.Wake()
	}
}

// dialing is an attempt to connect.
type dialing struct {
	ifc  *Iface
	m    *machine
	addr string
	port int
	t    *task.T
	c    *end
	err  error
	over bool // the caller has its answer, or gave up
}

// Dial implements net.Network.
func (i *Iface) Dial(t *task.T, addr string, until clock.Instant) (net.Conn, error) {
	if i.dead() {
		return nil, fmt.Errorf("dial %s: %w", addr, net.ErrClosed)
	}
	m, port, err := i.resolve(addr)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	i.n.log.AddString(trace.NetDial, uint64(port), m.addr(port))
	d := &dialing{ifc: i, m: m, addr: m.addr(port), port: i.m.port(), t: t}
	i.n.s.At(i.n.after(i.n.link(i.m.name, m.name).delay()), d.arrive)
	if most := t.Now().Add(dialMax); until > most {
		until = most
	}
	for !d.over {
		if t.Runtime().Park(t, until) == task.TimedOut && !d.over {
			d.over, d.err = true, net.ErrTimeout
			if d.c != nil {
				d.c.shut()
			}
		}
	}
	if d.err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, d.err)
	}
	return d.c, nil
}

// arrive is the connection request at the other machine.
func (d *dialing) arrive() {
	n := d.ifc.n
	if d.over || d.ifc.dead() {
		return
	}
	l := d.m.listeners[d.addr]
	switch {
	case n.link(d.ifc.m.name, d.m.name).blocked(), !d.m.up, l != nil && len(l.backlog) >= backlogMax:
		n.s.At(n.s.Now().Add(redial), d.arrive)
		return
	case l == nil:
		d.err = net.ErrRefused
	default:
		var server *end
		d.c, server = n.newConn(d.ifc, l, d.port)
		l.backlog = append(l.backlog, server)
		if l.waiter != nil {
			l.waiter.Wake()
		}
	}
	n.s.At(n.after(n.link(d.m.name, d.ifc.m.name).delay()), d.answer)
}

// answer is the reply at the dialling machine.
func (d *dialing) answer() {
	n := d.ifc.n
	if d.over || d.ifc.dead() {
		return
	}
	if n.link(d.m.name, d.ifc.m.name).blocked() {
		n.s.At(n.s.Now().Add(redial), d.answer)
		return
	}
	d.over = true
	d.t.Wake()
}

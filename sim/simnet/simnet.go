// Package simnet is the network of a simulated world.
//
// It owns machines' addresses, links between machines, and streams. A stream is two pipes; a
// pipe is one queue of bytes with a mark up to which they have arrived:
//
//	        window: a writer waits while the queue is this long
//	|<------------------------------------------------------->|
//	| arrived, not read | piece, due at | piece, due at | FIN |
//	^ Read              ^ delivery                        ^ Write
//
// A write is copied at once, piece by piece as the window lets it; each piece draws when it
// arrives, never before the one ahead of it. A file range is read from the simulated disk,
// by the writing task, when its turn in the window comes: what is overwritten or truncated
// while the writer waits is what gets sent. Like the page references of a real sendfile, a
// piece may be read once more at the instant of delivery (Config.RebindEvery).
//
// A process that is killed has its kernel close its connections in order. A machine that
// loses power says nothing and loses the tail of what it wrote: its peers are half-open until
// they write to a machine that is up again, or until keep-alive gives up.
//
// Everything is drawn from streams of its own per link and kind, is an event of the trace,
// and counts when it fires and when it has an effect.
//
// What it never does: import the node, or wake a reader because its group stops (see net).
package simnet

import (
	"fmt"
	"math/rand/v2"
	stdnet "net"
	"strconv"

	"seedlog/clock"
	"seedlog/sim/sched"
	"seedlog/sim/trace"
)

// Net is the network of one world. It has no lock: one thing runs at a time.
type Net struct {
	s        *sched.Scheduler
	log      *trace.Log
	cfg      Config
	machines map[string]*machine
	links    map[[2]string]*link
	linkList []*link // in the order of their first use
	open     []*end  // the dialling ends of connections that may still live, oldest first
	pruneAt  int     // how many make it worth a look
	lastConn uint64
	faults   *rand.Rand // which connection a fault hits
	counts   [numFaults]Count
}

// New returns the network of s.
func New(s *sched.Scheduler, cfg Config) *Net {
	return &Net{
		s: s, log: s.Log(), cfg: cfg,
		machines: map[string]*machine{}, links: map[[2]string]*link{},
		faults: s.Stream("net/faults"),
	}
}

// SetConfig changes the behaviour from now on.
func (n *Net) SetConfig(cfg Config) { n.cfg = cfg }

// Config is the present behaviour.
func (n *Net) Config() Config { return n.cfg }

// machine is what outlives incarnations: a name and its ports.
type machine struct {
	name      string
	up        bool // it has power: an unknown connection is answered by a reset
	lastPort  int
	listeners map[string]*listener // by address
}

func (n *Net) machine(name string) *machine {
	m := n.machines[name]
	if m == nil {
		m = &machine{name: name, lastPort: 32767, listeners: map[string]*listener{}}
		n.machines[name] = m
	}
	return m
}

func (m *machine) port() int {
	for {
		if m.lastPort++; m.lastPort > 60999 {
			m.lastPort = 32768
		}
		if m.listeners[m.addr(m.lastPort)] == nil {
			return m.lastPort
		}
	}
}

func (m *machine) addr(port int) string { return m.name + ":" + strconv.Itoa(port) }

// Iface is the network as one incarnation of a machine's process sees it: a net.Network.
type Iface struct {
	n         *Net
	m         *machine
	rt        *sched.Runtime
	down      bool
	ends      []*end
	listeners []*listener
}

// Attach connects an incarnation to the network under its machine's name, and tells that
// the machine has power.
func (n *Net) Attach(rt *sched.Runtime) *Iface {
	m := n.machine(rt.Machine())
	m.up = true
	return &Iface{n: n, m: m, rt: rt}
}

// Addr is the machine's address with the port.
func (i *Iface) Addr(port int) string { return i.m.addr(port) }

// Connections is how many ends of connections the incarnation has not closed, with those that
// it has not accepted.
func (i *Iface) Connections() int { return len(i.ends) }

// From is how many of the connections were made by machines that match chooses.
func (i *Iface) From(match func(machine string) bool) (n int) {
	for _, e := range i.ends {
		if e.id&1 == 1 && match(e.peer.ifc.m.name) {
			n++
		}
	}
	return n
}

// dead tells that nothing the incarnation does may have an effect.
func (i *Iface) dead() bool { return i.down || i.rt.Dead() }

// Kill ends what the incarnation has open. If only the process is killed the kernel says
// so to its peers, after what was written. If power is lost the machine says nothing, and
// loses a tail of what it wrote.
func (i *Iface) Kill(power bool) {
	if i.down {
		return
	}
	i.down = true
	if power {
		i.m.up = false
	}
	ends, listeners := i.ends, i.listeners
	i.ends, i.listeners = nil, nil
	if power {
		for _, e := range ends {
			e.vanish()
		}
	}
	for _, l := range listeners {
		l.shut()
	}
	if !power {
		for _, e := range ends {
			e.shut()
		}
	}
}

// resolve splits an address. The names of the loop-back interface are the machine itself.
func (i *Iface) resolve(addr string) (*machine, int, error) {
	host, port, err := stdnet.SplitHostPort(addr)
	if err != nil {
		return nil, 0, err
	}
	p, err := strconv.Atoi(port)
	if err != nil || p < 0 || p > 65535 {
		return nil, 0, fmt.Errorf("port %q of %s", port, addr)
	}
	switch host {
	case "", "0.0.0.0", "::", "127.0.0.1", "localhost":
		return i.m, p, nil
	}
	return i.n.machine(host), p, nil
}

// after is the instant d from now.
func (n *Net) after(ns int64) clock.Instant { return n.s.Now() + clock.Instant(ns) }

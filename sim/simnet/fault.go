package simnet

import (
	"time"

	"seedlog/sim/trace"
)

// Fault is a kind of disturbance.
type Fault uint8

// The kinds.
const (
	Tail      Fault = iota // a piece took a heavy-tailed time
	Loss                   // a piece had to be sent again
	Split                  // a write came in small pieces
	Rebind                 // a piece of a file range was bound at its delivery
	Reset                  // a connection was reset
	HalfOpen               // one side died and the other was not told
	Stall                  // one direction of a connection stood still: a peer that does not read
	Partition              // a link was cut
	Clog                   // a link was clogged
	Stale                  // bytes arrived from a side that had closed long ago
	TailLost               // a machine lost power with bytes in flight
	numFaults
)

// String is the fault's name in reports.
func (f Fault) String() string {
	return [...]string{"net-tail", "net-loss", "net-split", "net-rebind", "net-reset", "net-half-open",
		"net-stall", "net-partition", "net-clog", "net-stale", "net-tail-lost"}[f]
}

// Faults lists the kinds.
func Faults() []Fault {
	all := make([]Fault, numFaults)
	for i := range all {
		all[i] = Fault(i)
	}
	return all
}

// Count is how often a fault fired, and how often that changed what somebody saw.
type Count struct{ Fired, Effective int64 }

// Count is the fault's count so far.
func (n *Net) Count(f Fault) Count { return n.counts[f] }

func (n *Net) count(f Fault, effective bool) {
	n.counts[f].Fired++
	if effective {
		n.counts[f].Effective++
	}
}

// Partition cuts the link from one machine to another; call it both ways for a two-way
// partition. What is in flight is lost and sent again after Heal.
func (n *Net) Partition(from, to string) {
	n.counts[Partition].Fired++
	n.link(from, to).stop(cut)
}

// Clog holds back what is in flight from one machine to another until Heal.
func (n *Net) Clog(from, to string) {
	n.counts[Clog].Fired++
	n.link(from, to).stop(clogged)
}

// Heal lets the link flow again.
func (n *Net) Heal(from, to string) { n.link(from, to).flow() }

// HealAll lets every link flow again, and ends every stall.
func (n *Net) HealAll() {
	for _, l := range n.linkList {
		l.flow()
	}
	for _, e := range n.open {
		e.out.unstall()
		e.in.unstall()
	}
}

// StallAll stops delivery from one machine to another on the connections that there are, until
// HealAll. Those that are opened later flow.
func (n *Net) StallAll(from, to string) {
	for _, e := range n.between(from, to) {
		n.counts[Stall].Fired++
		n.log.Add(trace.NetFault, e.id, uint64(Stall), 0)
		e.out.stalled = true
	}
}

// ResetAll resets the connections between two machines.
func (n *Net) ResetAll(a, b string) {
	for _, e := range n.between(a, b) {
		n.count(Reset, true)
		n.log.Add(trace.NetFault, e.id, uint64(Reset), 0)
		e.reset()
		e.peer.reset()
	}
}

// between returns the ends at one machine of its open connections with another.
func (n *Net) between(from, to string) (ends []*end) {
	n.prune()
	for _, e := range n.open {
		for _, side := range [...]*end{e, e.peer} {
			if side.out.l.from == from && side.out.l.to == to {
				ends = append(ends, side)
			}
		}
	}
	return ends
}

// prune forgets connections that are over.
func (n *Net) prune() {
	kept := n.open[:0]
	for _, e := range n.open {
		if !e.over() {
			kept = append(kept, e)
		}
	}
	clear(n.open[len(kept):])
	n.open = kept
	n.pruneAt = 2*len(kept) + 64
}

// pick draws an established connection, and one of its ends.
func (n *Net) pick() *end {
	n.prune()
	if len(n.open) == 0 {
		return nil
	}
	r := n.faults.Uint64()
	e := n.open[(r>>1)%uint64(len(n.open))]
	if r&1 == 1 {
		e = e.peer
	}
	return e
}

// ResetOne resets a drawn connection. It reports whether there was one.
func (n *Net) ResetOne() bool {
	e := n.pick()
	n.count(Reset, e != nil)
	if e == nil {
		return false
	}
	n.log.Add(trace.NetFault, e.id, uint64(Reset), 0)
	e.reset()
	e.peer.reset()
	return true
}

// HalfOpenOne kills one side of a drawn connection without the other hearing of it.
func (n *Net) HalfOpenOne() bool {
	e := n.pick()
	n.count(HalfOpen, e != nil)
	if e == nil {
		return false
	}
	n.log.Add(trace.NetFault, e.id, uint64(HalfOpen), 0)
	e.reset()
	e.peer.keepAlive()
	return true
}

// StallOne stops delivery in one direction of a drawn connection for the duration, or
// until HealAll if it is not positive: a peer that does not read.
func (n *Net) StallOne(d time.Duration) bool {
	e := n.pick()
	n.counts[Stall].Fired++
	if e == nil {
		return false
	}
	n.log.Add(trace.NetFault, e.id, uint64(Stall), uint64(d))
	p := e.out
	p.stalled = true
	if d > 0 {
		n.s.At(n.after(int64(d)), p.unstall)
	}
	return true
}

package simnet

import (
	"bytes"

	"seedlog/clock"
	"seedlog/disk"
	"seedlog/sim/trace"
)

// pipe is one direction of a connection.
type pipe struct {
	l       *link
	to      *end
	buf     []byte  // buf[head:] is what is not read yet
	head    int     //
	arrived int     // of buf[head:], what can be read
	pieces  []piece // what is on its way; pieces[first:]
	first   int
	last    clock.Instant // when the last piece is due
	due     bool          // a delivery is scheduled
	waiting bool          // in l.held
	stalled bool
	stuck   bool // stalled with something to deliver
}

// what a piece is.
type pieceKind uint8

const (
	data   pieceKind = iota
	fin              // the sender closed
	rst              // the sender closed without having read everything
	broken           // the network reset the connection
)

type piece struct {
	n    int
	kind pieceKind
	at   clock.Instant
	file disk.File // where the bytes are from, to be bound again, or nil
	off  int64
	// evictions is how many pages of the file had been dropped when the bytes were read.
	evictions int
}

// size is what the window counts.
func (p *pipe) size() int { return len(p.buf) - p.head }

// grow makes room for n bytes at the end and returns it.
func (p *pipe) grow(n int) []byte {
	if p.head > 0 && (p.head == len(p.buf) || len(p.buf)+n > cap(p.buf)) {
		p.buf = p.buf[:copy(p.buf, p.buf[p.head:])]
		p.head = 0
	}
	at := len(p.buf)
	for cap(p.buf) < at+n {
		p.buf = append(p.buf[:cap(p.buf)], 0)
	}
	p.buf = p.buf[:at+n]
	return p.buf[at:]
}

// send puts a piece on its way. Its bytes, if it has any, are in the queue.
func (p *pipe) send(pc piece) {
	if p.l.reset.hit(p.l.n.cfg.ResetEvery, p.l.loss) && pc.kind == data {
		pc.kind = broken
	}
	pc.at = max(p.l.arrival(pc.n), p.last)
	p.last = pc.at
	if p.first > 32 && p.first*2 > len(p.pieces) || p.first == len(p.pieces) {
		p.pieces, p.first = p.pieces[:copy(p.pieces, p.pieces[p.first:])], 0
	}
	p.pieces = append(p.pieces, pc)
	p.schedule(pc.at)
}

// schedule has the first piece delivered when it is due, not before at.
func (p *pipe) schedule(at clock.Instant) {
	if p.due || p.waiting || p.first == len(p.pieces) {
		return
	}
	p.due = true
	p.l.n.s.AtCall(max(at, p.pieces[p.first].at), p)
}

// Fire delivers what is due.
func (p *pipe) Fire() {
	p.due = false
	for p.first < len(p.pieces) {
		pc := &p.pieces[p.first]
		if pc.at > p.l.n.s.Now() {
			p.schedule(pc.at)
			return
		}
		if p.l.blocked() {
			p.waiting = true
			p.l.held = append(p.l.held, p)
			return
		}
		if p.stalled && pc.kind == data {
			if !p.stuck {
				p.stuck = true
				p.l.n.counts[Stall].Effective++
			}
			return
		}
		pc2 := *pc
		*pc = piece{}
		p.first++
		p.deliver(pc2)
	}
}

func (p *pipe) unstall() {
	if p.stalled {
		p.stalled, p.stuck = false, false
		p.schedule(p.l.n.s.Now())
	}
}

func (p *pipe) deliver(pc piece) {
	n, e := p.l.n, p.to
	n.log.Add(trace.NetDeliver, e.id, uint64(pc.kind)<<32|uint64(pc.n), uint64(n.s.Now()))
	switch {
	case pc.kind == broken:
		n.count(Reset, !e.shutDown || !e.peer.shutDown)
		e.reset()
		e.peer.reset()
	case e.vanished && !e.ifc.m.up:
		// Nobody answers, so nothing is acknowledged; keep-alive ends it.
	case e.shutDown || e.broken:
		p.drop(pc.n)
		if pc.kind == data {
			e.answerReset()
		}
	case pc.kind == fin:
		e.eof = true
		e.wake()
	case pc.kind == rst:
		e.reset()
	default:
		p.bindAgain(pc)
		p.arrived += pc.n
		if e.peer.shutDown {
			n.count(Stale, true)
		}
		e.wake()
	}
}

// pageCache is implemented by simulated files: it copies what a reader would see now, without
// waiting, and returns how many bytes there are.
type pageCache interface {
	Peek(p []byte, off int64) int
	// Evictions counts the pages that the cache dropped: a socket that refers to one keeps it.
	Evictions() int
}

// evictions is how many pages of a file the cache has dropped so far.
func evictions(f disk.File) int {
	if cache, ok := f.(pageCache); ok {
		return cache.Evictions()
	}
	return 0
}

// bindAgain reads a piece of a file range once more: the socket refers to the pages, and
// they may have been written to since. Bytes that the file no longer has stay what they were,
// and so do those of pages that the cache dropped after a failed sync.
func (p *pipe) bindAgain(pc piece) {
	n := p.l.n
	cache, ok := pc.file.(pageCache)
	if !ok || !p.l.rebind.hit(n.cfg.RebindEvery, p.l.loss) || cache.Evictions() != pc.evictions {
		return
	}
	at := p.head + p.arrived
	old := p.buf[at : at+pc.n]
	now := make([]byte, pc.n)
	now = now[:cache.Peek(now, pc.off)]
	n.count(Rebind, !bytes.Equal(now, old[:len(now)]))
	copy(old, now)
	n.log.AddBytes(trace.NetFault, p.to.id, uint64(Rebind), old)
}

// drop discards bytes that have arrived where nobody reads.
func (p *pipe) drop(n int) {
	at := p.head + p.arrived
	p.buf = append(p.buf[:at], p.buf[at+n:]...)
}

// read takes arrived bytes.
func (p *pipe) read(b []byte) int {
	n := copy(b, p.buf[p.head:p.head+p.arrived])
	p.head += n
	p.arrived -= n
	return n
}

// loseTail keeps a drawn number of the pieces on their way and forgets the others.
func (p *pipe) loseTail() {
	n := p.l.n
	left := len(p.pieces) - p.first
	keep := 0
	if left > 0 && !p.waiting { // what waits at a cut would have to be sent again
		keep = n.faults.IntN(left + 1)
	}
	if left > 0 {
		n.count(TailLost, keep < left)
	}
	lost := 0
	for _, pc := range p.pieces[p.first+keep:] {
		lost += pc.n
	}
	clear(p.pieces[p.first+keep:])
	p.pieces = p.pieces[:p.first+keep]
	p.buf = p.buf[:len(p.buf)-lost]
}

// discard forgets what has not arrived.
func (p *pipe) discard() {
	p.pieces, p.first = p.pieces[:0], 0
	p.buf = p.buf[:p.head+p.arrived]
}

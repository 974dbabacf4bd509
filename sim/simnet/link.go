package simnet

import (
	"math/rand/v2"
	"time"

	"seedlog/clock"
	"seedlog/sim/trace"
)

// link is one direction between two machines.
type link struct {
	n        *Net
	from, to string
	id       uint64
	free     clock.Instant // when its bandwidth is free again
	block    block
	since    clock.Instant // when it was blocked
	hit      bool          // the block held something back
	held     []*pipe       // in the order in which they came to wait

	latency, loss     *rand.Rand
	tail, lost, reset countdown
	split, rebind     countdown
}

type block uint8

const (
	flowing block = iota
	clogged       // everything waits, and comes in a burst
	cut           // everything is lost, and comes again when the sender tries again
)

func (n *Net) link(from, to string) *link {
	l := n.links[[2]string{from, to}]
	if l == nil {
		name := "net/" + from + ">" + to
		l = &link{
			n: n, from: from, to: to, id: uint64(len(n.linkList) + 1),
			latency: n.s.Stream(name + "/latency"), loss: n.s.Stream(name + "/loss"),
		}
		n.links[[2]string{from, to}] = l
		n.linkList = append(n.linkList, l)
	}
	return l
}

// delay draws how long one message takes.
func (l *link) delay() int64 {
	c := &l.n.cfg
	d := c.LatencyMinNs
	if span := c.LatencyMaxNs - c.LatencyMinNs; span > 0 {
		d += int64(l.latency.Uint64() % uint64(span))
	}
	if l.tail.hit(c.TailEvery, l.loss) {
		d += logUniform(l.loss, int64(time.Millisecond), max(c.TailMaxNs, int64(2*time.Millisecond)))
		l.n.count(Tail, true)
	}
	return d
}

// arrival draws when a piece of size bytes that is sent now arrives.
func (l *link) arrival(size int) clock.Instant {
	at := l.n.s.Now()
	if bps := l.n.cfg.BytesPerSec; bps > 0 {
		l.free = max(l.free, at) + clock.Instant(int64(size)*int64(time.Second)/bps)
		at = l.free
	}
	at += clock.Instant(l.delay())
	if l.lost.hit(l.n.cfg.LossEvery, l.loss) {
		at += clock.Instant(int64(200*time.Millisecond) << l.loss.IntN(6))
		l.n.count(Loss, true)
	}
	return at
}

// stop blocks the link.
func (l *link) stop(b block) {
	if l.block == flowing {
		l.since, l.hit = l.n.s.Now(), false
	}
	l.block = b
	l.n.log.Add(trace.NetFault, l.id, uint64(b), 0)
}

// blocked tells whether what arrives now has to wait, and remembers that it had an effect.
func (l *link) blocked() bool {
	if l.block == flowing {
		return false
	}
	if !l.hit {
		l.hit = true
		f := Clog
		if l.block == cut {
			f = Partition
		}
		l.n.counts[f].Effective++
	}
	return true
}

// flow ends a block. After a clog what was held comes at once; after a cut each sender tries
// again within the time that it has come to wait between two attempts.
func (l *link) flow() {
	if l.block == flowing {
		return
	}
	backoff := int64(l.n.s.Now() - l.since)
	backoff = min(max(backoff, 1), int64(time.Minute))
	was := l.block
	l.block = flowing
	l.n.log.Add(trace.NetFault, l.id, uint64(flowing), uint64(backoff))
	held := l.held
	l.held = nil
	for _, p := range held {
		p.waiting = false
		wait := l.delay()
		if was == cut {
			wait += int64(l.loss.Uint64() % uint64(backoff))
		}
		p.schedule(l.n.after(wait))
	}
}

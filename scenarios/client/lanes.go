package client

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"seedlog/clock/task"
)

// lane is a producer's connection to one broker, with the requests that are not answered.
type lane struct {
	addr   string
	conn   *Conn
	flying [][]*outgoing // by request, in order
}

func (p *Producer) lane(addr string) *lane {
	for _, l := range p.lanes {
		if l.addr == addr {
			return l
		}
	}
	l := &lane{addr: addr}
	p.lanes = append(p.lanes, l)
	return l
}

func (p *Producer) flies() bool {
	for _, l := range p.lanes {
		if len(l.flying) > 0 {
			return true
		}
	}
	return false
}

// choose says with which broker to go on: one that owes an answer, or the leader of a
// partition that has something to send.
func (p *Producer) choose(t *task.T) *lane {
	if p.Routes == nil {
		return p.lane(p.Addr)
	}
	var busy []*lane
	for _, l := range p.lanes {
		if len(l.flying) > 0 {
			busy = append(busy, l)
		}
	}
	if n := p.Rand.IntN(len(busy) + 1); n < len(busy) {
		return busy[n]
	}
	to := p.want()
	if to == nil {
		if len(busy) > 0 {
			return busy[p.Rand.IntN(len(busy))]
		}
		p.pause(t)
		return nil
	}
	addr, _ := p.Find(t, to.topic, to.index)
	if addr == "" {
		p.Rec.Note(p.ID, "no leader of %s-%d is known", to.topic.Name, to.index)
		p.pause(t)
		return nil
	}
	return p.lane(addr)
}

// want draws a partition that has something to send again, or that something new may be sent
// to.
func (p *Producer) want() *target {
	var again []*target
	for _, to := range p.targets {
		if to.resend() != nil {
			again = append(again, to)
		}
	}
	if len(again) > 0 {
		return again[p.Rand.IntN(len(again))]
	}
	if p.Budget <= 0 || p.Enough() {
		return nil
	}
	to := p.targets[p.Rand.IntN(len(p.targets))]
	if p.GiveUp != nil && p.GiveUp(to.log) {
		return nil
	}
	return to
}

// led are the partitions that may be sent to over a lane: the broker leads them, and nothing
// of theirs is on its way to another one.
func (p *Producer) led(l *lane) []*target {
	if p.Routes == nil {
		return p.targets
	}
	var out []*target
	for _, to := range p.targets {
		if addr, _ := p.Leader(to.topic, to.index); addr == l.addr && (to.lane == l || !to.flies()) {
			out = append(out, to)
		}
	}
	return out
}

// flies reports whether a batch is not answered.
func (to *target) flies() bool {
	for _, o := range to.queue {
		if o.inAir {
			return true
		}
	}
	return false
}

// moved takes what a refusal tells of the partition's leader.
func (p *Producer) moved(to *target, code int16, id, epoch int32) {
	if p.Routes == nil || code == 0 {
		return
	}
	switch kerr.ErrorForCode(code) {
	case kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend, kerr.RequestTimedOut:
	default:
		p.Outdated()
		p.Routes.hint(to.topic, to.index, id, epoch)
	}
}

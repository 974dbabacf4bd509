package scenarios

import (
	"slices"
	"strings"

	"seedlog/checker/history"
	"seedlog/scenarios/client"
)

// cut is the last lawful loss of a log.
type cut struct {
	at     history.Stamp
	epoch  int32
	offset int64
}

// told takes what a client was told, unless it is of what was before a lawful loss.
func (g *ghost) told(told client.Told) client.Teller {
	name := g.r.Rec.Name(told.Log)
	if told.Below > g.replicas.HighWatermark(name) {
		if c, lost := g.cuts[told.Log]; lost {
			if g.stranded(name, c, told) {
				return client.Stranded
			}
			if c.before(told) {
				return g.teller(name, told)
			}
		}
		g.above(name, told.Below)
		g.replicas.Told(name, told.Below)
		if g.rose() {
			g.synced(name, told.Below)
		}
	}
	return g.teller(name, told)
}

// teller is who told it. A broker that led before answers consumers as a follower, whether they
// know that it is one or not; and as long as nobody has begun to lead in an epoch, all that
// answer in it follow.
func (g *ghost) teller(name string, told client.Told) client.Teller {
	if told.Epoch < 0 {
		return client.Leading
	}
	if leader := g.replicas.LedIn(name, told.Epoch); leader < 0 || g.addr(leader) != told.By {
		return client.Following
	}
	return client.Leading
}

// leads reports whether the broker at an address is the last that began to lead a log.
func (g *ghost) leads(log int, addr string) bool {
	leader := g.replicas.Leader(g.r.Rec.Name(log))
	return leader >= 0 && g.addr(leader) == addr
}

// ledIn is the newest epoch of a log in which the broker at an address had begun to lead before it
// was asked, or -1.
func (g *ghost) ledIn(log int, addr string, asked history.Stamp) int32 {
	i := slices.IndexFunc(g.r.servers, func(s *server) bool { return s.Addr() == addr })
	if i < 0 {
		return -1
	}
	return g.replicas.LedBefore(g.r.Rec.Name(log), g.r.Rec.TopicID(log), g.r.servers[i].id, uint64(asked))
}

// addr is where clients reach a node.
func (g *ghost) addr(id int32) string { return g.r.servers[id-1].Addr() }

// before reports whether an answer was asked for before the loss, or is in an older leader's
// epoch.
func (c cut) before(told client.Told) bool {
	return told.Asked < c.at || told.Epoch >= 0 && told.Epoch < c.epoch
}

// stranded reports whether an answer is of a broker that had not led since the last lawful loss
// when it was asked, and tells of more than that left. Who led before, and does not know yet that another does,
// goes on; and a follower answers with what it has until it has heard from the new leader. What
// a follower knows to be committed a leader knew first.
func (g *ghost) stranded(name string, c cut, told client.Told) bool {
	if told.Below <= c.offset {
		return false
	}
	i := slices.IndexFunc(g.r.servers, func(s *server) bool { return s.Addr() == told.By })
	by := max(told.Asked, c.at+1) // it may have led again by now
	return i >= 0 && !g.replicas.Led(name, g.r.servers[i].id, c.epoch, uint64(by))
}

// offsetsTopic is the coordinators' log.
const offsetsTopic = "__consumer_offsets"

// losses tells the history of lawful losses.
func (g *ghost) losses() {
	for _, loss := range g.replicas.Losses() {
		g.r.World.Probe("lawful-loss")
		if strings.HasPrefix(loss.Name, offsetsTopic+"-") {
			g.r.Rec.PowerLoss() // the coordinators may have forgotten
		}
		g.forgets(loss.Name)
		at := history.Stamp(loss.At)
		if i := g.r.Rec.Index(loss.Name); i >= 0 {
			g.cuts[i] = cut{at, loss.Epoch, loss.Offset}
			g.r.Rec.Cut(history.Cut{At: at, Partition: i, Offset: loss.Offset, Unclean: loss.Unclean, Wiped: loss.Wiped, Empty: loss.Empty, Epoch: loss.Epoch})
		}
	}
}

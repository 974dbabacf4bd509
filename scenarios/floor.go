package scenarios

import (
	"fmt"

	"seedlog/checker/cluster"
	"seedlog/node/replica"
)

// floor is where a high watermark must stay: a leader said that its ISR shrank below
// min.insync.replicas, at this end of its log and in this epoch of the partition.
type floor struct {
	epoch int32
	end   int64
}

// shrank takes a leader's word that its ISR shrank.
func (g *ghost) shrank(s *server, e replica.ISRChanged) {
	name := fmt.Sprintf("%s-%d", e.Topic, e.Partition)
	p := g.quorum.State.Named(name)
	if p == nil || len(e.ISR) >= g.quorum.State.MinISR(p) {
		return
	}
	g.lookAt(int(s.id)-1, s)
	if end, ok := g.replicas.Ends(name)[s.id]; ok {
		g.floors[name] = floor{e.PartitionEpoch, end}
	}
}

// above is I7 for a high watermark that a client was told of: while the committed ISR has fewer
// members than min.insync.replicas asks for, and its leader knows, the high watermark stays
// below where the leader's log ended when it learned of that.
func (g *ghost) above(name string, told int64) {
	f, ok := g.floors[name]
	if !ok || told <= f.end {
		return
	}
	g.look()
	p := g.quorum.State.Named(name)
	if p == nil || p.Epoch != f.epoch || len(p.ISR) >= g.quorum.State.MinISR(p) || g.quorum.Unsettled()(p.ID, p.Index) {
		delete(g.floors, name) // it is over, or nearly
		return
	}
	g.below(p, f, told)
}

func (g *ghost) below(p *cluster.Partition, f floor, told int64) {
	g.verdict.Failf("I7", p.Name(), "the high watermark went to %d, and since the leader's log ended at %d the ISR is %v, min.insync.replicas %d (partition epoch %d)",
		told, f.end, p.ISR, g.quorum.State.MinISR(p), p.Epoch)
	delete(g.floors, p.Name())
}

// often is how many times a high watermark may rise until all logs are looked at: what it
// promises must be there at once, and not when a follower has caught up (I7, I3).
const often = 8

// rose counts rises of high watermarks, and compares now and then; it reports when it did.
func (g *ghost) rose() bool {
	if g.rises++; g.rises%often != 0 {
		return false
	}
	g.check()
	return true
}

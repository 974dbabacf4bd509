package scenarios

import (
	"slices"

	"seedlog/node/event"
	"seedlog/node/meta"
)

// stray is I32 at once: what a broker puts aside is no replica that it has had since before it
// started (KAFKA-13127), whatever it has read of the metadata by then. That it is to have a replica
// again it may not know yet: the leader of the quorum hears late that a majority has what it wrote,
// and who starts goes by what the leader knows. Nobody counts on such a copy before it has fetched.
func (g *ghost) stray(s *server, e event.LogStray) {
	g.look()
	p := g.quorum.State.Named(e.Log)
	if p == nil || meta.UUIDString(p.ID) != e.TopicID || !slices.Contains(p.Replicas, s.id) || p.Placed >= s.bootedAt {
		return
	}
	if slices.Contains(p.Adding, s.id) && !p.Member(s.id) {
		return
	}
	g.verdict.Failf("I32", s.where(e.Log), "is put aside as a stray by its broker, a replica of it since metadata offset %d, which started at %d", p.Placed, s.bootedAt)
	g.hand()
}

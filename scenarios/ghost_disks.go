package scenarios

import (
	"slices"

	"seedlog/checker/cluster"
	"seedlog/node/event"
	"seedlog/node/meta"
)

// stray is I32 at once: what a broker puts aside is no replica that it has had since before it
// started (KAFKA-13127), whatever it has read of the metadata by then.
func (g *ghost) stray(s *server, e event.LogStray) {
	g.look()
	p := g.quorum.State.Named(e.Log)
	if p == nil || meta.UUIDString(p.ID) != e.TopicID || !slices.Contains(p.Replicas, s.id) || p.Placed >= s.bootedAt {
		return
	}
	g.verdict.Failf("I32", s.where(e.Log), "is put aside as a stray by its broker, a replica of it since metadata offset %d, which started at %d", p.Placed, s.bootedAt)
	g.hand()
}

// snapshotted is the end of the newest snapshot that a server's disk has, whatever happens.
func (g *ghost) snapshotted(id int32) (newest int64) {
	s := g.r.servers[id-1]
	for _, dir := range s.guard.LogDirs {
		path := dir + "/" + metadataDir
		for _, info := range s.Disk.List(path) {
			end, _, ok := cluster.SnapshotID(info.Name)
			if b, durable := s.Disk.ReadDurable(path + "/" + info.Name); ok && durable && int64(len(b)) == info.Size {
				newest = max(newest, end)
			}
		}
	}
	return newest
}

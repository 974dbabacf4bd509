package scenarios

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	"seedlog/node/meta"
	"seedlog/scenarios/client"
)

// build is the newest levels that a node serves: those of the build that runs on a machine.
type build struct{ metadataVersion, elr int16 }

var newest = build{meta.MetadataVersion41IV1, 1}

func (b build) String() string { return fmt.Sprintf("%d/%d", b.metadataVersion, b.elr) }

// mix draws in a third of the runs which nodes are older builds. It has a stream of its own and
// shifts no other draw. All of them serve what the cluster begins with.
func (sh *shape) mix(rng *rand.Rand) {
	if rng.IntN(3) > 0 {
		return
	}
	oldest := build{meta.MetadataVersion39IV0, 0}
	if sh.elr > 0 {
		oldest = build{meta.MetadataVersion40IV1, 1}
	}
	for range sh.nodes {
		b := newest
		if rng.IntN(2) == 0 {
			b.metadataVersion = oldest.metadataVersion + int16(rng.IntN(int(newest.metadataVersion-oldest.metadataVersion)))
			b.elr = max(oldest.elr, int16(rng.IntN(2)))
		}
		sh.builds = append(sh.builds, b)
	}
	if len(sh.features) == 0 {
		sh.features = changeable(sh.strict)
	}
}

// changeable are the features whose levels a run may change.
func changeable(strict bool) []client.Feature {
	out := []client.Feature{{Name: meta.MetadataVersionFeature, Min: meta.MetadataVersion39IV0, Max: meta.MetadataVersion41IV1}}
	// Without ELR the last member of an ISR leads again, whatever it lost: beyond the budget.
	if !strict {
		out = append(out, client.Feature{Name: meta.ELRVersionFeature, Min: 0, Max: 1})
	}
	return out
}

// begins is the metadata.version that a new cluster of these builds is formatted with.
func (sh *shape) begins() int16 {
	level := int16(meta.DefaultMetadataVersion)
	for _, b := range sh.builds {
		level = min(level, b.metadataVersion)
	}
	return level
}

// install puts a build on the machine, for the next start.
func (s *server) install(b build) {
	s.build = b
	s.props["internal.metadata.version.max"] = strconv.Itoa(int(b.metadataVersion))
	s.props["internal.eligible.leader.replicas.version.max"] = strconv.Itoa(int(b.elr))
}

// outdated gives a machine the newest build if its process ended and could not have gone on: a
// level is finalized that it does not serve. One that ended without that reason gets none.
func (s *server) outdated() {
	c := s.r.cluster
	if c == nil || !c.mixed {
		return
	}
	c.ghost.look()
	state := c.ghost.quorum.State
	if state.Level(meta.MetadataVersionFeature) > s.build.metadataVersion || state.Level(meta.ELRVersionFeature) > s.build.elr {
		s.r.World.Probe("older-build-refused")
		s.install(newest)
	}
}

// levelClasses change the builds while the cluster works.
func (c *clusterPlan) levelClasses() []*class {
	if !c.c.mixed {
		return nil
	}
	return []*class{
		{name: "newer-build", once: c.upgrade, always: true},
		{name: "older-build", once: c.downgrade, always: true},
	}
}

// upgrade puts a newer build on a machine and restarts the node, cleanly or not.
func (c *clusterPlan) upgrade(rng *rand.Rand) (fired, effective bool) {
	s := c.pick(rng)
	if s.build == newest {
		return false, false
	}
	s.install(build{s.build.metadataVersion + int16(rng.IntN(int(newest.metadataVersion-s.build.metadataVersion)+1)), newest.elr})
	return true, c.restart(s, rng)
}

// downgrade puts an older build on a machine that serves what is finalized now. What is
// finalized until it has started it may not serve: the old one is registered as long.
func (c *clusterPlan) downgrade(rng *rand.Rand) (fired, effective bool) {
	s := c.pick(rng)
	c.c.ghost.look()
	state := c.c.ghost.quorum.State
	level := state.Level(meta.MetadataVersionFeature)
	if level < meta.MetadataVersion39IV0 || level >= s.build.metadataVersion {
		return false, false
	}
	s.install(build{level + int16(rng.IntN(int(s.build.metadataVersion-level))), max(state.Level(meta.ELRVersionFeature), int16(rng.IntN(2)))})
	return true, c.restart(s, rng)
}

// restart restarts a node and reports whether it ran.
func (c *clusterPlan) restart(s *server, rng *rand.Rand) bool {
	switch {
	case !s.Up():
		return false
	case rng.IntN(2) == 0:
		c.down(s, false)
	default:
		s.Stop()
	}
	return true
}

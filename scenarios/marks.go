package scenarios

import (
	"fmt"

	"seedlog/node/controller"
	"seedlog/node/event"
	"seedlog/node/quorum"
	"seedlog/node/raft"
)

// ClusterProbes are the places that a campaign of clusters must reach, beside those of one
// node: names of events, and marks that the run makes of several.
//
// Not here: empty-epoch-diverged and log-out-of-range need what the named stories set up, and
// quorum-bad-records, quorum-bad-answer and quorum-truncation-refused a node that is not sound.
var ClusterProbes = []string{
	// The metadata quorum.
	"quorum-prospective", "quorum-candidate", "quorum-leader", "quorum-follower", "quorum-vote-granted", "quorum-quorum-lost", "quorum-diverged",
	"quorum-leader-resigned", "quorum-removed", "quorum-voter-added", "quorum-voter-removed", "quorum-version-raised",
	"metadata-log-truncated", "metadata-snapshot-installed", "election-within-election", "snapshot-installed-on-voter", "snapshot-read",
	// Brokers.
	"broker-registered", "broker-fenced", "broker-unfenced", "broker-stopping", "feature-level", "rolling-restart",
	"power-loss-in-recovery", "voter-wiped",
	// Partitions.
	"isr-shrunk", "isr-shrunk-to-one", "isr-expanded", "isr-proposal-failed", "leader-recovered", "log-diverged", "follower-began",
	"fetcher-failed", "fetch-refused", "lawful-loss", "log-stray",
	"leader-online", "leader-preferred", "leader-elr", "leader-last-known", "leader-unclean", "leader-none", "leader-re-elected",
	"reassignment-begun", "reassignment-completed", "reassignment-cancelled", "reassignment-replaced", "reassignment-cancelled-after-failover",
}

// ProbesOf are the places that a campaign of a scenario must reach.
func ProbesOf(scenario string) []string {
	switch scenario {
	case "", Swarm:
		return Probes
	case Cluster:
		return append(Probes[:len(Probes):len(Probes)], ClusterProbes...)
	}
	return nil
}

// marks makes one probe of what only several events of several nodes tell.
type marks struct {
	// led is who led a partition last, by topic and index.
	led map[string]int32
	// stood is the newest epoch of the quorum that somebody stood for, and nobody has won since.
	stood int32
	// moving is in which epoch of the quorum a reassignment began, by topic and index.
	moving map[string]int32
	// epoch is the newest of the quorum that somebody leads.
	epoch int32
}

func newMarks() *marks { return &marks{led: make(map[string]int32), moving: make(map[string]int32)} }

func (c *clusterRun) mark(s *server, e event.Event) {
	m, probe := c.marks, c.r.World.Probe
	switch e := e.(type) {
	case quorum.Noted:
		switch e.Note.Kind {
		case raft.BecameCandidate:
			if m.stood > 0 && e.Note.Epoch > m.stood {
				probe("election-within-election")
			}
			m.stood = max(m.stood, e.Note.Epoch)
		case raft.BecameLeader:
			m.epoch = max(m.epoch, e.Note.Epoch)
			if e.Note.Epoch >= m.stood {
				m.stood = 0
			}
		}
	case quorum.SnapshotInstalled:
		if e.Err == nil && c.ghost.quorum.Votes(s.id) {
			probe("snapshot-installed-on-voter")
		}
	case controller.LeaderChanged:
		at := fmt.Sprintf("%s-%d", e.Topic, e.Partition)
		probe("leader-" + e.How)
		if e.Previous >= 0 {
			m.led[at] = e.Previous
		}
		if last, ok := m.led[at]; e.Leader >= 0 {
			if ok && last == e.Leader {
				probe("leader-re-elected")
			}
			m.led[at] = e.Leader
		}
	case controller.Reassignment:
		at := fmt.Sprintf("%s-%d", e.Topic, e.Partition)
		began, ok := m.moving[at]
		switch e.What {
		case controller.ReassignmentBegun:
			m.moving[at] = m.epoch
			return
		case controller.ReassignmentCancelled:
			if ok && m.epoch > began {
				probe("reassignment-cancelled-after-failover")
			}
			delete(m.moving, at)
		case controller.ReassignmentCompleted:
			delete(m.moving, at)
		}
	}
}

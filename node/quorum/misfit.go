package quorum

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/node/raft"
)

// misfit is what speaks against this node being where it is: its directories are another
// cluster's, or another node has its id.
type misfit struct {
	err error // it must end
	// twin is where a leader with this node's id was said to be, since when.
	twin  string
	since clock.Instant
}

// twinFetches is for how many fetch time-outs another node may lead with this one's id. After
// a restart on another address the others name the old one until they elect again.
const twinFetches = 3

// suspect looks for a misfit in an answer.
func (h *Host) suspect(t *task.T, addr string, r *raft.Reply) {
	if h.image.Load().Offset >= 0 {
		return // the cluster knows this node; if another one does not, it is that one's mistake
	}
	twin := ""
	if r.LeaderID == h.cfg.NodeID && len(r.Endpoints) > 0 && !slices.ContainsFunc(r.Endpoints, func(e raft.Endpoint) bool { return slices.Contains(h.cfg.Endpoints, e) }) {
		twin = h.address(r.Endpoints)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	m := &h.misfit
	switch {
	case m.err != nil:
		return
	case r.Code == kerr.InconsistentClusterID.Code:
		m.err = fmt.Errorf("%w: INCONSISTENT_CLUSTER_ID: the directories of this node belong to cluster %s, and the controller at %s is of another", ErrForeign, h.cfg.Identity.ClusterID, addr)
	case twin == "" && r.LeaderID == raft.None:
		return // nothing is said
	case twin != m.twin || twin == "":
		m.twin, m.since = twin, t.Now()
		return
	case t.Now() < m.since.Add(twinFetches*h.cfg.FetchTimeout):
		return
	default:
		m.err = fmt.Errorf("%w: node.id %d is taken: the node at %s leads the quorum with it; give each node a node.id of its own", ErrForeign, h.cfg.NodeID, twin)
	}
	h.work.Raise()
}

// misfitErr is why this node must end, or nil.
func (h *Host) misfitErr() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.misfit.err
}

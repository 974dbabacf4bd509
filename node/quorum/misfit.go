package quorum

import (
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/node/raft"
)

// ErrMisfit: this node does not belong to the quorum that it found.
var ErrMisfit = errors.New("this node is not of this quorum")

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

// Once the cluster has shown this node its metadata it belongs there: then a node that says
// otherwise is the misfit.
func (h *Host) welcome() bool { return h.image.Load().Offset >= 0 }

// suspectCluster ends a node that is told to be of another cluster.
func (h *Host) suspectCluster(addr string, err error) {
	if h.welcome() || !errors.Is(err, kerr.InconsistentClusterID) {
		return
	}
	h.expel(fmt.Errorf("%w: INCONSISTENT_CLUSTER_ID: the directories of this node belong to cluster %s, and the controller at %s is of another",
		ErrMisfit, h.cfg.Identity.ClusterID, addr))
}

// suspectTwin ends a node that goes on being told that it leads, elsewhere.
func (h *Host) suspectTwin(t *task.T, r *raft.Reply) {
	if h.welcome() || r.LeaderID == raft.None {
		return
	}
	ours := func(e raft.Endpoint) bool { return slices.Contains(h.cfg.Endpoints, e) }
	twin := ""
	if r.LeaderID == h.cfg.NodeID && len(r.Endpoints) > 0 && !slices.ContainsFunc(r.Endpoints, ours) {
		twin = h.address(r.Endpoints)
	}
	h.mu.Lock()
	m := &h.misfit
	if twin != m.twin {
		m.twin, m.since = twin, t.Now()
	}
	long := twin != "" && t.Now() >= m.since.Add(twinFetches*h.cfg.FetchTimeout)
	h.mu.Unlock()
	if long {
		h.expel(fmt.Errorf("%w: node.id %d is taken: the node at %s leads the quorum with it; give each node a node.id of its own", ErrMisfit, h.cfg.NodeID, twin))
	}
}

// expel ends Run with err.
func (h *Host) expel(err error) {
	h.mu.Lock()
	if h.misfit.err == nil {
		h.misfit.err = err
	}
	h.mu.Unlock()
	h.work.Raise()
}

// misfitErr is why this node must end, or nil.
func (h *Host) misfitErr() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.misfit.err
}

package scenarios

import (
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/meta"
	"seedlog/scenarios/client"
)

// finalize asks the first node for a level of metadata.version: an upgrade, or else a downgrade.
func (s *tale) finalize(level int16, want *kerr.Error, words string) bool {
	return s.at(1, "finalize", func(t *task.T, p *client.Plain) {
		req := kmsg.NewPtrUpdateFeaturesRequest()
		req.Version, req.TimeoutMillis = 1, 10_000
		u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		u.Feature, u.MaxVersionLevel, u.UpgradeType = meta.MetadataVersionFeature, level, 1
		s.cluster.ghost.look()
		if level < s.cluster.ghost.quorum.State.Level(u.Feature) {
			u.UpgradeType = 2
		}
		req.FeatureUpdates = append(req.FeatureUpdates, u)
		resp, err := p.Call(t, req)
		if !s.ok(err, "finalize") {
			return
		}
		r, text := resp.(*kmsg.UpdateFeaturesResponse), ""
		if r.ErrorMessage != nil {
			text = *r.ErrorMessage
		}
		s.code(r.ErrorCode, want, "finalize")
		s.must(strings.Contains(text, words), "codes", "level %d: %q, without %q", level, text, words)
	})
}

// mixedLevels: the cluster finalizes what all builds serve, writes what all read, and a build
// that does not serve what is finalized ends with a line that says so.
func mixedLevels(r *Run) {
	older := build{meta.MetadataVersion40IV1 - 1, 0}
	sh := shape{nodes: 4, voters: 3, builds: []build{newest, newest, newest, older}}
	tellCluster(r, sh, func(s *tale) {
		topic := s.replicated("t", []int32{4, 1, 2}, [2]string{"min.insync.replicas", "2"})
		if !s.produce(4, topic, -1, 3, nil) || !s.finalize(27, kerr.InvalidUpdateVersion, "Broker 4 only supports versions 21-22") {
			return
		}
		// Whatever the controller writes now the older build reads.
		s.kill(4)
		if !s.isr(topic, 2) || !s.start(4) || !s.isr(topic, 3) || !s.finalize(21, nil, "") || !s.stopNode(4) {
			return
		}
		s.node(4).install(newest)
		if !s.start(4) || !s.isr(topic, 3) || !s.finalize(27, nil, "") || !s.stopNode(4) {
			return
		}
		s.node(4).install(build{meta.MetadataVersion41IV1 - 1, 1})
		if !s.refused(4, "feature metadata.version is finalized at level 27; this node serves 21 to 26") {
			return
		}
		s.node(4).install(newest)
		if s.start(4) && s.isr(topic, 3) {
			s.equal(topic, 3)
		}
	})
}

// refused starts a node that must end by itself, with a line.
func (s *tale) refused(id int32, line string) bool {
	n := s.node(id)
	if s.failed || !n.boot() {
		return false
	}
	inc := n.Incarnation()
	if !s.until("the node ends", 30*time.Second, func() bool { ended, _ := inc.Ended(); return ended }) {
		return false
	}
	_, err := inc.Ended()
	n.Reap()
	return s.must(err != nil && strings.Contains(err.Error(), line) && !strings.Contains(err.Error(), "\n"), "codes", "the node ends with %v", err)
}

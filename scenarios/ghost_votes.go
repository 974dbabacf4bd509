package scenarios

import (
	"encoding/json"

	"seedlog/checker/cluster"
	"seedlog/node/raft"
)

// granted is I9 for a vote that was given: by then a power loss does not take it.
func (g *ghost) granted(s *server, n raft.Note) {
	if s.forgetsMetadata() {
		return
	}
	for _, dir := range s.guard.LogDirs {
		b, ok := s.Disk.ReadDurable(dir + "/" + metadataDir + "/quorum-state")
		if !ok {
			continue
		}
		var state struct {
			LeaderEpoch int32 `json:"leaderEpoch"`
			VotedID     int32 `json:"votedId"`
		}
		if err := json.Unmarshal(b, &state); err == nil && state.LeaderEpoch == n.Epoch && state.VotedID == n.Replica.ID {
			return
		}
	}
	g.r.Failf("I9", s.Name, "voted for %d in epoch %d, and that is not durable", n.Replica.ID, n.Epoch)
}

// voted is I35 for a change of the voters that a client was told is made.
func (g *ghost) voted(id int32, directory [16]byte, votes bool) {
	g.look()
	g.quorum.Answered(cluster.Voter{ID: id, Directory: directory}, votes)
}

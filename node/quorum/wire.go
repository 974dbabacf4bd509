package quorum

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/node/raft"
)

// The versions in which this node asks others.
const (
	voteVersion          = 2
	beginVersion         = 1
	endVersion           = 1
	fetchVersion         = 18
	fetchSnapshotVersion = 1
	updateVoterVersion   = 0
	apiVersionsVersion   = 4
)

// fetchMaxBytes is how much of the log is sent with one Fetch, but for one batch.
const fetchMaxBytes = 8 << 20

// encode is a message to another member as a request.
func (h *Host) encode(s *raft.Send) kmsg.Request {
	switch m := s.Body.(type) {
	case raft.Vote:
		return h.voteRequest(m)
	case raft.BeginQuorumEpoch:
		return h.beginRequest(m)
	case raft.EndQuorumEpoch:
		return h.endRequest(m)
	case raft.Fetch:
		return h.fetchRequest(m)
	case raft.UpdateVoter:
		return h.updateVoterRequest(m)
	case raft.ApiVersions:
		r := kmsg.NewPtrApiVersionsRequest()
		r.Version, r.ClientSoftwareName, r.ClientSoftwareVersion = apiVersionsVersion, "seedlog", "0"
		return r
	}
	panic(fmt.Sprintf("quorum: a %T is not sent to members", s.Body))
}

// decode is another member's answer as the core reads it, with the records of a Fetch, which
// are the caller's.
func (h *Host) decode(resp kmsg.Response) (raft.Reply, []byte, error) {
	switch r := resp.(type) {
	case *kmsg.VoteResponse:
		return h.voteReply(r)
	case *kmsg.BeginQuorumEpochResponse:
		return h.beginReply(r)
	case *kmsg.EndQuorumEpochResponse:
		return h.endReply(r)
	case *kmsg.FetchResponse:
		return h.fetchReply(r)
	case *kmsg.UpdateRaftVoterResponse:
		return h.updateVoterReply(r)
	case *kmsg.ApiVersionsResponse:
		return apiVersionsReply(r)
	}
	return raft.Reply{}, nil, fmt.Errorf("quorum: answer is a %T", resp)
}

// oneTopic reports whether a message is about the metadata log, as all in this quorum are.
func oneTopic[T, P any](topics []T, of func(*T) (name string, partitions []P), index func(*P) int32) *P {
	if len(topics) != 1 {
		return nil
	}
	name, partitions := of(&topics[0])
	if name != ClusterMetadata || len(partitions) != 1 || index(&partitions[0]) != 0 {
		return nil
	}
	return &partitions[0]
}

// foreign reports whether a request is of another cluster. One that does not say is not.
func (h *Host) foreign(clusterID *string) bool {
	return clusterID != nil && *clusterID != h.cfg.Identity.ClusterID
}

// failure is the reply for an answer that has no partition, only an error.
func failure(code int16) raft.Reply {
	return raft.Reply{Code: code, Epoch: -1, LeaderID: raft.None, HighWatermark: -1}
}

// errAnswer is an answer that is not about the metadata log.
func errAnswer(code int16) error {
	if err := kerr.ErrorForCode(code); err != nil {
		return err
	}
	return fmt.Errorf("answer is not about %s-0", ClusterMetadata)
}

// endpoint is the endpoint of a leader that an answer names for the listener that it was
// asked through.
func (h *Host) endpoint(host string, port int32) []raft.Endpoint {
	if host == "" || port <= 0 || port > 65535 {
		return nil
	}
	return []raft.Endpoint{{Name: h.cfg.Listener, Host: host, Port: uint16(port)}}
}

// through is the leader's endpoint for whoever asked through the listener.
func (h *Host) through(listener string, endpoints []raft.Endpoint) (raft.Endpoint, bool) {
	for _, e := range endpoints {
		if e.Name == listener {
			return e, true
		}
	}
	if len(endpoints) == 0 {
		return raft.Endpoint{}, false
	}
	return endpoints[0], true
}

// key is the replica that a request names; a negative id is none.
func key(id int32, directory [16]byte) raft.ReplicaKey {
	if id < 0 {
		return raft.NoReplica()
	}
	return raft.ReplicaKey{ID: id, Directory: directory}
}

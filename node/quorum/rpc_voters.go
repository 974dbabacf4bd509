package quorum

// AddRaftVoter (0; 1 may answer before the commit), RemoveRaftVoter, UpdateRaftVoter: changes of
// the voters (KIP-853), which the leader decides. ApiVersions: what a joiner supports.

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/meta"
	"seedlog/node/raft"
)

// AddVoter answers a request.
func (h *Host) AddVoter(t *task.T, req *kmsg.AddRaftVoterRequest) *kmsg.AddRaftVoterResponse {
	resp := kmsg.NewPtrAddRaftVoterResponse()
	if h.foreign(req.ClusterID) {
		resp.ErrorCode, resp.ErrorMessage = h.foreignError(*req.ClusterID)
		return resp
	}
	v := raft.Voter{Key: raft.ReplicaKey{ID: req.VoterID, Directory: req.VoterDirectoryID}, Endpoints: endpointsOf(req.Listeners)}
	if !h.reachable(v.Endpoints) {
		resp.ErrorCode, resp.ErrorMessage = kerr.InvalidRequest.Code, text("Add voter request didn't include the endpoint for the default listener "+h.cfg.Listener)
		return resp
	}
	reply, _, ok := h.ask(t, raft.AddVoter{
		Voter: v, Timeout: time.Duration(req.TimeoutMillis) * time.Millisecond, AckWhenAppended: req.Version >= 1 && !req.AckWhenCommitted,
	}, 0)
	resp.ErrorCode, resp.ErrorMessage = answered(reply, ok)
	return resp
}

// RemoveVoter answers a request.
func (h *Host) RemoveVoter(t *task.T, req *kmsg.RemoveRaftVoterRequest) *kmsg.RemoveRaftVoterResponse {
	resp := kmsg.NewPtrRemoveRaftVoterResponse()
	switch {
	case h.foreign(req.ClusterID):
		resp.ErrorCode, resp.ErrorMessage = h.foreignError(*req.ClusterID)
		return resp
	case req.VoterID < 0 || req.VoterDirectoryID == [16]byte{}:
		resp.ErrorCode, resp.ErrorMessage = kerr.InvalidRequest.Code, text("Remove voter request didn't include a valid voter")
		return resp
	}
	reply, _, ok := h.ask(t, raft.RemoveVoter{Voter: raft.ReplicaKey{ID: req.VoterID, Directory: req.VoterDirectoryID}}, 0)
	resp.ErrorCode, resp.ErrorMessage = answered(reply, ok)
	return resp
}

// UpdateVoter answers a request that came through listener.
func (h *Host) UpdateVoter(t *task.T, req *kmsg.UpdateRaftVoterRequest, listener string) *kmsg.UpdateRaftVoterResponse {
	resp := kmsg.NewPtrUpdateRaftVoterResponse()
	v := raft.Voter{
		Key: raft.ReplicaKey{ID: req.VoterID, Directory: req.VoterDirectoryID}, Endpoints: endpointsOf(req.Listeners),
		MinKRaftVersion: req.KRaftVersionFeature.MinSupportedVersion, MaxKRaftVersion: req.KRaftVersionFeature.MaxSupportedVersion,
	}
	switch {
	case h.foreign(req.ClusterID):
		resp.ErrorCode = kerr.InconsistentClusterID.Code
		return resp
	case v.Key.ID < 0 || v.Key.Directory == [16]byte{} || !h.reachable(v.Endpoints), v.MinKRaftVersion < 0 || v.MaxKRaftVersion < v.MinKRaftVersion:
		resp.ErrorCode = kerr.InvalidRequest.Code
		return resp
	}
	reply, _, ok := h.ask(t, raft.UpdateVoter{Epoch: req.CurrentLeaderEpoch, Voter: v}, 0)
	if !ok {
		resp.ErrorCode = kerr.BrokerNotAvailable.Code
		return resp
	}
	resp.ErrorCode = reply.Code
	resp.CurrentLeader.LeaderID, resp.CurrentLeader.LeaderEpoch = reply.LeaderID, reply.Epoch
	if e, ok := h.through(listener, reply.Endpoints); ok && reply.LeaderID >= 0 {
		resp.CurrentLeader.Host, resp.CurrentLeader.Port = e.Host, int32(e.Port)
	}
	return resp
}

func (h *Host) updateVoterRequest(m raft.UpdateVoter) kmsg.Request {
	r := kmsg.NewPtrUpdateRaftVoterRequest()
	r.Version, r.ClusterID, r.CurrentLeaderEpoch = updateVoterVersion, &h.cfg.Identity.ClusterID, m.Epoch
	r.VoterID, r.VoterDirectoryID = m.Voter.Key.ID, m.Voter.Key.Directory
	r.KRaftVersionFeature.MinSupportedVersion, r.KRaftVersionFeature.MaxSupportedVersion = m.Voter.MinKRaftVersion, m.Voter.MaxKRaftVersion
	r.Listeners = listenersOf[kmsg.UpdateRaftVoterRequestListener](m.Voter.Endpoints)
	return r
}

func (h *Host) updateVoterReply(r *kmsg.UpdateRaftVoterResponse) (raft.Reply, []byte, error) {
	return raft.Reply{
		Code: r.ErrorCode, Epoch: r.CurrentLeader.LeaderEpoch, LeaderID: r.CurrentLeader.LeaderID,
		Endpoints: h.endpoint(r.CurrentLeader.Host, r.CurrentLeader.Port), HighWatermark: -1,
	}, nil, nil
}

func apiVersionsReply(r *kmsg.ApiVersionsResponse) (raft.Reply, []byte, error) {
	reply := failure(r.ErrorCode)
	for _, f := range r.SupportedFeatures {
		if f.Name == meta.KRaftVersionFeature {
			reply.MinKRaftVersion, reply.MaxKRaftVersion = f.MinVersion, f.MaxVersion
		}
	}
	return reply, nil, nil
}

// reachable reports whether the members can reach a voter through their listener.
func (h *Host) reachable(endpoints []raft.Endpoint) bool {
	for _, e := range endpoints {
		if e.Name == h.cfg.Listener && e.Host != "" && e.Port != 0 {
			return true
		}
	}
	return false
}

func (h *Host) foreignError(id string) (int16, *string) {
	return kerr.InconsistentClusterID.Code, text(fmt.Sprintf("The given id %q doesn't match the cluster id %q", id, h.ClusterID()))
}

// answered is the error of an administrator's request.
func answered(reply raft.Reply, ok bool) (int16, *string) {
	switch {
	case !ok:
		return kerr.BrokerNotAvailable.Code, nil
	case reply.Text == "":
		return reply.Code, nil
	}
	return reply.Code, &reply.Text
}

func text(s string) *string { return &s }

// RaiseVersion finalizes a level of kraft.version in the term of epoch, and writes the voters
// behind it if no log names them yet (KIP-853); or only looks whether that could be. It returns
// once that is in this node's log: what it wrote ends below the NextOffset of then. A refusal has
// Kafka's code and says why. It is ErrNotLeader, and nothing was done, in any other term.
func (h *Host) RaiseVersion(t *task.T, epoch int32, level int16, validateOnly bool) (code int16, why string, err error) {
	reply, _, ok := h.ask(t, raft.RaiseVersion{Epoch: epoch, Version: level, ValidateOnly: validateOnly}, 0)
	switch {
	case !ok:
		return 0, "", ErrStopping
	case reply.Code == kerr.NotLeaderForPartition.Code, reply.Code == kerr.FencedLeaderEpoch.Code:
		return 0, "", ErrNotLeader
	}
	return reply.Code, reply.Text, nil
}

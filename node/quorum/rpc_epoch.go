package quorum

// BeginQuorumEpoch: a new leader says so. EndQuorumEpoch: a leader resigns.
//
//	0  a leader and its epoch     1  flexible; which voter it is for, directories, endpoints

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/raft"
)

func (h *Host) beginRequest(m raft.BeginQuorumEpoch) kmsg.Request {
	p := kmsg.NewBeginQuorumEpochRequestTopicPartition()
	p.VoterDirectoryID, p.LeaderID, p.LeaderEpoch = m.Voter.Directory, m.LeaderID, m.Epoch
	topic := kmsg.NewBeginQuorumEpochRequestTopic()
	topic.Topic, topic.Partitions = ClusterMetadata, []kmsg.BeginQuorumEpochRequestTopicPartition{p}
	r := kmsg.NewPtrBeginQuorumEpochRequest()
	r.Version, r.ClusterID, r.VoterID = beginVersion, &h.cfg.Identity.ClusterID, m.Voter.ID
	r.Topics = append(r.Topics, topic)
	r.LeaderEndpoints = listenersOf[kmsg.BeginQuorumEpochRequestLeaderEndpoint](m.Endpoints)
	return r
}

func (h *Host) beginReply(r *kmsg.BeginQuorumEpochResponse) (raft.Reply, []byte, error) {
	p := oneTopic(r.Topics, func(t *kmsg.BeginQuorumEpochResponseTopic) (string, []kmsg.BeginQuorumEpochResponseTopicPartition) {
		return t.Topic, t.Partitions
	}, func(p *kmsg.BeginQuorumEpochResponseTopicPartition) int32 { return p.Partition })
	if r.ErrorCode != 0 || p == nil {
		return raft.Reply{}, nil, errAnswer(r.ErrorCode)
	}
	reply := raft.Reply{Code: p.ErrorCode, Epoch: p.LeaderEpoch, LeaderID: p.LeaderID, HighWatermark: -1}
	reply.Endpoints = leaderAmong(h, p.LeaderID, r.NodeEndpoints)
	return reply, nil, nil
}

// BeginQuorumEpoch answers a request that came through listener.
func (h *Host) BeginQuorumEpoch(t *task.T, req *kmsg.BeginQuorumEpochRequest, listener string) *kmsg.BeginQuorumEpochResponse {
	resp := kmsg.NewPtrBeginQuorumEpochResponse()
	p := oneTopic(req.Topics, func(t *kmsg.BeginQuorumEpochRequestTopic) (string, []kmsg.BeginQuorumEpochRequestTopicPartition) {
		return t.Topic, t.Partitions
	}, func(p *kmsg.BeginQuorumEpochRequestTopicPartition) int32 { return p.Partition })
	if resp.ErrorCode = h.refusal(req.ClusterID, p != nil); resp.ErrorCode != 0 {
		return resp
	}
	m := raft.BeginQuorumEpoch{Epoch: p.LeaderEpoch, LeaderID: p.LeaderID, Voter: raft.NoReplica()}
	if req.Version >= 1 {
		m.Voter = key(req.VoterID, p.VoterDirectoryID)
	}
	m.Endpoints = endpointsOf(req.LeaderEndpoints)
	reply, _, ok := h.ask(t, m, 0)
	if !ok {
		resp.ErrorCode = kerr.BrokerNotAvailable.Code
		return resp
	}
	out := kmsg.NewBeginQuorumEpochResponseTopicPartition()
	out.ErrorCode, out.LeaderID, out.LeaderEpoch = reply.Code, reply.LeaderID, reply.Epoch
	topic := kmsg.NewBeginQuorumEpochResponseTopic()
	topic.Topic, topic.Partitions = ClusterMetadata, []kmsg.BeginQuorumEpochResponseTopicPartition{out}
	resp.Topics = append(resp.Topics, topic)
	if req.Version >= 1 {
		resp.NodeEndpoints = leaderNode[kmsg.BeginQuorumEpochResponseNodeEndpoint](h, listener, reply)
	}
	return resp
}

func (h *Host) endRequest(m raft.EndQuorumEpoch) kmsg.Request {
	p := kmsg.NewEndQuorumEpochRequestTopicPartition()
	p.LeaderID, p.LeaderEpoch = m.LeaderID, m.Epoch
	for _, k := range m.Preferred {
		c := kmsg.NewEndQuorumEpochRequestTopicPartitionPreferredCandidate()
		c.CandidateID, c.CandidateDirectoryID = k.ID, k.Directory
		p.PreferredCandidates = append(p.PreferredCandidates, c)
	}
	topic := kmsg.NewEndQuorumEpochRequestTopic()
	topic.Topic, topic.Partitions = ClusterMetadata, []kmsg.EndQuorumEpochRequestTopicPartition{p}
	r := kmsg.NewPtrEndQuorumEpochRequest()
	r.Version, r.ClusterID = endVersion, &h.cfg.Identity.ClusterID
	r.Topics = append(r.Topics, topic)
	r.LeaderEndpoints = listenersOf[kmsg.EndQuorumEpochRequestLeaderEndpoint](m.Endpoints)
	return r
}

func (h *Host) endReply(r *kmsg.EndQuorumEpochResponse) (raft.Reply, []byte, error) {
	p := oneTopic(r.Topics, func(t *kmsg.EndQuorumEpochResponseTopic) (string, []kmsg.EndQuorumEpochResponseTopicPartition) {
		return t.Topic, t.Partitions
	}, func(p *kmsg.EndQuorumEpochResponseTopicPartition) int32 { return p.Partition })
	if r.ErrorCode != 0 || p == nil {
		return raft.Reply{}, nil, errAnswer(r.ErrorCode)
	}
	reply := raft.Reply{Code: p.ErrorCode, Epoch: p.LeaderEpoch, LeaderID: p.LeaderID, HighWatermark: -1}
	reply.Endpoints = leaderAmong(h, p.LeaderID, r.NodeEndpoints)
	return reply, nil, nil
}

// EndQuorumEpoch answers a request that came through listener.
func (h *Host) EndQuorumEpoch(t *task.T, req *kmsg.EndQuorumEpochRequest, listener string) *kmsg.EndQuorumEpochResponse {
	resp := kmsg.NewPtrEndQuorumEpochResponse()
	p := oneTopic(req.Topics, func(t *kmsg.EndQuorumEpochRequestTopic) (string, []kmsg.EndQuorumEpochRequestTopicPartition) {
		return t.Topic, t.Partitions
	}, func(p *kmsg.EndQuorumEpochRequestTopicPartition) int32 { return p.Partition })
	if resp.ErrorCode = h.refusal(req.ClusterID, p != nil); resp.ErrorCode != 0 {
		return resp
	}
	m := raft.EndQuorumEpoch{Epoch: p.LeaderEpoch, LeaderID: p.LeaderID}
	for _, id := range p.PreferredSuccessors {
		m.Preferred = append(m.Preferred, raft.ReplicaKey{ID: id})
	}
	for _, c := range p.PreferredCandidates {
		m.Preferred = append(m.Preferred, raft.ReplicaKey{ID: c.CandidateID, Directory: c.CandidateDirectoryID})
	}
	m.Endpoints = endpointsOf(req.LeaderEndpoints)
	reply, _, ok := h.ask(t, m, 0)
	if !ok {
		resp.ErrorCode = kerr.BrokerNotAvailable.Code
		return resp
	}
	out := kmsg.NewEndQuorumEpochResponseTopicPartition()
	out.ErrorCode, out.LeaderID, out.LeaderEpoch = reply.Code, reply.LeaderID, reply.Epoch
	topic := kmsg.NewEndQuorumEpochResponseTopic()
	topic.Topic, topic.Partitions = ClusterMetadata, []kmsg.EndQuorumEpochResponseTopicPartition{out}
	resp.Topics = append(resp.Topics, topic)
	if req.Version >= 1 {
		resp.NodeEndpoints = leaderNode[kmsg.EndQuorumEpochResponseNodeEndpoint](h, listener, reply)
	}
	return resp
}

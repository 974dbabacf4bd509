package quorum

// Vote: a candidate asks for a vote.
//
//	0  a flexible request     1  which voter it is for, directories; the leader's endpoint
//	2  pre-vote (KIP-996)

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/raft"
)

func (h *Host) voteRequest(m raft.Vote) kmsg.Request {
	p := kmsg.NewVoteRequestTopicPartition()
	p.CandidateEpoch, p.CandidateID, p.CandidateDirectoryID = m.Epoch, m.Candidate.ID, m.Candidate.Directory
	p.VoterDirectoryID, p.LastOffsetEpoch, p.LastOffset, p.PreVote = m.Voter.Directory, m.LastEpoch, m.EndOffset, m.PreVote
	topic := kmsg.NewVoteRequestTopic()
	topic.Topic, topic.Partitions = ClusterMetadata, []kmsg.VoteRequestTopicPartition{p}
	r := kmsg.NewPtrVoteRequest()
	r.Version, r.ClusterID, r.VoterID, r.Topics = voteVersion, &h.cfg.Identity.ClusterID, m.Voter.ID, []kmsg.VoteRequestTopic{topic}
	return r
}

func (h *Host) voteReply(r *kmsg.VoteResponse) (raft.Reply, []byte, error) {
	p := oneTopic(r.Topics, func(t *kmsg.VoteResponseTopic) (string, []kmsg.VoteResponseTopicPartition) {
		return t.Topic, t.Partitions
	},
		func(p *kmsg.VoteResponseTopicPartition) int32 { return p.Partition })
	if r.ErrorCode != 0 || p == nil {
		return raft.Reply{}, nil, errAnswer(r.ErrorCode)
	}
	reply := raft.Reply{Code: p.ErrorCode, Epoch: p.LeaderEpoch, LeaderID: p.LeaderID, Granted: p.VoteGranted, HighWatermark: -1}
	reply.Endpoints = leaderAmong(h, p.LeaderID, r.NodeEndpoints)
	return reply, nil, nil
}

// Vote answers a Vote request that came through listener.
func (h *Host) Vote(t *task.T, req *kmsg.VoteRequest, listener string) *kmsg.VoteResponse {
	resp := kmsg.NewPtrVoteResponse()
	p := oneTopic(req.Topics, func(t *kmsg.VoteRequestTopic) (string, []kmsg.VoteRequestTopicPartition) {
		return t.Topic, t.Partitions
	},
		func(p *kmsg.VoteRequestTopicPartition) int32 { return p.Partition })
	if resp.ErrorCode = h.refusal(req.ClusterID, p != nil); resp.ErrorCode != 0 {
		return resp
	}
	voter := raft.NoReplica()
	if req.Version >= 1 {
		voter = key(req.VoterID, p.VoterDirectoryID)
	}
	reply, _, ok := h.ask(t, raft.Vote{
		Epoch: p.CandidateEpoch, Candidate: raft.ReplicaKey{ID: p.CandidateID, Directory: p.CandidateDirectoryID}, Voter: voter,
		EndOffset: p.LastOffset, LastEpoch: p.LastOffsetEpoch, PreVote: p.PreVote,
	}, 0)
	if !ok {
		resp.ErrorCode = kerr.BrokerNotAvailable.Code
		return resp
	}
	out := kmsg.NewVoteResponseTopicPartition()
	out.ErrorCode, out.LeaderID, out.LeaderEpoch, out.VoteGranted = reply.Code, reply.LeaderID, reply.Epoch, reply.Granted
	topic := kmsg.NewVoteResponseTopic()
	topic.Topic, topic.Partitions = ClusterMetadata, []kmsg.VoteResponseTopicPartition{out}
	resp.Topics = append(resp.Topics, topic)
	if req.Version >= 1 {
		resp.NodeEndpoints = leaderNode[kmsg.VoteResponseNodeEndpoint](h, listener, reply)
	}
	return resp
}

// refusal is the error of a request as a whole: of another cluster, or not about the
// metadata log.
func (h *Host) refusal(clusterID *string, ours bool) int16 {
	switch {
	case h.foreign(clusterID):
		return kerr.InconsistentClusterID.Code
	case !ours:
		return kerr.InvalidRequest.Code
	}
	return 0
}

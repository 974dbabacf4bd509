package quorum

// DescribeQuorum: who leads, and how far everybody is.
//
//	0  voters and observers     1  when they fetched (KIP-836)     2  directories, nodes, messages

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/node/raft"
)

// Describe answers a DescribeQuorum. Only the leader knows; the others say so.
func (h *Host) Describe(t *task.T, req *kmsg.DescribeQuorumRequest) *kmsg.DescribeQuorumResponse {
	resp := kmsg.NewPtrDescribeQuorumResponse()
	asked := oneTopic(req.Topics, func(t *kmsg.DescribeQuorumRequestTopic) (string, []kmsg.DescribeQuorumRequestTopicPartition) {
		return t.Topic, t.Partitions
	}, func(p *kmsg.DescribeQuorumRequestTopicPartition) int32 { return p.Partition })
	if asked == nil {
		return describeUnknown(req, resp)
	}
	var q raft.Quorum
	var voters []raft.Voter
	leads := false
	out := kmsg.NewDescribeQuorumResponseTopicPartition()
	if !h.inspect(t, func(c *raft.Core) {
		q, leads = c.Describe(t.Now())
		voters = c.Voters()
	}) {
		resp.ErrorCode = kerr.BrokerNotAvailable.Code
		return resp
	}
	if leads {
		out.LeaderID, out.LeaderEpoch, out.HighWatermark = q.LeaderID, q.Epoch, q.HighWatermark
		for _, s := range q.Voters {
			out.CurrentVoters = append(out.CurrentVoters, h.replicaState(t, s))
		}
		for _, s := range q.Observers {
			out.Observers = append(out.Observers, h.replicaState(t, s))
		}
		resp.Nodes = describeNodes(voters)
	} else {
		out.ErrorCode, out.ErrorMessage = kerr.NotLeaderForPartition.Code, text(kerr.NotLeaderForPartition.Description)
	}
	topic := kmsg.NewDescribeQuorumResponseTopic()
	topic.Topic, topic.Partitions = ClusterMetadata, []kmsg.DescribeQuorumResponseTopicPartition{out}
	resp.Topics = append(resp.Topics, topic)
	return resp
}

// replicaState is a replica with wall-clock times. The leader itself fetched, and had all
// there is, just now, as Kafka says.
func (h *Host) replicaState(t *task.T, s raft.ReplicaState) kmsg.DescribeQuorumResponseTopicPartitionReplicaState {
	out := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
	out.ReplicaID, out.ReplicaDirectoryID, out.LogEndOffset = s.Key.ID, s.Key.Directory, s.End
	wall := func(at clock.Instant) int64 {
		if at == clock.Never {
			return -1
		}
		return t.UnixMilli() - t.Now().Sub(at).Milliseconds()
	}
	out.LastFetchTimestamp, out.LastCaughtUpTimestamp = wall(s.LastFetch), wall(s.LastCaughtUp)
	return out
}

func describeNodes(voters []raft.Voter) []kmsg.DescribeQuorumResponseNode {
	var out []kmsg.DescribeQuorumResponseNode
	for _, v := range voters {
		n := kmsg.NewDescribeQuorumResponseNode()
		n.NodeID, n.Listeners = v.Key.ID, listenersOf[kmsg.DescribeQuorumResponseNodeListener](v.Endpoints)
		out = append(out, n)
	}
	return out
}

// describeUnknown answers for partitions that are no metadata log.
func describeUnknown(req *kmsg.DescribeQuorumRequest, resp *kmsg.DescribeQuorumResponse) *kmsg.DescribeQuorumResponse {
	for _, rt := range req.Topics {
		topic := kmsg.NewDescribeQuorumResponseTopic()
		topic.Topic = rt.Topic
		for _, rp := range rt.Partitions {
			p := kmsg.NewDescribeQuorumResponseTopicPartition()
			p.Partition, p.ErrorCode = rp.Partition, kerr.UnknownTopicOrPartition.Code
			topic.Partitions = append(topic.Partitions, p)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}

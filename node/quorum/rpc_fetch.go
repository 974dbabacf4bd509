package quorum

// Fetch of the metadata log, by a replica or whoever wants to read it.
//
//	to 12  by the topic's name     13  by its id     15  the replica in a tag
//	16  the leader's endpoint      17  the replica's directory     18  its high watermark

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/raft"
)

func (h *Host) fetchRequest(m raft.Fetch) kmsg.Request {
	p := kmsg.NewFetchRequestTopicPartition()
	p.CurrentLeaderEpoch, p.FetchOffset, p.LastFetchedEpoch = m.Epoch, m.Offset, m.LastEpoch
	p.LogStartOffset, p.PartitionMaxBytes = -1, fetchMaxBytes
	p.ReplicaDirectoryID, p.HighWatermark = m.Replica.Directory, m.HighWatermark
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = ClusterMetadata, ClusterMetadataID()
	topic.Partitions = append(topic.Partitions, p)
	r := kmsg.NewPtrFetchRequest()
	r.Version, r.ClusterID = fetchVersion, &h.cfg.Identity.ClusterID
	r.ReplicaState.ID = m.Replica.ID
	r.MaxWaitMillis, r.MaxBytes, r.SessionEpoch = int32(m.MaxWait/time.Millisecond), fetchMaxBytes, -1
	r.Topics = append(r.Topics, topic)
	return r
}

func (h *Host) fetchReply(r *kmsg.FetchResponse) (raft.Reply, []byte, error) {
	p := h.fetchedPartition(r)
	if r.ErrorCode != 0 || p == nil {
		return raft.Reply{}, nil, errAnswer(r.ErrorCode)
	}
	reply := raft.Reply{
		Code: p.ErrorCode, Epoch: p.CurrentLeader.LeaderEpoch, LeaderID: p.CurrentLeader.LeaderID,
		HighWatermark: p.HighWatermark, LogStart: p.LogStartOffset,
	}
	for _, b := range r.Brokers {
		if b.NodeID == reply.LeaderID {
			reply.Endpoints = h.endpoint(b.Host, b.Port)
		}
	}
	var records []byte
	switch {
	case p.DivergingEpoch.Epoch >= 0:
		reply.Diverging = &raft.EpochEnd{Epoch: p.DivergingEpoch.Epoch, EndOffset: p.DivergingEpoch.EndOffset}
	case p.SnapshotID.Epoch >= 0 || p.SnapshotID.EndOffset >= 0:
		reply.Snapshot = &raft.SnapshotID{EndOffset: p.SnapshotID.EndOffset, Epoch: p.SnapshotID.Epoch}
	default:
		// They lie in the connection's buffer.
		records = slices.Clone(p.RecordBatches)
		reply.Records = len(records) > 0
	}
	return reply, records, nil
}

func (h *Host) fetchedPartition(r *kmsg.FetchResponse) *kmsg.FetchResponseTopicPartition {
	if len(r.Topics) != 1 || r.Topics[0].TopicID != ClusterMetadataID() || len(r.Topics[0].Partitions) != 1 || r.Topics[0].Partitions[0].Partition != 0 {
		return nil
	}
	return &r.Topics[0].Partitions[0]
}

// Fetch answers a Fetch of the metadata log that came through listener. It waits for news as
// long as the request allows.
func (h *Host) Fetch(t *task.T, req *kmsg.FetchRequest, listener string) *kmsg.FetchResponse {
	resp := kmsg.NewPtrFetchResponse()
	p := oneTopic(req.Topics, func(t *kmsg.FetchRequestTopic) (string, []kmsg.FetchRequestTopicPartition) {
		name := t.Topic
		if req.Version >= 13 && t.TopicID == ClusterMetadataID() {
			name = ClusterMetadata
		}
		return name, t.Partitions
	}, func(p *kmsg.FetchRequestTopicPartition) int32 { return p.Partition })
	if resp.ErrorCode = h.refusal(req.ClusterID, p != nil); resp.ErrorCode != 0 {
		return resp
	}
	m := raft.Fetch{
		Epoch: p.CurrentLeaderEpoch, Replica: raft.ReplicaKey{ID: req.ReplicaID, Directory: p.ReplicaDirectoryID},
		Offset: p.FetchOffset, LastEpoch: p.LastFetchedEpoch, HighWatermark: -1, MaxWait: time.Duration(req.MaxWaitMillis) * time.Millisecond,
	}
	if req.Version >= 15 {
		m.Replica.ID = req.ReplicaState.ID
	}
	if m.Replica.ID < 0 {
		m.Replica = raft.NoReplica()
	}
	if req.Version >= 18 {
		m.HighWatermark = p.HighWatermark
	}
	reply, records, ok := h.ask(t, m, min(req.MaxBytes, p.PartitionMaxBytes))
	if !ok {
		resp.ErrorCode = kerr.BrokerNotAvailable.Code
		return resp
	}
	h.fetchAnswer(resp, req.Version, listener, &reply, records)
	return resp
}

func (h *Host) fetchAnswer(resp *kmsg.FetchResponse, version int16, listener string, reply *raft.Reply, records []byte) {
	out := kmsg.NewFetchResponseTopicPartition()
	out.ErrorCode, out.HighWatermark, out.LastStableOffset, out.LogStartOffset = reply.Code, reply.HighWatermark, reply.HighWatermark, reply.LogStart
	out.CurrentLeader.LeaderID, out.CurrentLeader.LeaderEpoch = reply.LeaderID, reply.Epoch
	if d := reply.Diverging; d != nil {
		out.DivergingEpoch.Epoch, out.DivergingEpoch.EndOffset = d.Epoch, d.EndOffset
	}
	if s := reply.Snapshot; s != nil {
		out.SnapshotID.Epoch, out.SnapshotID.EndOffset = s.Epoch, s.EndOffset
	}
	out.RecordBatches = records
	topic := kmsg.NewFetchResponseTopic()
	topic.Topic, topic.TopicID = ClusterMetadata, ClusterMetadataID()
	topic.Partitions = append(topic.Partitions, out)
	resp.Topics = append(resp.Topics, topic)
	if e, ok := h.through(listener, reply.Endpoints); ok && version >= 16 && reply.LeaderID >= 0 {
		b := kmsg.NewFetchResponseBroker()
		b.NodeID, b.Host, b.Port = reply.LeaderID, e.Host, int32(e.Port)
		resp.Brokers = append(resp.Brokers, b)
	}
}

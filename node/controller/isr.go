package controller

import (
	"cmp"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/node/meta"
)

// alterPartition decides what the leaders of partitions propose: a new ISR, or that they
// recovered. It is fenced by the broker's, the leader's and the partition's epoch.
func (s *State) alterPartition(r *kmsg.AlterPartitionRequest) Decision {
	resp := r.ResponseKind().(*kmsg.AlterPartitionResponse)
	if err := s.checkEpoch(r.BrokerID, r.BrokerEpoch); err != nil {
		resp.ErrorCode = err.code
		return Decision{Response: resp}
	}
	var records []meta.Record
	for _, x := range r.Topics {
		out := kmsg.NewAlterPartitionResponseTopic()
		out.Topic, out.TopidID = x.Topic, x.TopicID
		t := s.image.TopicByID(x.TopicID)
		for i := range x.Partitions {
			p, record := s.alterOne(r, t, &x.Partitions[i])
			out.Partitions = append(out.Partitions, p)
			if record != nil {
				records = append(records, meta.Record{Version: meta.PartitionVersion(s.image.MetadataVersion()), Body: record})
			}
		}
		resp.Topics = append(resp.Topics, out)
	}
	return Decision{Records: records, Response: resp}
}

func (s *State) alterOne(r *kmsg.AlterPartitionRequest, t *meta.Topic, x *kmsg.AlterPartitionRequestTopicPartition) (kmsg.AlterPartitionResponseTopicPartition, *meta.PartitionChangeRecord) {
	out := kmsg.NewAlterPartitionResponseTopicPartition()
	out.Partition = x.Partition
	if t == nil {
		out.ErrorCode = kerr.UnknownTopicID.Code
		return out, nil
	}
	p := t.Partition(x.Partition)
	if p == nil {
		out.ErrorCode = kerr.UnknownTopicOrPartition.Code
		return out, nil
	}
	isr, epochs := wantedISR(x)
	if err := cmp.Or(checkEpochs(r.BrokerID, p, x), checkISR(p, isr, x.LeaderRecoveryState), s.checkEligible(isr, epochs)); err != nil {
		out.ErrorCode = err.code
		return out, nil
	}
	c := s.begin(s.image, t, x.Partition)
	c.isr, c.recovery = isr, x.LeaderRecoveryState
	record := c.record()
	next := p
	if record != nil {
		version := meta.PartitionVersion(s.image.MetadataVersion())
		next = mustApply(s.image, []meta.Record{{Version: version, Body: record}}).Partition(t.ID, x.Partition)
	}
	if next.Leader != r.BrokerID {
		out.ErrorCode = kerr.NewLeaderElected.Code
		return out, record
	}
	out.LeaderID, out.LeaderEpoch, out.ISR = next.Leader, next.LeaderEpoch, next.ISR
	out.LeaderRecoveryState, out.PartitionEpoch = next.LeaderRecoveryState, next.PartitionEpoch
	return out, record
}

// wantedISR is the ISR with the broker epochs that the leader knows (-1 where it does not).
func wantedISR(x *kmsg.AlterPartitionRequestTopicPartition) (isr []int32, epochs []int64) {
	for _, b := range x.NewISR {
		isr, epochs = append(isr, b), append(epochs, -1)
	}
	for _, b := range x.NewEpochISR {
		isr, epochs = append(isr, b.BrokerID), append(epochs, b.BrokerEpoch)
	}
	return isr, epochs
}

// checkEpochs: a leader that is ahead of this controller talks to one that was replaced.
func checkEpochs(broker int32, p *meta.Partition, x *kmsg.AlterPartitionRequestTopicPartition) *apiError {
	switch {
	case x.LeaderEpoch > p.LeaderEpoch || x.PartitionEpoch > p.PartitionEpoch:
		return failf(kerr.NotController, "")
	case x.LeaderEpoch < p.LeaderEpoch:
		return failf(kerr.FencedLeaderEpoch, "")
	case broker != p.Leader:
		return failf(kerr.InvalidRequest, "")
	case x.PartitionEpoch < p.PartitionEpoch:
		return failf(kerr.InvalidUpdateVersion, "")
	}
	return nil
}

func checkISR(p *meta.Partition, isr []int32, recovery int8) *apiError {
	for i, b := range isr {
		if !slices.Contains(p.Replicas, b) || slices.Contains(isr[:i], b) {
			return failf(kerr.InvalidRequest, "")
		}
	}
	recovering := recovery == 1
	switch {
	case !slices.Contains(isr, p.Leader),
		recovery != 0 && recovery != 1,
		recovering && len(isr) > 1,
		recovering && p.LeaderRecoveryState == 0:
		return failf(kerr.InvalidRequest, "")
	}
	return nil
}

func (s *State) checkEligible(isr []int32, epochs []int64) *apiError {
	for i, id := range isr {
		b := s.image.Broker(id)
		if b == nil || !b.Active() || epochs[i] != -1 && epochs[i] != b.Epoch {
			return failf(kerr.IneligibleReplica, "")
		}
	}
	return nil
}

// assignReplicasToDirs takes a broker's word for which of its directories a replica is in.
func (s *State) assignReplicasToDirs(r *kmsg.AssignReplicasToDirsRequest) Decision {
	resp := r.ResponseKind().(*kmsg.AssignReplicasToDirsResponse)
	if err := s.checkEpoch(r.BrokerID, r.BrokerEpoch); err != nil {
		resp.ErrorCode = err.code
		return Decision{Response: resp}
	}
	var records []meta.Record
	for _, d := range r.Directories {
		out := kmsg.NewAssignReplicasToDirsResponseDirectory()
		out.ID = d.ID
		for _, x := range d.Topics {
			topic := kmsg.NewAssignReplicasToDirsResponseDirectoryTopic()
			topic.TopicID = x.TopicID
			for _, id := range x.Partitions {
				p := kmsg.NewAssignReplicasToDirsResponseDirectoryTopicPartition()
				p.Partition = id.Partition
				var err *apiError
				records, err = s.assignDir(records, r.BrokerID, d.ID, x.TopicID, id.Partition)
				p.ErrorCode = err.errorCode()
				topic.Partitions = append(topic.Partitions, p)
			}
			out.Topics = append(out.Topics, topic)
		}
		resp.Directories = append(resp.Directories, out)
	}
	return Decision{Records: records, Response: resp}
}

func (s *State) assignDir(records []meta.Record, broker int32, dir, topic meta.UUID, id int32) ([]meta.Record, *apiError) {
	t := s.image.TopicByID(topic)
	if t == nil {
		return records, failf(kerr.UnknownTopicID, "")
	}
	p := t.Partition(id)
	if p == nil {
		return records, failf(kerr.UnknownTopicOrPartition, "")
	}
	at := slices.Index(p.Replicas, broker)
	if at < 0 {
		return records, failf(kerr.NotLeaderForPartition, "")
	}
	c := s.begin(s.image, t, id)
	c.directories = make([]meta.UUID, len(p.Replicas))
	for i, b := range p.Replicas {
		c.directories[i] = s.defaultDir(b)
		if i < len(p.Directories) {
			c.directories[i] = p.Directories[i]
		}
	}
	c.directories[at] = dir
	if b := s.image.Broker(broker); !slices.Contains(b.LogDirs, dir) { // it failed meanwhile
		c.isr = without(p.ISR, broker)
		was := c.acceptable
		c.acceptable = func(o int32) bool { return o != broker && was(o) }
	}
	return s.appendChange(records, c), nil
}

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
	next := s // each is decided on what the ones before made of the image
	for _, x := range r.Topics {
		out := kmsg.NewAlterPartitionResponseTopic()
		out.Topic, out.TopidID = x.Topic, x.TopicID
		for i := range x.Partitions {
			p, more, after := next.alterOne(r, x.TopicID, &x.Partitions[i])
			out.Partitions = append(out.Partitions, p)
			records, next = append(records, more...), after
		}
		resp.Topics = append(resp.Topics, out)
	}
	return Decision{Records: records, Response: resp}
}

// alterOne decides for one partition; after is the state that its records lead to.
func (s *State) alterOne(r *kmsg.AlterPartitionRequest, topic meta.UUID, x *kmsg.AlterPartitionRequestTopicPartition) (out kmsg.AlterPartitionResponseTopicPartition, records []meta.Record, after *State) {
	out = kmsg.NewAlterPartitionResponseTopicPartition()
	out.Partition = x.Partition
	t := s.image.TopicByID(topic)
	if t == nil {
		out.ErrorCode = kerr.UnknownTopicID.Code
		return out, nil, s
	}
	p := t.Partition(x.Partition)
	if p == nil {
		out.ErrorCode = kerr.UnknownTopicOrPartition.Code
		return out, nil, s
	}
	isr, epochs := wantedISR(x)
	if err := cmp.Or(checkEpochs(r.BrokerID, p, x), checkISR(p, isr, x.LeaderRecoveryState), s.checkEligible(p, isr, epochs)); err != nil {
		out.ErrorCode = err.code
		return out, nil, s
	}
	c := s.begin(t, x.Partition)
	c.isr, c.recovery = isr, x.LeaderRecoveryState
	records = s.appendChange(nil, c)
	if c.elr && !c.isrSuffices() && s.lags(r.BrokerID) {
		out.ErrorCode = kerr.OperationNotAttempted.Code // elr.go says why; it looks again
		return out, nil, s
	}
	after = s.after(records)
	next := after.image.Partition(topic, x.Partition)
	if next.Leader != r.BrokerID { // a reassignment ended, and took the leader with it
		out.ErrorCode = kerr.NewLeaderElected.Code
		return out, records, after
	}
	out.LeaderID, out.LeaderEpoch, out.ISR = next.Leader, next.LeaderEpoch, next.ISR
	out.LeaderRecoveryState, out.PartitionEpoch = next.LeaderRecoveryState, next.PartitionEpoch
	return out, records, after
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

// checkEligible refuses an ISR with a broker that is fenced or shutting down (KIP-841), was
// restarted since (KIP-903), or has lost the replica's directory.
func (s *State) checkEligible(p *meta.Partition, isr []int32, epochs []int64) *apiError {
	for i, id := range isr {
		b := s.image.Broker(id)
		if b == nil || !b.Active() || epochs[i] != -1 && epochs[i] != b.Epoch || p.DirLost(b) {
			return failf(kerr.IneligibleReplica, "")
		}
	}
	return nil
}

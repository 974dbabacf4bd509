package controller

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/node/meta"
)

// alterReassignments begins reassignments, replaces them, or, for null replicas, cancels
// them. Version 1 can forbid that a replication factor changes (KIP-860).
func (s *State) alterReassignments(r *kmsg.AlterPartitionAssignmentsRequest) Decision {
	resp := r.ResponseKind().(*kmsg.AlterPartitionAssignmentsResponse)
	resp.AllowReplicationFactorChange = r.AllowReplicationFactorChange
	fixedFactor := r.Version >= 1 && !r.AllowReplicationFactorChange
	var records []meta.Record
	type partition struct {
		topic string
		id    int32
	}
	seen := make(map[partition]bool)
	for _, x := range r.Topics {
		out := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		out.Topic = x.Topic
		for _, wanted := range x.Partitions {
			p := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			p.Partition = wanted.Partition
			err := failf(kerr.InvalidRequest, "The partition is named twice.")
			if k := (partition{x.Topic, wanted.Partition}); !seen[k] {
				seen[k] = true
				records, err = s.alterReassignment(records, x.Topic, wanted, fixedFactor)
			}
			p.ErrorCode, p.ErrorMessage = err.errorCode(), err.message()
			out.Partitions = append(out.Partitions, p)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return Decision{Records: records, Response: resp}
}

func (s *State) alterReassignment(records []meta.Record, topic string, wanted kmsg.AlterPartitionAssignmentsRequestTopicPartition, fixedFactor bool) ([]meta.Record, *apiError) {
	t := s.image.Topic(topic)
	if t == nil {
		return records, failf(kerr.UnknownTopicOrPartition, "")
	}
	p := t.Partition(wanted.Partition)
	if p == nil {
		return records, failf(kerr.UnknownTopicOrPartition, "")
	}
	if len(records) >= maxRecordsPerRequest {
		return records, failf(kerr.PolicyViolation, "Unable to perform excessively large batch operation.")
	}
	c := s.begin(t, wanted.Partition)
	if wanted.Replicas == nil {
		if !reassigning(p) {
			return records, failf(kerr.NoReassignmentInProgress, "")
		}
		c.reassign(origin(p))
	} else {
		if err := s.checkTarget(p, wanted.Replicas, fixedFactor); err != nil {
			return records, err
		}
		c.reassign(slices.Clone(wanted.Replicas))
	}
	if cancel := wanted.Replicas == nil; c.losesData() && !(cancel && c.election == electUnclean) {
		return records, refusedLoss(topic, wanted.Partition, cancel)
	}
	return s.appendChange(records, c), nil
}

// refusedLoss: no reassignment drops the only replicas that surely have everything, which an earlier
// one added. Taking it back may where unclean elections are allowed, as in Kafka. A new target may
// not: it could be reached without them being dropped first.
func refusedLoss(topic string, partition int32, cancel bool) *apiError {
	if cancel {
		return failf(kerr.InvalidReplicaAssignment, "Unable to revert partition assignment for %s:%d because it would require an unclean leader election.", topic, partition)
	}
	return failf(kerr.InvalidReplicaAssignment, "Unable to replace the reassignment of %s:%d: only replicas that it adds are in sync, and the new one drops them.", topic, partition)
}

// checkTarget: fenced brokers may be a target; they are waited for.
func (s *State) checkTarget(p *meta.Partition, replicas []int32, fixedFactor bool) *apiError {
	if len(replicas) == 0 {
		return failf(kerr.InvalidReplicaAssignment, "The manual partition assignment includes an empty replica list.")
	}
	ordered := slices.Sorted(slices.Values(replicas))
	for i, b := range ordered {
		if b < 0 {
			return failf(kerr.InvalidReplicaAssignment, "Invalid replica id %d", b)
		}
		if s.image.Broker(b) == nil {
			return failf(kerr.InvalidReplicaAssignment, "The manual partition assignment includes broker %d, but no such broker is registered.", b)
		}
		if i > 0 && ordered[i-1] == b {
			return failf(kerr.InvalidReplicaAssignment, "The manual partition assignment includes the broker %d more than once.", b)
		}
	}
	if now := len(target(p)); fixedFactor && now != len(replicas) {
		return failf(kerr.InvalidReplicationFactor, "The replication factor is changed from %d to %d", now, len(replicas))
	}
	return nil
}

// listReassignments lists those that run, of all topics for null. What is not being moved,
// or is not there, is not listed.
func (s *State) listReassignments(r *kmsg.ListPartitionReassignmentsRequest) Decision {
	resp := r.ResponseKind().(*kmsg.ListPartitionReassignmentsResponse)
	if r.Topics == nil {
		for t := range s.image.Topics() {
			ids := make([]int32, len(t.Partitions))
			for id := range ids {
				ids[id] = int32(id)
			}
			appendReassigning(resp, t, ids)
		}
	}
	for _, x := range r.Topics {
		if t := s.image.Topic(x.Topic); t != nil {
			appendReassigning(resp, t, x.Partitions)
		}
	}
	return Decision{Response: resp}
}

func appendReassigning(resp *kmsg.ListPartitionReassignmentsResponse, t *meta.Topic, ids []int32) {
	out := kmsg.NewListPartitionReassignmentsResponseTopic()
	out.Topic = t.Name
	for _, id := range ids {
		p := t.Partition(id)
		if p == nil || !reassigning(p) {
			continue
		}
		x := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
		x.Partition, x.Replicas = id, p.Replicas
		x.AddingReplicas, x.RemovingReplicas = p.AddingReplicas, p.RemovingReplicas
		out.Partitions = append(out.Partitions, x)
	}
	if len(out.Partitions) > 0 {
		resp.Topics = append(resp.Topics, out)
	}
}

package control

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// refused tells whether the node that answered says that it is not the controller. Such an
// answer decided nothing. Requests with several parts say so in each.
func refused(resp kmsg.Response) bool {
	code, ok := codeOf(resp)
	return ok && (code == kerr.NotController.Code || code == kerr.NotLeaderForPartition.Code)
}

// codeOf is the answer's error code, or that of its first part.
func codeOf(resp kmsg.Response) (code int16, ok bool) {
	switch r := resp.(type) {
	case *kmsg.BrokerRegistrationResponse:
		return r.ErrorCode, true
	case *kmsg.BrokerHeartbeatResponse:
		return r.ErrorCode, true
	case *kmsg.ControllerRegistrationResponse:
		return r.ErrorCode, true
	case *kmsg.UnregisterBrokerResponse:
		return r.ErrorCode, true
	case *kmsg.AlterPartitionResponse:
		return r.ErrorCode, true
	case *kmsg.AllocateProducerIDsResponse:
		return r.ErrorCode, true
	case *kmsg.AssignReplicasToDirsResponse:
		return r.ErrorCode, true
	case *kmsg.AlterPartitionAssignmentsResponse:
		return r.ErrorCode, true
	case *kmsg.ListPartitionReassignmentsResponse:
		return r.ErrorCode, true
	case *kmsg.UpdateFeaturesResponse:
		return r.ErrorCode, true
	case *kmsg.DescribeQuorumResponse:
		return describeQuorumCode(r), true
	case *kmsg.AddRaftVoterResponse:
		return r.ErrorCode, true
	case *kmsg.RemoveRaftVoterResponse:
		return r.ErrorCode, true
	case *kmsg.UpdateRaftVoterResponse:
		return r.ErrorCode, true
	}
	return partCode(resp)
}

func partCode(resp kmsg.Response) (code int16, ok bool) {
	switch r := resp.(type) {
	case *kmsg.CreateTopicsResponse:
		return first(r.Topics, func(x *kmsg.CreateTopicsResponseTopic) int16 { return x.ErrorCode })
	case *kmsg.DeleteTopicsResponse:
		return first(r.Topics, func(x *kmsg.DeleteTopicsResponseTopic) int16 { return x.ErrorCode })
	case *kmsg.CreatePartitionsResponse:
		return first(r.Topics, func(x *kmsg.CreatePartitionsResponseTopic) int16 { return x.ErrorCode })
	case *kmsg.AlterConfigsResponse:
		return first(r.Resources, func(x *kmsg.AlterConfigsResponseResource) int16 { return x.ErrorCode })
	case *kmsg.IncrementalAlterConfigsResponse:
		return first(r.Resources, func(x *kmsg.IncrementalAlterConfigsResponseResource) int16 { return x.ErrorCode })
	case *kmsg.ElectLeadersResponse:
		if r.Version >= 1 {
			return r.ErrorCode, true
		}
		for i := range r.Topics {
			ps := r.Topics[i].Partitions
			return first(ps, func(x *kmsg.ElectLeadersResponseTopicPartition) int16 { return x.ErrorCode })
		}
	}
	return 0, false
}

func first[V any](list []V, code func(*V) int16) (int16, bool) {
	if len(list) == 0 {
		return 0, false
	}
	return code(&list[0]), true
}

func describeQuorumCode(r *kmsg.DescribeQuorumResponse) int16 {
	if r.ErrorCode != 0 || len(r.Topics) == 0 || len(r.Topics[0].Partitions) == 0 {
		return r.ErrorCode
	}
	return r.Topics[0].Partitions[0].ErrorCode
}

package control

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// answers are one of each kind with a code in it.
func answers(code int16) []kmsg.Response {
	create := kmsg.NewPtrCreateTopicsResponse()
	create.Topics = append(create.Topics, kmsg.CreateTopicsResponseTopic{ErrorCode: 0}, kmsg.CreateTopicsResponseTopic{ErrorCode: code})
	del := kmsg.NewPtrDeleteTopicsResponse()
	del.Topics = append(del.Topics, kmsg.DeleteTopicsResponseTopic{ErrorCode: 0}, kmsg.DeleteTopicsResponseTopic{ErrorCode: code})
	grow := kmsg.NewPtrCreatePartitionsResponse()
	grow.Topics = append(grow.Topics, kmsg.CreatePartitionsResponseTopic{ErrorCode: 0}, kmsg.CreatePartitionsResponseTopic{ErrorCode: code})
	reassign := kmsg.NewPtrAlterPartitionAssignmentsResponse()
	reassign.Topics = append(reassign.Topics, kmsg.AlterPartitionAssignmentsResponseTopic{
		Partitions: []kmsg.AlterPartitionAssignmentsResponseTopicPartition{{ErrorCode: 0}, {ErrorCode: code}},
	})
	unregister := kmsg.NewPtrUnregisterBrokerResponse()
	unregister.ErrorCode = code
	add := kmsg.NewPtrAddRaftVoterResponse()
	add.ErrorCode = code
	remove := kmsg.NewPtrRemoveRaftVoterResponse()
	remove.ErrorCode = code
	return []kmsg.Response{create, del, grow, reassign, unregister, add, remove}
}

// last is the last code of an answer.
func last(resp kmsg.Response) int16 {
	switch r := resp.(type) {
	case *kmsg.CreateTopicsResponse:
		return r.Topics[1].ErrorCode + r.Topics[0].ErrorCode
	case *kmsg.DeleteTopicsResponse:
		return r.Topics[1].ErrorCode + r.Topics[0].ErrorCode
	case *kmsg.CreatePartitionsResponse:
		return r.Topics[1].ErrorCode + r.Topics[0].ErrorCode
	case *kmsg.AlterPartitionAssignmentsResponse:
		return r.Topics[0].Partitions[1].ErrorCode + r.Topics[0].Partitions[0].ErrorCode
	}
	code, _ := codeOf(resp)
	return code
}

// What a request that was carried out already is refused with is in doubt, and nothing else.
func TestDoubtIsAboutWhatTheRequestMayHaveDone(t *testing.T) {
	done := [][]*kerr.Error{
		{kerr.TopicAlreadyExists}, {kerr.UnknownTopicOrPartition, kerr.UnknownTopicID}, {kerr.InvalidPartitions},
		{kerr.NoReassignmentInProgress}, {kerr.BrokerIDNotRegistered}, {kerr.DuplicateVoter}, {kerr.VoterNotFound},
	}
	for i := range done {
		for _, e := range done[i] {
			resp := answers(e.Code)[i]
			doubt(resp)
			if got := last(resp); got != kerr.RequestTimedOut.Code {
				t.Errorf("%T with %s became %d", resp, e.Message, got)
			}
		}
		for _, code := range []int16{0, kerr.InvalidRequest.Code, kerr.PolicyViolation.Code} {
			resp := answers(code)[i]
			doubt(resp)
			if got := last(resp); got != code {
				t.Errorf("%T with %d became %d", resp, code, got)
			}
		}
	}
}

package control

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// unsettled tells whether the node that answered does not know whether the change will be
// committed: it stopped leading, or gave up waiting.
func unsettled(resp kmsg.Response) bool {
	code, ok := codeOf(resp)
	return ok && code == kerr.RequestTimedOut.Code
}

// doubt takes back what an answer claims that it cannot know: the request was sent before,
// nobody knows whether that did what was asked, and so a refusal because it is done already
// may be of our own doing. The client is told that the outcome is unknown.
func doubt(resp kmsg.Response) {
	switch r := resp.(type) {
	case *kmsg.CreateTopicsResponse:
		for i := range r.Topics {
			x := &r.Topics[i]
			doubtful(&x.ErrorCode, &x.ErrorMessage, kerr.TopicAlreadyExists)
		}
	case *kmsg.DeleteTopicsResponse:
		for i := range r.Topics {
			x := &r.Topics[i]
			doubtful(&x.ErrorCode, &x.ErrorMessage, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID)
		}
	case *kmsg.CreatePartitionsResponse:
		for i := range r.Topics {
			x := &r.Topics[i]
			doubtful(&x.ErrorCode, &x.ErrorMessage, kerr.InvalidPartitions)
		}
	case *kmsg.AlterPartitionAssignmentsResponse:
		for i := range r.Topics {
			for j := range r.Topics[i].Partitions {
				x := &r.Topics[i].Partitions[j]
				doubtful(&x.ErrorCode, &x.ErrorMessage, kerr.NoReassignmentInProgress)
			}
		}
	case *kmsg.UnregisterBrokerResponse:
		doubtful(&r.ErrorCode, &r.ErrorMessage, kerr.BrokerIDNotRegistered)
	case *kmsg.AddRaftVoterResponse:
		doubtful(&r.ErrorCode, &r.ErrorMessage, kerr.DuplicateVoter)
	case *kmsg.RemoveRaftVoterResponse:
		doubtful(&r.ErrorCode, &r.ErrorMessage, kerr.VoterNotFound)
	}
}

// doubtful replaces one of the refusals.
func doubtful(code *int16, message **string, done ...*kerr.Error) {
	for _, e := range done {
		if *code == e.Code {
			text := "The controller moved. Whether this request did what it asked for, or found it done, is unknown: " + e.Description
			*code, *message = kerr.RequestTimedOut.Code, &text
			return
		}
	}
}

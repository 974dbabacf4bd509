package control

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// repeatable tells whether a request may be decided twice, with anything in between: it is a
// question, or names the epoch or the incarnation of what it changes, or takes what nobody
// misses. Anything else is done once, or maybe done: a topic that was created, deleted by
// somebody else and then created again by the same request is not what anybody asked for. Nor is
// an ISR that was refused, with which its leader has stopped to reckon.
func repeatable(req kmsg.Request) bool {
	switch req.(type) {
	case *kmsg.AssignReplicasToDirsRequest, *kmsg.AllocateProducerIDsRequest,
		*kmsg.BrokerRegistrationRequest, *kmsg.BrokerHeartbeatRequest, *kmsg.ControllerRegistrationRequest,
		*kmsg.DescribeQuorumRequest, *kmsg.ListPartitionReassignmentsRequest:
		return true
	}
	return false
}

// unsettled tells whether the node that answered does not know whether the change will be
// committed: it stopped leading, or gave up waiting.
func unsettled(resp kmsg.Response) bool {
	code, ok := codeOf(resp)
	return ok && code == kerr.RequestTimedOut.Code
}

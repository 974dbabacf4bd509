package api

// DescribeCluster.
//
//	0  flexible     1  endpoint type (1 brokers, 2 controllers)     2  fenced brokers

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
)

const brokerEndpoints = 1

func (s *Service) describeCluster(t *task.T, r *conn.Request, req *kmsg.DescribeClusterRequest) kmsg.Response {
	image := s.Image()
	listener := r.Conn.Listener()
	resp := kmsg.NewPtrDescribeClusterResponse()
	resp.ClusterID, resp.ControllerID, resp.EndpointType = s.ClusterID, -1, req.EndpointType
	resp.ClusterAuthorizedOperations = operationsOmitted
	if r.Version == 0 {
		resp.EndpointType = brokerEndpoints
	} else if req.EndpointType != brokerEndpoints {
		// A broker knows its controllers, and clients may not ask it for them.
		resp.ErrorCode = kerr.MismatchedEndpointType.Code
		resp.ErrorMessage = ptr("The request was sent to an endpoint of the wrong type: this is a broker.")
		return resp
	}
	resp.ControllerID = s.controllerID(image, aliveBrokers(image, listener))
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = allClusterOperations
	}
	for b := range image.Brokers() {
		e, ok := b.Endpoint(listener)
		if !ok || b.Fenced && !req.IncludeFencedBrokers {
			continue
		}
		out := kmsg.NewDescribeClusterResponseBroker()
		out.NodeID, out.Host, out.Port, out.Rack, out.IsFenced = b.ID, e.Host, int32(e.Port), b.Rack, b.Fenced
		resp.Brokers = append(resp.Brokers, out)
	}
	return resp
}

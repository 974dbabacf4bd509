package api

// DescribeCluster: the brokers, or, on a controller listener, the controllers.
//
//	0  flexible     1  endpoint type (1 brokers, 2 controllers)     2  fenced brokers

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/clock/task"
	"seedlog/node/conn"
	"seedlog/node/meta"
)

// The types of endpoints that a client may ask for.
const (
	brokerEndpoints     = 1
	controllerEndpoints = 2
)

func (s *Service) describeCluster(t *task.T, r *conn.Request, req *kmsg.DescribeClusterRequest) kmsg.Response {
	image := s.Image()
	listener := r.Conn.Listener()
	resp := kmsg.NewPtrDescribeClusterResponse()
	resp.ClusterID, resp.ControllerID, resp.EndpointType = s.ClusterID, -1, req.EndpointType
	resp.ClusterAuthorizedOperations = operationsOmitted
	if r.Version == 0 {
		resp.EndpointType = brokerEndpoints
	}
	if err, why := s.wrongEndpoints(resp.EndpointType); err != nil {
		resp.ErrorCode, resp.ErrorMessage = err.Code, &why
		return resp
	}
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = allClusterOperations
	}
	if s.role == Controller {
		leader, _ := s.Quorum.Leader()
		resp.ControllerID = leader
		resp.Brokers = controllerNodes(image, listener)
		return resp
	}
	resp.ControllerID = s.controllerID(aliveBrokers(image, listener))
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

// wrongEndpoints tells a client that it asks the wrong kind of node.
func (s *Service) wrongEndpoints(asked int8) (err *kerr.Error, why string) {
	own, name, other := int8(brokerEndpoints), "BROKER", "CONTROLLER"
	if s.role == Controller {
		own, name, other = controllerEndpoints, "CONTROLLER", "BROKER"
	}
	switch asked {
	case own:
		return nil, ""
	case brokerEndpoints, controllerEndpoints:
		return kerr.MismatchedEndpointType, fmt.Sprintf("The request was sent to an endpoint of type %s, but we wanted an endpoint of type %s", name, other)
	}
	return kerr.UnsupportedEndpointType, fmt.Sprintf("Unsupported endpoint type %d", asked)
}

// controllerNodes lists the registered controllers that can be reached on the listener.
func controllerNodes(image *meta.Image, listener string) []kmsg.DescribeClusterResponseBroker {
	var out []kmsg.DescribeClusterResponseBroker
	for c := range image.Controllers() {
		for _, e := range c.Endpoints {
			if e.Name == listener {
				n := kmsg.NewDescribeClusterResponseBroker()
				n.NodeID, n.Host, n.Port = c.ControllerID, e.Host, int32(e.Port)
				out = append(out, n)
			}
		}
	}
	return out
}

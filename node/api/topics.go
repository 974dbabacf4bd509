package api

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"seedlog/node/conn"
	"seedlog/node/meta"
	"seedlog/node/replica"
)

// Operations that a client without restrictions may do, as bits by Kafka's operation codes.
const (
	allTopicOperations   = 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<10 | 1<<11
	allClusterOperations = 1<<5 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12
	operationsOmitted    = -1 << 31
)

// isInternal reports whether clients must not write to the topic.
func isInternal(name string) bool {
	return name == "__consumer_offsets" || name == "__transaction_state" || name == "__share_group_state"
}

// aliveBroker returns the broker if it can be reached on the listener and is not fenced.
func aliveBroker(image *meta.Image, id int32, listener string) (meta.Endpoint, *meta.Broker, bool) {
	b := image.Broker(id)
	if b == nil || b.Fenced {
		return meta.Endpoint{}, nil, false
	}
	e, ok := b.Endpoint(listener)
	return e, b, ok
}

// aliveBrokers lists the brokers that can be reached on the listener, by id.
func aliveBrokers(image *meta.Image, listener string) []endpoint {
	var out []endpoint
	for b := range image.Brokers() {
		if e, _, ok := aliveBroker(image, b.ID, listener); ok {
			out = append(out, brokerEndpoint(b, e))
		}
	}
	return out
}

func brokerEndpoint(b *meta.Broker, e meta.Endpoint) endpoint {
	p := endpoint{nodeID: b.ID, host: e.Host, port: int32(e.Port), noRack: b.Rack == nil}
	if b.Rack != nil {
		p.rack = *b.Rack
	}
	return p
}

// controllerID is the broker that clients send what is for the controller to. Any will do,
// for each passes it on: the active controller if it is a broker, for then nobody has to, or
// else this one as long as it is alive.
func (s *Service) controllerID(brokers []endpoint) int32 {
	leader, _ := s.Quorum.Leader()
	best := int32(-1)
	for i, b := range brokers {
		switch {
		case b.nodeID == leader:
			return leader
		case b.nodeID == s.NodeID, i == 0:
			best = b.nodeID
		}
	}
	return best
}

// offlineReplicas are those on brokers that are fenced, unknown, or not on the listener, and those
// whose directory failed.
func offlineReplicas(image *meta.Image, p *meta.Partition, listener string) []int32 {
	offline := []int32{}
	for _, id := range p.Replicas {
		if _, b, ok := aliveBroker(image, id, listener); !ok || p.DirLost(b) {
			offline = append(offline, id)
		}
	}
	return offline
}

// leaderHints collects CurrentLeader and NodeEndpoints for the partitions that a client
// asked the wrong broker for.
type leaderHints struct {
	endpoints []endpoint
}

// hint looks the leader up and reports it, remembering where it can be reached.
func (h *leaderHints) hint(image *meta.Image, k replica.Key, listener string) (leader, epoch int32, ok bool) {
	p := image.Partition(k.Topic, k.Partition)
	if p == nil {
		return -1, -1, false
	}
	e, b, alive := aliveBroker(image, p.Leader, listener)
	if alive && !slices.ContainsFunc(h.endpoints, func(o endpoint) bool { return o.nodeID == b.ID }) {
		h.endpoints = append(h.endpoints, brokerEndpoint(b, e))
	}
	return p.Leader, p.LeaderEpoch, true
}

// wantsHint tells which errors come with the current leader (KIP-951).
func wantsHint(code int16) bool {
	return code == kerr.NotLeaderForPartition.Code || code == kerr.FencedLeaderEpoch.Code
}

// hosted finds the replica of a partition that the metadata knows. A partition of another
// broker is one that this broker does not lead.
func (s *Service) hosted(image *meta.Image, k replica.Key) (*replica.Partition, int16) {
	p, err := s.Replicas.Partition(k)
	if err == nil {
		return p, 0
	}
	code := errorCode(err)
	if code == kerr.UnknownTopicOrPartition.Code && image.Partition(k.Topic, k.Partition) != nil {
		code = kerr.NotLeaderForPartition.Code
	}
	return nil, code
}

// byName finds the replica of a named partition.
func (s *Service) byName(image *meta.Image, topic string, index int32) (*replica.Partition, int16) {
	t := image.Topic(topic)
	if t.Partition(index) == nil {
		return nil, kerr.UnknownTopicOrPartition.Code
	}
	return s.hosted(image, replica.Key{Topic: t.ID, Partition: index})
}

func clientID(r *conn.Request) string {
	if r.ClientID == nil {
		return ""
	}
	return *r.ClientID
}

func ptr[V any](v V) *V { return &v }

// textOrNil is nil for an empty text.
func textOrNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

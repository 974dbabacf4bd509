package quorum

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"seedlog/node/raft"
)

// kmsg has a type of its own for the endpoints in each message. Those with the same fields
// are one of these.
type (
	listenerFields interface {
		~struct {
			Name        string
			Host        string
			Port        uint16
			UnknownTags kmsg.Tags
		}
	}
	nodeFields interface {
		~struct {
			NodeID      int32
			Host        string
			Port        uint16
			UnknownTags kmsg.Tags
		}
	}
	anyListener struct {
		Name        string
		Host        string
		Port        uint16
		UnknownTags kmsg.Tags
	}
	anyNode struct {
		NodeID      int32
		Host        string
		Port        uint16
		UnknownTags kmsg.Tags
	}
)

// endpointsOf are the endpoints that a message names by their listeners.
func endpointsOf[L listenerFields](listeners []L) []raft.Endpoint {
	var out []raft.Endpoint
	for _, l := range listeners {
		e := anyListener(l)
		out = append(out, raft.Endpoint{Name: e.Name, Host: e.Host, Port: e.Port})
	}
	return out
}

// listenersOf is the inverse of endpointsOf.
func listenersOf[L listenerFields](endpoints []raft.Endpoint) []L {
	var out []L
	for _, e := range endpoints {
		out = append(out, L(anyListener{Name: e.Name, Host: e.Host, Port: e.Port}))
	}
	return out
}

// leaderAmong is where the leader is that an answer names, for the listener that it was asked
// through.
func leaderAmong[N nodeFields](h *Host, leader int32, nodes []N) []raft.Endpoint {
	for _, n := range nodes {
		if e := anyNode(n); e.NodeID == leader {
			return h.endpoint(e.Host, int32(e.Port))
		}
	}
	return nil
}

// leaderNode is the leader for whoever asked through the listener, and nothing if nobody is
// known to lead.
func leaderNode[N nodeFields](h *Host, listener string, reply raft.Reply) []N {
	e, ok := h.through(listener, reply.Endpoints)
	if !ok || reply.LeaderID < 0 {
		return nil
	}
	return []N{N(anyNode{NodeID: reply.LeaderID, Host: e.Host, Port: e.Port})}
}

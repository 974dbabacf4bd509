package quorum

import (
	"slices"

	"seedlog/node/meta"
	"seedlog/node/raft"
	"seedlog/storage/record"
)

// raftVoters are the voters of a log or snapshot as the core knows them; nil for nil.
func raftVoters(voters []record.Voter) []raft.Voter {
	if voters == nil {
		return nil
	}
	out := make([]raft.Voter, 0, len(voters))
	for _, v := range voters {
		r := raft.Voter{Key: raft.ReplicaKey{ID: v.ID, Directory: v.DirectoryID}, MinKRaftVersion: v.MinKRaftVersion, MaxKRaftVersion: v.MaxKRaftVersion}
		for _, e := range v.Endpoints {
			r.Endpoints = append(r.Endpoints, raft.Endpoint(e))
		}
		out = append(out, r)
	}
	return out
}

// recordVoters is the inverse of raftVoters.
func recordVoters(voters []raft.Voter) []record.Voter {
	out := make([]record.Voter, 0, len(voters))
	for _, v := range voters {
		r := record.Voter{ID: v.Key.ID, DirectoryID: v.Key.Directory, MinKRaftVersion: v.MinKRaftVersion, MaxKRaftVersion: v.MaxKRaftVersion}
		for _, e := range v.Endpoints {
			r.Endpoints = append(r.Endpoints, record.VoterEndpoint(e))
		}
		out = append(out, r)
	}
	return out
}

// address is where to dial for the endpoints of a member: the one of this quorum's listener,
// or else the first; "" if there is none.
func (h *Host) address(endpoints []raft.Endpoint) string {
	if len(endpoints) == 0 {
		return ""
	}
	at := endpoints[0]
	for _, e := range endpoints {
		if e.Name == h.cfg.Listener {
			at = e
			break
		}
	}
	return hostPort(at)
}

func hostPort(e raft.Endpoint) string { return meta.Endpoint{Host: e.Host, Port: e.Port}.Addr() }

// OtherVoters are the ids of the quorum's other voters, as the end of the log names them.
func (h *Host) OtherVoters() []int32 {
	h.mu.Lock()
	defer h.mu.Unlock()
	var ids []int32
	for _, v := range h.known {
		if v.Key.ID != h.self.ID {
			ids = append(ids, v.Key.ID)
		}
	}
	return ids
}

// anyAddress is one of those whom a node asks that knows no leader, another one each time: the
// bootstrap servers, and the voters that the log names, for the voters may all have moved on
// from those servers since, and these may know no better. That is nobody if there are only
// this node's own addresses.
func (h *Host) anyAddress() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	servers := slices.Clone(h.cfg.Bootstrap)
	for _, v := range h.known {
		if addr := h.address(v.Endpoints); !slices.Contains(servers, addr) {
			servers = append(servers, addr)
		}
	}
	servers = slices.DeleteFunc(servers, func(addr string) bool {
		own := func(e raft.Endpoint) bool { return hostPort(e) == addr }
		return addr == "" || slices.ContainsFunc(h.cfg.Endpoints, own)
	})
	if len(servers) == 0 {
		return ""
	}
	h.asked++
	return servers[h.asked%len(servers)]
}

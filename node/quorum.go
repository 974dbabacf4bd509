package node

import (
	"slices"
	"time"

	"seedlog/node/config"
	"seedlog/node/meta"
	"seedlog/node/quorum"
	"seedlog/node/raft"
)

// quorumConfig is what the settings say about the metadata quorum.
func (l *life) quorumConfig() quorum.Config {
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	cfg := quorum.Config{
		NodeID: l.cfg.NodeID, Identity: l.identity, SnapshotBytes: l.cfg.MetadataSnapshotBytes,
		Features: l.cfg.Features, Observer: !l.cfg.IsController, Bootstrap: l.cfg.BootstrapServers,
		Endpoints:       endpoints(l.advertised(l.cfg.AdvertisedControllers())),
		ElectionTimeout: ms(l.cfg.ControllerElectionTimeoutMs), ElectionBackoffMax: ms(l.cfg.ControllerElectionBackoffMs),
		FetchTimeout: ms(l.cfg.ControllerFetchTimeoutMs), RequestTimeout: ms(l.cfg.ControllerRequestTimeoutMs),
		RetryBackoff: ms(l.cfg.ControllerRetryBackoffMs),
	}
	cfg.Guessed = slices.ContainsFunc(l.cfg.AdvertisedControllers(), config.Listener.Everywhere)
	if names := l.cfg.ControllerListeners; len(names) > 0 {
		cfg.Listener = names[0]
	}
	for _, v := range l.cfg.Voters {
		at := []config.Listener{{Name: cfg.Listener, Host: v.Host, Port: v.Port}}
		cfg.StaticVoters = append(cfg.StaticVoters, raft.Voter{
			Key: raft.ReplicaKey{ID: v.ID}, Endpoints: endpoints(at), MaxKRaftVersion: meta.KRaftVersion,
		})
	}
	return cfg
}

func endpoints(list []config.Listener) []raft.Endpoint {
	var out []raft.Endpoint
	for _, l := range list {
		out = append(out, raft.Endpoint{Name: l.Name, Host: l.Host, Port: uint16(l.Port)})
	}
	return out
}

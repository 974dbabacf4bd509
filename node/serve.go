package node

import (
	"fmt"
	"strconv"
	"strings"

	"seedlog/clock/task"
	"seedlog/net"
	"seedlog/node/api"
	"seedlog/node/config"
	"seedlog/node/conn"
)

// decodeBytesMax bounds the memory of all requests being decoded, of each role.
const decodeBytesMax = 256 << 20

// listen binds the listeners: a port that is taken must be found out before anything else
// is touched.
func (l *life) listen(t *task.T) error {
	var addrs []string
	for _, c := range l.cfg.Listeners {
		ln, err := l.h.Net.Listen(t, c.Addr())
		if err != nil {
			return fmt.Errorf("listener %s: %w", c, err)
		}
		l.listeners = append(l.listeners, ln)
		addrs = append(addrs, ln.Addr())
	}
	l.n.mu.Lock()
	l.n.addrs = addrs
	l.n.mu.Unlock()
	return nil
}

// governs reports whether the listener is a controller's.
func (l *life) governs(i int) bool { return l.cfg.IsControllerListener(l.cfg.Listeners[i].Name) }

// govern serves the other members of the quorum, and brokers that look for the controller.
// It begins before anything is known: the quorum cannot elect without.
func (l *life) govern(t *task.T) error {
	if l.control == nil {
		return nil
	}
	d := l.deps("controllers' fetch sessions")
	d.Control = l.control
	l.governing = task.NewGroup(l.h.RT, "governing")
	l.accept(l.governing, true, api.New(d, api.Controller))
	return nil
}

// serve accepts connections of clients and brokers.
func (l *life) serve(t *task.T) error {
	d := l.deps("fetch sessions")
	d.Control = l.routes.forwarding
	d.Replicas, d.Groups, d.BrokerEpoch = l.replicas, l.groups, l.broker.epoch.Load
	l.serving = task.NewGroup(l.h.RT, "serving")
	l.accept(l.serving, false, api.New(d, api.Broker))
	return nil
}

// deps are what the requests of both roles are answered from.
func (l *life) deps(random string) api.Deps {
	return api.Deps{
		RT: l.h.RT, Disk: l.h.Disk, NodeID: l.cfg.NodeID, ClusterID: l.identity.ClusterID,
		Config: l.settings.Load, Image: l.image.Load, Quorum: l.quorum, Events: l.h.Events,
		Rand: l.h.Rand(random), BrokerEpoch: func() int64 { return -1 }, DecodeBytesMax: decodeBytesMax,
	}
}

// accept accepts connections of the controller listeners, or of the others.
func (l *life) accept(g *task.Group, controllers bool, svc *api.Service) {
	budget := conn.NewBudget(l.h.RT, l.cfg.QueuedMaxRequestBytes)
	l.n.mu.Lock()
	l.n.frames = append(l.n.frames, budget)
	l.n.mu.Unlock()
	for i, ln := range l.listeners {
		if l.governs(i) != controllers {
			continue
		}
		cfg := conn.Config{
			Name: l.cfg.Listeners[i].Name, FrameMaxBytes: l.cfg.SocketRequestMaxBytes,
			IdleMaxMs: l.cfg.ConnectionsMaxIdleMs, MaxConnections: func() int { return int(l.settings.Load().MaxConnections) },
			MaxConnectionsPerIP: func() int { return int(l.settings.Load().MaxConnectionsPerIP) },
			Budget:              budget, Events: l.h.Events,
		}
		g.Go("accept "+cfg.Name, func(t *task.T) { conn.Serve(t, cfg, ln, svc) })
	}
}

// advertised fills in what the settings leave open of where others connect to: the host, and
// the port if it was drawn.
func (l *life) advertised(list []config.Listener) []config.Listener {
	var out []config.Listener
	for _, adv := range list {
		if adv.Everywhere() {
			adv.Host = "localhost"
		}
		if adv.Port == 0 {
			for i, c := range l.cfg.Listeners {
				if c.Name == adv.Name {
					adv.Port = portOf(l.listeners[i])
				}
			}
		}
		out = append(out, adv)
	}
	return out
}

// portOf is the port that a listener is bound to.
func portOf(ln net.Listener) int32 {
	addr := ln.Addr()
	port, err := strconv.ParseUint(addr[strings.LastIndexByte(addr, ':')+1:], 10, 16)
	if err != nil {
		return 0
	}
	return int32(port)
}

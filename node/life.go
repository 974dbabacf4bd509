package node

import (
	"errors"
	"fmt"
	"time"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/net"
	"seedlog/node/config"
	"seedlog/node/control"
	"seedlog/node/coord"
	"seedlog/node/coord/hosted"
	"seedlog/node/group"
	"seedlog/node/meta"
	"seedlog/node/peer"
	"seedlog/node/quorum"
	"seedlog/node/replica"
)

// life is one run of a node: what was started, in the order in which it was, so that it can
// be ended in the opposite one.
type life struct {
	n     *Node
	h     Host
	cfg   *config.Config
	began clock.Instant

	listeners []net.Listener // as cfg.Listeners
	dirs      []*openDir
	identity  quorum.Identity // of the metadata directory
	image     task.Published[meta.Image]
	settings  task.Published[config.Config]

	quorum     *quorum.Host
	controlled *task.Group   // the quorum, and the controller
	control    *control.Host // nil if the node is no controller
	routes     routes
	governing  *task.Group // connections of the controller listeners

	// The broker, nil if the node is none.
	replicas  *replica.Manager
	groups    *coord.Coordinator
	broker    *broker
	assigner  *assigner
	brokering *task.Group // coordinators, reports to the controller
	serving   *task.Group // connections of the other listeners
	hosted    task.Event  // the partitions of the first metadata are there
}

// start brings everything up. After an error end must be called all the same.
func (l *life) start(t *task.T) error {
	l.began = t.Now()
	l.image.Init(l.h.RT, meta.Empty())
	l.hosted.Init(l.h.RT, "node.hosted")
	l.settings.Init(l.h.RT, l.cfg)
	steps := []func(*task.T) error{l.listen, l.open, l.identify, l.openMetadata, l.decide, l.govern}
	if l.cfg.IsBroker {
		steps = append(steps, l.register, l.loaded, l.unfence, l.serve)
	} else {
		steps = append(steps, l.loaded)
	}
	for _, step := range steps {
		if err := step(t); err != nil {
			return err
		}
	}
	return nil
}

// decide starts the quorum, the controller and what follows their decisions.
func (l *life) decide(t *task.T) error {
	if l.cfg.IsController {
		l.control = control.New(l.h.RT, l.quorum, l.cfg, l.h.Rand("controller"))
		l.control.Events = l.h.Events
	}
	l.routes = routes{lifecycle: l.router("lifecycle", 2), partitions: l.router("partitions", 1), forwarding: l.router("forwarding", 4)}
	l.quorum.Subscribe(listenerFunc(l.settingsChanged))
	if l.cfg.IsBroker {
		l.hostPartitions()
	}
	l.quorum.Subscribe(listenerFunc(func(_ *task.T, d *meta.Delta) {
		l.image.Store(d.To)
		l.hosted.Set()
		l.n.moved.Raise()
		if l.broker != nil {
			l.broker.metadataChanged(d)
		}
	}))
	if l.cfg.IsBroker {
		l.quorum.Subscribe(hosted.New(l.groups, l.replicas, l.cfg.NodeID))
		l.quorum.Subscribe(l.assigner)
	}
	l.controlled = task.NewGroup(l.h.RT, "quorum")
	for _, d := range l.dirs {
		if !d.data {
			l.controlled.Go("dir "+d.Path(), d.Run)
		}
	}
	l.run("quorum", l.quorum.Run)
	if l.control != nil {
		l.run("controller", l.control.Run)
		l.controlled.Go("controller registration", newRegistrar(l).run)
	}
	return nil
}

// run runs a part of the node without which it cannot go on.
func (l *life) run(name string, part func(*task.T) error) {
	l.controlled.Go(name, func(t *task.T) {
		if err := part(t); err != nil {
			l.n.fail(err)
		}
	})
}

// hostPartitions makes what follows the metadata on a broker.
func (l *life) hostPartitions() {
	data := make([]replica.Dir, 0, len(l.dirs))
	for _, d := range l.dirs {
		if d.data {
			data = append(data, replica.Dir{ID: d.id, Dir: d.Dir})
		}
	}
	l.broker = newBroker(l)
	l.replicas = replica.NewManager(replica.Env{
		RT: l.h.RT, Self: l.cfg.NodeID, Config: l.settings.Load, Dirs: data, Events: l.h.Events,
		Dial:                func(name string) replica.Remote { return l.peer(name) },
		InterBrokerListener: l.cfg.InterBrokerListener,
		Controller:          l.routes.partitions,
		BrokerEpoch:         l.broker.epoch.Load,
		Incarnation:         l.broker.incarnation,
		Placed:              func(k replica.Key) { l.assigner.tell(k) },
	})
	l.brokering = task.NewGroup(l.h.RT, "broker")
	l.groups = coord.New(coord.Env{
		RT: l.h.RT, Tasks: l.brokering, Events: l.h.Events, Rand: l.h.Rand, Config: func() group.Config { return coord.GroupConfig(l.settings.Load()) },
	}, l.cfg.OffsetsTopicPartitions)
	l.assigner = newAssigner(l)
	l.quorum.Subscribe(listenerFunc(l.recoverLogs))
	l.quorum.Subscribe(l.replicas)
}

// listenerFunc is a function that listens to the metadata.
type listenerFunc func(t *task.T, d *meta.Delta)

func (f listenerFunc) MetadataChanged(t *task.T, d *meta.Delta) { f(t, d) }

// settingsChanged takes over what the metadata sets for this broker and for all.
func (l *life) settingsChanged(_ *task.T, d *meta.Delta) {
	for _, r := range d.Configs {
		if r.Type == meta.BrokerResource {
			own := d.To.Config(meta.BrokerResource, fmt.Sprint(l.cfg.NodeID)).Map()
			l.settings.Store(l.cfg.WithDynamic(own, d.To.Config(meta.BrokerResource, "").Map()))
			return
		}
	}
}

// routes are the ways to the active controller. None waits behind the requests of another:
// a report that is late gets the broker fenced.
type routes struct {
	lifecycle  *control.Router // registrations and reports
	partitions *control.Router // what the partitions of this broker want changed
	forwarding *control.Router // what clients want
}

func (r routes) all() []*control.Router {
	if r.lifecycle == nil {
		return nil
	}
	return []*control.Router{r.lifecycle, r.partitions, r.forwarding}
}

// router returns a new way to the active controller, with so many connections.
func (l *life) router(name string, lines int) *control.Router {
	return control.NewRouter(control.RouterEnv{
		RT: l.h.RT, Host: l.control, Leader: l.leader, Lines: lines,
		Connect: func(name string) control.Peer { return l.peer(name) },
		Process: fmt.Sprintf("node-%d/%016x", l.cfg.NodeID, l.h.Rand("router "+name).Uint64()),
	}, name)
}

// peer returns a new client of other nodes.
func (l *life) peer(name string) *peer.Client {
	return peer.NewClient(peer.Env{RT: l.h.RT, Net: l.h.Net, ClientID: fmt.Sprintf("node-%d", l.cfg.NodeID), Events: l.h.Events}, name)
}

// leader is who leads the quorum.
func (l *life) leader() control.Leader {
	id, epoch, addr := l.quorum.LeaderAddr()
	return control.Leader{ID: id, Epoch: epoch, Self: l.quorum.Leads(), Addr: addr}
}

// leaderMoved tells those who wait for the controller that there is another.
func (l *life) leaderMoved() {
	if l.control != nil {
		l.control.LeaderMoved()
	}
	for _, r := range l.routes.all() {
		r.LeaderMoved()
	}
	l.n.moved.Raise()
}

// register makes the broker known to the controller.
func (l *life) register(t *task.T) error {
	l.brokering.Go("lifecycle", l.broker.run)
	return l.n.await(t, l.broker.registered.IsSet)
}

// loaded waits until the partitions of the first metadata are hosted: a directory that was
// not loaded must neither serve nor be marked as cleanly stopped.
func (l *life) loaded(t *task.T) error { return l.n.await(t, l.hosted.IsSet) }

// unfence waits until the controller lets the broker lead.
func (l *life) unfence(t *task.T) error {
	l.broker.becomeReady()
	return l.n.await(t, l.broker.unfenced.IsSet)
}

// end takes everything down, in the opposite order. clean tells that the directories can be
// marked as cleanly stopped.
func (l *life) end(t *task.T, clean bool) error {
	if clean && l.broker != nil && l.cfg.ControlledShutdown {
		l.broker.leave(t)
	}
	l.endBroker(t)
	if l.control != nil {
		l.handOver(t)
	}
	for i, ln := range l.listeners {
		if l.governs(i) {
			ln.Close()
		}
	}
	stop(t, l.governing)
	stop(t, l.controlled, l.routes.lifecycle)
	return l.closeDirs(t, clean)
}

// handOver has another member lead the quorum, if this node does, and waits a little for it:
// the others need not find out by time.
func (l *life) handOver(t *task.T) {
	leads := func() bool { id, _ := l.quorum.Leader(); return id == l.cfg.NodeID }
	others := false
	for c := range l.image.Load().Controllers() {
		others = others || c.ControllerID != l.cfg.NodeID
	}
	if !leads() || !others {
		return
	}
	l.quorum.Resign(t)
	until := t.Now().Add(time.Duration(l.cfg.ControllerElectionTimeoutMs) * time.Millisecond)
	for t.Now() < until {
		seen := l.n.moved.Generation()
		if id, _ := l.quorum.Leader(); id >= 0 && id != l.cfg.NodeID {
			return
		}
		l.n.moved.Wait(t, seen, until)
	}
}

// endBroker ends what only a broker has.
func (l *life) endBroker(t *task.T) {
	for i, ln := range l.listeners {
		if !l.governs(i) {
			ln.Close()
		}
	}
	stop(t, l.serving, l.routes.forwarding)
	stop(t, l.brokering, l.routes.lifecycle, l.routes.partitions)
	if l.replicas != nil {
		l.replicas.Close(t)
	}
}

func (l *life) closeDirs(t *task.T, clean bool) error {
	var failures []error
	for _, d := range l.dirs {
		var err error
		if clean && l.broker != nil && d.Err() == nil {
			err = d.CloseClean(t, l.broker.epoch.Load())
		} else {
			err = d.Close(t)
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("log directory %s: %w", d.Path(), err))
		}
	}
	return errors.Join(failures...)
}

// stop ends a group, if it began. Its tasks may wait for an answer of the controller, and
// that the group stops does not wake them: the routes that they took are closed.
func stop(t *task.T, g *task.Group, taken ...*control.Router) {
	if g == nil {
		return
	}
	g.Stop()
	for _, r := range taken {
		r.Close()
	}
	g.Wait(t)
}

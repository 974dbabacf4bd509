package node

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/net"
	"seedlog/node/api"
	"seedlog/node/config"
	"seedlog/node/conn"
	"seedlog/node/control"
	"seedlog/node/coord"
	"seedlog/node/coord/hosted"
	"seedlog/node/event"
	"seedlog/node/group"
	"seedlog/node/meta"
	"seedlog/node/quorum"
	"seedlog/node/replica"
	"seedlog/storage"
)

// decodeBytesMax bounds the memory of all requests being decoded.
const decodeBytesMax = 256 << 20

// life is one run of a node: what was started, in the order in which it was, so that it can
// be ended in the opposite one.
type life struct {
	n     *Node
	h     Host
	cfg   *config.Config
	began clock.Instant

	listeners []net.Listener
	dirs      []*openDir
	identity  quorum.Identity // of the metadata directory
	image     task.Published[meta.Image]
	settings  task.Published[config.Config]

	quorum     *quorum.Host
	control    *control.Host
	controlled *task.Group // quorum and controller
	replicas   *replica.Manager
	groups     *coord.Coordinator
	broker     *broker
	hosting    task.Event  // the first metadata's partitions are there
	brokering  *task.Group // coordinators, heartbeats
	serving    *task.Group // accepting and connections
}

// openDir is a log directory with its identity.
type openDir struct {
	*storage.Dir
	id       meta.UUID
	metadata bool // holds the metadata log
	data     bool // is one of log.dirs
}

// start brings everything up. After an error end must be called all the same.
func (l *life) start(t *task.T) error {
	l.began = t.Now()
	l.image.Init(l.h.RT, meta.Empty())
	l.hosting.Init(l.h.RT, "node.hosting")
	l.settings.Init(l.h.RT, l.cfg)
	for _, step := range []func(*task.T) error{l.listen, l.open, l.identify, l.openMetadata, l.decide, l.register, l.recovered, l.serve} {
		if err := step(t); err != nil {
			return err
		}
	}
	return nil
}

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

// open locks the directories.
func (l *life) open(t *task.T) error {
	paths := slices.Clone(l.cfg.LogDirs)
	if !slices.Contains(paths, l.cfg.MetadataLogDir) {
		paths = append(paths, l.cfg.MetadataLogDir)
	}
	env := storage.Env{RT: l.h.RT, Disk: l.h.Disk, Events: observer{l.h.Events}}
	for _, path := range paths {
		metadata := path == l.cfg.MetadataLogDir
		cfg := storage.DirConfig{RecoveryThreads: l.cfg.NumRecoveryThreads}
		if metadata {
			cfg.BallastBytes = ballastBytes
		}
		env.Rand = l.h.Rand("storage " + path)
		d, err := storage.OpenDir(t, env, path, cfg)
		if err != nil {
			return fmt.Errorf("log directory %s: %w", path, err)
		}
		l.dirs = append(l.dirs, &openDir{Dir: d, metadata: metadata, data: slices.Contains(l.cfg.LogDirs, path)})
	}
	return nil
}

// ballastBytes is what a full disk gives back so that topics can be deleted.
const ballastBytes = 16 << 20

// identify reads the directories' meta.properties, or formats them all if none has one and
// the host allows it.
func (l *life) identify(t *task.T) error {
	paths := make([]string, 0, len(l.dirs))
	for _, d := range l.dirs {
		paths = append(paths, d.Path())
	}
	ids, missing, err := quorum.Load(t, l.h.Disk, l.cfg.NodeID, paths)
	if err != nil {
		return err
	}
	switch {
	case len(missing) == len(paths) && l.h.Format:
		if ids, err = l.format(t, paths); err != nil {
			return err
		}
	case len(missing) > 0:
		return fmt.Errorf("%w: %s has no meta.properties", ErrNotFormatted, strings.Join(missing, ", "))
	}
	for _, d := range l.dirs {
		id := ids[d.Path()]
		d.id = id.DirectoryID
		if d.metadata {
			l.identity = id
		}
	}
	return nil
}

func (l *life) format(t *task.T, paths []string) (map[string]quorum.Identity, error) {
	adv := l.advertised()
	spec := quorum.FormatSpec{
		LogDirs: paths, MetadataLogDir: l.cfg.MetadataLogDir, NodeID: l.cfg.NodeID,
		Entropy: l.h.Entropy, UnixMilli: t.UnixMilli(),
		ControllerListener: adv[0].Name, Host: adv[0].Host, Port: uint16(adv[0].Port),
	}
	l.n.event("formatting", int64(len(paths)), l.cfg.MetadataLogDir)
	return quorum.Format(t, l.h.Disk, spec)
}

// openMetadata opens the metadata log. The logs of the directories are recovered later,
// under the settings that it holds for their topics.
func (l *life) openMetadata(t *task.T) error {
	for _, d := range l.dirs {
		if !d.metadata {
			continue
		}
		log, err := d.Open(t, quorum.ClusterMetadata, quorum.ClusterMetadataID(), 0, metadataLogConfig())
		if err != nil {
			return fmt.Errorf("metadata log in %s: %w", d.Path(), err)
		}
		env := quorum.Env{RT: l.h.RT, Disk: l.h.Disk, Events: l.h.Events}
		cfg := quorum.Config{NodeID: l.cfg.NodeID, Identity: l.identity, SnapshotBytes: l.cfg.MetadataSnapshotBytes}
		l.quorum, err = quorum.Open(t, env, cfg, log, d.Path()+"/"+log.Name())
		if err != nil {
			return err
		}
	}
	return nil
}

// recoverLogs recovers the logs of all directories at once, when the first metadata is
// there: a log that is rebuilt under other settings than its own would not be the same.
func (l *life) recoverLogs(t *task.T, d *meta.Delta) {
	if d.From.Offset >= 0 {
		return
	}
	group := task.NewGroup(l.h.RT, "loading")
	failures := make([]error, len(l.dirs))
	for i, dir := range l.dirs {
		if dir.data {
			group.Go("load "+dir.Path(), func(t *task.T) { failures[i] = l.loadDir(t, dir, d.To) })
		}
	}
	group.Wait(t)
	if err := l.lostDirs(failures); err != nil {
		l.fail(err)
		return
	}
	l.replicas.Adopt(quorum.ClusterMetadata)
	l.replicas.Start()
}

// lostDirs judges directories that failed while they were loaded, by position: without the
// metadata's, or without any for data, there is no node; else the others go on.
func (l *life) lostDirs(failures []error) error {
	online := 0
	for i, d := range l.dirs {
		switch {
		case failures[i] != nil && d.metadata:
			return failures[i]
		case failures[i] != nil:
			l.h.Events.Emit(event.PartitionFailed{Topic: d.Path(), Partition: -1, Err: failures[i]})
		case d.data:
			online++
		}
	}
	if online == 0 {
		return errors.Join(failures...)
	}
	return nil
}

// fail ends the node, whatever it waits for.
func (l *life) fail(err error) {
	l.n.fail(err)
	l.hosting.Set()
}

func (l *life) loadDir(t *task.T, d *openDir, image *meta.Image) error {
	cfg := l.settings.Load()
	logs, err := d.Load(t, func(topic string, _ [16]byte) storage.Config {
		settings := cfg.Topic(image.Config(meta.TopicResource, topic).Map())
		return replica.LogConfig(cfg, &settings)
	}, func(p storage.Progress) {
		l.h.Events.Emit(event.Loading{Dir: d.Path(), LogsDone: p.LogsDone, Logs: p.LogsTotal, SegmentsDone: p.SegmentsDone, Segments: p.SegmentsTotal})
	})
	if err != nil {
		return err
	}
	l.n.event("loaded", int64(len(logs)), d.Path())
	return nil
}

// metadataLogConfig is what Kafka gives the metadata log.
func metadataLogConfig() storage.Config {
	return storage.Config{
		SegmentBytes: 1 << 30, MaxMessageBytes: 8 << 20,
		SegmentMs: 7 * 24 * 3600 * 1000, RetentionMs: -1, RetentionBytes: -1,
	}
}

// decide starts the quorum, the controller and what follows their decisions.
func (l *life) decide(t *task.T) error {
	data := make([]replica.Dir, 0, len(l.dirs))
	for _, d := range l.dirs {
		if d.data {
			data = append(data, replica.Dir{ID: d.id, Dir: d.Dir})
		}
	}
	l.replicas = replica.NewManager(replica.Env{
		RT: l.h.RT, Self: l.cfg.NodeID, Config: l.settings.Load, Dirs: data, Events: l.h.Events,
	})
	l.brokering = task.NewGroup(l.h.RT, "broker")
	l.groups = coord.New(coord.Env{
		RT: l.h.RT, Tasks: l.brokering, Events: l.h.Events, Rand: l.h.Rand, Config: func() group.Config { return coord.GroupConfig(l.settings.Load()) },
	}, l.cfg.OffsetsTopicPartitions)
	l.quorum.Subscribe(listenerFunc(l.settingsChanged))
	l.quorum.Subscribe(listenerFunc(l.recoverLogs))
	l.quorum.Subscribe(l.replicas)
	l.quorum.Subscribe(listenerFunc(func(_ *task.T, d *meta.Delta) {
		l.image.Store(d.To)
		l.hosting.Set()
	}))
	l.quorum.Subscribe(hosted.New(l.groups, l.replicas, l.cfg.NodeID))

	l.control = control.New(l.h.RT, l.quorum, l.cfg, l.h.Rand("controller"))
	l.controlled = task.NewGroup(l.h.RT, "quorum")
	for _, d := range l.dirs {
		if !d.data {
			l.controlled.Go("dir "+d.Path(), d.Run)
		}
	}
	l.controlled.Go("quorum", func(t *task.T) {
		if err := l.quorum.Run(t); err != nil {
			l.fail(err)
		}
	})
	l.controlled.Go("controller", func(t *task.T) {
		if err := l.control.Run(t); err != nil {
			l.fail(err)
		}
	})
	return nil
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

// register makes the broker known and waits until the controller lets it lead.
func (l *life) register(t *task.T) error {
	l.broker = newBroker(l)
	return l.broker.register(t)
}

// recovered waits until the partitions of the first metadata are hosted: a directory that
// was not loaded must neither serve nor be marked as cleanly stopped.
func (l *life) recovered(t *task.T) error {
	l.hosting.Wait(t, clock.Never)
	return l.n.failure()
}

// serve accepts connections.
func (l *life) serve(t *task.T) error {
	svc := api.New(api.Deps{
		RT: l.h.RT, Disk: l.h.Disk, NodeID: l.cfg.NodeID, ClusterID: l.identity.ClusterID,
		Config: l.settings.Load, Image: l.image.Load, Quorum: l.quorum, Control: l.control,
		Replicas: l.replicas, Groups: l.groups, Events: l.h.Events, Rand: l.h.Rand("fetch sessions"),
		BrokerEpoch: l.broker.epoch.Load, DecodeBytesMax: decodeBytesMax,
	})
	budget := conn.NewBudget(l.h.RT, l.cfg.QueuedMaxRequestBytes)
	l.n.mu.Lock()
	l.n.frames = budget
	l.n.mu.Unlock()
	l.serving = task.NewGroup(l.h.RT, "serving")
	for i, ln := range l.listeners {
		cfg := conn.Config{
			Name: l.cfg.Listeners[i].Name, FrameMaxBytes: l.cfg.SocketRequestMaxBytes,
			IdleMaxMs: l.cfg.ConnectionsMaxIdleMs, MaxConnections: int(l.cfg.MaxConnections),
			Budget: budget, Events: l.h.Events,
		}
		l.serving.Go("accept "+cfg.Name, func(t *task.T) { conn.Serve(t, cfg, ln, svc) })
	}
	l.brokering.Go("heartbeat", l.broker.heartbeats)
	return nil
}

// end takes everything down, in the opposite order. clean tells that the directories can be
// marked as cleanly stopped.
func (l *life) end(t *task.T, clean bool) error {
	for _, ln := range l.listeners {
		ln.Close()
	}
	stop(t, l.serving)
	stop(t, l.brokering)
	if l.replicas != nil {
		l.replicas.Close(t)
	}
	stop(t, l.controlled)
	var failures []error
	for _, d := range l.dirs {
		var err error
		if clean && d.Err() == nil {
			err = d.CloseClean(t, l.brokerEpoch())
		} else {
			err = d.Close(t)
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("log directory %s: %w", d.Path(), err))
		}
	}
	return errors.Join(failures...)
}

func (l *life) brokerEpoch() int64 {
	if l.broker == nil {
		return -1
	}
	return l.broker.epoch.Load()
}

func stop(t *task.T, g *task.Group) {
	if g != nil {
		g.Stop()
		g.Wait(t)
	}
}

package replica

import (
	"fmt"
	"slices"

	"seedlog/clock/task"
	"seedlog/node/config"
	"seedlog/node/event"
	"seedlog/node/meta"
	"seedlog/storage"
)

// Env is what a Manager works with.
type Env struct {
	RT   task.Runtime
	Self int32 // this broker's id
	// Config is the newest settings of the broker.
	Config func() *config.Config
	// Dirs are the opened and loaded log directories, the metadata's among them.
	Dirs []Dir
	// Events may be nil.
	Events event.Sink

	// Dial makes the client through which a fetcher asks another broker; name is what errors
	// call it. Without it nothing is copied from other brokers.
	Dial func(name string) Remote
	// InterBrokerListener is the listener that brokers are reached on.
	InterBrokerListener string
	// Controller is asked for in-sync sets. Without it they stay as they are.
	Controller Controller
	// BrokerEpoch is the epoch of this broker's registration.
	BrokerEpoch func() int64
	// Incarnation is this run of the broker, as it registers. Until the metadata shows it, what
	// it says of leaders is from before the start, and nothing is led: whoever led then may have
	// lost its tail since, or its leadership. Zero is nobody in particular.
	Incarnation meta.UUID
	// Placed has the controller told where a replica is (PlaceOf); who does so calls PlaceTold. It
	// must not wait. Without it nobody is told.
	Placed func(Key)
}

// Dir is a log directory with its id from meta.properties.
type Dir struct {
	ID  meta.UUID
	Dir *storage.Dir
}

// Manager hosts the partitions of one broker.
type Manager struct {
	rt        task.Runtime
	self      int32
	config    func() *config.Config
	dirs      []Dir
	events    event.Sink
	purgatory *Purgatory
	group     *task.Group

	dial              func(name string) Remote
	listener          string // between brokers
	controller        Controller
	brokerEpoch       func() int64
	incarnation       meta.UUID
	fetchersPerBroker int32                      // of the task that brings the metadata
	image             task.Published[meta.Image] // the newest
	isr               isrKeeper
	sent, received    throttle // of throttled replicas, to followers and from leaders
	moved             throttle // between directories
	placed            func(Key)
	moves             task.Int64 // and wishes: how many there were since the start

	mu         task.Mutex
	partitions map[Key]*Partition
	failed     map[Key]error           // assigned here, and no directory could take them
	unclaimed  map[Key][]*storage.Log  // loaded, and not yet seen in the metadata; several where a topic id is missing
	deleted    []meta.UUID             // topics that the first metadata says were deleted
	names      map[name][]*storage.Log // of unclaimed
	futures    map[Key]*storage.Log    // loaded copies of replicas that were moving between directories
	wishes     map[name]*storage.Dir   // where replicas are to be that are not here
	movers     map[*storage.Dir]*mover // by the directory that they move to
	hosts      map[*storage.Dir]int    // how many partitions each directory has
	fetchers   map[source]*fetcher
	sources    []*fetcher                   // of fetchers, in the order of creation
	list       task.Published[[]*Partition] // in the order of creation; copied on write
}

// name is what a log's directory is called.
type name struct {
	topic     string
	partition int32
}

func keyOf(l *storage.Log) Key { return Key{l.TopicID(), l.Partition()} }

// NewManager hosts nothing yet. Partitions come with the metadata (MetadataChanged), which
// claims the logs that were adopted.
func NewManager(env Env) *Manager {
	m := &Manager{
		rt: env.RT, self: env.Self, config: env.Config, dirs: env.Dirs, events: env.Events,
		purgatory:  NewPurgatory(env.RT),
		group:      task.NewGroup(env.RT, "replica"),
		partitions: map[Key]*Partition{},
		failed:     map[Key]error{},
		unclaimed:  map[Key][]*storage.Log{},
		names:      map[name][]*storage.Log{},
		futures:    map[Key]*storage.Log{},
		wishes:     map[name]*storage.Dir{},
		movers:     map[*storage.Dir]*mover{},
		hosts:      map[*storage.Dir]int{},
		fetchers:   map[source]*fetcher{},

		dial: env.Dial, listener: env.InterBrokerListener, controller: env.Controller, brokerEpoch: env.BrokerEpoch,
		fetchersPerBroker: env.Config().NumReplicaFetchers, incarnation: env.Incarnation, placed: env.Placed,
	}
	if m.brokerEpoch == nil {
		m.brokerEpoch = func() int64 { return -1 }
	}
	m.image.Init(env.RT, meta.Empty())
	m.isr.init(m)
	m.sent.init(env.RT)
	m.received.init(env.RT)
	m.moved.init(env.RT)
	m.mu.Init(env.RT, "replica.Manager")
	m.list.Init(env.RT, new([]*Partition))
	return m
}

// Adopt takes over the logs that the directories have loaded, before the first metadata;
// skip names the topics whose logs are somebody else's.
func (m *Manager) Adopt(skip ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range m.dirs {
		for _, l := range d.Dir.Logs() {
			if l.Future() {
				m.futures[keyOf(l)] = l
				m.moves.Add(1)
			} else if !slices.Contains(skip, l.Topic()) {
				m.unclaimed[keyOf(l)] = append(m.unclaimed[keyOf(l)], l)
				n := name{l.Topic(), l.Partition()}
				m.names[n] = append(m.names[n], l)
			}
		}
	}
}

// Start begins the periodic work. Close ends it.
func (m *Manager) Start() {
	cfg := m.config()
	m.group.Go("purgatory", m.purgatory.Run)
	if m.controller != nil {
		m.group.Go("in-sync sets", m.isr.run)
	}
	m.every("high watermark checkpoint", cfg.HighWatermarkCheckpointMs, (*storage.Dir).CheckpointHighWatermarks)
	m.every("recovery point checkpoint", cfg.RecoveryPointCheckpointMs, (*storage.Dir).CheckpointRecoveryPoints)
	m.every("log start checkpoint", cfg.LogStartCheckpointMs, (*storage.Dir).CheckpointLogStarts)
	m.group.Go("idle producers", m.forgetProducers)
	for _, d := range m.dirs {
		m.group.Go("dir "+d.Dir.Path(), d.Dir.Run)
		d.Dir.OnOffline(func(error) { m.group.Go("offline "+d.Dir.Path(), func(*task.T) { m.wakeDir(d.Dir) }) })
	}
}

// every writes a checkpoint of each online directory every so many milliseconds. A failed
// write takes the directory offline, which the directory says itself.
func (m *Manager) every(name string, ms int64, write func(*storage.Dir, *task.T) error) {
	m.group.Go(name, func(t *task.T) {
		for t.Sleep(t.Now().Add(millis(ms))) {
			for _, d := range m.dirs {
				if d.Dir.Err() != nil {
					continue
				}
				if err := write(d.Dir, t); err != nil {
					m.emit(event.CheckpointFailed{Dir: d.Dir.Path(), What: name, Err: err})
				}
			}
		}
	})
}

// forgetProducers has every replica, whoever leads it, forget the producers that are idle for
// producer.id.expiration.ms.
func (m *Manager) forgetProducers(t *task.T) {
	for t.Sleep(t.Now().Add(millis(m.config().ProducerIDExpirationCheckMs))) {
		for _, p := range m.Partitions() {
			p.log.ExpireProducers(t.UnixMilli())
		}
	}
}

// wakeDir lets those who wait for a partition of a failed directory see it.
func (m *Manager) wakeDir(d *storage.Dir) {
	for _, p := range m.Partitions() {
		if p.log.Dir() == d {
			p.check()
		}
	}
	m.wakeMovers()
}

func (m *Manager) emit(e event.Event) {
	if m.events != nil {
		m.events.Emit(e)
	}
}

// Purgatory is where the operations wait that partitions complete.
func (m *Manager) Purgatory() *Purgatory { return m.purgatory }

// Partitions are all that are hosted, in the order of creation.
func (m *Manager) Partitions() []*Partition { return *m.list.Load() }

// Dirs are the log directories.
func (m *Manager) Dirs() []Dir { return m.dirs }

// Partition returns a hosted partition. The errors are ErrUnknownPartition and
// storage.ErrOffline.
func (m *Manager) Partition(k Key) (*Partition, error) {
	m.mu.Lock()
	p, err := m.partitions[k], m.failed[k]
	m.mu.Unlock()
	if p != nil {
		return p, nil
	}
	if err != nil {
		return nil, fmt.Errorf("partition %d of topic %s: %w: %w", k.Partition, meta.UUIDString(k.Topic), storage.ErrOffline, err)
	}
	return nil, fmt.Errorf("partition %d of topic %s: %w", k.Partition, meta.UUIDString(k.Topic), ErrUnknownPartition)
}

// minISRRaised takes a higher min.insync.replicas over before the partitions that change with it: on
// it may rest that an ISR is smaller now, and that who left it may still lead. A lower one comes after
// them, with the other settings (configsChanged).
func (m *Manager) minISRRaised(d *meta.Delta) {
	m.configured(d, func(p *Partition, next config.Topic) {
		if now := *p.Settings(); now.MinInsyncReplicas < next.MinInsyncReplicas {
			now.MinInsyncReplicas = next.MinInsyncReplicas
			p.settings.Store(&now)
		}
	})
}

// configsChanged takes over changed settings.
func (m *Manager) configsChanged(t *task.T, d *meta.Delta) {
	if len(d.Configs) == 0 {
		return
	}
	cfg := m.config()
	m.spread(cfg.NumReplicaFetchers)
	m.configured(d, func(p *Partition, settings config.Topic) {
		p.settings.Store(&settings)
		p.log.SetConfig(logConfig(cfg, &settings))
		if f := m.FutureOf(p); f != nil {
			f.SetConfig(logConfig(cfg, &settings))
		}
		p.syncRest(t)
		p.advance()
	})
}

// configured calls fn for each partition whose settings may be others now: those of its topic
// changed, or those of the broker, which all topics inherit from.
func (m *Manager) configured(d *meta.Delta, fn func(*Partition, config.Topic)) {
	if len(d.Configs) == 0 {
		return
	}
	cfg := m.config()
	broker := slices.ContainsFunc(d.Configs, func(r meta.ConfigResource) bool { return r.Type == meta.BrokerResource })
	changed := func(topic string) bool {
		_, found := slices.BinarySearchFunc(d.Configs, meta.ConfigResource{Type: meta.TopicResource, Name: topic}, compareResource)
		return found
	}
	for _, p := range m.Partitions() {
		if broker || changed(p.topic) {
			fn(p, cfg.Topic(d.To.Config(meta.TopicResource, p.topic).Map()))
		}
	}
}

// Close stops the periodic work and fails whoever still waits. The directories stay open:
// they are their opener's to close.
func (m *Manager) Close(t *task.T) {
	for _, p := range m.Partitions() {
		p.close()
	}
	m.group.Stop()
	for _, f := range m.allFetchers() {
		f.close()
	}
	m.group.Wait(t)
}

package replica

import (
	"errors"
	"fmt"
	"slices"

	"seedlog/clock/task"
	"seedlog/node/config"
	"seedlog/node/event"
	"seedlog/node/meta"
	"seedlog/node/partition"
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

// MetadataChanged implements quorum.Listener: it makes, deletes and re-leads partitions.
func (m *Manager) MetadataChanged(t *task.T, d *meta.Delta) {
	m.image.Store(d.To)
	if d.From.Offset < 0 {
		m.mu.Lock()
		m.deleted = d.Deleted
		m.mu.Unlock()
	}
	var work []assignment
	for i := range d.Topics {
		topic := &d.Topics[i]
		if topic.New == nil {
			m.deleteTopic(t, topic.Old)
			continue
		}
		for _, index := range topic.Changed() {
			// What the first metadata names may be in a directory that is offline.
			fresh := d.From.Offset >= 0 && topic.Old.Partition(index) == nil
			work = append(work, assignment{topic.New, index, fresh})
		}
	}
	m.assignAll(t, d.To, append(work, m.begun(d)...))
	if d.From.Offset < 0 {
		m.strayUnclaimed(t)
		m.dropFutures(t)
	}
	m.wakeMovers()
	m.configsChanged(d)
	if len(d.Brokers) > 0 {
		m.brokersChanged()
	}
}

// brokersChanged lets those look again who wait for another broker: to be reached, or to be
// gone.
func (m *Manager) brokersChanged() {
	m.wakeFetchers()
	for _, p := range m.Partitions() {
		if !p.advance() { // who is fenced is awaited no longer
			m.purgatory.Check(&p.Committed)
		}
	}
}

// registered reports whether the metadata shows this run of the broker.
func (m *Manager) registered(image *meta.Image) bool {
	b := image.Broker(m.self)
	return m.incarnation == meta.UUID{} || b != nil && b.IncarnationID == m.incarnation
}

// begun are the partitions that this broker is to lead, unchanged by the delta, if with it the
// registration came.
func (m *Manager) begun(d *meta.Delta) (work []assignment) {
	if m.registered(d.From) || !m.registered(d.To) {
		return nil
	}
	for topic := range d.To.Topics() {
		for i, p := range topic.Partitions {
			if p.Leader == m.self && d.From.Partition(topic.ID, int32(i)) == p {
				work = append(work, assignment{topic: topic, index: int32(i)})
			}
		}
	}
	return work
}

// assignment is a partition whose metadata changed.
type assignment struct {
	topic *meta.Topic
	index int32
	fresh bool // the partition was created by this change: no directory has it yet
}

// Many partitions are assigned by several tasks, for each waits for the disk.
const (
	assignTasks = 8
	assignAlone = 4 // so few are not worth a task
)

func (m *Manager) assignAll(t *task.T, image *meta.Image, work []assignment) {
	if len(work) <= assignAlone {
		for _, a := range work {
			m.assign(t, image, a)
		}
		return
	}
	group := task.NewGroup(m.rt, "assign")
	var taken task.Int64
	for range min(assignTasks, len(work)) {
		group.Go("assign", func(t *task.T) {
			for i := taken.Add(1) - 1; i < int64(len(work)); i = taken.Add(1) - 1 {
				m.assign(t, image, work[i])
			}
		})
	}
	group.Wait(t)
}

// assign brings one partition to what the metadata says of it.
func (m *Manager) assign(t *task.T, image *meta.Image, a assignment) {
	topic, index := a.topic, a.index
	k := Key{topic.ID, index}
	state := topic.Partitions[index]
	at := slices.Index(state.Replicas, m.self)
	if at < 0 {
		m.remove(t, k)
		return
	}
	p, err := m.host(t, image, a, state, at)
	if err == nil {
		err = p.become(t, state, m.registered(image))
	}
	if err == nil {
		m.refetch(p, registration(state))
	}
	if err != nil && !errors.Is(err, storage.ErrClosed) {
		m.mu.Lock()
		if m.partitions[k] == nil {
			m.failed[k] = err
		}
		m.mu.Unlock()
		m.emit(event.PartitionFailed{Topic: topic.Name, Partition: index, Err: err})
	}
}

// become leads or follows as the metadata says. Who is not registered leads nothing.
func (p *Partition) become(t *task.T, state *meta.Partition, registered bool) error {
	p.mu.Lock()
	p.brokers.state = state
	p.mu.Unlock()
	reg := registration(state)
	if state.Leader != p.m.self || !registered {
		p.follow(t, reg)
		return nil
	}
	return p.lead(t, reg)
}

func registration(state *meta.Partition) partition.Registration {
	return partition.Registration{
		Leader: state.Leader, LeaderEpoch: state.LeaderEpoch, PartitionEpoch: state.PartitionEpoch,
		Replicas: state.Replicas, ISR: state.ISR, Recovering: state.LeaderRecoveryState == 1,
	}
}

// host returns the partition's replica; if there is none it claims the loaded log of that
// topic id, or makes one.
func (m *Manager) host(t *task.T, image *meta.Image, a assignment, state *meta.Partition, at int) (*Partition, error) {
	topic, k := a.topic, Key{a.topic.ID, a.index}
	m.mu.Lock()
	p, logs, future := m.partitions[k], m.claim(k), m.futures[k]
	m.mu.Unlock()
	if p != nil {
		return p, nil
	}
	log := m.choose(t, logs, state)
	cfg := m.config()
	settings := cfg.Topic(image.Config(meta.TopicResource, topic.Name).Map())
	if log == nil {
		if !a.fresh {
			if err := m.mayBeOffline(state, at); err != nil {
				return nil, err
			}
			if err := m.unfinished(t, future, state); err != nil {
				return nil, err
			}
		}
		if err := m.clearName(t, topic.Name, k); err != nil {
			return nil, err
		}
		dir, err := m.pick(name{topic.Name, k.Partition}, state, at)
		if err != nil {
			return nil, err
		}
		log, err = dir.Create(t, topic.Name, topic.ID, k.Partition, logConfig(cfg, &settings))
		if err != nil {
			m.moveHost(dir, -1)
			return nil, err
		}
	} else {
		log.SetConfig(logConfig(cfg, &settings))
		m.moveHost(log.Dir(), 1)
	}
	p = newPartition(m, k, log, settings)
	m.mu.Lock()
	m.partitions[k] = p
	delete(m.failed, k)
	list := append(slices.Clone(*m.list.Load()), p)
	m.list.Store(&list)
	m.mu.Unlock()
	if future != nil {
		m.resumeMove(t, p, future, state)
	}
	return p, nil
}

// moveHost counts a partition more or less in a directory.
func (m *Manager) moveHost(d *storage.Dir, by int) {
	m.mu.Lock()
	m.hosts[d] += by
	m.mu.Unlock()
}

// claim takes the loaded logs of a partition, if there are any; under mu.
func (m *Manager) claim(k Key) []*storage.Log {
	logs := slices.Clone(m.unclaimed[k])
	for _, l := range logs {
		m.take(l)
	}
	return logs
}

// take takes a loaded log from those that nobody has claimed, and reports whether it was one;
// under mu.
func (m *Manager) take(log *storage.Log) bool {
	k, n := keyOf(log), name{log.Topic(), log.Partition()}
	is := func(o *storage.Log) bool { return o == log }
	found := slices.ContainsFunc(m.unclaimed[k], is)
	m.unclaimed[k] = slices.DeleteFunc(m.unclaimed[k], is)
	m.names[n] = slices.DeleteFunc(m.names[n], is)
	return found
}

// clearName moves the directories of older topics of that name, which were deleted while
// this broker was down, out of the way.
func (m *Manager) clearName(t *task.T, topic string, k Key) error {
	m.mu.Lock()
	old := slices.Clone(m.names[name{topic, k.Partition}])
	for _, l := range old {
		m.take(l)
	}
	m.mu.Unlock()
	for _, l := range old {
		if err := m.putAside(t, l); err != nil {
			return err
		}
	}
	return nil
}

// mayBeOffline is the error for a partition without a log here whose log may lie in a
// directory that is offline: an empty one in its place would pass for all that was stored.
// Only one that is assigned to a directory that is online is known not to be elsewhere.
func (m *Manager) mayBeOffline(state *meta.Partition, at int) error {
	var offline error
	for _, d := range m.dirs {
		err := d.Dir.Err()
		if err == nil && at < len(state.Directories) && state.Directories[at] == d.ID {
			return nil
		}
		if err != nil && offline == nil {
			offline = err
		}
	}
	if offline != nil {
		return fmt.Errorf("the log may be in a directory that is offline: %w", offline)
	}
	return nil
}

// pick chooses the directory of a new log, the one wished for, the assigned one or the one with
// the fewest, and counts it there already: several are made at once.
func (m *Manager) pick(n name, state *meta.Partition, at int) (*storage.Dir, error) {
	var best *storage.Dir
	fewest := 0
	var failure error
	m.mu.Lock()
	defer m.mu.Unlock()
	wished := m.wishes[n] // a wish comes before what the metadata says, as in Kafka
	delete(m.wishes, n)
	for _, d := range m.dirs {
		if err := d.Dir.Err(); err != nil {
			failure = err
			continue
		}
		if d.Dir == wished {
			best = d.Dir
			break
		}
		if wished == nil && at < len(state.Directories) && state.Directories[at] == d.ID {
			best = d.Dir
			break
		}
		if n := m.hosts[d.Dir]; best == nil || n < fewest {
			best, fewest = d.Dir, n
		}
	}
	if best == nil {
		return nil, fmt.Errorf("no log directory is online: %w", failure)
	}
	m.hosts[best]++
	return best, nil
}

func (m *Manager) deleteTopic(t *task.T, topic *meta.Topic) {
	for i := range topic.Partitions {
		m.remove(t, Key{topic.ID, int32(i)})
	}
	m.forgetWishes(topic)
}

// remove ends a replica and deletes its log.
func (m *Manager) remove(t *task.T, k Key) {
	m.mu.Lock()
	p := m.partitions[k]
	delete(m.partitions, k)
	delete(m.failed, k)
	if p != nil {
		m.hosts[p.log.Dir()]--
		list := slices.DeleteFunc(slices.Clone(*m.list.Load()), func(o *Partition) bool { return o == p })
		m.list.Store(&list)
	}
	m.mu.Unlock()
	if p == nil {
		m.dropFuture(t, k)
		return
	}
	m.refetch(p, partition.Registration{Leader: meta.NoLeader})
	if x := p.close(); x != nil {
		x.remove(t)
	}
	if err := p.log.Dir().Delete(t, p.log); err != nil {
		m.emit(event.PartitionFailed{Topic: p.topic, Partition: k.Partition, Err: err})
	}
}

// strayUnclaimed puts every loaded log aside that the metadata does not assign to this broker
// under its topic id: its topic was deleted, made again, or moved while we were down.
func (m *Manager) strayUnclaimed(t *task.T) {
	for _, d := range m.dirs {
		for _, l := range d.Dir.Logs() {
			m.mu.Lock()
			unclaimed := m.take(l)
			m.mu.Unlock()
			if unclaimed {
				if err := m.putAside(t, l); err != nil {
					m.emit(event.PartitionFailed{Topic: l.Topic(), Partition: l.Partition(), Err: err})
				}
			}
		}
	}
	m.mu.Lock()
	m.deleted = nil
	m.mu.Unlock()
}

// putAside takes a loaded log out of the way that is no replica of this broker's. It goes if
// this broker has read that its topic was deleted, or if nothing but the beginning of a creation
// is there: no topic id and no record. Any other may be all that is left of something, whatever
// the metadata says now, and is kept for an operator.
func (m *Manager) putAside(t *task.T, l *storage.Log) error {
	m.mu.Lock()
	deleted := slices.Contains(m.deleted, l.TopicID())
	m.mu.Unlock()
	if deleted || l.TopicID() == (meta.UUID{}) && l.LogEndOffset() == 0 && l.Err() == nil {
		return l.Dir().Delete(t, l)
	}
	m.emit(event.LogStray{Dir: l.Dir().Path(), Log: l.Name(), TopicID: meta.UUIDString(l.TopicID())})
	return l.Dir().Stray(t, l)
}

// configsChanged takes over changed settings: of single topics, or of the broker, which all
// topics inherit from.
func (m *Manager) configsChanged(d *meta.Delta) {
	if len(d.Configs) == 0 {
		return
	}
	cfg := m.config()
	broker := slices.ContainsFunc(d.Configs, func(r meta.ConfigResource) bool { return r.Type == meta.BrokerResource })
	m.spread(cfg.NumReplicaFetchers)
	changed := func(topic string) bool {
		_, found := slices.BinarySearchFunc(d.Configs, meta.ConfigResource{Type: meta.TopicResource, Name: topic}, compareResource)
		return found
	}
	for _, p := range m.Partitions() {
		if broker || changed(p.topic) {
			settings := cfg.Topic(d.To.Config(meta.TopicResource, p.topic).Map())
			p.settings.Store(&settings)
			p.log.SetConfig(logConfig(cfg, &settings))
			if f := m.FutureOf(p); f != nil {
				f.SetConfig(logConfig(cfg, &settings))
			}
			p.advance()
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

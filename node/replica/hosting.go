package replica

import (
	"fmt"
	"slices"

	"seedlog/clock/task"
	"seedlog/node/event"
	"seedlog/node/meta"
	"seedlog/node/partition"
	"seedlog/storage"
)

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
		var err error
		if log, err = m.create(t, topic, k, state, at, logConfig(cfg, &settings)); err != nil {
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

// create makes a log. A directory that fails over it is none for it: of a replica that has none the
// controller could not know that it was lost with that one.
func (m *Manager) create(t *task.T, topic *meta.Topic, k Key, state *meta.Partition, at int, cfg storage.Config) (*storage.Log, error) {
	for {
		dir, err := m.pick(name{topic.Name, k.Partition}, state, at)
		if err != nil {
			return nil, err
		}
		log, err := dir.Create(t, topic.Name, topic.ID, k.Partition, cfg)
		if err == nil {
			return log, nil
		}
		m.moveHost(dir, -1)
		if dir.Err() == nil {
			return nil, err
		}
	}
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
// this broker was down, out of the way. Where that takes a log directory offline, nothing is in the
// way any more.
func (m *Manager) clearName(t *task.T, topic string, k Key) error {
	m.mu.Lock()
	old := slices.Clone(m.names[name{topic, k.Partition}])
	for _, l := range old {
		m.take(l)
	}
	m.mu.Unlock()
	for _, l := range old {
		if err := m.putAside(t, l); err != nil && l.Dir().Err() == nil {
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

package replica

import (
	"errors"
	"slices"

	"seedlog/clock/task"
	"seedlog/node/event"
	"seedlog/node/meta"
	"seedlog/node/partition"
	"seedlog/storage"
)

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
			before := topic.Old.Partition(index)
			fresh := d.From.Offset >= 0 && (before == nil || !slices.Contains(before.Replicas, m.self))
			work = append(work, assignment{topic.New, index, fresh})
		}
	}
	m.minISRRaised(d)
	m.assignAll(t, d.To, append(work, m.begun(d)...))
	if d.From.Offset < 0 {
		m.strayUnclaimed(t)
		m.dropFutures(t)
	}
	m.wakeMovers()
	m.configsChanged(t, d)
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
	fresh bool // the change made the replica: what an offline directory may have of it does not count
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

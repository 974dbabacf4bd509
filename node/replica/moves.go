package replica

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"seedlog/clock/task"
	"seedlog/node/event"
	"seedlog/node/meta"
	"seedlog/node/partition"
	"seedlog/storage"
)

// Errors of a replica that is to move to another directory.
var (
	// ErrUnknownDir: the broker has no such log directory.
	ErrUnknownDir = errors.New("unknown log directory")
	// ErrNoReplica: the partition has no replica here, yet; the wish is remembered.
	ErrNoReplica = errors.New("no replica here")
	// ErrNameTooLong: the directory of a copy could not have its name.
	ErrNameTooLong = errors.New("the topic's name is too long")

	errCopyOnly = errors.New("the log is in none of the directories, only a copy that was not finished")
)

// wishesMax bounds how many replicas that are not here have a directory wished for.
const wishesMax = 10_000

// MoveTo has the replica moved to the log directory at path (KIP-113): a copy is made there and
// takes the log's place once it is complete. Where the replica is, or is moving to, nothing is
// done but to end a move elsewhere. For a replica that is not here the directory is remembered,
// for when it comes.
func (m *Manager) MoveTo(t *task.T, topic string, index int32, path string) error {
	if len(topic)+1+len(strconv.Itoa(int(index))) > storage.FutureNameMax {
		return fmt.Errorf("%s-%d: %w", topic, index, ErrNameTooLong)
	}
	at := slices.IndexFunc(m.dirs, func(d Dir) bool { return trimSlash(d.Dir.Path()) == trimSlash(path) })
	if at < 0 {
		return fmt.Errorf("%w: %s", ErrUnknownDir, path)
	}
	dir := m.dirs[at]
	if err := dir.Dir.Err(); err != nil {
		return err
	}
	p, err := m.byName(topic, index)
	if errors.Is(err, ErrNoReplica) || errors.Is(err, ErrUnknownPartition) {
		m.wish(name{topic, index}, dir.Dir)
	}
	if err != nil {
		return err
	}
	return p.moveTo(t, dir)
}

func trimSlash(path string) string { return strings.TrimRight(path, "/") }

// byName finds a hosted partition. Beside Partition's errors there is ErrNoReplica, for one
// that others host.
func (m *Manager) byName(topic string, index int32) (*Partition, error) {
	known := m.image.Load().Topic(topic)
	if known == nil || known.Partition(index) == nil {
		return nil, fmt.Errorf("%s-%d: %w", topic, index, ErrUnknownPartition)
	}
	p, err := m.Partition(Key{known.ID, index})
	if errors.Is(err, ErrUnknownPartition) {
		return nil, fmt.Errorf("%s-%d: %w", topic, index, ErrNoReplica)
	}
	return p, err
}

func (m *Manager) wish(n name, d *storage.Dir) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, again := m.wishes[n]; again || len(m.wishes) < wishesMax {
		m.wishes[n] = d
		m.moves.Add(1)
	}
}

// forgetWishes forgets where the replicas of a deleted topic were to be.
func (m *Manager) forgetWishes(topic *meta.Topic) {
	if m.moves.Load() == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range topic.Partitions {
		delete(m.wishes, name{topic.Name, int32(i)})
	}
}

// moveTo makes the move to the directory the replica's, in place of whatever other there is.
func (p *Partition) moveTo(t *task.T, dir Dir) error {
	p.moves.Enter(t)
	defer p.moves.Leave(t)
	if x := p.moving(); x != nil {
		if x.target == dir && !x.ending {
			return nil
		}
		x.then = nil
		if p.log.Dir() != dir.Dir {
			x.then = &dir
		}
		x.end(t)
		return nil
	}
	return p.beginMove(t, dir)
}

// beginMove begins a move. While a directory is offline there is none: a copy of the replica may
// be in it. Under moves.
func (p *Partition) beginMove(t *task.T, dir Dir) error {
	if p.isGone() {
		return fmt.Errorf("%s: %w", p, ErrNoReplica)
	}
	if p.log.Dir() == dir.Dir {
		return nil
	}
	if err := p.log.Err(); err != nil {
		return err
	}
	for _, d := range p.m.dirs {
		if err := d.Dir.Err(); err != nil {
			return err
		}
	}
	future, err := dir.Dir.CreateFuture(t, p.topic, p.key.Topic, p.key.Partition, p.log.Config())
	if err != nil {
		return err
	}
	p.m.emit(ReplicaMove{Topic: p.topic, Partition: p.key.Partition, To: dir.Dir.Path(), Stage: MoveBegan, Offset: p.log.LogEndOffset()})
	if !p.m.startMove(&move{p: p, target: dir, future: future}) {
		p.m.deleteCopy(t, future)
		return fmt.Errorf("%s: %w", p, ErrNoReplica)
	}
	return nil
}

func (p *Partition) isGone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gone
}

// moving is the move that is under way, or nil.
func (p *Partition) moving() *move {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.move
}

// FutureOf is the copy of the partition that is being made in another directory, or nil.
func (m *Manager) FutureOf(p *Partition) *storage.Log {
	if m.moves.Load() == 0 {
		return nil
	}
	if x := p.moving(); x != nil {
		return x.future
	}
	return nil
}

// PlaceOf is the directory that the controller is to have the partition's replica in: the one
// that it is in, or that it is about to be in. A replica of which there is only a copy that was
// not finished is in none.
func (m *Manager) PlaceOf(k Key) (id meta.UUID, ok bool) {
	m.mu.Lock()
	p, lost := m.partitions[k], m.failed[k] != nil && m.futures[k] != nil
	m.mu.Unlock()
	if p == nil {
		return meta.DirLost, lost
	}
	if m.moves.Load() > 0 {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.move != nil && p.announced {
			return p.move.target.ID, true
		}
	}
	for _, d := range m.dirs {
		if d.Dir == p.log.Dir() {
			return d.ID, true
		}
	}
	return meta.UUID{}, false
}

// PlaceTold notes that the controller knows that the replica is in the directory: it answered.
func (m *Manager) PlaceTold(k Key, id meta.UUID) {
	if now, ok := m.PlaceOf(k); !ok || now != id {
		return // it has to hear something else
	}
	m.mu.Lock()
	p := m.partitions[k]
	m.mu.Unlock()
	if p == nil {
		return
	}
	p.mu.Lock()
	p.placeTold = true
	p.mu.Unlock()
	m.wakeMovers()
}

// setAnnounced changes what the controller is to know, and forgets that it does.
func (p *Partition) setAnnounced(is bool) {
	p.mu.Lock()
	if p.announced != is {
		p.announced, p.placeTold = is, false
	}
	p.mu.Unlock()
}

func (p *Partition) placeIsTold() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.placeTold
}

// tellPlace has the controller told where the replica is, if it does not know.
func (m *Manager) tellPlace(k Key) {
	if m.placed != nil {
		m.placed(k)
	}
}

// assignedTo reports whether the metadata has this broker's replica in the directory; known is
// false where it knows of no directories.
func assignedTo(p *meta.Partition, self int32, dir meta.UUID) (is, known bool) {
	in, known := p.Dir(self)
	return known && in == dir, known
}

// takeFuture takes the copy of a partition's log that the directories were loaded with.
func (m *Manager) takeFuture(k Key) *storage.Log {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.futures[k]
	delete(m.futures, k)
	return f
}

// resumeMove goes on with a copy that was being made before the start. If the controller has
// the replica there already, it was told so, and hears no other.
func (m *Manager) resumeMove(t *task.T, p *Partition, f *storage.Log, state *meta.Partition) {
	m.takeFuture(p.key)
	f.SetConfig(p.log.Config())
	for _, d := range m.dirs {
		if d.Dir == f.Dir() {
			x := &move{p: p, target: d, future: f}
			if is, _ := assignedTo(state, m.self, d.ID); is {
				x.state = partition.Resumed()
			}
			m.emit(ReplicaMove{Topic: p.topic, Partition: p.key.Partition, To: d.Dir.Path(), Stage: MoveResumed, Offset: f.LogEndOffset()})
			if !m.startMove(x) {
				m.deleteCopy(t, f)
			}
		}
	}
}

// unfinished is the error for a replica of which there is only a copy, if the controller has it
// in the copy's directory: then it was about to be there, and what it has is elsewhere, and an
// empty log, or what was copied, would pass for it. Otherwise the copy is of no use, and goes.
func (m *Manager) unfinished(t *task.T, f *storage.Log, state *meta.Partition) error {
	if f == nil {
		return nil
	}
	for _, d := range m.dirs {
		if is, known := assignedTo(state, m.self, d.ID); d.Dir == f.Dir() && (is || !known) {
			return fmt.Errorf("%w: %s: %w", storage.ErrOffline, f.Path(), errCopyOnly)
		}
	}
	m.dropFuture(t, keyOf(f))
	return nil
}

// dropFuture deletes a loaded copy.
func (m *Manager) dropFuture(t *task.T, k Key) {
	if m.moves.Load() == 0 {
		return
	}
	if f := m.takeFuture(k); f != nil {
		m.deleteCopy(t, f)
	}
}

func (m *Manager) deleteCopy(t *task.T, f *storage.Log) {
	if err := f.Dir().Delete(t, f); err != nil {
		m.emit(event.PartitionFailed{Topic: f.Topic(), Partition: f.Partition(), Err: err})
	}
}

// dropFutures deletes the loaded copies that belong to no replica here.
func (m *Manager) dropFutures(t *task.T) {
	if m.moves.Load() == 0 {
		return
	}
	for _, d := range m.dirs {
		for _, l := range d.Dir.Logs() {
			k := keyOf(l)
			m.mu.Lock()
			unused := m.futures[k] == l && m.failed[k] == nil
			m.mu.Unlock()
			if unused {
				m.dropFuture(t, k)
			}
		}
	}
}

// choose takes, of several loaded logs of one replica, the one that is it: a crash while it
// moved left two. The others are deleted.
func (m *Manager) choose(t *task.T, logs []*storage.Log, state *meta.Partition) *storage.Log {
	if len(logs) == 0 {
		return nil
	}
	best := logs[0]
	for _, l := range logs[1:] {
		if partition.Newer(m.held(l, state), m.held(best, state)) {
			best = l
		}
	}
	for _, l := range logs {
		if l != best {
			m.emit(ReplicaMove{Topic: l.Topic(), Partition: l.Partition(), To: best.Dir().Path(), Stage: MoveLeftTwo, Offset: best.LogEndOffset()})
			m.deleteCopy(t, l)
		}
	}
	return best
}

func (m *Manager) held(l *storage.Log, state *meta.Partition) partition.Held {
	o := l.Offsets()
	h := partition.Held{LatestEpoch: o.LatestEpoch, LogEnd: o.LogEnd, LogStart: o.LogStart, Damaged: l.Err() != nil}
	for _, d := range m.dirs {
		if d.Dir == l.Dir() {
			h.Assigned, _ = assignedTo(state, m.self, d.ID)
		}
	}
	return h
}

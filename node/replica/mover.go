package replica

import (
	"errors"
	"slices"
	"time"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/node/partition"
	"seedlog/storage"
	"seedlog/storage/record"
)

// mover fills the copies in one directory and lets them take the place of their logs. Its task
// takes one step for each move in turn:
//
//	look at log and copy --> copy a chunk, truncate, restart, raise the start
//	                    \--> caught up: announce --> assigned: Exchange
//
// What each step is partition.Move decides. A move that fails waits by itself, and one of which a
// log is offline waits for the next start.
type mover struct {
	m       *Manager
	changed task.Signal

	mu   task.Mutex
	list []*move // copied on write
}

// move is one replica's way to another directory. All but p, target and future is guarded by
// Partition.moves.
type move struct {
	p      *Partition
	target Dir
	future *storage.Log

	state    partition.Move
	ending   bool // the replica stays: the copy goes once the controller knows
	exposed  bool // the controller may have heard that it is in the other directory
	then     *Dir // where it moves after that, or nil
	over     bool
	notUntil clock.Instant // nothing is done
	tellAt   clock.Instant // the controller is told again
	buf      []byte
}

const (
	// announceAgain is how long a move waits for the controller before it is told again.
	announceAgain = 2 * time.Second
	// completeChunks bounds how much is copied while appends wait.
	completeChunks = 8
)

// startMove hands the move to its directory's task; false if the replica is gone.
func (m *Manager) startMove(x *move) bool {
	m.moves.Add(1)
	x.p.mu.Lock()
	if x.p.gone {
		x.p.mu.Unlock()
		return false
	}
	x.p.move, x.p.announced, x.p.placeTold = x, x.state.Announced(), false
	x.p.mu.Unlock()
	m.mu.Lock()
	v := m.movers[x.target.Dir]
	if v == nil {
		v = &mover{m: m}
		v.mu.Init(m.rt, "replica.mover")
		v.changed.Init(m.rt, "replica.mover.changed")
		m.movers[x.target.Dir] = v
		m.group.Go("moves to "+x.target.Dir.Path(), v.run)
	}
	m.mu.Unlock()
	v.mu.Lock()
	v.list = append(slices.Clone(v.list), x)
	v.mu.Unlock()
	v.changed.Raise()
	return true
}

// wakeMovers lets the moves look at the metadata and the directories again.
func (m *Manager) wakeMovers() {
	if m.moves.Load() == 0 {
		return
	}
	for _, d := range m.dirs {
		m.mu.Lock()
		v := m.movers[d.Dir]
		m.mu.Unlock()
		if v != nil {
			v.changed.Raise()
		}
	}
}

func (v *mover) moves() []*move {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.list
}

// run moves until t's group stops.
func (v *mover) run(t *task.T) {
	for !t.Stopping() {
		seen := v.changed.Generation()
		next := clock.Never
		for _, x := range v.moves() {
			if t.Stopping() {
				return
			}
			at, over := x.step(t)
			if over {
				v.drop(x)
			}
			next = min(next, at)
		}
		if next > t.Now() {
			v.changed.Wait(t, seen, next)
		}
	}
}

func (v *mover) drop(x *move) {
	v.mu.Lock()
	v.list = slices.DeleteFunc(slices.Clone(v.list), func(o *move) bool { return o == x })
	v.mu.Unlock()
}

// step does what is next, and returns when there is more to do.
func (x *move) step(t *task.T) (next clock.Instant, over bool) {
	x.p.moves.Enter(t)
	defer x.p.moves.Leave(t)
	switch now := t.Now(); {
	case x.over:
		return clock.Never, true
	case x.p.log.Err() != nil || x.future.Err() != nil:
		x.stall()
		return clock.Never, false
	case x.ending:
		x.end(t)
		return x.tellAt, x.over
	case x.notUntil > now:
		return x.notUntil, false
	}
	next, err := x.advance(t)
	if err != nil && !t.Stopping() {
		x.p.m.emit(MoveFailed{Topic: x.p.topic, Partition: x.p.key.Partition, Err: err})
		x.notUntil = t.Now().Add(millis(int64(x.p.m.config().ReplicaFetchBackoffMs)))
		next = x.notUntil
	}
	return next, x.over
}

// advance takes the step that the core decides on, and returns when there is more to do.
func (x *move) advance(t *task.T) (next clock.Instant, err error) {
	m, f := x.p.m, x.future
	look, copied := x.look()
	d := x.state.Next(original(look), copied, f, x.assigned())
	switch d.Step {
	case partition.MoveCopy:
		if m.moved.exceeded(m.config().AlterLogDirsThrottledRate, t.Now()) {
			x.notUntil = t.Now().Add(throttlePause)
			return x.notUntil, nil
		}
		return 0, x.copy(t, look)
	case partition.MoveAnnounce, partition.MoveAwait:
		x.announce(t)
		return x.tellAt, nil
	case partition.MoveSwap:
		return 0, x.swap(t)
	}
	return 0, x.correct(t, look, d)
}

// look reads the copy's numbers, and then the log's at one instant.
func (x *move) look() (storage.Standing, partition.Copied) {
	o := x.future.Offsets()
	return x.p.log.Standing(o.LatestEpoch), partition.Copied{LogStart: o.LogStart, LogEnd: o.LogEnd, LatestEpoch: o.LatestEpoch}
}

func original(s storage.Standing) partition.Original {
	return partition.Original{LogStart: s.LogStart, LogEnd: s.LogEnd, Epoch: s.Epoch, EpochEnd: s.EpochEnd}
}

// assigned reports whether the controller has the replica in the new directory, as far as it
// knows directories: it said so, and the metadata does.
func (x *move) assigned() bool {
	state := x.p.m.image.Load().Partition(x.p.key.Topic, x.p.key.Partition)
	if state == nil || !slices.Contains(state.Replicas, x.p.m.self) {
		return false
	}
	is, known := assignedTo(state, x.p.m.self, x.target.ID)
	return !known || is && x.p.placeIsTold()
}

// correct makes the copy a prefix of the log.
func (x *move) correct(t *task.T, look storage.Standing, d partition.MoveDecision) error {
	f := x.future
	from := f.LogEndOffset()
	var err error
	switch d.Step {
	case partition.MoveTruncate:
		err = f.TruncateTo(t, d.Offset)
	case partition.MoveRestart:
		err = x.p.log.RestartCopy(t, f, d.Offset, look)
	case partition.MoveRaise:
		return f.MoveLogStart(t, d.Offset)
	}
	if err == nil && from > 0 {
		x.p.m.emit(CopyDiverged{Topic: x.p.topic, Partition: x.p.key.Partition, From: from, To: f.LogEndOffset(), Step: d.Step})
	}
	return err
}

// copy copies a chunk. What was read counts only if nothing was cut off the log since the look.
func (x *move) copy(t *task.T, look storage.Standing) error {
	log, f := x.p.log, x.future
	at := f.LogEndOffset()
	b, err := log.ReadInto(t, at, x.p.m.config().ReplicaFetchMaxBytes, storage.ToLogEnd, true, x.buf)
	if cap(b) <= 2*int(x.p.m.config().ReplicaFetchMaxBytes) {
		x.buf = b[:0]
	}
	switch {
	case !log.Stands(look), errors.Is(err, storage.ErrOffsetOutOfRange):
		return nil
	case err != nil:
		return err
	}
	info, err := f.AppendFollower(t, b)
	if errors.Is(err, storage.ErrUnexpectedOffset) {
		info, err = x.appendMisfit(t, look, b, err)
	}
	if err != nil {
		return err
	}
	if info.Batches == 0 {
		return errNothingCopied
	}
	x.p.m.moved.add(int64(len(b)), t.Now())
	f.SetHighWatermark(look.HighWatermark)
	return nil
}

var errNothingCopied = errors.New("the log has no whole batch where its copy ends")

// appendMisfit begins the copy where the batch does that the log begins in the middle of.
func (x *move) appendMisfit(t *task.T, look storage.Standing, b []byte, why error) (storage.AppendInfo, error) {
	h, err := record.ParseHeader(b)
	if err != nil {
		return storage.AppendInfo{}, why
	}
	o := x.future.Offsets()
	d := partition.AfterMisfit(partition.Replica{LogStart: o.LogStart, LogEnd: o.LogEnd}, look.LogStart, h.BaseOffset, h.LastOffset())
	if d.Step != partition.RestartAt {
		return storage.AppendInfo{}, why
	}
	if err := x.p.log.RestartCopy(t, x.future, d.Offset, look); err != nil {
		return storage.AppendInfo{}, err
	}
	return x.future.AppendFollower(t, b)
}

// announce has the controller told where the replica is about to be.
func (x *move) announce(t *task.T) {
	x.p.setAnnounced(true)
	x.tell(t)
}

// tell has the controller told where the replica is to be, unless that was just done.
func (x *move) tell(t *task.T) {
	if now := t.Now(); now >= x.tellAt {
		x.tellAt = now.Add(announceAgain)
		x.p.m.tellPlace(x.p.key)
	}
}

// swap lets the copy take the log's place. Most of it is synced before appends have to wait.
func (x *move) swap(t *task.T) error {
	p, m := x.p, x.p.m
	if err := x.future.Flush(t); err != nil {
		return err
	}
	from := p.log.Dir()
	done, err := p.log.Exchange(t, x.future, x.complete)
	if err != nil || !done {
		return err
	}
	x.finish()
	if !p.isGone() {
		m.moveHost(from, -1)
		m.moveHost(x.target.Dir, 1)
	}
	p.synced()
	m.emit(ReplicaMove{Topic: p.topic, Partition: p.key.Partition, To: x.target.Dir.Path(), Stage: MoveDone, Offset: p.log.LogEndOffset()})
	m.tellPlace(p.key)
	return nil
}

// complete copies what the log has got since the last look; nothing comes meanwhile.
func (x *move) complete(t *task.T) (bool, error) {
	for range completeChunks {
		look, copied := x.look()
		switch d := partition.Reconcile(original(look), copied, x.future); d.Step {
		case partition.MoveSwap:
			return true, nil
		case partition.MoveCopy:
			if err := x.copy(t, look); err != nil {
				return false, err
			}
		default:
			return false, nil
		}
	}
	return false, nil
}

// finish ends the move in memory.
func (x *move) finish() {
	x.over = true
	x.p.mu.Lock()
	if x.p.move == x {
		x.p.move, x.p.announced = nil, false
	}
	x.p.mu.Unlock()
}

// stall leaves the copy for the next start: the log or the copy is offline. The replica is
// where it was, and so the controller has to know.
func (x *move) stall() {
	if x.state.Abandon() {
		x.p.setAnnounced(false)
		x.p.m.tellPlace(x.p.key)
	}
}

// end ends the move where it began. A copy that the controller was told of stays until it knows
// better: if the broker started without the log's directory, and there were no copy, nothing would
// tell that the replica was never in the other one.
func (x *move) end(t *task.T) {
	p, m := x.p, x.p.m
	if !x.ending {
		x.ending, x.exposed, x.tellAt = true, x.state.Abandon(), 0
		p.setAnnounced(false)
	}
	if x.exposed && !(x.unassigned() && p.placeIsTold()) {
		x.tell(t)
		return
	}
	x.finish()
	m.deleteCopy(t, x.future)
	m.emit(ReplicaMove{Topic: p.topic, Partition: p.key.Partition, To: x.target.Dir.Path(), Stage: MoveCancelled, Offset: p.log.LogEndOffset()})
	if x.then != nil {
		if err := p.beginMove(t, *x.then); err != nil {
			m.emit(MoveFailed{Topic: p.topic, Partition: p.key.Partition, Err: err})
		}
	}
}

// unassigned reports that the metadata does not have the replica in the copy's directory.
func (x *move) unassigned() bool {
	state := x.p.m.image.Load().Partition(x.p.key.Topic, x.p.key.Partition)
	if state == nil {
		return true
	}
	is, _ := assignedTo(state, x.p.m.self, x.target.ID)
	return !is
}

// remove ends the move of a replica that is removed.
func (x *move) remove(t *task.T) {
	p := x.p
	p.moves.Enter(t)
	defer p.moves.Leave(t)
	if x.over {
		return
	}
	x.finish()
	p.m.deleteCopy(t, x.future)
	p.m.emit(ReplicaMove{Topic: p.topic, Partition: p.key.Partition, To: x.target.Dir.Path(), Stage: MoveCancelled, Offset: p.log.LogEndOffset()})
}

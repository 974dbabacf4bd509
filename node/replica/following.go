package replica

import (
	"errors"
	"fmt"

	"seedlog/clock/task"
	"seedlog/node/partition"
	"seedlog/storage"
	"seedlog/storage/record"
)

// errMoved: the partition's role or log changed since the question was asked; the answer is
// of no use.
var errMoved = errors.New("the replica moved on")

// position is from where a follower fetches on.
type position struct {
	offset    int64
	lastEpoch int32 // of the record before offset, -1 if there is none
	logStart  int64
}

// position tells where the follower of an epoch fetches on. With flush.messages=1 only what
// is synced counts: what the leader hears of may be acknowledged on the strength of it.
func (p *Partition) position(t *task.T, epoch int32) (position, error) {
	if !p.follows(epoch) {
		return position{}, errMoved
	}
	o := p.log.Offsets()
	if p.everySync() && o.SyncedEnd < o.LogEnd {
		if err := p.log.SyncTo(t, o.LogEnd); err != nil {
			return position{}, err
		}
		o = p.log.Offsets()
		if o.SyncedEnd < o.LogEnd {
			return position{}, errMoved
		}
	}
	if err := p.log.Err(); err != nil {
		return position{}, err
	}
	return position{offset: o.LogEnd, lastEpoch: o.LatestEpoch, logStart: o.LogStart}, nil
}

// follows reports whether this broker follows the leader of the epoch.
func (p *Partition) follows(epoch int32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.gone && p.leader == nil && p.reg.LeaderEpoch == epoch
}

// takeAnswer acts on a leader's answer to a fetch from offset asked. The role does not
// change meanwhile: what was fetched in one epoch never lands in another. The error is
// errMoved, or the log's own: then the log is offline.
func (p *Partition) takeAnswer(t *task.T, epoch int32, asked int64, a partition.Answer, batches []byte) (partition.Step, error) {
	p.role.Enter(t)
	defer p.role.Leave(t)
	mine, err := p.mine(epoch, asked)
	if err != nil {
		return 0, err
	}
	d := partition.AfterAnswer(mine, a, p.log)
	switch d.Step {
	case partition.Append:
		return p.appendFetched(t, epoch, mine, a, batches)
	case partition.Truncate, partition.RestartAt:
		cut := p.log.TruncateTo
		if d.Step == partition.RestartAt {
			cut = p.log.TruncateFullyAt
		}
		if err := cut(t, d.Offset); err != nil {
			return 0, err
		}
		p.m.emit(LogDiverged{Topic: p.topic, Partition: p.key.Partition, LeaderEpoch: epoch,
			DivergeEpoch: a.DivergeEpoch, DivergeEnd: a.DivergeEnd, From: mine.LogEnd, To: p.log.LogEndOffset()})
		return partition.AskAgain, nil
	}
	return d.Step, nil
}

// mine is the replica's log, if it still follows in the epoch and ends where it was asked
// from.
func (p *Partition) mine(epoch int32, asked int64) (partition.Replica, error) {
	if !p.follows(epoch) {
		return partition.Replica{}, errMoved
	}
	o := p.log.Offsets()
	if o.LogEnd != asked {
		return partition.Replica{}, errMoved
	}
	return partition.Replica{LogStart: o.LogStart, LogEnd: o.LogEnd, HighWatermark: o.HighWatermark}, nil
}

func (p *Partition) appendFetched(t *task.T, epoch int32, mine partition.Replica, a partition.Answer, batches []byte) (partition.Step, error) {
	if len(batches) > 0 {
		info, err := p.log.AppendFetched(t, epoch, batches)
		if errors.Is(err, storage.ErrUnexpectedOffset) {
			info, err = p.appendMisfit(t, epoch, mine, a.LogStart, batches, err)
		}
		switch {
		case errors.Is(err, storage.ErrOffline), errors.Is(err, storage.ErrClosed):
			return 0, err
		case err != nil: // what came was not what was asked for
			p.m.emit(FetchRefused{Topic: p.topic, Partition: p.key.Partition, Err: err})
			return partition.RetryLater, nil
		case info.Batches > 0:
			p.bytes.Add(int64(len(batches)))
			mine.LogEnd = info.LastOffset + 1
		}
	}
	// The start comes first: what lies below it is never below the high watermark here.
	if a.LogStart > p.log.LogStartOffset() {
		if err := p.log.MoveLogStart(t, a.LogStart); err != nil {
			return 0, err
		}
	}
	p.leaderHW.Store(a.HighWatermark)
	if hw := partition.FollowerHighWatermark(mine, a.HighWatermark); hw > mine.HighWatermark {
		p.log.SetHighWatermark(hw)
		p.m.purgatory.Check(&p.Appended) // consumers that read here
	}
	return partition.Append, nil
}

// appendMisfit appends batches that the log refused because of why, if its core finds a way.
func (p *Partition) appendMisfit(t *task.T, epoch int32, mine partition.Replica, leaderStart int64, batches []byte, why error) (storage.AppendInfo, error) {
	h, err := record.ParseHeader(batches)
	if err != nil {
		return storage.AppendInfo{}, why
	}
	d := partition.AfterMisfit(mine, leaderStart, h.BaseOffset, h.LastOffset())
	if d.Step != partition.RestartAt {
		return storage.AppendInfo{}, why
	}
	if err := p.log.TruncateFullyAt(t, d.Offset); err != nil {
		return storage.AppendInfo{}, err
	}
	p.m.emit(LogRestarted{Topic: p.topic, Partition: p.key.Partition, From: mine.LogEnd, To: d.Offset, Step: d.Step})
	return p.log.AppendFetched(t, epoch, batches)
}

// takeOffsets acts on where the leader's log starts and ends, which was asked because the
// replica's end lies outside.
func (p *Partition) takeOffsets(t *task.T, epoch int32, asked, leaderStart, leaderEnd int64) (partition.Step, error) {
	p.role.Enter(t)
	defer p.role.Leave(t)
	mine, err := p.mine(epoch, asked)
	if err != nil {
		return 0, err
	}
	d := partition.AfterOffsets(mine, leaderStart, leaderEnd)
	switch d.Step {
	case partition.RestartAt:
		err = p.log.TruncateFullyAt(t, d.Offset)
	case partition.Truncate:
		err = p.log.TruncateTo(t, d.Offset)
	default:
		return d.Step, nil
	}
	if err != nil {
		return 0, err
	}
	p.m.emit(LogRestarted{Topic: p.topic, Partition: p.key.Partition, From: asked, To: p.log.LogEndOffset(), Step: d.Step})
	return partition.AskAgain, nil
}

// behind reports that the replica has less than its leader has committed, as far as it knows.
func (p *Partition) behind() bool { return p.log.LogEndOffset() < p.leaderHW.Load() }

// Serves returns the epoch in which a consumer can read here: from the leader, or with
// anyReplica from a follower, up to what it knows to be committed (KIP-392). The errors are
// LeaderEpoch's.
func (p *Partition) Serves(currentEpoch int32, anyReplica bool) (epoch int32, leads bool, err error) {
	if err := p.log.Err(); err != nil {
		return -1, false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leader == nil && !p.gone && anyReplica {
		if err := partition.CheckEpoch(currentEpoch, p.reg.LeaderEpoch); err != nil {
			return -1, false, fmt.Errorf("%s: %w", p, err)
		}
		return p.reg.LeaderEpoch, false, nil
	}
	epoch, err = p.leaderEpoch(currentEpoch)
	return epoch, true, err
}

// ServesStill reports whether a reader who was served in the epoch can be served on.
func (p *Partition) ServesStill(epoch int32, leads bool) bool {
	if p.log.Err() != nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.gone && (p.leader != nil) == leads && p.reg.LeaderEpoch == epoch
}

// CommittedElsewhere reports that the leader has committed the offset, and this follower has
// not got it yet.
func (p *Partition) CommittedElsewhere(offset int64) bool {
	return offset >= p.log.LogEndOffset() && offset <= p.leaderHW.Load()
}

package storage

import (
	"errors"
	"fmt"

	"seedlog/clock/task"
	"seedlog/storage/producer"
)

// reset makes the log an empty one that nobody has loaded.
func (l *Log) reset() {
	l.segs.Store(new([]*segment))
	l.producers = producer.NewState(0)
	l.lso = unresolved(-1)
	l.hw = unresolved(0)
	l.leo = unresolved(0)
	l.pointMax = noPointMax
}

// Delete takes a log out of service: its directory is renamed to -delete, durably, and
// unlinked after file.delete.delay.ms. It works on a directory that is offline, too, for it
// may be what makes room.
func (d *Dir) Delete(t *task.T, l *Log) error {
	to, err := d.remove(t, l, deleteDirSuffix)
	if err != nil {
		return err
	}
	l.Dir().oweUnlink(trash{path: to, dir: true, at: l.deleteDue(t)})
	l.observe(Event{Kind: LogDeleted})
	return nil
}

// Stray takes a log out of service and keeps its directory, renamed to -stray, for an
// operator to look at.
func (d *Dir) Stray(t *task.T, l *Log) error {
	_, err := d.remove(t, l, strayDirSuffix)
	return err
}

func (d *Dir) remove(t *task.T, l *Log, suffix string) (to string, err error) {
	l.markClosed()
	l.gate.Enter(t)
	defer l.gate.Leave(t)
	d = l.Dir() // it may just have moved
	to = fmt.Sprintf("%s/%s.%016x%016x%s", d.path, trimmed(l.Name()), d.random(1<<62), d.random(1<<62), suffix)
	if err := d.env.Disk.Rename(t, l.Path(), to); err != nil {
		return "", d.fault(t, err)
	}
	l.mu.Lock()
	l.path = to
	l.mu.Unlock()
	d.mu.Lock()
	delete(d.logs, l.Name())
	d.dropNumbers(l.Name())
	d.mu.Unlock()
	err = errors.Join(l.closeSegments(t), d.env.Disk.SyncDir(t, d.path))
	if err != nil && d.Err() == nil {
		return to, d.fault(t, err)
	}
	return to, nil
}

// trimmed leaves room for an id and a suffix in a name of 255 bytes.
func trimmed(name string) string { return name[:min(len(name), 255-1-32-len(deleteDirSuffix))] }

// markClosed refuses what begins from here on, and lets go who waits.
func (l *Log) markClosed() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.wakeSyncWaiters()
}

func (l *Log) closeSegments(t *task.T) error {
	var first error
	for _, s := range *l.segs.Load() {
		if err := s.close(t); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// CloseClean flushes and closes every log, writes the checkpoints and, if nothing of that
// failed, the clean-shutdown marker with the broker's epoch; then it gives the lock back.
func (d *Dir) CloseClean(t *task.T, brokerEpoch int64) error {
	d.stop(t)
	err := d.Err()
	corrupt := false
	for _, l := range d.Logs() {
		if lerr := l.errAlone(); lerr != nil {
			corrupt = true
			continue
		}
		if err == nil {
			err = l.closeClean(t)
		}
	}
	if err == nil {
		err = errors.Join(d.CheckpointRecoveryPoints(t), d.CheckpointLogStarts(t), d.CheckpointHighWatermarks(t))
	}
	// A log that is offline keeps its damage: the next start has to look at it again.
	if err == nil && !corrupt {
		err = writeCleanMarker(t, d.env.Disk, d.path, brokerEpoch)
	}
	return errors.Join(err, d.release(t))
}

// Close closes without marker and flush: the next start recovers.
func (d *Dir) Close(t *task.T) error {
	d.stop(t)
	return d.release(t)
}

// stop ends the directory's own tasks.
func (d *Dir) stop(t *task.T) {
	d.group.Stop()
	d.group.Wait(t)
}

func (d *Dir) release(t *task.T) error {
	var first error
	for _, l := range d.Logs() {
		l.markClosed()
		l.gate.Enter(t)
		err := l.closeSegments(t)
		l.gate.Leave(t)
		if err != nil && first == nil {
			first = err
		}
	}
	first = errors.Join(first, d.files.close(t))
	if d.lock == nil {
		return first
	}
	return errors.Join(first, d.lock.Close(t))
}

// errAlone is what is wrong with the log, its directory aside.
func (l *Log) errAlone() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.errLocked()
}

// closeClean makes everything of the log durable and ends its service.
func (l *Log) closeClean(t *task.T) error {
	l.gate.Enter(t)
	defer l.gate.Leave(t)
	s := l.active()
	if err := s.seal(t); err != nil {
		return l.failed(t, err)
	}
	if end := l.LogEndOffset(); end > 0 {
		if err := l.replaceSnapshot(t, end, l.encodeProducers()); err != nil {
			return l.failed(t, err)
		}
	}
	l.mu.Lock()
	l.unsealed = append(l.unsealed, s)
	l.namesDirty = true
	l.mu.Unlock()
	err := l.syncUntil(t, func() bool { return l.synced >= l.leo.offset && len(l.unsealed) == 0 })
	l.markClosed()
	return err
}

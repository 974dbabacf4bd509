package storage

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"seedlog/clock/task"
)

// errNotEqual: a copy that its maker says is complete is not.
var errNotEqual = errors.New("storage: the copy is not the log")

// Exchange moves the log into the directory of its copy: the copy's files become the log's, and
// those it had are deleted. The Log stays the same one to all who use it; who reads starts over,
// who appends waits, and goes on in the new directory.
//
// complete is called while nothing is appended or truncated, and copies what is missing. It
// reports whether the copy has the same records as the log then, no more and no less; if not
// nothing is done, and Exchange is false.
//
//	copy: all synced, epochs written        a crash leaves the log
//	<to>/…-future  -> <to>/<name>, synced   … either; both have the same, see replica.
//	the Log takes the copy's segments
//	<from>/<name>  -> …-delete, synced      … the new one
//
// An error is the copy's or its directory's, unless the log's own Err tells otherwise, and the
// log stays where it was. That the old files cannot be removed takes the old directory offline,
// which concerns the log no more.
func (l *Log) Exchange(t *task.T, future *Log, complete func(t *task.T) (bool, error)) (bool, error) {
	l.gate.Enter(t)
	defer l.gate.Leave(t)
	if err := l.Err(); err != nil {
		return false, err
	}
	if done, err := complete(t); err != nil || !done {
		return false, err
	}
	// Nothing is in doubt in the old files, and nobody syncs them while they change.
	if err := l.syncUntil(t, func() bool { return l.synced >= l.leo.offset && len(l.unsealed) == 0 && !l.syncing }); err != nil {
		return false, err
	}
	future.gate.Enter(t)
	defer future.gate.Leave(t)
	if err := future.settleCopy(t, l); err != nil {
		return false, err
	}
	to, err := future.takeName(t)
	if err != nil {
		return false, err
	}
	from, old := l.Dir(), l.Path()
	end := l.LogEndOffset()
	gone := l.takeSegments(future, to)
	l.wakeSyncWaiters()
	future.Dir().rehome(l, future)
	from.retire(t, l, old, gone)
	l.observe(Event{Kind: LogMoved, Offset: end})
	return true, nil
}

// settleCopy makes all of the copy durable, its derived files and the log's own epochs and
// producers with it: those that have no record are nowhere else. Under both gates.
func (f *Log) settleCopy(t *task.T, l *Log) error {
	if err := f.Err(); err != nil {
		return err
	}
	mine, its := f.Offsets(), l.Offsets()
	if mine.LogStart != its.LogStart || mine.LogEnd != its.LogEnd {
		return fmt.Errorf("%w: %s has [%d, %d), its copy [%d, %d)", errNotEqual, l.Name(), its.LogStart, its.LogEnd, mine.LogStart, mine.LogEnd)
	}
	l.mu.Lock()
	epochs := l.epochs.Clone()
	l.mu.Unlock()
	if err := f.storeEpochs(t, epochs); err != nil {
		return err
	}
	if err := f.active().writeIndexes(t, true); err != nil {
		return f.failed(t, err)
	}
	f.mu.Lock()
	f.namesDirty = true
	f.mu.Unlock()
	if mine.LogEnd > 0 {
		if err := f.replaceSnapshot(t, mine.LogEnd, l.encodeProducers()); err != nil {
			return f.failed(t, err)
		}
	}
	return f.syncUntil(t, func() bool {
		return f.synced >= f.leo.offset && len(f.unsealed) == 0 && !f.namesDirty && !f.syncing
	})
}

// takeName renames the copy's directory to the log's name, durably. Under both gates.
func (f *Log) takeName(t *task.T) (to string, err error) {
	d := f.Dir()
	from := f.Path()
	to = d.path + "/" + f.Name()
	if err := d.env.Disk.Rename(t, from, to); err != nil {
		return "", d.fault(t, err)
	}
	if err := d.env.Disk.SyncDir(t, d.path); err != nil {
		return "", d.fault(t, err)
	}
	c := &d.files
	c.mu.Lock()
	for _, s := range *f.segs.Load() {
		for _, h := range s.handles() {
			h.path = to + strings.TrimPrefix(h.path, from)
		}
	}
	c.mu.Unlock()
	d.mu.Lock()
	for i, x := range d.trash {
		if rest, ok := strings.CutPrefix(x.path, from+"/"); ok {
			d.trash[i].path = to + "/" + rest
		}
	}
	d.mu.Unlock()
	return to, d.Err()
}

// takeSegments lets the log be the copy, and returns the segments that it had. What is known of
// producers, epochs and the high watermark is the same in both, and stays. Under both gates.
func (l *Log) takeSegments(f *Log, path string) (gone []*segment) {
	f.mu.Lock()
	segs, leo, synced := *f.segs.Load(), f.leo, f.synced
	f.segs.Store(new([]*segment))
	f.closed = true
	f.pointMax = leo.offset - 1 // a checkpoint that has f on its list speaks of the log, which goes on
	f.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	gone = *l.segs.Load()
	l.dir.Store(f.Dir())
	l.path = path
	l.segs.Store(&segs)
	l.truncations++
	l.recent.reset()
	hw := l.hw.offset
	l.leo, l.lso, l.hw = leo, unresolved(-1), unresolved(hw)
	if hw == leo.offset {
		l.hw = leo
	}
	l.synced, l.loadedPoint, l.namesDirty = synced, f.loadedPoint, false
	l.dueAt.index, l.dueAt.listed = 0, false
	return gone
}

// rehome lists the log in place of its copy.
func (d *Dir) rehome(l, f *Log) {
	d.mu.Lock()
	d.logs[l.Name()] = l
	d.owesNothing(f)
	d.mu.Unlock()
	l.mu.Lock()
	at := l.dueAt.flush
	list := at != 0 && !l.dueAt.listed
	l.dueAt.listed = l.dueAt.listed || list
	l.mu.Unlock()
	if list {
		d.owe(l, true, at)
	}
}

// retire deletes the files that the log had in this directory. It is where it is: what fails
// here is this directory alone.
func (d *Dir) retire(t *task.T, l *Log, path string, gone []*segment) {
	to := fmt.Sprintf("%s/%s.%016x%016x%s", d.path, trimmed(l.Name()), d.random(1<<62), d.random(1<<62), deleteDirSuffix)
	err := d.env.Disk.Rename(t, path, to)
	if err == nil {
		err = d.env.Disk.SyncDir(t, d.path)
	}
	d.mu.Lock()
	delete(d.logs, l.Name())
	d.dropNumbers(l.Name())
	d.owesNothing(l)
	d.mu.Unlock()
	for _, s := range slices.Backward(gone) {
		err = errors.Join(err, s.close(t))
	}
	if err != nil && d.Err() == nil {
		d.failed(t, err)
		return
	}
	d.oweUnlink(trash{path: to, dir: true, at: l.deleteDue(t)})
}

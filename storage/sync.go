package storage

import (
	"errors"
	"slices"

	"seedlog/clock/task"
	"seedlog/disk"
)

// SyncTo waits until everything below offset is durable. Of all who wait, the first syncs,
// for what all have appended by then; the others park until it is done. An offset above the
// log end is taken for the log end.
func (l *Log) SyncTo(t *task.T, offset int64) error {
	return l.syncUntil(t, func() bool { return l.synced >= min(offset, l.leo.offset) })
}

// Flush makes everything durable that was appended before.
func (l *Log) Flush(t *task.T) error { return l.SyncTo(t, l.LogEndOffset()) }

// syncUntil syncs, or waits for those who do, until done, which is called under mu.
func (l *Log) syncUntil(t *task.T, done func() bool) error {
	for {
		if err := l.dirErr(); err != nil {
			return err
		}
		l.mu.Lock()
		if err := l.errLocked(); err != nil {
			l.mu.Unlock()
			return err
		}
		if done() {
			l.mu.Unlock()
			return nil
		}
		if l.syncing || l.pointMax != noPointMax {
			// Somebody is at it, or a truncation is: what it removes needs no sync.
			l.syncWaiters = append(l.syncWaiters, t)
			l.mu.Unlock()
			t.ParkHard()
			l.forgetWaiter(t)
			continue
		}
		l.syncing = true
		l.mu.Unlock()
		err := l.syncOnce(t)
		l.mu.Lock()
		l.syncing = false
		wake := l.syncWaiters
		l.syncWaiters = nil
		l.mu.Unlock()
		for _, w := range wake {
			w.Wake()
		}
		if err != nil {
			return err
		}
	}
}

// forgetWaiter takes a task off the list that a spurious wake left on it.
func (l *Log) forgetWaiter(t *task.T) {
	l.mu.Lock()
	if i := slices.Index(l.syncWaiters, t); i >= 0 {
		l.syncWaiters = slices.Delete(l.syncWaiters, i, i+1)
	}
	l.mu.Unlock()
}

// syncOnce syncs all that is not durable now. Its caller set l.syncing.
func (l *Log) syncOnce(t *task.T) error {
	l.mu.Lock()
	from, to, generation := l.synced, l.leo.offset, l.truncations
	names := l.namesDirty
	l.namesDirty = false
	sealed := slices.Clone(l.unsealed)
	segs := *l.segs.Load()
	path := l.path
	l.mu.Unlock()

	err := l.syncFiles(t, segs, sealed, from, path)
	if err == nil && names {
		err = l.env.Disk.SyncDir(t, path)
	}
	l.mu.Lock()
	removed := generation != l.truncations || l.closed
	l.namesDirty = l.namesDirty || names && (err != nil || removed)
	l.mu.Unlock()
	if removed && (errors.Is(err, ErrClosed) || errors.Is(err, disk.ErrNotExist)) {
		return nil // the file was removed meanwhile; the caller looks again
	}
	if err != nil {
		return l.failed(t, err)
	}
	// Another log of the directory may have failed: nothing of it is acknowledged any more.
	if err := l.dirErr(); err != nil {
		return err
	}
	nowMs := t.UnixMilli()
	l.mu.Lock()
	if generation != l.truncations {
		// What was synced may not be what is there now: a cut segment may even have been
		// appended to and sealed again. The caller looks again.
		l.mu.Unlock()
		return nil
	}
	l.synced = to
	l.unsealed = slices.DeleteFunc(l.unsealed, func(s *segment) bool { return slices.Contains(sealed, s) })
	l.lastFlushMs = nowMs
	fn := l.onSynced
	l.mu.Unlock()
	if to == from {
		return nil
	}
	l.observe(Event{Kind: LogFlushed, From: from, Offset: to})
	if fn != nil {
		fn(to)
	}
	return nil
}

// syncFiles syncs the logs of the segments that reach above from, and all files of those
// that were sealed.
func (l *Log) syncFiles(t *task.T, segs, sealed []*segment, from int64, path string) error {
	for i, s := range segs {
		last := i == len(segs)-1
		if !last && segs[i+1].base <= from && !slices.Contains(sealed, s) {
			continue
		}
		if err := l.syncHandle(t, &s.log); err != nil {
			return err
		}
	}
	for _, s := range sealed {
		for _, h := range []*fileHandle{&s.offsetsFile, &s.timesFile} {
			if err := l.syncHandle(t, h); err != nil {
				return err
			}
		}
		s.mu.Lock()
		txns := len(s.txns.list) > 0
		s.mu.Unlock()
		if txns {
			if err := l.syncHandle(t, &s.txns.h); err != nil {
				return err
			}
		}
	}
	if len(sealed) == 0 {
		return nil
	}
	// The snapshot that a segment ends with bears the name of the next one.
	for i, s := range segs[:len(segs)-1] {
		if slices.Contains(sealed, s) {
			if err := syncPath(t, l.env.Disk, segmentName(path, segs[i+1].base, snapshotSuffix)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *Log) syncHandle(t *task.T, h *fileHandle) error {
	return l.Dir().files.with(t, h, func(f disk.File) error { return f.Sync(t) })
}

// syncPath makes a file durable that is not open.
func syncPath(t *task.T, d disk.Disk, path string) error {
	f, err := d.Open(t, path, disk.Write)
	if err != nil {
		return err
	}
	err = f.Sync(t)
	if cerr := f.Close(t); err == nil {
		err = cerr
	}
	return err
}

// flushIfDue does what flush.messages above 1 asks for after an append; for 1 the caller
// syncs when it has appended everywhere (AppendInfo.MustSync). It owes flush.ms.
func (l *Log) flushIfDue(t *task.T, info *AppendInfo) error {
	l.mu.Lock()
	messages, ms := l.cfg.FlushMessages, l.cfg.FlushMs
	unflushed := l.leo.offset - l.synced
	l.mu.Unlock()
	if ms > 0 && unflushed > 0 {
		l.oweFlush(t, ms)
	}
	if messages > 1 && unflushed >= messages {
		return l.SyncTo(t, info.LastOffset+1)
	}
	return nil
}

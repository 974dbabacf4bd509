package storage

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/disk"
)

// indexDelay is how long an index entry may be in memory only.
const indexDelay = time.Second

// dueTimes is what housekeeping owes one log. Guarded by its mu; zero is nothing.
type dueTimes struct {
	index, flush clock.Instant
	listed       bool
}

func (d *dueTimes) next() clock.Instant {
	at := clock.Never
	if d.index != 0 {
		at = min(at, d.index)
	}
	if d.flush != 0 {
		at = min(at, d.flush)
	}
	return at
}

// trash is a file or directory to be unlinked later.
type trash struct {
	path   string
	handle *fileHandle // closed first, if there is one
	dir    bool
	at     clock.Instant
}

// Run is the directory's housekeeping: index tails written within a second, flush.ms,
// unlinking. It returns when t's group stops.
func (d *Dir) Run(t *task.T) {
	d.mu.Lock()
	d.runner = t
	d.mu.Unlock()
	for {
		next := d.Housekeep(t)
		d.mu.Lock()
		d.wakeAt = next
		d.mu.Unlock()
		// What was owed between the two is before next or has woken the task.
		if next = min(next, d.nextDue()); next <= t.Now() {
			continue
		}
		if t.Park(next) == task.Stopping {
			break
		}
	}
	d.mu.Lock()
	d.runner, d.wakeAt = nil, clock.Never
	d.mu.Unlock()
}

// Housekeep does what is due and returns when it is to be called again. Run calls it; a host
// with a schedule of its own may do so instead.
func (d *Dir) Housekeep(t *task.T) clock.Instant {
	now := t.Now()
	d.mu.Lock()
	owing := slices.Clone(d.owing)
	d.mu.Unlock()
	for _, l := range owing {
		l.settle(t, d, now)
	}
	d.unlinkDue(t, now)
	return d.nextDue()
}

// nextDue is when the next thing is due.
func (d *Dir) nextDue() clock.Instant {
	at := clock.Never
	d.mu.Lock()
	owing := slices.Clone(d.owing)
	for i := range d.trash {
		at = min(at, d.trash[i].at)
	}
	d.mu.Unlock()
	for _, l := range owing {
		l.mu.Lock()
		at = min(at, l.dueAt.next())
		l.mu.Unlock()
	}
	return at
}

// owe puts the log on the housekeeping's list, to be looked at by then.
func (d *Dir) owe(l *Log, list bool, at clock.Instant) {
	d.mu.Lock()
	if list {
		d.owing = append(d.owing, l)
	}
	var wake *task.T
	if at < d.wakeAt {
		wake, d.wakeAt = d.runner, at
	}
	d.mu.Unlock()
	if wake != nil {
		wake.Wake()
	}
}

// oweIndexWrite sees to it that index entries reach the file within a second. Under the
// Gate.
func (l *Log) oweIndexWrite(t *task.T, s *segment) {
	if !s.offsets.Dirty() && !s.times.Dirty() {
		return
	}
	l.mu.Lock()
	if l.dueAt.index != 0 {
		l.mu.Unlock()
		return
	}
	at := t.Now().Add(indexDelay)
	l.dueAt.index = at
	list := !l.dueAt.listed
	l.dueAt.listed = true
	l.mu.Unlock()
	l.Dir().owe(l, list, at)
}

// oweFlush sees to it that what was appended is durable within flush.ms.
func (l *Log) oweFlush(t *task.T, ms int64) {
	l.mu.Lock()
	if l.dueAt.flush != 0 {
		l.mu.Unlock()
		return
	}
	at := t.Now().Add(time.Duration(min(ms, maxDelayMs)) * time.Millisecond)
	l.dueAt.flush = at
	list := !l.dueAt.listed
	l.dueAt.listed = true
	l.mu.Unlock()
	l.Dir().owe(l, list, at)
}

// maxDelayMs is the longest delay that a Duration holds.
const maxDelayMs = int64(1<<63-1) / int64(time.Millisecond)

// settle does what the log is owed by now, and takes it off d's list if that is all, or if the
// log moved to another directory meanwhile. What fails took the log offline.
func (l *Log) settle(t *task.T, d *Dir, now clock.Instant) {
	l.mu.Lock()
	index := l.dueAt.index != 0 && l.dueAt.index <= now
	flush := l.dueAt.flush != 0 && l.dueAt.flush <= now
	if index {
		l.dueAt.index = 0
	}
	if flush {
		l.dueAt.flush = 0
	}
	l.mu.Unlock()
	if index {
		l.writeOwedIndexes(t)
	}
	if flush {
		_ = l.Flush(t)
	}
	d.mu.Lock()
	l.mu.Lock()
	here := l.Dir() == d
	if !here || l.dueAt.next() == clock.Never {
		if here {
			l.dueAt.listed = false
		}
		d.owesNothing(l)
	}
	l.mu.Unlock()
	d.mu.Unlock()
}

// owesNothing takes a log off the list. Under mu.
func (d *Dir) owesNothing(l *Log) {
	if i := slices.Index(d.owing, l); i >= 0 {
		d.owing = slices.Delete(d.owing, i, i+1)
	}
}

func (l *Log) writeOwedIndexes(t *task.T) {
	l.gate.Enter(t)
	defer l.gate.Leave(t)
	if l.Err() != nil {
		return
	}
	if err := l.active().writeIndexes(t, true); err != nil {
		_ = l.failed(t, err)
	}
}

// trashName is what a file is renamed to before it is unlinked: a name that no other file
// that waits for that has.
func (d *Dir) trashName(from string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := from + deletedSuffix
	for n := 1; slices.ContainsFunc(d.trash, func(x trash) bool { return x.path == name }); n++ {
		name = from + "." + strconv.Itoa(n) + deletedSuffix
	}
	return name
}

// oweUnlink puts a file or directory that has its last name on the list.
func (d *Dir) oweUnlink(x trash) {
	d.mu.Lock()
	d.trash = append(d.trash, x)
	var wake *task.T
	if x.at < d.wakeAt {
		wake, d.wakeAt = d.runner, x.at
	}
	d.mu.Unlock()
	if wake != nil {
		wake.Wake()
	}
}

// unlinkDue unlinks what is due. What cannot be unlinked is left to the next start.
func (d *Dir) unlinkDue(t *task.T, now clock.Instant) {
	d.mu.Lock()
	var due []trash
	d.trash = slices.DeleteFunc(d.trash, func(x trash) bool {
		if x.at > now {
			return false
		}
		due = append(due, x)
		return true
	})
	d.mu.Unlock()
	for _, x := range due {
		if x.handle != nil {
			_ = d.files.drop(t, x.handle)
		}
		if x.dir {
			_ = removeTree(t, d.env.Disk, x.path)
		} else {
			_ = d.env.Disk.Remove(t, x.path)
		}
	}
}

// removeTree removes a directory and the files in it.
func removeTree(t *task.T, dk disk.Disk, path string) error {
	infos, err := dk.ReadDir(t, path)
	if errors.Is(err, disk.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, in := range infos {
		name := path + "/" + in.Name
		if in.Dir {
			err = removeTree(t, dk, name)
		} else {
			err = dk.Remove(t, name)
		}
		if err != nil {
			return err
		}
	}
	return dk.Remove(t, path)
}

package storage

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/disk"
)

// discard renames a segment's files to .deleted, at once, so that a new file of the same
// name is another file, and leaves the unlinking to housekeeping. With cut the .log is
// emptied first, which ends the connections that are sending it.
func (l *Log) discard(t *task.T, s *segment, cut bool) error {
	s.unpin(t)
	if cut {
		if err := s.files.with(t, &s.log, func(f disk.File) error { return f.Truncate(t, 0) }); err != nil {
			return err
		}
	}
	for _, h := range s.handles() {
		if err := l.discardHandle(t, h); err != nil {
			return err
		}
	}
	l.observe(Event{Kind: SegmentDeleted, Offset: s.base})
	return nil
}

func (l *Log) discardHandle(t *task.T, h *fileHandle) error {
	c := &l.Dir().files
	c.mu.Lock()
	from := h.path
	// From here on no open may make the file anew.
	if h.mode == disk.Create {
		h.mode = disk.Write
	}
	c.mu.Unlock()
	to := l.Dir().trashName(from)
	err := c.rename(t, h, to)
	if errors.Is(err, disk.ErrNotExist) {
		return nil // an index that was never made
	}
	if err != nil {
		return err
	}
	l.Dir().oweUnlink(trash{path: to, handle: h, at: l.deleteDue(t)})
	return nil
}

// deleteDue is when what is deleted now may be unlinked.
func (l *Log) deleteDue(t *task.T) clock.Instant {
	return t.Now().Add(time.Duration(max(l.Config().FileDeleteDelayMs, 0)) * time.Millisecond)
}

// snapshots lists the producer snapshots in the log's directory, ascending.
func (l *Log) snapshots(t *task.T) ([]int64, error) {
	infos, err := l.env.Disk.ReadDir(t, l.path)
	if err != nil {
		return nil, err
	}
	var list []int64
	for _, in := range infos {
		if o, ok := offsetName(in.Name, snapshotSuffix); ok {
			list = append(list, o)
		}
	}
	return list, nil
}

// removeSnapshots removes the snapshots whose offset satisfies which. Like every deletion it
// renames first.
func (l *Log) removeSnapshots(t *task.T, which func(offset int64) bool) error {
	list, err := l.snapshots(t)
	if err != nil {
		return err
	}
	for _, o := range list {
		if !which(o) {
			continue
		}
		path := segmentName(l.path, o, snapshotSuffix)
		to := l.Dir().trashName(path)
		if err := l.env.Disk.Rename(t, path, to); err != nil {
			return err
		}
		l.Dir().oweUnlink(trash{path: to, at: l.deleteDue(t)})
	}
	return nil
}

// offsetName parses "<20 digits><suffix>".
func offsetName(name, suffix string) (int64, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	o, err := strconv.ParseInt(digits, 10, 64)
	return o, err == nil && o >= 0
}

package storage

import (
	"errors"
	"slices"
	"strings"

	"seedlog/clock/task"
)

// Load recovers the logs in the directory, num.recovery.threads.per.data.dir at a time, and
// returns them in the order of their names. progress, if not nil, is called after every
// segment. A log with damage below its recovery point is returned as well: its Err says
// what is damaged, and nothing of it was changed. The error is the directory's own.
func (d *Dir) Load(t *task.T, cfgOf func(topic string, id [16]byte) Config, progress func(Progress)) ([]*Log, error) {
	if err := d.Err(); err != nil {
		return nil, err
	}
	logs, segments, err := d.discover(t, cfgOf)
	if err != nil {
		return nil, d.fault(t, err)
	}
	r := recovery{d: d, logs: logs, report: progress}
	r.mu.Init(d.env.RT, "storage.recovery")
	r.progress = Progress{LogsTotal: len(logs), SegmentsTotal: segments}
	group := task.NewGroup(d.env.RT, "recover "+d.path)
	for range min(d.cfg.RecoveryThreads, len(logs)) {
		group.Go("recover "+d.path, r.run)
	}
	group.Wait(t)
	if r.err != nil {
		for _, l := range logs {
			r.err = errors.Join(r.err, l.closeSegments(t)) // those that were loaded before the failure
		}
		return nil, d.fault(t, r.err)
	}
	for _, l := range logs {
		if err := d.add(t, l); err != nil {
			return nil, err
		}
	}
	d.prune()
	if slices.ContainsFunc(logs, d.markAbove) {
		if err := d.CheckpointHighWatermarks(t); err != nil {
			return nil, err
		}
	}
	return d.Logs(), d.Err()
}

// markAbove reports whether the stored high watermark lies above the log's end: some of what was
// committed is lost. It must not stay stored, for the next start would take what is appended from
// now on for committed.
func (d *Dir) markAbove(l *Log) bool {
	d.mu.Lock()
	mark := d.marks[l.Name()]
	d.mu.Unlock()
	return l.Err() == nil && mark > l.LogEndOffset()
}

// discover lists the log directories that are to be loaded, and clears what deletions left.
func (d *Dir) discover(t *task.T, cfgOf func(topic string, id [16]byte) Config) (logs []*Log, segments int, err error) {
	infos, err := d.env.Disk.ReadDir(t, d.path)
	if err != nil {
		return nil, 0, err
	}
	seen := make(map[string]bool, len(infos)) // by log name
	for _, in := range infos {
		if _, _, future, ok := parseAnyDir(in.Name); ok && !future && in.Dir {
			seen[in.Name] = true
		}
	}
	for _, in := range infos {
		if !in.Dir {
			continue
		}
		if strings.HasSuffix(in.Name, deleteDirSuffix) {
			d.oweUnlink(trash{path: d.path + "/" + in.Name, dir: true, at: t.Now()})
			continue
		}
		topic, partition, future, ok := parseAnyDir(in.Name)
		if !ok || topic == MetadataTopic {
			continue
		}
		name := logName(topic, partition)
		if future {
			if seen[name] { // what a copy would be made into is there, or another copy
				d.oweUnlink(trash{path: d.path + "/" + in.Name, dir: true, at: t.Now()})
				continue
			}
			seen[name] = true
		}
		d.mu.Lock()
		_, open := d.logs[name]
		d.mu.Unlock()
		if open {
			continue
		}
		path := d.path + "/" + in.Name
		id, err := readMetadata(t, d.env.Disk, path)
		if err != nil {
			return nil, 0, err
		}
		files, err := d.env.Disk.ReadDir(t, path)
		if err != nil {
			return nil, 0, err
		}
		for _, f := range files {
			if strings.HasSuffix(f.Name, logSuffix) {
				segments++
			}
		}
		l := d.newLog(topic, id, partition, cfgOf(topic, id))
		l.path, l.future = path, future
		logs = append(logs, l)
	}
	return logs, segments, nil
}

// recovery is the work of Load, shared by its tasks.
type recovery struct {
	d      *Dir
	logs   []*Log
	report func(Progress)

	mu       task.Mutex
	next     int
	progress Progress
	err      error
}

func (r *recovery) run(t *task.T) {
	for {
		r.mu.Lock()
		if r.next == len(r.logs) || r.err != nil {
			r.mu.Unlock()
			return
		}
		l := r.logs[r.next]
		r.next++
		r.mu.Unlock()
		err := r.d.loadLog(t, l, func() { r.done(0, 1) })
		if err != nil && !errors.Is(err, ErrCorrupt) {
			r.mu.Lock()
			if r.err == nil {
				r.err = err
			}
			r.mu.Unlock()
			return
		}
		r.done(1, 0)
	}
}

func (r *recovery) done(logs, segments int) {
	r.mu.Lock()
	r.progress.LogsDone += logs
	r.progress.SegmentsDone += segments
	p := r.progress
	r.mu.Unlock()
	if r.report != nil {
		r.report(p)
	}
}

// loadLog loads one log. A corrupt one is offline by itself; the directory is not.
func (d *Dir) loadLog(t *task.T, l *Log, onSegment func()) error {
	name := l.Name()
	d.mu.Lock()
	point, known := d.points[name]
	p := loading{
		l: l, clean: d.clean && known, checkpoint: point,
		start: d.starts[name], hw: d.marks[name], onSegment: onSegment,
	}
	d.mu.Unlock()
	err := p.load(t)
	if err == nil {
		return nil
	}
	err = errors.Join(err, p.close(t))
	if errors.Is(err, ErrCorrupt) {
		l.observe(Event{Kind: LogCorrupt, From: p.end, Offset: p.checkpoint, Err: err})
		l.mu.Lock()
		l.start, l.synced = p.start, p.checkpoint
		l.mu.Unlock()
		l.fail(err)
		return l.Err()
	}
	return err
}

package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/storage/checkpoint"
)

// MetadataTopic is the topic of the metadata quorum. Load leaves it to whoever hosts the
// quorum, who calls Open.
const MetadataTopic = "__cluster_metadata"

// Dir is one log.dir: its lock, its checkpoints, its clean-shutdown marker, its logs, and
// whether it is online. Once it is offline it stays so until the process opens it anew;
// reads and deletions go on.
type Dir struct {
	env   Env
	path  string
	cfg   DirConfig
	files fileCache
	group *task.Group // short tasks: syncs after a roll, recovery
	lock  disk.Closer // nil for a LostDir

	// Read when the directory was opened.
	clean     bool
	prevEpoch int64

	// checkpoints orders the writing of checkpoint files.
	checkpoints task.Gate

	mu        task.Mutex // guards what follows
	err       error
	onOffline []func(error)
	logs      map[string]*Log
	points    map[string]int64 // what the checkpoint files said, by log name
	starts    map[string]int64
	marks     map[string]int64
	stale     map[string]bool // names in checkpoint files that may be of deleted logs
	rand      *rand.Rand
	ballast   bool
	owing     []*Log
	trash     []trash
	runner    *task.T
	wakeAt    clock.Instant
}

// SetRecoveryThreads says how many logs Load recovers at once, where that is known only after
// the directory was opened: the metadata may say so.
func (d *Dir) SetRecoveryThreads(n int) { d.cfg.RecoveryThreads = max(n, 1) }

// OpenDir takes the lock of the directory, which is made if it is missing, reads its
// checkpoints and its clean-shutdown marker, and removes the marker, durably: from here on
// only CloseClean makes the stop a clean one.
func OpenDir(t *task.T, env Env, path string, cfg DirConfig) (*Dir, error) {
	d := newDir(env, path, cfg)
	if err := env.Disk.MkdirAll(t, path); err != nil {
		return nil, err
	}
	if err := env.Disk.SyncDir(t, parent(path)); err != nil && !errors.Is(err, disk.ErrNotExist) {
		return nil, err
	}
	lock, err := env.Disk.Lock(t, path+"/"+lockFile)
	if err != nil {
		return nil, err
	}
	d.lock = lock
	if err := d.open(t); err != nil {
		return nil, errors.Join(err, lock.Close(t))
	}
	return d, nil
}

// LostDir stands for a directory that could not be opened because of err: it is offline, holds
// no lock and has no logs.
func LostDir(env Env, path string, err error) *Dir {
	d := newDir(env, path, DirConfig{})
	d.Fail(err)
	return d
}

func newDir(env Env, path string, cfg DirConfig) *Dir {
	d := &Dir{env: env, path: path, cfg: cfg, prevEpoch: -1, logs: map[string]*Log{}, stale: map[string]bool{}, rand: env.Rand}
	if d.cfg.MaxOpenFiles <= 0 {
		d.cfg.MaxOpenFiles = 1024
	}
	d.SetRecoveryThreads(cfg.RecoveryThreads)
	d.mu.Init(env.RT, "storage.Dir")
	d.checkpoints.Init(env.RT, "storage.Dir.checkpoints")
	d.files.init(env.RT, env.Disk, d.cfg.MaxOpenFiles)
	d.group = task.NewGroup(env.RT, "dir "+path)
	d.wakeAt = clock.Never
	return d
}

func (d *Dir) open(t *task.T) (err error) {
	if d.points, err = d.readOffsets(t, checkpoint.RecoveryPointFile); err != nil {
		return err
	}
	if d.starts, err = d.readOffsets(t, checkpoint.LogStartOffsetFile); err != nil {
		return err
	}
	if d.marks, err = d.readOffsets(t, checkpoint.HighWatermarkFile); err != nil {
		return err
	}
	if d.clean, d.prevEpoch, err = takeCleanMarker(t, d.env.Disk, d.path); err != nil {
		return err
	}
	return d.inflateBallast(t)
}

func parent(path string) string {
	i := strings.LastIndexByte(strings.TrimRight(path, "/"), '/')
	switch {
	case i < 0:
		return "."
	case i == 0:
		return "/"
	}
	return path[:i]
}

// Path is the directory's path.
func (d *Dir) Path() string { return d.path }

// WasClean tells that the stop before this start was clean.
func (d *Dir) WasClean() bool { return d.clean }

// PreviousBrokerEpoch is the epoch in the clean-shutdown marker, -1 if there was none.
func (d *Dir) PreviousBrokerEpoch() int64 { return d.prevEpoch }

// Err is nil while the directory is online; it wraps ErrOffline and the cause.
func (d *Dir) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// OnOffline adds what is called once when the directory goes offline, with no lock held. It
// must not wait.
func (d *Dir) OnOffline(fn func(err error)) {
	d.mu.Lock()
	d.onOffline = append(d.onOffline, fn)
	d.mu.Unlock()
}

// Fail takes the directory offline: from here on nothing is appended or synced in it.
func (d *Dir) Fail(err error) {
	d.mu.Lock()
	if d.err != nil {
		d.mu.Unlock()
		return
	}
	d.err = fmt.Errorf("%w: directory %s: %w", ErrOffline, d.path, err)
	out, told := d.err, slices.Clone(d.onOffline)
	logs := d.sortedLogs()
	d.mu.Unlock()
	for _, l := range logs {
		l.wakeSyncWaiters()
	}
	d.env.observe(Event{Kind: DirOffline, Dir: d.path, Err: err})
	for _, fn := range told {
		fn(out)
	}
}

// failed is Fail by a task, which gives the ballast back if the disk is full.
func (d *Dir) failed(t *task.T, err error) {
	d.Fail(err)
	if errors.Is(err, disk.ErrNoSpace) {
		// The deletions that would make room must not fail for want of it.
		_ = d.ReleaseBallast(t)
	}
}

func (l *Log) wakeSyncWaiters() {
	l.mu.Lock()
	wake := l.syncWaiters
	l.syncWaiters = nil
	l.mu.Unlock()
	for _, w := range wake {
		w.Wake()
	}
}

// Logs lists the logs in the order of their names.
func (d *Dir) Logs() []*Log {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sortedLogs()
}

func (d *Dir) sortedLogs() []*Log {
	out := make([]*Log, 0, len(d.logs))
	for _, l := range d.logs { //order: sorted below
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b *Log) int {
		if c := strings.Compare(a.topic, b.topic); c != 0 {
			return c
		}
		return int(a.partition) - int(b.partition)
	})
	return out
}

// random draws from [0, n).
func (d *Dir) random(n int64) int64 {
	if n <= 0 {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.rand == nil {
		return 0
	}
	return d.rand.Int64N(n)
}

// newLog describes a log; nothing is read.
func (d *Dir) newLog(topic string, id [16]byte, partition int32, cfg Config) *Log {
	l := &Log{env: &d.env, topic: topic, id: id, partition: partition, cfg: cfg.withDefaults()}
	l.dir.Store(d)
	l.path = d.path + "/" + logName(topic, partition)
	l.gate.Init(d.env.RT, "storage.Log.gate")
	l.mu.Init(d.env.RT, "storage.Log")
	l.segs.Init(d.env.RT, new([]*segment))
	l.reset()
	return l
}

// parseLogDir splits "<topic>-<partition>".
func parseLogDir(name string) (topic string, partition int32, ok bool) {
	i := strings.LastIndexByte(name, '-')
	if i <= 0 {
		return "", 0, false
	}
	p, err := strconv.ParseInt(name[i+1:], 10, 32)
	if err != nil || p < 0 || strconv.FormatInt(p, 10) != name[i+1:] {
		return "", 0, false
	}
	return name[:i], int32(p), true
}

// Create makes the log's directory, durably, with an empty segment.
func (d *Dir) Create(t *task.T, topic string, id [16]byte, partition int32, cfg Config) (*Log, error) {
	if err := d.Err(); err != nil {
		return nil, err
	}
	return d.create(t, d.newLog(topic, id, partition, cfg))
}

func (d *Dir) create(t *task.T, l *Log) (*Log, error) {
	name := l.Name()
	path := d.path + "/" + name
	d.mu.Lock()
	_, exists := d.logs[name]
	stale := d.stale[name]
	d.mu.Unlock()
	if exists {
		return nil, fmt.Errorf("%w: %s in %s", ErrExists, name, d.path)
	}
	if _, err := d.env.Disk.Stat(t, path); err == nil {
		return nil, fmt.Errorf("%w: %s", ErrExists, path)
	} else if !errors.Is(err, disk.ErrNotExist) {
		return nil, d.fault(t, err)
	}
	if stale {
		// What the checkpoints say of the name is of an earlier topic's log.
		if err := d.forget(t, name); err != nil {
			return nil, d.fault(t, err)
		}
	}
	if err := d.makeLog(t, l); err != nil {
		return nil, d.fault(t, err)
	}
	return l, d.add(t, l)
}

// makeLog makes the directory of a new log and its first segment.
func (d *Dir) makeLog(t *task.T, l *Log) error {
	if err := d.env.Disk.MkdirAll(t, l.path); err != nil {
		return err
	}
	if err := writeMetadata(t, d.env.Disk, l.path, l.id); err != nil {
		return err
	}
	p := loading{l: l} // not clean: load syncs the names in the directory
	err := p.load(t)
	if err == nil {
		err = d.env.Disk.SyncDir(t, d.path)
	}
	if err != nil {
		return errors.Join(err, p.close(t))
	}
	l.mu.Lock()
	l.unclean, l.namesDirty = false, false
	l.mu.Unlock()
	l.observe(Event{Kind: LogCreated})
	return nil
}

// fault takes the directory offline because of an error of the disk.
func (d *Dir) fault(t *task.T, err error) error {
	if errors.Is(err, ErrOffline) {
		return err
	}
	d.failed(t, err)
	return d.Err()
}

// add lists the log, or closes it if there is one of its name.
func (d *Dir) add(t *task.T, l *Log) error {
	d.mu.Lock()
	_, exists := d.logs[l.Name()]
	if !exists {
		d.logs[l.Name()] = l
		d.stale[l.Name()] = true
	}
	d.mu.Unlock()
	if exists {
		return errors.Join(fmt.Errorf("%w: %s in %s", ErrExists, l.Name(), d.path), l.closeSegments(t))
	}
	return nil
}

// Open loads one log, or makes it if there is none. Load does not touch it any more. A
// corrupt log is returned together with its error, offline.
func (d *Dir) Open(t *task.T, topic string, id [16]byte, partition int32, cfg Config) (*Log, error) {
	if err := d.Err(); err != nil {
		return nil, err
	}
	path := d.path + "/" + logName(topic, partition)
	if _, err := d.env.Disk.Stat(t, path); errors.Is(err, disk.ErrNotExist) {
		return d.Create(t, topic, id, partition, cfg)
	} else if err != nil {
		return nil, d.fault(t, err)
	}
	l := d.newLog(topic, id, partition, cfg)
	if stored, err := readMetadata(t, d.env.Disk, path); err != nil {
		return nil, d.fault(t, err)
	} else if stored != ([16]byte{}) {
		l.id = stored
	} else if err := writeMetadata(t, d.env.Disk, path, id); err != nil {
		return nil, d.fault(t, err)
	}
	err := d.loadLog(t, l, nil)
	if aerr := d.add(t, l); aerr != nil {
		return nil, aerr
	}
	return l, err
}

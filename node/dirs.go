package node

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/node/event"
	"seedlog/node/meta"
	"seedlog/node/quorum"
	"seedlog/node/replica"
	"seedlog/storage"
)

// openDir is a log directory with its identity.
type openDir struct {
	*storage.Dir
	id       meta.UUID
	metadata bool // holds the metadata log
	data     bool // holds partitions: it is one of log.dirs, and the node is a broker
	lost     bool // offline since the start, before its logs and perhaps its id were read
}

// lose has the node start without the directory.
func (d *openDir) lose(err error) {
	d.lost = true
	d.Fail(err)
}

// open locks the directories. One that the disk does not let be opened is lost, unless it is
// the metadata log's; one that another process has locked is a mistake.
func (l *life) open(t *task.T) error {
	paths := slices.Clone(l.cfg.LogDirs)
	if !slices.Contains(paths, l.cfg.MetadataLogDir) {
		paths = append(paths, l.cfg.MetadataLogDir)
	}
	env := storage.Env{RT: l.h.RT, Disk: l.h.Disk, Events: observer{l.h.Events}}
	for _, path := range paths {
		metadata := path == l.cfg.MetadataLogDir
		var cfg storage.DirConfig
		if metadata {
			cfg.BallastBytes = ballastBytes
		}
		env.Rand = l.h.Rand("storage " + path)
		d, err := storage.OpenDir(t, env, path, cfg)
		lost := err != nil && !metadata && !errors.Is(err, disk.ErrLocked)
		if lost {
			d = storage.LostDir(env, path, err)
		} else if err != nil {
			return fmt.Errorf("log directory %s: %w", path, err)
		}
		l.dirs = append(l.dirs, &openDir{Dir: d, metadata: metadata, data: l.cfg.IsBroker && slices.Contains(l.cfg.LogDirs, path), lost: lost})
	}
	return nil
}

// ballastBytes is what a full disk gives back so that topics can be deleted.
const ballastBytes = 16 << 20

// identify reads the directories' meta.properties, or formats them all if none has one, the
// host allows it and the node is alone. A directory whose file cannot be read is lost, as in
// Kafka; one that has none, a damaged one or somebody else's is a mistake to be put right.
func (l *life) identify(t *task.T) error {
	paths := make([]string, 0, len(l.dirs))
	for _, d := range l.dirs {
		paths = append(paths, d.Path())
	}
	found, err := quorum.Load(t, l.h.Disk, l.cfg.NodeID, paths)
	if err != nil {
		return err
	}
	ids, missing := found.IDs, found.Missing
	switch {
	case len(missing) == len(paths) && l.h.Format && l.cfg.Alone():
		if ids, err = l.format(t, paths); err != nil {
			return err
		}
	case len(missing) > 0:
		return fmt.Errorf("%w: %s has no meta.properties", ErrNotFormatted, strings.Join(missing, ", "))
	}
	for _, d := range l.dirs {
		id := ids[d.Path()]
		d.id = id.DirectoryID
		if d.metadata {
			l.identity = id
		}
	}
	return l.loseDirs(found.Unreadable)
}

// loseDirs takes the directories that cannot be read offline. Without the metadata's, or
// without any for data, there is no node.
func (l *life) loseDirs(unreadable map[string]error) error {
	var lost error
	online := 0
	for _, d := range l.dirs {
		err := unreadable[d.Path()]
		if err != nil && d.metadata {
			return err
		}
		if err != nil {
			d.lose(err)
		}
		switch {
		case d.lost:
			lost = d.Err()
		case d.data:
			online++
		}
	}
	if l.cfg.IsBroker && online == 0 {
		return fmt.Errorf("no log directory can be read: %w", lost)
	}
	return nil
}

func (l *life) format(t *task.T, paths []string) (map[string]quorum.Identity, error) {
	adv := l.advertised(l.cfg.AdvertisedBrokers())
	spec := quorum.FormatSpec{
		LogDirs: paths, MetadataLogDir: l.cfg.MetadataLogDir, NodeID: l.cfg.NodeID,
		Entropy: l.h.Entropy, UnixMilli: t.UnixMilli(),
		ControllerListener: adv[0].Name, Host: adv[0].Host, Port: uint16(adv[0].Port),
	}
	l.n.event("formatting", int64(len(paths)), l.cfg.MetadataLogDir)
	return quorum.Format(t, l.h.Disk, spec)
}

// openMetadata opens the metadata log. The logs of the directories are recovered later,
// under the settings that it holds for their topics.
func (l *life) openMetadata(t *task.T) error {
	for _, d := range l.dirs {
		if !d.metadata {
			continue
		}
		log, err := d.Open(t, quorum.ClusterMetadata, quorum.ClusterMetadataID(), 0, metadataLogConfig())
		if err != nil {
			return fmt.Errorf("metadata log in %s: %w", d.Path(), err)
		}
		env := quorum.Env{
			RT: l.h.RT, Disk: l.h.Disk, Net: l.h.Net, Rand: l.h.Rand("quorum"), Events: l.h.Events, LeaderMoved: l.leaderMoved,
		}
		l.quorum, err = quorum.Open(t, env, l.quorumConfig(), log, d.Path()+"/"+log.Name())
		if err != nil {
			return err
		}
	}
	return nil
}

// recoverLogs recovers the logs of all directories at once, when the first metadata is
// there: a log that is rebuilt under other settings than its own would not be the same.
func (l *life) recoverLogs(t *task.T, d *meta.Delta) {
	if d.From.Offset >= 0 {
		return
	}
	group := task.NewGroup(l.h.RT, "loading")
	failures := make([]error, len(l.dirs))
	for i, dir := range l.dirs {
		if dir.data && !dir.lost {
			group.Go("load "+dir.Path(), func(t *task.T) { failures[i] = l.loadDir(t, dir, d.To) })
		}
	}
	group.Wait(t)
	if err := l.lostDirs(failures); err != nil {
		l.n.fail(err)
		return
	}
	l.replicas.Adopt(quorum.ClusterMetadata)
	l.replicas.Start()
}

// lostDirs judges directories that failed while they were loaded, by position: without the
// metadata's, or without any for data, there is no node; else the others go on.
func (l *life) lostDirs(failures []error) error {
	online := 0
	for i, d := range l.dirs {
		switch {
		case failures[i] != nil && d.metadata:
			return failures[i]
		case failures[i] != nil:
			l.h.Events.Emit(event.PartitionFailed{Topic: d.Path(), Partition: -1, Err: failures[i]})
		case d.data && !d.lost:
			online++
		}
	}
	if online == 0 {
		return errors.Join(failures...)
	}
	return nil
}

func (l *life) loadDir(t *task.T, d *openDir, image *meta.Image) error {
	cfg := l.settings.Load()
	d.SetRecoveryThreads(cfg.NumRecoveryThreads)
	logs, err := d.Load(t, func(topic string, _ [16]byte) storage.Config {
		settings := cfg.Topic(image.Config(meta.TopicResource, topic).Map())
		return replica.LogConfig(cfg, &settings)
	}, func(p storage.Progress) {
		l.h.Events.Emit(event.Loading{Dir: d.Path(), LogsDone: p.LogsDone, Logs: p.LogsTotal, SegmentsDone: p.SegmentsDone, Segments: p.SegmentsTotal})
	})
	if err != nil {
		return err
	}
	l.n.event("loaded", int64(len(logs)), d.Path())
	return nil
}

// metadataLogConfig is what Kafka gives the metadata log.
func metadataLogConfig() storage.Config {
	return storage.Config{
		SegmentBytes: 1 << 30, MaxMessageBytes: 8 << 20,
		SegmentMs: 7 * 24 * 3600 * 1000, RetentionMs: -1, RetentionBytes: -1,
	}
}

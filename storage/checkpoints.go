package storage

import (
	"errors"
	"strings"

	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/storage/checkpoint"
	"seedlog/storage/epoch"
)

// lockFile is Kafka's, so that the JVM's broker and this one exclude each other.
const lockFile = ".lock"

// readOffsets reads a checkpoint file into a map by log name. A missing file is an empty
// one, and so is a damaged one: without a recovery point everything is checked, without a
// log start the first segment's base is it.
func (d *Dir) readOffsets(t *task.T, file string) (map[string]int64, error) {
	list, err := checkpoint.ReadOffsets(t, d.env.Disk, d.path+"/"+file)
	if err != nil && !errors.Is(err, disk.ErrNotExist) && !errors.Is(err, checkpoint.ErrDamaged) {
		return nil, err
	}
	out := make(map[string]int64, len(list))
	for _, o := range list {
		name := logName(o.Topic, o.Partition)
		out[name] = o.Offset
		d.stale[name] = true
	}
	return out, nil
}

// CheckpointRecoveryPoints writes the recovery points of all logs.
func (d *Dir) CheckpointRecoveryPoints(t *task.T) error {
	return d.writeOffsets(t, checkpoint.RecoveryPointFile, d.points, (*Log).recoveryPoint)
}

// recoveryPoint is where a check would have to begin: below it, logs are durable, and so are
// the derived files of segments that end at or below it. The log end of a segment that is
// being appended to is not such a point, for the next segment may begin there before the
// indexes of this one are synced: the point stays one below. Under mu.
func (l *Log) recoveryPoint() int64 {
	at := min(l.synced, l.pointMax)
	if !l.closed && at == l.leo.offset && at > l.leo.base && l.leo.base >= 0 {
		at--
	}
	for _, s := range l.unsealed {
		at = min(at, s.base)
	}
	return max(at, 0)
}

// CheckpointLogStarts writes the log start offsets of all logs.
func (d *Dir) CheckpointLogStarts(t *task.T) error {
	return d.writeOffsets(t, checkpoint.LogStartOffsetFile, d.starts, func(l *Log) int64 { return max(l.start, l.nextStart) })
}

// CheckpointHighWatermarks writes the high watermarks of all logs.
func (d *Dir) CheckpointHighWatermarks(t *task.T) error {
	return d.writeOffsets(t, checkpoint.HighWatermarkFile, d.marks, func(l *Log) int64 { return max(l.hw.offset, 0) })
}

// writeOffsets replaces a checkpoint file. Logs that are not loaded yet keep their line.
// A log start of 0 and a high watermark of 0 need none, as in Kafka, except that a
// recovery point tells a known log from an unknown one.
func (d *Dir) writeOffsets(t *task.T, file string, stored map[string]int64, of func(l *Log) int64) error {
	d.checkpoints.Enter(t)
	defer d.checkpoints.Leave(t)
	if err := d.Err(); err != nil {
		return err
	}
	var list []checkpoint.Offset
	d.mu.Lock()
	logs := d.sortedLogs()
	for name, offset := range stored { //order: WriteOffsets sorts
		if topic, partition, ok := parseLogDir(name); ok && d.logs[name] == nil {
			list = append(list, checkpoint.Offset{Topic: topic, Partition: partition, Offset: offset})
		}
	}
	d.mu.Unlock()
	for _, l := range logs {
		l.mu.Lock()
		offset := of(l)
		l.mu.Unlock()
		if offset > 0 || file != checkpoint.LogStartOffsetFile {
			list = append(list, checkpoint.Offset{Topic: l.topic, Partition: l.partition, Offset: offset})
		}
	}
	if err := checkpoint.WriteOffsets(t, d.env.Disk, d.path+"/"+file, list); err != nil {
		return d.fault(t, err)
	}
	return nil
}

// forget removes what the checkpoint files say of a log that is no more.
func (d *Dir) forget(t *task.T, name string) error {
	d.mu.Lock()
	d.dropNumbers(name)
	d.mu.Unlock()
	err := errors.Join(d.CheckpointRecoveryPoints(t), d.CheckpointLogStarts(t), d.CheckpointHighWatermarks(t))
	if err == nil {
		d.mu.Lock()
		delete(d.stale, name)
		d.mu.Unlock()
	}
	return err
}

// dropNumbers removes what was read of a log. Under mu.
func (d *Dir) dropNumbers(name string) {
	delete(d.points, name)
	delete(d.starts, name)
	delete(d.marks, name)
}

// prune forgets the numbers of logs that have no directory any more. The metadata log is
// opened by its host, whenever that is.
func (d *Dir) prune() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name := range d.stale { //order: each is judged by itself
		if d.logs[name] == nil && !strings.HasPrefix(name, MetadataTopic+"-") {
			d.dropNumbers(name)
		}
	}
}

// takeCleanMarker reads the clean-shutdown marker and removes it, durably. That there is none
// is made durable, too: a start before this one may have been killed between removing it and
// syncing the directory, and a power loss would bring it back over whatever is written now.
func takeCleanMarker(t *task.T, dk disk.Disk, dir string) (clean bool, brokerEpoch int64, err error) {
	path := dir + "/" + checkpoint.CleanShutdownFile
	brokerEpoch, err = checkpoint.ReadCleanShutdown(t, dk, path)
	switch {
	case errors.Is(err, disk.ErrNotExist), errors.Is(err, checkpoint.ErrDamaged):
		return false, checkpoint.NoBrokerEpoch, checkpoint.Remove(t, dk, path)
	case err != nil:
		return false, checkpoint.NoBrokerEpoch, err
	}
	return true, brokerEpoch, checkpoint.Remove(t, dk, path)
}

func writeCleanMarker(t *task.T, dk disk.Disk, dir string, brokerEpoch int64) error {
	return checkpoint.WriteCleanShutdown(t, dk, dir+"/"+checkpoint.CleanShutdownFile, brokerEpoch)
}

// readMetadata is the topic id in partition.metadata; zero if there is none, or none that can
// be read.
func readMetadata(t *task.T, dk disk.Disk, dir string) ([16]byte, error) {
	id, err := checkpoint.ReadPartitionMetadata(t, dk, dir+"/"+checkpoint.PartitionMetadataFile)
	if errors.Is(err, disk.ErrNotExist) || errors.Is(err, checkpoint.ErrDamaged) {
		return [16]byte{}, nil
	}
	return id, err
}

// writeMetadata writes partition.metadata, unless the id is not known.
func writeMetadata(t *task.T, dk disk.Disk, dir string, id [16]byte) error {
	if id == ([16]byte{}) {
		return nil
	}
	return checkpoint.WritePartitionMetadata(t, dk, dir+"/"+checkpoint.PartitionMetadataFile, id)
}

// readEpochs reads the leader-epoch checkpoint in a log's directory.
func readEpochs(t *task.T, dk disk.Disk, dir string) (epoch.Cache, error) {
	list, err := checkpoint.ReadEpochs(t, dk, dir+"/"+checkpoint.LeaderEpochFile)
	if err != nil {
		return epoch.Cache{}, err
	}
	entries := make([]epoch.Entry, len(list))
	for i, e := range list {
		entries[i] = epoch.Entry{Epoch: e.Epoch, Start: e.StartOffset}
	}
	return epoch.FromEntries(entries)
}

// writeEpochs replaces the leader-epoch checkpoint in a log's directory.
func writeEpochs(t *task.T, dk disk.Disk, dir string, c *epoch.Cache) error {
	entries := c.Entries()
	list := make([]checkpoint.Epoch, len(entries))
	for i, e := range entries {
		list[i] = checkpoint.Epoch{Epoch: e.Epoch, StartOffset: e.Start}
	}
	return checkpoint.WriteEpochs(t, dk, dir+"/"+checkpoint.LeaderEpochFile, list)
}

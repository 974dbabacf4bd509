// Package checkpoint reads and replaces the small files beside the logs, byte for byte as
// Kafka has them. It owns their names, their formats, and how they are replaced:
//
//	write <name>.tmp, sync it, rename it over <name>, sync the directory
//
// so that after a crash at any point there is the old file or the new one, whole. It never
// decides what the contents mean, and never repairs: a damaged file is an [*Damaged] error
// with its path and line, and the caller knows what it can be rebuilt from.
//
//	recovery-point-offset-checkpoint   0            version
//	replication-offset-checkpoint      2            number of lines that follow
//	log-start-offset-checkpoint        orders 0 17  topic, partition, offset
//	                                   orders 1 4
//	leader-epoch-checkpoint            0 / 1 / "0 0"           lines of epoch, start offset
//	partition.metadata                 version: 0 / topic_id: 22 characters of base64
//	meta.properties                    version=1, cluster.id, node.id, directory.id
//	.kafka_cleanshutdown               {"version":0,"brokerEpoch":7}
//	quorum-state                       {"leaderId":1,...,"data_version":1}
//
// Each format has a Parse and an Encode function on bytes, and a Read and a Write function
// on files. Two tasks must not write the same file at once.
package checkpoint

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"path"

	"seedlog/clock/task"
	"seedlog/disk"
)

// Names of the files.
const (
	RecoveryPointFile     = "recovery-point-offset-checkpoint"
	HighWatermarkFile     = "replication-offset-checkpoint"
	LogStartOffsetFile    = "log-start-offset-checkpoint"
	LeaderEpochFile       = "leader-epoch-checkpoint"
	PartitionMetadataFile = "partition.metadata"
	MetaPropertiesFile    = "meta.properties"
	CleanShutdownFile     = ".kafka_cleanshutdown"
	QuorumStateFile       = "quorum-state"
)

// Sizes in bytes above which a file is damaged, not read.
const (
	maxListBytes  = 64 << 20 // hundreds of thousands of partitions
	maxSmallBytes = 64 << 10
)

// tempSuffix is what Kafka names the file that is about to replace another.
const tempSuffix = ".tmp"

// ErrDamaged is what errors.Is finds in every Damaged.
var ErrDamaged = errors.New("damaged file")

// Damaged says where a file is not what it should be.
type Damaged struct {
	Path string // empty from the Parse functions
	Line int    // from 1; 0: the file as a whole
	Why  string
}

// Error names the path and line.
func (e *Damaged) Error() string {
	where := e.Path
	if e.Line > 0 {
		where += fmt.Sprintf(" line %d", e.Line)
	}
	if where == "" {
		return e.Why
	}
	return where + ": " + e.Why
}

// Is reports whether target is ErrDamaged.
func (e *Damaged) Is(target error) bool { return target == ErrDamaged }

func damaged(line int, format string, args ...any) error {
	return &Damaged{Line: line, Why: fmt.Sprintf(format, args...)}
}

// Replace makes content the durable content of path, atomically.
func Replace(t *task.T, d disk.Disk, name string, content []byte) error {
	temp := name + tempSuffix
	if err := writeTemp(t, d, temp, content); err != nil {
		// What is left of it is overwritten next time; the error matters more than removing it.
		_ = d.Remove(t, temp)
		return fmt.Errorf("replacing %s: %w", name, err)
	}
	if err := d.Rename(t, temp, name); err != nil {
		_ = d.Remove(t, temp)
		return fmt.Errorf("replacing %s: %w", name, err)
	}
	if err := d.SyncDir(t, path.Dir(name)); err != nil {
		return fmt.Errorf("replacing %s: %w", name, err)
	}
	return nil
}

func writeTemp(t *task.T, d disk.Disk, temp string, content []byte) error {
	f, err := d.Open(t, temp, disk.Create)
	if err != nil {
		return err
	}
	if err = f.Truncate(t, 0); err == nil { // a crash may have left one
		if _, err = f.WriteAt(t, content, 0); err == nil {
			err = f.Sync(t)
		}
	}
	if e := f.Close(t); err == nil {
		err = e
	}
	return err
}

// Remove removes a file durably. It is no error if there is none; that it stays away is made
// sure even then, for a process that was killed may have removed it and not synced that.
func Remove(t *task.T, d disk.Disk, name string) error {
	if err := d.Remove(t, name); err != nil && !errors.Is(err, disk.ErrNotExist) {
		return err
	}
	return d.SyncDir(t, path.Dir(name))
}

// read reads a whole file of at most limit bytes.
func read(t *task.T, d disk.Disk, name string, limit int64) (content []byte, err error) {
	f, err := d.Open(t, name, disk.Read)
	if err != nil {
		return nil, err
	}
	size, err := f.Size(t)
	switch {
	case err != nil:
	case size > limit:
		err = &Damaged{Path: name, Why: fmt.Sprintf("%d bytes; at most %d are read", size, limit)}
	default:
		content = make([]byte, size)
		var n int
		if n, err = f.ReadAt(t, content, 0); err == io.EOF {
			content, err = content[:n], nil
		}
	}
	if e := f.Close(t); err == nil {
		err = e
	}
	return content, err
}

// parseFile reads and parses a file, and puts its path into what is damaged.
func parseFile[V any](t *task.T, d disk.Disk, name string, limit int64, parse func([]byte) (V, error)) (V, error) {
	var none V
	b, err := read(t, d, name, limit)
	if err != nil {
		return none, err
	}
	v, err := parse(b)
	if err != nil {
		var bad *Damaged
		if errors.As(err, &bad) {
			bad.Path = name
		}
		return none, err
	}
	return v, nil
}

// UUID is Kafka's identifier of topics and directories.
type UUID = [16]byte

// FormatUUID is the text of a UUID: 22 characters of URL-safe base64.
func FormatUUID(u UUID) string { return base64.RawURLEncoding.EncodeToString(u[:]) }

// ParseUUID reads the text of a UUID; padding is allowed.
func ParseUUID(s string) (u UUID, err error) {
	if len(s) == 24 && s[22:] == "==" {
		s = s[:22]
	}
	if len(s) != 22 {
		return u, fmt.Errorf("%q is not a UUID of 22 characters", clip(s))
	}
	n, err := base64.RawURLEncoding.Decode(u[:], []byte(s))
	if err != nil || n != len(u) {
		return UUID{}, fmt.Errorf("%q is not a UUID", s)
	}
	return u, nil
}

// clip bounds what an error repeats of a damaged file.
func clip(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}

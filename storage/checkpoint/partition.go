package checkpoint

import (
	"strings"

	"seedlog/clock/task"
	"seedlog/disk"
)

// EncodePartitionMetadata is the file that ties a partition's directory to its topic: 43
// bytes, without an end of line.
func EncodePartitionMetadata(topicID UUID) []byte {
	return []byte("version: 0\ntopic_id: " + FormatUUID(topicID))
}

// ParsePartitionMetadata reads such a file. Versions above 0 are read as 0, as Kafka does
// to allow downgrades.
func ParsePartitionMetadata(b []byte) (UUID, error) {
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	version, ok := strings.CutPrefix(lines[0], "version: ")
	if !ok {
		return UUID{}, damaged(1, "%q instead of a version", clip(lines[0]))
	}
	if _, err := number(1, "version", version, 16); err != nil {
		return UUID{}, err
	}
	if len(lines) < 2 {
		return UUID{}, damaged(2, "there is no topic_id")
	}
	text, ok := strings.CutPrefix(lines[1], "topic_id: ")
	if !ok {
		return UUID{}, damaged(2, "%q instead of a topic_id", clip(lines[1]))
	}
	id, err := ParseUUID(text)
	if err != nil {
		return UUID{}, damaged(2, "topic_id: %v", err)
	}
	if id == (UUID{}) {
		return UUID{}, damaged(2, "the topic_id is zero")
	}
	return id, nil
}

// ReadPartitionMetadata reads a partition.metadata file, or returns disk.ErrNotExist.
func ReadPartitionMetadata(t *task.T, d disk.Disk, name string) (UUID, error) {
	return parseFile(t, d, name, maxSmallBytes, ParsePartitionMetadata)
}

// WritePartitionMetadata replaces a partition.metadata file.
func WritePartitionMetadata(t *task.T, d disk.Disk, name string, topicID UUID) error {
	return Replace(t, d, name, EncodePartitionMetadata(topicID))
}

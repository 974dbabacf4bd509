package dump

import (
	"errors"
	"fmt"

	"seedlog/storage/checkpoint"
)

// smallMaxBytes bounds checkpoints and property files.
const smallMaxBytes = 64 << 20

// ErrUnknownFile: no kind of file has such a name.
var ErrUnknownFile = errors.New("not a file of a data directory")

// smallFile dumps the checkpoints and property files, which Kafka's tool does not know.
func (d *dumper) smallFile() error {
	show := d.smallKind()
	if show == nil {
		return fmt.Errorf("%w: %s", ErrUnknownFile, d.name)
	}
	b, err := d.read(smallMaxBytes)
	if err != nil {
		return err
	}
	if err := show(b); err != nil {
		return fmt.Errorf("%w: %w", ErrMismatch, err)
	}
	return nil
}

func (d *dumper) smallKind() func(b []byte) error {
	switch d.name {
	case checkpoint.RecoveryPointFile, checkpoint.HighWatermarkFile, checkpoint.LogStartOffsetFile, "cleaner-offset-checkpoint":
		return d.offsets
	case checkpoint.LeaderEpochFile:
		return d.epochs
	case checkpoint.PartitionMetadataFile:
		return d.partitionMetadata
	case checkpoint.MetaPropertiesFile:
		return d.metaProperties
	case checkpoint.QuorumStateFile:
		return d.quorumState
	case checkpoint.CleanShutdownFile:
		return d.cleanShutdown
	}
	return nil
}

func (d *dumper) offsets(b []byte) error {
	list, err := checkpoint.ParseOffsets(b)
	for _, o := range list {
		fmt.Fprintf(d.Out, "topic: %s partition: %d offset: %d\n", printable(o.Topic), o.Partition, o.Offset)
	}
	return err
}

func (d *dumper) epochs(b []byte) error {
	list, err := checkpoint.ParseEpochs(b)
	for _, e := range list {
		fmt.Fprintf(d.Out, "epoch: %d startOffset: %d\n", e.Epoch, e.StartOffset)
	}
	return err
}

func (d *dumper) partitionMetadata(b []byte) error {
	id, err := checkpoint.ParsePartitionMetadata(b)
	if err == nil {
		fmt.Fprintf(d.Out, "version: 0 topicId: %s\n", checkpoint.FormatUUID(id))
	}
	return err
}

func (d *dumper) metaProperties(b []byte) error {
	p, err := checkpoint.ParseMetaProperties(b)
	if err == nil {
		fmt.Fprintf(d.Out, "version: 1 clusterId: %s nodeId: %d", printable(p.ClusterID), p.NodeID)
		if p.DirectoryID != (checkpoint.UUID{}) {
			fmt.Fprintf(d.Out, " directoryId: %s", checkpoint.FormatUUID(p.DirectoryID))
		}
		fmt.Fprintln(d.Out)
	}
	return err
}

func (d *dumper) quorumState(b []byte) error {
	s, err := checkpoint.ParseQuorumState(b)
	if err == nil {
		fmt.Fprintf(d.Out, "version: %d leaderId: %d leaderEpoch: %d votedId: %d", s.DataVersion, s.LeaderID, s.LeaderEpoch, s.VotedID)
		if s.DataVersion == 0 {
			fmt.Fprintf(d.Out, " voters: %v", s.Voters)
		} else {
			fmt.Fprintf(d.Out, " votedDirectoryId: %s", checkpoint.FormatUUID(s.VotedDirectoryID))
		}
		fmt.Fprintln(d.Out)
	}
	return err
}

func (d *dumper) cleanShutdown(b []byte) error {
	epoch, err := checkpoint.ParseCleanShutdown(b)
	if err == nil {
		fmt.Fprintf(d.Out, "brokerEpoch: %d\n", epoch)
	}
	return err
}

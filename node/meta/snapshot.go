package meta

import (
	"iter"
	"slices"
)

// Records visits the records that recreate the image from nothing, in a fixed order and in
// the schema versions of the finalized metadata.version, which comes first: a reader has to
// know it before the rest. The image must not be within a metadata transaction.
func (i *Image) Records() iter.Seq[Record] {
	if i.inTxn {
		panic("meta: snapshot within a metadata transaction")
	}
	return func(yield func(Record) bool) {
		_ = i.writeFeatures(yield) && i.writeNodes(yield) && i.writeTopics(yield) &&
			i.writeConfigs(yield) && i.writeOthers(yield)
	}
}

func (i *Image) writeFeatures(yield func(Record) bool) bool {
	if level := i.MetadataVersion(); level != 0 {
		if !yield(Record{0, &FeatureLevelRecord{MetadataVersionFeature, level}}) {
			return false
		}
	}
	for name, level := range i.features.all() {
		if name != MetadataVersionFeature && !yield(Record{0, &FeatureLevelRecord{name, level}}) {
			return false
		}
	}
	return true
}

func (i *Image) writeNodes(yield func(Record) bool) bool {
	version := RegisterBrokerVersion(i.MetadataVersion())
	for b := range i.Brokers() {
		if !yield(Record{version, &RegisterBrokerRecord{
			BrokerID: b.ID, IsMigratingZkBroker: b.IsMigratingZkBroker, IncarnationID: b.IncarnationID, BrokerEpoch: b.Epoch,
			Endpoints: b.Endpoints, Features: b.Features, Rack: b.Rack, Fenced: b.Fenced,
			InControlledShutdown: b.InControlledShutdown, LogDirs: b.LogDirs,
		}}) {
			return false
		}
	}
	for c := range i.Controllers() {
		if !yield(Record{0, c}) {
			return false
		}
	}
	return true
}

func (i *Image) writeTopics(yield func(Record) bool) bool {
	version := PartitionVersion(i.MetadataVersion())
	for t := range i.Topics() {
		if !yield(Record{0, &TopicRecord{t.Name, t.ID}}) {
			return false
		}
		for id, p := range t.Partitions {
			if p != nil && !yield(Record{version, p.Record(t.ID, int32(id))}) {
				return false
			}
		}
	}
	return true
}

// Record is the record that recreates the partition.
func (p *Partition) Record(topic UUID, partition int32) *PartitionRecord {
	return &PartitionRecord{
		PartitionID: partition, TopicID: topic, Replicas: p.Replicas, ISR: p.ISR,
		RemovingReplicas: p.RemovingReplicas, AddingReplicas: p.AddingReplicas,
		Leader: p.Leader, LeaderRecoveryState: p.LeaderRecoveryState, LeaderEpoch: p.LeaderEpoch,
		PartitionEpoch: p.PartitionEpoch, Directories: p.Directories,
		EligibleLeaderReplicas: p.ELR, LastKnownELR: p.LastKnownELR,
	}
}

func (i *Image) writeConfigs(yield func(Record) bool) bool {
	for r, c := range i.configs.all() {
		for _, e := range c {
			if !yield(Record{0, &ConfigRecord{r.Type, r.Name, e.Name, &e.Value}}) {
				return false
			}
		}
	}
	return true
}

// writeOthers writes what this build keeps without serving it.
func (i *Image) writeOthers(yield func(Record) bool) bool {
	if !each(yield, values(&i.quotas)) {
		return false
	}
	if i.producerIDs.NextProducerID > 0 {
		ids := i.producerIDs
		if !yield(Record{0, &ids}) {
			return false
		}
	}
	return each(yield, values(&i.acls)) && each(yield, values(&i.scram)) && each(yield, values(&i.tokens)) &&
		(i.zkMigration == nil || yield(Record{0, i.zkMigration}))
}

func each[B Body](yield func(Record) bool, bodies iter.Seq[B]) bool {
	for b := range bodies {
		if !yield(Record{0, b}) {
			return false
		}
	}
	return true
}

// Equal reports whether two images have the same content, offsets aside.
func (i *Image) Equal(o *Image) bool {
	return slices.Equal(i.encoded(), o.encoded())
}

func (i *Image) encoded() []byte {
	var b []byte
	for r := range i.Records() {
		b = AppendRecord(b, r)
	}
	return b
}

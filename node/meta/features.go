package meta

import (
	"fmt"
	"strings"
)

// Names of Kafka's features.
const (
	MetadataVersionFeature    = "metadata.version"
	KRaftVersionFeature       = "kraft.version"
	TransactionVersionFeature = "transaction.version"
	GroupVersionFeature       = "group.version"
	ELRVersionFeature         = "eligible.leader.replicas.version"
	ShareVersionFeature       = "share.version"
	StreamsVersionFeature     = "streams.version"
)

// Levels of metadata.version. 4.1 reads up to 27.
const (
	MetadataVersion39IV0 = 21 // the oldest that kraft.version 1 works with
	MetadataVersion40IV1 = 23 // eligible leader replicas
	MetadataVersion40IV3 = 25 // the newest of Kafka 4.0
	MetadataVersion41IV1 = 27 // the newest of Kafka 4.1

	// DefaultMetadataVersion is what a new directory finalizes: Kafka 4.0 and later read it.
	DefaultMetadataVersion = MetadataVersion40IV3
	// DefaultELRVersion is what a new directory finalizes for eligible leader replicas, as
	// Kafka 4.1 does for new clusters.
	DefaultELRVersion = 1
	// KRaftVersion is what a new directory finalizes: dynamic voters (KIP-853). It stands in
	// a control record of the log, not in a FeatureLevelRecord.
	KRaftVersion = 1
)

// supported is what this build serves in full; a level that is not served is not listed.
var supported = [...]FeatureRange{
	{ELRVersionFeature, 0, 1},
	{GroupVersionFeature, 0, 0},
	{KRaftVersionFeature, 0, 1},
	{MetadataVersionFeature, MetadataVersion39IV0, MetadataVersion41IV1},
	{ShareVersionFeature, 0, 0},
	{StreamsVersionFeature, 0, 0},
	{TransactionVersionFeature, 0, 0},
}

// Levels are what a node serves of each feature, in the order of names. A feature that is not
// among them is served at level 0: not at all.
type Levels []FeatureRange

// SupportedFeatures lists the levels that this build serves.
func SupportedFeatures() Levels { return append(Levels(nil), supported[:]...) }

// UpTo is the same levels without those of a feature above max: what an older build serves.
func (l Levels) UpTo(feature string, max int16) Levels {
	out := append(Levels(nil), l...)
	for i := range out {
		if out[i].Name == feature {
			out[i].Max = min(out[i].Max, max)
		}
	}
	return out
}

// Newest is the highest level of a feature.
func (l Levels) Newest(feature string) int16 {
	for _, f := range l {
		if f.Name == feature {
			return f.Max
		}
	}
	return 0
}

// Check returns an error if a finalized level of a feature is not served.
func (l Levels) Check(name string, level int16) error {
	for _, f := range l {
		if f.Name != name {
			continue
		}
		if level < f.Min || level > f.Max {
			return fmt.Errorf("feature %s is finalized at level %d; this node serves %d to %d", name, level, f.Min, f.Max)
		}
		return nil
	}
	if level == 0 {
		return nil
	}
	return fmt.Errorf("feature %s is finalized at level %d and unknown to this node", name, level)
}

func (l Levels) String() string {
	var s []string
	for _, f := range l {
		if f.Max > 0 {
			s = append(s, fmt.Sprintf("%s %d to %d", f.Name, f.Min, f.Max))
		}
	}
	return strings.Join(s, ", ")
}

// CheckFeatures returns an error for the first finalized level that a node does not serve.
func (i *Image) CheckFeatures(served Levels) error {
	for name, level := range i.features.all() {
		if err := served.Check(name, level); err != nil {
			return err
		}
	}
	return nil
}

// CheckServed returns an error for the first thing in the image that a node would have to
// serve and does not. A node that finds one must not start: it would strip what it does not
// know, or answer as if it were not there.
func (i *Image) CheckServed(served Levels) error {
	if err := i.CheckFeatures(served); err != nil {
		return err
	}
	for r := range i.configs.all() {
		if r.Type != TopicResource {
			continue
		}
		if v, _ := i.Config(r.Type, r.Name).Get("remote.storage.enable"); v == "true" {
			return fmt.Errorf("topic %s has remote.storage.enable=true, which this version does not serve", r.Name)
		}
	}
	return nil
}

// BootstrapRecords are the records that a new cluster begins with.
func BootstrapRecords() []Record {
	return []Record{
		{0, &FeatureLevelRecord{Name: MetadataVersionFeature, FeatureLevel: DefaultMetadataVersion}},
		{0, &FeatureLevelRecord{Name: ELRVersionFeature, FeatureLevel: DefaultELRVersion}},
	}
}

// RegisterBrokerVersion is the schema version that a finalized metadata.version asks for.
func RegisterBrokerVersion(metadataVersion int16) int16 {
	switch {
	case metadataVersion >= 17: // 3.7-IV2: directories
		return 3
	case metadataVersion >= 8: // 3.4-IV0: ZooKeeper migration
		return 2
	case metadataVersion >= 7: // 3.3-IV3: controlled shutdown
		return 1
	}
	return 0
}

// BrokerRegistrationChangeVersion is the schema version for a finalized metadata.version.
func BrokerRegistrationChangeVersion(metadataVersion int16) int16 {
	switch {
	case metadataVersion >= 17:
		return 2
	case metadataVersion >= 7:
		return 1
	}
	return 0
}

// PartitionVersion is the schema version of PartitionRecord and PartitionChangeRecord for
// a finalized metadata.version.
func PartitionVersion(metadataVersion int16) int16 {
	switch {
	case metadataVersion >= MetadataVersion40IV1:
		return 2
	case metadataVersion >= 17:
		return 1
	}
	return 0
}

// ChangedBetween reports whether going from metadata.version to back to from forgets
// something that the later one keeps in the log.
func ChangedBetween(from, to int16) bool {
	return from < MetadataVersion40IV1 && to >= MetadataVersion40IV1 // ELR in partition records
}

// Dependency says that a feature from a level on builds on a level of another.
type Dependency struct {
	Feature string
	Level   int16
	On      string
	OnLevel int16
}

var dependencies = [...]Dependency{
	{ELRVersionFeature, 1, MetadataVersionFeature, MetadataVersion40IV1},
	{KRaftVersionFeature, 1, MetadataVersionFeature, MetadataVersion39IV0},
}

// Dependencies lists which levels build on which.
func Dependencies() []Dependency { return append([]Dependency(nil), dependencies[:]...) }

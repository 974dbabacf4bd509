package meta

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"slices"
)

// Image is the cluster's metadata after a prefix of the metadata log. It and everything
// reachable from it never change; any task may read it.
type Image struct {
	// Offset is the last offset of the log that the image contains, or -1.
	Offset int64
	// Epoch is the leader epoch of that offset.
	Epoch int32

	features    sorted[string, int16]
	brokers     sorted[int32, *Broker]
	controllers sorted[int32, *RegisterControllerRecord]
	byID        sorted[UUID, *Topic]
	byName      sorted[string, *Topic]
	configs     sorted[ConfigResource, Config]
	quotas      sorted[string, *ClientQuotaRecord]
	acls        sorted[UUID, *AccessControlEntryRecord]
	scram       sorted[string, *UserScramCredentialRecord]
	tokens      sorted[string, *DelegationTokenRecord]
	producerIDs ProducerIdsRecord
	zkMigration *ZkMigrationStateRecord
	partitions  int

	// pending are the records of the open metadata transaction; they do not count yet.
	pending []Record
	inTxn   bool
}

// Empty returns the image of an empty log.
func Empty() *Image {
	compareUUID := func(a, b UUID) int { return bytes.Compare(a[:], b[:]) }
	return &Image{
		Offset:      -1,
		Epoch:       -1,
		features:    orderedMap[string, int16](),
		brokers:     orderedMap[int32, *Broker](),
		controllers: orderedMap[int32, *RegisterControllerRecord](),
		byID:        newSorted[UUID, *Topic](compareUUID),
		byName:      orderedMap[string, *Topic](),
		configs:     newSorted[ConfigResource, Config](ConfigResource.compare),
		quotas:      orderedMap[string, *ClientQuotaRecord](),
		acls:        newSorted[UUID, *AccessControlEntryRecord](compareUUID),
		scram:       orderedMap[string, *UserScramCredentialRecord](),
		tokens:      orderedMap[string, *DelegationTokenRecord](),
		producerIDs: ProducerIdsRecord{BrokerID: -1, BrokerEpoch: -1},
	}
}

// Topic is one topic of an image.
type Topic struct {
	Name string
	ID   UUID
	// Partitions are indexed by partition id. An element is nil only while a snapshot that
	// lists them in another order is being replayed.
	Partitions []*Partition
}

// Partition is the state of one partition of an image.
type Partition struct {
	Replicas            []int32 // the preferred leader first
	ISR                 []int32
	ELR                 []int32 // eligible leader replicas (KIP-966)
	LastKnownELR        []int32
	AddingReplicas      []int32
	RemovingReplicas    []int32
	Directories         []UUID // the log directory of each replica, or empty
	Leader              int32  // NoLeader for none
	LeaderEpoch         int32
	PartitionEpoch      int32
	LeaderRecoveryState int8 // 1 while the leader recovers from an unclean election
}

// Broker is a registered broker.
type Broker struct {
	ID                   int32
	Epoch                int64 // the offset of its registration
	IncarnationID        UUID
	Endpoints            []Endpoint
	Features             []FeatureRange
	Rack                 *string
	Fenced               bool
	InControlledShutdown bool
	LogDirs              []UUID
	IsMigratingZkBroker  bool
}

// Active reports whether the broker may lead: it is neither fenced nor shutting down.
func (b *Broker) Active() bool { return !b.Fenced && !b.InControlledShutdown }

// Endpoint returns the endpoint of a listener.
func (b *Broker) Endpoint(listener string) (Endpoint, bool) {
	for _, e := range b.Endpoints {
		if e.Name == listener {
			return e, true
		}
	}
	return Endpoint{}, false
}

// ResourceType is what a configuration belongs to, in Kafka's numbers.
type ResourceType int8

// The kinds of resources.
const (
	TopicResource         ResourceType = 2
	BrokerResource        ResourceType = 4
	BrokerLoggerResource  ResourceType = 8
	ClientMetricsResource ResourceType = 16
	GroupResource         ResourceType = 32
)

// ConfigResource names what a configuration belongs to. The broker "" is the default of
// all brokers.
type ConfigResource struct {
	Type ResourceType
	Name string
}

func (r ConfigResource) compare(o ConfigResource) int {
	return cmp.Or(cmp.Compare(r.Type, o.Type), cmp.Compare(r.Name, o.Name))
}

func (r ConfigResource) String() string { return fmt.Sprintf("resource type %d %q", r.Type, r.Name) }

// Config is the configuration set on one resource, in the order of names.
type Config []ConfigEntry

// ConfigEntry is one key with its value.
type ConfigEntry struct{ Name, Value string }

// Get returns the value of a key that is set.
func (c Config) Get(name string) (string, bool) {
	i, ok := c.find(name)
	if !ok {
		return "", false
	}
	return c[i].Value, true
}

// Map returns the configuration as a new map.
func (c Config) Map() map[string]string {
	m := make(map[string]string, len(c))
	for _, e := range c {
		m[e.Name] = e.Value
	}
	return m
}

func (c Config) find(name string) (int, bool) {
	return slices.BinarySearchFunc(c, name, func(e ConfigEntry, n string) int { return cmp.Compare(e.Name, n) })
}

// with returns c with name set, or removed for nil.
func (c Config) with(name string, value *string) Config {
	i, found := c.find(name)
	next := slices.Clone(c)
	switch {
	case value == nil && found:
		return slices.Delete(next, i, i+1)
	case value == nil:
		return next
	case found:
		next[i].Value = *value
		return next
	}
	return slices.Insert(next, i, ConfigEntry{name, *value})
}

// Feature is the finalized level of a feature, 0 if there is none.
func (i *Image) Feature(name string) int16 {
	v, _ := i.features.get(name)
	return v
}

// Features visits the finalized features in the order of names.
func (i *Image) Features() iter.Seq2[string, int16] { return i.features.all() }

// MetadataVersion is the finalized level of metadata.version.
func (i *Image) MetadataVersion() int16 { return i.Feature(MetadataVersionFeature) }

// Topic returns the topic of that name, or nil.
func (i *Image) Topic(name string) *Topic {
	t, _ := i.byName.get(name)
	return t
}

// TopicByID returns the topic of that id, or nil.
func (i *Image) TopicByID(id UUID) *Topic {
	t, _ := i.byID.get(id)
	return t
}

// Topics visits the topics in the order of names.
func (i *Image) Topics() iter.Seq[*Topic] { return values(&i.byName) }

// NumTopics is the number of topics.
func (i *Image) NumTopics() int { return i.byName.size }

// NumPartitions is the number of partitions of all topics.
func (i *Image) NumPartitions() int { return i.partitions }

// Partition returns the partition, or nil.
func (i *Image) Partition(topic UUID, partition int32) *Partition {
	return i.TopicByID(topic).Partition(partition)
}

// Partition returns the partition, or nil. The receiver may be nil.
func (t *Topic) Partition(partition int32) *Partition {
	if t == nil || partition < 0 || int(partition) >= len(t.Partitions) {
		return nil
	}
	return t.Partitions[partition]
}

// Broker returns the registration of a broker, or nil.
func (i *Image) Broker(id int32) *Broker {
	b, _ := i.brokers.get(id)
	return b
}

// Brokers visits the registered brokers, fenced ones included, in the order of ids.
func (i *Image) Brokers() iter.Seq[*Broker] { return values(&i.brokers) }

// Controller returns the registration of a controller, or nil.
func (i *Image) Controller(id int32) *RegisterControllerRecord {
	c, _ := i.controllers.get(id)
	return c
}

// Controllers visits the registered controllers in the order of ids.
func (i *Image) Controllers() iter.Seq[*RegisterControllerRecord] { return values(&i.controllers) }

// Config returns what is set on a resource; empty if nothing is.
func (i *Image) Config(t ResourceType, name string) Config {
	c, _ := i.configs.get(ConfigResource{t, name})
	return c
}

// Configs visits the resources that have something set, by type and name.
func (i *Image) Configs() iter.Seq2[ConfigResource, Config] { return i.configs.all() }

// NextProducerID is the first producer id that was never given out in a block.
func (i *Image) NextProducerID() int64 { return i.producerIDs.NextProducerID }

// InTransaction reports whether a metadata transaction is open.
func (i *Image) InTransaction() bool { return i.inTxn }

func values[K, V any](m *sorted[K, V]) iter.Seq[V] {
	return func(yield func(V) bool) {
		for _, v := range m.all() {
			if !yield(v) {
				return
			}
		}
	}
}

package meta

// TopicRecord adds a topic without partitions.
type TopicRecord struct {
	Name    string
	TopicID UUID
}

func (*TopicRecord) Key() int16        { return 2 }
func (*TopicRecord) MaxVersion() int16 { return 0 }
func (r *TopicRecord) walk(c *codec) {
	c.string(&r.Name)
	c.uuid(&r.TopicID)
	c.tags()
}

// PartitionRecord adds a partition, or replaces all that is known of it. Version 1 adds
// Directories (KIP-858), version 2 the eligible leader replicas (KIP-966).
type PartitionRecord struct {
	PartitionID            int32
	TopicID                UUID
	Replicas               []int32
	ISR                    []int32
	RemovingReplicas       []int32
	AddingReplicas         []int32
	Leader                 int32
	LeaderRecoveryState    int8
	LeaderEpoch            int32
	PartitionEpoch         int32
	Directories            []UUID
	EligibleLeaderReplicas []int32 // nil for none
	LastKnownELR           []int32 // nil for none
}

func (*PartitionRecord) Key() int16        { return 3 }
func (*PartitionRecord) MaxVersion() int16 { return 2 }
func (r *PartitionRecord) walk(c *codec) {
	c.int32(&r.PartitionID)
	c.uuid(&r.TopicID)
	c.int32s(&r.Replicas)
	c.int32s(&r.ISR)
	c.int32s(&r.RemovingReplicas)
	c.int32s(&r.AddingReplicas)
	c.int32(&r.Leader)
	c.int32(&r.LeaderEpoch)
	c.int32(&r.PartitionEpoch)
	if c.version >= 1 {
		c.uuids(&r.Directories)
	}
	tags := []tag{{0, r.LeaderRecoveryState != 0, func() { c.int8(&r.LeaderRecoveryState) }}}
	if c.version >= 2 {
		tags = append(tags,
			tag{1, r.EligibleLeaderReplicas != nil, func() { c.nullableInt32s(&r.EligibleLeaderReplicas) }},
			tag{2, r.LastKnownELR != nil, func() { c.nullableInt32s(&r.LastKnownELR) }})
	}
	c.tags(tags...)
}

// Values of PartitionChangeRecord that mean "as it was".
const (
	// LeaderUnchanged in Leader.
	LeaderUnchanged = -2
	// NoLeader in Leader: there is none now.
	NoLeader = -1
	// RecoveryUnchanged in LeaderRecoveryState.
	RecoveryUnchanged = -1
)

// PartitionChangeRecord changes some of a partition. A nil list means unchanged, an empty
// one means empty.
type PartitionChangeRecord struct {
	PartitionID            int32
	TopicID                UUID
	ISR                    []int32
	Leader                 int32 // LeaderUnchanged, NoLeader or a broker
	Replicas               []int32
	RemovingReplicas       []int32
	AddingReplicas         []int32
	LeaderRecoveryState    int8 // RecoveryUnchanged, 0 or 1
	EligibleLeaderReplicas []int32
	LastKnownELR           []int32
	Directories            []UUID
}

// NewPartitionChange returns a record that changes nothing.
func NewPartitionChange(topic UUID, partition int32) *PartitionChangeRecord {
	return &PartitionChangeRecord{PartitionID: partition, TopicID: topic,
		Leader: LeaderUnchanged, LeaderRecoveryState: RecoveryUnchanged}
}

func (*PartitionChangeRecord) Key() int16        { return 5 }
func (*PartitionChangeRecord) MaxVersion() int16 { return 2 }
func (r *PartitionChangeRecord) walk(c *codec) {
	c.int32(&r.PartitionID)
	c.uuid(&r.TopicID)
	tags := []tag{
		{0, r.ISR != nil, func() { c.nullableInt32s(&r.ISR) }},
		{1, r.Leader != LeaderUnchanged, func() { c.int32(&r.Leader) }},
		{2, r.Replicas != nil, func() { c.nullableInt32s(&r.Replicas) }},
		{3, r.RemovingReplicas != nil, func() { c.nullableInt32s(&r.RemovingReplicas) }},
		{4, r.AddingReplicas != nil, func() { c.nullableInt32s(&r.AddingReplicas) }},
		{5, r.LeaderRecoveryState != RecoveryUnchanged, func() { c.int8(&r.LeaderRecoveryState) }},
	}
	if c.version >= 2 {
		tags = append(tags,
			tag{6, r.EligibleLeaderReplicas != nil, func() { c.nullableInt32s(&r.EligibleLeaderReplicas) }},
			tag{7, r.LastKnownELR != nil, func() { c.nullableInt32s(&r.LastKnownELR) }})
	}
	if c.version >= 1 {
		tags = append(tags, tag{8, r.Directories != nil, func() { c.nullableUUIDs(&r.Directories) }})
	}
	c.tags(tags...)
}

// RemoveTopicRecord removes a topic with its partitions and its configuration.
type RemoveTopicRecord struct {
	TopicID UUID
}

func (*RemoveTopicRecord) Key() int16        { return 9 }
func (*RemoveTopicRecord) MaxVersion() int16 { return 0 }
func (r *RemoveTopicRecord) walk(c *codec) {
	c.uuid(&r.TopicID)
	c.tags()
}

// ClearElrRecord empties the eligible leader replicas of a topic's partitions, or of all with
// an empty name: their min.insync.replicas changed. Kafka writes it from 4.1 on; we only read it.
type ClearElrRecord struct {
	TopicName string
}

func (*ClearElrRecord) Key() int16        { return 28 }
func (*ClearElrRecord) MaxVersion() int16 { return 0 }
func (r *ClearElrRecord) walk(c *codec) {
	c.string(&r.TopicName)
	c.tags()
}

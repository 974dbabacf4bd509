package meta

import (
	"errors"
	"fmt"
	"slices"
)

// ErrInconsistent: a record contradicts what came before it, such as a change of a
// partition that there is not. The log is damaged, or this build reads it wrongly.
var ErrInconsistent = errors.New("metadata record contradicts the log before it")

// MaxPartitions is how many partitions a topic can have. It bounds the memory that one damaged
// partition id can cost: a record of a larger one is not applied.
const MaxPartitions = 1 << 20

// Apply returns the image after records, whose last offset is offset in leader epoch
// epoch, and the delta from i. i is not changed. The records are kept: the caller must not
// change them afterwards. On an error there is no new image.
func (i *Image) Apply(records []Record, offset int64, epoch int32) (*Image, *Delta, error) {
	next := *i
	next.Offset, next.Epoch = offset, epoch
	next.pending = slices.Clip(i.pending) // appending must not write into i's
	b := builder{Image: &next, topics: make(map[UUID]*Topic), touched: make(map[UUID]bool)}
	b.delta = &Delta{From: i, To: &next}
	for _, r := range records {
		if err := b.step(r); err != nil {
			return nil, nil, fmt.Errorf("%s in the batch that ends at offset %d: %w", Name(r.Body), offset, err)
		}
	}
	b.delta.finish(b.order)
	return &next, b.delta, nil
}

// builder is an image being made. Topics that this Apply copied already are in topics and
// may be changed in place.
type builder struct {
	*Image
	delta   *Delta
	topics  map[UUID]*Topic
	touched map[UUID]bool
	order   []UUID // of first touch
}

// step applies r, or keeps it for the end of the open metadata transaction.
func (b *builder) step(r Record) error {
	switch r.Body.(type) {
	case *BeginTransactionRecord:
		if b.inTxn {
			return fmt.Errorf("%w: a metadata transaction is open", ErrInconsistent)
		}
		b.inTxn = true
		return nil
	case *EndTransactionRecord, *AbortTransactionRecord:
		return b.endTransaction(r.Body)
	}
	if b.inTxn {
		b.pending = append(b.pending, r)
		return nil
	}
	return b.apply(r.Body)
}

func (b *builder) endTransaction(end Body) error {
	if !b.inTxn {
		return fmt.Errorf("%w: no metadata transaction is open", ErrInconsistent)
	}
	records := b.pending
	b.inTxn, b.pending = false, nil
	if _, abort := end.(*AbortTransactionRecord); abort {
		return nil
	}
	for _, r := range records {
		if err := b.apply(r.Body); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) apply(body Body) error {
	switch r := body.(type) {
	case *TopicRecord:
		return b.topic(r)
	case *PartitionRecord:
		return b.partition(r)
	case *PartitionChangeRecord:
		return b.partitionChange(r)
	case *ClearElrRecord:
		return b.clearELR(r)
	case *RemoveTopicRecord:
		return b.removeTopic(r)
	case *ConfigRecord:
		b.config(r)
	case *RegisterBrokerRecord:
		b.registerBroker(r)
	case *UnregisterBrokerRecord:
		return b.unregisterBroker(r)
	case *FenceBrokerRecord:
		return b.changeBroker(r.ID, r.Epoch, func(n *Broker) { n.Fenced = true })
	case *UnfenceBrokerRecord:
		return b.changeBroker(r.ID, r.Epoch, func(n *Broker) { n.Fenced = false })
	case *BrokerRegistrationChangeRecord:
		return b.registrationChange(r)
	case *FeatureLevelRecord:
		b.feature(r)
	case *ProducerIdsRecord:
		b.producerIDs = *r
		b.delta.ProducerIDs = true
	default:
		return b.applyOther(body)
	}
	return nil
}

// applyOther keeps what this build does not serve by looking it up, only by writing it
// back.
func (b *builder) applyOther(body Body) error {
	switch r := body.(type) {
	case *NoOpRecord:
		return nil
	case *RegisterControllerRecord:
		b.controllers = b.controllers.set(r.ControllerID, r)
	case *ClientQuotaRecord:
		b.quota(r)
	case *AccessControlEntryRecord:
		b.acls = b.acls.set(r.ID, r)
	case *RemoveAccessControlEntryRecord:
		b.acls = b.acls.delete(r.ID)
	case *UserScramCredentialRecord:
		b.scram = b.scram.set(scramKey(r.Mechanism, r.Name), r)
	case *RemoveUserScramCredentialRecord:
		b.scram = b.scram.delete(scramKey(r.Mechanism, r.Name))
	case *DelegationTokenRecord:
		b.tokens = b.tokens.set(r.TokenID, r)
	case *RemoveDelegationTokenRecord:
		b.tokens = b.tokens.delete(r.TokenID)
	case *ZkMigrationStateRecord:
		b.zkMigration = r
	default:
		return fmt.Errorf("%w: %s", ErrUnknownRecord, Name(body))
	}
	b.delta.Other = true
	return nil
}

func scramKey(mechanism int8, user string) string { return string(rune(mechanism)) + "/" + user }

func (b *builder) touch(id UUID) {
	if !b.touched[id] {
		b.touched[id] = true
		b.order = append(b.order, id)
	}
}

// own returns the topic in a copy that this Apply may change.
func (b *builder) own(id UUID) *Topic {
	if t := b.topics[id]; t != nil {
		return t
	}
	old := b.TopicByID(id)
	if old == nil {
		return nil
	}
	t := &Topic{Name: old.Name, ID: old.ID, Partitions: slices.Clone(old.Partitions)}
	b.put(t)
	return t
}

func (b *builder) put(t *Topic) {
	b.topics[t.ID] = t
	b.byID = b.byID.set(t.ID, t)
	b.byName = b.byName.set(t.Name, t)
	b.touch(t.ID)
}

func (b *builder) topic(r *TopicRecord) error {
	if b.TopicByID(r.TopicID) != nil || b.Topic(r.Name) != nil {
		return fmt.Errorf("%w: topic %q, id %s exists", ErrInconsistent, r.Name, UUIDString(r.TopicID))
	}
	b.put(&Topic{Name: r.Name, ID: r.TopicID})
	return nil
}

func (b *builder) partition(r *PartitionRecord) error {
	t := b.own(r.TopicID)
	if t == nil || r.PartitionID < 0 || r.PartitionID >= MaxPartitions {
		return fmt.Errorf("%w: partition %d of topic id %s", ErrInconsistent, r.PartitionID, UUIDString(r.TopicID))
	}
	for len(t.Partitions) <= int(r.PartitionID) {
		t.Partitions = append(t.Partitions, nil)
	}
	if t.Partitions[r.PartitionID] == nil {
		b.partitions++
	}
	t.Partitions[r.PartitionID] = &Partition{
		Replicas: r.Replicas, ISR: r.ISR, ELR: orNil(r.EligibleLeaderReplicas), LastKnownELR: orNil(r.LastKnownELR),
		AddingReplicas: r.AddingReplicas, RemovingReplicas: r.RemovingReplicas, Directories: r.Directories,
		Leader: r.Leader, LeaderEpoch: r.LeaderEpoch, PartitionEpoch: r.PartitionEpoch,
		LeaderRecoveryState: r.LeaderRecoveryState,
	}
	return nil
}

// orNil makes the two ways to say "none" one.
func orNil[E any](s []E) []E {
	if len(s) == 0 {
		return nil
	}
	return s
}

// partitionChange merges a change: the partition epoch grows with every one, the leader
// epoch when the record names a leader, be it the same.
func (b *builder) partitionChange(r *PartitionChangeRecord) error {
	t := b.own(r.TopicID)
	old := t.Partition(r.PartitionID)
	if old == nil {
		return fmt.Errorf("%w: no partition %d of topic id %s", ErrInconsistent, r.PartitionID, UUIDString(r.TopicID))
	}
	p := *old
	replace := func(field *[]int32, with []int32) {
		if with != nil {
			*field = orNil(with)
		}
	}
	replace(&p.Replicas, r.Replicas)
	replace(&p.ISR, r.ISR)
	replace(&p.ELR, r.EligibleLeaderReplicas)
	replace(&p.LastKnownELR, r.LastKnownELR)
	replace(&p.AddingReplicas, r.AddingReplicas)
	replace(&p.RemovingReplicas, r.RemovingReplicas)
	if r.Directories != nil {
		p.Directories = orNil(r.Directories)
	}
	if r.LeaderRecoveryState != RecoveryUnchanged {
		p.LeaderRecoveryState = r.LeaderRecoveryState
	}
	if r.Leader != LeaderUnchanged {
		p.Leader = r.Leader
		p.LeaderEpoch++
	}
	p.PartitionEpoch++
	t.Partitions[r.PartitionID] = &p
	return nil
}

func (b *builder) clearELR(r *ClearElrRecord) error {
	topics := slices.Collect(b.Topics())
	if r.TopicName != "" {
		t := b.Topic(r.TopicName)
		if t == nil {
			return fmt.Errorf("%w: no topic %q", ErrInconsistent, r.TopicName)
		}
		topics = []*Topic{t}
	}
	for _, t := range topics {
		for i, p := range t.Partitions {
			if p == nil || len(p.ELR) == 0 && len(p.LastKnownELR) == 0 {
				continue
			}
			change := NewPartitionChange(t.ID, int32(i))
			change.EligibleLeaderReplicas, change.LastKnownELR = []int32{}, []int32{}
			if err := b.partitionChange(change); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *builder) removeTopic(r *RemoveTopicRecord) error {
	t := b.TopicByID(r.TopicID)
	if t == nil {
		return fmt.Errorf("%w: no topic id %s", ErrInconsistent, UUIDString(r.TopicID))
	}
	for _, p := range t.Partitions {
		if p != nil {
			b.partitions--
		}
	}
	b.touch(t.ID)
	b.delta.Deleted = append(b.delta.Deleted, t.ID)
	delete(b.topics, t.ID)
	b.byID = b.byID.delete(t.ID)
	b.byName = b.byName.delete(t.Name)
	resource := ConfigResource{TopicResource, t.Name}
	if _, ok := b.configs.get(resource); ok {
		b.configs = b.configs.delete(resource)
		b.delta.config(resource)
	}
	return nil
}

func (b *builder) config(r *ConfigRecord) {
	resource := ConfigResource{r.ResourceType, r.ResourceName}
	old, _ := b.configs.get(resource)
	next := old.with(r.Name, r.Value)
	if len(next) == 0 {
		b.configs = b.configs.delete(resource)
	} else {
		b.configs = b.configs.set(resource, next)
	}
	b.delta.config(resource)
}

func (b *builder) feature(r *FeatureLevelRecord) {
	if r.FeatureLevel == 0 {
		b.features = b.features.delete(r.Name)
	} else {
		b.features = b.features.set(r.Name, r.FeatureLevel)
	}
	b.delta.Features = true
}

func (b *builder) registerBroker(r *RegisterBrokerRecord) {
	b.brokers = b.brokers.set(r.BrokerID, &Broker{
		ID: r.BrokerID, Epoch: r.BrokerEpoch, IncarnationID: r.IncarnationID,
		Endpoints: r.Endpoints, Features: r.Features, Rack: r.Rack, Fenced: r.Fenced,
		InControlledShutdown: r.InControlledShutdown, LogDirs: r.LogDirs, IsMigratingZkBroker: r.IsMigratingZkBroker,
	})
	b.delta.broker(r.BrokerID)
}

func (b *builder) unregisterBroker(r *UnregisterBrokerRecord) error {
	old := b.Broker(r.BrokerID)
	if old == nil || old.Epoch != r.BrokerEpoch {
		return fmt.Errorf("%w: no broker %d of epoch %d", ErrInconsistent, r.BrokerID, r.BrokerEpoch)
	}
	b.brokers = b.brokers.delete(r.BrokerID)
	b.delta.broker(r.BrokerID)
	return nil
}

func (b *builder) changeBroker(id int32, epoch int64, change func(*Broker)) error {
	old := b.Broker(id)
	if old == nil || old.Epoch != epoch {
		return fmt.Errorf("%w: no broker %d of epoch %d", ErrInconsistent, id, epoch)
	}
	next := *old
	change(&next)
	b.brokers = b.brokers.set(id, &next)
	b.delta.broker(id)
	return nil
}

func (b *builder) registrationChange(r *BrokerRegistrationChangeRecord) error {
	return b.changeBroker(r.BrokerID, r.BrokerEpoch, func(n *Broker) {
		if r.Fenced != 0 {
			n.Fenced = r.Fenced > 0
		}
		if r.InControlledShutdown != 0 {
			n.InControlledShutdown = true
		}
		if len(r.LogDirs) > 0 {
			n.LogDirs = r.LogDirs
		}
	})
}

// quota keeps one record per entity and quota name.
func (b *builder) quota(r *ClientQuotaRecord) {
	c := codec{}
	c.string(&r.QuotaName)
	entity := slices.Clone(r.Entity)
	slices.SortFunc(entity, func(x, y QuotaEntity) int { return compareStrings(x.Type, y.Type) })
	for _, e := range entity {
		c.string(&e.Type)
		c.nullableString(&e.Name)
	}
	if r.Remove {
		b.quotas = b.quotas.delete(string(c.buf))
	} else {
		b.quotas = b.quotas.set(string(c.buf), r)
	}
}

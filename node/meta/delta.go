package meta

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"slices"
)

// Delta is what changed between two images. It lists what was touched; the values are in
// From and To.
type Delta struct {
	From, To *Image
	// Topics are those created, deleted or changed, by name; of one name that was deleted
	// and created again the deleted one comes first.
	Topics []TopicDelta
	// Deleted are the ids of all topics that were deleted, those included that were created
	// within the delta. In a first delta they are those that were deleted in what was replayed:
	// a directory of one of them is no replica's any more.
	Deleted []UUID
	// Brokers are the ids of those registered, changed or unregistered, ascending.
	Brokers []int32
	// Configs are the resources whose configuration changed, by type and name.
	Configs []ConfigResource
	// Features: a finalized level changed.
	Features bool
	// ProducerIDs: a block of producer ids was given out.
	ProducerIDs bool
	// Other: something changed that the image only keeps (quotas, ACLs, credentials ...).
	Other bool
}

// TopicDelta is one topic that changed. Old is nil where it was created, New where it was
// deleted.
type TopicDelta struct {
	Name     string
	ID       UUID
	Old, New *Topic
}

// Changed lists the partitions that were created or changed, ascending; after a deletion
// none.
func (d *TopicDelta) Changed() []int32 {
	if d.New == nil {
		return nil
	}
	var changed []int32
	for i, p := range d.New.Partitions {
		if p != nil && d.Old.Partition(int32(i)) != p {
			changed = append(changed, int32(i))
		}
	}
	return changed
}

// Empty reports whether nothing changed but the offset.
func (d *Delta) Empty() bool {
	return len(d.Topics) == 0 && len(d.Brokers) == 0 && len(d.Configs) == 0 && !d.Features && !d.ProducerIDs && !d.Other
}

func (d *Delta) config(r ConfigResource) { d.Configs = append(d.Configs, r) }

func (d *Delta) broker(id int32) { d.Brokers = append(d.Brokers, id) }

// finish sorts the lists. A topic that was created and deleted within the delta is not in
// it: nobody saw it.
func (d *Delta) finish(touched []UUID) {
	for _, id := range touched {
		old, now := d.From.TopicByID(id), d.To.TopicByID(id)
		if old == now {
			continue
		}
		named := now
		if now == nil {
			named = old
		}
		d.Topics = append(d.Topics, TopicDelta{Name: named.Name, ID: id, Old: old, New: now})
	}
	slices.SortFunc(d.Topics, func(a, b TopicDelta) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(deletedFirst(a), deletedFirst(b)))
	})
	slices.Sort(d.Brokers)
	d.Brokers = slices.Compact(d.Brokers)
	slices.SortFunc(d.Configs, ConfigResource.compare)
	d.Configs = slices.Compact(d.Configs)
}

func deletedFirst(d TopicDelta) int {
	if d.New == nil {
		return 0
	}
	return 1
}

func compareStrings(a, b string) int { return cmp.Compare(a, b) }

// Full returns the delta from nothing to i: what a listener sees that begins with i.
func (i *Image) Full() *Delta {
	from := Empty()
	d := &Delta{From: from, To: i, Features: i.features.size > 0, ProducerIDs: i.producerIDs.NextProducerID > 0}
	for t := range i.Topics() {
		d.Topics = append(d.Topics, TopicDelta{Name: t.Name, ID: t.ID, New: t})
	}
	for b := range i.Brokers() {
		d.Brokers = append(d.Brokers, b.ID)
	}
	for r := range i.configs.all() {
		d.Configs = append(d.Configs, r)
	}
	d.Other = i.controllers.size+i.quotas.size+i.acls.size+i.scram.size+i.tokens.size > 0
	return d
}

// ReservedUUID reports whether the id is one of the first hundred, which Kafka gives meanings of
// their own: no directory has one.
func ReservedUUID(id UUID) bool {
	for _, b := range id[:15] {
		if b != 0 {
			return false
		}
	}
	return id[15] < 100
}

// UUIDString is Kafka's text form of an id: URL-safe base64 without padding.
func UUIDString(id UUID) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// ParseUUID reads Kafka's text form.
func ParseUUID(s string) (UUID, error) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) != 16 {
		return UUID{}, fmt.Errorf("%q is not a 16-byte id in base64", s)
	}
	return UUID(b), nil
}

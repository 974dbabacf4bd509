package meta

import "slices"

// Since returns i with everything that is the same in old taken from old, and the delta from
// old to that image: what a listener sees that knew old when a snapshot brought i. That
// nothing is new where nothing changed is what keeps the listener's hands off it.
func (i *Image) Since(old *Image) (*Image, *Delta) {
	next := *i
	d := &Delta{From: old, To: &next}
	touched := next.shareTopics(i, old)
	for t := range old.Topics() {
		if i.TopicByID(t.ID) == nil {
			touched = append(touched, t.ID)
			d.Deleted = append(d.Deleted, t.ID)
		}
	}
	next.brokers = share(&i.brokers, &old.brokers, sameBroker, d.broker)
	next.configs = share(&i.configs, &old.configs, func(a, b Config) bool { return slices.Equal(a, b) }, d.config)
	d.Features = !slices.Equal(i.featureList(), old.featureList())
	d.ProducerIDs = i.producerIDs != old.producerIDs
	d.Other = !slices.Equal(i.others(), old.others())
	d.finish(touched)
	return &next, d
}

// shareTopics makes the topics of i out of old's where they are the same, and returns the
// ids of the others.
func (next *Image) shareTopics(i, old *Image) (touched []UUID) {
	empty := Empty()
	next.byID, next.byName = empty.byID, empty.byName
	for t := range i.Topics() {
		shared := t.since(old.TopicByID(t.ID))
		if shared != old.TopicByID(t.ID) {
			touched = append(touched, t.ID)
		}
		next.byID = next.byID.set(t.ID, shared)
		next.byName = next.byName.set(t.Name, shared)
	}
	return touched
}

// since is old if it is the same as t; else t with what is the same of old.
func (t *Topic) since(old *Topic) *Topic {
	if old == nil {
		return t
	}
	next := &Topic{Name: t.Name, ID: t.ID, Partitions: slices.Clone(t.Partitions)}
	same := t.Name == old.Name && len(t.Partitions) == len(old.Partitions)
	for p, now := range t.Partitions {
		before := old.Partition(int32(p))
		if before != nil && now != nil && now.same(before) {
			next.Partitions[p] = before
		} else if before != now {
			same = false
		}
	}
	if same {
		return old
	}
	return next
}

func (p *Partition) same(o *Partition) bool {
	return slices.Equal(p.Replicas, o.Replicas) && slices.Equal(p.ISR, o.ISR) && slices.Equal(p.ELR, o.ELR) &&
		slices.Equal(p.LastKnownELR, o.LastKnownELR) && slices.Equal(p.AddingReplicas, o.AddingReplicas) &&
		slices.Equal(p.RemovingReplicas, o.RemovingReplicas) && slices.Equal(p.Directories, o.Directories) &&
		p.Leader == o.Leader && p.LeaderEpoch == o.LeaderEpoch && p.PartitionEpoch == o.PartitionEpoch &&
		p.LeaderRecoveryState == o.LeaderRecoveryState
}

// sameBroker compares all of two registrations: an incarnation may register again under the
// epoch that it has, with other endpoints, features or another rack.
func sameBroker(a, b *Broker) bool {
	sameRack := a.Rack == b.Rack || a.Rack != nil && b.Rack != nil && *a.Rack == *b.Rack
	return sameRack && a.Epoch == b.Epoch && a.IncarnationID == b.IncarnationID && a.Fenced == b.Fenced &&
		a.InControlledShutdown == b.InControlledShutdown && a.IsMigratingZkBroker == b.IsMigratingZkBroker &&
		slices.Equal(a.LogDirs, b.LogDirs) && slices.Equal(a.Endpoints, b.Endpoints) && slices.Equal(a.Features, b.Features)
}

// share makes the map now out of old's values where they are the same, and tells the keys
// of all others, those that are gone included.
func share[K, V any](now, old *sorted[K, V], same func(a, b V) bool, changed func(K)) sorted[K, V] {
	next := sorted[K, V]{compare: now.compare}
	for k, v := range now.all() {
		before, ok := old.get(k)
		if ok && same(v, before) {
			v = before
		} else {
			changed(k)
		}
		next = next.set(k, v)
	}
	for k := range old.all() {
		if _, ok := now.get(k); !ok {
			changed(k)
		}
	}
	return next
}

func (i *Image) featureList() []ConfigEntry {
	var out []ConfigEntry
	for name, level := range i.Features() {
		out = append(out, ConfigEntry{name, string(rune(level))})
	}
	return out
}

// others is what the image only keeps, encoded.
func (i *Image) others() []byte {
	var b []byte
	add := func(r Record) bool {
		b = AppendRecord(b, r)
		return true
	}
	for c := range i.Controllers() {
		add(Record{0, c})
	}
	rest := *i
	rest.producerIDs = ProducerIdsRecord{}
	rest.writeOthers(add)
	return b
}

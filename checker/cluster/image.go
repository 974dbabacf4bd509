package cluster

import "fmt"

// image is what a replay of metadata records comes to, as text by key, and a sum of it all that
// does not depend on the order: of a snapshot it must be that of the log below it (I31). It knows
// each type of record that the broker writes; of another, that there is one.
type image struct {
	entries map[string]string
	sum     uint64
	brokers map[int32]registerBroker // with what changed since
	parts   map[partKey]partitionRecord
	topics  map[ID]string
	open    bool // a metadata transaction is
	waiting []any
}

func newImage() *image {
	return &image{entries: make(map[string]string), brokers: make(map[int32]registerBroker), parts: make(map[partKey]partitionRecord), topics: make(map[ID]string)}
}

// entrySum is the FNV-1a hash of an entry.
func entrySum(key, value string) uint64 {
	h := uint64(14695981039346656037)
	for _, s := range []string{key, "\x00", value} {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * 1099511628211
		}
	}
	return h
}

func (m *image) set(key, value string) {
	m.drop(key)
	m.entries[key] = value
	m.sum += entrySum(key, value)
}

func (m *image) drop(key string) {
	if old, ok := m.entries[key]; ok {
		m.sum -= entrySum(key, old)
		delete(m.entries, key)
	}
}

// apply replays one record.
func (m *image) apply(b []byte) error {
	rec, err := decode(b)
	if err != nil {
		return err
	}
	switch rec.(type) {
	case beginTransaction:
		m.open = true
	case endTransaction:
		for _, w := range m.waiting {
			m.record(w)
		}
		m.open, m.waiting = false, nil
	case abortTransaction:
		m.open, m.waiting = false, nil
	default:
		if m.open {
			m.waiting = append(m.waiting, rec)
		} else {
			m.record(rec)
		}
	}
	return nil
}

func (m *image) record(rec any) {
	switch r := rec.(type) {
	case registerBroker:
		m.setBroker(r)
	case unregisterBroker:
		delete(m.brokers, r.id)
		m.drop(fmt.Sprintf("broker %d", r.id))
	case brokerChange:
		m.brokerChange(r)
	case topicRecord:
		m.topics[r.id] = r.name
		m.set(fmt.Sprintf("topic %x", r.id), r.name)
	case removeTopicRecord:
		m.removeTopic(r.id)
	case partitionRecord:
		m.setPart(r)
	case partitionChange:
		m.partitionChange(r)
	case configRecord:
		m.setOrDrop(fmt.Sprintf("config %d/%s/%s", r.kind, r.res, r.name), r.value, r.without)
	case featureLevel:
		m.setOrDrop("feature "+r.name, fmt.Sprint(r.level), r.level == 0)
	case producerIDs:
		m.set("producer ids", fmt.Sprint(r.next))
	case registerController:
		m.set(fmt.Sprintf("controller %d", r.id), fmt.Sprintf("%x", r.rest))
	case otherRecord:
		m.set(fmt.Sprintf("record of type %d", r.key), fmt.Sprintf("%x", r.rest))
	}
}

func (m *image) setOrDrop(key, value string, drop bool) {
	if drop {
		m.drop(key)
	} else {
		m.set(key, value)
	}
}

// brokerChange of a broker that is not registered leaves one without an epoch, as no log does.
func (m *image) brokerChange(r brokerChange) {
	b := m.brokers[r.id]
	b.id = r.id
	if r.fenced != 0 {
		b.fenced = r.fenced > 0
	}
	if r.shutting != 0 {
		b.shutting = r.shutting > 0
	}
	if len(r.dirs) > 0 {
		b.dirs = r.dirs
	}
	m.setBroker(b)
}

func (m *image) setBroker(b registerBroker) {
	m.brokers[b.id] = b
	m.set(fmt.Sprintf("broker %d", b.id), fmt.Sprintf("incarnation %x, epoch %d, migrating %v, listeners and features %x, rack %q %v, fenced %v, shutting down %v, directories %x",
		b.incarnation, b.epoch, b.migrating, b.lists, b.rack, b.rackless, b.fenced, b.shutting, b.dirs))
}

// partitionChange of a partition that does not exist leaves one without replicas, as no log does.
func (m *image) partitionChange(r partitionChange) {
	p := m.parts[partKey{r.topic, r.index}]
	p.topic, p.index = r.topic, r.index
	for _, list := range []struct {
		to   *[]int32
		from []int32
	}{{&p.isr, r.isr}, {&p.replicas, r.replicas}, {&p.removing, r.removing}, {&p.adding, r.adding}, {&p.elr, r.elr}, {&p.known, r.known}} {
		if list.from != nil {
			*list.to = list.from
		}
	}
	if r.leader != -2 {
		p.leader = r.leader
		p.leaderEpoch++
	}
	if r.recovering >= 0 {
		p.recovering = r.recovering
	}
	if r.dirs != nil {
		p.dirs = r.dirs
	}
	p.epoch++
	m.setPart(p)
}

func (m *image) setPart(p partitionRecord) {
	key := partKey{p.topic, p.index}
	m.parts[key] = p
	m.set(partName(key), fmt.Sprintf("replicas %d, ISR %d, ELR %d, last known %d, adding %d, removing %d, leader %d in epoch %d, recovery %d, partition epoch %d, directories %x",
		p.replicas, p.isr, p.elr, p.known, p.adding, p.removing, p.leader, p.leaderEpoch, p.recovering, p.epoch, p.dirs))
}

func partName(key partKey) string { return fmt.Sprintf("partition %x-%d", key.topic, key.index) }

func (m *image) removeTopic(id ID) {
	name := m.topics[id]
	delete(m.topics, id)
	m.drop(fmt.Sprintf("topic %x", id))
	for key := range m.parts { //order: each is dropped or not
		if key.topic == id {
			delete(m.parts, key)
			m.drop(partName(key))
		}
	}
	prefix := "config 2/" + name + "/"
	for key := range m.entries { //order: each is dropped or not
		if len(key) > len(prefix) && key[:len(prefix)] == prefix {
			m.drop(key)
		}
	}
}

package cluster

import (
	"fmt"
	"maps"
	"slices"

	"seedlog/checker/logfile"
)

// image is what a replay of metadata records comes to, as text by key, and a sum of it all that
// does not depend on the order: of a snapshot it must be that of the log below it (I31). It knows
// each type of record that the broker writes; of another, that there is one.
type image struct {
	entries map[string]string
	sum     uint64
	brokers map[int32]*imageBroker
	parts   map[partKey]*imagePart
	topics  map[ID]string
	// open says that a metadata transaction is open: its records wait for its end, and are
	// nothing if it is aborted.
	open    bool
	waiting [][]byte
}

type imageBroker struct {
	fixed            string // what only a registration sets
	fenced, shutting bool
	dirs             string
}

type imagePart struct {
	replicas, isr, removing, adding, elr, lastELR []int32
	leader, leaderEpoch, epoch                    int32
	recovery                                      int8
	dirs                                          string
}

func newImage() *image {
	return &image{entries: make(map[string]string), brokers: make(map[int32]*imageBroker), parts: make(map[partKey]*imagePart), topics: make(map[ID]string)}
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
	r := &reader{b: b}
	frame, key, version := r.uvarint(), r.uvarint(), r.uvarint()
	if frame != 1 {
		return fmt.Errorf("frame version %d", frame)
	}
	if m.open && key != 23 && key != 24 && key != 25 {
		m.waiting = append(m.waiting, b)
		return nil
	}
	switch key {
	case 23:
		m.open = true
	case 24:
		waiting := m.waiting
		m.open, m.waiting = false, nil
		for _, w := range waiting {
			if err := m.apply(w); err != nil {
				return err
			}
		}
	case 25:
		m.open, m.waiting = false, nil
	case 0:
		m.broker(r, version)
	case 1:
		id := r.int32()
		delete(m.brokers, id)
		m.drop(fmt.Sprintf("broker %d", id))
	case 2:
		name, _ := r.string()
		id := r.uuid()
		m.topics[id] = name
		m.set(fmt.Sprintf("topic %x", id), name)
	case 3:
		m.partition(r, version)
	case 4:
		kind := r.int8()
		res, _ := r.string()
		name, _ := r.string()
		value, without := r.string()
		if at := fmt.Sprintf("config %d/%s/%s", kind, res, name); without {
			m.drop(at)
		} else {
			m.set(at, value)
		}
	case 5:
		m.partitionChange(r)
	case 9:
		m.removeTopic(r.uuid())
	case 12:
		name, _ := r.string()
		if level := r.int16(); level == 0 {
			m.drop("feature " + name)
		} else {
			m.set("feature "+name, fmt.Sprint(level))
		}
	case 15:
		r.int32()
		r.int64()
		m.set("producer ids", fmt.Sprint(r.int64()))
	case 17:
		m.brokerChange(r)
	case 20: // says nothing
	case 27:
		id := r.int32()
		m.set(fmt.Sprintf("controller %d", id), fmt.Sprintf("%x", r.b))
	default:
		m.set(fmt.Sprintf("record of type %d", key), fmt.Sprintf("%x", r.b))
	}
	if r.bad {
		return fmt.Errorf("type %d version %d: %w", key, version, errRecord)
	}
	return nil
}

func (m *image) broker(r *reader, version uint64) {
	id := r.int32()
	migrating := version >= 2 && r.bool()
	incarnation, epoch := r.uuid(), r.int64()
	lists := r.b
	r.skipArray(func() {
		r.string()
		r.string()
		r.take(4)
		r.tags(nil)
	})
	r.skipArray(func() {
		r.string()
		r.take(4)
		r.tags(nil)
	})
	lists = lists[:len(lists)-len(r.b)]
	rack, without := r.string()
	b := &imageBroker{fixed: fmt.Sprintf("incarnation %x, epoch %d, migrating %v, listeners and features %x, rack %q %v", incarnation, epoch, migrating, lists, rack, without)}
	b.fenced = r.bool()
	b.shutting = version >= 1 && r.bool()
	r.tags(func(tag uint64, in *reader) {
		if tag == 0 {
			b.dirs = in.uuids()
		}
	})
	m.brokers[id] = b
	m.setBroker(id, b)
}

func (m *image) brokerChange(r *reader) {
	id := r.int32()
	r.int64()
	b := m.brokers[id]
	if b == nil {
		b = &imageBroker{fixed: "changes and is not registered"}
		m.brokers[id] = b
	}
	r.tags(func(tag uint64, in *reader) {
		switch tag {
		case 0:
			if v := in.int8(); v != 0 {
				b.fenced = v > 0
			}
		case 1:
			if v := in.int8(); v != 0 {
				b.shutting = v > 0
			}
		case 2:
			if dirs := in.uuids(); dirs != "" {
				b.dirs = dirs
			}
		}
	})
	m.setBroker(id, b)
}

func (m *image) setBroker(id int32, b *imageBroker) {
	m.set(fmt.Sprintf("broker %d", id), fmt.Sprintf("%s, fenced %v, shutting down %v, directories %s", b.fixed, b.fenced, b.shutting, b.dirs))
}

// uuids is a list of ids as text; that of none is empty.
func (r *reader) uuids() (s string) {
	r.skipArray(func() { s += fmt.Sprintf("%x ", r.uuid()) })
	return s
}

func (m *image) partition(r *reader, version uint64) {
	key := partKey{index: r.int32(), topic: r.uuid()}
	p := &imagePart{replicas: r.int32s(), isr: r.int32s(), removing: r.int32s(), adding: r.int32s(),
		leader: r.int32(), leaderEpoch: r.int32(), epoch: r.int32()}
	if version >= 1 {
		p.dirs = r.uuids()
	}
	r.tags(func(tag uint64, in *reader) {
		switch tag {
		case 0:
			p.recovery = in.int8()
		case 1:
			p.elr = in.int32s()
		case 2:
			p.lastELR = in.int32s()
		}
	})
	m.parts[key] = p
	m.setPart(key, p)
}

func (m *image) partitionChange(r *reader) {
	key := partKey{index: r.int32(), topic: r.uuid()}
	p := m.parts[key]
	if p == nil {
		p = &imagePart{dirs: "changes and does not exist"}
		m.parts[key] = p
	}
	list := func(to *[]int32, in *reader) {
		if v := in.int32s(); v != nil {
			*to = v
		}
	}
	r.tags(func(tag uint64, in *reader) {
		switch tag {
		case 0:
			list(&p.isr, in)
		case 1:
			p.leader = in.int32()
			p.leaderEpoch++
		case 2:
			list(&p.replicas, in)
		case 3:
			list(&p.removing, in)
		case 4:
			list(&p.adding, in)
		case 5:
			p.recovery = in.int8()
		case 6:
			list(&p.elr, in)
		case 7:
			list(&p.lastELR, in)
		case 8:
			p.dirs = in.uuids()
		}
	})
	p.epoch++
	m.setPart(key, p)
}

func (m *image) setPart(key partKey, p *imagePart) {
	m.set(partName(key), fmt.Sprintf("replicas %d, ISR %d, ELR %d, last known %d, adding %d, removing %d, leader %d in epoch %d, recovery %d, partition epoch %d, directories %s",
		p.replicas, p.isr, p.elr, p.lastELR, p.adding, p.removing, p.leader, p.leaderEpoch, p.recovery, p.epoch, p.dirs))
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

// replayed is what the committed log comes to below an offset.
type replayed struct {
	sum    uint64
	voters []Voter
}

// replay takes records of the committed log into the image.
func (q *Quorum) replay(base int64, records []logfile.Record) {
	for i := range records {
		if err := q.image.apply(records[i].Value); err != nil {
			q.v.Failf("I31", "metadata log", "record %d: %v", base+int64(i), err)
		}
	}
}

// keep keeps what the committed log comes to below an offset.
func (q *Quorum) keep(end int64) {
	q.at[end] = replayed{q.image.sum, q.voters}
	q.compareSnapshots()
}

// snapshot is one that waits for the committed log to come there.
type snapshot struct {
	where   string
	end     int64
	epoch   int32
	batches []logfile.Batch
}

// Snapshot takes a snapshot that a machine wrote, of all below an offset.
func (q *Quorum) Snapshot(where string, end int64, epoch int32, batches []logfile.Batch) {
	if end > q.from {
		q.snapshots = append(q.snapshots, snapshot{where, end, epoch, batches})
		q.compareSnapshots()
	}
}

// compareSnapshots is I31 for snapshots: what one comes to is what the log below comes to, and
// it ends where a batch ends.
func (q *Quorum) compareSnapshots() {
	q.snapshots = slices.DeleteFunc(q.snapshots, func(s snapshot) bool {
		switch {
		case s.end > q.Committed():
			return false
		case s.end > q.from:
			q.compareSnapshot(&s)
		}
		return true
	})
}

func (q *Quorum) compareSnapshot(s *snapshot) {
	want, ok := q.at[s.end]
	if !ok {
		q.v.Failf("I31", s.where, "ends at %d, within a batch", s.end)
		return
	}
	if i := find(q.committed, s.end); i > 0 && q.committed[i-1].Epoch != s.epoch {
		q.v.Failf("I31", s.where, "is of epoch %d, and the batch before offset %d of epoch %d", s.epoch, s.end, q.committed[i-1].Epoch)
	}
	got := newImage()
	var voters []Voter
	for i := range s.batches {
		records, err := s.batches[i].Records()
		if err != nil {
			q.v.Failf("I31", s.where, "cannot be read: %v", err)
			return
		}
		if s.batches[i].IsControl() {
			if v := votersIn(records); v != nil {
				voters = v
			}
			continue
		}
		for _, rec := range records {
			if err := got.apply(rec.Value); err != nil {
				q.v.Failf("I31", s.where, "%v", err)
				return
			}
		}
	}
	q.checkVersions(s.where, s.batches, got)
	if dynamic := len(want.voters) > 0 && want.voters[0].Directory != (ID{}); dynamic && !slices.Equal(voters, want.voters) {
		q.v.Failf("I31", s.where, "has the voters %v, and the log below %d has %v", voters, s.end, want.voters)
	}
	if got.sum != want.sum {
		q.v.Failf("I31", s.where, "is not what the log below %d comes to%s", s.end, q.unlike(got, s.end))
	}
}

// unlike says what of an image is not what the committed log comes to below an offset, where
// that is there from its beginning.
func (q *Quorum) unlike(got *image, end int64) (s string) {
	if q.from > 0 {
		return ""
	}
	want := newImage()
	for i := range q.committed[:find(q.committed, end)] {
		records, err := q.committed[i].Records()
		if err != nil || q.committed[i].IsControl() {
			continue
		}
		for _, rec := range records {
			_ = want.apply(rec.Value)
		}
	}
	n := 0
	for _, key := range slices.Sorted(maps.Keys(want.entries)) {
		if v, ok := got.entries[key]; n < 3 && (!ok || v != want.entries[key]) {
			s += fmt.Sprintf("; %s is %q there, %q in the log", key, v, want.entries[key])
			n++
		}
	}
	for _, key := range slices.Sorted(maps.Keys(got.entries)) {
		if _, ok := want.entries[key]; n < 3 && !ok {
			s += fmt.Sprintf("; %s is not in the log", key)
			n++
		}
	}
	return s
}

// SnapshotID reads the name of a snapshot's file.
func SnapshotID(name string) (end int64, epoch int32, ok bool) {
	n, err := fmt.Sscanf(name, "%020d-%010d.checkpoint", &end, &epoch)
	return end, epoch, err == nil && n == 2 && len(name) == 42
}

package cluster

import (
	"fmt"
	"slices"
	"strconv"

	"seedlog/checker"
)

// Partition is what the committed metadata says of one.
type Partition struct {
	Topic    string
	ID       ID
	Index    int32
	Replicas []int32
	ISR, ELR []int32
	// Adding and Removing are not empty during a reassignment.
	Adding, Removing           []int32
	Leader, LeaderEpoch, Epoch int32
	// Placed is the metadata offset at which its replicas changed last.
	Placed int64
	// kept is the largest number of replicas that were in the ISR or eligible at a time, since
	// eligible leader replicas are kept: only so many have what is committed, for sure.
	kept int
	// joined is where each member of the ISR came into it, 0 if that is not known: a snapshot does
	// not say.
	joined map[int32]int64

	// stranger is the leader epoch whose leader was no member before: an unclean election, or the
	// last known leader's. -1 for none.
	stranger int32
	// strange are the spans of leader epochs with such leaders, those included of which a snapshot
	// does not say how their leaders came.
	strange []epochSpan
	// wasISR and wasEligible are before the present batch of records: its ISR, and who could be
	// elected without being in it.
	wasISR, wasEligible []int32
	// recovering: the leader was elected uncleanly, and has not said yet that it leads with what it has.
	recovering bool
	// wasELR is who was eligible beside the ISR.
	wasELR []int32
	// wasEpoch is the leader epoch before the present batch of records.
	wasEpoch int32
	known    []int32 // the last known leader
	dirs     []ID    // of each replica, or none
	// leaders by leader epoch.
	leaders map[int32]int32
	touched bool
}

// Name is that of its directory.
func (p *Partition) Name() string { return p.Topic + "-" + strconv.Itoa(int(p.Index)) }

// Member reports whether a broker is in the ISR or an eligible leader.
func (p *Partition) Member(id int32) bool {
	return slices.Contains(p.ISR, id) || slices.Contains(p.ELR, id)
}

// Broker is a registered broker.
type Broker struct {
	ID               int32
	Epoch            int64
	Incarnation      ID
	Fenced, Shutting bool
	dirs             []ID
	features         []span
	gone             bool
}

// epochSpan is the leader epochs above one, up to another.
type epochSpan struct{ above, to int32 }

// strangers reports whether somebody who was no member may have been elected in an epoch above
// one, up to another.
func (p *Partition) strangers(above, to int32) bool {
	return slices.ContainsFunc(p.strange, func(e epochSpan) bool { return e.above < to && e.to > above })
}

// Strange reports whether somebody who was no member may ever have been elected.
func (p *Partition) Strange() bool { return len(p.strange) > 0 }

type partKey struct {
	topic ID
	index int32
}

// State is the metadata as a replay of the committed records makes it.
type State struct {
	// DefaultMinISR is the brokers' static min.insync.replicas.
	DefaultMinISR int
	// DefaultUnclean is their static unclean.leader.election.enable.
	DefaultUnclean bool

	Partitions []*Partition // in the order of their creation, without the deleted
	Brokers    []*Broker

	topics   map[ID]string
	deleted  map[ID]bool
	parts    map[partKey]*Partition
	features map[string]int16
	// controllers are the registered ones, with what they support.
	controllers map[int32][]span
	configs     map[string]string
	next        int64 // producer id
	v           *checker.Verdict
	touched     []*Partition
	fenced      bool           // a broker was fenced or unregistered in the present batch
	came        []int32        // brokers that registered in it
	anew        []int32        // those of them that are another process than before
	finalized   []featureLevel // levels that changed in it
	elrEnds     bool           // it ends the eligible leader replicas
	loading     bool           // a snapshot: the present batch is all of it
	// skipped are the partitions as they were before the snapshot that is loaded.
	skipped map[partKey]*Partition
	// passed are unclean elections of the present batch, with members that were alive.
	passed []passedOver
}

// NewState returns the state before the first record.
func NewState(v *checker.Verdict) *State {
	return &State{DefaultMinISR: 1, topics: make(map[ID]string), deleted: make(map[ID]bool), parts: make(map[partKey]*Partition), features: make(map[string]int16), controllers: make(map[int32][]span), configs: make(map[string]string), v: v}
}

// load forgets everything, to be replayed from a snapshot. Its batches have an order of their
// own, settings behind the partitions that they are of: it is judged when it is loaded.
func (s *State) load() {
	fresh := NewState(s.v)
	fresh.DefaultMinISR, fresh.DefaultUnclean, fresh.loading, fresh.skipped = s.DefaultMinISR, s.DefaultUnclean, true, s.parts
	fresh.deleted = s.deleted
	*s = *fresh
}

// loaded judges what a snapshot says of the metadata below an offset. How it came to that it
// does not say: who is in an ISR joined it before.
func (s *State) loaded(end int64) {
	s.judge(end)
	s.loading, s.skipped = false, nil
}

// skip: the elections of a partition that a snapshot stands for may have been those of strangers.
// What the last of them lost is seen where it begins.
func (s *State) skip(p *Partition, now int32, leads bool) {
	above := int32(-1)
	if was := s.skipped[partKey{p.ID, p.Index}]; was != nil {
		above, p.stranger, p.strange = was.LeaderEpoch, was.stranger, was.strange
		p.ISR, p.joined = was.ISR, was.joined
	}
	if now <= above {
		return
	}
	p.strange = append(p.strange, epochSpan{above, now})
	if leads {
		p.stranger = now
	}
}

// Find is a partition by topic id and index, or nil.
func (s *State) Find(topic ID, index int32) *Partition { return s.parts[partKey{topic, index}] }

// Named is a partition by the name of its directory, or nil.
func (s *State) Named(name string) *Partition {
	for _, p := range s.Partitions {
		if p.Name() == name {
			return p
		}
	}
	return nil
}

// Broker is a registered broker, or nil.
func (s *State) Broker(id int32) *Broker {
	for _, b := range s.Brokers {
		if b.ID == id && !b.gone {
			return b
		}
	}
	return nil
}

// ELR reports whether eligible leader replicas are in force.
func (s *State) ELR() bool { return s.features["eligible.leader.replicas.version"] > 0 }

// Level is the finalized level of a feature.
func (s *State) Level(feature string) int16 { return s.features[feature] }

// Config is a setting of a topic, or of all brokers.
func (s *State) Config(topic, name string) (string, bool) {
	for _, key := range []string{"2/" + topic + "/" + name, "4//" + name} {
		if v, ok := s.configs[key]; ok {
			return v, true
		}
	}
	return "", false
}

// MinISR is the effective min.insync.replicas of a partition.
func (s *State) MinISR(p *Partition) int {
	n := s.DefaultMinISR
	if v, ok := s.Config(p.Topic, "min.insync.replicas"); ok {
		if k, err := strconv.Atoi(v); err == nil {
			n = k
		}
	}
	return min(n, len(p.Replicas))
}

// lossNeeds is how many unclean ends it takes to lose something that is committed: as many as there
// are replicas that have it for sure. That of the last member is enough where no eligible leader
// replicas are kept, and none were as others left the ISR.
func (s *State) lossNeeds(p *Partition) int {
	if !s.ELR() {
		return 1
	}
	return min(s.MinISR(p), p.kept)
}

// apply replays one batch of committed records.
func (s *State) apply(values [][]byte, at int64) {
	if !s.loading {
		s.touched, s.fenced, s.came, s.elrEnds, s.finalized = s.touched[:0], false, s.came[:0], false, s.finalized[:0]
		s.passed, s.anew = s.passed[:0], s.anew[:0]
	}
	records := make([]any, len(values))
	for i, b := range values {
		rec, err := decode(b)
		if err != nil {
			s.v.Failf("I31", "metadata log", "record %d cannot be read: %v", at+int64(i), err)
			return
		}
		if r, ok := rec.(registerBroker); ok {
			s.came = append(s.came, r.id)
		}
		records[i] = rec
	}
	for i, rec := range records {
		s.checkVersion(values[i], at+int64(i))
		s.record(rec, at+int64(i))
	}
	if !s.loading {
		s.judge(at)
	}
}

// judge checks what the records up to an offset made.
func (s *State) judge(at int64) {
	for _, p := range s.touched {
		s.checkPartition(p, at)
		p.touched = false
	}
	if s.fenced {
		s.checkFenced(at)
	}
	s.checkPassed()
	if len(s.anew) > 0 && !s.loading {
		s.checkReturned(at)
	}
	if len(s.finalized)+len(s.came) > 0 {
		s.checkLevels(at)
	}
}

func (s *State) record(rec any, at int64) {
	switch r := rec.(type) {
	case topicRecord:
		s.topics[r.id] = r.name
	case removeTopicRecord:
		name := s.topics[r.id]
		delete(s.topics, r.id)
		s.deleted[r.id] = true
		s.Partitions = slices.DeleteFunc(s.Partitions, func(p *Partition) bool {
			if p.ID == r.id {
				delete(s.parts, partKey{p.ID, p.Index})
			}
			return p.ID == r.id
		})
		for key := range s.configs { //order: each is deleted or not
			if len(key) > 2+len(name) && key[:2] == "2/" && key[2:3+len(name)] == name+"/" {
				delete(s.configs, key)
			}
		}
	case partitionRecord:
		s.partition(r, at)
	case partitionChange:
		s.change(r, at)
	case registerBroker:
		if b := s.Broker(r.id); b != nil {
			again := r.epoch == b.Epoch && r.incarnation == b.Incarnation
			if r.epoch <= b.Epoch && !again {
				s.v.Failf("I10", fmt.Sprintf("broker %d", r.id), "epoch %d follows epoch %d (metadata offset %d)", r.epoch, b.Epoch, at)
			}
			if !again {
				s.anew = append(s.anew, r.id)
			}
			b.gone = true
		}
		s.Brokers = append(slices.DeleteFunc(s.Brokers, func(b *Broker) bool { return b.gone }), &Broker{ID: r.id, Epoch: r.epoch, Incarnation: r.incarnation, Fenced: r.fenced, Shutting: r.shutting, dirs: r.dirs, features: r.features})
		s.fenced = s.fenced || r.fenced
	case unregisterBroker:
		s.Brokers = slices.DeleteFunc(s.Brokers, func(b *Broker) bool { return b.ID == r.id })
		s.fenced = true // and gone
	case brokerChange:
		if b := s.Broker(r.id); b != nil {
			b.Fenced = r.fenced > 0 || b.Fenced && r.fenced == 0
			b.Shutting = r.shutting > 0 || b.Shutting && r.shutting == 0
			s.fenced = s.fenced || b.Fenced
			if len(r.dirs) > 0 {
				b.dirs = r.dirs
			}
		}
	case featureLevel:
		before := s.ELR()
		s.features[r.name] = r.level
		s.finalized = append(s.finalized, r)
		s.elrEnds = s.elrEnds || before && !s.ELR()
		if !before && s.ELR() {
			s.elrBegins()
		}
	case registerController:
		s.controllers[r.id] = r.features
	case configRecord:
		key := fmt.Sprintf("%d/%s/%s", r.kind, r.res, r.name)
		if r.without {
			delete(s.configs, key)
		} else {
			s.configs[key] = r.value
		}
	case producerIDs:
		if r.next <= s.next && s.next > 0 {
			s.v.Failf("I10", "producer ids", "the next block begins at %d after %d (metadata offset %d)", r.next, s.next, at)
		}
		s.next = r.next
	}
}

// elrBegins: who left an ISR before that is eligible nowhere, whatever it has, though the ISR may be
// too small.
func (s *State) elrBegins() {
	for _, p := range s.Partitions {
		p.kept = 0
		p.keeps()
	}
}

// keeps takes what the records made of the ISR and of who is eligible.
func (p *Partition) keeps() { p.kept = max(p.kept, len(p.ISR)+len(p.ELR)) }

func (s *State) touch(p *Partition) {
	if !p.touched {
		p.touched, p.wasISR, p.wasEpoch = true, slices.Clone(p.ISR), p.LeaderEpoch
		p.wasELR = slices.Clone(p.ELR)
		if p.wasEligible = p.wasELR; len(p.ELR) == 0 {
			p.wasEligible = slices.Clone(p.known)
		}
		s.touched = append(s.touched, p)
	}
}

func (s *State) partition(r partitionRecord, at int64) {
	key := partKey{r.topic, r.index}
	p := s.parts[key]
	if p == nil {
		p = &Partition{Topic: s.topics[r.topic], ID: r.topic, Index: r.index, leaders: make(map[int32]int32), stranger: -1, LeaderEpoch: -1, Epoch: -1}
		s.parts[key] = p
		s.Partitions = append(s.Partitions, p)
		if s.loading {
			s.skip(p, r.leaderEpoch, r.leader >= 0)
		}
	} else if r.leaderEpoch < p.LeaderEpoch || r.epoch <= p.Epoch {
		s.v.Failf("I10", p.Name(), "leader epoch %d and partition epoch %d follow %d and %d (metadata offset %d)", r.leaderEpoch, r.epoch, p.LeaderEpoch, p.Epoch, at)
	}
	s.touch(p)
	p.Placed = at
	p.join(r.isr, at)
	p.Replicas, p.ISR, p.ELR, p.known, p.Adding, p.Removing = r.replicas, r.isr, r.elr, r.known, r.adding, r.removing
	p.Leader, p.LeaderEpoch, p.Epoch, p.dirs, p.recovering = r.leader, r.leaderEpoch, r.epoch, r.dirs, r.recovering == 1
	p.keeps()
}

// join notes who comes into the ISR, before it is the partition's.
func (p *Partition) join(isr []int32, at int64) {
	was := p.joined
	p.joined = make(map[int32]int64, len(isr))
	for _, id := range isr {
		if p.joined[id] = at; slices.Contains(p.ISR, id) {
			p.joined[id] = was[id]
		}
	}
}

func (s *State) change(r partitionChange, at int64) {
	p := s.parts[partKey{r.topic, r.index}]
	if p == nil {
		s.v.Failf("I32", fmt.Sprintf("%x-%d", r.topic, r.index), "changes and does not exist (metadata offset %d)", at)
		return
	}
	s.touch(p)
	was := *p
	set := func(to *[]int32, v []int32) {
		if v != nil {
			*to = v
		}
	}
	if r.isr != nil {
		p.join(r.isr, at)
	}
	set(&p.ISR, r.isr)
	set(&p.ELR, r.elr)
	set(&p.known, r.known)
	if set(&p.Replicas, r.replicas); r.replicas != nil {
		p.Placed = at
	}
	set(&p.Adding, r.adding)
	set(&p.Removing, r.removing)
	if r.dirs != nil {
		p.dirs = r.dirs
	}
	if r.recovering >= 0 {
		p.recovering = r.recovering == 1
	}
	if r.leader != -2 {
		p.Leader = r.leader
		p.LeaderEpoch++
		s.elected(&was, p, at)
	}
	p.Epoch++
	p.keeps()
	s.reassigned(&was, p, at)
}

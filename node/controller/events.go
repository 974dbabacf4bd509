package controller

import (
	"slices"
	"strconv"
	"strings"

	"seedlog/node/event"
	"seedlog/node/meta"
)

// How a partition came by its leader.
const (
	HowOnline    = "online"     // the first of the ISR that may lead
	HowPreferred = "preferred"  // back to the first replica, from one that may lead, too
	HowELR       = "elr"        // an eligible leader replica (KIP-966)
	HowLastKnown = "last-known" // who led last, after ISR and ELR were empty; may have lost records
	HowUnclean   = "unclean"    // any live replica; has likely lost records
	HowNone      = "none"       // nobody may lead
)

// LeaderChanged: the controller elected a leader, or found none.
type LeaderChanged struct {
	Topic       string
	Partition   int32
	Leader      int32 // meta.NoLeader for none
	Previous    int32 // who led last
	LeaderEpoch int32
	How         string
}

func (LeaderChanged) Name() string { return "leader-elected" }

// Level is Warn for what may lose records, or stops a partition.
func (e LeaderChanged) Level() event.Level {
	switch e.How {
	case HowUnclean, HowLastKnown, HowNone:
		return event.Warn
	}
	return event.Debug
}

func (e LeaderChanged) Fields(f *event.Fields) {
	f.Str("topic", e.Topic)
	f.Int("partition", int64(e.Partition))
	f.Int("leader", int64(e.Leader))
	f.Int("previous", int64(e.Previous))
	f.Int("epoch", int64(e.LeaderEpoch))
	f.Str("how", e.How)
}

// ISRAltered: the controller wrote another ISR or other eligible leader replicas.
type ISRAltered struct {
	Topic        string
	Partition    int32
	Epoch        int32 // of the partition
	ISR, ELR     []int32
	Left, Joined int // members of the ISR
}

func (ISRAltered) Name() string       { return "partition-isr" }
func (ISRAltered) Level() event.Level { return event.Debug }
func (e ISRAltered) Fields(f *event.Fields) {
	f.Str("topic", e.Topic)
	f.Int("partition", int64(e.Partition))
	f.Int("epoch", int64(e.Epoch))
	f.Str("isr", ids(e.ISR))
	f.Str("elr", ids(e.ELR))
	f.Int("left", int64(e.Left))
	f.Int("joined", int64(e.Joined))
}

// What becomes of a reassignment.
const (
	ReassignmentBegun     = "reassignment-begun"
	ReassignmentReplaced  = "reassignment-replaced"
	ReassignmentCompleted = "reassignment-completed"
	ReassignmentCancelled = "reassignment-cancelled"
)

// Reassignment: a partition is being moved, or is not any more.
type Reassignment struct {
	What      string
	Topic     string
	Partition int32
	Replicas  []int32
	Adding    []int32
	Removing  []int32
}

func (e Reassignment) Name() string { return e.What }
func (e Reassignment) Fields(f *event.Fields) {
	f.Str("topic", e.Topic)
	f.Int("partition", int64(e.Partition))
	f.Str("replicas", ids(e.Replicas))
	f.Str("adding", ids(e.Adding))
	f.Str("removing", ids(e.Removing))
}

// What becomes of a broker.
const (
	BrokerRegistered   = "broker-registered"
	BrokerFenced       = "broker-fenced"
	BrokerUnfenced     = "broker-unfenced"
	BrokerStopping     = "broker-stopping" // it is in controlled shutdown
	BrokerUnregistered = "broker-unregistered"
)

// BrokerState: a broker came, went, or may lead or not.
type BrokerState struct {
	What  string
	ID    int32
	Epoch int64
	// DirsLost: directories that it had and reports no more.
	DirsLost int
}

func (e BrokerState) Name() string { return e.What }
func (e BrokerState) Fields(f *event.Fields) {
	f.Int("broker", int64(e.ID))
	f.Int("epoch", e.Epoch)
	if e.DirsLost > 0 {
		f.Int("dirs-lost", int64(e.DirsLost))
	}
}

// FeatureLevel: a feature was finalized at another level.
type FeatureLevel struct {
	Feature  string
	From, To int16
}

func (FeatureLevel) Name() string { return "feature-level" }
func (e FeatureLevel) Fields(f *event.Fields) {
	f.Str("feature", e.Feature)
	f.Int("from", int64(e.From))
	f.Int("to", int64(e.To))
}

func ids(list []int32) string {
	var b strings.Builder
	for i, id := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(int(id)))
	}
	return b.String()
}

// Events tells what a delta means, in the order of brokers, topics and partitions. It is the
// one place where decisions become events: they are read off what was written.
func Events(d *meta.Delta, emit func(event.Event)) {
	if d.Features {
		featureEvents(d, emit)
	}
	for _, id := range d.Brokers {
		brokerEvents(d.From.Broker(id), d.To.Broker(id), emit)
	}
	for i := range d.Topics {
		t := &d.Topics[i]
		if t.Old == nil || t.New == nil {
			continue // created or deleted: nothing was decided about its partitions
		}
		for _, id := range t.Changed() {
			if old := t.Old.Partition(id); old != nil {
				partitionEvents(t.Name, id, old, t.New.Partitions[id], emit)
			}
		}
	}
}

func featureEvents(d *meta.Delta, emit func(event.Event)) {
	for name, level := range d.To.Features() {
		if was := d.From.Feature(name); was != level {
			emit(FeatureLevel{name, was, level})
		}
	}
	for name, was := range d.From.Features() {
		if d.To.Feature(name) == 0 {
			emit(FeatureLevel{name, was, 0})
		}
	}
}

func brokerEvents(old, now *meta.Broker, emit func(event.Event)) {
	tell := func(what string, b *meta.Broker, lost int) { emit(BrokerState{what, b.ID, b.Epoch, lost}) }
	switch {
	case now == nil:
		if old != nil {
			tell(BrokerUnregistered, old, 0)
		}
		return
	case old == nil || old.Epoch != now.Epoch:
		tell(BrokerRegistered, now, 0)
		if !now.Fenced {
			tell(BrokerUnfenced, now, 0)
		}
		return
	}
	lost := len(old.LogDirs) - len(slices.DeleteFunc(slices.Clone(old.LogDirs), func(d meta.UUID) bool { return !slices.Contains(now.LogDirs, d) }))
	switch {
	case !old.Fenced && now.Fenced:
		tell(BrokerFenced, now, lost)
	case old.Fenced && !now.Fenced:
		tell(BrokerUnfenced, now, lost)
	case !old.InControlledShutdown && now.InControlledShutdown:
		tell(BrokerStopping, now, lost)
	case lost > 0:
		tell(BrokerRegistered, now, lost)
	}
}

func partitionEvents(topic string, id int32, old, now *meta.Partition, emit func(event.Event)) {
	if what := reassigned(old, now); what != "" {
		emit(Reassignment{what, topic, id, now.Replicas, now.AddingReplicas, now.RemovingReplicas})
	}
	if !slices.Equal(old.ISR, now.ISR) || !slices.Equal(old.ELR, now.ELR) {
		emit(ISRAltered{topic, id, now.PartitionEpoch, now.ISR, now.ELR, len(without(old.ISR, now.ISR...)), len(without(now.ISR, old.ISR...))})
	}
	if old.Leader != now.Leader {
		previous := old.Leader
		if previous < 0 && len(old.LastKnownELR) == 1 {
			previous = old.LastKnownELR[0]
		}
		emit(LeaderChanged{topic, id, now.Leader, previous, now.LeaderEpoch, how(old, now)})
	}
}

// how reads off a change by what right the new leader leads.
func how(old, now *meta.Partition) string {
	leader := now.Leader
	lossy := now.LeaderRecoveryState == 1
	switch {
	case leader < 0:
		return HowNone
	case slices.Contains(old.ELR, leader) && !slices.Contains(old.ISR, leader) && !lossy:
		return HowELR
	case lossy && len(old.ISR) == 0 && len(old.ELR) == 0 && slices.Contains(old.LastKnownELR, leader):
		return HowLastKnown
	case lossy && (old.LeaderRecoveryState == 0 || !slices.Contains(old.ISR, leader)):
		return HowUnclean
	case leader == now.Replicas[0] && slices.Contains(now.ISR, old.Leader):
		return HowPreferred
	}
	return HowOnline
}

func reassigned(old, now *meta.Partition) string {
	was, is := reassigning(old), reassigning(now)
	switch {
	case !was && is:
		return ReassignmentBegun
	case was && is && (!slices.Equal(old.AddingReplicas, now.AddingReplicas) || !slices.Equal(old.RemovingReplicas, now.RemovingReplicas)):
		return ReassignmentReplaced
	case was && !is && slices.Equal(now.Replicas, target(old)):
		return ReassignmentCompleted
	case was && !is && slices.Equal(now.Replicas, origin(old)):
		return ReassignmentCancelled
	case was && !is:
		return ReassignmentReplaced
	}
	return ""
}

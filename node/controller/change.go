package controller

import (
	"slices"

	"seedlog/node/meta"
)

// change works out the record that moves a partition to a wanted state. Whoever wants
// something sets the targets; record asks, in this order,
//
//	is a reassignment done?            reassignment.go
//	who is eligible beside the ISR?    elr.go
//	who leads?                         election.go
//
// and says only what differs from now. The leader epoch grows when the leader changes, and
// when a replica leaves: it must not be taken for one any more.
type change struct {
	partition *meta.Partition
	topic     meta.UUID
	id        int32
	// minISR is min.insync.replicas, however many replicas there are.
	minISR   int
	elr      bool // eligible leader replicas are kept
	election election
	// acceptable reports whether a broker may lead now.
	acceptable func(broker int32) bool
	// defaultDir is the directory of a new replica.
	defaultDir func(broker int32) meta.UUID
	// uncleanlyStopped is the broker that lost its tail, or -1.
	uncleanlyStopped int32

	// What is wanted; begin fills in the present state.
	isr, targetELR             []int32
	replicas, adding, removing []int32
	recovery                   int8
	// movedBroker's replica is in movedTo; -1 where none moved.
	movedBroker int32
	movedTo     meta.UUID
}

// begin is a change of a partition with what the state says about its topic, and nothing
// wanted yet.
func (s *State) begin(t *meta.Topic, id int32) *change {
	p := t.Partitions[id]
	c := &change{
		partition: p, topic: t.ID, id: id, minISR: s.minISR(t.Name), elr: s.elrEnabled(),
		acceptable:       func(b int32) bool { return s.active(b) && s.dirOnline(p, b) },
		defaultDir:       s.defaultDir,
		uncleanlyStopped: -1, movedBroker: -1, election: electOnline,
		isr: p.ISR, targetELR: p.ELR, replicas: p.Replicas, adding: p.AddingReplicas, removing: p.RemovingReplicas,
		recovery: p.LeaderRecoveryState,
	}
	if s.uncleanElection(t.Name) {
		c.election = electUnclean
	}
	return c
}

// record is the change, or nil if there is none.
func (c *change) record() *meta.PartitionChangeRecord {
	c.completeReassignment()
	c.populateELR()
	leader := c.elect()
	c.keepLastMember()

	p, r := c.partition, meta.NewPartitionChange(c.topic, c.id)
	if leader != p.Leader || len(without(p.Replicas, c.replicas...)) > 0 {
		r.Leader = leader
	}
	r.ISR = changed(p.ISR, c.isr)
	r.EligibleLeaderReplicas = changed(p.ELR, c.targetELR)
	r.LastKnownELR = changed(p.LastKnownELR, c.lastKnown(leader))
	r.Replicas = changed(p.Replicas, c.replicas)
	r.AddingReplicas = changed(p.AddingReplicas, c.adding)
	r.RemovingReplicas = changed(p.RemovingReplicas, c.removing)
	if dirs := c.directories(); !slices.Equal(dirs, p.Directories) {
		r.Directories = dirs
	}
	if c.recovery != p.LeaderRecoveryState {
		r.LeaderRecoveryState = c.recovery
	}
	if isNoOp(r) {
		return nil
	}
	return r
}

// changed is next for the record: nil where it is as it was, never nil where it is not.
func changed(old, next []int32) []int32 {
	switch {
	case slices.Equal(old, next):
		return nil
	case next == nil:
		return []int32{}
	}
	return next
}

func isNoOp(r *meta.PartitionChangeRecord) bool {
	return r.ISR == nil && r.Leader == meta.LeaderUnchanged && r.EligibleLeaderReplicas == nil && r.LastKnownELR == nil &&
		r.Replicas == nil && r.AddingReplicas == nil && r.RemovingReplicas == nil &&
		r.Directories == nil && r.LeaderRecoveryState == meta.RecoveryUnchanged
}

// brokerEvent is what happened to a broker, for the partitions it is a replica of. A field
// that does not apply is -1.
type brokerEvent struct {
	removed int32 // leaves every ISR
	added   int32 // may lead from now on
	unclean int32 // leaves every ISR and ELR
}

// partitionUpdates are the changes that an event brings to the partitions that match.
func (s *State) partitionUpdates(e brokerEvent, match func(*meta.Partition) bool) []meta.Record {
	var out []meta.Record
	for t := range s.image.Topics() {
		for id, p := range t.Partitions {
			if match(p) {
				out = s.appendUpdate(out, t, int32(id), e)
			}
		}
	}
	return out
}

func (s *State) appendUpdate(to []meta.Record, t *meta.Topic, id int32, e brokerEvent) []meta.Record {
	p := t.Partitions[id]
	c := s.begin(t, id)
	c.uncleanlyStopped = e.unclean
	c.isr = without(p.ISR, e.removed, e.unclean)
	c.acceptable = func(b int32) bool {
		return b != e.removed && b != e.unclean && s.dirOnline(p, b) && (b == e.added || s.active(b))
	}
	return s.appendChange(to, c)
}

func (s *State) appendChange(to []meta.Record, c *change) []meta.Record {
	if r := c.record(); r != nil {
		to = append(to, s.partitionRecord(r))
	}
	return to
}

func (s *State) partitionRecord(r *meta.PartitionChangeRecord) meta.Record {
	return meta.Record{Version: meta.PartitionVersion(s.image.MetadataVersion()), Body: r}
}

func (s *State) active(broker int32) bool {
	b := s.image.Broker(broker)
	return b != nil && b.Active()
}

func without(list []int32, brokers ...int32) []int32 {
	out := make([]int32, 0, len(list))
	for _, b := range list {
		if !slices.Contains(brokers, b) {
			out = append(out, b)
		}
	}
	return out
}

// within is those of list that are in set, in the order of list.
func within(list, set []int32) []int32 {
	out := make([]int32, 0, len(list))
	for _, b := range list {
		if slices.Contains(set, b) {
			out = append(out, b)
		}
	}
	return out
}

func containsAll(set, list []int32) bool { return len(within(list, set)) == len(list) }

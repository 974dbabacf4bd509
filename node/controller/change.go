package controller

import (
	"slices"

	"seedlog/node/meta"
)

// Directory ids that name no directory.
var (
	// DirMigrating: from before directories were assigned.
	DirMigrating = meta.UUID{}
	// DirUnassigned: the broker will say which.
	DirUnassigned = meta.UUID{15: 1}
	// DirLost: the broker lost it.
	DirLost = meta.UUID{15: 2}
)

// reservedDir reports whether the id is one of the first hundred, which name no directory.
func reservedDir(id meta.UUID) bool {
	for _, b := range id[:15] {
		if b != 0 {
			return false
		}
	}
	return id[15] < 100
}

// change works out the record that moves a partition to a wanted state: who leads it, who
// is eligible when the ISR gets too small (KIP-966), and what of that is new.
//
//	ISR member leaves, ISR stays ≥ min.insync.replicas    gone
//	ISR member leaves, ISR below it                        joins the ELR
//	stopped uncleanly                                      leaves ISR and ELR
//	ISR and ELR empty                                      the last known leader is remembered,
//	                                                       and elected when it comes back
type change struct {
	partition *meta.Partition
	topic     meta.UUID
	id        int32
	minISR    int
	elr       bool // eligible leader replicas are kept
	unclean   bool // unclean.leader.election.enable
	// acceptable reports whether a broker may lead now.
	acceptable func(broker int32) bool
	// uncleanlyStopped is the broker that lost its tail, or -1.
	uncleanlyStopped int32

	// What is wanted; begin fills in the present state.
	isr, targetELR []int32
	recovery       int8
	directories    []meta.UUID
}

func beginChange(topic meta.UUID, id int32, p *meta.Partition) *change {
	return &change{partition: p, topic: topic, id: id, isr: p.ISR, targetELR: p.ELR, recovery: p.LeaderRecoveryState,
		directories: p.Directories, uncleanlyStopped: -1}
}

// record is the change, or nil if there is none.
func (c *change) record() *meta.PartitionChangeRecord {
	r := meta.NewPartitionChange(c.topic, c.id)
	c.populateELR()
	c.elect(r)
	if r.ISR != nil || !c.elr { // an unclean election, or ELR is off
		c.targetELR = nil
	}
	if !slices.Equal(c.targetELR, c.partition.ELR) {
		r.EligibleLeaderReplicas = orEmpty(c.targetELR)
	}
	// Without ELR the last member stays in the ISR: nobody else would know who it was.
	if r.ISR == nil && (len(c.isr) > 0 || c.elr) && !slices.Equal(c.isr, c.partition.ISR) {
		r.ISR = orEmpty(c.isr)
	}
	c.rememberLeader(r)
	if !slices.Equal(c.directories, c.partition.Directories) {
		r.Directories = c.directories
	}
	if c.recovery != c.partition.LeaderRecoveryState {
		r.LeaderRecoveryState = c.recovery
	}
	if isNoOp(r) {
		return nil
	}
	return r
}

func isNoOp(r *meta.PartitionChangeRecord) bool {
	return r.ISR == nil && r.Leader == meta.LeaderUnchanged && r.EligibleLeaderReplicas == nil && r.LastKnownELR == nil &&
		r.Directories == nil && r.LeaderRecoveryState == meta.RecoveryUnchanged
}

func orEmpty(s []int32) []int32 {
	if s == nil {
		return []int32{}
	}
	return s
}

// populateELR moves those who leave an ISR that is too small into the ELR.
func (c *change) populateELR() {
	if !c.elr {
		return
	}
	if len(c.isr) >= c.minISR {
		c.targetELR = nil
		return
	}
	candidates := slices.Concat(c.partition.ELR, c.partition.ISR)
	slices.Sort(candidates)
	var elr []int32
	for _, b := range slices.Compact(candidates) {
		if !slices.Contains(c.isr, b) && b != c.uncleanlyStopped {
			elr = append(elr, b)
		}
	}
	c.targetELR = elr
}

// elect finds a leader and, where it is another than now, says so in r.
func (c *change) elect(r *meta.PartitionChangeRecord) {
	leader, unclean := c.leader()
	if leader == c.partition.Leader {
		return
	}
	r.Leader = leader
	if at := slices.Index(c.targetELR, leader); at >= 0 {
		c.isr = []int32{leader}
		c.targetELR = slices.Delete(slices.Clone(c.targetELR), at, at+1)
	}
	if !unclean {
		return
	}
	r.ISR = []int32{leader}
	c.recovery = 1
}

// leader is who should lead, or NoLeader, and whether it may have lost records.
func (c *change) leader() (broker int32, unclean bool) {
	if c.valid(c.partition.Leader) {
		return c.partition.Leader, false
	}
	for _, b := range c.partition.Replicas {
		if c.valid(b) {
			return b, false
		}
	}
	if b, ok := c.lastKnownLeader(); ok {
		return b, true
	}
	if c.unclean {
		for _, b := range c.partition.Replicas {
			if c.acceptable(b) {
				return b, true
			}
		}
	}
	return meta.NoLeader, false
}

// valid reports whether the broker may be elected without losing anything.
func (c *change) valid(b int32) bool {
	eligible := slices.Contains(c.isr, b) || len(c.isr) == 0 && slices.Contains(c.targetELR, b)
	return b >= 0 && eligible && c.acceptable(b)
}

// lastKnownLeader is who led last, once nobody is left who surely has everything.
func (c *change) lastKnownLeader() (int32, bool) {
	last := c.partition.LastKnownELR
	if !c.elr || len(c.isr) > 0 || len(c.targetELR) > 0 || len(last) != 1 || !c.acceptable(last[0]) {
		return 0, false
	}
	return last[0], true
}

// rememberLeader keeps who led when the ISR became empty, and forgets it with a new leader.
// Where the ISR had no leader any more, each of its members is as good.
func (c *change) rememberLeader(r *meta.PartitionChangeRecord) {
	if !c.elr {
		return
	}
	p := c.partition
	emptied := r.ISR != nil && len(r.ISR) == 0 && len(p.ISR) > 0
	hasLeader := r.Leader >= 0 || r.Leader == meta.LeaderUnchanged && p.Leader >= 0
	switch {
	case emptied:
		last := p.Leader
		if last < 0 {
			last = p.ISR[0]
		}
		if !slices.Equal(p.LastKnownELR, []int32{last}) {
			r.LastKnownELR = []int32{last}
		}
	case hasLeader && len(p.LastKnownELR) > 0:
		r.LastKnownELR = []int32{}
	}
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
	c := s.begin(s.image, t, id)
	c.uncleanlyStopped = e.unclean
	c.isr = without(p.ISR, e.removed, e.unclean)
	c.acceptable = func(b int32) bool {
		return b != e.removed && b != e.unclean && s.dirOnline(p, b) && (b == e.added || s.active(b))
	}
	return s.appendChange(to, c)
}

// begin is a change of a partition with what the image says about its topic.
func (s *State) begin(img *meta.Image, t *meta.Topic, id int32) *change {
	p := t.Partitions[id]
	c := beginChange(t.ID, id, p)
	c.minISR = s.minISR(img, t.Name, len(p.Replicas))
	c.elr = s.elrEnabled()
	c.unclean = s.uncleanElection(img, t.Name)
	c.acceptable = func(b int32) bool { return s.active(b) && s.dirOnline(p, b) }
	return c
}

func (s *State) appendChange(to []meta.Record, c *change) []meta.Record {
	if r := c.record(); r != nil {
		to = append(to, meta.Record{Version: meta.PartitionVersion(s.image.MetadataVersion()), Body: r})
	}
	return to
}

func (s *State) active(broker int32) bool {
	b := s.image.Broker(broker)
	return b != nil && b.Active()
}

// dirOnline reports whether the directory of the broker's replica is one that it has.
func (s *State) dirOnline(p *meta.Partition, broker int32) bool {
	at := slices.Index(p.Replicas, broker)
	b := s.image.Broker(broker)
	if at < 0 || at >= len(p.Directories) || b == nil {
		return true
	}
	dir := p.Directories[at]
	if reservedDir(dir) {
		return dir != DirLost
	}
	return len(b.LogDirs) == 0 || slices.Contains(b.LogDirs, dir)
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

// Package raft decides what the metadata quorum does: who votes for whom, who leads, what is
// committed (KIP-595, KIP-853). It is a state machine: [Core.Step] takes an event and
// returns [Effects], which the host carries out in their order before the next event.
//
//	            Start                 majority of votes           Failed
//	Unattached -------> Candidate ----------------------> Leader ----------> Resigned
//	                    (epoch + 1, votes for itself, durable first)
//
// A vote is durable before anything is done with it, and a restarted node always begins a new
// epoch: it may have lost what it appended in the old one, and one (epoch, offset) must
// never name two records.
//
// The log below the high watermark is committed: a majority of the voters have synced it,
// and the leader's own epoch has begun below it.
//
// This version serves a quorum of one, on the path that a larger one takes: there is nobody
// to ask for votes or to fetch. [New] refuses other voter sets.
//
// What this package never does: write, send, wait, or read a clock.
package raft

import (
	"errors"
	"fmt"
	"slices"
)

// ErrVoters: the node cannot take part with the voters that its log names.
var ErrVoters = errors.New("voters of the metadata quorum")

// None is no node, as a leader or a vote.
const None = -1

// ReplicaKey names a voter: its node id, and the id of the directory with its log. A node
// that lost its directory is another voter (KIP-853). A zero Directory is unknown, as it is
// with static voters.
type ReplicaKey struct {
	ID        int32
	Directory [16]byte
}

// matches reports whether the voter k is the node o: a static voter is known by its id.
func (k ReplicaKey) matches(o ReplicaKey) bool {
	return k.ID == o.ID && (k.Directory == o.Directory || k.Directory == [16]byte{})
}

// ElectionState is what has to be durable before it is acted on: the file quorum-state.
type ElectionState struct {
	Epoch    int32
	LeaderID int32      // None if unknown
	Voted    ReplicaKey // ID None if there was no vote in this epoch
}

// NoElection is the state of a node that never took part.
func NoElection() ElectionState {
	return ElectionState{LeaderID: None, Voted: ReplicaKey{ID: None}}
}

// Role is what a node is in its epoch.
type Role uint8

// The roles.
const (
	Unattached Role = iota
	Candidate
	Leader
	// Resigned: it led and stopped, or led before the restart, in this epoch.
	Resigned
)

func (r Role) String() string {
	return [...]string{"unattached", "candidate", "leader", "resigned"}[r]
}

// Event is something that happened to the node.
type Event interface{ event() }

// Start: the node's log was read and it may act.
type Start struct{}

// Persisted: the Effects.Persist of the last step is durable.
type Persisted struct{}

// Synced: everything in the node's own log below End is durable.
type Synced struct{ End int64 }

// VotersChanged: the log names other voters from now on, committed or not.
type VotersChanged struct{ Voters []ReplicaKey }

// Failed: the node's log takes no more; it must not lead any longer.
type Failed struct{}

func (Start) event()         {}
func (Persisted) event()     {}
func (Synced) event()        {}
func (VotersChanged) event() {}
func (Failed) event()        {}

// Effects are what the host does after a step, in the order of the fields.
type Effects struct {
	// Persist, if set, is made durable; then the host steps Persisted.
	Persist *ElectionState
	// Begin, if set, says that the node leads: the host appends a LeaderChange record as
	// the first of the epoch.
	Begin *Begin
	// HighWatermark is the new one, if it moved; else -1.
	HighWatermark int64
	// Resigned: the node stopped leading; nothing may be appended in its epoch.
	Resigned bool
}

// Begin is a leadership that begins.
type Begin struct {
	Epoch            int32
	Voters, Granting []ReplicaKey
}

// Core is the state machine of one node.
type Core struct {
	self   ReplicaKey
	voters []ReplicaKey
	role   Role
	state  ElectionState
	// granted are the voters that voted for this candidate.
	granted []ReplicaKey
	// persisting: the state above is not durable yet.
	persisting bool
	// epochStart is the offset of the leader's first record, its LeaderChange.
	epochStart int64
	// ends are the voters' durable log ends, as this leader knows them.
	ends          map[ReplicaKey]int64
	highWatermark int64
}

// New returns the core of a node with the durable state and the voters that its log names.
// logEnd is the end of its log; epoch is the last epoch in it.
func New(self ReplicaKey, state ElectionState, voters []ReplicaKey, logEnd int64, epoch int32) (*Core, error) {
	if err := checkVoters(self, voters); err != nil {
		return nil, err
	}
	// The log may know a later epoch than a quorum-state file that was lost.
	if epoch > state.Epoch {
		state = ElectionState{Epoch: epoch, LeaderID: None, Voted: ReplicaKey{ID: None}}
	}
	c := &Core{self: self, voters: slices.Clone(voters), state: state, epochStart: logEnd, ends: make(map[ReplicaKey]int64)}
	if state.LeaderID == self.ID {
		c.role = Resigned
	}
	return c, nil
}

// checkVoters refuses the voter sets that this version does not serve.
func checkVoters(self ReplicaKey, voters []ReplicaKey) error {
	if !slices.ContainsFunc(voters, func(v ReplicaKey) bool { return v.matches(self) }) {
		return fmt.Errorf("%w: node %d with this metadata directory is not one of them: %v", ErrVoters, self.ID, ids(voters))
	}
	if len(voters) != 1 {
		return fmt.Errorf("%w: nodes %v; this version serves a quorum of one", ErrVoters, ids(voters))
	}
	return nil
}

func ids(voters []ReplicaKey) []int32 {
	var out []int32
	for _, v := range voters {
		out = append(out, v.ID)
	}
	return out
}

// Role is what the node is.
func (c *Core) Role() Role { return c.role }

// Epoch is the present epoch.
func (c *Core) Epoch() int32 { return c.state.Epoch }

// LeaderID is who leads the epoch, or None.
func (c *Core) LeaderID() int32 { return c.state.LeaderID }

// HighWatermark is the end of what is committed; 0 before this node knows any.
func (c *Core) HighWatermark() int64 { return c.highWatermark }

// Step takes an event and returns what to do.
func (c *Core) Step(e Event) Effects {
	out := Effects{HighWatermark: -1}
	switch e := e.(type) {
	case Start:
		c.stand(&out)
	case Persisted:
		c.persisted(&out)
	case Synced:
		c.synced(e.End, &out)
	case VotersChanged:
		c.votersChanged(e.Voters, &out)
	case Failed:
		c.resign(&out)
	}
	return out
}

// stand makes the node a candidate of the next epoch, which votes for itself. Where that
// vote is a majority, vote and leadership are made durable in one.
func (c *Core) stand(out *Effects) {
	c.role = Candidate
	c.granted = []ReplicaKey{c.self}
	if c.majority(len(c.granted)) {
		c.lead(c.state.Epoch+1, out)
		return
	}
	c.persist(ElectionState{Epoch: c.state.Epoch + 1, LeaderID: None, Voted: c.self}, out)
}

// lead is what a majority of votes makes of a candidate, once that is durable. That it
// leads says whom it voted for.
func (c *Core) lead(epoch int32, out *Effects) {
	c.role = Leader
	c.persist(ElectionState{Epoch: epoch, LeaderID: c.self.ID, Voted: ReplicaKey{ID: None}}, out)
}

func (c *Core) persist(s ElectionState, out *Effects) {
	c.state, c.persisting = s, true
	out.Persist = &s
}

// persisted acts on what is durable now.
func (c *Core) persisted(out *Effects) {
	if !c.persisting {
		panic("raft: Persisted without a Persist")
	}
	c.persisting = false
	if c.role == Leader {
		clear(c.ends)
		out.Begin = &Begin{Epoch: c.state.Epoch, Voters: slices.Clone(c.voters), Granting: slices.Clone(c.granted)}
	}
}

func (c *Core) majority(n int) bool { return n > len(c.voters)/2 }

// synced notes the leader's own durable end.
func (c *Core) synced(end int64, out *Effects) {
	if c.role != Leader || c.persisting {
		return
	}
	c.ends[c.self] = max(c.ends[c.self], end)
	c.advance(out)
}

// advance moves the high watermark to what a majority has, once that reaches into the
// leader's own epoch: what former leaders left may only be committed with it.
func (c *Core) advance(out *Effects) {
	ends := make([]int64, 0, len(c.voters))
	for _, v := range c.voters {
		end := c.ends[v]
		if v.matches(c.self) {
			end = c.ends[c.self]
		}
		ends = append(ends, end)
	}
	if hw := majorityEnd(ends); hw > c.epochStart && hw > c.highWatermark {
		c.highWatermark = hw
		out.HighWatermark = hw
	}
}

// majorityEnd is the largest end that a majority of the voters has reached.
func majorityEnd(ends []int64) int64 {
	if len(ends) == 0 {
		return 0
	}
	slices.Sort(ends)
	return ends[(len(ends)-1)/2]
}

func (c *Core) votersChanged(voters []ReplicaKey, out *Effects) {
	c.voters = slices.Clone(voters)
	if checkVoters(c.self, voters) != nil {
		c.resign(out)
	}
}

func (c *Core) resign(out *Effects) {
	if c.role == Leader || c.role == Candidate {
		out.Resigned = c.role == Leader
		c.role = Resigned
	}
}

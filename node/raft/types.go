package raft

import (
	"errors"
	"fmt"
	"slices"
)

// ErrConfig: the node cannot take part with this configuration or these voters.
var ErrConfig = errors.New("metadata quorum")

// None is no node, as a leader or a vote.
const None = -1

// ReplicaKey names a replica of the metadata log: its node id, and the id of the directory with
// its log. A node that lost its directory is another voter (KIP-853). A zero Directory is
// unknown, as it is with static voters.
type ReplicaKey struct {
	ID        int32
	Directory [16]byte
}

// NoReplica is no replica.
func NoReplica() ReplicaKey { return ReplicaKey{ID: None} }

// Matches reports whether the voter k is the replica o: a voter whose directory is not known
// is known by its id.
func (k ReplicaKey) Matches(o ReplicaKey) bool {
	return k.ID == o.ID && (k.Directory == o.Directory || k.Directory == [16]byte{})
}

// Endpoint is where a voter listens; Name is the listener's.
type Endpoint struct {
	Name, Host string
	Port       uint16
}

// Voter is a member of the voter set.
type Voter struct {
	Key       ReplicaKey
	Endpoints []Endpoint
	// The levels of kraft.version that it supports.
	MinKRaftVersion, MaxKRaftVersion int16
}

func (v Voter) equal(o Voter) bool {
	return v.Key == o.Key && slices.Equal(v.Endpoints, o.Endpoints) &&
		v.MinKRaftVersion == o.MinKRaftVersion && v.MaxKRaftVersion == o.MaxKRaftVersion
}

// VoterSet is the voters that the log names from Offset on. Offset is -1 for static voters and
// the snapshot's last offset for those of a snapshot.
type VoterSet struct {
	Offset int64
	Voters []Voter
}

// Level is the level of kraft.version that the log names from Offset on.
type Level struct {
	Offset  int64
	Version int16
}

// SnapshotID names a snapshot: all below EndOffset, in which Epoch is the last.
type SnapshotID struct {
	EndOffset int64
	Epoch     int32
}

// EpochEnd is an epoch and the offset after its last record.
type EpochEnd struct {
	Epoch     int32
	EndOffset int64
}

// ElectionState is what has to be durable before it is acted on: the file quorum-state.
type ElectionState struct {
	Epoch    int32
	LeaderID int32      // None if unknown
	Voted    ReplicaKey // ID None if there was no vote in this epoch
}

// NoElection is the state of a node that never took part.
func NoElection() ElectionState {
	return ElectionState{LeaderID: None, Voted: NoReplica()}
}

// Role is what a node is in its epoch.
type Role uint8

// The roles.
const (
	// Unattached: it does not know who leads, or has voted and waits.
	Unattached Role = iota
	// Follower of a known leader, and a voter.
	Follower
	// Prospective asks whether it would be voted for (KIP-996).
	Prospective
	// Candidate asks for votes.
	Candidate
	Leader
	// Resigned: it led and stopped, or led before the restart, in this epoch.
	Resigned
	// Observer: a follower that is not a voter.
	Observer
)

func (r Role) String() string {
	return [...]string{"unattached", "follower", "prospective", "candidate", "leader", "resigned", "observer"}[r]
}

func (k ReplicaKey) String() string {
	if k.Directory == [16]byte{} {
		return fmt.Sprint(k.ID)
	}
	return fmt.Sprintf("%d/%x", k.ID, k.Directory[:4])
}

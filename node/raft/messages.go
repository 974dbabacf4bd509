package raft

import "time"

// Message is what one node asks of another, or an administrator of the leader. The host
// translates from and to the wire; cluster id, topic and partition are its to check.
type Message interface{ message() }

// Vote (key 52) asks for a vote, or with PreVote whether there would be one.
type Vote struct {
	Epoch     int32 // the candidate's; the present one if PreVote
	Candidate ReplicaKey
	// Voter is whom it is for. ID None if the request, an old version, does not say.
	Voter ReplicaKey
	// The end of the candidate's log and the epoch of its last record.
	EndOffset int64
	LastEpoch int32
	PreVote   bool
}

// BeginQuorumEpoch (key 53) says who leads.
type BeginQuorumEpoch struct {
	Epoch, LeaderID int32
	Voter           ReplicaKey // as in Vote
	Endpoints       []Endpoint // the leader's
}

// EndQuorumEpoch (key 54) says that the leader resigns; Preferred are the voters in the order
// in which they should stand.
type EndQuorumEpoch struct {
	Epoch, LeaderID int32
	Preferred       []ReplicaKey
	Endpoints       []Endpoint
}

// Fetch (key 1) asks for what is after Offset. It says that all below is durable.
type Fetch struct {
	Epoch   int32      // the present one; -1 is not checked
	Replica ReplicaKey // ID None for one that is no replica (a client)
	Offset  int64
	// LastEpoch is that of the last record below Offset.
	LastEpoch int32
	// HighWatermark that the replica knows; -1 if it does not say.
	HighWatermark int64
	// MaxWait is how long the answer may take if there is nothing new.
	MaxWait time.Duration
}

// FetchSnapshot (key 59) asks for a part of a snapshot.
type FetchSnapshot struct {
	Epoch    int32
	Replica  ReplicaKey
	Snapshot SnapshotID
	Position int64
}

// AddVoter (key 80) asks the leader to make Voter one. Its kraft.version range is not known
// yet: the leader asks the node itself.
type AddVoter struct {
	Voter Voter
	// Timeout is how long the requester waits.
	Timeout time.Duration
	// AckWhenAppended: the answer does not wait for the commit (version 1).
	AckWhenAppended bool
}

// RemoveVoter (key 81) asks the leader to make a voter an observer.
type RemoveVoter struct {
	Voter   ReplicaKey
	Timeout time.Duration
}

// UpdateVoter (key 82) tells the leader where a voter is and what it supports.
type UpdateVoter struct {
	Epoch int32
	Voter Voter
}

// RaiseVersion asks the leader of Epoch to finalize a level of kraft.version, not a lower one
// than the present. The answer does not wait for the commit.
type RaiseVersion struct {
	Epoch   int32
	Version int16
	// ValidateOnly: would it? Nothing is written.
	ValidateOnly bool
}

// ApiVersions (key 18) asks a node for its range of kraft.version.
type ApiVersions struct{}

func (Vote) message()             {}
func (BeginQuorumEpoch) message() {}
func (EndQuorumEpoch) message()   {}
func (Fetch) message()            {}
func (FetchSnapshot) message()    {}
func (AddVoter) message()         {}
func (RemoveVoter) message()      {}
func (UpdateVoter) message()      {}
func (RaiseVersion) message()     {}
func (ApiVersions) message()      {}

// Reply is the answer to a Message, in either direction.
type Reply struct {
	Code int16 // a Kafka error code; 0 is none
	Text string
	// Who leads, as the answering node knows it: LeaderID None and no Endpoints if unknown.
	Epoch, LeaderID int32
	Endpoints       []Endpoint
	// Granted: the vote, or the pre-vote.
	Granted bool
	// Fetch: at most one of Diverging and Snapshot; else the records from the fetch offset to
	// the end of the log, as many as fit. HighWatermark is -1 while unknown. It is also the
	// HighWatermark of an Observer's or a client's answer.
	Diverging     *EpochEnd
	Snapshot      *SnapshotID
	HighWatermark int64
	LogStart      int64
	// Records: the response that arrived has any (only read in a Response).
	Records bool
	// ApiVersions: the range of kraft.version.
	MinKRaftVersion, MaxKRaftVersion int16
}

package raft

// Effects are what the host does after a step, in the order of the fields, before the next
// event. Should one fail, nothing below it is done.
type Effects struct {
	// Persist, if set, is made durable before anything below.
	Persist *ElectionState
	// Resigned: the node stopped leading; nothing may be appended in its epoch any more, and
	// what was is synced before the host goes on.
	Resigned bool
	// Truncate, if set: the log is cut at this offset, durably; when these effects are done
	// the host steps Synced. The core has forgotten the voters that were named from there on:
	// Core.Voters are the present ones.
	Truncate *int64
	// Append: the records of the Response of this step are appended and synced: whole batches
	// with right checksums, the first at the end of the log, none of a later epoch than
	// Core.Epoch. Then, when
	// these effects are done, the host steps KRaftVersionChanged and VotersChanged for each
	// that they contain, in order, and Synced (or AppendFailed).
	Append bool
	// Install, if set: a snapshot is fetched from To, installed and made durable while the
	// node goes on; then the host steps SnapshotInstalled, or SnapshotFailed. A second one
	// replaces the first; Cancel ends it.
	Install *Install
	// CancelInstall: the transfer under way is of no use any more.
	CancelInstall bool
	// Follow, if set, is who leads now: shown to others.
	Follow *Follow
	// Begin, if set, says that the node leads: the host appends a LeaderChange record as the
	// first of the epoch, with Begin.Change in the same batch, syncs it, and steps
	// VotersChanged for that, and Synced.
	Begin *Begin
	// Change, if set: the leader's host appends these voters in a control batch of the epoch;
	// then it steps VotersChanged and Synced.
	Change *Change
	// HighWatermark is the new one, if it moved; else -1.
	HighWatermark int64
	// Answers to Requests.
	Answers []Answer
	// Sends are messages to voters and joiners. One at a time is under way to each replica;
	// a newer one replaces those not sent yet.
	Sends []Send
	// Fetch, if set, is the Fetch to send. It replaces one under way, whose answer counts no
	// more.
	Fetch *Send
	// Notes are what happened, to be reported.
	Notes []Note
}

// Follow is who leads: LeaderID None if nobody is known to.
type Follow struct {
	Epoch, LeaderID int32
	Endpoints       []Endpoint
}

// Begin is a leadership that begins. Granting are the voters that voted for it.
type Begin struct {
	Epoch            int32
	Voters, Granting []ReplicaKey
	// Change, if set, are the voters to write behind the LeaderChange: the log has none yet, or
	// has this node with other endpoints.
	Change *Change
}

// Change is a voter set to append. With KRaftVersion ≥ 0 that level is finalized in the same
// batch, before it.
type Change struct {
	Epoch        int32
	Voters       []Voter
	KRaftVersion int16
}

// Answer is the reply to the Request with that ID. For a Fetch without error, divergence and
// snapshot the host adds the records from the request's Offset up to the end of the log.
type Answer struct {
	ID    uint64
	Reply Reply
}

// Send is a message to a node; the host steps Response or NoResponse with its Seq.
type Send struct {
	Seq uint64
	// To is the node; ID None is any of the bootstrap servers or static voters, another one
	// each time.
	To ReplicaKey
	// Endpoints are where it listens, if that is known.
	Endpoints []Endpoint
	Body      Message
}

// Install is a snapshot to fetch and install.
type Install struct {
	To        ReplicaKey // the leader; the Directory may be unknown
	Endpoints []Endpoint
	Epoch     int32 // for FetchSnapshot
	ID        SnapshotID
}

// Note is something worth a log line.
type Note struct {
	Kind NoteKind
	// Replica is whom it is about, Offset where, if that means anything.
	Replica ReplicaKey
	Epoch   int32
	Offset  int64
}

// NoteKind says what happened.
type NoteKind uint8

// What happened.
const (
	// BecameProspective: an election begins; Replica was the leader, if any.
	BecameProspective NoteKind = iota
	// BecameCandidate in Epoch.
	BecameCandidate
	// BecameLeader of Epoch.
	BecameLeader
	// BecameFollower of Replica.
	BecameFollower
	// QuorumLost: the leader resigned, for no majority fetched in time (check-quorum).
	QuorumLost
	// Removed: the leader resigned, for its removal from the voters is committed.
	Removed
	// Diverged: the log is cut at Offset.
	Diverged
	// TruncationRefused: the leader Replica would have committed records below the high
	// watermark replaced, or the log cut where it does not end; nothing was done.
	TruncationRefused
	// VoterAdded, VoterRemoved and VoterUpdated: the change is in the leader's log.
	VoterAdded
	VoterRemoved
	VoterUpdated
	// VersionRaised: a higher level of kraft.version is in the leader's log.
	VersionRaised
	// VoteGranted to Replica in Epoch.
	VoteGranted
)

func (k NoteKind) String() string {
	return [...]string{"prospective", "candidate", "leader", "follower", "quorum-lost", "removed", "diverged", "truncation-refused",
		"voter-added", "voter-removed", "voter-updated", "version-raised", "vote-granted"}[k]
}

// Package quorum hosts this node's part in the metadata quorum: it persists, appends, syncs,
// sends and replays for the core of package raft, and publishes what is committed.
//
//	<log.dir>/meta.properties          whose directory it is; each log.dir has one
//	<log.dir>/bootstrap.checkpoint     the records that a new cluster begins with
//	<metadata.log.dir>/__cluster_metadata-0/
//	    00000000000000000000.log ...               the metadata log, every append synced
//	    quorum-state                               epoch, leader, vote; durable before acted on
//	    00000000000000000000-0000000000.checkpoint the first voters (KIP-853)
//	    <end offset>-<epoch>.checkpoint            a snapshot of all below end offset
//	    <snapshot>.<number>.part                   a leader's snapshot being fetched
//
// A snapshot is a file of record batches: a control batch with the snapshot header, the
// kraft.version and the voters; batches of the records; a control batch with the footer.
//
// One task owns the core, the log and the election state:
//
//	requests of others --> inbox --\                      /--> lines: a task per member that is told something
//	answers of others  --> inbox ---> raft task: step, --+--> fetcher: the log from the leader
//	Append             --> queue --/  carry out in order  +--> installer: the leader's snapshot, in pieces
//	the core's deadline -----------/                      |
//	                                                       \--> replay what is committed, piece by piece
//	                                                              --> Image --> publisher --> listeners
//	                                                              --> snapshotter (on every member)
//
// The effects of a step are carried out before the next: the election state first, then the
// log, then answers and messages. So nothing is said that is not durable, and a follower's
// Fetch acknowledges what is synced. What follows from an effect (the log names other voters,
// it is synced) is stepped before anything else.
//
// A leader's term begins when everything below its epoch's first record is replayed, and
// ends when it resigns: who waits for a commit is told so then. Only the controller appends
// in a term, but for the voters, which the core changes: its next append is ErrMoved then.
//
// A snapshot that a leader sent takes the place of the log, never on a node that leads. The
// listeners get the difference to what they knew.
//
// What this package never does: decide what the records say (package controller does), who
// leads or what is committed (package raft does), or go on after the metadata directory
// failed.
package quorum

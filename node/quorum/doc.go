// Package quorum hosts this node's part in the metadata quorum: it persists, appends, syncs
// and replays for the core of package raft, and publishes what is committed.
//
//	<log.dir>/meta.properties          whose directory it is; each log.dir has one
//	<log.dir>/bootstrap.checkpoint     the records that a new cluster begins with
//	<metadata.log.dir>/__cluster_metadata-0/
//	    00000000000000000000.log ...               the metadata log, every append synced
//	    quorum-state                               epoch, leader, vote; durable before acted on
//	    00000000000000000000-0000000000.checkpoint the first voters (KIP-853)
//	    <end offset>-<epoch>.checkpoint            a snapshot of all below end offset
//
// A snapshot is a file of record batches: a control batch with the snapshot header, the
// kraft.version and the voters; batches of the records; a control batch with the footer.
//
//	Append --> queue --> raft task: append, one sync for all, high watermark
//	                          --> replay what is committed --> Image --> publisher --> listeners
//	                                                             \--> snapshotter
//
// What this package never does: decide what the records say (package controller does), or
// go on after the metadata directory failed.
package quorum

// Package replica hosts the replicas of this broker: it matches the logs that the directories
// have loaded with the metadata, leads and follows partitions as the metadata says, and holds
// the requests that wait for them.
//
//	Manager      directories, partitions by topic id, checkpoints, strays
//	Partition    one log and the leadership that package partition decides about
//	fetcher      copies what one other broker leads; each partition acts on its own answer
//	isrKeeper    asks the controller for the in-sync sets that this broker's leaders want
//	Purgatory    delayed operations: what a partition's change may complete
//
// A partition's role gate orders what a fetcher does to its log with the changes of role, so
// that nothing fetched in one leader epoch lands in another; leaders' appends of an epoch that
// is over are refused by the log (storage.Log.Fence).
//
// Everything is found by topic id, never by name alone: a topic that was deleted and made
// again under its name is another one, and the old one's directory is not its log.
//
// It knows no request and no reply; node/api turns those into calls of this package.
package replica

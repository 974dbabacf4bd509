// Package group is the group coordinator's core: consumer groups of the classic protocol
// (KIP-62, KIP-134, KIP-345, KIP-394, KIP-559, KIP-800, KIP-814) and committed offsets.
//
// It owns one shard, the groups whose id hashes to one partition of __consumer_offsets, and
// decides: it never appends, waits, reads a clock or draws a random number of its own. Its
// host (node/coord) drives it in four beats:
//
//	fx := shard.Handle(command, now)            // decide
//	fx.Records --> append to the partition
//	fx = shard.Appended(base, now)              // or Refused(code, now): replay, continue
//	fx.Replies --> leave when all that was appended so far is committed
//
// Hard state is a function of the last record of each key, and of nothing else: legal
// compaction may drop what it likes, replay ends at the same state, and [Shard.Dump]
// prints it. Live work and recovery share one path, [Shard.Replay]. Soft state (who is
// waiting, who joined but is in no record yet, deadlines) dies with the shard.
//
//	           join                        all joined, or time is up
//	Empty ---------> PreparingRebalance --------------------------> CompletingRebalance
//	  ^                |    ^   ^                                      |            |
//	  | all left       |    |   | member change, sync time-out         | leader     |
//	  +----------------+    |   +--------------------------------------+ syncs      |
//	                        |                                          v            |
//	                        +---------------- member change -------- Stable         |
//
// Two departures from Apache Kafka, both on purpose. A new generation is written when the
// members have joined, before any of them is told its number, and not only when the leader
// has synced: otherwise a coordinator that fails between the two gives the same number to
// another set of members. Such a record carries no state timestamp and no assignment, by
// which replay knows CompletingRebalance. And the offsets of an empty group expire by the
// later of the group's last state change and the offset's own commit.
package group

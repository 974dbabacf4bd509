// Package cluster judges replicated logs while a run goes on, against ghost state that it
// makes itself: from the bytes of the simulated disks, read by the checkers' own reader, and
// from what clients were told.
//
//	metadata logs of all machines --> [Quorum]   one committed log --> [State]
//	partition logs of all machines -> [Replicas] one committed log a partition
//	answers to clients ------------^  (claims: what somebody was told is committed)
//	crashes, elections --------------> which loss is lawful
//
// [Quorum] compares, whenever logs are looked at: a (offset, epoch) names one batch ever on all
// machines (I2), an epoch has one leader (I9) and a voter one vote in it, below the committed end
// all logs are equal (I31), and what a machine had durable there is never truncated (I35). An
// entry is committed once a majority of the voters has it durable in the newest epoch.
//
// [State] replays the committed records and compares, at the end of each batch: I8, I9, I10 and
// I33; and levels: who is registered supports what is finalized, and each record's version is one
// that the finalized metadata.version allows.
//
// [Replicas] compares, whenever logs are looked at: I2; the log of each member of ISR and ELR
// that no power loss has touched reaches the largest high watermark that anybody was told of
// and holds the committed log (I3, I1); a leader that begins below it lost something, which is
// lawful only as [Replicas.Began] says (I4).
//
// When: each look is asked for by the run, on elections, crashes and now and then. What happens
// between two looks and is undone again is not seen. A partition whose metadata has an
// uncommitted change is passed over. It deliberately does not look at high watermarks inside a
// broker, only at those that were told to somebody, and not at compacted logs.
package cluster

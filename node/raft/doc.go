// Package raft decides what the metadata quorum does: who votes for whom, who leads, what is
// committed, who may vote (KIP-595, KIP-630, KIP-853, KIP-996). It is a state machine:
// [Core.Step] takes an [Event] and returns [Effects], which the host carries out in the order
// of their fields before the next event. The host steps [Tick] when [Core.NextDeadline] passes.
//
//	              fetch timeout            majority would vote        majority of votes
//	+-> Follower ---------------> Prospective ----------> Candidate ------------------> Leader
//	|      ^                      | (pre-vote, persists   | (epoch + 1, votes for          |
//	|      | who leads is known   v  nothing)             v  itself, durable first)        | check-quorum,
//	|      +----------------- Unattached <----------------+                               | shutdown, removal
//	|                             ^   a later epoch, from whichever role                  v
//	|                             +---------------------------------------------------- Resigned
//	+--- Observer: a follower that is not in the voter set: it fetches and never votes for itself
//
// A vote, a new epoch and a leader are durable before anything is said about them, for
// [Effects.Persist] is the first of the effects. A restarted leader is Resigned in its epoch: it
// may have lost what it appended, and one (epoch, offset) must never name two records.
//
// Replication is by Fetch: a replica's fetch offset is its durable end. The log below the high
// watermark is committed: a majority of the voters have it, and the leader's own epoch has
// begun below it. Voters count from the moment they are in the log, committed or not, and no
// longer when they are truncated.
//
// What this package never does: write, send, wait, or read a clock.
package raft

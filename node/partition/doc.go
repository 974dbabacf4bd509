// Package partition decides about one partition's replication: who is in sync, how far the
// high watermark may move, and which leadership a request belongs to. It is pure: offsets,
// times and metadata come in, decisions come out; it reads no log and writes none.
//
//	AR (assigned) = ISR (in sync) + OSR
//	maximal ISR   = ISR the controller has written  ∪  ISR that this leader has proposed
//	HW            = the least log end over the maximal ISR and over those who keep up and
//	                may join it, never moving back, and standing still while
//	                |ISR| < min(min.insync.replicas, |AR|)
//
// The two sets differ only while an AlterPartition is on its way: then the answer of the
// controller may turn out either way, and the high watermark counts both.
//
// A follower's answer from its leader becomes one step:
//
//	diverging epoch ---> truncate to where both logs agree, and nothing else of the answer
//	out of range -----> ask where the leader's log starts and ends; begin again, or truncate
//	an error ---------> later, or when the metadata changes
//	otherwise --------> append, HW = min(leader's HW, own end), never back
package partition

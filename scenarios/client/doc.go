// Package client is the Kafka client of simulated workloads. It speaks the wire protocol
// over package net from tasks, so that the same client runs in the simulator and, through
// net/tcp, against a real process.
//
// It is a good client where it matters to the verdict: it never resends a value whose
// outcome it does not know as if it were a new one, it keeps five batches in flight and
// resends them in order, and it writes down every operation with its invocation and return
// (package checker/history). Its versions, codecs, sizes and habits are drawn.
package client

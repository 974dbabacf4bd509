// Package scenarios is the catalogue of runs: a world, a workload, a fault plan and the
// checks, each drawn from the seed. The swarm scenario draws everything; the named ones
// each tell one story of the specification.
//
// A run has three phases. In the safety phase the workload runs under faults. Then the world
// is healed and named conditions must come true by a simulated deadline: what is still
// pending says why, in words. At last the nodes stop cleanly, every log is read back from the
// disk's bytes, unknown outcomes are resolved by it, and the history is judged.
package scenarios

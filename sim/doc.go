// Package sim is the simulated world: machines that outlive their processes, the processes
// that run the real node on them, and the clients around them.
//
//	World ── one scheduler, one network, one trace, one seed
//	  └─ Machine ── a disk and a clock that outlive crashes
//	       └─ incarnation ── a runtime, a mount, an interface, and package node on top:
//	            Boot ──> running ──> Stop (clean) | Kill | PowerLoss | its own end
//
// It decides nothing about what is right: package scenarios draws a world, a workload and a
// fault plan from the seed, and package checker judges. The test of this package is the
// front door:
//
//	go test ./sim -seed=7 -v
//	go test ./sim -seed=7 -scenario=reference-experiment -v
package sim

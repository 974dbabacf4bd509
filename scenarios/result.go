package scenarios

import (
	"fmt"
	"strings"
	"time"

	"seedlog/checker"
	"seedlog/sim/sched"
	"seedlog/sim/trace"
)

// Options says how to run a scenario.
type Options struct {
	Seed uint64
	// Scenario is a name of [All]; empty is the swarm.
	Scenario string
	// Ops is how many client operations the workload aims at; 0 is 500.
	Ops int
	// Log may keep or write the trace's events; nil only hashes.
	Log *trace.Log
}

// FaultCount is how often a fault happened in a run.
type FaultCount struct {
	Name    string
	Enabled bool
	Fired   int64
	// Effective is how often somebody could have noticed.
	Effective int64
}

// Result is what a run shows.
type Result struct {
	Seed     uint64
	Scenario string
	Draw     string // what was drawn, for the head of a report
	Events   uint64
	Sim      time.Duration
	Wall     time.Duration
	Ops      int
	Trace    uint64
	Faults   []FaultCount
	Probes   map[string]int64
	Verdict  checker.Verdict
	Failure  *sched.Failure
	Tail     []trace.Event
}

// OK reports whether nothing was found.
func (r *Result) OK() bool { return r.Failure == nil && r.Verdict.OK() }

// Found is the first thing that was found: the invariant's name, or the kind of failure.
func (r *Result) Found() string {
	switch {
	case r.Failure != nil:
		return r.Failure.Kind
	case !r.Verdict.OK():
		return r.Verdict.Violations[0].Invariant
	}
	return ""
}

// Line is the one line of every run. Everything in it but wall is the seed's.
func (r *Result) Line() string {
	fired := int64(0)
	for _, f := range r.Faults {
		fired += f.Fired
	}
	verdict := "ok"
	if !r.OK() {
		verdict = r.Found()
	}
	return fmt.Sprintf("sim: seed=%d scenario=%s events=%d sim=%.1fs wall=%.2fs faults=%d ops=%d trace=%016x verdict=%s",
		r.Seed, r.Scenario, r.Events, r.Sim.Seconds(), r.Wall.Seconds(), fired, r.Ops, r.Trace, verdict)
}

// Replay is the command that runs it again.
func (r *Result) Replay() string {
	s := fmt.Sprintf("go test ./sim -seed=%d -v", r.Seed)
	if r.Scenario != Swarm {
		s = fmt.Sprintf("go test ./sim -seed=%d -scenario=%s -v", r.Seed, r.Scenario)
	}
	return s
}

// Report is the line and, of a failure, the broken invariants with their numbers, the last
// events, and the command that replays it.
func (r *Result) Report() string {
	var s strings.Builder
	s.WriteString(r.Line())
	if r.OK() {
		return s.String()
	}
	fmt.Fprintf(&s, "\n  drawn: %s", r.Draw)
	if r.Failure != nil {
		fmt.Fprintf(&s, "\n  %v", r.Failure)
	}
	for i, v := range r.Verdict.Violations {
		if i == 10 {
			fmt.Fprintf(&s, "\n  and %d more", len(r.Verdict.Violations)-i)
			break
		}
		fmt.Fprintf(&s, "\n  %v", v)
	}
	if len(r.Tail) > 0 {
		s.WriteString("\n  last events:")
		for _, e := range r.Tail {
			fmt.Fprintf(&s, "\n    %v", e)
		}
	}
	fmt.Fprintf(&s, "\n  replay: %s", r.Replay())
	return s.String()
}

package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"seedlog/scenarios"
)

func runCommand(args []string) error {
	f := flag.NewFlagSet("run", flag.ExitOnError)
	seeds := f.String("seeds", "1-100", "seeds, A-B")
	workers := f.Int("workers", runtime.NumCPU(), "worker processes")
	scenario := f.String("scenario", "", "scenario; the swarm if not given")
	ops := f.Int("ops", 0, "client operations a seed")
	if err := parseFlags(f, args); err != nil {
		return err
	}
	if _, err := scenarios.Find(*scenario); err != nil {
		return err
	}
	lo, hi, err := parseSeeds(*seeds)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	make := func() *worker {
		return &worker{binary: self, args: []string{"-scenario", *scenario, "-ops", strconv.Itoa(*ops)}, env: []string{"GOMAXPROCS=1"}}
	}
	sum := newSummary()
	began := time.Now()
	err = each(*workers, make, count(lo, hi), func(o *outcome) bool {
		sum.add(o)
		if !o.OK {
			fmt.Println(o.Report)
		}
		progress(sum, hi-lo+1, began)
		return true
	})
	if err != nil {
		return err
	}
	sum.print(os.Stdout, time.Since(began), *scenario)
	if len(sum.failures) > 0 {
		return fmt.Errorf("%d of %d seeds found something", len(sum.failures), sum.seeds)
	}
	return nil
}

// progress shows how far a long campaign is, on a terminal only.
func progress(s *summary, total uint64, began time.Time) {
	if info, err := os.Stderr.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return
	}
	fmt.Fprintf(os.Stderr, "\r%d of %d seeds, %d failures, %s ", s.seeds, total, len(s.failures), time.Since(began).Round(time.Second))
}

// summary is what a campaign ends with.
type summary struct {
	seeds    int
	failures []*outcome
	events   uint64
	cpu      time.Duration
	sim      time.Duration
	ops      int
	rolled   int // seeds with three segment rolls
	faults   map[string]*faultSum
	probes   map[string]int64
}

type faultSum struct {
	enabled, effectiveSeeds int
	fired, effective        int64
}

func newSummary() *summary {
	return &summary{faults: map[string]*faultSum{}, probes: map[string]int64{}}
}

func (s *summary) add(o *outcome) {
	s.seeds++
	s.events += o.Events
	s.cpu += o.CPU
	s.sim += o.Sim
	s.ops += o.Ops
	if !o.OK {
		s.failures = append(s.failures, o)
	}
	for _, f := range o.Faults {
		if s.faults[f.Name] == nil {
			s.faults[f.Name] = new(faultSum)
		}
		x := s.faults[f.Name]
		x.fired += f.Fired
		x.effective += f.Effective
		if f.Enabled {
			x.enabled++
			if f.Effective > 0 {
				x.effectiveSeeds++
			}
		}
	}
	for name, n := range o.Probes {
		s.probes[name] += n
	}
	if o.Probes["segment-rolled"] >= 3 {
		s.rolled++
	}
}

func (s *summary) print(out *os.File, wall time.Duration, scenario string) {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "fault\tseeds enabled\teffective in\tfired\teffective\n")
	var names []string
	for n := range s.faults {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		f := s.faults[n]
		fmt.Fprintf(w, "%s\t%d\t%d%%\t%d\t%d\n", n, f.enabled, 100*f.effectiveSeeds/max(1, f.enabled), f.fired, f.effective)
	}
	w.Flush()
	var reached []string
	for n := range s.probes {
		reached = append(reached, fmt.Sprintf("%s %d", n, s.probes[n]))
	}
	slices.Sort(reached)
	fmt.Fprintf(out, "probes: %s\n", strings.Join(reached, ", "))
	if probes := scenarios.ProbesOf(scenario); len(probes) > 0 {
		var never []string
		for _, n := range probes {
			if s.probes[n] == 0 {
				never = append(never, n)
			}
		}
		fmt.Fprintf(out, "probes never reached: %d %s\n", len(never), strings.Join(never, " "))
	}
	fmt.Fprintf(out, "three segment rolls in %d%% of seeds\n", 100*s.rolled/max(1, s.seeds))
	cpu := max(s.cpu.Seconds(), 1e-9)
	fmt.Fprintf(out, "seeds=%d failures=%d events=%d ops=%d sim=%.0fs wall=%.1fs cpu=%.1fs events/s/core=%.0f seeds/core-hour=%.0f ops/seed=%.0f sim/real=%.0f\n",
		s.seeds, len(s.failures), s.events, s.ops, s.sim.Seconds(), wall.Seconds(), s.cpu.Seconds(), float64(s.events)/cpu,
		float64(s.seeds)/cpu*3600, float64(s.ops)/float64(max(1, s.seeds)), s.sim.Seconds()/cpu)
	for _, o := range s.failures {
		name := scenario
		if name == "" {
			name = scenarios.Swarm
		}
		fmt.Fprintf(out, "FAIL %s: %s\n  replay: %s\n", o.Found, o.Line, (&scenarios.Result{Seed: o.Seed, Scenario: name}).Replay())
	}
}

var errMismatch = errors.New("hashes differ")

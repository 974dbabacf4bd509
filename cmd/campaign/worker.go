package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"seedlog/scenarios"
	"seedlog/sim/trace"
)

// outcome is what a worker says of one seed, as a line of JSON.
type outcome struct {
	Seed   uint64
	OK     bool
	Found  string
	All    []string // every invariant that was broken
	Kind   string   // of a failure from inside; a crash of the code under test is one
	Line   string
	Report string
	Events uint64
	Sim    time.Duration
	CPU    time.Duration
	Ops    int
	Trace  uint64
	Faults []scenarios.FaultCount
	Probes map[string]int64
}

// workerCommand runs the seeds that it reads from standard input, a line each:
//
//	SEED [TRACEFILE]
func workerCommand(args []string) error {
	f := flag.NewFlagSet("worker", flag.ExitOnError)
	scenario := f.String("scenario", "", "scenario")
	ops := f.Int("ops", 0, "client operations")
	_ = f.Parse(args)
	// An interrupted campaign lets its workers finish their seeds.
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	in := bufio.NewScanner(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	for in.Scan() {
		words := strings.Fields(in.Text())
		if len(words) == 0 {
			continue
		}
		seed, err := strconv.ParseUint(words[0], 10, 64)
		if err != nil {
			return err
		}
		// The seed is written down before it runs, so that a process that dies names it.
		fmt.Fprintf(os.Stderr, "seed %d\n", seed)
		o := scenarios.Options{Seed: seed, Scenario: *scenario, Ops: *ops}
		var file *os.File
		if len(words) == 2 {
			if file, err = os.Create(words[1]); err != nil {
				return err
			}
			o.Log = new(trace.Log)
			o.Log.Write(file)
		}
		r, err := one(o)
		if err != nil {
			return err
		}
		if file != nil {
			if err := o.Log.Flush(); err != nil {
				return err
			}
			file.Close()
		}
		if err := out.Encode(r); err != nil {
			return err
		}
	}
	return in.Err()
}

func one(o scenarios.Options) (*outcome, error) {
	cpu := cpuTime()
	r, err := scenarios.Execute(o)
	if err != nil {
		return nil, err
	}
	w := &outcome{
		Seed: r.Seed, OK: r.OK(), Found: r.Found(), Line: r.Line(), Events: r.Events, Sim: r.Sim, CPU: cpuTime() - cpu,
		Ops: r.Ops, Trace: r.Trace, Faults: r.Faults, Probes: r.Probes,
	}
	if r.Failure != nil {
		w.Kind = r.Failure.Kind
	}
	for _, v := range r.Verdict.Violations {
		w.All = append(w.All, v.Invariant)
	}
	if !w.OK {
		w.Report = r.Report()
	}
	return w, nil
}

// cpuTime is the processor time of this process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

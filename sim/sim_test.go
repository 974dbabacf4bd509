package sim_test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"

	"seedlog/scenarios"
	"seedlog/sim/trace"
)

var (
	seed     = flag.Uint64("seed", 0, "run this seed only")
	scenario = flag.String("scenario", "", "scenario to run; the swarm, or with no seed all")
	events   = flag.String("events", "", "file to write every event of the run to")
	seeds    = flag.Int("seeds", 300, "how many swarm seeds to run if no seed is given")
	clusters = flag.Int("clusters", 300, "how many cluster seeds to run if no seed is given")
)

// TestSim is the front door: with -seed it replays one run, else it runs a block of swarm
// seeds and every named scenario.
func TestSim(t *testing.T) {
	if *seed != 0 {
		r := replay(t)
		fmt.Println(r.Report())
		if !r.OK() {
			t.Fail()
		}
		return
	}
	var todo []scenarios.Options
	for _, s := range scenarios.All() {
		n := 3
		switch s.Name {
		case scenarios.Swarm:
			n = *seeds
		case scenarios.Cluster:
			n = *clusters
		case scenarios.ClusterOfThree, scenarios.ClusterOfOne:
			n = *clusters / 10
		}
		for i := 1; i <= n && (*scenario == "" || *scenario == s.Name); i++ {
			todo = append(todo, scenarios.Options{Seed: uint64(i), Scenario: s.Name})
		}
	}
	parallel(todo, func(o scenarios.Options) {
		r, err := scenarios.Execute(o)
		if err != nil {
			t.Error(err)
		} else if !r.OK() {
			t.Error(r.Report())
		}
	})
}

// replay runs the one seed, and writes its trace if asked to.
func replay(t *testing.T) *scenarios.Result {
	o := scenarios.Options{Seed: *seed, Scenario: *scenario}
	if *events != "" {
		f, err := os.Create(*events)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		o.Log = new(trace.Log)
		o.Log.Keep(40)
		o.Log.Write(f)
		defer o.Log.Flush()
	}
	r, err := scenarios.Execute(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// parallel runs fn for every run, one on each processor.
func parallel(todo []scenarios.Options, fn func(scenarios.Options)) {
	next := make(chan scenarios.Options)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for o := range next {
				fn(o)
			}
		}()
	}
	for _, o := range todo {
		next <- o
	}
	close(next)
	wg.Wait()
}

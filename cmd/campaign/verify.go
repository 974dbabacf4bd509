package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"seedlog/sim/trace"
)

// verifyCommand runs a block of seeds ascending in one process and shuffled in another, with
// different GOMAXPROCS and GOGC, and compares the trace hashes. A mismatch names the first
// event that differs.
func verifyCommand(args []string) error {
	f := flag.NewFlagSet("verify", flag.ExitOnError)
	seeds := f.String("seeds", "1-100", "seeds, A-B")
	scenario := f.String("scenario", "", "scenario; the swarm if not given")
	ops := f.Int("ops", 0, "client operations a seed")
	_ = f.Parse(args)
	lo, hi, err := parseSeeds(*seeds)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	common := []string{"-scenario", *scenario, "-ops", strconv.Itoa(*ops)}
	sides := [2]side{
		{worker: worker{binary: self, args: common, env: []string{"GOMAXPROCS=1", "GOGC=50"}}, order: ascending(lo, hi)},
		{worker: worker{binary: self, args: common, env: []string{"GOMAXPROCS=2", "GOGC=400"}}, order: shuffled(lo, hi)},
	}
	var wg sync.WaitGroup
	for i := range sides {
		wg.Add(1)
		go func() {
			defer wg.Done()
			sides[i].run()
		}()
	}
	wg.Wait()
	bad := 0
	for i := range sides {
		if sides[i].err != nil {
			return sides[i].err
		}
	}
	for _, s := range sides[0].order {
		if a, b := sides[0].hash[s], sides[1].hash[s]; a != b {
			bad++
			if err := explain(self, common, &sides, s); err != nil {
				return err
			}
		}
	}
	for _, o := range sides[0].found {
		fmt.Println(o.Report)
	}
	fmt.Printf("verify: seeds=%d mismatches=%d failures=%d\n", len(sides[0].order), bad, len(sides[0].found))
	if bad > 0 {
		return errMismatch
	}
	if n := len(sides[0].found); n > 0 {
		return fmt.Errorf("%d seeds found something", n)
	}
	return nil
}

// side is one of the two processes.
type side struct {
	worker worker
	order  []uint64
	hash   map[uint64]uint64
	found  []*outcome
	err    error
}

func (s *side) run() {
	s.hash = make(map[uint64]uint64, len(s.order))
	defer s.worker.close()
	for _, seed := range s.order {
		o, err := s.worker.run(seed, "")
		if err != nil {
			s.err = err
			return
		}
		s.hash[seed] = o.Trace
		if !o.OK {
			s.found = append(s.found, o)
		}
	}
}

func ascending(lo, hi uint64) []uint64 {
	out := make([]uint64, 0, hi-lo+1)
	for s := lo; s <= hi; s++ {
		out = append(out, s)
	}
	return out
}

func shuffled(lo, hi uint64) []uint64 {
	out := ascending(lo, hi)
	rng := rand.New(rand.NewPCG(lo, hi))
	rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// explain runs a seed again on both sides with its trace written, each side after the seeds
// that it ran before, and prints the first event that differs.
func explain(self string, common []string, sides *[2]side, seed uint64) error {
	dir, err := os.MkdirTemp("", "seedlog-verify")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var files [2]string
	for i := range sides {
		files[i] = filepath.Join(dir, strconv.Itoa(i))
		w := worker{binary: self, args: common, env: sides[i].worker.env}
		for _, s := range sides[i].order {
			file := ""
			if s == seed {
				file = files[i]
			}
			if _, err := w.run(s, file); err != nil {
				return err
			}
			if s == seed {
				break
			}
		}
		w.close()
	}
	a, err := os.Open(files[0])
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := os.Open(files[1])
	if err != nil {
		return err
	}
	defer b.Close()
	d, err := trace.Diff(a, b)
	if err != nil {
		return err
	}
	if d == nil {
		fmt.Printf("verify: seed=%d differed once and not again when it was traced\n", seed)
		return nil
	}
	fmt.Printf("verify: seed=%d differs first at %v\n", seed, d)
	return nil
}

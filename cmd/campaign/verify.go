package main

import (
	"errors"
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"seedlog/scenarios"
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
	common := []string{"-scenario", *scenario, "-ops", strconv.Itoa(*ops)}
	sides := [2]side{
		{worker: worker{binary: self, args: common, env: []string{"GOMAXPROCS=1", "GOGC=50"}}, hash: map[uint64]uint64{}},
		{worker: worker{binary: self, args: common, env: []string{"GOMAXPROCS=2", "GOGC=400"}}, hash: map[uint64]uint64{}},
	}
	defer sides[0].worker.close()
	defer sides[1].worker.close()
	bad, done := 0, 0
	for block := range blocks(count(lo, hi)) {
		if err := compare(&sides, block); err != nil {
			return err
		}
		done += len(block)
		for _, s := range block {
			if sides[0].hash[s] == sides[1].hash[s] {
				continue
			}
			bad++
			if err := explain(self, common, &sides, s); err != nil {
				return err
			}
		}
	}
	for _, o := range sides[0].found {
		fmt.Println(o.Report)
	}
	fmt.Printf("verify: seeds=%d mismatches=%d failures=%d\n", done, bad, len(sides[0].found))
	if bad > 0 {
		return errMismatch
	}
	if n := len(sides[0].found); n > 0 {
		return fmt.Errorf("%d seeds found something", n)
	}
	return nil
}

// blockSeeds is how many seeds the two processes run, each in its own order, before they are
// compared: a campaign that is interrupted has compared whole blocks.
const blockSeeds = 500

// blocks gathers seeds. An interrupted campaign's last block is shorter.
func blocks(seeds <-chan uint64) iter.Seq[[]uint64] {
	return func(yield func([]uint64) bool) {
		var block []uint64
		for s := range seeds {
			if block = append(block, s); len(block) == blockSeeds {
				if !yield(block) {
					return
				}
				block = nil
			}
		}
		if len(block) > 0 {
			yield(block)
		}
	}
}

// compare runs a block ascending in one process and shuffled in the other.
func compare(sides *[2]side, block []uint64) error {
	orders := [2][]uint64{block, slices.Clone(block)}
	rng := rand.New(rand.NewPCG(block[0], uint64(len(block))))
	rng.Shuffle(len(block), func(i, j int) { orders[1][i], orders[1][j] = orders[1][j], orders[1][i] })
	var wg sync.WaitGroup
	for i := range sides {
		sides[i].order = append(sides[i].order, orders[i]...)
		wg.Add(1)
		go func() {
			defer wg.Done()
			sides[i].run(orders[i])
		}()
	}
	wg.Wait()
	return errors.Join(sides[0].err, sides[1].err)
}

// side is one of the two processes.
type side struct {
	worker worker
	order  []uint64 // of all that ran
	hash   map[uint64]uint64
	found  []*outcome
	err    error
}

func (s *side) run(order []uint64) {
	for _, seed := range order {
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

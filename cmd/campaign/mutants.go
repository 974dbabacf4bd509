package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// mutantsCommand puts each bug of testdata/mutants back by overlay, and runs seeds until an
// invariant that is named for it reports it. A crash of the mutant itself does not count.
func mutantsCommand(args []string) error {
	f := flag.NewFlagSet("mutants", flag.ExitOnError)
	dir := f.String("dir", "testdata/mutants", "directory of the patches")
	only := f.String("only", "", "names, separated by commas")
	pick := f.Int("pick", 0, "run only this many, chosen by -salt; all are still compiled")
	salt := f.String("salt", "", "what chooses the picked ones")
	budget := f.Float64("budget", 60, "core-seconds a mutant")
	compileOnly := f.Bool("compile", false, "only apply and compile")
	_ = f.Parse(args)
	paths, err := filepath.Glob(filepath.Join(*dir, "*.patch"))
	if err != nil || len(paths) == 0 {
		return fmt.Errorf("no patches in %s: %v", *dir, err)
	}
	var list []*mutant
	for _, p := range paths {
		m, err := readMutant(p)
		if err != nil {
			return err
		}
		if *only == "" || slices.Contains(strings.Split(*only, ","), m.Name) {
			list = append(list, m)
		}
	}
	chosen := choose(list, *pick, *salt)
	tmp, err := os.MkdirTemp("", "seedlog-mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	survived := 0
	for _, m := range list {
		binary, err := m.build(tmp)
		if err != nil {
			return err
		}
		if *compileOnly || !slices.Contains(chosen, m) {
			fmt.Printf("%-36s applies and compiles\n", m.Name)
		} else if !m.hunt(binary, time.Duration(*budget*float64(time.Second))) {
			survived++
		}
		os.Remove(binary)
	}
	if survived > 0 {
		return fmt.Errorf("%d of %d mutants survived", survived, len(chosen))
	}
	return nil
}

// choose picks n mutants by a hash of their name and the salt; all of them for n = 0.
func choose(list []*mutant, n int, salt string) []*mutant {
	if n == 0 || n >= len(list) {
		return list
	}
	rank := func(m *mutant) uint64 {
		h := fnv.New64a()
		h.Write([]byte(salt + "/" + m.Name))
		return h.Sum64()
	}
	out := slices.Clone(list)
	slices.SortFunc(out, func(a, b *mutant) int {
		if rank(a) < rank(b) {
			return -1
		}
		return 1
	})
	return out[:n]
}

// build compiles this command with the mutant in place.
func (m *mutant) build(tmp string) (string, error) {
	root, err := os.Getwd()
	if err != nil {
		return "", err
	}
	files, err := m.apply(root)
	if err != nil {
		return "", err
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for path, b := range files {
		copy := filepath.Join(tmp, m.Name+"-"+strings.ReplaceAll(path, "/", "-"))
		if err := os.WriteFile(copy, b, 0o644); err != nil {
			return "", err
		}
		overlay.Replace[filepath.Join(root, path)] = copy
	}
	b, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	file := filepath.Join(tmp, m.Name+".json")
	if err := os.WriteFile(file, b, 0o644); err != nil {
		return "", err
	}
	binary := filepath.Join(tmp, m.Name)
	out, err := exec.Command("go", "build", "-overlay", file, "-o", binary, "./cmd/campaign").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s does not compile: %s", m.Name, out)
	}
	return binary, nil
}

// hunt runs seeds until the mutant is caught or the budget is spent, and prints which.
func (m *mutant) hunt(binary string, budget time.Duration) bool {
	names := append(slices.Clone(m.Scenarios), "")
	var spent time.Duration
	other := make(map[string]int)
	var caught *outcome
	seeds := 0
	for round := uint64(1); caught == nil && spent < budget; round++ {
		// Named scenarios have little to draw: a few seeds of each, then the swarm.
		if round == 2 {
			names = []string{""}
		}
		for _, scenario := range names {
			n := uint64(4)
			if scenario == "" {
				n = 40
			}
			make := func() *worker {
				return &worker{binary: binary, args: []string{"-scenario", scenario}, env: []string{"GOMAXPROCS=1"}}
			}
			err := each(runtime.NumCPU(), make, count((round-1)*n+1, round*n), func(o *outcome) bool {
				seeds++
				spent += o.CPU
				switch {
				case o.OK:
				case m.named(o):
					caught = o
				default:
					other[o.Found]++
				}
				return caught == nil && spent < budget
			})
			if err != nil {
				fmt.Printf("%-36s ERROR %v\n", m.Name, err)
				return false
			}
			if caught != nil || spent >= budget {
				break
			}
		}
	}
	if caught != nil {
		caught.Found = m.name(caught)
		fmt.Printf("%-36s caught by %-10s after %4d seeds, %5.1f core-seconds: %s\n", m.Name, caught.Found, seeds, spent.Seconds(), caught.Line)
		return true
	}
	fmt.Printf("%-36s SURVIVED %d seeds, %.1f core-seconds (expected %v; other findings %v)\n", m.Name, seeds, spent.Seconds(), m.Expect, other)
	return false
}

// named reports whether an invariant that was expected caught it.
func (m *mutant) named(o *outcome) bool { return m.name(o) != "" }

func (m *mutant) name(o *outcome) string {
	for _, v := range o.All {
		if slices.Contains(m.Expect, v) {
			return v
		}
	}
	return ""
}

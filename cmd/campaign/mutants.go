package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
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
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "seedlog-mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	began := time.Now()
	if err := compileAll(root, tmp, list); err != nil {
		return err
	}
	fmt.Printf("%d mutants apply and compile (%.0f s)\n", len(list), time.Since(began).Seconds())
	if *compileOnly {
		return nil
	}
	chosen := choose(list, *pick, *salt)
	var hunts []*hunt
	for _, m := range chosen {
		h, err := m.hunt(root, tmp, time.Duration(*budget*float64(time.Second)))
		if err != nil {
			return err
		}
		fmt.Println(h.line())
		hunts = append(hunts, h)
	}
	return printHunts(os.Stdout, hunts)
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

// compileAll applies every mutant and compiles the packages it touches. Mutants of different
// files share one go build; where that fails, each is tried by itself, to name it.
func compileAll(root, tmp string, list []*mutant) error {
	var batches [][]*mutant
	for _, m := range list {
		if _, err := m.apply(root); err != nil {
			return err
		}
		i := slices.IndexFunc(batches, func(b []*mutant) bool { return !slices.ContainsFunc(b, m.overlaps) })
		if i < 0 {
			i = len(batches)
			batches = append(batches, nil)
		}
		batches[i] = append(batches[i], m)
	}
	var failures []error
	for i, b := range batches {
		out, err := compile(root, tmp, fmt.Sprintf("batch%d", i), b, packages(b)...)
		if err == nil {
			continue
		}
		for _, m := range b {
			if len(b) > 1 {
				out, err = compile(root, tmp, m.Name, []*mutant{m}, packages([]*mutant{m})...)
			}
			if err != nil {
				failures = append(failures, fmt.Errorf("%s does not compile: %s", m.Name, out))
			}
		}
	}
	return errors.Join(failures...)
}

// overlaps reports whether two mutants change the same file.
func (m *mutant) overlaps(o *mutant) bool {
	return slices.ContainsFunc(m.files, func(f filePatch) bool {
		return slices.ContainsFunc(o.files, func(g filePatch) bool { return f.path == g.path })
	})
}

// packages are the directories that the mutants change, as the go command names them.
func packages(list []*mutant) (dirs []string) {
	for _, m := range list {
		for _, f := range m.files {
			if dir := "./" + filepath.Dir(f.path); !slices.Contains(dirs, dir) {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}

// compile runs go build with the mutants in place.
func compile(root, tmp, name string, list []*mutant, args ...string) (output []byte, err error) {
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for _, m := range list {
		files, err := m.apply(root)
		if err != nil {
			return nil, err
		}
		for path, b := range files {
			patched := filepath.Join(tmp, name+"-"+strings.ReplaceAll(path, "/", "-"))
			if err := os.WriteFile(patched, b, 0o644); err != nil {
				return nil, err
			}
			overlay.Replace[filepath.Join(root, path)] = patched
		}
	}
	b, err := json.Marshal(overlay)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(tmp, name+".json")
	if err := os.WriteFile(file, b, 0o644); err != nil {
		return nil, err
	}
	cmd := exec.Command("go", append([]string{"build", "-overlay", file}, args...)...)
	cmd.Dir = root
	return cmd.CombinedOutput()
}

// hunt is what came of one mutant.
type hunt struct {
	m      *mutant
	caught *outcome
	by     string
	seeds  int
	spent  time.Duration
	other  map[string]int // what else was found, with how many seeds
}

// hunt builds this command with the mutant in place and runs seeds until it is caught or the
// budget is spent.
func (m *mutant) hunt(root, tmp string, budget time.Duration) (*hunt, error) {
	binary := filepath.Join(tmp, m.Name)
	if out, err := compile(root, tmp, m.Name, []*mutant{m}, "-o", binary, "./cmd/campaign"); err != nil {
		return nil, fmt.Errorf("%s does not compile: %s", m.Name, out)
	}
	defer os.Remove(binary)
	h := &hunt{m: m, other: make(map[string]int)}
	// Named scenarios have little to draw: a dozen seeds of each, then the swarm.
	for _, scenario := range m.Scenarios {
		if err := h.seedsOf(binary, scenario, 1, 12, budget); err != nil {
			return nil, err
		}
	}
	for lo := uint64(1); h.caught == nil && h.spent < budget; lo += 50 {
		if err := h.seedsOf(binary, "", lo, lo+49, budget); err != nil {
			return nil, err
		}
	}
	return h, nil
}

func (h *hunt) seedsOf(binary, scenario string, lo, hi uint64, budget time.Duration) error {
	if h.caught != nil || h.spent >= budget {
		return nil
	}
	make := func() *worker {
		return &worker{binary: binary, args: []string{"-scenario", scenario}, env: []string{"GOMAXPROCS=1"}}
	}
	return each(runtime.NumCPU(), make, count(lo, hi), func(o *outcome) bool {
		h.seeds++
		h.spent += o.CPU
		if by := h.m.name(o); by != "" {
			h.caught, h.by = o, by
		} else if !o.OK {
			h.other[o.Found]++
		}
		return h.caught == nil && h.spent < budget
	})
}

func (h *hunt) line() string {
	if h.caught != nil {
		return fmt.Sprintf("%s: caught by %s after %d seeds, %.1f core-seconds: %s", h.m.Name, h.by, h.seeds, h.spent.Seconds(), h.caught.Line)
	}
	return fmt.Sprintf("%s: SURVIVED %d seeds, %.1f core-seconds, expected %v, other findings %v", h.m.Name, h.seeds, h.spent.Seconds(), h.m.Expect, h.other)
}

// printHunts ends a campaign of mutants with a table.
func printHunts(out *os.File, hunts []*hunt) error {
	survived := 0
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "mutant\tcaught by\tscenario\tseed\tseeds run\tcore-seconds\n")
	for _, h := range hunts {
		if h.caught == nil {
			survived++
			fmt.Fprintf(w, "%s\tSURVIVED\t\t\t%d\t%.1f\n", h.m.Name, h.seeds, h.spent.Seconds())
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%.1f\n", h.m.Name, h.by, h.caught.scenario(), h.caught.Seed, h.seeds, h.spent.Seconds())
	}
	w.Flush()
	if survived > 0 {
		return fmt.Errorf("%d of %d mutants survived", survived, len(hunts))
	}
	return nil
}

// scenario is the name in the outcome's line.
func (o *outcome) scenario() string {
	_, after, _ := strings.Cut(o.Line, "scenario=")
	name, _, _ := strings.Cut(after, " ")
	return name
}

// name is the expected invariant that the outcome reports, or "". What a run says that ended
// by a panic or a deadlock does not count.
func (m *mutant) name(o *outcome) string {
	if o.Kind != "" {
		return ""
	}
	for _, v := range o.All {
		if slices.Contains(m.Expect, v) {
			return v
		}
	}
	return ""
}

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
	workers := f.Int("workers", runtime.NumCPU(), "worker processes")
	compileOnly := f.Bool("compile", false, "only apply and compile")
	if err := parseFlags(f, args); err != nil {
		return err
	}
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
	if want := strings.Split(*only, ","); *only != "" && len(list) < len(want) {
		return fmt.Errorf("-only %s: there are %d of these %d in %s", *only, len(list), len(want), *dir)
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
	self, err := os.Executable()
	if err != nil {
		return err
	}
	g := &ground{root: root, tmp: tmp, sound: self, workers: *workers, budget: time.Duration(*budget * float64(time.Second))}
	chosen := choose(list, *pick, *salt)
	var hunts []*hunt
	for _, m := range chosen {
		h, err := g.hunt(m)
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

// ground is where mutants are hunted.
type ground struct {
	root, tmp string
	// sound is the worker without a mutant.
	sound   string
	workers int
	budget  time.Duration // of processor time, for each
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
func (g *ground) hunt(m *mutant) (*hunt, error) {
	binary := filepath.Join(g.tmp, m.Name)
	if out, err := compile(g.root, g.tmp, m.Name, []*mutant{m}, "-o", binary, "./cmd/campaign"); err != nil {
		return nil, fmt.Errorf("%s does not compile: %s", m.Name, out)
	}
	defer os.Remove(binary)
	h := &hunt{m: m, other: make(map[string]int)}
	// Named scenarios have little to draw: a dozen seeds of each, then the swarm.
	for _, scenario := range m.Scenarios {
		if err := g.seedsOf(h, binary, scenario, 1, 12); err != nil {
			return nil, err
		}
	}
	for lo := uint64(1); !g.over(h); lo += 50 {
		if err := g.seedsOf(h, binary, m.Swarm, lo, lo+49); err != nil {
			return nil, err
		}
	}
	return h, nil
}

func (g *ground) over(h *hunt) bool { return h.caught != nil || h.spent >= g.budget }

func (g *ground) seedsOf(h *hunt, binary, scenario string, lo, hi uint64) error {
	for next := lo; next <= hi && !g.over(h); {
		var suspect *outcome
		first := next
		err := each(g.workers, func() *worker { return workerOf(binary, scenario) }, count(first, hi), func(o *outcome) bool {
			h.seeds++
			h.spent += o.CPU
			next = max(next, o.Seed+1)
			if h.m.name(o) != "" {
				suspect = o
			} else if !o.OK {
				h.other[o.Found]++
			}
			return suspect == nil && h.spent < g.budget
		})
		if err != nil || suspect == nil {
			return err
		}
		if err := g.confirm(h, scenario, suspect); err != nil {
			return err
		}
	}
	return nil
}

// confirm runs the seed that caught a mutant without it: what is found there as well, the
// mutant did not do.
func (g *ground) confirm(h *hunt, scenario string, o *outcome) error {
	w := workerOf(g.sound, scenario)
	defer w.close()
	sound, err := w.run(o.Seed, "")
	if err != nil {
		return err
	}
	if h.m.name(sound) != "" {
		h.other[o.Found+" without the mutant as well"]++
		return nil
	}
	h.caught, h.by = o, h.m.name(o)
	return nil
}

func workerOf(binary, scenario string) *worker {
	return &worker{binary: binary, args: []string{"-scenario", scenario}, env: []string{"GOMAXPROCS=1"}}
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

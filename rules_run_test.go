package seedlog_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// load type-checks packages from source; what they import comes from the build cache.
func load(t *testing.T, patterns ...string) []*packages.Package {
	t.Helper()
	pkgs, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedSyntax |
			packages.NeedTypes | packages.NeedTypesInfo | packages.NeedExportFile,
	}, patterns...)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pkgs {
		for _, e := range p.Errors {
			if e.Pos == "-" && len(p.Errors) > 1 {
				continue // the compiler's summary of the others
			}
			t.Errorf("%s does not compile, so its rules are not checked: %v", p.PkgPath, e)
		}
	}
	return pkgs
}

// show reports problems by place, with paths from the module's root.
func show(t *testing.T, problems []problem) {
	t.Helper()
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	lines := make([]string, 0, len(problems))
	for _, p := range problems {
		if rel, err := filepath.Rel(root, p.pos.Filename); err == nil {
			p.pos.Filename = rel
		}
		lines = append(lines, p.String())
	}
	slices.Sort(lines)
	for _, line := range slices.Compact(lines) {
		t.Error(line)
	}
}

func TestEveryPackageKeepsTheRules(t *testing.T) {
	var problems []problem
	seen := map[string]bool{}
	for _, pkg := range load(t, "./...") {
		path, ok := strings.CutPrefix(pkg.PkgPath, "seedlog/")
		if !ok {
			continue
		}
		seen[path] = true
		problems = append(problems, imports(pkg, path)...)
		if c := class(path); (c == "P" || c == "T") && len(pkg.Errors) == 0 && !pkg.IllTyped {
			problems = append(problems, walk(pkg, path)...)
		}
		problems = append(problems, lengths(t, pkg, path)...)
	}
	show(t, problems)
	for _, path := range slices.Concat(pure, waiting, contracts, adapters) {
		if !strings.HasSuffix(path, "/...") && !seen[path] {
			t.Logf("%s is in the tables and not in the tree", path)
		}
	}
}

// lengths reports functions and files that have grown beyond what one reads at once.
func lengths(t *testing.T, pkg *packages.Package, path string) (out []problem) {
	for i, f := range pkg.Syntax {
		pos := pkg.Fset.Position(f.FileStart)
		if pos.Filename == "" || i >= len(pkg.GoFiles) {
			continue
		}
		text, err := os.ReadFile(pos.Filename)
		if err != nil {
			t.Fatal(err)
		}
		name := path + "/" + filepath.Base(pos.Filename)
		if n := bytes.Count(text, []byte("\n")); n > maxFileLines && lengthExceptions[name] == "" {
			pos.Line = n
			out = append(out, problem{pos, fmt.Sprintf("a file of %d lines, more than %d; instead: a file for each owner", n, maxFileLines)})
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			n := pkg.Fset.Position(fn.End()).Line - pkg.Fset.Position(fn.Pos()).Line + 1
			if n > maxFuncLines && lengthExceptions[path+"."+fn.Name.Name] == "" {
				out = append(out, problem{pkg.Fset.Position(fn.Pos()), fmt.Sprintf("%s has %d lines, more than %d; instead: a function for each step", fn.Name.Name, n, maxFuncLines)})
			}
		}
	}
	return out
}

// want is how the bad snippets say what is to be reported on their line.
var want = regexp.MustCompile("// want `([^`]*)`")

func TestEveryBanFires(t *testing.T) {
	dirs, err := filepath.Glob("testdata/rules/*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no snippets: %v", err)
	}
	for i := range dirs {
		dirs[i] = "./" + dirs[i]
	}
	for _, pkg := range load(t, dirs...) {
		path := "storage" // stands in for any package of tasks
		if strings.HasSuffix(pkg.PkgPath, "/pure") {
			path = "storage/index"
		}
		found := slices.Concat(imports(pkg, path), walk(pkg, path))
		for _, file := range pkg.GoFiles {
			compareWithWants(t, file, found)
		}
	}
}

// compareWithWants checks that a file's problems are what its comments want, line by line.
func compareWithWants(t *testing.T, file string, found []problem) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(string(text), "\n") {
		var wanted []string
		for _, m := range want.FindAllStringSubmatch(line, -1) {
			wanted = append(wanted, m[1])
		}
		for _, p := range found {
			if p.pos.Filename != file || p.pos.Line != i+1 {
				continue
			}
			at := slices.IndexFunc(wanted, func(w string) bool { return strings.Contains(p.text, w) })
			if at < 0 {
				t.Errorf("not wanted: %v", p)
				continue
			}
			wanted = slices.Delete(wanted, at, at+1)
			if !strings.Contains(p.text, "instead: ") && !strings.Contains(p.text, ": ") {
				t.Errorf("the ban names no replacement: %v", p)
			}
		}
		for _, w := range wanted {
			t.Errorf("%s:%d: nothing reported like %q", file, i+1, w)
		}
	}
}

func TestWhoMayImportWhom(t *testing.T) {
	for _, c := range []struct {
		from, to string
		ok       bool
	}{
		{"wheel", "seedlog/clock", false},
		{"wheel", "math/bits", true},
		{"storage/record", "seedlog/disk", false},
		{"storage/record", "seedlog/clock", true},
		{"storage/record", "seedlog/storage", false},
		{"storage/record", "github.com/klauspost/compress/zstd", true},
		{"storage", "seedlog/storage/record", true},
		{"storage", "seedlog/disk", true},
		{"storage", "seedlog/node/event", false},
		{"storage", "seedlog/net", false},
		{"storage", "seedlog/sim/simdisk", false},
		{"storage", "sync", false},
		{"storage", "golang.org/x/sys/unix", false},
		{"clock/task", "sync", true},
		{"clock/task", "seedlog/sim/sched", false},
		{"clock", "seedlog/clock/task", false},
		{"disk", "seedlog/clock/task", true},
		{"disk/osfs", "seedlog/storage", false},
		{"disk/osfs", "os", true},
		{"net", "net", false},
		{"net/tcp", "net", true},
		{"net/tcp", "seedlog/node/conn", false},
		{"node", "seedlog/disk/osfs", false},
		{"node", "seedlog/sim", false},
		{"node", "github.com/twmb/franz-go/pkg/kgo", false},
		{"node", "github.com/twmb/franz-go/pkg/kmsg", true},
		{"node/api", "seedlog/node/replica", true},
		{"node/replica", "seedlog/node/api", false},
		{"node/quorum", "seedlog/node/controller", false},
		{"node/coord", "seedlog/node/api", false},
		{"node/partition", "seedlog/storage", false},
		{"node/partition", "seedlog/storage/epoch", true},
		{"node/meta", "seedlog/node/quorum", false},
		{"node/group", "seedlog/clock/task", false},
		{"checker/logfile", "seedlog/storage/record", false},
		{"checker/logfile", "seedlog/checker", true},
		{"checker/logfile", "sync", false},
		{"sim", "seedlog/disk/osfs", false},
		{"sim", "seedlog/node", true},
		{"sim/sched", "seedlog/node", false},
		{"sim/fault", "seedlog/storage/record", false},
		{"scenarios", "seedlog/net/tcp", false},
		{"cmd/seedlog", "seedlog/net/tcp", true},
	} {
		if why := importProblem(c.from, c.to); (why == "") != c.ok {
			t.Errorf("%s imports %s: %q", c.from, c.to, why)
		}
	}
}

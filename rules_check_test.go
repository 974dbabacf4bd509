package seedlog_test

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"
)

const taskPath = "seedlog/clock/task"

// problem is one broken rule at a place.
type problem struct {
	pos  token.Position
	text string
}

func (p problem) String() string { return fmt.Sprintf("%s:%d: %s", p.pos.Filename, p.pos.Line, p.text) }

// walker looks at one package of class P or T.
type walker struct {
	pkg      *packages.Package
	path     string // without the module
	comments map[string]map[int]string
	stack    []ast.Node
	problems []problem
}

// walk returns every broken rule of the package.
func walk(pkg *packages.Package, path string) []problem {
	w := &walker{pkg: pkg, path: path, comments: map[string]map[int]string{}}
	for _, f := range pkg.Syntax {
		w.noteComments(f)
	}
	for _, f := range pkg.Syntax {
		ast.PreorderStack(f, nil, func(n ast.Node, stack []ast.Node) bool {
			w.stack = stack
			w.node(n)
			return true
		})
		w.globals(f)
		w.locks(f)
	}
	return w.problems
}

func (w *walker) noteComments(f *ast.File) {
	for _, group := range f.Comments {
		for _, c := range group.List {
			pos := w.pkg.Fset.Position(c.Pos())
			if w.comments[pos.Filename] == nil {
				w.comments[pos.Filename] = map[int]string{}
			}
			w.comments[pos.Filename][pos.Line] = c.Text
		}
	}
}

// excused reports whether the line of n ends in a comment that begins with the marker and
// gives a reason.
func (w *walker) excused(n ast.Node, marker string) bool {
	pos := w.pkg.Fset.Position(n.Pos())
	why, ok := strings.CutPrefix(w.comments[pos.Filename][pos.Line], marker)
	return ok && len(strings.TrimSpace(why)) > 2
}

func (w *walker) report(n ast.Node, format string, args ...any) {
	w.problems = append(w.problems, problem{w.pkg.Fset.Position(n.Pos()), fmt.Sprintf(format, args...)})
}

func (w *walker) node(n ast.Node) {
	switch n := n.(type) {
	case *ast.GoStmt:
		w.report(n, "go statement; instead: task.Group.Go")
	case *ast.SelectStmt:
		w.report(n, "select; instead: t.Park in a loop over the conditions")
	case *ast.ChanType:
		w.report(n, "channel; instead: task.Queue, task.Event or task.Signal")
	case *ast.SendStmt:
		w.report(n, "channel send; instead: task.Queue")
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			w.report(n, "channel receive; instead: task.Queue")
		}
	case *ast.RangeStmt:
		w.rangeOver(n)
	case *ast.CallExpr:
		w.call(n)
	case *ast.SelectorExpr:
		w.name(n)
	case *ast.BinaryExpr:
		w.compare(n)
	}
}

func (w *walker) rangeOver(n *ast.RangeStmt) {
	switch w.under(n.X).(type) {
	case *types.Map:
		if !w.excused(n, "//order:") {
			w.report(n, "range over a map; instead: slices.Sorted(maps.Keys(m)), or end the line with //order: why it cannot matter")
		}
	case *types.Chan:
		w.report(n, "range over a channel; instead: task.Queue")
	}
}

func (w *walker) under(e ast.Expr) types.Type {
	t := w.pkg.TypesInfo.TypeOf(e)
	if t == nil {
		return nil
	}
	if p, ok := t.(*types.TypeParam); ok {
		// A type parameter of core type map ranges like one.
		if i, ok := p.Constraint().Underlying().(*types.Interface); ok && i.NumEmbeddeds() == 1 {
			if u, ok := i.EmbeddedType(0).(*types.Union); ok && u.Len() == 1 {
				return u.Term(0).Type().Underlying()
			}
		}
	}
	return t.Underlying()
}

// name checks a qualified name such as time.Now.
func (w *walker) name(n *ast.SelectorExpr) {
	id, ok := n.X.(*ast.Ident)
	if !ok {
		return
	}
	p, ok := w.pkg.TypesInfo.Uses[id].(*types.PkgName)
	if !ok {
		return
	}
	path, full := p.Imported().Path(), p.Imported().Path()+"."+n.Sel.Name
	if allowed, partly := names[path]; partly && !slices.Contains(allowed, n.Sel.Name) {
		if path == "math/rand/v2" {
			w.report(n, "%s draws from a global; instead: a method of the *rand.Rand that is passed in", full)
			return
		}
		w.report(n, "%s; instead: %s", full, replacement(full))
	}
	if path == "maps" && (n.Sel.Name == "Keys" || n.Sel.Name == "Values" || n.Sel.Name == "All") {
		if !w.sorted(n) && !w.excused(n, "//order:") {
			w.report(n, "%s in the map's order; instead: %s, or end the line with //order: why it cannot matter", full, replacement(full))
		}
	}
}

// sorted reports whether the call of maps.Keys n is an argument of slices.Sorted.
func (w *walker) sorted(n *ast.SelectorExpr) bool {
	if n.Sel.Name != "Keys" || len(w.stack) < 2 {
		return false
	}
	outer, ok := w.stack[len(w.stack)-2].(*ast.CallExpr)
	if !ok || len(outer.Args) == 0 || outer.Args[0] != w.stack[len(w.stack)-1] {
		return false
	}
	fn := w.callee(outer)
	return fn != nil && fn.Pkg() != nil && fn.Pkg().Path() == "slices" && strings.HasPrefix(fn.Name(), "Sorted")
}

func (w *walker) callee(call *ast.CallExpr) *types.Func {
	switch f := ast.Unparen(call.Fun).(type) {
	case *ast.SelectorExpr:
		fn, _ := w.pkg.TypesInfo.Uses[f.Sel].(*types.Func)
		return fn
	case *ast.Ident:
		fn, _ := w.pkg.TypesInfo.Uses[f].(*types.Func)
		return fn
	}
	return nil
}

func (w *walker) call(n *ast.CallExpr) {
	if id, ok := ast.Unparen(n.Fun).(*ast.Ident); ok {
		if b, ok := w.pkg.TypesInfo.Uses[id].(*types.Builtin); ok {
			switch b.Name() {
			case "recover":
				w.report(n, "recover; instead: return an error, and let a panic end the process")
			case "print", "println":
				w.report(n, "%s; instead: an event of node/event", b.Name())
			}
			return
		}
	}
	if tv := w.pkg.TypesInfo.Types[n.Fun]; tv.IsType() && len(n.Args) == 1 {
		w.convert(n, tv.Type)
		return
	}
	fn := w.callee(n)
	if fn == nil || fn.Pkg() == nil {
		return
	}
	switch fn.Pkg().Path() {
	case "fmt":
		w.format(n)
	case "github.com/klauspost/compress/zstd":
		w.codec(n, fn.Name())
	}
}

// format refuses to print pointers.
func (w *walker) format(n *ast.CallExpr) {
	for _, arg := range n.Args {
		if v := w.pkg.TypesInfo.Types[arg].Value; v != nil && v.Kind() == constant.String && strings.Contains(constant.StringVal(v), "%p") {
			w.report(n, "%%p prints a pointer; instead: a name or a number")
		}
	}
}

// codec demands that zstd runs in the calling task.
func (w *walker) codec(n *ast.CallExpr, name string) {
	option := map[string]string{"NewReader": "WithDecoderConcurrency", "NewWriter": "WithEncoderConcurrency"}[name]
	if option == "" {
		return
	}
	for _, arg := range n.Args {
		if c, ok := arg.(*ast.CallExpr); ok && len(c.Args) == 1 {
			v := w.pkg.TypesInfo.Types[c.Args[0]].Value
			if fn := w.callee(c); fn != nil && fn.Name() == option && v != nil && v.ExactString() == "1" {
				return
			}
		}
	}
	w.report(n, "zstd.%s starts goroutines; instead: pass zstd.%s(1)", name, option)
}

func isFloat(t types.Type) bool {
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&types.IsFloat != 0
}

// compare refuses to decide by a floating-point number.
func (w *walker) compare(n *ast.BinaryExpr) {
	switch n.Op {
	case token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ:
	default:
		return
	}
	t := w.pkg.TypesInfo.TypeOf(n.X)
	if t == nil || w.pkg.TypesInfo.Types[n].Value != nil {
		return
	}
	if (isFloat(t) || isFloat(w.pkg.TypesInfo.TypeOf(n.Y))) && !w.excused(n, "//float:") {
		w.report(n, "a float decides; instead: integers (thousandths), or end the line with //float: why no decision depends on it")
	}
}

func (w *walker) convert(n *ast.CallExpr, to types.Type) {
	from := w.pkg.TypesInfo.Types[n.Args[0]]
	if from.Type == nil || from.Value != nil || !isFloat(from.Type) {
		return
	}
	if b, ok := to.Underlying().(*types.Basic); ok && b.Info()&types.IsInteger != 0 && !w.excused(n, "//float:") {
		w.report(n, "a float becomes a number that decides; instead: integers (thousandths), or end the line with //float: why")
	}
}

// globals checks the package-level variables that a file declares.
func (w *walker) globals(f *ast.File) {
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR {
			continue
		}
		for _, spec := range g.Specs {
			for _, id := range spec.(*ast.ValueSpec).Names {
				v, ok := w.pkg.TypesInfo.Defs[id].(*types.Var)
				if !ok || id.Name == "_" {
					continue
				}
				why := w.mutable(v.Type(), map[types.Type]bool{})
				if why != "" && varExceptions[w.path+"."+id.Name] == "" {
					w.report(id, "package-level variable %s is %s; instead: a field of what the host makes, for all nodes of a World would share it", id.Name, why)
				} else if !isError(v.Type()) {
					w.unchanged(v)
				}
			}
		}
	}
}

func isError(t types.Type) bool {
	e := types.Universe.Lookup("error").Type().Underlying().(*types.Interface)
	return types.Implements(t, e)
}

// mutable says why a variable of the type cannot be a constant table, or "".
func (w *walker) mutable(t types.Type, seen map[types.Type]bool) string {
	if seen[t] || isError(t) || immutable[types.TypeString(t, nil)] {
		return ""
	}
	seen[t] = true
	switch u := t.Underlying().(type) {
	case *types.Basic, *types.Signature:
		return ""
	case *types.Array:
		return w.mutable(u.Elem(), seen)
	case *types.Slice:
		return w.mutable(u.Elem(), seen)
	case *types.Map:
		return w.mutable(u.Elem(), seen)
	case *types.Struct:
		for i := range u.NumFields() {
			if why := w.mutable(u.Field(i).Type(), seen); why != "" {
				return why
			}
		}
		return ""
	}
	return "or holds a " + types.TypeString(t, types.RelativeTo(w.pkg.Types))
}

// immutable types are safe to share though they are pointers or interfaces.
var immutable = map[string]bool{
	"*hash/crc32.Table": true, "*regexp.Regexp": true, "*encoding/base64.Encoding": true,
	"encoding/binary.ByteOrder": true, "*strings.Replacer": true, "reflect.Type": true,
}

// unchanged reports every place that could change the table v.
func (w *walker) unchanged(v *types.Var) {
	for _, f := range w.pkg.Syntax {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for _, lhs := range n.Lhs {
					w.changed(v, lhs)
				}
			case *ast.IncDecStmt:
				w.changed(v, n.X)
			case *ast.UnaryExpr:
				if n.Op == token.AND {
					w.changed(v, n.X)
				}
			case *ast.CallExpr:
				if id, ok := n.Fun.(*ast.Ident); ok && len(n.Args) > 0 {
					if b, ok := w.pkg.TypesInfo.Uses[id].(*types.Builtin); ok && slices.Contains(words("clear delete copy"), b.Name()) {
						w.changed(v, n.Args[0])
					}
				}
			}
			return true
		})
	}
}

// changed reports e if it is v or a part of it.
func (w *walker) changed(v *types.Var, e ast.Expr) {
	at := e
	for {
		switch x := ast.Unparen(e).(type) {
		case *ast.IndexExpr:
			e = x.X
		case *ast.SelectorExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		case *ast.Ident:
			if w.pkg.TypesInfo.Uses[x] == v {
				w.report(at, "changes the package-level variable %s, or takes its address; instead: a field of what the host makes", v.Name())
			}
			return
		default:
			return
		}
	}
}

// imports checks what a package of any class imports.
func imports(pkg *packages.Package, path string) (out []problem) {
	for _, f := range pkg.Syntax {
		for _, spec := range f.Imports {
			to, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				continue
			}
			if why := importProblem(path, to); why != "" {
				out = append(out, problem{pkg.Fset.Position(spec.Pos()), why})
			}
		}
	}
	return out
}

package seedlog_test

import (
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"slices"
)

// locks finds calls that may wait (they take a *task.T, or are a wait of one) while a
// task.Mutex is held. It follows each function body on its own, statement by statement: a
// lock is named by its expression, branches that go on are merged, and a deferred Unlock
// holds to the end of the function.
func (w *walker) locks(f *ast.File) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Body != nil {
				w.block(n.Body.List, held{})
			}
		case *ast.FuncLit:
			w.block(n.Body.List, held{})
		}
		return true
	})
}

// held are the locks held, by the text of their expression.
type held map[string]bool

// block follows the statements and reports whether control leaves the block by its end.
func (w *walker) block(list []ast.Stmt, h held) (goesOn bool) {
	for _, s := range list {
		if !w.stmt(s, h) {
			return false
		}
	}
	return true
}

func (w *walker) stmt(s ast.Stmt, h held) (goesOn bool) {
	switch s := s.(type) {
	case nil:
	case *ast.BlockStmt:
		return w.block(s.List, h)
	case *ast.LabeledStmt:
		return w.stmt(s.Stmt, h)
	case *ast.ReturnStmt:
		w.exprs(h, s.Results...)
		return false
	case *ast.BranchStmt:
		return s.Tok == token.FALLTHROUGH
	case *ast.DeferStmt:
		// A deferred Unlock releases at the end; other deferred calls run then, too.
	case *ast.ExprStmt:
		return w.exprStmt(s, h)
	case *ast.IfStmt:
		return w.ifStmt(s, h)
	case *ast.ForStmt:
		w.stmt(s.Init, h)
		w.exprs(h, s.Cond)
		w.loop(s.Body, h)
		w.stmt(s.Post, h)
	case *ast.RangeStmt:
		w.exprs(h, s.X)
		w.loop(s.Body, h)
	case *ast.SwitchStmt:
		w.stmt(s.Init, h)
		w.exprs(h, s.Tag)
		w.clauses(s.Body, h)
	case *ast.TypeSwitchStmt:
		w.stmt(s.Init, h)
		w.stmt(s.Assign, h)
		w.clauses(s.Body, h)
	default:
		w.look(s, h)
	}
	return true
}

func (w *walker) exprStmt(s *ast.ExprStmt, h held) bool {
	call, ok := s.X.(*ast.CallExpr)
	if !ok {
		w.exprs(h, s.X)
		return true
	}
	if name, lock := w.mutexCall(call); lock != "" {
		if lock == "Lock" {
			h[name] = true
		} else {
			delete(h, name)
		}
		return true
	}
	w.exprs(h, call)
	id, isName := call.Fun.(*ast.Ident)
	return !isName || id.Name != "panic"
}

func (w *walker) ifStmt(s *ast.IfStmt, h held) bool {
	w.stmt(s.Init, h)
	w.exprs(h, s.Cond)
	yes, no := maps.Clone(h), maps.Clone(h)
	yesOn := w.block(s.Body.List, yes)
	noOn := w.stmt(s.Else, no)
	clear(h)
	if yesOn {
		maps.Copy(h, yes)
	}
	if noOn {
		maps.Copy(h, no)
	}
	return yesOn || noOn
}

// loop follows the body twice, for what the first round leaves held.
func (w *walker) loop(body *ast.BlockStmt, h held) {
	before := len(w.problems)
	round := maps.Clone(h)
	w.block(body.List, round)
	if len(w.problems) == before {
		w.block(body.List, round)
	}
}

func (w *walker) clauses(body *ast.BlockStmt, h held) {
	after := maps.Clone(h)
	exhaustive := false
	var left []held
	for _, c := range body.List {
		clause := c.(*ast.CaseClause)
		exhaustive = exhaustive || clause.List == nil
		branch := maps.Clone(h)
		w.exprs(branch, clause.List...)
		if w.block(clause.Body, branch) {
			left = append(left, branch)
		}
	}
	if exhaustive && len(left) > 0 {
		clear(after)
	}
	for _, b := range left {
		maps.Copy(after, b)
	}
	clear(h)
	maps.Copy(h, after)
}

func (w *walker) exprs(h held, list ...ast.Expr) {
	for _, e := range list {
		if e != nil {
			w.look(e, h)
		}
	}
}

// look reports the calls within n that may wait, if a lock is held.
func (w *walker) look(n ast.Node, h held) {
	if len(h) == 0 {
		return
	}
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.CallExpr:
			if w.waits(n) {
				w.report(n, "a call that may wait while %s is held; instead: unlock before it, or order the work by a task.Gate",
					slices.Sorted(maps.Keys(h))[0])
			}
		}
		return true
	})
}

// mutexCall recognises x.Lock() and x.Unlock() of a task.Mutex.
func (w *walker) mutexCall(call *ast.CallExpr) (name, method string) {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	fn := w.callee(call)
	if !ok || fn == nil || fn.Name() != "Lock" && fn.Name() != "Unlock" {
		return "", ""
	}
	if recv := fn.Signature().Recv(); recv == nil || !isTaskType(recv.Type(), "Mutex") {
		return "", ""
	}
	return types.ExprString(sel.X), fn.Name()
}

// waits reports whether the call takes a *task.T, or is one of the waits of a *task.T. To
// start a task waits for nothing.
func (w *walker) waits(call *ast.CallExpr) bool {
	if fn := w.callee(call); fn != nil {
		if recv := fn.Signature().Recv(); recv != nil && isTaskType(recv.Type(), "T") {
			return slices.Contains(words("Park ParkHard Sleep"), fn.Name())
		}
		if fn.Pkg() != nil && fn.Pkg().Path() == taskPath && !slices.Contains(words("Enter Wait Push Pop"), fn.Name()) {
			return false
		}
	}
	sig, ok := w.pkg.TypesInfo.TypeOf(call.Fun).(*types.Signature)
	if !ok || sig.Params().Len() == 0 {
		return false
	}
	return isTaskType(sig.Params().At(0).Type(), "T")
}

func isTaskType(t types.Type, name string) bool {
	p, ok := t.(*types.Pointer)
	if !ok {
		return false
	}
	n, ok := p.Elem().(*types.Named)
	return ok && n.Obj().Name() == name && n.Obj().Pkg() != nil && n.Obj().Pkg().Path() == taskPath
}

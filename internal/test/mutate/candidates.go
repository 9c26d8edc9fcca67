package main

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// mutationsOf returns the possible mutations of a file, in the order of the source. It leaves out
// those that change only logs, capacities and what String methods return, because
// no caller depends on them.
func mutationsOf(folder, name string, text []byte, fset *token.FileSet, file *ast.File) []mutation {
	f := &finder{folder: folder, name: name, text: text, fset: fset, skip: map[ast.Node]bool{}, numbers: map[string]int{}}
	for _, decl := range file.Decls {
		f.function = ""
		if d, ok := decl.(*ast.FuncDecl); ok {
			f.function = functionName(d)
			f.locks(d)
			f.skipEstimates(d)
		}
		ast.PreorderStack(decl, nil, f.visit)
	}
	slices.SortStableFunc(f.found, func(a, b mutation) int { return a.edits[0].start - b.edits[0].start })
	return f.found
}

// A finder collects the mutations of a file.
type finder struct {
	folder, name string
	text         []byte
	fset         *token.FileSet
	function     string            // the current function or method, "" outside
	skip         map[ast.Node]bool // nodes that are not mutated
	numbers      map[string]int    // of mutations with the same description
	found        []mutation
}

func (f *finder) add(kind string, at token.Pos, what string, edits ...edit) {
	position := f.fset.Position(at)
	m := mutation{
		folder: f.folder, file: f.name, line: position.Line, column: position.Column,
		kind: kind, function: f.function, what: what, edits: edits,
	}
	f.numbers[m.id()]++
	m.number = f.numbers[m.id()]
	f.found = append(f.found, m)
}

func (f *finder) offset(p token.Pos) int { return f.fset.Position(p).Offset }
func (f *finder) source(n ast.Node) string {
	return string(f.text[f.offset(n.Pos()):f.offset(n.End())])
}

// replace returns the edit that replaces a node. Lines keep their numbers.
func (f *finder) replace(n ast.Node, with string) edit {
	lines := strings.Count(f.source(n), "\n")
	return edit{f.offset(n.Pos()), f.offset(n.End()), with + strings.Repeat("\n", lines)}
}

func (f *finder) visit(node ast.Node, stack []ast.Node) bool {
	if f.skip[node] {
		return false
	}
	switch node := node.(type) {
	case *ast.GenDecl:
		return node.Tok == token.VAR || node.Tok == token.CONST && !mentions(node, "iota")
	case *ast.FuncDecl:
		return !isOneOf(node.Name.Name, "String", "GoString", "LogValue")
	case *ast.ExprStmt:
		call, ok := node.X.(*ast.CallExpr)
		return !ok || !isLog(call) && !isOneOf(calledName(call), "panic", "Grow")
	case *ast.CallExpr:
		for _, arg := range capacities(node) {
			f.skip[arg] = true
		}
	case *ast.BlockStmt:
		f.statements(node.List)
	case *ast.CaseClause:
		f.statements(node.Body)
		if s, ok := stack[len(stack)-2].(*ast.SwitchStmt); ok && s.Tag == nil {
			for _, c := range node.List {
				f.negate(c)
			}
		}
	case *ast.CommClause:
		f.statements(node.Body)
	case *ast.IfStmt:
		if onlyLogs(node) {
			f.skip[node.Cond] = true
			break
		}
		f.negate(node.Cond)
		if f.isBound(node) {
			f.skip[node.Cond] = true // both results are the same for equal operands
		}
	case *ast.ForStmt:
		if node.Cond != nil {
			f.negate(node.Cond)
		}
	case *ast.BinaryExpr:
		f.operator(node)
	case *ast.AssignStmt:
		if with, ok := map[token.Token]string{token.ADD_ASSIGN: "-=", token.SUB_ASSIGN: "+="}[node.Tok]; ok && !f.isText(node.Rhs[0]) {
			at := f.offset(node.TokPos)
			f.add(arithmetic, node.Pos(), shown(f.source(node))+" with "+with, edit{at, at + len(with), with})
		}
	case *ast.ReturnStmt:
		f.returned(node, stack)
	case *ast.BasicLit:
		if node.Kind != token.INT {
			break
		}
		if value, err := strconv.ParseInt(node.Value, 0, 63); err == nil {
			next := strconv.FormatInt(value+1, 10)
			f.add(constant, node.Pos(), shown(node.Value)+" becomes "+shown(next)+" in "+shown(f.source(stack[len(stack)-1])), f.replace(node, next))
		}
	}
	return true
}

func (f *finder) negate(cond ast.Expr) {
	start, end := f.offset(cond.Pos()), f.offset(cond.End())
	f.add(condition, cond.Pos(), "negated "+shown(f.source(cond)), edit{start, start, "!("}, edit{end, end, ")"})
}

func (f *finder) operator(e *ast.BinaryExpr) {
	var kind, with string
	switch e.Op {
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		if calls(e, "cap") {
			return
		}
		kind = comparison
		with = map[token.Token]string{token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">"}[e.Op]
	case token.LAND, token.LOR:
		kind = logic
		with = map[token.Token]string{token.LAND: "||", token.LOR: "&&"}[e.Op]
	case token.ADD, token.SUB:
		if f.isText(e) {
			return
		}
		kind = arithmetic
		with = map[token.Token]string{token.ADD: "-", token.SUB: "+"}[e.Op]
	default:
		return
	}
	at := f.offset(e.OpPos)
	f.add(kind, e.OpPos, shown(f.source(e))+" with "+with, edit{at, at + len(e.Op.String()), with})
}

// isText reports whether an expression has a string literal, so that it is likely to be text.
func (f *finder) isText(e ast.Expr) bool {
	found := false
	ast.Inspect(e, func(node ast.Node) bool {
		if lit, ok := node.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			found = true
		}
		return !found
	})
	return found
}

// isBound reports whether a statement sets one operand of its comparison to the other.
func (f *finder) isBound(s *ast.IfStmt) bool {
	cond, ok := s.Cond.(*ast.BinaryExpr)
	if !ok || s.Else != nil || len(s.Body.List) != 1 {
		return false
	}
	set, ok := s.Body.List[0].(*ast.AssignStmt)
	if !ok || set.Tok != token.ASSIGN || len(set.Lhs) != 1 {
		return false
	}
	x, y, to, from := f.source(cond.X), f.source(cond.Y), f.source(set.Lhs[0]), f.source(set.Rhs[0])
	return x == to && y == from || x == from && y == to
}

// capacities returns the arguments of a call that are the capacity of a slice, map or channel, or the
// size of a buffer.
func capacities(call *ast.CallExpr) []ast.Expr {
	first := len(call.Args)
	switch calledName(call) {
	case "make":
		switch call.Args[0].(type) {
		case *ast.MapType, *ast.ChanType:
			first = 1
		default:
			first = 2
		}
	case "Grow", "NewReaderSize", "NewWriterSize":
		first = 1
	}
	return call.Args[min(first, len(call.Args)):]
}

// skipEstimates leaves out the sums in variables that are only the capacity in a call of make. An
// estimate that is wrong changes how often memory is allocated, and no result. A capacity that is
// limited by another assignment is not left out.
func (f *finder) skipEstimates(decl *ast.FuncDecl) {
	others := map[string]int{} // how often the name is used for something else
	assigned, isCapacity := map[string][]ast.Node{}, map[string]bool{}
	ast.Inspect(decl, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.Ident:
			others[node.Name]++
		case *ast.AssignStmt:
			if to, ok := node.Lhs[0].(*ast.Ident); ok && len(node.Lhs) == 1 && (node.Tok == token.DEFINE || node.Tok == token.ADD_ASSIGN) {
				others[to.Name]--
				assigned[to.Name] = append(assigned[to.Name], node)
			}
		case *ast.CallExpr:
			if calledName(node) != "make" {
				break
			}
			for _, arg := range capacities(node) {
				if of, ok := arg.(*ast.Ident); ok {
					others[of.Name]--
					isCapacity[of.Name] = true
				}
			}
		}
		return true
	})
	for name := range isCapacity {
		if others[name] > 0 {
			continue
		}
		for _, s := range assigned[name] {
			f.skip[s] = true
		}
	}
}

// releases are the lowercase names of functions that end or free something.
var releases = []string{"delete", "close", "cancel", "stop", "release"}

// lockMethods are the methods of a mutex, each with the one that ends it.
var lockMethods = map[string]string{"Lock": "Unlock", "RLock": "RUnlock"}

func (f *finder) statements(list []ast.Stmt) {
	for _, s := range list {
		if f.skip[s] {
			continue
		}
		switch s := s.(type) {
		case *ast.ExprStmt:
			if call, ok := s.X.(*ast.CallExpr); ok && !isLog(call) {
				f.removeCall(s, call)
			}
		case *ast.DeferStmt:
			if isRelease(s.Call) {
				f.removeCall(s, s.Call)
			}
		case *ast.AssignStmt:
			f.removeAssignment(s)
		case *ast.IncDecStmt:
			f.add(statement, s.Pos(), "removed "+shown(f.source(s)), f.replace(s, ""))
		}
	}
}

func (f *finder) removeCall(s ast.Stmt, call *ast.CallExpr) {
	name := calledName(call)
	if isOneOf(name, "Lock", "Unlock", "RLock", "RUnlock", "panic", "Grow") {
		return
	}
	kind, with := statement, ""
	if isRelease(call) {
		kind = release
		if _, isVariable := call.Fun.(*ast.Ident); isVariable && !isOneOf(name, "delete", "close") {
			with = "_ = " + name // else the variable would be unused
		}
	}
	f.add(kind, s.Pos(), "removed "+shown(f.source(s)), f.replace(s, with))
}

func (f *finder) removeAssignment(s *ast.AssignStmt) {
	if s.Tok == token.DEFINE {
		return
	}
	kind := statement
	if blank, ok := s.Lhs[0].(*ast.Ident); ok && blank.Name == "_" && len(s.Lhs) == 1 {
		call, ok := s.Rhs[0].(*ast.CallExpr)
		if !ok {
			return
		}
		if isRelease(call) {
			kind = release
		}
	}
	f.add(kind, s.Pos(), "removed "+shown(f.source(s)), f.replace(s, ""))
}

// locks finds the mutexes that a function both locks and unlocks. A mutation removes all calls
// for one of them.
func (f *finder) locks(decl *ast.FuncDecl) {
	if decl.Body == nil {
		return
	}
	type method struct{ mutex, name string }
	calls := map[method][]ast.Stmt{}
	ast.Inspect(decl.Body, func(node ast.Node) bool {
		var call *ast.CallExpr
		switch s := node.(type) {
		case *ast.ExprStmt:
			call, _ = s.X.(*ast.CallExpr)
		case *ast.DeferStmt:
			call = s.Call
		}
		if call == nil || len(call.Args) > 0 {
			return true
		}
		if called, ok := call.Fun.(*ast.SelectorExpr); ok {
			key := method{f.source(called.X), called.Sel.Name}
			calls[key] = append(calls[key], node.(ast.Stmt))
		}
		return true
	})
	for begin, end := range lockMethods {
		for key, list := range calls {
			unlocks := calls[method{key.mutex, end}]
			if key.name != begin || len(unlocks) == 0 {
				continue
			}
			var edits []edit
			for _, s := range slices.Concat(list, unlocks) {
				edits = append(edits, f.replace(s, ""))
			}
			slices.SortFunc(edits, func(a, b edit) int { return a.start - b.start })
			f.add(lock, list[0].Pos(), "removed "+shown(f.source(list[0]))+" from "+f.function, edits...)
		}
	}
}

func (f *finder) returned(s *ast.ReturnStmt, stack []ast.Node) {
	var results *ast.FieldList
	for _, node := range slices.Backward(stack) {
		if lit, ok := node.(*ast.FuncLit); ok {
			results = lit.Type.Results
			break
		}
		if decl, ok := node.(*ast.FuncDecl); ok {
			results = decl.Type.Results
			break
		}
	}
	if results.NumFields() == 0 || results.NumFields() != len(s.Results) {
		return
	}
	last, ok := results.List[len(results.List)-1].Type.(*ast.Ident)
	value := s.Results[len(s.Results)-1]
	if ok && last.Name == "error" && f.source(value) != "nil" {
		// The error is still used, since otherwise a variable or an import may be unused.
		start, end := f.offset(value.Pos()), f.offset(value.End())
		f.add(errorValue, s.Pos(), "nil instead of "+shown(f.source(value)), edit{start, start, "func(error) error { return nil }("}, edit{end, end, ")"})
	}
}

func isRelease(call *ast.CallExpr) bool {
	return slices.Contains(releases, strings.ToLower(calledName(call)))
}

// onlyLogs reports whether a statement decides only what is logged.
func onlyLogs(s *ast.IfStmt) bool {
	for _, inner := range s.Body.List {
		e, ok := inner.(*ast.ExprStmt)
		if !ok {
			return false
		}
		if call, ok := e.X.(*ast.CallExpr); !ok || !isLog(call) {
			return false
		}
	}
	return len(s.Body.List) > 0 && s.Else == nil
}

// isLog reports whether a call writes to a log.
func isLog(call *ast.CallExpr) bool {
	called, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	var of string
	switch x := called.X.(type) {
	case *ast.Ident:
		of = x.Name
	case *ast.SelectorExpr:
		of = x.Sel.Name
	case *ast.CallExpr:
		of = calledName(x)
	}
	level := strings.TrimSuffix(called.Sel.Name, "Context")
	return slices.Contains([]string{"log", "logger"}, strings.ToLower(of)) &&
		slices.Contains([]string{"Debug", "Info", "Warn", "Error", "Log", "LogAttrs"}, level)
}

func isOneOf(name string, of ...string) bool { return slices.Contains(of, name) }

// calledName returns the name of the called function or method, or "".
func calledName(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// calls reports whether a node has a call of a function.
func calls(n ast.Node, name string) bool {
	found := false
	ast.Inspect(n, func(node ast.Node) bool {
		if call, ok := node.(*ast.CallExpr); ok && calledName(call) == name {
			found = true
		}
		return !found
	})
	return found
}

// mentions reports whether a node has an identifier with a name.
func mentions(n ast.Node, name string) bool {
	found := false
	ast.Inspect(n, func(node ast.Node) bool {
		if ident, ok := node.(*ast.Ident); ok && ident.Name == name {
			found = true
		}
		return !found
	})
	return found
}

// functionName returns the name of a function, or of a method after the name of its type.
func functionName(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return d.Name.Name
	}
	of := ""
	ast.Inspect(d.Recv.List[0].Type, func(node ast.Node) bool {
		if ident, ok := node.(*ast.Ident); ok && of == "" {
			of = ident.Name
		}
		return of == ""
	})
	return of + "." + d.Name.Name
}

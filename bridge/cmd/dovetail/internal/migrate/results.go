package migrate

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// A shape is what the results of a function (*mcp.CallToolResult, Out, error) of go-sdk become.
type shape int

const (
	noShape     shape = iota
	shapeResult       // *mcp.CallToolResult: Out is any
	shapeValue        // Out: the first result is always nil, or an error for the model
	shapeBoth         // server.Result[Out]
)

// shapeOf returns the shape of a signature without a body.
func shapeOf(results *types.Tuple) shape {
	if results.Len() != 3 || keyOfType(results.At(0).Type()) != "*sdk:mcp.CallToolResult" || results.At(2).Type().String() != "error" {
		return noShape
	}
	if i, ok := types.Unalias(results.At(1).Type()).(*types.Interface); ok && i.Empty() {
		return shapeResult
	}
	return shapeValue
}

// position identifies a function in the test variant of its package, too.
func (s *source) position(pos token.Pos) string { return s.fset.Position(pos).String() }

// findShapes finds the shapes of the functions of the file.
func (s *source) findShapes() {
	ast.Inspect(s.file, func(n ast.Node) bool {
		var body *ast.BlockStmt
		var pos token.Pos
		switch n := n.(type) {
		case *ast.FuncDecl:
			body, pos = n.Body, n.Name.Pos()
		case *ast.FuncLit:
			body, pos = n.Body, n.Pos()
		default:
			return true
		}
		of := shapeOf(s.signature(n).Results())
		if of == shapeValue && body != nil && s.returnsContent(body) {
			of = shapeBoth
		}
		if of != noShape {
			s.program.shapes[s.position(pos)] = of
		}
		return true
	})
}

func (s *source) signature(n ast.Node) *types.Signature {
	var t types.Type
	switch n := n.(type) {
	case *ast.FuncDecl:
		t = s.info.Defs[n.Name].Type()
	case *ast.FuncLit:
		t = s.info.TypeOf(n)
	}
	return t.(*types.Signature)
}

// returnsContent reports whether a body returns content beside its value.
func (s *source) returnsContent(body *ast.BlockStmt) bool {
	found := false
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ReturnStmt:
			found = found || len(n.Results) == 3 && !isNil(n.Results[0]) && s.errorOf(n.Results[0]) == ""
		}
		return true
	})
	return found
}

func isNil(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == "nil"
}

// shapeAt returns the shape of the function that a return statement or a signature belongs to.
func (s *source) shapeAt(n ast.Node) shape {
	for ; n != nil; n = s.parents[n] {
		switch n := n.(type) {
		case *ast.FuncDecl:
			return s.program.shapes[s.position(n.Name.Pos())]
		case *ast.FuncLit:
			return s.program.shapes[s.position(n.Pos())]
		}
	}
	return noShape
}

// shapeOfCall returns the shape of the function that an expression calls.
func (s *source) shapeOfCall(e ast.Expr) shape {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return noShape
	}
	signature, ok := s.info.TypeOf(call.Fun).Underlying().(*types.Signature)
	if !ok {
		return noShape
	}
	fun := call.Fun
	if sel, ok := fun.(*ast.SelectorExpr); ok {
		fun = sel.Sel
	}
	if obj := s.objectOf(fun); obj != nil {
		if known, ok := s.program.shapes[s.position(obj.Pos())]; ok {
			return known
		}
	}
	return shapeOf(signature.Results())
}

// rewriteResults rewrites the results of a signature.
func (s *source) rewriteResults(list *ast.FieldList) (string, bool) {
	signature, ok := s.parents[list].(*ast.FuncType)
	if !ok || signature.Results != list || len(list.List) != 3 {
		return "", false
	}
	var of shape
	switch s.parents[signature].(type) {
	case *ast.FuncDecl, *ast.FuncLit:
		of = s.shapeAt(signature)
	default:
		of = shapeOf(s.info.TypeOf(signature).(*types.Signature).Results())
	}
	if of == noShape {
		return "", false
	}
	first := s.resultType(of, list.List[1].Type)
	if names := list.List[0].Names; len(names) == 1 {
		name := names[0].Name
		if of == shapeValue {
			name = list.List[1].Names[0].Name
		}
		s.note(list, "one of the named results is gone")
		return "(" + name + " " + first + ", " + list.List[2].Names[0].Name + " error)", true
	}
	return "(" + first + ", error)", true
}

func (s *source) resultType(of shape, out ast.Expr) string {
	switch of {
	case shapeResult:
		return "*" + s.use("mcp") + ".CallToolResult"
	case shapeBoth:
		return s.use("server") + ".Result[" + s.newText(out) + "]"
	}
	return s.newText(out)
}

// rewriteHandlerType rewrites mcp.ToolHandlerFor[In, Out].
func (s *source) rewriteHandlerType(index *ast.IndexListExpr) (string, bool) {
	if key, _ := s.keyOf(index.X); key != "sdk:mcp.ToolHandlerFor" || len(index.Indices) != 2 {
		return "", false
	}
	of := shapeValue
	if i, ok := types.Unalias(s.info.TypeOf(index.Indices[1])).(*types.Interface); ok && i.Empty() {
		of = shapeResult
	}
	return "func(" + s.use("context") + ".Context, *" + s.use("server") + ".Request, " + s.newText(index.Indices[0]) + ") (" + s.resultType(of, index.Indices[1]) + ", error)", true
}

func (s *source) rewriteReturn(ret *ast.ReturnStmt) (string, bool) {
	if len(ret.Results) == 2 && isNil(ret.Results[1]) {
		if _, isCall := ret.Results[0].(*ast.CallExpr); isCall {
			if err := s.errorOf(ret.Results[0]); err != "" {
				return "return nil, " + err, true
			}
		}
		return "", false
	}
	if len(ret.Results) != 3 {
		return "", false
	}
	result, value, err := ret.Results[0], ret.Results[1], ret.Results[2]
	switch s.shapeAt(ret) {
	case shapeResult:
		if !isNil(value) {
			s.note(ret, "the value "+string(s.text[s.offset(value.Pos()):s.offset(value.End())])+" was structured content; return it as the result, or encode it into StructuredContent")
		}
		return "return " + s.newText(result) + ", " + s.newText(err), true
	case shapeValue:
		if failure := s.errorOf(result); failure != "" {
			return "return " + s.newText(value) + ", " + failure, true
		}
		return "return " + s.newText(value) + ", " + s.newText(err), true
	case shapeBoth:
		out := s.outOf(ret)
		text := "return " + s.use("server") + ".Result[" + out + "]{Value: " + s.newText(value)
		if failure := s.errorOf(result); failure != "" {
			return text + "}, " + failure, true
		}
		if !isNil(result) {
			content := s.contentOf(result)
			if content == nil {
				s.note(ret, "the content of "+string(s.text[s.offset(result.Pos()):s.offset(result.End())])+" belongs into the Result")
			} else {
				text += ", Content: " + s.newText(content)
			}
		}
		return text + "}, " + s.newText(err), true
	}
	return "", false
}

// outOf returns the text of the type Out of the function around a statement.
func (s *source) outOf(n ast.Node) string {
	for ; n != nil; n = s.parents[n] {
		switch n := n.(type) {
		case *ast.FuncDecl:
			return s.newText(n.Type.Results.List[1].Type)
		case *ast.FuncLit:
			return s.newText(n.Type.Results.List[1].Type)
		}
	}
	return ""
}

// contentOf returns the content of a literal that has nothing else.
func (s *source) contentOf(result ast.Expr) ast.Expr {
	address, ok := result.(*ast.UnaryExpr)
	if !ok {
		return nil
	}
	lit, ok := address.X.(*ast.CompositeLit)
	if !ok || len(lit.Elts) != 1 {
		return nil
	}
	return field(lit, "Content")
}

// field returns the value of a field in a literal, or nil.
func field(lit *ast.CompositeLit, name string) ast.Expr {
	for _, element := range lit.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			if key, ok := pair.Key.(*ast.Ident); ok && key.Name == name {
				return pair.Value
			}
		}
	}
	return nil
}

// errorOf returns the error that a function returns instead of a result for an error, or "".
func (s *source) errorOf(result ast.Expr) string {
	if call, ok := result.(*ast.CallExpr); ok {
		switch key, _ := s.keyOf(call.Fun); key {
		case "mcp.NewToolResultError":
			return s.errorText(call.Args[0])
		case "mcp.NewToolResultErrorf":
			return s.errorCall(call)
		case "mcp.NewToolResultErrorFromErr":
			if text, ok := call.Args[0].(*ast.BasicLit); ok && !strings.Contains(text.Value, "%") {
				return s.use("fmt") + ".Errorf(" + strings.TrimRight(text.Value, "\"`") + `: %w` + text.Value[:1] + ", " + s.newText(call.Args[1]) + ")"
			}
			return s.use("fmt") + `.Errorf("%s: %w", ` + s.newText(call.Args[0]) + ", " + s.newText(call.Args[1]) + ")"
		}
		return ""
	}
	address, ok := result.(*ast.UnaryExpr)
	if !ok {
		return ""
	}
	lit, ok := address.X.(*ast.CompositeLit)
	if !ok || keyOfType(s.info.TypeOf(lit)) != "sdk:mcp.CallToolResult" || len(lit.Elts) != 2 {
		return ""
	}
	failed, content := field(lit, "IsError"), field(lit, "Content")
	if failed == nil || s.info.Types[failed].Value == nil || s.info.Types[failed].Value.String() != "true" || content == nil {
		return ""
	}
	blocks, ok := content.(*ast.CompositeLit)
	if !ok || len(blocks.Elts) != 1 {
		return ""
	}
	address, ok = blocks.Elts[0].(*ast.UnaryExpr)
	if !ok {
		return ""
	}
	text, ok := address.X.(*ast.CompositeLit)
	if !ok || len(text.Elts) != 1 || field(text, "Text") == nil {
		return ""
	}
	return s.errorText(field(text, "Text"))
}

// errorText returns an error with a text.
func (s *source) errorText(text ast.Expr) string {
	if call, ok := text.(*ast.CallExpr); ok {
		if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
			if obj := s.info.Uses[sel.Sel]; obj != nil && obj.Pkg() != nil && obj.Pkg().Path() == "fmt" && obj.Name() == "Sprintf" {
				return s.errorCall(call)
			}
			if sel.Sel.Name == "Error" && len(call.Args) == 0 && types.Identical(s.info.TypeOf(sel.X), types.Universe.Lookup("error").Type()) {
				return s.newText(sel.X)
			}
		}
	}
	return s.use("errors") + ".New(" + s.newText(text) + ")"
}

// errorCall returns fmt.Errorf with the arguments of a call.
func (s *source) errorCall(call *ast.CallExpr) string {
	texts := make([]string, len(call.Args))
	for i, arg := range call.Args {
		texts[i] = s.newText(arg)
	}
	text := s.use("fmt") + ".Errorf(" + strings.Join(texts, ", ")
	if call.Ellipsis.IsValid() {
		text += "..."
	}
	return text + ")"
}

// rewriteAssignment rewrites assignments of the three results of a typed tool, and assignments to the parameters of a
// request, which tests make.
func (s *source) rewriteAssignment(assign *ast.AssignStmt) (string, bool) {
	if len(assign.Rhs) == 1 && len(assign.Lhs) == 3 {
		if of := s.shapeOfCall(assign.Rhs[0]); of != noShape {
			drop := 1
			if of == shapeValue {
				drop = 0
			}
			left := slices.Delete(slices.Clone(assign.Lhs), drop, drop+1)
			if id, ok := assign.Lhs[drop].(*ast.Ident); !ok || id.Name != "_" {
				s.note(assign, "the function returns one value and an error")
			}
			return s.newText(left[0]) + ", " + s.newText(left[1]) + " " + assign.Tok.String() + " " + s.newText(assign.Rhs[0]), true
		}
	}
	if len(assign.Lhs) != 1 || len(assign.Rhs) != 1 {
		return "", false
	}
	if call, ok := assign.Rhs[0].(*ast.CallExpr); ok {
		key, receiver := s.keyOf(call.Fun)
		if key == "server.NewStreamableHTTPServer" && s.onlyStarted(call) {
			return "", true
		}
		if key == "sdk:mcp.Server.ResourceUpdated" {
			return resourceUpdated(s, call, receiver)
		}
	}
	key, receiver := s.keyOf(assign.Lhs[0])
	row, ok := rows[key+" ="]
	if !ok || strings.Contains(row.becomes, "@compat.JSON") && isJSON(s.info.TypeOf(assign.Rhs[0])) {
		return "", false
	}
	return s.expand(row.becomes, receiver, assign.Rhs)
}

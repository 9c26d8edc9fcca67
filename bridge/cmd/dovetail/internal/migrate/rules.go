package migrate

import (
	"cmp"
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"strings"
)

// objectOf returns the object that an identifier names, or nil.
func (s *source) objectOf(e ast.Expr) types.Object {
	if id, ok := ast.Unparen(e).(*ast.Ident); ok {
		return s.info.ObjectOf(id)
	}
	return nil
}

// keyOfType returns the name of a type of another library, as it is in the tables, with a * for each pointer.
func keyOfType(t types.Type) string {
	if pointer, ok := types.Unalias(t).(*types.Pointer); ok {
		if key := keyOfType(pointer.Elem()); key != "" {
			return "*" + key
		}
		return ""
	}
	named, ok := types.Unalias(t).(*types.Named)
	if !ok || named.Obj().Pkg() == nil || !isRewritten(named.Obj().Pkg().Path()) {
		return ""
	}
	name := named.Obj().Name()
	if named.TypeArgs().Len() == 1 && name == "ServerRequest" { // of go-sdk, which has aliases for its instances
		params := strings.TrimLeft(keyOfType(named.TypeArgs().At(0)), "*")
		return strings.TrimSuffix(strings.TrimSuffix(params, "Raw"), "Params") + "Request"
	}
	return keyOfObject(named.Obj().Pkg(), name)
}

// keyOfObject begins with the library where both have a package of the name.
func keyOfObject(pkg *types.Package, name string) string {
	prefix := ""
	if strings.HasPrefix(pkg.Path(), goSDK) {
		prefix = "sdk:"
	}
	return prefix + path.Base(pkg.Path()) + "." + name
}

// keyOf returns the key of an identifier, method or path of fields in the tables, and the receiver of the latter two. The
// key is empty if the expression is none of another library.
func (s *source) keyOf(e ast.Expr) (key string, receiver ast.Expr) {
	switch e := e.(type) {
	case *ast.IndexExpr:
		return s.keyOf(e.X)
	case *ast.IndexListExpr:
		return s.keyOf(e.X)
	case *ast.SelectorExpr:
		selection := s.info.Selections[e]
		if selection == nil {
			obj := s.info.Uses[e.Sel]
			if obj == nil || obj.Pkg() == nil || !isRewritten(obj.Pkg().Path()) {
				return "", nil
			}
			return keyOfObject(obj.Pkg(), obj.Name()), nil
		}
		var names []string
		x := ast.Expr(e)
		for {
			sel, ok := x.(*ast.SelectorExpr)
			if !ok || s.info.Selections[sel] == nil || len(names) > 0 && s.info.Selections[sel].Kind() != types.FieldVal {
				break
			}
			names, x = append([]string{sel.Sel.Name}, names...), sel.X
			if owner := strings.TrimLeft(keyOfType(s.info.TypeOf(x)), "*"); owner != "" {
				key, receiver = owner+"."+strings.Join(names, "."), x
				if _, ok := rows[key]; ok {
					return key, receiver
				}
			}
		}
	}
	return key, receiver
}

// rewrite returns the new text of a node, if a rule is about it.
func (s *source) rewrite(n ast.Node) (string, bool) {
	if s.gone[n] {
		return "", true
	}
	text, ok := s.rewriteNode(n)
	if e, isExpr := n.(ast.Expr); isExpr {
		if call, isCall := s.parents[n].(*ast.CallExpr); isCall && call.Fun != n && !s.isForeign(call.Fun) {
			if _, two := twoParameters[keyOfType(s.info.TypeOf(e))]; two {
				if !ok {
					text, ok = s.newInner(e), true
				}
				text = s.requestOf(e) + ", " + text
			}
		}
	}
	if ok {
		text = s.withComments(n, text)
	}
	return text, ok
}

// withComments returns the new text of a node with the comments of the old one that it lacks, behind its first brace or
// parenthesis.
func (s *source) withComments(n ast.Node, text string) string {
	var lost strings.Builder
	for _, group := range s.file.Comments {
		for _, comment := range group.List {
			if n.Pos() <= comment.Pos() && comment.End() <= n.End() && !strings.Contains(text, comment.Text) {
				lost.WriteString(comment.Text + "\n")
			}
		}
	}
	at := strings.IndexAny(text, "({") + 1
	if lost.Len() == 0 || at == 0 {
		return text
	}
	return text[:at] + "\n" + lost.String() + text[at:]
}

// isForeign reports whether a function is of another library.
func (s *source) isForeign(fun ast.Expr) bool {
	key, _ := s.keyOf(fun)
	return key != ""
}

// requestOf returns the request that belongs to arguments: that of the function that has them as a parameter, or none.
func (s *source) requestOf(e ast.Expr) string {
	if name, ok := s.requests[s.objectOf(e)]; ok {
		return name
	}
	return "nil"
}

func (s *source) rewriteNode(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.Ident:
		text, ok := s.renamed[s.info.Uses[n]]
		return text, ok
	case *ast.CallExpr:
		return s.rewriteCall(n)
	case *ast.CompositeLit:
		return s.rewriteLiteral(n, false)
	case *ast.UnaryExpr:
		if lit, ok := n.X.(*ast.CompositeLit); ok && n.Op == token.AND {
			return s.rewriteLiteral(lit, true)
		}
	case *ast.StarExpr:
		return s.rewritePointer(n)
	case *ast.SelectorExpr:
		return s.rewriteSelector(n)
	case *ast.IndexListExpr:
		return s.rewriteHandlerType(n)
	case *ast.TypeAssertExpr:
		return s.rewriteAssertion(n)
	case *ast.BinaryExpr:
		return s.rewriteComparison(n)
	case *ast.Field:
		return s.rewriteParameter(n)
	case *ast.FieldList:
		if text, ok := s.rewriteHandlerParams(n); ok {
			return text, true
		}
		return s.rewriteResults(n)
	case *ast.ReturnStmt:
		return s.rewriteReturn(n)
	case *ast.AssignStmt:
		return s.rewriteAssignment(n)
	}
	return "", false
}

func (s *source) rewriteCall(call *ast.CallExpr) (string, bool) {
	key, receiver := s.keyOf(call.Fun)
	if key == "" {
		return s.rewriteNext(call)
	}
	if special := s.program.specials[key]; special != nil {
		if text, ok := special(s, call, receiver); ok {
			return text, true
		}
		s.note(call, cmp.Or(rows[key].todo, "rewrite this call of "+plain(key)+" by hand"))
		return "", false
	}
	row, ok := rows[key]
	if !ok || call.Ellipsis.IsValid() && !strings.Contains(row.becomes, "$*") {
		return "", false // the function itself gets the note
	}
	if row.becomes == "" {
		s.note(call, row.todo)
		return "", false
	}
	if s.info.Types[call.Fun].IsType() {
		name, ok := s.expand(row.becomes, nil, nil)
		if strings.HasPrefix(name, "*") {
			name = "(" + name + ")"
		}
		return name + "(" + s.newText(call.Args[0]) + ")", ok
	}
	text, ok := s.expand(row.becomes, receiver, call.Args)
	if ok && call.Ellipsis.IsValid() {
		text = strings.TrimSuffix(text, ")") + "...)"
	}
	if !ok {
		s.note(call, "rewrite this call of "+plain(key)+" by hand")
	}
	return text, ok
}

// plain returns a key for people.
func plain(key string) string { return strings.TrimPrefix(key, "sdk:") }

// owners are the types whose methods and fields are all in the tables. One that is not gets a note.
var owners = map[string]bool{
	"server.MCPServer": true, "server.StdioServer": true, "server.StreamableHTTPServer": true, "server.SSEServer": true,
	"mcp.ReadResourceRequest": true, "mcp.GetPromptRequest": true,
	"sdk:mcp.Server": true, "sdk:mcp.CallToolRequest": true, "sdk:mcp.ReadResourceRequest": true, "sdk:mcp.GetPromptRequest": true,
	"sdk:mcp.ServerSession": true,
}

func (s *source) rewriteSelector(sel *ast.SelectorExpr) (string, bool) {
	key, receiver := s.keyOf(sel)
	if key == "" {
		return "", false
	}
	row, known := rows[key]
	called := false
	if call, ok := s.parents[sel].(*ast.CallExpr); ok {
		called = call.Fun == sel
	}
	switch {
	case known && row.becomes != "" && !called:
		if text, ok := s.expand(row.becomes, receiver, nil); ok {
			return text, true
		}
		s.note(sel, "rewrite this use of "+plain(key)+" by hand")
	case known && row.todo != "":
		s.note(sel, row.todo)
	case known, s.program.specials[key] != nil:
	case isOption(key):
		s.note(sel, "options are fields of a struct: server.Options, streamable.Options or streamable.ServeOptions")
	case receiver == nil:
		s.note(sel, plain(key)+" has no counterpart that dovetail migrate knows")
	case owners[strings.TrimLeft(keyOfType(s.info.TypeOf(receiver)), "*")]:
		s.note(sel, plain(key)+" has no counterpart that dovetail migrate knows")
	}
	return "", false
}

// rewritePointer rewrites pointer types that become values, and does not double the star of values that become pointers.
func (s *source) rewritePointer(star *ast.StarExpr) (string, bool) {
	key := keyOfType(s.info.TypeOf(star))
	if key == "" || !s.info.Types[star].IsType() {
		return "", false
	}
	if row, ok := rows[key]; ok && row.becomes != "" {
		return s.expand(row.becomes, nil, nil)
	}
	if row, ok := rows[key[1:]]; ok && strings.HasPrefix(row.becomes, "*") {
		return s.expand(row.becomes, nil, nil)
	}
	return "", false
}

// rewriteLiteral rewrites a composite literal, with the & in front of it if there is one.
func (s *source) rewriteLiteral(lit *ast.CompositeLit, address bool) (string, bool) {
	t := s.info.TypeOf(lit)
	pointer := address
	if p, ok := types.Unalias(t).(*types.Pointer); ok { // the type is left out in a list of pointers
		t, pointer = p.Elem(), true
	}
	key := keyOfType(t)
	if key == "" || strings.HasPrefix(key, "*") {
		return "", false
	}
	if special := s.program.literals[key]; special != nil {
		if text, ok := special(s, lit); ok {
			return text, true
		}
		s.note(lit, "rewrite this "+plain(key)+" by hand")
		return "", false
	}
	row, ok := rows[key]
	if !ok || row.becomes == "" {
		return "", false
	}
	name := ""
	if lit.Type != nil {
		var expanded bool
		if name, expanded = s.expand(row.becomes, nil, nil); !expanded {
			return "", false
		}
		if _, value := rows["*"+key]; value {
			pointer = false
		}
		if strings.HasPrefix(name, "*") {
			name, pointer = name[1:], true
		}
		if pointer {
			name = "&" + name
		}
	}
	return name + s.elements(lit, key), true
}

// elements returns the braces of a literal and what is in them.
func (s *source) elements(lit *ast.CompositeLit, key string) string {
	var edits []edit
	for i, element := range lit.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		name, ok := pair.Key.(*ast.Ident)
		if !ok {
			continue
		}
		row, ok := rows[key+"{"+name.Name+"}"]
		if !ok || strings.Contains(row.becomes, "@compat.JSON") && isJSON(s.info.TypeOf(pair.Value)) {
			continue
		}
		if row.todo != "" {
			s.note(pair, row.todo)
			continue
		}
		if text, ok := s.expand(row.becomes, nil, []ast.Expr{pair.Value}); ok && text != "" {
			edits = append(edits, edit{s.offset(pair.Pos()), s.offset(pair.End()), text})
			continue
		}
		end := lit.Rbrace
		if i+1 < len(lit.Elts) {
			end = lit.Elts[i+1].Pos()
		}
		edits = append(edits, edit{s.offset(pair.Pos()), s.offset(end), ""})
	}
	ast.Inspect(lit, func(inner ast.Node) bool {
		if inner == nil || inner == ast.Node(lit) || inner == ast.Node(lit.Type) {
			return inner == ast.Node(lit)
		}
		for _, e := range edits {
			if e.from <= s.offset(inner.Pos()) && s.offset(inner.End()) <= e.to {
				return false
			}
		}
		text, ok := s.rewrite(inner)
		if ok {
			edits = append(edits, edit{s.offset(inner.Pos()), s.offset(inner.End()), text})
		}
		return !ok
	})
	return s.splice(s.offset(lit.Lbrace), s.offset(lit.Rbrace)+1, edits)
}

// isJSON reports whether a type is json.RawMessage.
func isJSON(t types.Type) bool {
	return types.TypeString(t, nil) == "encoding/json.RawMessage"
}

// twoParameters are parameters that become a request and its arguments, with the type of the latter.
var twoParameters = map[string]string{
	"mcp.CallToolRequest":       "@compat.Arguments",
	"*mcp.CallToolRequest":      "@compat.Arguments",
	"mcp.GetPromptRequest":      "map[string]string",
	"*sdk:mcp.GetPromptRequest": "map[string]string",
}

func (s *source) rewriteParameter(field *ast.Field) (string, bool) {
	signature, ok := s.parents[s.parents[field]].(*ast.FuncType)
	if !ok || signature.Params != s.parents[field] {
		return "", false
	}
	arguments, ok := twoParameters[keyOfType(s.info.TypeOf(field.Type))]
	if !ok {
		return "", false
	}
	request, _ := s.expand("*@server.Request", nil, nil)
	arguments, _ = s.expand(arguments, nil, nil)
	if len(field.Names) == 0 {
		return request + ", " + arguments, true
	}
	var params []string
	for _, name := range field.Names {
		first := "_"
		if known, ok := s.requests[s.info.Defs[name]]; ok {
			first = known
		}
		params = append(params, first+" "+request, name.Name+" "+arguments)
	}
	return strings.Join(params, ", "), true
}

// nameRequests chooses the names of requests that come before their arguments.
func (s *source) nameRequests() {
	s.requests = make(map[types.Object]string)
	ast.Inspect(s.file, func(n ast.Node) bool {
		var signature *ast.FuncType
		switch n := n.(type) {
		case *ast.FuncDecl:
			signature = n.Type
		case *ast.FuncLit:
			signature = n.Type
		default:
			return true
		}
		for _, field := range signature.Params.List {
			if _, two := twoParameters[keyOfType(s.info.TypeOf(field.Type))]; !two {
				continue
			}
			for _, name := range field.Names {
				if obj := s.info.Defs[name]; obj != nil && name.Name != "_" {
					s.requests[obj] = unusedName(n, "r", "call", "mcpRequest")
				}
			}
		}
		return true
	})
}

// unusedName returns the first name that is not in a node, or the last.
func unusedName(n ast.Node, names ...string) string {
	used := make(map[string]bool)
	ast.Inspect(n, func(inner ast.Node) bool {
		if id, ok := inner.(*ast.Ident); ok {
			used[id.Name] = true
		}
		return true
	})
	for _, name := range names {
		if !used[name] {
			return name
		}
	}
	return names[len(names)-1]
}

// rewriteComparison leaves out comparisons of the parameters of a request of go-sdk with nil: they always exist.
func (s *source) rewriteComparison(binary *ast.BinaryExpr) (string, bool) {
	request := func(e ast.Expr, op token.Token) ast.Expr { // the request whose parameters are compared
		compared, ok := e.(*ast.BinaryExpr)
		if !ok || compared.Op != op || !isNil(compared.Y) {
			return nil
		}
		sel, ok := compared.X.(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != "Params" || !owners[strings.TrimLeft(keyOfType(s.info.TypeOf(sel.X)), "*")] {
			return nil
		}
		return sel.X
	}
	switch binary.Op {
	case token.LOR, token.LAND:
		op := token.EQL
		if binary.Op == token.LAND {
			op = token.NEQ
		}
		if request(binary.Y, op) != nil {
			return s.newText(binary.X), true
		}
		if request(binary.X, op) != nil {
			return s.newText(binary.Y), true
		}
	case token.EQL, token.NEQ:
		if r := request(binary, binary.Op); r != nil {
			return s.newText(r) + " " + binary.Op.String() + " nil", true
		}
	}
	return "", false
}

// rewriteAssertion rewrites request.Params.Arguments.(map[string]any): the arguments have that type.
func (s *source) rewriteAssertion(assertion *ast.TypeAssertExpr) (string, bool) {
	key, receiver := s.keyOf(assertion.X)
	if key != "mcp.CallToolRequest.Params.Arguments" || assertion.Type == nil || s.info.TypeOf(assertion.Type).String() != "map[string]interface{}" && s.info.TypeOf(assertion.Type).String() != "map[string]any" {
		return "", false
	}
	text := "map[string]any(" + s.newText(receiver) + ")"
	if assign, ok := s.parents[assertion].(*ast.AssignStmt); ok && len(assign.Lhs) == 2 && len(assign.Rhs) == 1 {
		text += ", true"
	}
	return text, true
}

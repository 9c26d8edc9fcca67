package migrate

import (
	"cmp"
	"go/ast"
	"go/types"
	"slices"
	"strings"
)

// A middleware of go-sdk has the parameters method and request, which are one *mcp.Call here.
type middlewares struct {
	renamed map[types.Object]string      // what becomes of the two parameters
	added   map[*ast.CallExpr][]ast.Expr // the middleware of servers, by the call that makes the server
}

func (s *source) findMiddleware() {
	s.renamed, s.added = make(map[types.Object]string), make(map[*ast.CallExpr][]ast.Expr)
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			s.nameCall(n, n.Type)
		case *ast.FuncLit:
			s.nameCall(n, n.Type)
		case *ast.ExprStmt:
			s.findAdded(n)
		}
		return true
	})
}

// isMethodHandler reports whether parameters are those of a mcp.MethodHandler of go-sdk.
func (s *source) isMethodHandler(params *ast.FieldList) bool {
	var kinds []string
	for _, field := range params.List {
		t := s.info.TypeOf(field.Type)
		for range max(1, len(field.Names)) {
			kinds = append(kinds, cmp.Or(keyOfType(t), types.TypeString(t, nil)))
		}
	}
	return slices.Equal(kinds, []string{"context.Context", "string", "sdk:mcp.Request"})
}

// nameCall chooses the name of the call of a method handler.
func (s *source) nameCall(n ast.Node, signature *ast.FuncType) {
	if !s.isMethodHandler(signature.Params) {
		return
	}
	name := unusedName(n, "call", "c", "mcpCall")
	for i, field := range signature.Params.List[1:] {
		for _, id := range field.Names {
			if obj := s.info.Defs[id]; obj != nil && id.Name != "_" {
				s.renamed[obj] = []string{name + ".Method()", name}[i]
			}
		}
	}
}

// rewriteHandlerParams rewrites the parameters of a method handler.
func (s *source) rewriteHandlerParams(params *ast.FieldList) (string, bool) {
	signature, ok := s.parents[params].(*ast.FuncType)
	if !ok || signature.Params != params || !s.isMethodHandler(params) {
		return "", false
	}
	call := "*" + s.use("mcp") + ".Call"
	names := params.List[0].Names
	if len(names) == 0 {
		return "(" + s.use("context") + ".Context, " + call + ")", true
	}
	name := "_"
	for _, field := range params.List[1:] {
		for _, id := range field.Names {
			if text := s.renamed[s.info.Defs[id]]; text != "" && len(s.usesOf(s.info.Defs[id])) > 0 {
				name = strings.TrimSuffix(text, ".Method()")
			}
		}
	}
	return "(" + names[0].Name + " " + s.newText(params.List[0].Type) + ", " + name + " " + call + ")", true
}

// rewriteNext rewrites a call of a method handler.
func (s *source) rewriteNext(call *ast.CallExpr) (string, bool) {
	if len(call.Args) != 3 || keyOfType(s.info.TypeOf(call.Fun)) != "sdk:mcp.MethodHandler" {
		return "", false
	}
	if s.renamed[s.objectOf(call.Args[1])] == "" {
		s.note(call, "the method of this call is left out: a handler gets an *mcp.Call")
	}
	return s.newText(call.Fun) + "(" + s.newText(call.Args[0]) + ", " + s.newText(call.Args[2]) + ")", true
}

// findAdded finds middleware that is added to a server in the function that makes it: it moves into the options.
func (s *source) findAdded(stmt *ast.ExprStmt) {
	call, ok := stmt.X.(*ast.CallExpr)
	if !ok || call.Ellipsis.IsValid() {
		return
	}
	key, receiver := s.keyOf(call.Fun)
	if key != "sdk:mcp.Server.AddReceivingMiddleware" {
		return
	}
	made := s.definition(s.objectOf(receiver))
	if made == nil || s.parents[s.statement(made)] != s.parents[stmt] {
		return
	}
	if key, _ := s.keyOf(made.Fun); key != "sdk:mcp.NewServer" {
		return
	}
	if !isLiteral(made.Args[1]) {
		return
	}
	exists := true // what the middleware uses is there when the server is made
	for _, arg := range call.Args {
		ast.Inspect(arg, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				if v, ok := s.info.Uses[id].(*types.Var); ok && !v.IsField() && v.Parent() != s.types.Scope() && v.Pos() > s.statement(made).Pos()-1 && v.Pos() < arg.Pos() {
					exists = false
				}
			}
			return true
		})
	}
	if exists {
		s.added[made] = slices.Concat(call.Args, s.added[made]) // what is added later is called earlier
		s.gone[stmt] = true
	}
}

// newServer rewrites NewServer of go-sdk.
func newServer(s *source, call *ast.CallExpr, _ ast.Expr) (string, bool) {
	options := s.newText(call.Args[1])
	if added := s.added[call]; added != nil {
		texts := make([]string, len(added))
		for i, arg := range added {
			texts[i] = s.newText(arg)
		}
		if isNil(call.Args[1]) {
			options = "&" + s.use("server") + ".Options{}"
		}
		at := strings.Index(options, "{") + 1
		options = options[:at] + "\nMiddleware: []" + s.use("mcp") + ".Middleware{" + strings.Join(texts, ", ") + "},\n" + strings.TrimPrefix(options[at:], "\n")
	}
	return s.use("server") + ".New(" + s.newText(call.Args[0]) + ", " + options + ")", true
}

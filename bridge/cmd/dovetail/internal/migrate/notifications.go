package migrate

import (
	"go/ast"
	"go/token"
)

// literalOf returns the literal in an argument of the form &T{Name: value}, where key is the name of T in the tables. It returns nil for
// any other argument.
func (s *source) literalOf(arg ast.Expr, key string) *ast.CompositeLit {
	address, ok := arg.(*ast.UnaryExpr)
	if !ok || address.Op != token.AND {
		return nil
	}
	lit, ok := address.X.(*ast.CompositeLit)
	if !ok || keyOfType(s.info.TypeOf(lit)) != key {
		return nil
	}
	for _, element := range lit.Elts {
		if _, ok := element.(*ast.KeyValueExpr); !ok {
			return nil
		}
	}
	return lit
}

// member returns the new text of a field in a literal, or zero if the literal does not have it.
func (s *source) member(lit *ast.CompositeLit, name, zero string) string {
	if value := field(lit, name); value != nil {
		return s.newText(value)
	}
	return zero
}

// notifyProgress rewrites a notification of progress. The progress token belongs to the request here.
func notifyProgress(s *source, call *ast.CallExpr, request ast.Expr) (string, bool) {
	params := s.literalOf(call.Args[1], "sdk:mcp.ProgressNotificationParams")
	if params == nil || field(params, "Meta") != nil {
		return "", false
	}
	return s.newText(request) + ".Progress(" + s.newText(call.Args[0]) + ", " +
		s.member(params, "Progress", "0") + ", " + s.member(params, "Total", "0") + ", " + s.member(params, "Message", `""`) + ")", true
}

// newLoggingHandler rewrites the handler of a logger that sends to the session of a request.
func newLoggingHandler(s *source, call *ast.CallExpr, _ ast.Expr) (string, bool) {
	key, request := s.keyOf(call.Args[0])
	if key != "sdk:mcp.CallToolRequest.Session" {
		return "", false
	}
	name := `""`
	if !isNil(call.Args[1]) {
		options := s.literalOf(call.Args[1], "sdk:mcp.LoggingHandlerOptions")
		if options == nil || field(options, "MinInterval") != nil {
			return "", false
		}
		name = s.member(options, "LoggerName", name)
	}
	return s.newText(request) + ".Logger(" + name + ").Handler()", true
}

// resourceUpdated rewrites a notification if its error is ignored, since ResourceUpdated here returns none.
func resourceUpdated(s *source, call *ast.CallExpr, receiver ast.Expr) (string, bool) {
	params := s.literalOf(call.Args[1], "sdk:mcp.ResourceUpdatedNotificationParams")
	if params == nil || field(params, "URI") == nil || field(params, "Meta") != nil || !ignoresResult(s.parents[call]) {
		return "", false
	}
	return s.newText(receiver) + ".ResourceUpdated(" + s.member(params, "URI", "") + ")", true
}

// ignoresResult reports whether a statement calls a function only for its effect.
func ignoresResult(statement ast.Node) bool {
	switch statement := statement.(type) {
	case *ast.ExprStmt:
		return true
	case *ast.AssignStmt:
		if len(statement.Lhs) == 1 {
			blank, ok := statement.Lhs[0].(*ast.Ident)
			return ok && blank.Name == "_"
		}
	}
	return false
}

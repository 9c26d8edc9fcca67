package migrate

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// A connections is how a file connects clients to servers, which tests do most. With go-sdk, both ends of a pair of
// transports are connected, and the server has a session too. With mcp-go, a client is made, started and initialized.
// Here client.Connect does all of that, so other statements are left out.
type connections struct {
	gone    map[ast.Node]bool                  // statements that are left out
	servers map[types.Object]ast.Expr          // servers in memory, by the variable of the client's transport
	inlined map[types.Object]*ast.CallExpr     // clients of go-sdk that are connected once, by variable
	started map[*ast.CallExpr]start            // clients of mcp-go, by the call that makes them
	names   map[types.Object][]*ast.AssignStmt // what sets the name in a request of mcp-go, by the request's variable
}

// A start is how a client of mcp-go is started and initialized.
type start struct {
	ctx  ast.Expr
	info ast.Expr // or nil
}

func (s *source) findConnections() {
	s.gone, s.servers, s.inlined = make(map[ast.Node]bool), make(map[types.Object]ast.Expr), make(map[types.Object]*ast.CallExpr)
	s.started, s.names = make(map[*ast.CallExpr]start), make(map[types.Object][]*ast.AssignStmt)
	ast.Inspect(s.file, func(n ast.Node) bool {
		assign, ok := n.(*ast.AssignStmt)
		if !ok {
			return true
		}
		if key, receiver := s.keyOf(assign.Lhs[0]); key == "mcp.CallToolRequest.Params.Name" || key == "mcp.GetPromptRequest.Params.Name" {
			obj := s.objectOf(receiver)
			s.names[obj] = append(s.names[obj], assign)
		}
		if len(assign.Rhs) != 1 {
			return true
		}
		call, ok := assign.Rhs[0].(*ast.CallExpr)
		if !ok {
			return true
		}
		switch key, _ := s.keyOf(call.Fun); key {
		case "sdk:mcp.NewInMemoryTransports":
			s.findPipe(assign)
		case "sdk:mcp.NewClient":
			uses := s.usesOf(s.objectOf(assign.Lhs[0]))
			if assign.Tok == token.DEFINE && len(uses) == 1 && isLiteral(call.Args[1]) && s.connects(s.parents[s.parents[uses[0]]]) {
				s.inlined[s.objectOf(assign.Lhs[0])], s.gone[assign] = call, true
			}
		case "client.NewInProcessClient", "client.NewStdioMCPClient", "client.NewStreamableHttpClient", "client.NewSSEMCPClient":
			s.findStart(assign, call)
		}
		return true
	})
}

// findPipe finds the two ends of a pair of transports, and leaves out the pair and the session of the server.
func (s *source) findPipe(pair *ast.AssignStmt) {
	gone := make(map[ast.Node]bool)
	var server ast.Expr
	var dialed types.Object
	for _, end := range pair.Lhs {
		obj := s.objectOf(end)
		uses := s.usesOf(obj)
		if obj == nil || len(uses) != 1 {
			return
		}
		call, ok := s.parents[uses[0]].(*ast.CallExpr)
		if !ok {
			return
		}
		switch key, receiver := s.keyOf(call.Fun); key {
		case "sdk:mcp.Client.Connect":
			if s.connects(call) {
				dialed = obj
			}
		case "sdk:mcp.Server.Connect", "sdk:mcp.Server.Run":
			if !s.leaveOut(call, gone) {
				return
			}
			server = receiver
		}
	}
	if server == nil || dialed == nil {
		return
	}
	s.servers[dialed], s.gone[pair] = server, true
	for n := range gone {
		s.gone[n] = true
	}
}

// findStart finds how a client of mcp-go is started and initialized, and leaves that out.
func (s *source) findStart(assign *ast.AssignStmt, made *ast.CallExpr) {
	gone := make(map[ast.Node]bool)
	var of start
	for _, use := range s.usesOf(s.objectOf(assign.Lhs[0])) {
		sel, ok := s.parents[use].(*ast.SelectorExpr)
		if !ok {
			continue
		}
		call, ok := s.parents[sel].(*ast.CallExpr)
		if !ok {
			continue
		}
		switch key, _ := s.keyOf(sel); key {
		case "client.Client.Start":
			if !s.leaveOut(call, gone) {
				return
			}
			of.ctx = call.Args[0]
		case "client.Client.Initialize":
			if !s.leaveOut(call, gone) {
				return
			}
			of.ctx = call.Args[0]
			if of.info, ok = s.initialization(call.Args[1], gone); !ok {
				return
			}
		}
	}
	key, _ := s.keyOf(made.Fun)
	hasOptions := len(made.Args) > 1 && key != "client.NewStdioMCPClient"
	if of.ctx == nil || hasOptions || made.Ellipsis.IsValid() {
		return
	}
	if obj := s.objectOf(of.ctx); obj != nil && obj.Pos() > made.Pos() {
		return // the context does not exist yet
	}
	s.started[made] = of
	for n := range gone {
		s.gone[n] = true
	}
}

// initialization returns the name of the client in the request that initializes it, and leaves out the statements that
// make the request.
func (s *source) initialization(request ast.Expr, gone map[ast.Node]bool) (info ast.Expr, ok bool) {
	inParams := func(lit *ast.CompositeLit) ast.Expr {
		if params, ok := field(lit, "Params").(*ast.CompositeLit); ok {
			return field(params, "ClientInfo")
		}
		return nil
	}
	if lit, ok := request.(*ast.CompositeLit); ok {
		return inParams(lit), true
	}
	obj := s.objectOf(request)
	if obj == nil {
		return nil, false
	}
	for id, defined := range s.info.Defs {
		if defined != obj {
			continue
		}
		switch def := s.statement(id).(type) {
		case *ast.AssignStmt:
			if lit, ok := def.Rhs[0].(*ast.CompositeLit); ok {
				info = inParams(lit)
			}
			gone[def] = true
		case *ast.DeclStmt:
			gone[def] = true
		default:
			return nil, false
		}
	}
	for _, use := range s.usesOf(obj) {
		if use == request {
			continue
		}
		assign, ok := s.statement(use).(*ast.AssignStmt)
		if !ok || len(assign.Lhs) != 1 || assign.Lhs[0].Pos() != use.Pos() {
			return nil, false
		}
		if sel, ok := assign.Lhs[0].(*ast.SelectorExpr); ok && sel.Sel.Name == "ClientInfo" {
			info = assign.Rhs[0]
		}
		gone[assign] = true
	}
	return info, true
}

// usesOf returns the uses of a variable, in their order.
func (s *source) usesOf(obj types.Object) []*ast.Ident {
	var uses []*ast.Ident
	for id, used := range s.info.Uses {
		if obj != nil && used == obj {
			uses = append(uses, id)
		}
	}
	slices.SortFunc(uses, func(a, b *ast.Ident) int { return int(a.Pos() - b.Pos()) })
	return uses
}

// connects reports whether a node is a call of Connect that can be rewritten.
func (s *source) connects(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	key, _ := s.keyOf(call.Fun)
	return key == "sdk:mcp.Client.Connect" && isNil(call.Args[2])
}

// isLiteral reports whether an expression is nil or the address of a literal.
func isLiteral(e ast.Expr) bool {
	address, ok := e.(*ast.UnaryExpr)
	if ok {
		_, ok = address.X.(*ast.CompositeLit)
	}
	return ok || isNil(e)
}

// statement returns the innermost statement that contains a node.
func (s *source) statement(n ast.Node) ast.Stmt {
	for ; n != nil; n = s.parents[n] {
		if stmt, ok := n.(ast.Stmt); ok {
			return stmt
		}
	}
	return nil
}

// leaveOut adds what is left out together with a call: its statement, the check of its error, and what uses its other
// result. It returns false if something else needs the call.
func (s *source) leaveOut(call ast.Node, gone map[ast.Node]bool) bool {
	stmt := s.statement(call)
	if assign, ok := stmt.(*ast.AssignStmt); ok {
		for _, left := range assign.Lhs {
			id, ok := left.(*ast.Ident)
			if !ok {
				return false
			}
			obj := s.info.ObjectOf(id)
			switch {
			case id.Name == "_":
			case types.Identical(obj.Type(), types.Universe.Lookup("error").Type()):
				if next := s.next(assign); next != nil && s.checks(next, obj) {
					gone[next] = true
				}
			case s.info.Defs[id] == nil:
				return false
			default:
				for _, use := range s.usesOf(obj) {
					if !s.leaveOut(use, gone) {
						return false
					}
				}
			}
		}
	}
	if branch, ok := s.parents[stmt].(*ast.IfStmt); ok && branch.Init == stmt {
		if branch.Else != nil {
			return false
		}
		stmt = branch
	}
	if _, ok := s.parents[stmt].(*ast.CommClause); ok {
		return false
	}
	if send, ok := stmt.(*ast.SendStmt); ok && !s.leaveOutChannel(send, gone) {
		return false
	}
	switch stmt.(type) {
	case *ast.SendStmt, *ast.AssignStmt, *ast.ExprStmt, *ast.DeferStmt, *ast.GoStmt, *ast.IfStmt:
	default:
		return false
	}
	gone[stmt] = true
	block, ok := s.parents[stmt].(*ast.BlockStmt)
	if !ok {
		return true
	}
	lit, ok := s.parents[block].(*ast.FuncLit)
	if !ok || slices.ContainsFunc(block.List, func(other ast.Stmt) bool { return !gone[other] }) {
		return true
	}
	switch s.statement(lit).(type) { // a function without statements: t.Cleanup(func() {})
	case *ast.ExprStmt, *ast.DeferStmt, *ast.GoStmt:
		gone[s.statement(lit)] = true
	}
	return true
}

// leaveOutChannel adds what waits for the value of a statement, and the channel.
func (s *source) leaveOutChannel(send *ast.SendStmt, gone map[ast.Node]bool) bool {
	channel := s.objectOf(send.Chan)
	if s.definition(channel) == nil {
		return false
	}
	gone[s.statement(s.definition(channel))] = true
	for _, use := range s.usesOf(channel) {
		if s.statement(use) != send && !s.leaveOut(use, gone) {
			return false
		}
	}
	return true
}

// next returns the statement after another one, or nil.
func (s *source) next(stmt ast.Stmt) ast.Stmt {
	block, ok := s.parents[stmt].(*ast.BlockStmt)
	if !ok {
		return nil
	}
	if i := slices.Index(block.List, stmt) + 1; i > 0 && i < len(block.List) {
		return block.List[i]
	}
	return nil
}

// checks reports whether a statement only checks an error, as in if err != nil {…} and require.NoError(t, err).
func (s *source) checks(stmt ast.Stmt, err types.Object) bool {
	switch stmt := stmt.(type) {
	case *ast.IfStmt:
		cond, ok := stmt.Cond.(*ast.BinaryExpr)
		return ok && stmt.Init == nil && stmt.Else == nil && cond.Op == token.NEQ && s.objectOf(cond.X) == err && isNil(cond.Y)
	case *ast.ExprStmt:
		call, ok := stmt.X.(*ast.CallExpr)
		return ok && slices.ContainsFunc(call.Args, func(arg ast.Expr) bool { return s.objectOf(arg) == err })
	}
	return false
}

// dialer returns the new text of the transport of a client.
func (s *source) dialer(e ast.Expr) string {
	if server, ok := s.servers[s.objectOf(e)]; ok {
		return s.use("transport") + ".Pipe(" + s.newText(server) + ")"
	}
	return s.newText(e)
}

// connect rewrites Connect of a client of go-sdk.
func connect(s *source, call *ast.CallExpr, receiver ast.Expr) (string, bool) {
	if !s.connects(call) {
		return "", false
	}
	options := s.newText(receiver)
	made, ok := receiver.(*ast.CallExpr)
	if !ok {
		made = s.inlined[s.objectOf(receiver)]
	}
	if made != nil {
		options, ok = newClient(s, made, nil)
		if !ok {
			return "", false
		}
	}
	return s.use("client") + ".Connect(" + s.newText(call.Args[0]) + ", " + s.dialer(call.Args[1]) + ", " + options + ")", true
}

// newClient rewrites NewClient of go-sdk to the options of a session.
func newClient(s *source, call *ast.CallExpr, _ ast.Expr) (string, bool) {
	info := "Info: " + s.newText(call.Args[0])
	if isNil(call.Args[1]) {
		return "&" + s.use("client") + ".Options{" + info + "}", true
	}
	address, ok := call.Args[1].(*ast.UnaryExpr)
	if !ok {
		return "", false
	}
	lit, ok := address.X.(*ast.CompositeLit)
	if !ok {
		return "", false
	}
	fields := s.elements(lit, "sdk:mcp.ClientOptions")
	return "&" + s.use("client") + ".Options{" + info + ", " + strings.TrimSpace(fields[1:]), true
}

// dial returns the rule for a transport of a client of go-sdk, which has a URL.
func dial(transport string) literal {
	return func(s *source, lit *ast.CompositeLit) (string, bool) {
		url, httpClient := field(lit, "Endpoint"), field(lit, "HTTPClient")
		if url == nil || field(lit, "OAuthHandler") != nil {
			return "", false
		}
		options := "nil"
		if httpClient != nil {
			options = "&" + s.use(transport) + ".DialOptions{HTTPClient: " + s.newText(httpClient) + "}"
		}
		return s.use(transport) + ".Dial(" + s.newText(url) + ", " + options + ")", true
	}
}

// dialCommand rewrites a CommandTransport with exec.Command.
func dialCommand(s *source, lit *ast.CompositeLit) (string, bool) {
	command, ok := field(lit, "Command").(*ast.CallExpr)
	if !ok || len(command.Args) == 0 || command.Ellipsis.IsValid() {
		return "", false
	}
	sel, ok := command.Fun.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != "Command" {
		return "", false
	}
	return s.command(command.Args[0], command.Args[1:], "nil"), true
}

func (s *source) command(path ast.Expr, args []ast.Expr, options string) string {
	list := "nil"
	if len(args) > 0 {
		texts := make([]string, len(args))
		for i, arg := range args {
			texts[i] = s.newText(arg)
		}
		list = "[]string{" + strings.Join(texts, ", ") + "}"
	}
	return s.use("stdio") + ".Command(" + s.newText(path) + ", " + list + ", " + options + ")"
}

// startClient rewrites the functions of mcp-go that make a client.
func startClient(s *source, call *ast.CallExpr, _ ast.Expr) (string, bool) {
	of, ok := s.started[call]
	if !ok {
		return "", false
	}
	var dialer string
	switch key, _ := s.keyOf(call.Fun); key {
	case "client.NewInProcessClient":
		dialer = s.use("transport") + ".Pipe(" + s.newText(call.Args[0]) + ")"
	case "client.NewStdioMCPClient":
		options := "nil"
		if !isNil(call.Args[1]) {
			options = "&" + s.use("stdio") + ".CommandOptions{Env: " + s.newText(call.Args[1]) + "}"
		}
		dialer = s.command(call.Args[0], call.Args[2:], options)
	default:
		name := "streamable"
		if key == "client.NewSSEMCPClient" {
			name = "sse"
		}
		dialer = s.use(name) + ".Dial(" + s.newText(call.Args[0]) + ", nil)"
	}
	options := "nil"
	if of.info != nil {
		options = "&" + s.use("client") + ".Options{Info: " + s.newText(of.info) + "}"
	}
	return s.use("client") + ".Connect(" + s.newText(of.ctx) + ", " + dialer + ", " + options + ")", true
}

// request returns the rule for a method of a client whose parameters are in a struct: method has them as arguments, each a
// field of the struct. The first one is required, and another is nil if it is absent.
func request(method string, names ...string) special {
	return func(s *source, call *ast.CallExpr, receiver ast.Expr) (string, bool) {
		args := []string{s.newText(call.Args[0])}
		for i, name := range names {
			text, ok := s.parameter(call, name)
			if !ok || text == "" && i == 0 {
				return "", false
			}
			if text == "" {
				text = "nil"
			}
			args = append(args, text)
		}
		return s.newText(receiver) + "." + method + "(" + strings.Join(args, ", ") + ", nil)", true
	}
}

// parameter returns the text of one field of the parameters of a call, or "" if the call has none.
func (s *source) parameter(call *ast.CallExpr, name string) (string, bool) {
	params := call.Args[1]
	if address, ok := params.(*ast.UnaryExpr); ok && address.Op == token.AND {
		params = address.X
	}
	lit, ok := params.(*ast.CompositeLit)
	if !ok {
		return s.parameterOf(s.objectOf(params), name, call)
	}
	if inner := field(lit, "Params"); inner != nil { // of mcp-go
		lit, ok = inner.(*ast.CompositeLit)
	}
	if !ok || field(lit, "Meta") != nil {
		return "", false
	}
	value := field(lit, name)
	if value == nil {
		return "", true
	}
	return s.newText(value), true
}

// parameterOf returns the text of a field of the parameters in a variable.
func (s *source) parameterOf(params types.Object, name string, call *ast.CallExpr) (string, bool) {
	if params == nil {
		return "", false
	}
	text := s.newText(call.Args[1])
	switch key := keyOfType(params.Type()); {
	case strings.HasPrefix(key, "*sdk:"):
		return text + "." + name, true
	case name == "Arguments" && (key == "mcp.CallToolRequest" || key == "mcp.GetPromptRequest"):
		return text, true // only the arguments stay of such a request
	case name == "Name":
		var last ast.Expr
		for _, assign := range s.names[params] {
			if assign.Pos() < call.Pos() {
				last = assign.Rhs[0]
			}
		}
		if last == nil {
			return s.definedName(params)
		}
		return s.newText(last), true
	}
	return "", false
}

// definedName returns the name in the literal that a variable with a request is defined with.
func (s *source) definedName(params types.Object) (string, bool) {
	for id, defined := range s.info.Defs {
		if defined != params {
			continue
		}
		if assign, ok := s.statement(id).(*ast.AssignStmt); ok && len(assign.Rhs) == 1 {
			if lit, ok := assign.Rhs[0].(*ast.CompositeLit); ok {
				if inner, ok := field(lit, "Params").(*ast.CompositeLit); ok && field(inner, "Name") != nil {
					return s.newText(field(inner, "Name")), true
				}
			}
		}
	}
	return "", false
}

// list returns the rule for a method of a client that returns one page of a list.
func list(method string) special {
	return func(s *source, call *ast.CallExpr, receiver ast.Expr) (string, bool) {
		if !s.isEmpty(call.Args[1]) {
			return "", false
		}
		return s.expand("@compat.All($r."+method+"($1, nil))", receiver, call.Args)
	}
}

// iterate returns the rule for a method of a client that iterates over a list.
func iterate(method string) special {
	return func(s *source, call *ast.CallExpr, receiver ast.Expr) (string, bool) {
		if !s.isEmpty(call.Args[1]) {
			return "", false
		}
		return s.expand("$r."+method+"($1, nil)", receiver, call.Args)
	}
}

// isEmpty reports whether an expression is nil or an empty literal.
func (s *source) isEmpty(e ast.Expr) bool {
	if address, ok := e.(*ast.UnaryExpr); ok {
		e = address.X
	}
	lit, ok := e.(*ast.CompositeLit)
	return isNil(e) || ok && len(lit.Elts) == 0
}

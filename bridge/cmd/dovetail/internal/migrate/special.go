package migrate

import (
	"go/ast"
	"go/types"
	"strings"
)

// A special rewrites a call that a template cannot. It returns false if the call must be rewritten by hand.
type special func(s *source, call *ast.CallExpr, receiver ast.Expr) (string, bool)

// A literal rewrites a composite literal, in the same way.
type literal func(s *source, lit *ast.CompositeLit) (string, bool)

// specials returns what the tables cannot say, by identifier.
func specials() (map[string]special, map[string]literal) {
	calls := map[string]special{
		"sdk:mcp.NewServer":                  newServer,
		"sdk:mcp.NewStreamableHTTPHandler":   handlerFor("streamable"),
		"sdk:mcp.NewSSEHandler":              handlerFor("sse"),
		"sdk:mcp.Server.Run":                 runServer,
		"sdk:mcp.Server.ResourceUpdated":     resourceUpdated,
		"sdk:mcp.NewLoggingHandler":          newLoggingHandler,
		"sdk:mcp.Server.AddTool":             withParameter("AddTool", "_ @json.RawMessage"),
		"sdk:mcp.Server.AddResourceTemplate": withParameter("AddTemplate", "_ map[string]string"),

		"sdk:mcp.CallToolRequest.Session.NotifyProgress": notifyProgress,

		"sdk:mcp.NewClient":                           newClient,
		"sdk:mcp.Client.Connect":                      connect,
		"sdk:mcp.ClientSession.CallTool":              request("CallTool", "Name", "Arguments"),
		"sdk:mcp.ClientSession.GetPrompt":             request("GetPrompt", "Name", "Arguments"),
		"sdk:mcp.ClientSession.ReadResource":          request("ReadResource", "URI"),
		"sdk:mcp.ClientSession.ListTools":             list("Tools"),
		"sdk:mcp.ClientSession.ListPrompts":           list("Prompts"),
		"sdk:mcp.ClientSession.ListResources":         list("Resources"),
		"sdk:mcp.ClientSession.ListResourceTemplates": list("Templates"),
		"sdk:mcp.ClientSession.Tools":                 iterate("Tools"),
		"sdk:mcp.ClientSession.Prompts":               iterate("Prompts"),
		"sdk:mcp.ClientSession.Resources":             iterate("Resources"),
		"sdk:mcp.ClientSession.ResourceTemplates":     iterate("Templates"),

		"client.NewInProcessClient":           startClient,
		"client.NewStdioMCPClient":            startClient,
		"client.NewStreamableHttpClient":      startClient,
		"client.NewSSEMCPClient":              startClient,
		"client.Client.CallTool":              request("CallTool", "Name", "Arguments"),
		"client.Client.GetPrompt":             request("GetPrompt", "Name", "Arguments"),
		"client.Client.ReadResource":          request("ReadResource", "URI"),
		"client.Client.ListTools":             list("Tools"),
		"client.Client.ListPrompts":           list("Prompts"),
		"client.Client.ListResources":         list("Resources"),
		"client.Client.ListResourceTemplates": list("Templates"),

		"server.NewMCPServer":                  newMCPServer,
		"server.MCPServer.AddResourceTemplate": withParameter("AddTemplate", "_ map[string]string"),
		"server.StdioServer.Listen":            listen,
		"server.NewStreamableHTTPServer":       newHTTPServer,
		"server.NewSSEServer":                  newHTTPServer,
		"server.StreamableHTTPServer.Start":    startHTTPServer,
		"server.SSEServer.Start":               startHTTPServer,
		"server.NewTestServer":                 testServer("sse"),
		"server.NewTestStreamableHTTPServer":   testServer("streamable"),
		"mcp.NewTool":                          newTool,
		"mcp.NewToolWithRawSchema":             newRawTool,
		"mcp.NewPrompt":                        newPrompt,
		"mcp.NewResource":                      newResource,
		"mcp.NewResourceTemplate":              newResource,
		"mcp.NewImageContent":                  binaryContent("Image"),
		"mcp.NewAudioContent":                  binaryContent("Audio"),
		"mcp.NewToolResultImage":               imageResult,
	}
	literals := map[string]literal{
		"sdk:mcp.StreamableClientTransport": dial("streamable"),
		"sdk:mcp.SSEClientTransport":        dial("sse"),
		"sdk:mcp.CommandTransport":          dialCommand,
		"sdk:mcp.ResourceContents":          contentsLiteral,
		"sdk:mcp.Meta":                      metaLiteral,
		"sdk:mcp.CallToolRequest":           requestOfTest,
		"sdk:mcp.ReadResourceRequest":       requestOfTest,
		"mcp.ReadResourceRequest":           requestOfTest,
		"sdk:mcp.GetPromptRequest":          requestLiteral("map[string]string"),
		"mcp.GetPromptRequest":              requestLiteral("map[string]string"),
		"mcp.CallToolRequest":               requestLiteral("@compat.Arguments"),
		"mcp.ImageContent":                  binaryLiteral("Data"),
		"mcp.AudioContent":                  binaryLiteral("Data"),
		"mcp.BlobResourceContents":          binaryLiteral("Blob"),
		"mcp.ToolInputSchema":               schemaLiteral,
	}
	return calls, literals
}

// withParameter returns the rule for a registration whose function gets one parameter more here.
func withParameter(name, parameter string) special {
	return func(s *source, call *ast.CallExpr, receiver ast.Expr) (string, bool) {
		parameter, _ := s.expand(parameter, nil, nil)
		start := s.use("server") + "." + name + "(" + s.newText(receiver) + ", " + s.newText(call.Args[0]) + ", "
		if lit, ok := call.Args[1].(*ast.FuncLit); ok {
			text := s.newText(lit)
			at := strings.Index(text, ")") // the end of the parameters, which have no parentheses
			if params := lit.Type.Params.List; len(params) > 0 && len(params[0].Names) == 0 {
				parameter = strings.TrimPrefix(parameter, "_ ")
			}
			return start + text[:at] + ", " + parameter + text[at:] + ")", true
		}
		ctx, request := unusedName(call.Args[1], "ctx", "callContext"), unusedName(call.Args[1], "r", "call", "mcpRequest")
		results := s.info.TypeOf(call.Args[1]).Underlying().(*types.Signature).Results().At(0).Type()
		of := "[]" + s.use("mcp") + ".ResourceContents"
		if pointer, ok := types.Unalias(results).(*types.Pointer); ok {
			of = "*" + s.use("mcp") + "." + types.Unalias(pointer.Elem()).(*types.Named).Obj().Name()
		}
		return start + "func(" + ctx + " " + s.use("context") + ".Context, " + request + " *" + s.use("server") + ".Request, " + parameter + ") (" + of + ", error) { return " + s.newText(call.Args[1]) + "(" + ctx + ", " + request + ") })", true
	}
}

// handlerFor returns the rule for an HTTP handler with a function that returns the server.
func handlerFor(transport string) special {
	return func(s *source, call *ast.CallExpr, _ ast.Expr) (string, bool) {
		factory, ok := call.Args[0].(*ast.FuncLit)
		if !ok || len(factory.Body.List) != 1 {
			return "", false
		}
		ret, ok := factory.Body.List[0].(*ast.ReturnStmt)
		if !ok || len(ret.Results) != 1 {
			return "", false
		}
		if !isVariable(ret.Results[0]) {
			return "", false // a server for each session
		}
		return s.use(transport) + ".Handler(" + s.newText(ret.Results[0]) + ", " + s.newText(call.Args[1]) + ")", true
	}
}

// isVariable reports whether an expression is a variable or a field of one.
func isVariable(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return true
	case *ast.SelectorExpr:
		return isVariable(e.X)
	}
	return false
}

func runServer(s *source, call *ast.CallExpr, receiver ast.Expr) (string, bool) {
	address, ok := call.Args[1].(*ast.UnaryExpr)
	if !ok || keyOfType(s.info.TypeOf(address.X)) != "sdk:mcp.StdioTransport" {
		return "", false
	}
	return s.expand("@stdio.Serve($1, $r, nil)", receiver, call.Args)
}

// serverOptions are the options of NewMCPServer. Those without a template are not needed here.
var serverOptions = map[string]string{
	"server.WithInstructions": "Instructions: $1", "server.WithPaginationLimit": "PageSize: $1", "server.WithLogger": "Logger: $1",
	"server.WithToolCapabilities": "", "server.WithResourceCapabilities": "", "server.WithPromptCapabilities": "",
	"server.WithLogging": "", "server.WithRecovery": "", "server.WithResourceRecovery": "", "server.WithElicitation": "",
	"server.WithRoots": "", "server.WithCompletions": "", "server.WithInputSchemaValidation": "",
	"server.WithOutputSchemaValidation": "", "server.WithStrictInputSchemaDefault": "",
}

// isOption reports whether a function makes an option of a server.
func isOption(key string) bool {
	_, ofServer := serverOptions[key]
	_, ofHTTP := httpOptions[key]
	return ofServer || ofHTTP
}

func newMCPServer(s *source, call *ast.CallExpr, _ ast.Expr) (string, bool) {
	options := "nil"
	if fields := s.optionFields(call.Args[2:], serverOptions); fields != "" {
		options = "&" + s.use("server") + ".Options{" + fields + "}"
	}
	return s.use("server") + ".New(" + s.use("mcp") + ".Implementation{Name: " + s.newText(call.Args[0]) + ", Version: " + s.newText(call.Args[1]) + "}, " + options + ")", true
}

// optionFields returns the fields of a struct that calls of options become, by the templates in a table. An option that
// is not in the table gets a note.
func (s *source) optionFields(options []ast.Expr, templates map[string]string) string {
	var fields []string
	for _, option := range options {
		key, made := s.option(option)
		template, ok := templates[key]
		if !ok {
			s.note(option, s.optionNote(option, key))
			continue
		}
		if template != "" {
			field, _ := s.expand(template, nil, made.Args)
			fields = append(fields, field)
		}
	}
	return strings.Join(fields, ", ")
}

// option returns the function that makes an option, and its call.
func (s *source) option(e ast.Expr) (key string, call *ast.CallExpr) {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return "", nil
	}
	key, _ = s.keyOf(call.Fun)
	return key, call
}

// optionNote says what became of an option that is left out.
func (s *source) optionNote(option ast.Expr, key string) string {
	if call, ok := s.parents[option].(*ast.CallExpr); ok && call.Ellipsis.IsValid() {
		return "the options in " + string(s.text[s.offset(option.Pos()):s.offset(option.End())]) + " are left out: they are fields of a struct"
	}
	text := "left out: " + strings.Join(strings.Fields(string(s.text[s.offset(option.Pos()):s.offset(option.End())])), " ")
	if row := rows[key]; row.todo != "" {
		text += "; " + row.todo
	}
	return text
}

func listen(s *source, call *ast.CallExpr, receiver ast.Expr) (string, bool) {
	text := func(i int) string { return string(s.text[s.offset(call.Args[i].Pos()):s.offset(call.Args[i].End())]) }
	if text(1) == "os.Stdin" && text(2) == "os.Stdout" {
		return s.expand("@stdio.Serve($1, $r, nil)", receiver, call.Args)
	}
	return s.expand("@stdio.Serve($1, $r, &@stdio.ServeOptions{In: $2, Out: $3})", receiver, call.Args)
}

// httpOptions are the options of the HTTP servers, as fields of streamable.ServeOptions.
var httpOptions = map[string]string{
	"server.WithEndpointPath": "Path: $1", "server.WithHeartbeatInterval": "Options: @streamable.Options{KeepAlive: $1}",
	"server.WithStateLess": "", "server.WithStateful": "",
}

// httpServer returns the MCP server and the options of a call of NewStreamableHTTPServer or NewSSEServer.
func (s *source) httpServer(call *ast.CallExpr) (server, fields string) {
	return s.newText(call.Args[0]), s.optionFields(call.Args[1:], httpOptions)
}

func newHTTPServer(s *source, call *ast.CallExpr, _ ast.Expr) (string, bool) {
	server, fields := s.httpServer(call)
	name := "streamable"
	if key, _ := s.keyOf(call.Fun); key == "server.NewSSEServer" {
		name = "sse"
	}
	if fields != "" && !s.onlyStarted(call) {
		s.note(call, "these options belong to streamable.Run and its Options: "+fields)
	}
	return s.use(name) + ".Handler(" + server + ", nil)", true
}

// testServer returns the rule for an HTTP server of a test.
func testServer(transport string) special {
	return func(s *source, call *ast.CallExpr, _ ast.Expr) (string, bool) {
		if len(call.Args) > 1 {
			return "", false
		}
		return s.expand("@net/http/httptest.NewServer(@"+transport+".Handler($1, nil))", nil, call.Args)
	}
}

// onlyStarted reports whether the variable of an HTTP server is used to start it, and for nothing else. Then the
// variable goes.
func (s *source) onlyStarted(call *ast.CallExpr) bool {
	assign, ok := s.parents[call].(*ast.AssignStmt)
	if !ok || len(assign.Lhs) != 1 {
		return false
	}
	obj := s.objectOf(assign.Lhs[0])
	if obj == nil {
		return false
	}
	for id, used := range s.info.Uses {
		if used != obj {
			continue
		}
		sel, ok := s.parents[id].(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != "Start" {
			return false
		}
	}
	return true
}

// startHTTPServer rewrites Start of a server that the same function has made.
func startHTTPServer(s *source, call *ast.CallExpr, receiver ast.Expr) (string, bool) {
	made, ok := receiver.(*ast.CallExpr)
	if !ok {
		made = s.definition(s.objectOf(receiver))
	}
	if made == nil {
		return "", false
	}
	key, _ := s.keyOf(made.Fun)
	switch key {
	case "server.NewStreamableHTTPServer":
		server, fields := s.httpServer(made)
		options := "nil"
		if fields != "" {
			options = "&" + s.use("streamable") + ".ServeOptions{" + fields + "}"
		}
		return s.use("streamable") + ".Run(" + s.newText(call.Args[0]) + ", " + server + ", " + options + ")", true
	case "server.NewSSEServer":
		return s.use("http") + ".ListenAndServe(" + s.newText(call.Args[0]) + ", " + s.newText(receiver) + ")", true
	}
	return "", false
}

// definition returns the call whose result a variable is defined with, or nil.
func (s *source) definition(obj types.Object) *ast.CallExpr {
	for id, defined := range s.info.Defs {
		if obj == nil || defined != obj {
			continue
		}
		if assign, ok := s.parents[id].(*ast.AssignStmt); ok && len(assign.Lhs) == 1 {
			call, _ := assign.Rhs[0].(*ast.CallExpr)
			return call
		}
	}
	return nil
}

// decoded returns the bytes of an expression that is base64 in mcp-go.
func (s *source) decoded(e ast.Expr) string {
	if call, ok := e.(*ast.CallExpr); ok && len(call.Args) == 1 {
		if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "EncodeToString" {
			return s.newText(call.Args[0])
		}
	}
	s.note(e, "the content is bytes here, not base64")
	return s.newText(e)
}

func binaryContent(name string) special {
	return func(s *source, call *ast.CallExpr, _ ast.Expr) (string, bool) {
		return s.use("mcp") + "." + name + "(" + s.decoded(call.Args[0]) + ", " + s.newText(call.Args[1]) + ")", true
	}
}

func imageResult(s *source, call *ast.CallExpr, _ ast.Expr) (string, bool) {
	mcp := s.use("mcp")
	return "&" + mcp + ".CallToolResult{Content: " + mcp + ".ContentList{" + mcp + ".Text(" + s.newText(call.Args[0]) + "), " +
		mcp + ".Image(" + s.decoded(call.Args[1]) + ", " + s.newText(call.Args[2]) + ")}}", true
}

func binaryLiteral(data string) literal {
	return func(s *source, lit *ast.CompositeLit) (string, bool) {
		name, _ := s.expand("&"+strings.TrimPrefix(rows[keyOfType(s.info.TypeOf(lit))].becomes, "*"), nil, nil)
		if lit.Type == nil {
			name = ""
		}
		var edits []edit
		for i, element := range lit.Elts {
			pair, ok := element.(*ast.KeyValueExpr)
			if !ok {
				return "", false
			}
			switch pair.Key.(*ast.Ident).Name {
			case data:
				edits = append(edits, edit{s.offset(pair.Value.Pos()), s.offset(pair.Value.End()), s.decoded(pair.Value)})
			case "Type":
				end := lit.Rbrace
				if i+1 < len(lit.Elts) {
					end = lit.Elts[i+1].Pos()
				}
				edits = append(edits, edit{s.offset(pair.Pos()), s.offset(end), ""})
			default:
				edits = append(edits, edit{s.offset(pair.Value.Pos()), s.offset(pair.Value.End()), s.newText(pair.Value)})
			}
		}
		return name + s.splice(s.offset(lit.Lbrace), s.offset(lit.Rbrace)+1, edits), true
	}
}

// contentsLiteral rewrites the contents of a resource of go-sdk, which are text or a blob.
func contentsLiteral(s *source, lit *ast.CompositeLit) (string, bool) {
	name := "&" + s.use("mcp") + ".TextResourceContents"
	if field(lit, "Blob") != nil {
		name = "&" + s.use("mcp") + ".BlobResourceContents"
	}
	return name + s.elements(lit, "sdk:mcp.ResourceContents"), true
}

// metaLiteral rewrites _meta, which is a map in go-sdk.
func metaLiteral(s *source, lit *ast.CompositeLit) (string, bool) {
	return s.use("mcp") + ".Meta(" + s.use("compat") + ".JSON(map[string]any" + s.elements(lit, "") + "))", true
}

// requestLiteral returns the rule for a request with arguments that a test makes: only the arguments stay.
func requestLiteral(of string) literal {
	return func(s *source, lit *ast.CompositeLit) (string, bool) {
		name, _ := s.expand(of, nil, nil)
		if len(lit.Elts) == 0 {
			return name + "{}", true
		}
		params := field(lit, "Params")
		if address, ok := params.(*ast.UnaryExpr); ok {
			params = address.X
		}
		made, ok := params.(*ast.CompositeLit)
		if !ok || len(lit.Elts) != 1 {
			return "", false
		}
		switch arguments := field(made, "Arguments").(type) {
		case nil:
			return name + "{}", true
		case *ast.CompositeLit:
			return name + s.elements(arguments, ""), true
		default:
			return name + "(" + s.newText(arguments) + ")", true
		}
	}
}

// requestOfTest rewrites a request that a test makes for calling a function.
func requestOfTest(s *source, lit *ast.CompositeLit) (string, bool) {
	if len(lit.Elts) == 0 {
		return "nil", true
	}
	params := field(lit, "Params")
	if address, ok := params.(*ast.UnaryExpr); ok {
		params = address.X
	}
	made, ok := params.(*ast.CompositeLit)
	test := s.testOf(lit)
	if !ok || test == "" || len(lit.Elts) > 1 {
		s.note(lit, "servertest.Request makes a request for a test; or call the tool through a session, see docs/migrate.md#8-a-test-in-memory")
		return "nil", true
	}
	var fields []string
	for _, element := range made.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			return "", false
		}
		template := map[string]string{
			"Name": "Target: &@mcp.Target{Kind: @mcp.KindTool, Name: $1}", "URI": "URI: $1", "Arguments": "Arguments: $1",
		}[pair.Key.(*ast.Ident).Name]
		text, ok := s.expand(template, nil, []ast.Expr{pair.Value})
		if !ok || text == "" {
			return "", false
		}
		fields = append(fields, text)
	}
	servertest := s.use("servertest")
	return servertest + ".Request(" + test + ", &" + servertest + ".RequestOptions{" + strings.Join(fields, ", ") + "})", true
}

// testOf returns the name of the test that a node is in, a *testing.T or the like, or "".
func (s *source) testOf(n ast.Node) string {
	for ; n != nil; n = s.parents[n] {
		var params *ast.FieldList
		switch n := n.(type) {
		case *ast.FuncDecl:
			params = n.Type.Params
		case *ast.FuncLit:
			params = n.Type.Params
		default:
			continue
		}
		for _, field := range params.List {
			switch types.TypeString(s.info.TypeOf(field.Type), nil) {
			case "*testing.T", "*testing.B", "*testing.F", "testing.TB":
				if len(field.Names) == 1 && field.Names[0].Name != "_" {
					return field.Names[0].Name
				}
			}
		}
	}
	return ""
}

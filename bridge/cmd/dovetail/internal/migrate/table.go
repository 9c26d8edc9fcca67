package migrate

// A row says what one identifier of another library becomes. The identifier is
//
//   - PACKAGE.NAME, a function, type, constant or variable; with "sdk:" in front it is one of go-sdk, and else of mcp-go
//   - *PACKAGE.NAME, a pointer to a type, where it is rewritten together with the pointer
//   - PACKAGE.TYPE.METHOD, or PACKAGE.TYPE.FIELD.FIELD
//   - PACKAGE.TYPE.FIELD =, an assignment to the field
//   - PACKAGE.TYPE{FIELD}, a field in a literal
//
// The template becomes is described at expand; without it, or with a todo, a person decides. A type that becomes a
// pointer is one whose values are used through pointers here. A field that becomes "" is left out.
type row struct{ identifier, becomes, todo string }

// rows are the table by identifier.
var rows = byIdentifier(goSDKRows, mcpGoRows)

func byIdentifier(tables ...[]row) map[string]row {
	all := make(map[string]row)
	for _, table := range tables {
		for _, r := range table {
			all[r.identifier] = r
		}
	}
	return all
}

const (
	noSession   = "there are no sessions: *server.Request has Progress, Logger, Caller, Header and SessionID; server.Elicit, Sample and Roots ask the client"
	middleware  = "middleware is Options.Middleware or CallMiddleware, see docs/migrate.md#9-middleware-and-composition"
	hooks       = "hooks are Options.Middleware and OnSession, see docs/migrate.md#9-middleware-and-composition"
	clientCode  = "clients are written by hand, see docs/migrate.md#7-a-client and #8-a-test-in-memory"
	memoryTest  = "a test connects with transport.Pipe(s), see docs/migrate.md#8-a-test-in-memory"
	subscribing = "the server keeps subscriptions; call ResourceUpdated when the resource changes"
	filters     = "what a caller sees is mcp.Guard.Visible in Options.Guards"
	contentType = "the type of content is its Go type"
	metaValue   = "Meta is JSON: use its method Set"
)

var goSDKRows = []row{
	// Servers
	{"sdk:mcp.Server", "@server.Server", ""},
	{"sdk:mcp.NewServer", "@server.New($*)", ""},
	{"sdk:mcp.Implementation", "@mcp.Implementation", ""},
	{"*sdk:mcp.Implementation", "@mcp.Implementation", ""},
	{"sdk:mcp.Icon", "@mcp.Icon", ""},
	{"sdk:mcp.Icon{Source}", "Src: $1", ""},
	{"sdk:mcp.ServerCapabilities", "@mcp.ServerCapabilities", ""},
	{"sdk:mcp.ToolCapabilities", "@mcp.ToolsCapability", ""},
	{"sdk:mcp.PromptCapabilities", "@mcp.PromptsCapability", ""},
	{"sdk:mcp.ResourceCapabilities", "@mcp.ResourcesCapability", ""},
	{"sdk:mcp.ServerOptions", "@server.Options", ""},
	{"sdk:mcp.ServerOptions{HasTools}", "", ""},
	{"sdk:mcp.ServerOptions{HasPrompts}", "", ""},
	{"sdk:mcp.ServerOptions{HasResources}", "", ""},
	{"sdk:mcp.ServerOptions{SchemaCache}", "", ""},
	{"sdk:mcp.ServerOptions{InitializedHandler}", "", "Options.OnSession is called when a client has opened a session"},
	{"sdk:mcp.ServerOptions{CompletionHandler}", "", "a completion belongs to one argument: server.AddCompletion"},
	{"sdk:mcp.ServerOptions{SubscribeHandler}", "", subscribing},
	{"sdk:mcp.ServerOptions{UnsubscribeHandler}", "", subscribing},
	{"sdk:mcp.ServerOptions{KeepAlive}", "", "transports keep connections alive: streamable.Options.KeepAlive"},
	{"sdk:mcp.ServerOptions{RootsListChangedHandler}", "", noSession},
	{"sdk:mcp.ServerOptions{ProgressNotificationHandler}", "", noSession},
	{"sdk:mcp.ServerOptions{GetSessionID}", "", noSession},

	// Registrations
	{"sdk:mcp.AddTool", "@server.AddTool($*)", ""},
	{"sdk:mcp.Server.AddPrompt", "@server.AddPrompt($r, $*)", ""},
	{"sdk:mcp.Server.AddResource", "@server.AddResource($r, $*)", ""},
	{"sdk:mcp.Server.RemoveTools", "$r.Remove(@mcp.KindTool, $*)", ""},
	{"sdk:mcp.Server.RemovePrompts", "$r.Remove(@mcp.KindPrompt, $*)", ""},
	{"sdk:mcp.Server.RemoveResources", "$r.Remove(@mcp.KindResource, $*)", ""},
	{"sdk:mcp.Server.RemoveResourceTemplates", "$r.Remove(@mcp.KindResourceTemplate, $*)", ""},
	{"sdk:mcp.Server.AddReceivingMiddleware", "", middleware},
	{"sdk:mcp.Server.AddSendingMiddleware", "", middleware},
	{"sdk:mcp.Server.ResourceUpdated", "", "ResourceUpdated takes the URI, and returns nothing"},
	{"sdk:mcp.Server.Sessions", "", noSession},
	{"sdk:mcp.Server.Connect", "", memoryTest},
	{"sdk:mcp.Tool", "@server.Tool", ""},
	{"*sdk:mcp.Tool", "@server.Tool", ""},
	{"sdk:mcp.Tool{InputSchema}", "InputSchema: @compat.JSON($1)", ""},
	{"sdk:mcp.Tool{OutputSchema}", "OutputSchema: @compat.JSON($1)", ""},
	{"sdk:mcp.ToolAnnotations", "@mcp.ToolAnnotations", ""},
	{"sdk:mcp.ToolAnnotations{ReadOnlyHint}", "ReadOnlyHint: new($1)", ""},
	{"sdk:mcp.ToolAnnotations{IdempotentHint}", "IdempotentHint: new($1)", ""},
	{"sdk:mcp.Prompt", "@server.Prompt", ""},
	{"*sdk:mcp.Prompt", "@server.Prompt", ""},
	{"sdk:mcp.PromptArgument", "@mcp.PromptArgument", ""},
	{"*sdk:mcp.PromptArgument", "@mcp.PromptArgument", ""},
	{"sdk:mcp.Resource", "@server.Resource", ""},
	{"*sdk:mcp.Resource", "@server.Resource", ""},
	{"sdk:mcp.Resource{Size}", "Size: new(int64($1))", ""},
	{"sdk:mcp.ResourceTemplate", "@server.Template", ""},
	{"*sdk:mcp.ResourceTemplate", "@server.Template", ""},
	{"sdk:mcp.Annotations", "@mcp.Annotations", ""},
	{"sdk:mcp.Annotations{Priority}", "Priority: new(float64($1))", ""},
	{"sdk:mcp.Meta", "", metaValue},

	// Handlers
	{"sdk:mcp.CallToolRequest", "@server.Request", ""},
	{"sdk:mcp.CallToolRequest.Params.Name", "$r.Call().Target().Name", ""},
	{"sdk:mcp.CallToolRequest.Params.Arguments", "$r.Call().Member(\"arguments\")", ""},
	{"sdk:mcp.CallToolRequest.Params.Meta", "", "Request.Meta returns one member of _meta"},
	{"sdk:mcp.CallToolRequest.Session", "", noSession},
	{"sdk:mcp.CallToolRequest.Extra.Header", "$r.Header()", ""},
	{"sdk:mcp.CallToolRequest.Extra.TokenInfo", "", "the authenticated user is Caller().Principal, see docs/migrate.md#10-existing-authentication"},
	{"sdk:mcp.ReadResourceRequest", "@server.Request", ""},
	{"sdk:mcp.ReadResourceRequest.Params.URI", "$r.Call().URI()", ""},
	{"sdk:mcp.ReadResourceRequest.Session", "", noSession},
	{"sdk:mcp.GetPromptRequest.Params.Arguments", "$r", ""},
	{"sdk:mcp.GetPromptRequest.Params.Name", "$c.Call().Target().Name", ""},
	{"sdk:mcp.GetPromptRequest.Session", "", noSession},
	{"sdk:mcp.ServerSession", "", noSession},
	{"sdk:mcp.ToolHandlerFor", "", ""},
	{"sdk:mcp.ToolHandler", "func(@context.Context, *@server.Request) (*@mcp.CallToolResult, error)", ""},
	{"sdk:mcp.ResourceHandler", "func(@context.Context, *@server.Request) (*@mcp.ReadResourceResult, error)", ""},
	{"sdk:mcp.PromptHandler", "func(@context.Context, *@server.Request, map[string]string) (*@mcp.GetPromptResult, error)", ""},
	{"sdk:mcp.MethodHandler", "", middleware},
	{"sdk:mcp.Middleware", "", middleware},

	// Results
	{"sdk:mcp.CallToolResult", "@mcp.CallToolResult", ""},
	{"sdk:mcp.CallToolResult{StructuredContent}", "StructuredContent: @compat.JSON($1)", ""},
	{"sdk:mcp.Content", "@mcp.Content", ""},
	{"sdk:mcp.TextContent", "@mcp.TextContent", ""},
	{"sdk:mcp.ImageContent", "@mcp.ImageContent", ""},
	{"sdk:mcp.AudioContent", "@mcp.AudioContent", ""},
	{"sdk:mcp.ResourceLink", "@mcp.ResourceLink", ""},
	{"sdk:mcp.EmbeddedResource", "@mcp.EmbeddedResource", ""},
	{"sdk:mcp.ReadResourceResult", "@mcp.ReadResourceResult", ""},
	{"*sdk:mcp.ResourceContents", "@mcp.ResourceContents", ""},
	{"sdk:mcp.GetPromptResult", "@mcp.GetPromptResult", ""},
	{"sdk:mcp.PromptMessage", "@mcp.PromptMessage", ""},
	{"*sdk:mcp.PromptMessage", "@mcp.PromptMessage", ""},
	{"sdk:mcp.Role", "@mcp.Role", ""},
	{"sdk:mcp.ResourceNotFoundError", "@mcp.ResourceNotFound($1)", ""},

	// Transports
	{"sdk:mcp.StdioTransport", "", "stdio.Serve(ctx, s, nil) serves standard input and output"},
	{"sdk:mcp.LoggingTransport", "", "the messages of a connection are in jsonrpc.Options.Trace, for example in stdio.ServeOptions.Conn"},
	{"sdk:mcp.NewStreamableHTTPHandler", "", "streamable.Select has a server for each request"},
	{"sdk:mcp.StreamableHTTPOptions", "@streamable.Options", ""},
	{"*sdk:mcp.StreamableHTTPHandler", "@transport/httptransport.Endpoint", ""},
	{"sdk:mcp.StreamableHTTPOptions{Stateless}", "", ""},
	{"sdk:mcp.StreamableHTTPOptions{JSONResponse}", "", ""},
	{"sdk:mcp.StreamableHTTPOptions{EventStore}", "", "server.Options.Store keeps the events of streams"},
	{"sdk:mcp.StreamableHTTPOptions{SessionTimeout}", "", "sessions end by streamable.Options.Limits"},
	{"sdk:mcp.StreamableHTTPOptions{DisableLocalhostProtection}", "", "list the host names in streamable.Options.Hosts"},
	{"sdk:mcp.StreamableHTTPOptions{CrossOriginProtection}", "", "list the origins in streamable.Options.Origins"},
	{"sdk:mcp.StreamableHTTPOptions{MaxRequestBodyBytes}", "", "the size of a request is in streamable.Options.Limits"},
	{"sdk:mcp.StreamableHTTPOptions{PropagateRequestCancellation}", "", ""},

	// Clients and tests
	{"sdk:mcp.NewClient", "", clientCode},
	{"sdk:mcp.Client", "", clientCode},
	{"sdk:mcp.ClientSession", "", clientCode},
	{"sdk:mcp.NewInMemoryTransports", "", memoryTest},
}

var mcpGoRows = []row{
	// Servers
	{"server.MCPServer", "@server.Server", ""},
	{"mcp.Implementation", "@mcp.Implementation", ""},
	{"server.ServerOption", "", "options are the struct server.Options"},
	{"server.WithHooks", "", hooks},
	{"server.Hooks", "", hooks},
	{"mcp.MCPMethod", "", hooks},
	{"server.WithToolFilter", "", filters},
	{"server.WithToolHandlerMiddleware", "", middleware},

	// Registrations
	{"server.MCPServer.AddTool", "@server.AddTool($r, $*)", ""},
	{"server.MCPServer.AddTools", "@compat.AddTools($r, $*)", ""},
	{"server.MCPServer.AddPrompt", "@server.AddPrompt($r, $*)", ""},
	{"server.MCPServer.AddResource", "@server.AddResource($r, $*)", ""},
	{"server.MCPServer.DeleteTools", "$r.Remove(@mcp.KindTool, $*)", ""},
	{"server.MCPServer.DeletePrompts", "$r.Remove(@mcp.KindPrompt, $*)", ""},
	{"server.MCPServer.DeleteResources", "$r.Remove(@mcp.KindResource, $*)", ""},
	{"server.MCPServer.RemoveResource", "$r.Remove(@mcp.KindResource, $*)", ""},
	{"server.ServerTool", "@compat.Tool", ""},
	{"mcp.Tool", "@server.Tool", ""},
	{"mcp.Tool{RawInputSchema}", "InputSchema: $1", ""},
	{"mcp.Tool{RawOutputSchema}", "OutputSchema: $1", ""},
	{"mcp.Tool{InputSchema}", "InputSchema: $1", ""},
	{"mcp.Tool{Annotations}", "Annotations: &$1", ""},
	{"mcp.Tool.Annotations =", "$r.Annotations = &$1", ""},
	{"mcp.Tool.RawInputSchema", "$r.InputSchema", ""},
	{"mcp.ToolAnnotation", "@mcp.ToolAnnotations", ""},
	{"mcp.ToolOption", "", "options are the struct server.Tool"},
	{"mcp.Prompt", "@server.Prompt", ""},
	{"mcp.PromptArgument", "@mcp.PromptArgument", ""},
	{"mcp.Resource", "@server.Resource", ""},
	{"mcp.ResourceTemplate", "@server.Template", ""},
	{"mcp.ToBoolPtr", "new($1)", ""},

	// Handlers
	{"server.ToolHandlerFunc", "func(@context.Context, *@server.Request, @compat.Arguments) (*@mcp.CallToolResult, error)", ""},
	{"server.PromptHandlerFunc", "func(@context.Context, *@server.Request, map[string]string) (*@mcp.GetPromptResult, error)", ""},
	{"server.ResourceHandlerFunc", "func(@context.Context, *@server.Request) ([]@mcp.ResourceContents, error)", ""},
	{"server.ResourceTemplateHandlerFunc", "func(@context.Context, *@server.Request) ([]@mcp.ResourceContents, error)", ""},
	{"server.ToolHandlerMiddleware", "", middleware},
	{"server.ClientSessionFromContext", "", noSession},
	{"server.ClientSession", "", noSession},
	{"mcp.JSONRPCNotification", "", noSession},
	{"server.ServerFromContext", "", "a function gets *server.Request; keep the server in your own variable"},
	{"mcp.CallToolRequest", "@compat.Arguments", ""},
	{"mcp.CallToolRequest.Params.Arguments", "any(map[string]any($r))", ""},
	{"mcp.CallToolRequest.Params.Arguments =", "$r = $1", ""},
	{"mcp.CallToolRequest.Params.Name =", "", ""},
	{"mcp.CallToolRequest.Params.Name", "$c.Call().Target().Name", ""},
	{"mcp.CallToolRequest.Params.Meta", "", "Request.Meta returns one member of _meta"},
	{"mcp.CallToolRequest.Header", "$c.Header()", ""},
	{"mcp.CallToolRequest.GetArguments", "$r", ""},
	{"mcp.CallToolRequest.GetRawArguments", "any(map[string]any($r))", ""},
	{"mcp.ParseArgument", "", "index the arguments"},
	{"mcp.ParseString", "$1.GetString($2, $3)", ""},
	{"mcp.ParseBoolean", "$1.GetBool($2, $3)", ""},
	{"mcp.ParseInt", "$1.GetInt($2, $3)", ""},
	{"mcp.ParseFloat64", "$1.GetFloat($2, $3)", ""},
	{"mcp.ReadResourceRequest", "*@server.Request", ""},
	{"mcp.ReadResourceRequest.Params.URI", "$r.Call().URI()", ""},
	{"mcp.GetPromptRequest.Params.Arguments", "$r", ""},
	{"mcp.GetPromptRequest.Params.Name", "$c.Call().Target().Name", ""},

	// Results
	{"mcp.CallToolResult", "@mcp.CallToolResult", ""},
	{"mcp.CallToolResult{StructuredContent}", "StructuredContent: @compat.JSON($1)", ""},
	{"mcp.CallToolResult{Meta}", "", metaValue},
	{"mcp.NewToolResultText", "&@mcp.CallToolResult{Content: @mcp.ContentList{@mcp.Text($1)}}", ""},
	{"mcp.NewToolResultError", "&@mcp.CallToolResult{Content: @mcp.ContentList{@mcp.Text($1)}, IsError: true}", ""},
	{"mcp.NewToolResultErrorf", "&@mcp.CallToolResult{Content: @mcp.ContentList{@mcp.Text(@fmt.Sprintf($*))}, IsError: true}", ""},
	{"mcp.NewToolResultErrorFromErr", "&@mcp.CallToolResult{Content: @mcp.ContentList{@mcp.Text(@fmt.Sprintf(\"%s: %v\", $1, $2))}, IsError: true}", ""},
	{"mcp.NewToolResultResource", "&@mcp.CallToolResult{Content: @mcp.ContentList{@mcp.Text($1), @mcp.Embed($2)}}", ""},
	{"mcp.NewToolResultStructured", "&@mcp.CallToolResult{Content: @mcp.ContentList{@mcp.Text($2)}, StructuredContent: @compat.JSON($1)}", ""},
	{"mcp.NewToolResultStructuredOnly", "", "return the value as the result"},
	{"mcp.NewToolResultJSON", "", "return the value as the result"},
	{"mcp.Content", "@mcp.Content", ""},
	{"mcp.NewTextContent", "@mcp.Text($1)", ""},
	{"mcp.NewEmbeddedResource", "@mcp.Embed($1)", ""},
	{"mcp.TextContent", "*@mcp.TextContent", ""},
	{"mcp.TextContent{Type}", "", ""},
	{"mcp.ImageContent", "*@mcp.ImageContent", ""},
	{"mcp.ImageContent{Type}", "", ""},
	{"mcp.AudioContent", "*@mcp.AudioContent", ""},
	{"mcp.AudioContent{Type}", "", ""},
	{"mcp.EmbeddedResource", "*@mcp.EmbeddedResource", ""},
	{"mcp.EmbeddedResource{Type}", "", ""},
	{"mcp.ResourceLink", "*@mcp.ResourceLink", ""},
	{"mcp.ResourceLink{Type}", "", ""},
	{"mcp.ResourceContents", "@mcp.ResourceContents", ""},
	{"mcp.TextResourceContents", "*@mcp.TextResourceContents", ""},
	{"mcp.BlobResourceContents", "*@mcp.BlobResourceContents", ""},
	{"mcp.AsTextContent", "$1.(*@mcp.TextContent)", ""},
	{"mcp.AsImageContent", "$1.(*@mcp.ImageContent)", ""},
	{"mcp.AsEmbeddedResource", "$1.(*@mcp.EmbeddedResource)", ""},
	{"mcp.AsTextResourceContents", "$1.(*@mcp.TextResourceContents)", ""},
	{"mcp.ReadResourceResult", "@mcp.ReadResourceResult", ""},
	{"mcp.GetPromptResult", "@mcp.GetPromptResult", ""},
	{"mcp.NewGetPromptResult", "&@mcp.GetPromptResult{Description: $1, Messages: $2}", ""},
	{"mcp.PromptMessage", "@mcp.PromptMessage", ""},
	{"mcp.NewPromptMessage", "@mcp.PromptMessage{Role: $1, Content: $2}", ""},
	{"mcp.Role", "@mcp.Role", ""},
	{"mcp.TextContent.Type", "", contentType},
	{"mcp.ImageContent.Type", "", contentType},
	{"mcp.AudioContent.Type", "", contentType},
	{"mcp.EmbeddedResource.Type", "", contentType},
	{"mcp.RoleUser", "@mcp.RoleUser", ""},
	{"mcp.RoleAssistant", "@mcp.RoleAssistant", ""},

	// Transports
	{"server.ServeStdio", "@stdio.Run($1, nil)", ""},
	{"server.NewStdioServer", "$1", ""},
	{"server.StdioServer", "@server.Server", ""},
	{"server.StdioServer.SetErrorLogger", "", "stdio.ServeOptions.Logger is a *slog.Logger"},
	{"server.StreamableHTTPServer.ServeHTTP", "$r.ServeHTTP($*)", ""},
	{"server.StreamableHTTPServer.Shutdown", "", "streamable.Serve ends with its context; an endpoint of streamable.Handler has Close"},
	{"server.SSEServer.Shutdown", "", "an endpoint of sse.Handler has Close"},
	{"*server.StreamableHTTPServer", "@transport/httptransport.Endpoint", ""},
	{"*server.SSEServer", "@transport/httptransport.Endpoint", ""},
	{"server.StreamableHTTPOption", "", "options are the structs streamable.Options and ServeOptions"},
	{"server.WithTLSCert", "", "streamable.ServeTLS serves HTTPS"},
	{"server.WithHTTPContextFunc", "", "a middleware around the endpoint puts values into the context of the request"},
	{"server.WithSSEContextFunc", "", "a middleware around the endpoint puts values into the context of the request"},

	// Clients and tests
	{"mcp.InitializeRequest", "", clientCode},
	{"mcp.InitializeResult", "", clientCode},
	{"mcp.LATEST_PROTOCOL_VERSION", "", clientCode},
	{"mcp.ListToolsRequest", "", clientCode},
	{"server.MCPServer.HandleMessage", "", memoryTest},
	{"server.MCPServer.WithContext", "", memoryTest},
	{"server.NewTestServer", "", "httptest.NewServer takes an endpoint of sse.Handler"},
	{"server.NewTestStreamableHTTPServer", "", "httptest.NewServer takes an endpoint of streamable.Handler"},
}

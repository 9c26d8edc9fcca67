package systems_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log"
	"os"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/memory"
	"github.com/dovetail-go/dovetail/server/resources"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// A server with a typed tool that reports progress.
//
//	@mcp_server("/mcp")
//	class ShopServer:
//	    @mcp_tool(annotations=ToolAnnotations(readOnlyHint=True), timeout=30.0, tags={"search"})
//	    async def search(self, query: str, limit: int = 10, ctx: McpToolContext) -> list[dict]:
//	        await ctx.report_progress(0, total=100)
func Example_laurenTool() {
	s := server.New(mcp.Implementation{Name: "shop", Version: "1.0.0"}, nil)
	server.AddService(s, shop{})
	call(s, "search", `{"query":"coffee"}`)
	// Output: ["coffee, 1 of 10"]
}

type shop struct{}

type search struct {
	_     server.ToolTag `description:"Search the catalogue." readOnly:"true" timeout:"30s" tags:"search"`
	Query string         `json:"query" jsonschema_description:"Full-text search query."`
	Limit int            `json:"limit" jsonschema:"default=10" jsonschema_description:"Max results."`
}

func (shop) Search(ctx context.Context, r *server.Request, in search) ([]string, error) {
	return []string{fmt.Sprintf("%s, 1 of %d", in.Query, in.Limit)}, r.Progress(ctx, 0, 100, "")
}

// A guard decides about a tool, and middleware sees its calls and makes results of its errors.
//
//	@set_metadata("required_role", "admin")
//	@use_guards(AdminGuard)
//	@use_interceptors(AuditInterceptor)
//	@use_exception_handlers(DomainErrHandler)
//	@mcp_tool()
//	async def admin_op(self, ctx: McpToolContext) -> dict: ...
func Example_laurenGuards() {
	admins := mcp.Guard{Name: "AdminGuard", Check: func(ctx context.Context, call *mcp.Call) error {
		if transport.Header(ctx)["X-Role"] == nil {
			return errors.New("not an admin") // for the log
		}
		return nil
	}}
	audit := func(next mcp.Handler) mcp.Handler {
		return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
			result, err := next(ctx, call)
			fmt.Printf("Tool %s completed: %v\n", call.Target().Name, err)
			if errors.Is(err, os.ErrNotExist) {
				return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("Create it first.")}, IsError: true}, nil
			}
			return result, err
		}
	}
	s := server.New(mcp.Implementation{Name: "shop", Version: "1.0.0"}, nil)
	tool := server.Tool{Name: "admin_op", Guards: []mcp.Guard{admins}, CallMiddleware: []mcp.Middleware{audit}, Metadata: map[string]any{"required_role": "admin"}}
	server.AddTool(s, tool, func(context.Context, *server.Request, struct{}) (string, error) { return "", os.ErrNotExist })
	call(s, "admin_op", `{}`)
	callAs(s, map[string]string{"X-Role": "admin"}, "admin_op", `{}`)
	// Output:
	// jsonrpc: -32603 "Guard 'AdminGuard' denied the tool call for 'admin_op'"
	// Tool admin_op completed: file does not exist
	// Create it first.
}

// The variables of a template are in the path and in the query, and a resource may be binary.
//
//	@mcp_resource("/files/{+path}{?version}", mime_type="text/plain")
//	async def read_file(self, path: str, version: int = 1) -> str: ...
//
//	@mcp_resource("/img/{name}", mime_type="image/png")
//	async def image(self, name: str) -> bytes: ...
func Example_laurenResources() {
	s := server.New(mcp.Implementation{Name: "shop", Version: "1.0.0"}, nil)
	server.AddTemplate(s, server.Template{URITemplate: "/files/{+path}{?version}"}, func(_ context.Context, _ *server.Request, in struct {
		Path    string `json:"path"`
		Version int    `json:"version" jsonschema:"default=1"`
	}) (string, error) {
		return fmt.Sprintf("%s, version %d", in.Path, in.Version), nil
	})
	server.AddTemplate(s, server.Template{URITemplate: "/img/{name}", MIMEType: "image/png"},
		func(_ context.Context, _ *server.Request, in map[string]string) ([]byte, error) {
			return []byte(in["name"]), nil
		})
	read(s, "/files/src/main.py?version=2")
	read(s, "/img/logo")
	// Output:
	// [{"uri":"/files/src/main.py?version=2","mimeType":"text/plain","text":"src/main.py, version 2"}]
	// [{"uri":"/img/logo","mimeType":"image/png","blob":"bG9nbw=="}]
}

// A prompt, and a function that completes its argument.
//
//	@mcp_prompt()
//	async def greet(self, name: str) -> str: ...
//
//	@mcp_completion("greet", "name")
//	async def complete_greet_name(self, partial: str) -> list[str]: ...
func Example_laurenPrompt() {
	s := server.New(mcp.Implementation{Name: "shop", Version: "1.0.0"}, nil)
	server.AddPrompt(s, server.Prompt{Name: "greet", Description: "Greet someone."}, func(_ context.Context, _ *server.Request, in struct {
		Name string `json:"name" jsonschema_description:"Person's name."`
	}) (string, error) {
		return "Hello " + in.Name + "!", nil
	})
	server.AddCompletion(s, server.Completion{Prompt: "greet", Argument: "name"}, func(_ context.Context, _ *server.Request, partial string, _ map[string]string) ([]string, error) {
		return slices.DeleteFunc([]string{"Alice", "Bob", "Carol"}, func(name string) bool { return !strings.HasPrefix(strings.ToLower(name), partial) }), nil
	})
	completePrompt(s, "greet", "name", "c")
	getPrompt(s, "greet", map[string]string{"name": "Carol"})
	// Output:
	// [Carol]
	// Hello Carol!
}

// A database lives as long as the server.
//
//	@mcp_lifespan
//	async def lifespan(self):
//	    db = await Database.connect(DATABASE_URL)
//	    try: yield {"db": db}
//	    finally: await db.close()
//
//	@mcp_tool()
//	async def query(self, sql: str, ctx: McpToolContext) -> list:
//	    return await ctx.lifespan_context["db"].fetch(sql)
func Example_laurenLifespan() {
	lifespan := server.Provide(func(ctx context.Context) (*database, func(context.Context) error, error) {
		db, err := openDatabase(ctx)
		return db, db.close, err
	})
	s := server.New(mcp.Implementation{Name: "shop", Version: "1.0.0"}, &server.Options{Dependencies: []server.Dependency{lifespan}})
	server.AddTool(s, server.Tool{Name: "query"}, func(_ context.Context, r *server.Request, in struct {
		SQL string `json:"sql"`
	}) ([]string, error) {
		return server.Value[*database](r).rows, nil
	})
	call(s, "query", `{"sql":"SELECT name FROM items"}`)
	_ = s.Shutdown(ctx)
	// Output:
	// ["coffee"]
	// closed
}

// A server offers the tools of another server of the program, and of servers over each transport.
//
//	McpServerModule.for_root(MyServer, transport="all", mounts=[(AnalyticsServer, "analytics_")],
//	    proxies=[(McpServer.streamable_http("http://remote/mcp"), "remote_")])
func Example_laurenMounts() {
	s := server.New(mcp.Implementation{Name: "all", Version: "1.0.0"}, nil)
	if err := s.Mount(newServer("analytics", "count").Provider(), &server.MountOptions{Prefix: "analytics_"}); err != nil {
		log.Fatal(err)
	}
	if err := s.Mount(bridge.Proxy(stdio.Command(program, []string{"fetch"}, nil), nil), &server.MountOptions{Prefix: "stdio_"}); err != nil {
		log.Fatal(err)
	}
	if err := s.Mount(bridge.Proxy(ws.Dial(site+"/mcp/ws", nil), nil), &server.MountOptions{Prefix: "ws_"}); err != nil {
		log.Fatal(err)
	}
	if err := s.Mount(bridge.Proxy(sse.Dial(site+"/mcp/sse", nil), nil), &server.MountOptions{Prefix: "sse_"}); err != nil {
		log.Fatal(err)
	}
	if err := s.Mount(bridge.Proxy(streamable.Dial(site+"/mcp", nil), nil), &server.MountOptions{Prefix: "remote_"}); err != nil {
		log.Fatal(err)
	}
	defer s.Shutdown(ctx)
	list(s)
	call(s, "ws_search", `{"query":"coffee"}`)
	// Unordered output:
	// analytics_count
	// stdio_fetch
	// remote_order
	// remote_search
	// sse_order
	// sse_search
	// ws_order
	// ws_search
	// search {"query":"coffee"}
}

// A client answers the questions of a server.
//
//	client = McpServer.ws(url, headers={"Authorization": "Bearer token"}, roots=[Root("file:///workspace")],
//	    sampling_handler=sample, elicitation_handler=elicit)
//	await client.connect()
func Example_laurenClient() {
	header := httptransport.StaticHeader(map[string]string{"Authorization": "Bearer token"})
	session, err := client.Connect(ctx, ws.Dial(site+"/questions", &ws.DialOptions{Header: header}), &client.Options{
		Roots: func(context.Context) ([]mcp.Root, error) { return []mcp.Root{{URI: "file:///workspace"}}, nil },
		Sample: func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Model: "small", Content: []mcp.Content{mcp.Text("summary")}}, nil
		},
		Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(`{"value":true}`)}, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	callIn(session, "report", `{}`)
	// Output: file:///workspace: summary, sent: true
}

// A file, a directory and a URL are resources.
//
//	FileResource("README.md", "file:///project/README.md")
//	DirectoryResource("src/", "file:///project/src/", pattern="**/*.py", recursive=True)
//	HttpResource("https://api.example.com/weather", "weather://current", headers={"Authorization": "Bearer token"})
func Example_laurenFiles() {
	readme, err := resources.FileAt(workspaceDir+"/app.py", &resources.FileOptions{Resource: server.Resource{URI: "file:///project/app.py"}})
	if err != nil {
		log.Fatal(err)
	}
	src, err := resources.DirectoryAt(workspaceDir, &resources.DirectoryOptions{Resource: server.Resource{URI: "file:///project/src"}, Pattern: "**/*.py"})
	if err != nil {
		log.Fatal(err)
	}
	weather, err := resources.HTTP(site+"/weather", &resources.HTTPOptions{Resource: server.Resource{URI: "weather://current"}, AllowLoopback: true})
	if err != nil {
		log.Fatal(err)
	}
	s := server.New(mcp.Implementation{Name: "files", Version: "1.0.0"}, nil)
	if err := s.Replace(append(src, readme, weather)...); err != nil {
		log.Fatal(err)
	}
	read(s, "file:///project/app.py")
	read(s, "file:///project/src")
	read(s, "weather://current")
	// Output:
	// [{"uri":"file:///project/app.py","mimeType":"text/x-python","text":"print('hello')\n"}]
	// [{"uri":"file:///project/src","mimeType":"application/json","text":"[\"app.py\"]"}]
	// [{"uri":"weather://current","mimeType":"text/plain","text":"sunny"}]
}

// A tool that streams its result.
//
//	@mcp_tool()
//	async def generate(self, prompt: str) -> ToolStream[str]:
//	    async def gen():
//	        async for token in llm.stream_complete(prompt): yield token
//	    return ToolStream(gen())
func Example_laurenStream() {
	s := server.New(mcp.Implementation{Name: "poet", Version: "1.0.0"}, nil)
	server.AddStream(s, server.Tool{Name: "generate", Description: "Stream completion tokens."}, func(_ context.Context, _ *server.Request, in struct {
		Prompt string `json:"prompt"`
	}) iter.Seq2[string, error] {
		return complete(in.Prompt)
	}, server.JoinText)
	stream(s, "generate", `{"prompt":"rain:"}`)
	// Output:
	// "rain: "
	// "so "
	// "much "
	// "depends"
}

// A server remembers conversations and facts about users.
//
//	module = McpServerModule.for_root(LaurenMcpMemoryServer)
func Example_laurenMemory() {
	s := memory.New(memory.InMemory(nil), nil)
	call(s, "save_user_fact", `{"user_id":"ann","key":"city","value":"Oslo"}`)
	call(s, "get_user_facts", `{"user_id":"ann"}`)
	// Output:
	// {"saved":true,"user_id":"ann","key":"city"}
	// [{"key":"city","value":"Oslo"}]
}

package systems_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"

	"github.com/dovetail-go/dovetail/bridge/control"
	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/bridge/llm"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/shell"
	"github.com/dovetail-go/dovetail/server/workspace"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A sandbox with control routes is configured and used over HTTP, and gets a further server.
//
//	await client.post("/mcp/credential", json={"session_id": "abc123", "user_api_key": "xxx"})
//	await client.post("/mcp/tool-server-url", json={"tool_server_url": "https://your-backend.com/tools"})
//	await client.post("/mcp/tools/call", json={"name": "read_file", "arguments": {"path": "app.py"}})
//	await client.post("/mcp/custom-mcp", json={"mcpServers": {"claude-code": {"command": "npx", "args": […]}}})
//	await client.post("/mcp/tools/call", json={"name": "mcp_claude-code_execute", "arguments": {"prompt": "Fix the bug in app.py"}})
func Example_iiToolServer() {
	files, err := workspace.Open(workspaceDir, &workspace.Options{Raw: true})
	if err != nil {
		log.Fatal(err)
	}
	defer files.Close()
	sh, err := shell.New(guard, files, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer sh.Close()
	tools, err := workspace.Tools(files)
	if err != nil {
		log.Fatal(err)
	}
	commands, err := sh.Tools()
	if err != nil {
		log.Fatal(err)
	}
	added, err := control.NewServers(nil)
	if err != nil {
		log.Fatal(err)
	}
	s := server.New(mcp.Implementation{Name: "ii_tool", Version: "1.0.0"}, nil)
	if err := s.Mount(added, &server.MountOptions{Prefix: control.Prefix}); err != nil {
		log.Fatal(err)
	}
	defer s.Shutdown(ctx)
	register := func(context.Context, string) error { return s.Replace(append(tools, commands...)...) }
	routes, err := control.New(&control.Options{Shell: sh, Servers: added, OnToolServer: register})
	if err != nil {
		log.Fatal(err)
	}
	defer routes.Close()
	calls := gateway.New(s, nil)
	mux := http.NewServeMux()
	mux.Handle("/", routes)
	mux.Handle("/mcp/tools/", http.StripPrefix("/mcp", calls.REST(nil)))

	request(mux, routes.Authenticator(), "POST", "/mcp/credential", `{"session_id":"abc123","user_api_key":"xxx"}`)
	request(mux, routes.Authenticator(), "POST", "/mcp/tool-server-url", `{"tool_server_url":"`+site+`/tools"}`)
	request(mux, calls.Authenticator(), "POST", "/mcp/tools/call", `{"name":"read_file","arguments":{"path":"app.py"}}`)
	request(mux, routes.Authenticator(), "POST", "/mcp/custom-mcp", fmt.Sprintf(`{"mcpServers":{"github":{"command":%q,"args":["github"]}}}`, program))
	request(mux, calls.Authenticator(), "POST", "/mcp/tools/call", `{"name":"mcp_github_star_repo","arguments":{"repo":"ui"}}`)
	// Output:
	// 200 {"status":"success"}
	// 200 {"status":"success"}
	// 200 {"content":[{"type":"text","text":"print('hello')\n"}]}
	// 200 {"status":"success","tools":["mcp_github_star_repo"]}
	// 200 {"content":[{"type":"text","text":"star_repo {\"repo\":\"ui\"}"}],"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"github","version":"1.0.0"}}}
}

// A server with tools for files and commands. streamable.Run("127.0.0.1:6060", s, nil) serves it.
//
//	app = FastMCP("My Sandbox Tools")
//	@app.tool()
//	async def read_file(path: str) -> str: ...
//	app.run(transport="http", host="0.0.0.0", port=6060)
func Example_iiToolMinimal() {
	files, err := workspace.Open(workspaceDir, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer files.Close()
	sh, err := shell.New(guard, files, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer sh.Close()
	tools, err := workspace.Tools(files)
	if err != nil {
		log.Fatal(err)
	}
	commands, err := sh.Tools()
	if err != nil {
		log.Fatal(err)
	}
	s := server.New(mcp.Implementation{Name: "My Sandbox Tools", Version: "1.0.0"}, nil)
	if err := s.Replace(append(tools, commands...)...); err != nil {
		log.Fatal(err)
	}
	call(s, "run_command", `{"command":"echo hello"}`)
	// Output: {"exit_code":0,"stdout":"hello\n","stderr":"","truncated":false,"timed_out":false}
}

// The tools of a server are those of an agent.
//
//	def mcp_tools_to_langchain(mcp_client: MCPClient) -> list[StructuredTool]: ...
func Example_iiToolAgent() {
	session, err := client.Connect(ctx, streamable.Dial(site+"/mcp", nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	tools := llm.SessionTools(session)
	list, err := tools.Tools(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(llm.OpenAITools(list)[0]))
	replies := llm.Run(ctx, tools, []llm.Call{{Name: "search", Arguments: json.RawMessage(`{"query":"coffee"}`)}})
	fmt.Println(replies[0].Result.Text())
	// Output:
	// {"type":"function","function":{"name":"order","parameters":{"type":"object","properties":{}}}}
	// search {"query":"coffee"}
}

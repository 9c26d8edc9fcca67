package bridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/bridge/pin"
	"github.com/dovetail-go/dovetail/bridge/search"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// TestMain serves notes when the test binary is started as a server.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "serve" {
		if err := stdio.Run(newServer("notes", "add", "list"), nil); err != nil {
			log.Fatal(err)
		}
		return
	}
	leaktest.Main(m)
}

// newServer returns a server whose tools return their names.
func newServer(name string, tools ...string) *server.Server {
	s := server.New(mcp.Implementation{Name: name, Version: "1.0.0"}, nil)
	for _, tool := range tools {
		server.AddTool(s, server.Tool{Name: tool, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: new(tool != "add")}},
			func(context.Context, *server.Request, struct{}) (string, error) { return name + ": " + tool, nil })
	}
	return s
}

// newGateway returns one server for three others: a child process, a URL and one in this
// process. A policy decides about all calls.
func newGateway(program, url string, local transport.Binder, rules string) (*server.Server, error) {
	servers, err := bridge.New(nil,
		bridge.Config{Alias: "notes", Dialer: stdio.Command(program, []string{"serve"}, nil), ProxyOptions: bridge.ProxyOptions{Trusted: true}},
		bridge.Config{Alias: "time", Dialer: streamable.Dial(url, nil)},
		bridge.Config{Alias: "calc", Dialer: transport.Pipe(local)},
	)
	if err != nil {
		return nil, err
	}
	parsed, err := policy.Parse([]byte(rules))
	if err != nil {
		return nil, err
	}
	compiled, err := policy.Compile(parsed)
	if err != nil {
		return nil, err
	}
	s := server.New(mcp.Implementation{Name: "gateway", Version: "1.0.0"}, &server.Options{
		Guards: []mcp.Guard{policy.Guard(compiled, nil)},
		Logger: slog.New(slog.DiscardHandler),
	})
	return s, s.Mount(servers, nil)
}

const rules = `{
	"rules": [
		{"effect": "allow", "servers": ["calc"]},
		{"effect": "allow", "exposed": ["time__now"]},
		{"effect": "allow", "servers": ["notes"], "annotations": {"readOnlyHint": true}}
	]
}`

func Example_three() {
	ctx := context.Background()
	endpoint := streamable.Handler(newServer("time", "now", "set"), nil)
	defer endpoint.Close()
	web := httptest.NewServer(endpoint)
	defer web.Close()
	s, err := newGateway(os.Args[0], web.URL, newServer("calc", "sum"), rules)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Shutdown(ctx)
	session, err := client.Connect(ctx, transport.Pipe(s), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(tool.Name)
	}
	fmt.Println(client.CallAs[string](ctx, session, "notes__list", nil, nil))
	_, err = client.CallAs[string](ctx, session, "notes__add", nil, nil)
	fmt.Println(client.IsForbidden(err), err)
	// Output:
	// notes__list
	// time__now
	// calc__sum
	// notes: list <nil>
	// true tool "notes__add": The policy does not allow the tool "notes__add"
	// The tool was not called. Do not repeat the call: it would be refused again.
}

func Example_failure() {
	ctx := context.Background()
	servers, err := bridge.New(&bridge.Options{Logger: slog.New(slog.DiscardHandler)},
		bridge.Config{Alias: "calc", Dialer: transport.Pipe(newServer("calc", "sum"))},
		bridge.Config{Alias: "gone", Dialer: stdio.Command("/no/such/program", nil, nil)},
	)
	if err != nil {
		log.Fatal(err)
	}
	stop, err := servers.Start(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer stop()
	result, err := servers.CallTool(ctx, "calc__sum", nil)
	fmt.Println(result.Content[0].(*mcp.TextContent).Text, err)
	for _, state := range servers.States() {
		fmt.Println(state.Alias, state.Status, state.Tools)
	}
	_, err = servers.CallTool(ctx, "gone__sum", nil)
	if failed, ok := errors.AsType[*bridge.UpstreamError](err); ok {
		fmt.Println(failed.Server, failed.Failure, failed.Delivery)
	}
	// Output:
	// calc: sum <nil>
	// calc ready 1
	// gone failed 0
	// gone UPSTREAM_UNAVAILABLE not sent
}

func Example_config() {
	ctx := context.Background()
	file, err := config.Parse([]byte(`{
		"mcpServers": {
			"notes": {"command": "${PROGRAM}", "args": ["serve"], "dovetail": {"lazy": true, "maxCalls": 4}}
		}
	}`), "mcp.json")
	if err != nil {
		log.Fatal(err)
	}
	for _, warning := range file.Warnings {
		fmt.Println(warning)
	}
	lookup := func(name string) (string, bool) { return os.Args[0], name == "PROGRAM" }
	configs, err := file.Bridge(ctx, &config.Expander{LookupEnv: lookup}, nil)
	if err != nil {
		log.Fatal(err)
	}
	servers, err := bridge.New(nil, configs...)
	if err != nil {
		log.Fatal(err)
	}
	stop, err := servers.Start(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer stop()
	result, err := servers.CallTool(ctx, "notes__list", json.RawMessage(`{}`))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	// Output: notes: list
}

func Example_pinned() {
	folder, err := os.MkdirTemp("", "pins")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	servers, err := bridge.New(nil, bridge.Config{Alias: "calc", Dialer: transport.Pipe(newServer("calc", "sum", "product"))})
	if err != nil {
		log.Fatal(err)
	}
	lock := pin.NewLock(filepath.Join(folder, "pins.json"))
	pinned := pin.Wrap(servers, "all", lock, &pin.Options{TrustNew: true})
	found, err := search.New(pinned, nil)
	if err != nil {
		log.Fatal(err)
	}
	s := server.New(mcp.Implementation{Name: "gateway", Version: "1.0.0"}, nil)
	if err := s.Mount(found, nil); err != nil {
		log.Fatal(err)
	}
	defer s.Shutdown(context.Background())
	session, err := client.Connect(context.Background(), transport.Pipe(s), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	for tool, err := range session.Tools(context.Background(), nil) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(tool.Name)
	}
	_, ok := lock.Pinned("all", pin.Entry{Kind: pin.Tool, Name: "calc__sum"})
	fmt.Println("pinned:", ok)
	// Output:
	// search_tools
	// call_tool
	// pinned: true
}

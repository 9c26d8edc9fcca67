package search_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"log/slog"
	"strings"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/pin"
	"github.com/dovetail-go/dovetail/bridge/search"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// An Office is a provider of a few tools, in place of hundreds.
type Office struct{}

var officeCatalog = server.NewCatalog([]*server.Entry{
	officeTool("wiki__read", "Reads a page of the wiki"),
	officeTool("mail__send", "Sends an e-mail"),
	officeTool("mail__delete", "Deletes an e-mail"),
}, nil)

func officeTool(name, description string) *server.Entry {
	definition := fmt.Appendf(nil, `{"name":%q,"description":%q,"inputSchema":{"type":"object"}}`, name, description)
	return &server.Entry{
		Target: mcp.Target{Kind: mcp.KindTool, Name: name, Definition: mcp.NewDefinition(definition)},
		Handle: func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(fmt.Sprintf("%q is done with %s", name, call.Member("arguments")))}}, nil
		},
	}
}

func (Office) Catalog() *server.Catalog { return officeCatalog }

func (Office) Run(ctx context.Context, ready func(), changed func(mcp.Change)) error {
	ready()
	<-ctx.Done()
	return nil
}

// Guards apply to the tools of the source.
func ExampleNew() {
	careful := mcp.Guard{Name: "careful", Visible: func(ctx context.Context, caller *mcp.Caller, target *mcp.Target) bool {
		return !strings.HasSuffix(target.Name, "__delete")
	}}
	office, err := search.New(Office{}, &search.Options{
		Description: "E-mail and the wiki.",
		Guards:      []mcp.Guard{careful},
	})
	if err != nil {
		log.Fatal(err)
	}
	s := server.New(mcp.Implementation{Name: "office", Version: "1.0.0"}, nil)
	if err := s.Mount(office, nil); err != nil {
		log.Fatal(err)
	}
	defer s.Shutdown(context.Background())

	session, err := client.Connect(context.Background(), transport.Pipe(s), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	for _, call := range []struct{ tool, arguments string }{
		{"search_tools", `{"query":"send or delete an e-mail","limit":1}`},
		{"call_tool", `{"name":"mail__send","arguments":{"to":"ada@example.com"}}`},
		{"call_tool", `{"name":"mail__delete"}`},
	} {
		result, err := session.CallTool(context.Background(), call.tool, json.RawMessage(call.arguments), nil)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	}
	// Output:
	// {"tools":[{"name":"mail__send","description":"Sends an e-mail","inputSchema":{"type":"object"}}]}
	// "mail__send" is done with {"to":"ada@example.com"}
	// jsonrpc: -32602 "unknown tool: \"mail__delete\""
}

// A bridge has the tools of many servers, pins select the accepted tools, and the search offers two tools in their
// place.
func Example_pinned() {
	ctx := context.Background()
	wiki := server.New(mcp.Implementation{Name: "wiki", Version: "1.0.0"}, nil)
	for _, name := range []string{"read", "write"} {
		server.AddTool(wiki, server.Tool{Name: name, Description: name + " a page"},
			func(context.Context, *server.Request, struct{}) (string, error) { return "done", nil })
	}
	servers, err := bridge.New(nil, bridge.Config{Alias: "wiki", Dialer: transport.Pipe(wiki)}) // or use (*config.File).Bridge
	if err != nil {
		log.Fatal(err)
	}
	lock := pin.NewLock("") // or pin.Load("mcp.lock")
	quiet := slog.New(slog.DiscardHandler)
	found, err := search.New(pin.Wrap(servers, "all", lock, &pin.Options{Logger: quiet}), &search.Options{Logger: quiet})
	if err != nil {
		log.Fatal(err)
	}
	frontend := server.New(mcp.Implementation{Name: "frontend", Version: "1.0.0"}, &server.Options{Logger: quiet})
	if err := frontend.Mount(found, nil); err != nil {
		log.Fatal(err)
	}
	defer frontend.Shutdown(ctx)
	session, err := client.Connect(ctx, transport.Pipe(frontend), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()

	call := func(tool, arguments string) {
		result, err := session.CallTool(ctx, tool, json.RawMessage(arguments), nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	}
	call("search_tools", `{"query":"a page of the wiki"}`)
	for _, tool := range lock.Pending() {
		fmt.Println(tool.Name, "is", tool.Reason)
	}
	if err := lock.Accept("all", pin.Entry{Kind: pin.Tool, Name: "wiki__read"}); err != nil {
		log.Fatal(err)
	}
	call("call_tool", `{"name":"wiki__read"}`)
	call("call_tool", `{"name":"wiki__write"}`)
	// Output:
	// {"tools":[]}
	// wiki__read is new
	// wiki__write is new
	// done
	// jsonrpc: -32602 "the tool \"wiki__write\" of \"all\" is quarantined: it is new and has not been accepted"
}

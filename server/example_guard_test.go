package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// asBaker connects a client that says it is the baker. What a client says of itself is
// good for examples; Caller().Principal is what a transport has verified.
func asBaker(s *server.Server) *client.Session {
	return dial(s, &client.Options{Info: mcp.Implementation{Name: "baker", Version: "1"}})
}

// A guard refuses calls before their arguments are looked at. This one reads what was
// registered with the tool.
func ExampleGuard() {
	bakersOnly := server.Guard{Name: "bakers", Allow: func(ctx context.Context, r *server.Request) error {
		if r.Metadata("open to all") == true || r.Caller().Info.Name == "baker" {
			return nil
		}
		return errors.New("not a baker") // for the log only
	}}
	s := server.New(mcp.Implementation{Name: "bakery", Version: "1.0.0"}, &server.Options{
		Around: server.Around{Guards: []server.Guard{bakersOnly}},
		Logger: slog.New(slog.DiscardHandler),
	})
	says := func(text string) func(context.Context, *server.Request, struct{}) (string, error) {
		return func(context.Context, *server.Request, struct{}) (string, error) { return text, nil }
	}
	server.AddTool(s, server.Tool{Name: "opening", Around: server.Around{Metadata: map[string]any{"open to all": true}}}, says("7 to 18"))
	server.AddTool(s, server.Tool{Name: "bake"}, says("baking"))

	guest := dial(s, nil)
	defer guest.Close()
	say(guest, "opening", nil)
	say(guest, "bake", nil)
	baker := asBaker(s)
	defer baker.Close()
	say(baker, "bake", nil)
	// Output:
	// 7 to 18
	// protocol error: jsonrpc: -32603 "Guard 'bakers' denied the tool call for 'bake'"
	// baking
}

// What a guard hides is not listed, and called as if it did not exist.
func ExampleGuard_hides() {
	bakersOnly := server.Guard{Name: "bakers", Hides: true, Allow: func(ctx context.Context, r *server.Request) error {
		if r.Caller().Info.Name != "baker" {
			return errors.New("not a baker")
		}
		return nil
	}}
	s := server.New(mcp.Implementation{Name: "bakery", Version: "1.0.0"}, &server.Options{Logger: slog.New(slog.DiscardHandler)})
	server.AddTool(s, server.Tool{Name: "bake", Around: server.Around{Guards: []server.Guard{bakersOnly}}},
		func(context.Context, *server.Request, struct{}) (string, error) { return "baking", nil })

	for _, session := range []*client.Session{asBaker(s), dial(s, nil)} {
		for tool := range session.Tools(context.Background()) {
			fmt.Println("listed:", tool.Name)
		}
		say(session, "bake", nil)
		session.Close()
	}
	// Output:
	// listed: bake
	// baking
	// protocol error: jsonrpc: -32602 "unknown tool: \"bake\""
}

// An error mapper tells a model what to do about an error.
func ExampleErrorMapper() {
	errClosed := errors.New("the bakery is closed")
	advise := func(ctx context.Context, r *server.Request, err error) (mcp.Result, error) {
		if !errors.Is(err, errClosed) {
			return nil, nil
		}
		return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("Call " + r.Name() + " again between 7 and 18.")}, IsError: true}, nil
	}
	s := server.New(mcp.Implementation{Name: "bakery", Version: "1.0.0"}, &server.Options{
		Around: server.Around{Mappers: []server.ErrorMapper{advise}},
	})
	server.AddTool(s, server.Tool{Name: "order"}, func(context.Context, *server.Request, struct{}) (string, error) {
		return "", fmt.Errorf("ordering: %w", errClosed)
	})
	session := dial(s, nil)
	defer session.Close()
	say(session, "order", nil)
	// Output: Call order again between 7 and 18.
}

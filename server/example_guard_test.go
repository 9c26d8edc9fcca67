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

// asBaker connects a client with the name baker. The name is not verified: outside of examples,
// use Caller().Principal, which the transport has verified.
func asBaker(s *server.Server) *client.Session {
	return dial(s, &client.Options{Info: mcp.Implementation{Name: "baker", Version: "1"}})
}

// A guard refuses calls before their arguments are validated. This one reads the metadata of the
// tool.
func ExampleOptions_guards() {
	bakersOnly := mcp.Guard{Name: "bakers", Check: func(ctx context.Context, call *mcp.Call) error {
		if call.Target().Metadata["open to all"] == true || call.Caller.Info.Name == "baker" {
			return nil
		}
		return errors.New("not a baker") // for the log only
	}}
	s := server.New(mcp.Implementation{Name: "bakery", Version: "1.0.0"}, &server.Options{
		Guards: []mcp.Guard{bakersOnly},
		Logger: slog.New(slog.DiscardHandler),
	})
	says := func(text string) func(context.Context, *server.Request, struct{}) (string, error) {
		return func(context.Context, *server.Request, struct{}) (string, error) { return text, nil }
	}
	server.AddTool(s, server.Tool{Name: "opening", Metadata: map[string]any{"open to all": true}}, says("7 to 18"))
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

// A guard says what is missing, to the model too.
func ExampleOptions_guards_reason() {
	bakersOnly := mcp.Guard{Name: "bakers", Check: func(ctx context.Context, call *mcp.Call) error {
		if call.Caller.Info.Name == "baker" {
			return nil
		}
		return &mcp.Refusal{Reason: "Only bakers may do this: ask one."}
	}}
	s := server.New(mcp.Implementation{Name: "bakery", Version: "1.0.0"}, &server.Options{Logger: slog.New(slog.DiscardHandler)})
	server.AddTool(s, server.Tool{Name: "bake", Guards: []mcp.Guard{bakersOnly}}, func(context.Context, *server.Request, struct{}) (string, error) { return "baking", nil })
	guest := dial(s, nil)
	defer guest.Close()
	say(guest, "bake", nil)
	// Output:
	// Only bakers may do this: ask one.
	// The tool was not called.
}

// An entry that a guard hides is not listed, and a call gets the error for an unknown name.
func ExampleOptions_guards_visible() {
	bakersOnly := mcp.Guard{Name: "bakers", Visible: func(ctx context.Context, caller *mcp.Caller, target *mcp.Target) bool {
		return caller.Info.Name == "baker"
	}}
	s := server.New(mcp.Implementation{Name: "bakery", Version: "1.0.0"}, &server.Options{Logger: slog.New(slog.DiscardHandler)})
	server.AddTool(s, server.Tool{Name: "bake", Guards: []mcp.Guard{bakersOnly}},
		func(context.Context, *server.Request, struct{}) (string, error) { return "baking", nil })

	for _, session := range []*client.Session{asBaker(s), dial(s, nil)} {
		for tool := range session.Tools(context.Background(), nil) {
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

// Middleware can convert an error to a result that tells a model what to do.
func ExampleOptions_callMiddleware() {
	errClosed := errors.New("the bakery is closed")
	advise := func(next mcp.Handler) mcp.Handler {
		return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
			result, err := next(ctx, call)
			if !errors.Is(err, errClosed) {
				return result, err
			}
			return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("Call " + call.Target().Name + " again between 7 and 18.")}, IsError: true}, nil
		}
	}
	s := server.New(mcp.Implementation{Name: "bakery", Version: "1.0.0"}, &server.Options{CallMiddleware: []mcp.Middleware{advise}})
	server.AddTool(s, server.Tool{Name: "order"}, func(context.Context, *server.Request, struct{}) (string, error) {
		return "", fmt.Errorf("ordering: %w", errClosed)
	})
	session := dial(s, nil)
	defer session.Close()
	say(session, "order", nil)
	// Output: Call order again between 7 and 18.
}

package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

type AddIn struct {
	A int `json:"a" jsonschema_description:"first summand"`
	B int `json:"b" jsonschema_description:"second summand, not negative" jsonschema:"minimum=0"`
}

// dial connects a client to a server in the same process.
func dial(s *server.Server, opts *client.Options) *client.Session {
	session, err := client.Connect(context.Background(), transport.Pipe(s), opts)
	if err != nil {
		log.Fatal(err)
	}
	return session
}

// say prints the text of a tool's result.
func say(session *client.Session, tool string, arguments any) {
	result, err := session.CallTool(context.Background(), tool, arguments, nil)
	if err != nil {
		fmt.Println("protocol error:", err)
		return
	}
	fmt.Println(result.Text())
}

// A server has one tool. The struct defines its arguments, their schema and their validation.
func Example() {
	s := server.New(mcp.Implementation{Name: "calc", Version: "1.0.0"}, nil)
	server.AddTool(s, server.Tool{Name: "add", Description: "Add two integers."},
		func(ctx context.Context, r *server.Request, in AddIn) (int, error) {
			return in.A + in.B, nil
		})

	session := dial(s, nil) // or: stdio.Serve(ctx, s, nil)
	defer session.Close()
	say(session, "add", AddIn{A: 2, B: 3})
	say(session, "add", AddIn{A: 2, B: -3})
	// Output:
	// 5
	// at "/b": expected at least 0, got -3
}

func ExampleNew() {
	s := server.New(mcp.Implementation{Name: "calc", Version: "1.0.0"}, &server.Options{
		Instructions: "Add before you multiply.",
	})
	session := dial(s, nil)
	defer session.Close()
	fmt.Println(session.Server().Name, session.Server().Version)
	fmt.Println(session.Instructions())
	// Output:
	// calc 1.0.0
	// Add before you multiply.
}

// Middleware handles every request.
func ExampleOptions_middleware() {
	trace := func(next mcp.Handler) mcp.Handler {
		return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
			fmt.Println("before", call.Method(), string(call.Member("name")))
			defer fmt.Println("after")
			return next(ctx, call)
		}
	}
	s := server.New(mcp.Implementation{Name: "calc", Version: "1.0.0"}, &server.Options{
		Middleware: []mcp.Middleware{trace},
	})
	server.AddTool(s, server.Tool{Name: "add"}, func(ctx context.Context, r *server.Request, in AddIn) (int, error) {
		return in.A + in.B, nil
	})
	session := dial(s, nil)
	defer session.Close()
	say(session, "add", AddIn{A: 2, B: 3})
	// Output:
	// before tools/call "add"
	// after
	// 5
}

// A middleware tells the errors of calls apart, for metrics.
func ExampleFunctionError() {
	outcomeOf := func(err error) string {
		if err == nil {
			return "answered"
		}
		if _, asks := mcp.AsInputRequired(err); asks {
			return "asks its caller"
		}
		if _, refused := errors.AsType[*server.RefusedError](err); refused {
			return "refused by a guard"
		}
		if failed, ok := errors.AsType[*server.FunctionError](err); ok && failed.Arguments {
			return "invalid arguments"
		} else if ok {
			return "failed"
		}
		if _, protocol := errors.AsType[*jsonrpc.Error](err); protocol {
			return "protocol error"
		}
		return "internal error"
	}
	count := func(next mcp.Handler) mcp.Handler {
		return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
			result, err := next(ctx, call)
			fmt.Println(outcomeOf(err))
			return result, err
		}
	}
	closed := mcp.Guard{Name: "closed", Check: func(context.Context, *mcp.Call) error { return errors.New("on Sunday") }}
	s := server.New(mcp.Implementation{Name: "calc", Version: "1.0.0"}, &server.Options{
		Middleware: []mcp.Middleware{count}, Logger: slog.New(slog.DiscardHandler),
	})
	add := func(ctx context.Context, r *server.Request, in AddIn) (int, error) {
		if in.A == in.B {
			return 0, errors.New("use double instead")
		}
		if in.A > 100 {
			panic("too many")
		}
		return in.A + in.B, nil
	}
	server.AddTool(s, server.Tool{Name: "add"}, add)
	server.AddTool(s, server.Tool{Name: "sum", Guards: []mcp.Guard{closed}}, add)
	session := dial(s, nil)
	defer session.Close()
	for _, in := range []AddIn{{A: 2, B: 3}, {A: 2, B: 2}, {A: 2, B: -1}, {A: 101, B: 1}} {
		session.CallTool(context.Background(), "add", in, nil)
	}
	session.CallTool(context.Background(), "sum", AddIn{A: 2, B: 3}, nil)
	session.CallTool(context.Background(), "none", nil, nil)
	// Output:
	// answered
	// failed
	// invalid arguments
	// internal error
	// refused by a guard
	// protocol error
}

// Shutdown waits for running calls and rejects new ones.
func ExampleServer_Shutdown() {
	s := server.New(mcp.Implementation{Name: "calc", Version: "1.0.0"}, nil)
	session := dial(s, nil)
	defer session.Close()
	fmt.Println(s.Shutdown(context.Background()))
	say(session, "add", nil)
	// Output:
	// <nil>
	// protocol error: tools/call: jsonrpc: 429 "the server is shutting down" (rejected before execution)
}

// A function changes what the server sends of its own accord.
func ExampleOutgoing() {
	redact := func(_ context.Context, to *mcp.Caller, method string, params json.RawMessage) (json.RawMessage, error) {
		return bytes.ReplaceAll(params, []byte("4711"), []byte("****")), nil
	}
	s := server.New(mcp.Implementation{Name: "bakery", Version: "1.0.0"}, &server.Options{Outgoing: []server.Outgoing{redact}})
	server.AddTool(s, server.Tool{Name: "open"}, func(_ context.Context, r *server.Request, _ struct{}) (bool, error) {
		return server.Elicit[bool](r, "sure", "Open the door with 4711?")
	})
	session := dial(s, &client.Options{Elicit: answer(mcp.ElicitAccept, `{"value":true}`)})
	defer session.Close()
	say(session, "open", nil)
	// Output:
	// asked: Open the door with ****?
	// true
}

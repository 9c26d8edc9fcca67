package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// The type of the result decides what the caller gets: a struct is structured content with a
// schema.
func ExampleAddTool() {
	type Loaf struct {
		Bread string  `json:"bread"`
		Price float64 `json:"price"`
	}
	s := server.New(mcp.Implementation{Name: "bakery", Version: "1.0.0"}, nil)
	server.AddTool(s, server.Tool{Name: "bake", Annotations: &mcp.ToolAnnotations{IdempotentHint: new(false)}},
		func(ctx context.Context, r *server.Request, in struct {
			Bread string `json:"bread" jsonschema:"enum=rye,enum=wheat"`
		}) (Loaf, error) {
			return Loaf{Bread: in.Bread, Price: 4.5}, nil
		})

	session := dial(s, nil)
	defer session.Close()
	loaf, err := client.CallAs[Loaf](context.Background(), session, "bake", map[string]string{"bread": "rye"}, nil)
	fmt.Printf("%+v %v\n", loaf, err)
	say(session, "bake", map[string]string{"bread": "cake"})
	// Output:
	// {Bread:rye Price:4.5} <nil>
	// at "/bread": expected one of "rye", "wheat", got "cake"
}

// An error is a result that the model sees. A *jsonrpc.Error is a protocol error.
func ExampleAddTool_errors() {
	s := server.New(mcp.Implementation{Name: "bakery", Version: "1.0.0"}, nil)
	server.AddTool(s, server.Tool{Name: "bake"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		return "", errors.New("the oven is cold: call preheat first")
	})
	server.AddTool(s, server.Tool{Name: "burn"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		return "", fmt.Errorf("burning: %w", &jsonrpc.Error{Code: 451, Message: "not allowed"})
	})
	session := dial(s, nil)
	defer session.Close()
	say(session, "bake", nil)
	say(session, "burn", nil)
	// Output:
	// the oven is cold: call preheat first
	// protocol error: jsonrpc: 451 "not allowed"
}

// Replace changes the tools while clients are connected, and notifies them.
func ExampleServer_Replace() {
	saying := func(word string) *server.Entry {
		tool, err := server.NewTool(server.Tool{Name: "greet"}, func(context.Context, *server.Request, struct{}) (string, error) {
			return word, nil
		})
		if err != nil {
			log.Fatal(err)
		}
		return tool
	}
	s := server.New(mcp.Implementation{Name: "greeter", Version: "1.0.0"}, nil)
	session := dial(s, nil)
	defer session.Close()
	for _, word := range []string{"good morning", "good evening"} {
		if err := s.Replace(saying(word)); err != nil {
			log.Fatal(err)
		}
		answer, err := client.CallAs[string](context.Background(), session, "greet", nil, nil)
		fmt.Println(answer, err)
	}
	// Output:
	// good morning <nil>
	// good evening <nil>
}

// NewTool returns the error with which AddTool panics.
func ExampleNewTool() {
	_, err := server.NewTool(server.Tool{Name: "say hello"}, func(context.Context, *server.Request, struct{}) (string, error) {
		return "hello", nil
	})
	fmt.Println(err)
	// Output:
	// tool "say hello": a name consists of A–Z a–z 0–9 _ - and dot, not of ' '
}

// A raw tool gets and returns JSON. Its schema is given.
func ExampleAddRawTool() {
	s := server.New(mcp.Implementation{Name: "relay", Version: "1.0.0"}, nil)
	server.AddRawTool(s, server.Tool{
		Name:        "echo",
		InputSchema: json.RawMessage(`{"type":"object","required":["say"]}`),
	}, func(ctx context.Context, r *server.Request, arguments json.RawMessage) (mcp.Result, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(string(arguments))}}, nil
	})
	session := dial(s, nil)
	defer session.Close()
	say(session, "echo", json.RawMessage(`{"say":1.50, "and":"more"}`))
	say(session, "echo", json.RawMessage(`{}`))
	// Output:
	// {"say":1.50, "and":"more"}
	// missing "say"
}

// NewRawTool returns an entry for Replace.
func ExampleNewRawTool() {
	tool, err := server.NewRawTool(server.Tool{Name: "echo", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, r *server.Request, arguments json.RawMessage) (mcp.Result, error) {
			return mcp.Raw(`{"content":[{"type":"text","text":"raw"}]}`), nil
		})
	if err != nil {
		log.Fatal(err)
	}
	s := server.New(mcp.Implementation{Name: "relay", Version: "1.0.0"}, nil)
	if err := s.Replace(tool); err != nil {
		log.Fatal(err)
	}
	session := dial(s, nil)
	defer session.Close()
	say(session, "echo", nil)
	// Output: raw
}

// Progress is sent to callers that asked for it, before the result.
func ExampleRequest_Progress() {
	s := server.New(mcp.Implementation{Name: "oven", Version: "1.0.0"}, nil)
	server.AddTool(s, server.Tool{Name: "heat"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		for i := range 3 {
			if err := r.Progress(ctx, float64(i+1), 3, strings.Repeat("hot ", i+1)); err != nil {
				return "", err
			}
		}
		return "ready", nil
	})
	session := dial(s, nil)
	defer session.Close()
	result, err := session.CallTool(context.Background(), "heat", nil, &client.CallOptions{Progress: func(p *mcp.ProgressParams) {
		fmt.Println(p.Progress, "of", *p.Total, strings.TrimSpace(p.Message))
	}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	// Output:
	// 1 of 3 hot
	// 2 of 3 hot hot
	// 3 of 3 hot hot hot
	// ready
}

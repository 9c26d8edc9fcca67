package arguments_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A Chart is what a tool returns.
type Chart struct {
	Points int    `json:"points"`
	Title  string `json:"title"`
}

// say calls a tool and prints what it returns.
func say(s *server.Server, tool, arguments string) {
	session, err := client.Connect(context.Background(), transport.Pipe(s), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	result, err := session.CallTool(context.Background(), tool, json.RawMessage(arguments), nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Text())
	if result.StructuredContent != nil {
		fmt.Println(string(result.StructuredContent))
	}
}

func newServer() *server.Server {
	return server.New(mcp.Implementation{Name: "charts", Version: "1.0.0"}, nil)
}

func Example_lenient() {
	s := newServer()
	type ReadIn struct {
		Rows   int      `json:"rows"`
		Fields []string `json:"fields"`
	}
	server.AddTool(s, server.Tool{Name: "read", Lenient: true},
		func(ctx context.Context, r *server.Request, in ReadIn) (string, error) {
			return fmt.Sprint(in.Rows, " rows of ", in.Fields), nil
		})
	say(s, "read", `{"rows":"42","fields":"name"}`)
	// Output: 42 rows of [name]
}

func Example_prepare() {
	s := newServer()
	// The member had another name in the first version of the tool.
	rename := func(ctx context.Context, arguments json.RawMessage) (json.RawMessage, error) {
		return bytes.Replace(arguments, []byte(`"path"`), []byte(`"file"`), 1), nil
	}
	type OpenIn struct {
		File string `json:"file"`
	}
	server.AddTool(s, server.Tool{Name: "open", Prepare: rename},
		func(ctx context.Context, r *server.Request, in OpenIn) (string, error) {
			return "opened " + in.File, nil
		})
	say(s, "open", `{"path":"a.txt"}`)
	// Output: opened a.txt
}

func Example_requiredByTag() {
	s := newServer()
	type UserIn struct {
		Name  string `json:"name" jsonschema:"required"`
		Email string `json:"email"`
	}
	server.AddTool(s, server.Tool{Name: "invite", RequiredByTag: true},
		func(ctx context.Context, r *server.Request, in UserIn) (string, error) {
			return "invited " + in.Name, nil
		})
	say(s, "invite", `{"name":"Ann"}`)
	// Output: invited Ann
}

func Example_unvalidated() {
	s := newServer()
	server.AddRawTool(s, server.Tool{
		Name: "count", Unvalidated: true,
		InputSchema: json.RawMessage(`{"type":"object","properties":{"list":{"type":"array"}}}`),
	}, func(ctx context.Context, r *server.Request, arguments json.RawMessage) (mcp.Result, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(fmt.Sprint(len(arguments), " bytes"))}}, nil
	})
	say(s, "count", `{"list":"no list"}`)
	// Output: 18 bytes
}

func Example_result() {
	s := newServer()
	server.AddTool(s, server.Tool{Name: "chart"},
		func(ctx context.Context, r *server.Request, _ struct{}) (server.Result[Chart], error) {
			return server.Result[Chart]{
				Value:   Chart{Points: 3, Title: "Sales"},
				Content: []mcp.Content{mcp.Text("Sales rise."), mcp.Image([]byte("…"), "image/png")},
			}, nil
		})
	say(s, "chart", `{}`)
	// Output:
	// Sales rise.
	// {"points":3,"title":"Sales"}
}

func Example_textOnly() {
	s := newServer()
	server.AddTool(s, server.Tool{Name: "chart", TextOnly: true},
		func(ctx context.Context, r *server.Request, _ struct{}) (Chart, error) {
			return Chart{Points: 3, Title: "Sales"}, nil
		})
	say(s, "chart", `{}`)
	// Output: {"points":3,"title":"Sales"}
}

package server_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

type memoryService struct{}

func (memoryService) Method(_ context.Context, _ struct {
	_    server.ToolTag `name:"method"`
	Rows rows           `json:"rows"`
},
) (string, error) {
	return "ok", nil
}

// rows has a schema for the general validator, which decodes its instances.
type rows []any

func (rows) JSONSchema() json.RawMessage { return json.RawMessage(`{"not":{"type":"null"}}`) }

// Options.ValidationMemory limits what the arguments and results of all tools need. The session goes on.
func TestLimitValidationMemory(t *testing.T) {
	const general = `{"type":"object","properties":{"rows":{"not":{"type":"null"}}}}`
	long := `{"rows":[` + strings.Repeat("0,", 40_000) + `0]}`
	s := newServer(&server.Options{ValidationMemory: 1 << 20, Logger: discardLogger()})
	server.AddTool(s, server.Tool{Name: "typed"}, func(context.Context, *server.Request, struct {
		Rows rows `json:"rows"`
	},
	) (string, error) {
		return "ok", nil
	})
	server.AddRawTool(s, server.Tool{Name: "raw", InputSchema: json.RawMessage(general)}, func(context.Context, *server.Request, json.RawMessage) (mcp.Result, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("ok")}}, nil
	})
	server.AddService(s, memoryService{})
	server.AddRawTool(s, server.Tool{Name: "result", InputSchema: json.RawMessage(`{"type":"object"}`), OutputSchema: json.RawMessage(general)},
		func(_ context.Context, _ *server.Request, arguments json.RawMessage) (mcp.Result, error) {
			return &mcp.CallToolResult{StructuredContent: arguments, Content: []mcp.Content{mcp.Text("ok")}}, nil
		})
	session := connectInMemory(t, s, nil)
	for _, tool := range []string{"typed", "raw", "method"} {
		if result := call(t, session, tool, long); !result.IsError || !strings.Contains(textOf(result), "more than 1048576 bytes of memory") {
			t.Errorf("%s: got %.200q, want the limit", tool, textOf(result))
		}
	}
	if _, err := session.CallTool(t.Context(), "result", json.RawMessage(long), nil); message(err) == "" {
		t.Errorf("a result beyond the limit: got %v, want an error of the protocol", err)
	}
	for _, tool := range []string{"typed", "raw", "method", "result"} {
		if result := call(t, session, tool, `{"rows":[1]}`); result.IsError || textOf(result) != "ok" {
			t.Errorf("%s: got %q after the limit", tool, textOf(result))
		}
	}
}

// Errors of arguments repeat only the start of a caller's names.
func TestErrorsOfArgumentsAreBounded(t *testing.T) {
	s := newServer(nil)
	type form struct {
		Tone string `json:"tone"`
	}
	server.AddPrompt(s, server.Prompt{Name: "p"}, func(context.Context, *server.Request, form) (string, error) { return "ok", nil })
	server.AddTool(s, server.Tool{Name: "t"}, func(context.Context, *server.Request, map[string]form) (string, error) { return "ok", nil })
	session := connectInMemory(t, s, nil)
	long := strings.Repeat("x", 1<<20)
	request, err := jsonrpc.NewRequest(jsonrpc.IntID(1), mcp.MethodPromptsGet, json.RawMessage(`{"name":"p","arguments":{"`+long+`":"a"}}`))
	if err != nil {
		t.Fatal(err)
	}
	prompt := mcp.NewCall(request, &mcp.Caller{}, nil)
	if _, err := s.Serve(t.Context(), &prompt); !strings.Contains(message(err), "accepted: tone") || len(message(err)) > 1000 {
		t.Errorf("a prompt: got %.300v", err)
	}
	if result := call(t, session, "t", `{"`+long+`":{"tone":1}}`); !result.IsError || len(textOf(result)) > 1000 {
		t.Errorf("a tool: got %.300s", textOf(result))
	}
}

package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

type orderIn struct {
	Bread  string   `json:"bread" jsonschema:"minLength=2"`
	Loaves int      `json:"loaves,omitempty" jsonschema:"default=1,minimum=1,maximum=12"`
	Notes  []string `json:"notes,omitempty"`
}

func newBakery() *server.Server {
	s := newServer(nil)
	server.AddTool(s, server.Tool{Name: "order"}, func(_ context.Context, _ *server.Request, in orderIn) (orderIn, error) { return in, nil })
	return s
}

// TestArgumentErrors: what a model got wrong it is told in a result, all at once,
// with the place and what was expected. MCP 2025-11-25, server/tools.
func TestArgumentErrors(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, newBakery(), era)
		for _, test := range []struct {
			arguments string
			says      []string
		}{
			{`{}`, []string{"bread"}},
			{`{"bread":7}`, []string{"/bread", "string", "7"}},
			{`{"bread":"x"}`, []string{"/bread", "2"}},
			{`{"bread":"rye","loaves":13}`, []string{"/loaves", "12", "13"}},
			{`{"bread":"rye","loaves":1.5}`, []string{"/loaves", "integer", "1.5"}},
			{`{"bread":"rye","notes":["a",null]}`, []string{"/notes/1", "null"}},
			{`{"bread":"rye","Loaves":2}`, []string{"Loaves", "loaves"}},
			{`{"bread":7,"loaves":0,"more":1}`, []string{"/bread", "/loaves", "more"}},
		} {
			result := call(t, session, "order", test.arguments)
			if !result.IsError {
				t.Errorf("order(%s) is no error", test.arguments)
			}
			for _, word := range test.says {
				if !strings.Contains(texts(result), word) {
					t.Errorf("order(%s) says %q, which lacks %q", test.arguments, texts(result), word)
				}
			}
		}
	})
}

func TestArguments(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, newBakery(), era)
		got, err := client.CallAs[orderIn](t.Context(), session, "order", json.RawMessage(`{"loaves":1e1,"bread":"\u0072ye"}`))
		if err != nil || got.Bread != "rye" || got.Loaves != 10 {
			t.Errorf("the tool got %+v, %v", got, err)
		}
		got, err = client.CallAs[orderIn](t.Context(), session, "order", json.RawMessage(`{"bread":"rye"}`))
		if err != nil || got.Loaves != 1 {
			t.Errorf("the tool got %+v, %v; want the default of one loaf", got, err)
		}
	})
}

// TestMalformedCalls are the protocol's to refuse, not the tool's.
func TestMalformedCalls(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, newBakery(), era)
		for _, params := range []string{
			`{"name":"order","arguments":[]}`, `{"name":"order","arguments":"{}"}`, `{"name":"order","arguments":7}`,
			`{"name":"unknown"}`, `{"name":"Order","arguments":{}}`, `{"name":7}`, `{}`, `{"Name":"order","arguments":{"bread":"rye"}}`,
		} {
			_, err := raw(t, session, mcp.MethodToolsCall, params)
			if wantCode(t, err, jsonrpc.InvalidParams); t.Failed() {
				t.Fatalf("with %s", params)
			}
		}
		_, err := raw(t, session, mcp.MethodToolsCall, `{"name":"order","arguments":{"bread":"a","bread":"b"}}`)
		if err == nil {
			return // a result for the model says so
		}
		if failed, ok := errors.AsType[*jsonrpc.CallError](err); ok && failed.Delivery == jsonrpc.NotSent {
			return // the client's end has noticed: over HTTP it reads what it sends
		}
		wantCode(t, err, jsonrpc.InvalidRequest)
	})
}

// TestNoArguments: none, null and an empty object are the same.
func TestNoArguments(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddTool(s, server.Tool{Name: "ping"}, func(context.Context, *server.Request, struct{}) (string, error) { return "pong", nil })
		server.AddRawTool(s, server.Tool{Name: "raw", InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(_ context.Context, _ *server.Request, arguments json.RawMessage) (mcp.Result, error) {
				return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(string(arguments))}}, nil
			})
		session := connect(t, s, era)
		for _, params := range []string{`{"name":"ping"}`, `{"name":"ping","arguments":null}`, `{"name":"ping","arguments":{}}`} {
			if got, err := raw(t, session, mcp.MethodToolsCall, params); err != nil || !strings.Contains(got, "pong") {
				t.Errorf("%s gives %s, %v", params, got, err)
			}
		}
		for _, params := range []string{`{"name":"raw"}`, `{"name":"raw","arguments":null}`} {
			if got, err := raw(t, session, mcp.MethodToolsCall, params); err != nil || !strings.Contains(got, `"text":"{}"`) {
				t.Errorf("%s gives %s, %v", params, got, err)
			}
		}
	})
}

// TestExactNumbers: integers keep their digits, both ways.
func TestExactNumbers(t *testing.T) {
	const big = "9007199254740993" // 2^53+1
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		type numbers struct {
			N int64          `json:"n"`
			U uint64         `json:"u,omitempty"`
			X map[string]any `json:"x,omitempty"`
		}
		server.AddTool(s, server.Tool{Name: "echo"}, func(_ context.Context, _ *server.Request, in numbers) (numbers, error) { return in, nil })
		server.AddRawTool(s, server.Tool{Name: "raw", InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(_ context.Context, _ *server.Request, arguments json.RawMessage) (mcp.Result, error) {
				return &mcp.CallToolResult{StructuredContent: arguments}, nil
			})
		session := connect(t, s, era)
		result := call(t, session, "echo", `{"n":`+big+`,"u":18446744073709551615}`)
		if got, want := string(result.StructuredContent), `{"n":`+big+`,"u":18446744073709551615}`; got != want {
			t.Errorf("the tool gives %s, want %s", got, want)
		}
		if result := call(t, session, "echo", `{"n":9223372036854775808}`); !result.IsError {
			t.Errorf("a number beyond int64 gives %s", texts(result))
		}
		const exact = `{"z":1.10, "a":1e400,"n":` + big + `}`
		if got := string(call(t, session, "raw", exact).StructuredContent); got != exact {
			t.Errorf("the raw tool gives %s, want %s", got, exact)
		}
	})
}

// TestNoEscaping: characters that only HTML minds arrive as they are.
func TestNoEscaping(t *testing.T) {
	const text = `<b>&"\` + "\u2028é\n"
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		type out struct {
			Text string `json:"text"`
		}
		server.AddTool(s, server.Tool{Name: "text"}, func(context.Context, *server.Request, struct{}) (string, error) { return text, nil })
		server.AddTool(s, server.Tool{Name: "struct"}, func(context.Context, *server.Request, struct{}) (out, error) { return out{text}, nil })
		server.AddResource(s, server.Resource{URI: "app:json"}, func(context.Context, *server.Request) (out, error) { return out{"<b>"}, nil })
		session := connect(t, s, era)
		if got := texts(call(t, session, "text", `{}`)); got != text {
			t.Errorf("the text is %q, want %q", got, text)
		}
		result, err := raw(t, session, mcp.MethodToolsCall, `{"name":"struct"}`)
		if err != nil || !strings.Contains(result, `{"text":"<b>&`) || strings.Contains(result, `u003c`) {
			t.Errorf("the result is %s, %v", result, err)
		}
		read, err := session.Read(t.Context(), "app:json", nil)
		if err != nil || read.Contents[0].(*mcp.TextResourceContents).Text != `{"text":"<b>"}` {
			t.Errorf("the resource is %+v, %v", read, err)
		}
	})
}

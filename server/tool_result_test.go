package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// returns adds a tool that returns out.
func returns[Out any](s *server.Server, name string, out Out) {
	name = strings.ReplaceAll(name, " ", "_")
	server.AddTool(s, server.Tool{Name: name}, func(context.Context, *server.Request, struct{}) (Out, error) { return out, nil })
}

type point struct {
	X int `json:"x"`
	Y int `json:"y,omitzero"`
}

// TestResults: what a function returns decides what its caller gets.
func TestResults(t *testing.T) {
	s := newServer(nil)
	returns(s, "string", "text")
	returns[mcp.Content](s, "content", mcp.Text("text"))
	returns(s, "text content", mcp.Text("text"))
	returns(s, "contents", []mcp.Content{mcp.Text("a"), mcp.Text("b")})
	returns(s, "content list", mcp.ContentList{mcp.Text("a")})
	returns(s, "result", &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("own")}, IsError: true})
	returns[*mcp.CallToolResult](s, "nil result", nil)
	returns[any](s, "nil", nil)
	returns[any](s, "any string", "text")
	returns[any](s, "any content", mcp.Text("text"))
	returns[any](s, "any contents", []mcp.Content{mcp.Text("a")})
	returns[any](s, "any result", &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("own")}})
	returns[any](s, "any value", point{1, 2})
	returns(s, "struct", point{1, 2})
	returns(s, "pointer", &point{X: 1})
	returns(s, "slice", []point{{1, 2}})
	returns(s, "map", map[string]int{"b": 2, "a": 1})
	returns(s, "int", 7)
	returns(s, "bool", true)
	returns(s, "raw", json.RawMessage(`{"b":1,"a":[1,2]}`))

	modern, legacy := connect(t, s, client.Modern), connect(t, s, client.Legacy)
	for _, test := range []struct{ tool, text, structured string }{
		{"string", "text", ""},
		{"content", "text", ""},
		{"text content", "text", ""},
		{"contents", "a\nb", ""},
		{"content list", "a", ""},
		{"result", "own", ""},
		{"nil result", "", ""},
		{"nil", "", ""},
		{"any string", "text", ""},
		{"any content", "text", ""},
		{"any contents", "a", ""},
		{"any result", "own", ""},
		{"any value", `{"x":1,"y":2}`, `{"x":1,"y":2}`},
		{"struct", `{"x":1,"y":2}`, `{"x":1,"y":2}`},
		{"pointer", `{"x":1}`, `{"x":1}`},
		{"slice", `[{"x":1,"y":2}]`, `[{"x":1,"y":2}]`},
		{"map", `{"a":1,"b":2}`, `{"a":1,"b":2}`},
		{"int", "7", "7"},
		{"bool", "true", "true"},
		{"raw", `{"b":1,"a":[1,2]}`, `{"b":1,"a":[1,2]}`},
	} {
		for _, session := range []*client.Session{modern, legacy} {
			result := call(t, session, strings.ReplaceAll(test.tool, " ", "_"), `{}`)
			structured := test.structured
			if session == legacy && !strings.HasPrefix(structured, "{") {
				structured = "" // only objects, until 2025-11-25
			}
			if texts(result) != test.text || string(result.StructuredContent) != structured {
				t.Errorf("%s gives %q and %s, want %q and %s", test.tool, texts(result), result.StructuredContent, test.text, structured)
			}
			if result.IsError != (test.tool == "result") {
				t.Errorf("%s: IsError is %t", test.tool, result.IsError)
			}
		}
	}
}

// TestOutputSchema: a result with structure has a schema, where the version has
// words for it.
func TestOutputSchema(t *testing.T) {
	s := newServer(nil)
	returns(s, "string", "")
	returns[any](s, "any", nil)
	returns(s, "struct", point{})
	returns(s, "pointer", &point{})
	returns(s, "int", 7)
	server.AddTool(s, server.Tool{Name: "given", OutputSchema: json.RawMessage(`{ "type":"object", "x-own":[1.0] }`)},
		func(context.Context, *server.Request, struct{}) (any, error) { return point{}, nil })
	schemas := func(session *client.Session) map[string]string {
		found := make(map[string]string)
		for tool, err := range session.Tools(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			found[tool.Name] = string(tool.OutputSchema)
		}
		return found
	}
	const object = `{"type":"object","properties":{"x":{"type":"integer"},"y":{"type":"integer"}},"required":["x"],"additionalProperties":false}`
	want := map[string]string{
		"string": "", "any": "", "struct": object, "pointer": object, "int": `{"type":"integer"}`,
		"given": `{ "type":"object", "x-own":[1.0] }`,
	}
	if diff := cmp.Diff(want, schemas(connect(t, s, client.Modern))); diff != "" {
		t.Errorf("output schemas (-want +got):\n%s", diff)
	}
	want["int"] = ""
	if diff := cmp.Diff(want, schemas(connect(t, s, client.Legacy))); diff != "" {
		t.Errorf("output schemas of the legacy era (-want +got):\n%s", diff)
	}
}

// TestToolErrors: an error is for the model, save for the protocol's own.
func TestToolErrors(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var log bytes.Buffer
		s := newServer(&server.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		fails := func(name string, err error) {
			server.AddTool(s, server.Tool{Name: name}, func(context.Context, *server.Request, struct{}) (point, error) { return point{}, err })
		}
		fails("plain", errors.New("the oven is cold"))
		fails("wrapped", fmt.Errorf("baking: %w", &jsonrpc.Error{Code: -42, Message: "no flour", Data: json.RawMessage(`{"x":1}`)}))
		returns(s, "channel", map[string]any{"c": make(chan int)})
		returns(s, "nil block", []mcp.Content{nil})
		session := connect(t, s, era)

		result := call(t, session, "plain", `{}`)
		if !result.IsError || texts(result) != "the oven is cold" || result.StructuredContent != nil {
			t.Errorf("an error is told as %+v", result)
		}
		_, err := session.CallTool(t.Context(), "wrapped", nil, nil)
		wantCode(t, err, -42)
		var e *jsonrpc.Error
		if errors.As(err, &e) && (e.Message != "no flour" || string(e.Data) != `{"x":1}`) {
			t.Errorf("the protocol's error is told as %+v", e)
		}
		if result := call(t, session, "channel", `{}`); !result.IsError || !strings.Contains(texts(result), "encoding") {
			t.Errorf("a result that has no JSON is told as %+v", result)
		}
		if log.Len() > 0 {
			t.Errorf("the operator is bothered with %s", &log)
		}
		_, err = session.CallTool(t.Context(), "nil_block", nil, nil)
		wantCode(t, err, jsonrpc.InternalError)
		if !strings.Contains(log.String(), "tools/call") {
			t.Errorf("an error that nobody is shown is not logged: %s", &log)
		}
	})
}

// TestOmitEmpty: authors know the tag from encoding/json.
func TestOmitEmpty(t *testing.T) {
	type report struct {
		Count int    `json:"count,omitempty"`
		Done  bool   `json:"done,omitempty"`
		Name  string `json:"name,omitempty"`
	}
	s := newServer(nil)
	server.AddTool(s, server.Tool{Name: "report"}, func(_ context.Context, r *server.Request, in report) (report, error) {
		if sent := string(r.Call().Member("arguments")); sent != "{}" {
			t.Errorf("the arguments are %s, want {}", sent)
		}
		return in, nil
	})
	result, err := connect(t, s, client.Modern).CallTool(t.Context(), "report", report{}, nil)
	if err != nil || string(result.StructuredContent) != "{}" {
		t.Errorf("the result is %v, error %v, want {}", result, err)
	}
}

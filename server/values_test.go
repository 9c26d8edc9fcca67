package server_test

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// TestStructuredContentIsText checks that a result with structured content only also has it as text.
func TestStructuredContentIsText(t *testing.T) {
	s := newServer(nil)
	var result mcp.Result
	server.AddTool(s, server.Tool{Name: "typed"}, func(context.Context, *server.Request, struct{}) (*mcp.CallToolResult, error) {
		result, _ := result.(*mcp.CallToolResult)
		return result, nil
	})
	server.AddRawTool(s, server.Tool{Name: "raw", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *server.Request, json.RawMessage) (mcp.Result, error) { return result, nil })
	session := connectWith(t, s, nil)
	for _, test := range []struct {
		name   string
		result mcp.Result
		want   string
	}{
		{"object", &mcp.CallToolResult{StructuredContent: json.RawMessage(`{"a":1}`)}, `{"a":1}`},
		{"empty list", &mcp.CallToolResult{Content: mcp.ContentList{}, StructuredContent: json.RawMessage(`{"a":"\u0041"}`)}, `{"a":"\u0041"}`},
		{"with content", &mcp.CallToolResult{Content: mcp.ContentList{mcp.Text("x")}, StructuredContent: json.RawMessage(`{"a":1}`)}, `x`},
		{"nothing", &mcp.CallToolResult{}, ``},
		{"failure", &mcp.CallToolResult{IsError: true, StructuredContent: json.RawMessage(`{"a":1}`)}, `{"a":1}`},
		{"not UTF-8", &mcp.CallToolResult{StructuredContent: json.RawMessage("{\"a\":\"\xff\"}")}, "{\"a\":\"\ufffd\"}"},
		{"raw object", mcp.Raw(`{"structuredContent":{"a":1}}`), `{"a":1}`},
		{"raw empty list", mcp.Raw(`{"structuredContent":{"a":1},"content":[ ]}`), `{"a":1}`},
		{"raw null", mcp.Raw(`{"content":null,"structuredContent":{"a":1}}`), `{"a":1}`},
		{"raw with content", mcp.Raw(`{"content":[{"type":"text","text":"x"}],"structuredContent":{"a":1}}`), `x`},
		{"raw nothing", mcp.Raw(`{"content":[]}`), ``},
	} {
		result = test.result
		for _, tool := range []string{"raw", "typed"} {
			if _, isRaw := result.(mcp.Raw); isRaw && tool == "typed" {
				continue
			}
			if got := call(t, session, tool, `{}`); got.Text() != test.want {
				t.Errorf("%s, %s tool: got %q, want %q", test.name, tool, got.Text(), test.want)
			}
		}
	}
}

type (
	season    string
	endless   *endless
	endlessA  *endlessB
	endlessB  *endlessA
	endlessIn struct {
		P endless `json:"p"`
	}
	lists []lists
)

func (season) EnumValues() []season { return []season{"spring", "autumn"} }

// TestTypesWithoutEnd checks that registering a type without end returns.
func TestTypesWithoutEnd(t *testing.T) {
	const want = "has no JSON form"
	for name, register := range map[string]func() error{
		"argument": func() error {
			_, err := server.NewTool(server.Tool{Name: "t"}, func(context.Context, *server.Request, endlessIn) (string, error) { return "", nil })
			return err
		},
		"arguments": func() error {
			_, err := server.NewTool(server.Tool{Name: "t"}, func(context.Context, *server.Request, endless) (string, error) { return "", nil })
			return err
		},
		"result": func() error {
			_, err := server.NewTool(server.Tool{Name: "t"}, func(context.Context, *server.Request, struct{}) (endless, error) { return nil, nil })
			return err
		},
		"result of two": func() error {
			_, err := server.NewTool(server.Tool{Name: "t"}, func(context.Context, *server.Request, struct{}) (endlessA, error) { return nil, nil })
			return err
		},
		"list of them": func() error {
			_, err := server.NewTool(server.Tool{Name: "t"}, func(context.Context, *server.Request, struct{}) ([]endless, error) { return nil, nil })
			return err
		},
		"prompt": func() error {
			_, err := server.NewPrompt(server.Prompt{Name: "t"}, func(context.Context, *server.Request, endlessIn) (string, error) { return "", nil })
			return err
		},
		"template": func() error {
			_, err := server.NewTemplate(server.Template{Name: "t", URITemplate: "t://{p}"}, func(context.Context, *server.Request, endlessIn) (string, error) { return "", nil })
			return err
		},
		"event": func() error {
			_, _, err := server.NewEvent[struct{}, endlessIn](server.Event{Name: "t"}, nil)
			return err
		},
	} {
		if err := register(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, want)
		}
	}
	if _, err := server.NewTool(server.Tool{Name: "t"}, func(context.Context, *server.Request, struct{}) (lists, error) { return nil, nil }); err != nil {
		t.Errorf("a list of itself: %v", err)
	}
}

// TestMapsWithKnownKeys checks arguments with maps of an enumeration.
func TestMapsWithKnownKeys(t *testing.T) {
	s := newServer(nil)
	server.AddTool(s, server.Tool{Name: "count"}, func(_ context.Context, _ *server.Request, in struct {
		Counts map[season]int `json:"counts"`
	}) (map[season]int, error) {
		return in.Counts, nil
	})
	session := connectWith(t, s, nil)
	got, err := client.CallAs[map[season]int](t.Context(), session, "count", map[string]any{"counts": map[season]int{"spring": 1}}, nil)
	if err != nil || got["spring"] != 1 {
		t.Errorf("got %v, %v", got, err)
	}
	if result := call(t, session, "count", `{"counts":{"winter":1}}`); !result.IsError || !strings.Contains(result.Text(), "winter") {
		t.Errorf("another key: %s", result.Text())
	}
}

// TestValuesInText checks values of prompts and templates, which are text.
func TestValuesInText(t *testing.T) {
	s := newServer(nil)
	server.AddPrompt(s, server.Prompt{Name: "values"}, func(_ context.Context, _ *server.Request, in struct {
		Number json.Number `json:"number"`
		Link   *url.URL    `json:"link"`
	}) (string, error) {
		return string(in.Number) + " " + in.Link.String(), nil
	})
	session := connectWith(t, s, nil)
	got, err := session.GetPrompt(t.Context(), "values", map[string]string{"number": "12345678901234567890.5", "link": "https://example.com/a"}, nil)
	if err != nil || got.Text() != "12345678901234567890.5 https://example.com/a" {
		t.Errorf("got %v, %v", got, err)
	}
	for _, wrong := range []map[string]string{{"number": "x", "link": "/"}, {"number": "1 ", "link": "/"}, {"number": `"1"`, "link": "/"}, {"number": "1", "link": "a%zz"}} {
		if got, err := session.GetPrompt(t.Context(), "values", wrong, nil); err == nil {
			t.Errorf("%v: got %s, want an error", wrong, got.Text())
		}
	}
}

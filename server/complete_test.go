package server_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

func newCompleter() *server.Server {
	s := newServer(nil)
	server.AddPrompt(s, server.Prompt{Name: "greet"}, func(context.Context, *server.Request, struct {
		Name, Language string
	}) (string, error) {
		return "", nil
	})
	server.AddTemplate(s, server.Template{URITemplate: "app:{x}/{y}"}, func(context.Context, *server.Request, map[string]string) (string, error) { return "", nil })
	many := make([]string, 150)
	for i := range many {
		many[i] = fmt.Sprint("name", i)
	}
	server.AddCompletion(s, server.Completion{Prompt: "greet", Argument: "Name"},
		func(_ context.Context, _ *server.Request, typed string, others map[string]string) ([]string, error) {
			switch typed {
			case "many":
				return many, nil
			case "hundred":
				return many[:100], nil
			case "none":
				return nil, nil
			case "broken":
				return nil, errors.New("out of names")
			}
			return []string{typed + "!", others["Language"]}, nil
		})
	server.AddCompletion(s, server.Completion{Template: "app:{x}/{y}", Argument: "y"},
		func(context.Context, *server.Request, string, map[string]string) ([]string, error) {
			return []string{"y"}, nil
		})
	return s
}

func TestCompletion(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, newCompleter(), era)
		for typed, want := range map[string]struct {
			shown, total int
			more         bool
		}{
			"many": {100, 150, true}, "hundred": {100, 100, false}, "none": {0, 0, false}, "A": {2, 2, false},
		} {
			got, err := session.CompletePrompt(t.Context(), "greet", "Name", typed, nil)
			if err != nil || got.Values == nil || len(got.Values) != want.shown || got.Total == nil || *got.Total != want.total || got.HasMore != want.more {
				t.Errorf("%q is completed to %+v, %v; want %+v", typed, got, err, want)
			}
		}
		got, err := session.CompletePrompt(t.Context(), "greet", "Name", "A", map[string]string{"Language": "de"})
		if err != nil || !slices.Equal(got.Values, []string{"A!", "de"}) {
			t.Errorf("with another argument known the values are %+v, %v", got, err)
		}
		got, err = session.CompleteTemplate(t.Context(), "app:{x}/{y}", "y", "", nil)
		if err != nil || !slices.Equal(got.Values, []string{"y"}) {
			t.Errorf("a variable is completed to %+v, %v", got, err)
		}
		// What exists and has no completion has no values.
		got, err = session.CompleteTemplate(t.Context(), "app:{x}/{y}", "x", "", nil)
		if err != nil || len(got.Values) != 0 {
			t.Errorf("a variable without completion is completed to %+v, %v", got, err)
		}
		got, err = session.CompletePrompt(t.Context(), "greet", "Language", "", nil)
		if err != nil || len(got.Values) != 0 {
			t.Errorf("an argument without completion is completed to %+v, %v", got, err)
		}
	})
}

func TestCompletionErrors(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, newCompleter(), era)
		for params, code := range map[string]jsonrpc.Code{
			`{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"Nmae","value":""}}`:   jsonrpc.InvalidParams,
			`{"ref":{"type":"ref/prompt","name":"unknown"},"argument":{"name":"Name","value":""}}`: jsonrpc.InvalidParams,
			`{"ref":{"type":"ref/resource","uri":"app:{z}"},"argument":{"name":"z","value":""}}`:   jsonrpc.InvalidParams,
			`{"ref":{"type":"ref/tool","name":"greet"},"argument":{"name":"Name","value":""}}`:     jsonrpc.InvalidParams,
			`{"ref":{"type":"ref/prompt"},"argument":{"name":"Name","value":""}}`:                  jsonrpc.InvalidParams,
			`{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"Name"}}`:              jsonrpc.InvalidParams,
			`{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"Name","value":7}}`:    jsonrpc.InvalidParams,
			`{"ref":{"type":"ref/prompt","name":"greet"}}`:                                         jsonrpc.InvalidParams,
			`{}`: jsonrpc.InvalidParams,
			`{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"Name","value":""},"context":{"arguments":{"Language":7}}}`: jsonrpc.InvalidParams,
			`{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"Name","value":""},"context":{"arguments":[]}}`:             jsonrpc.InvalidParams,
			`{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"Name","value":"broken"}}`:                                  jsonrpc.InternalError,
		} {
			if _, err := raw(t, session, mcp.MethodComplete, params); err == nil {
				t.Errorf("%s is no error", params)
			} else if wantCode(t, err, code); t.Failed() {
				t.Fatalf("with %s", params)
			}
		}
	})
}

package server_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

type reviewArgs struct {
	File   string `json:"file" jsonschema_description:"what to review"`
	Lines  int    `json:"lines,omitempty"`
	Strict *bool  `json:"strict"`
	hidden string
}

func newReviewer() *server.Server {
	s := newServer(nil)
	server.AddPrompt(s, server.Prompt{Name: "review", Description: "Review a file."},
		func(_ context.Context, _ *server.Request, args reviewArgs) (string, error) {
			text := "Review " + args.File + args.hidden + "."
			if args.Lines > 0 {
				text += " Some lines only."
			}
			if args.Strict != nil && *args.Strict {
				text += " Be strict."
			}
			return text, nil
		})
	server.AddPrompt(s, server.Prompt{Name: "any"}, func(_ context.Context, _ *server.Request, args map[string]string) ([]mcp.PromptMessage, error) {
		return []mcp.PromptMessage{
			{Role: mcp.RoleUser, Content: mcp.Text(args["a"])}, {Role: mcp.RoleAssistant, Content: mcp.Text(args["b"])},
		}, nil
	})
	server.AddPrompt(s, server.Prompt{Name: "result", Description: "unused"}, func(context.Context, *server.Request, struct{}) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Description: "own", Messages: []mcp.PromptMessage{{Role: mcp.RoleUser, Content: mcp.Text("x")}}}, nil
	})
	server.AddPrompt(s, server.Prompt{Name: "broken"}, func(context.Context, *server.Request, struct{}) (string, error) {
		return "", errors.New("out of words")
	})
	server.AddPrompt(s, server.Prompt{Name: "nil"}, func(context.Context, *server.Request, struct{}) (*mcp.GetPromptResult, error) { return nil, nil })
	return s
}

func TestPrompts(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, newReviewer(), era)
		for _, test := range []struct {
			name        string
			arguments   map[string]string
			description string
			says        string
		}{
			{"review", map[string]string{"file": "a.go"}, "Review a file.", "user: Review a.go."},
			{"review", map[string]string{"file": "a.go", "lines": "3", "strict": "true"}, "Review a file.", "user: Review a.go. Some lines only. Be strict."},
			{"any", map[string]string{"a": "1", "b": "2"}, "", "user: 1\nassistant: 2"},
			{"any", nil, "", "user: \nassistant: "},
			{"result", nil, "own", "user: x"},
		} {
			result, err := session.Prompt(t.Context(), test.name, test.arguments, nil)
			if err != nil {
				t.Errorf("%s%v: %v", test.name, test.arguments, err)
				continue
			}
			var says []string
			for _, m := range result.Messages {
				says = append(says, string(m.Role)+": "+m.Content.(*mcp.TextContent).Text)
			}
			if got := strings.Join(says, "\n"); got != test.says || result.Description != test.description {
				t.Errorf("%s%v says %q (%q), want %q", test.name, test.arguments, got, result.Description, test.says)
			}
		}
	})
}

func TestPromptErrors(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, newReviewer(), era)
		for _, test := range []struct {
			params string
			code   jsonrpc.Code
			says   string
		}{
			{`{"name":"review"}`, jsonrpc.InvalidParams, `missing "file" (accepted: file, lines, strict)`},
			{`{"name":"review","arguments":{"file":"a","flie":"b"}}`, jsonrpc.InvalidParams, `unknown "flie" (accepted: file, lines, strict)`},
			{`{"name":"review","arguments":{"file":"a","lines":"three"}}`, jsonrpc.InvalidParams, `"lines": expected an integer of 64 bits, got "three"`},
			{`{"name":"review","arguments":{"file":"a","strict":"perhaps"}}`, jsonrpc.InvalidParams, `true or false, got "perhaps"`},
			{`{"name":"review","arguments":{"file":7}}`, jsonrpc.InvalidParams, `"file" must be a string`},
			{`{"name":"review","arguments":[]}`, jsonrpc.InvalidParams, "an object of strings"},
			{`{"name":"unknown"}`, jsonrpc.InvalidParams, "unknown prompt"},
			{`{}`, jsonrpc.InvalidParams, "name must be a string"},
			{`{"name":"broken"}`, jsonrpc.InternalError, "out of words"},
			{`{"name":"nil"}`, jsonrpc.InternalError, "no result"},
		} {
			_, err := raw(t, session, mcp.MethodPromptsGet, test.params)
			wantCode(t, err, test.code)
			if err != nil && !strings.Contains(message(err), test.says) {
				t.Errorf("%s is refused with %q, want %q", test.params, err, test.says)
			}
		}
	})
}

func TestPromptList(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		for prompt, err := range connect(t, newReviewer(), era).Prompts(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			want := []mcp.PromptArgument{
				{Name: "file", Description: "what to review", Required: true}, {Name: "lines"}, {Name: "strict"},
			}
			if prompt.Name == "review" {
				if diff := cmp.Diff(want, prompt.Arguments); diff != "" {
					t.Errorf("arguments (-want +got):\n%s", diff)
				}
			}
		}
	})
}

package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// TestSharedResults: a function may return the same value each time; nobody
// writes to it. The race detector looks on.
func TestSharedResults(t *testing.T) {
	s := newServer(nil)
	result := &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("x"), &mcp.ResourceLink{URI: "a:b", Name: "b"}}, StructuredContent: jsonRaw(`[1]`), Meta: mcp.Meta(`{"a":1}`)}
	read := &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{&mcp.TextResourceContents{URI: "app:r", Text: "x"}}, Meta: mcp.Meta(`{"a":1}`)}
	prompt := &mcp.GetPromptResult{Messages: []mcp.PromptMessage{{Role: mcp.RoleUser, Content: mcp.Text("x")}}}
	rawResult := mcp.Raw(`{"content":[], "structuredContent":[1],"_meta":{"a":1}}`)
	values := []string{"a", "b"}
	before := marshalled(t, result, read, prompt, rawResult)

	returns(s, "tool", result)
	server.AddRawTool(s, server.Tool{Name: "raw", InputSchema: jsonRaw(`{"type":"object"}`)},
		func(context.Context, *server.Request, json.RawMessage) (mcp.Result, error) { return rawResult, nil })
	reads(s, server.Resource{URI: "app:r"}, read)
	server.AddPrompt(s, server.Prompt{Name: "p"}, func(context.Context, *server.Request, struct {
		X string `json:"x,omitempty"`
	}) (*mcp.GetPromptResult, error) {
		return prompt, nil
	})
	server.AddCompletion(s, server.Completion{Prompt: "p", Argument: "x"},
		func(context.Context, *server.Request, string, map[string]string) ([]string, error) {
			return values, nil
		})

	var work sync.WaitGroup
	for _, era := range []client.Era{client.Modern, client.Legacy, client.Modern, client.Legacy} {
		session := connect(t, s, era)
		work.Go(func() {
			for range 20 {
				call(t, session, "tool", `{}`)
				call(t, session, "raw", `{}`)
				contents(t, session, "app:r")
				if _, err := session.Prompt(t.Context(), "p", nil, nil); err != nil {
					t.Error(err)
				}
				if _, err := session.CompletePrompt(t.Context(), "p", "x", "", nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	if after := marshalled(t, result, read, prompt, rawResult); after != before {
		t.Errorf("the results have become\n%s, were\n%s", after, before)
	}
}

func marshalled(t *testing.T, results ...mcp.Result) string {
	t.Helper()
	var all []byte
	for _, r := range results {
		var err error
		if all, err = r.AppendJSON(all); err != nil {
			t.Fatal(err)
		}
	}
	return string(all)
}

// TestKeptArguments: what a function keeps of its call stays as it was, whatever
// is called afterwards.
func TestKeptArguments(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		var kept []json.RawMessage
		var were []string
		server.AddRawTool(s, server.Tool{Name: "keep", InputSchema: jsonRaw(`{"type":"object"}`)},
			func(_ context.Context, r *server.Request, arguments json.RawMessage) (mcp.Result, error) {
				for _, slice := range []json.RawMessage{arguments, r.Call().Params(), r.Meta("x")} {
					kept, were = append(kept, slice), append(were, string(slice))
				}
				return mcp.Raw(`{"content":[]}`), nil
			})
		session := connect(t, s, era)
		for i := range 500 {
			meta := mcp.Meta(fmt.Sprintf(`{"x":%d}`, i))
			if _, err := session.CallTool(t.Context(), "keep", map[string]int{"n": i}, &client.CallOptions{Meta: meta}); err != nil {
				t.Fatal(err)
			}
		}
		for i, slice := range kept {
			if string(slice) != were[i] {
				t.Fatalf("slice %d has become %s, was %s", i, slice, were[i])
			}
		}
	})
}

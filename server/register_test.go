package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

func nothing[In any](context.Context, *server.Request, In) (string, error) { return "", nil }

// TestRefusedRegistration checks that invalid registrations panic with the file, the line and the
// reason.
func TestRefusedRegistration(t *testing.T) {
	s := newServer(nil)
	server.AddTool(s, server.Tool{Name: "taken"}, nothing[struct{}])
	for _, test := range []struct {
		name   string
		add    func()
		reason string
	}{
		{"no name", func() { server.AddTool(s, server.Tool{}, nothing[struct{}]) }, "1 to 128 characters"},
		{"long name", func() { server.AddTool(s, server.Tool{Name: strings.Repeat("x", 129)}, nothing[struct{}]) }, "1 to 128 characters"},
		{"bad name", func() { server.AddTool(s, server.Tool{Name: "a b"}, nothing[struct{}]) }, "not of ' '"},
		{"twice", func() { server.AddTool(s, server.Tool{Name: "taken"}, nothing[struct{}]) }, `the tool "taken" is registered already`},
		{"arguments are no object", func() { server.AddTool(s, server.Tool{Name: "x"}, nothing[int]) }, "object"},
		{"arguments are anything", func() { server.AddTool(s, server.Tool{Name: "x"}, nothing[any]) }, "object"},
		{"schema is no object's", func() {
			server.AddRawTool(s, server.Tool{Name: "x", InputSchema: json.RawMessage(`{"oneOf":[{}]}`)}, nil)
		}, "object"},
		{"header of a wrong type", func() {
			server.AddTool(s, server.Tool{Name: "x"}, nothing[struct {
				Price float64 `json:"price" jsonschema_extras:"x-mcp-header=Price"`
			}])
		}, `tool "x": arguments: x-mcp-header at "/properties/price": a property with a header needs "type":"string"`},
		{"header that is no name", func() {
			server.AddTool(s, server.Tool{Name: "x", InputSchema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"a:b"}}}`)}, nothing[map[string]string])
		}, `tool "x": arguments: x-mcp-header at "/properties/a": a header name consists of`},
		{"header out of reach", func() {
			server.AddRawTool(s, server.Tool{Name: "x", InputSchema: json.RawMessage(`{"type":"object","$defs":{"a":{"type":"string","x-mcp-header":"A"}}}`)}, nil)
		}, `tool "x": InputSchema: x-mcp-header at "/$defs/a": a property with a header is reached through "properties" only`},
		{"one header for two", func() {
			server.AddRawTool(s, server.Tool{Name: "x", InputSchema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"integer","x-mcp-header":"a"}}}`)}, nil)
		}, "another property has the header Mcp-Param-A"},
		{"arguments without schema", func() { server.AddTool(s, server.Tool{Name: "x"}, nothing[struct{ C chan int }]) }, "C"},
		{"bad schema", func() {
			server.AddTool(s, server.Tool{Name: "x", InputSchema: json.RawMessage(`{"type":"nonsense"}`)}, nothing[struct{}])
		}, "nonsense"},
		{"bad output schema", func() {
			server.AddTool(s, server.Tool{Name: "x", OutputSchema: json.RawMessage(`{"type":7}`)}, func(context.Context, *server.Request, struct{}) (any, error) { return nil, nil })
		}, "type"},
		{"result without schema", func() {
			server.AddTool(s, server.Tool{Name: "x"}, func(context.Context, *server.Request, struct{}) (chan int, error) { return nil, nil })
		}, "chan int"},
		{"raw tool without schema", func() {
			server.AddRawTool(s, server.Tool{Name: "x"}, func(context.Context, *server.Request, json.RawMessage) (mcp.Result, error) { return nil, nil })
		}, "InputSchema"},
		{"relative URI", func() { reads(s, server.Resource{URI: "readme.md"}, "") }, "scheme"},
		{"no URI", func() { reads(s, server.Resource{}, "") }, "scheme"},
		{"bad template", func() { server.AddTemplate(s, server.Template{URITemplate: "app:{x"}, nothing[struct{}]) }, "app:{x"},
		{"template beyond matching", func() {
			server.AddTemplate(s, server.Template{URITemplate: "app:{x}{y}"}, nothing[map[string]string])
		}, "app:{x}{y}"},
		{"misspelt variable", func() {
			server.AddTemplate(s, server.Template{URITemplate: "app:{user}"}, nothing[struct {
				User string `json:"usr"`
			}])
		}, `"user"`},
		{"unknown variable", func() {
			server.AddTemplate(s, server.Template{URITemplate: "app:{user}"}, nothing[struct {
				User string `json:"user"`
				More string `json:"more"`
			}])
		}, `"more"`},
		{"variable of a wrong type", func() {
			server.AddTemplate(s, server.Template{URITemplate: "app:{user}"}, nothing[struct {
				User []int `json:"user"`
			}])
		}, "User"},
		{"list in a map", func() {
			server.AddTemplate(s, server.Template{URITemplate: "app:a{/path*}"}, nothing[map[string]string])
		}, `"path" are lists`},
		{"list in a string", func() {
			server.AddTemplate(s, server.Template{URITemplate: "app:a{?page,tag*}"}, nothing[struct {
				Page int    `json:"page"`
				Tag  string `json:"tag"`
			}])
		}, `"tag" are lists`},
		{"prompt arguments", func() { server.AddPrompt(s, server.Prompt{Name: "x"}, nothing[int]) }, "struct"},
		{"prompt result", func() {
			server.AddPrompt(s, server.Prompt{Name: "x"}, func(context.Context, *server.Request, struct{}) (int, error) { return 0, nil })
		}, "not int"},
		{"prompt result interface", func() {
			server.AddPrompt(s, server.Prompt{Name: "x"}, func(context.Context, *server.Request, struct{}) (error, error) { return nil, nil })
		}, "not error"},
		{"completion of nothing", func() { server.AddCompletion[[]string](s, server.Completion{Argument: "x"}, nil) }, "Prompt and Template"},
		{"completion of both", func() {
			server.AddCompletion[[]string](s, server.Completion{Prompt: "p", Template: "t:{x}", Argument: "x"}, nil)
		}, "Prompt and Template"},
		{"completion of no argument", func() { server.AddCompletion[[]string](s, server.Completion{Prompt: "p"}, nil) }, "Argument"},
		{"short key", func() { newServer(&server.Options{StateKeys: [][]byte{[]byte("short")}}) }, "StateKeys"},
	} {
		t.Run(test.name, func(t *testing.T) {
			defer func() {
				p := recover()
				reason, ok := p.(string)
				if !ok || !strings.Contains(reason, test.reason) {
					t.Fatalf("the panic is %v, want it to name %q", p, test.reason)
				}
				if test.name != "short key" && !strings.Contains(reason, "register_test.go:") && !strings.Contains(reason, "resource_test.go:") {
					t.Errorf("the panic does not name the place: %s", reason)
				}
			}()
			test.add()
		})
	}
}

// TestArgumentTypes checks types that are valid arguments.
func TestArgumentTypes(t *testing.T) {
	type tree struct {
		Left, Right *tree
	}
	s := newServer(nil)
	server.AddTool(s, server.Tool{Name: "struct"}, nothing[point])
	server.AddTool(s, server.Tool{Name: "pointer"}, nothing[*point])
	server.AddTool(s, server.Tool{Name: "map"}, nothing[map[string]any])
	server.AddTool(s, server.Tool{Name: "recursive"}, nothing[tree])
}

// TestPlaceOfPanic checks that the panic names the line of the registration.
func TestPlaceOfPanic(t *testing.T) {
	defer func() {
		if p := fmt.Sprint(recover()); !strings.Contains(p, "server/register_test.go:") {
			t.Errorf("the panic is %s", p)
		}
	}()
	server.AddTool(newServer(nil), server.Tool{Name: "a b"}, nothing[struct{}])
}

// TestNewReturnsErrors checks that NewTool and similar functions do not panic.
func TestNewReturnsErrors(t *testing.T) {
	_, tool := server.NewTool(server.Tool{Name: "a b"}, nothing[struct{}])
	_, rawTool := server.NewRawTool(server.Tool{Name: "a"}, nil)
	_, resource := server.NewResource[string](server.Resource{}, nil)
	_, template := server.NewTemplate(server.Template{URITemplate: "{"}, nothing[struct{}])
	_, prompt := server.NewPrompt(server.Prompt{}, nothing[struct{}])
	_, completion := server.NewCompletion[[]string](server.Completion{}, nil)
	if err := errors.Join(tool, rawTool, resource, template, prompt, completion); strings.Count(err.Error(), "\n") != 5 {
		t.Errorf("six errors are %v", err)
	}
}

// givenBy makes a tool, a resource, a template and a prompt whose functions return a type, and
// returns the errors.
func givenBy[Out any]() (given givenErrors) {
	_, given.tool = server.NewTool(server.Tool{Name: "x"}, func(context.Context, *server.Request, struct{}) (out Out, err error) { return out, nil })
	_, given.resource = server.NewResource(server.Resource{URI: "app:x"}, func(context.Context, *server.Request) (out Out, err error) { return out, nil })
	_, given.template = server.NewTemplate(server.Template{URITemplate: "app:{x}"}, func(context.Context, *server.Request, map[string]string) (out Out, err error) { return out, nil })
	_, given.prompt = server.NewPrompt(server.Prompt{Name: "x"}, func(context.Context, *server.Request, struct{}) (out Out, err error) { return out, nil })
	return given
}

// givenErrors are the errors of registering a function of each kind.
type givenErrors struct{ tool, resource, template, prompt error }

type (
	resultGiver  struct{}
	contentGiver struct{}
	readGiver    struct{}
	promptGiver  struct{}
)

type (
	giveTool     struct{ _ server.ToolTag }
	giveResource struct {
		_ server.ResourceTag `uri:"app:x"`
	}
	givePrompt struct{ _ server.PromptTag }
)

func (resultGiver) Give(context.Context, giveTool) (mcp.CallToolResult, error) {
	return mcp.CallToolResult{}, nil
}

func (contentGiver) Give(context.Context, giveTool) (mcp.TextContent, error) {
	return mcp.TextContent{}, nil
}

func (readGiver) Give(context.Context, giveResource) (mcp.ReadResourceResult, error) {
	return mcp.ReadResourceResult{}, nil
}

func (promptGiver) Give(context.Context, givePrompt) (mcp.GetPromptResult, error) {
	return mcp.GetPromptResult{}, nil
}

// TestResultsByValueAreRejected checks that results and content must be pointers.
func TestResultsByValueAreRejected(t *testing.T) {
	result := givenBy[mcp.CallToolResult]().tool
	content := givenBy[mcp.TextContent]().tool
	image := givenBy[mcp.ImageContent]().tool
	read := givenBy[mcp.ReadResourceResult]()
	text := givenBy[mcp.TextResourceContents]()
	blob := givenBy[mcp.BlobResourceContents]()
	prompt := givenBy[mcp.GetPromptResult]().prompt
	_, resultMethod := server.Service(resultGiver{})
	_, contentMethod := server.Service(contentGiver{})
	_, readMethod := server.Service(readGiver{})
	_, promptMethod := server.Service(promptGiver{})
	for _, test := range []struct {
		err  error
		want string
	}{
		{result, `tool "x": result: mcp.CallToolResult is a result or content: return a pointer, *mcp.CallToolResult`},
		{content, `tool "x": result: mcp.TextContent is a result or content: return a pointer, *mcp.TextContent`},
		{image, `return a pointer, *mcp.ImageContent`},
		{read.resource, `resource "app:x": mcp.ReadResourceResult is a result or contents: return a pointer, *mcp.ReadResourceResult`},
		{read.template, `resource template "app:{x}": mcp.ReadResourceResult is a result or contents: return a pointer, *mcp.ReadResourceResult`},
		{text.resource, `return a pointer, *mcp.TextResourceContents`},
		{text.template, `return a pointer, *mcp.TextResourceContents`},
		{blob.resource, `return a pointer, *mcp.BlobResourceContents`},
		{blob.template, `return a pointer, *mcp.BlobResourceContents`},
		{prompt, `*mcp.GetPromptResult, not mcp.GetPromptResult`},
		{resultMethod, `return a pointer, *mcp.CallToolResult`},
		{contentMethod, `return a pointer, *mcp.TextContent`},
		{readMethod, `return a pointer, *mcp.ReadResourceResult`},
		{promptMethod, `*mcp.GetPromptResult, not mcp.GetPromptResult`},
	} {
		if test.err == nil || !strings.Contains(test.err.Error(), test.want) {
			t.Errorf("the error is %v, want %q", test.err, test.want)
		}
	}
}

// TestResultsByPointerAreAccepted checks the same types as pointers.
func TestResultsByPointerAreAccepted(t *testing.T) {
	result := givenBy[*mcp.CallToolResult]().tool
	content := givenBy[*mcp.TextContent]().tool
	read := givenBy[*mcp.ReadResourceResult]()
	blob := givenBy[*mcp.BlobResourceContents]()
	prompt := givenBy[*mcp.GetPromptResult]().prompt
	for _, err := range []error{result, content, read.resource, read.template, blob.resource, blob.template, prompt} {
		if err != nil {
			t.Error(err)
		}
	}
}

// TestNames checks valid names. MCP 2025-11-25, server/tools, "Tool Names".
func TestNames(t *testing.T) {
	for _, test := range []struct {
		name, says string // "" when it is a name
	}{
		{"a", ""}, {strings.Repeat("x", 128), ""}, {"A.b-C_9", ""}, {".hidden", ""}, {"last-", ""}, {"7", ""},
		{"", "1 to 128"}, {strings.Repeat("x", 129), "1 to 128"}, {"a b", "not of ' '"}, {"a,b", "not of ','"},
		{"a/b", "not of '/'"}, {"naïve", "not of"}, {"a\x00b", "not of"}, {"a\n", "not of"},
	} {
		_, tool := server.NewTool(server.Tool{Name: test.name}, nothing[struct{}])
		_, raw := server.NewRawTool(server.Tool{Name: test.name, InputSchema: jsonRaw(`{"type":"object"}`)}, nil)
		_, prompt := server.NewPrompt(server.Prompt{Name: test.name}, nothing[struct{}])
		for _, err := range []error{tool, raw, prompt} {
			if (err != nil) != (test.says != "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("%.20q: the error is %v, want %q", test.name, err, test.says)
			}
		}
	}
}

// TestReplaceAll checks that ReplaceAll replaces everything that is registered in one step, with one notification for each
// list that has changed.
func TestReplaceAll(t *testing.T) {
	entry := func(e *server.Entry, err error) *server.Entry {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	says := func(text string) func(context.Context, *server.Request, struct{}) (string, error) {
		return func(context.Context, *server.Request, struct{}) (string, error) { return text, nil }
	}
	completes := func(value string) *server.Entry {
		return entry(server.NewCompletion(server.Completion{Prompt: "p", Argument: "x"}, func(context.Context, *server.Request, string, map[string]string) ([]string, error) {
			return []string{value}, nil
		}))
	}
	virtualEras(t, func(t *testing.T, era client.Era) {
		s, child := newServer(nil), newServer(nil)
		returns(child, "mounted", "")
		mount(t, s, child, "")
		prompt := entry(server.NewPrompt(server.Prompt{Name: "p"}, nothing[xIn]))
		replace(t, s, entry(server.NewTool(server.Tool{Name: "a"}, says("old"))), entry(server.NewTool(server.Tool{Name: "b"}, says("old"))), prompt, completes("old"))
		reads(s, server.Resource{URI: "app:r"}, "")
		var changes []mcp.Change
		session := connectInMemory(t, s, &client.Options{Era: era, OnChange: func(_ context.Context, change mcp.Change) { changes = append(changes, change) }})
		sub, err := session.Subscribe(t.Context(), mcp.SubscriptionFilter{ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true})
		if err != nil {
			t.Fatal(err)
		}
		defer sub.Close()
		all := []*server.Entry{entry(server.NewTool(server.Tool{Name: "b"}, says("new"))), entry(server.NewTool(server.Tool{Name: "c"}, says("new"))), prompt, completes("new")}
		wantChanges := func(want ...mcp.Kind) {
			t.Helper()
			synctest.Wait()
			var got []mcp.Kind
			for _, change := range changes {
				got = append(got, change.Kind)
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("the changes are %v, want %v", got, want)
			}
			changes = nil
		}
		if err := s.ReplaceAll(all...); err != nil {
			t.Fatal(err)
		}
		wantChanges(mcp.KindTool, mcp.KindResource)
		if got := listed(t, session); !slices.Equal(got, []string{"b", "c", "mounted", "p"}) {
			t.Errorf("listed are %q", got)
		}
		if got := textOf(call(t, session, "b", "{}")); got != "new" {
			t.Errorf("b says %q", got)
		}
		if got, err := session.CompletePrompt(t.Context(), "p", "x", "", nil, nil); err != nil || !slices.Equal(got.Values, []string{"new"}) {
			t.Errorf("the completion is %v, %v", got, err)
		}
		for _, refused := range [][]*server.Entry{
			append([]*server.Entry{all[0]}, all...),                                                 // twice
			{entry(server.NewTool(server.Tool{Name: "mounted"}, says("")))},                         // of the mount
			{{Target: mcp.Target{Kind: mcp.KindTool, Name: "no definition"}}},                       // invalid
			{entry(server.NewTool(server.Tool{Name: "d"}, says(""))), completes(""), completes("")}, // two completions
		} {
			if err := s.ReplaceAll(refused...); err == nil {
				t.Errorf("%d entries were registered", len(refused))
			}
		}
		if err := s.ReplaceAll(all...); err != nil { // nothing changes
			t.Error(err)
		}
		wantChanges()
		if err := s.ReplaceAll(); err != nil {
			t.Error(err)
		}
		wantChanges(mcp.KindTool, mcp.KindPrompt)
		if got := listed(t, session); !slices.Equal(got, []string{"mounted"}) {
			t.Errorf("listed are %q", got)
		}
	})
}

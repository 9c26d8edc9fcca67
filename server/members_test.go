package server_test

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// Each member of a listed entry can be set when the entry is registered, and by a service.
func TestListedMembersCanBeSet(t *testing.T) {
	icons, meta := []mcp.Icon{{Src: "https://members.example/icon.png"}}, mcp.Meta(`{"members.example/x":1}`)
	object := json.RawMessage(`{"type":"object"}`)
	tool, err := server.NewRawTool(server.Tool{
		Name: "n", Title: "t", Description: "d", InputSchema: object, OutputSchema: object, Task: server.TaskOptional,
		Annotations: &mcp.ToolAnnotations{Title: "a"}, Icons: icons, Meta: meta,
	}, func(context.Context, *server.Request, json.RawMessage) (mcp.Result, error) { return nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	wantMembers(t, tool, mcp.Tool{})
	prompt, err := server.NewPrompt(server.Prompt{Name: "n", Title: "t", Description: "d", Icons: icons, Meta: meta},
		func(context.Context, *server.Request, struct{ A string }) (string, error) { return "", nil })
	if err != nil {
		t.Fatal(err)
	}
	wantMembers(t, prompt, mcp.Prompt{})
	resource, err := server.NewResource(server.Resource{
		URI: "members:n", Name: "n", Title: "t", Description: "d", MIMEType: "text/plain", Size: new(int64(1)),
		Annotations: &mcp.Annotations{Priority: new(1.0)}, Icons: icons, Meta: meta,
	}, func(context.Context, *server.Request) (string, error) { return "", nil })
	if err != nil {
		t.Fatal(err)
	}
	wantMembers(t, resource, mcp.Resource{})
	template, err := server.NewTemplate(server.Template{
		URITemplate: "members:{a}", Name: "n", Title: "t", Description: "d", MIMEType: "text/plain",
		Annotations: &mcp.Annotations{Priority: new(1.0)}, Icons: icons, Meta: meta,
	}, func(context.Context, *server.Request, struct {
		A string `json:"a"`
	}) (string, error) {
		return "", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	wantMembers(t, template, mcp.ResourceTemplate{})
	entries, err := server.Service(memberService{})
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		// A method of a service is not a task.
		wantMembers(t, entry, map[mcp.Kind]any{mcp.KindTool: mcp.Tool{}, mcp.KindPrompt: mcp.Prompt{}, mcp.KindResource: mcp.Resource{}}[entry.Kind], "execution")
	}
}

// wantMembers checks that the definition of an entry has each member of a type, except some.
func wantMembers(t *testing.T, entry *server.Entry, of any, except ...string) {
	t.Helper()
	var has map[string]json.RawMessage
	if err := json.Unmarshal(entry.Definition.JSON(), &has); err != nil {
		t.Fatal(err)
	}
	for _, name := range except {
		has[name] = nil
	}
	for _, field := range reflect.VisibleFields(reflect.TypeOf(of)) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if _, ok := has[name]; name != "" && !ok {
			t.Errorf("the %v %q has no member %q: %s", entry.Kind, entry.Name, name, entry.Definition.JSON())
		}
	}
}

type memberService struct{}

type memberTool struct {
	_ server.ToolTag `title:"t" description:"d" readOnly:"true"`
	A string         `json:"a"`
}

type memberPrompt struct {
	_ server.PromptTag `title:"t" description:"d"`
	A string           `json:"a"`
}

type memberResource struct {
	_ server.ResourceTag `uri:"members:n" title:"t" description:"d" mimeType:"text/plain"`
}

func (memberService) Tool(context.Context, memberTool) (struct{}, error)       { return struct{}{}, nil }
func (memberService) Prompt(context.Context, memberPrompt) (string, error)     { return "", nil }
func (memberService) Resource(context.Context, memberResource) (string, error) { return "", nil }

func (memberService) Annotations() server.Annotations {
	m := server.Method{
		Icons: []mcp.Icon{{Src: "https://members.example/icon.png"}}, Meta: mcp.Meta(`{"members.example/x":1}`),
		Annotations: &mcp.Annotations{Priority: new(1.0)}, Size: new(int64(1)),
	}
	asTool, asPrompt := server.Method{Icons: m.Icons, Meta: m.Meta}, server.Method{Icons: m.Icons, Meta: m.Meta}
	return server.Annotations{Methods: map[string]server.Method{"Tool": asTool, "Prompt": asPrompt, "Resource": m}}
}

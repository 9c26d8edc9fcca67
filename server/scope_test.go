package server_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

type scopedNotes struct{}

type scopedToolIn struct {
	_ server.ToolTag `name:"write" scopes:"notes:write, notes:read"`
}

func (scopedNotes) Write(context.Context, scopedToolIn) (string, error) { return "", nil }

type scopedPromptIn struct {
	_     server.PromptTag `name:"draft" scopes:"notes:read"`
	Title string           `json:"title"`
}

func (scopedNotes) Draft(context.Context, scopedPromptIn) (string, error) { return "", nil }

type scopedValuesIn struct {
	_     server.CompletionTag `prompt:"draft" argument:"title"`
	Value string
}

func (scopedNotes) Titles(context.Context, scopedValuesIn) ([]string, error) { return nil, nil }

// What a call needs is what the thing that it reaches declares, wherever that is.
func TestScopes(t *testing.T) {
	reads := func(s *server.Server, r server.Resource) {
		server.AddResource(s, r, func(context.Context, *server.Request) (string, error) { return "", nil })
	}
	s, child, grandchild := newServer(nil), newServer(&server.Options{Scopes: []string{"child"}}), newServer(nil)
	server.AddService(s, scopedNotes{})
	returns(s, "open", "")
	reads(s, server.Resource{URI: "app:own", Scopes: []string{"own"}})
	server.AddTemplate(s, server.Template{URITemplate: "app:all/{+path}", Scopes: []string{"all"}}, func(context.Context, *server.Request, struct {
		Path string `json:"path"`
	}) (string, error) {
		return "", nil
	})
	returns(child, "plain", "")
	server.AddTool(child, server.Tool{Name: "own", Scopes: []string{"nearer"}}, func(context.Context, *server.Request, struct{}) (string, error) { return "", nil })
	server.AddService(grandchild, scopedNotes{})
	reads(grandchild, server.Resource{URI: "app:deep", Scopes: []string{"deep"}})
	mount(t, child, grandchild, "g.")
	mounted := newServer(nil)
	mount(t, mounted, s, "")
	mount(t, mounted, child, "c.")
	for _, test := range []struct {
		server       *server.Server
		method, name string
		want         []string
	}{
		{s, mcp.MethodToolsCall, "write", []string{"notes:write", "notes:read"}},
		{s, mcp.MethodToolsCall, "open", nil},
		{s, mcp.MethodToolsCall, "draft", nil},
		{s, mcp.MethodToolsCall, "unknown", nil},
		{s, mcp.MethodPromptsGet, "draft", []string{"notes:read"}},
		{s, mcp.MethodPromptsGet, "write", nil},
		{s, mcp.MethodComplete, "draft", []string{"notes:read"}},
		{s, mcp.MethodComplete, "app:all/{+path}", []string{"all"}},
		{s, mcp.MethodResourcesRead, "app:own", []string{"own"}},
		{s, mcp.MethodResourcesRead, "app:all/x/y", []string{"all"}},
		{s, mcp.MethodResourcesSubscribe, "app:all/x", []string{"all"}},
		{s, mcp.MethodResourcesUnsubscribe, "app:own", []string{"own"}},
		{s, mcp.MethodResourcesRead, "app:unknown", nil},
		{s, mcp.MethodToolsList, "write", nil},
		{s, mcp.MethodSubscriptionsListen, "", nil},
		{child, mcp.MethodToolsCall, "plain", []string{"child"}},
		{child, mcp.MethodToolsCall, "own", []string{"child", "nearer"}},
		{child, mcp.MethodToolsCall, "g.write", []string{"child", "notes:write", "notes:read"}},
		{mounted, mcp.MethodToolsCall, "write", []string{"notes:write", "notes:read"}},
		{mounted, mcp.MethodToolsCall, "c.own", []string{"child", "nearer"}},
		{mounted, mcp.MethodToolsCall, "c.plain", []string{"child"}},
		{mounted, mcp.MethodToolsCall, "c.g.write", []string{"child", "notes:write", "notes:read"}},
		{mounted, mcp.MethodToolsCall, "own", nil},
		{mounted, mcp.MethodPromptsGet, "c.g.draft", []string{"child", "notes:read"}},
		{mounted, mcp.MethodComplete, "c.g.draft", []string{"child", "notes:read"}},
		{mounted, mcp.MethodComplete, "draft", []string{"notes:read"}},
		{mounted, mcp.MethodResourcesRead, "app:deep", []string{"child", "deep"}},
		{mounted, mcp.MethodResourcesRead, "app:own", []string{"own"}},
		{mounted, mcp.MethodResourcesRead, "app:all/x", []string{"all"}},
	} {
		if diff := cmp.Diff(test.want, test.server.Scopes(test.method, test.name)); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", test.method, test.name, diff)
		}
	}
}

// What is mounted as a provider needs what it needs by itself, behind any number of
// servers; a provider that knows of no scopes leaves those of the servers.
func TestScopesOfProviders(t *testing.T) {
	notes := newServer(nil)
	server.AddService(notes, scopedNotes{})
	reads := func(context.Context, *server.Request) (string, error) { return "", nil }
	server.AddResource(notes, server.Resource{URI: "app:own", Scopes: []string{"own"}}, reads)
	middle, outer := newServer(&server.Options{Scopes: []string{"middle"}}), newServer(nil)
	for _, mounted := range []struct {
		on     *server.Server
		p      server.Provider
		prefix string
	}{{middle, notes.Provider(), "n."}, {middle, newMarket("apples"), ""}, {outer, middle.Provider(), "m."}} {
		if err := mounted.on.Mount(mounted.p, &server.MountOptions{Prefix: mounted.prefix}); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		method, name string
		want         []string
	}{
		{mcp.MethodToolsCall, "m.n.write", []string{"middle", "notes:write", "notes:read"}},
		{mcp.MethodToolsCall, "m.apples", []string{"middle"}},
		{mcp.MethodToolsCall, "write", nil},
		{mcp.MethodPromptsGet, "m.n.draft", []string{"middle", "notes:read"}},
		{mcp.MethodComplete, "m.n.draft", []string{"middle", "notes:read"}},
		{mcp.MethodResourcesRead, "app:own", []string{"middle", "own"}},
		{mcp.MethodResourcesSubscribe, "app:own", []string{"middle", "own"}},
	} {
		if diff := cmp.Diff(test.want, outer.Scopes(test.method, test.name)); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", test.method, test.name, diff)
		}
	}
}

// Guards see all the scopes, in the order from the server to the entry.
func TestScopesAddUp(t *testing.T) {
	var seen []string
	around := guarded(mcp.Guard{Name: "sees", Check: func(_ context.Context, call *mcp.Call) error {
		seen = call.Target().Scopes
		return nil
	}})
	around.Scopes = []string{"server", "shared"}
	s, child := newServer(around.options()), newServer(&server.Options{Scopes: []string{"child"}})
	server.AddTool(child, server.Tool{Name: "t", Scopes: []string{"shared", "tool"}}, nothing[struct{}])
	shutsDown(t, s)
	if err := s.Mount(child.Provider(), &server.MountOptions{Prefix: "c.", Scopes: []string{"mount"}}); err != nil {
		t.Fatal(err)
	}
	want := []string{"server", "shared", "mount", "child", "tool"}
	call(t, connect(t, s, client.Modern), "c.t", `{}`)
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("a guard sees (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, s.Scopes(mcp.MethodToolsCall, "c.t")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

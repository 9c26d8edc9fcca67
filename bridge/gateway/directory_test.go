package gateway_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/bridge/pin"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

func newCall(t testing.TB, method, params string) *mcp.Call {
	t.Helper()
	request, err := jsonrpc.NewRequest(jsonrpc.IntID(1), method, json.RawMessage(params))
	if err != nil {
		t.Fatal(err)
	}
	call := mcp.NewCall(request, &mcp.Caller{}, nil)
	return &call
}

// TestDirectory: it says whose something is and what is said of it, under whatever name.
func TestDirectory(t *testing.T) {
	s := newShelf()
	readOnly := true
	s.does("tagged", server.Tool{
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: &readOnly}, Meta: mcp.Meta(`{"fastmcp":{"tags":["b","a"]}}`),
	}, answers(`{"content":[]}`))
	server.AddResource(s.Server, server.Resource{URI: "file:///a", Name: "a"}, func(context.Context, *server.Request) (string, error) { return "a", nil })
	server.AddTemplate(s.Server, server.Template{URITemplate: "note:///{id}", Name: "notes"}, func(context.Context, *server.Request, struct {
		ID string `json:"id"`
	}) (string, error) {
		return "a", nil
	})
	config := to("s", s)
	config.Rename = map[string]string{"read": "get"}
	b := newBridge(t, config)
	d, err := gateway.NewDirectory(b, &gateway.DirectoryOptions{
		Launch: func(alias string) string { return "how " + alias }, Trusted: func(alias string) bool { return alias == "s" },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		kind    mcp.Kind
		exposed string
		want    string // the name there; "" if there is no such thing
	}{
		{mcp.KindTool, "s__tagged", "tagged"},
		{mcp.KindTool, "s__get", "read"},
		{mcp.KindTool, "s__read", ""},
		{mcp.KindTool, "", ""},
		{mcp.KindPrompt, "s__tagged", ""},
		{mcp.KindResource, "file:///a", "file:///a"},
		{mcp.KindResource, "note:///7", "note:///7"},
		{mcp.KindResourceTemplate, "note:///{id}", "note:///{id}"},
		{mcp.KindResource, "file:///b", ""},
	} {
		got, err := d.Locate(t.Context(), test.kind, test.exposed)
		if test.want == "" {
			if err == nil {
				t.Errorf("%s %q is %+v", test.kind, test.exposed, got)
			}
			continue
		}
		origin := mcp.Origin{Server: "s", Name: test.want, Trusted: true}
		if err != nil || got.Kind != test.kind || got.Name != test.exposed || got.Origin != origin {
			t.Errorf("%s %q is %+v, %v", test.kind, test.exposed, got, err)
		}
		if hints := got.Definition.Annotations(); test.want == "tagged" && (!slices.Equal(got.Definition.Tags(), []string{"a", "b"}) || hints.ReadOnlyHint == nil || *hints.ReadOnlyHint != readOnly) {
			t.Errorf("it is tagged %q, with hints %+v", got.Definition.Tags(), hints)
		}
	}

	described, err := d.Describe(t.Context(), newCall(t, mcp.MethodToolsCall, `{"name":"s__get"}`))
	digest, _ := pin.Digest(b.Catalog().Lookup(mcp.KindTool, "s__get").Definition.JSON())
	if want := (approval.Target{Server: "s", Launch: "how s", Tool: "read", ToolDigest: digest}); err != nil || described != want {
		t.Errorf("described is %+v, %v, want %+v", described, err, want)
	}
	for method, params := range map[string]string{
		mcp.MethodToolsCall: `{"name":"s__read"}`, mcp.MethodPromptsGet: `{"name":"s__get"}`, mcp.MethodResourcesRead: `{"uri":"file:///a"}`, mcp.MethodToolsList: `{}`,
	} {
		if described, err := d.Describe(t.Context(), newCall(t, method, params)); err == nil {
			t.Errorf("%s %s is described as %+v", method, params, described)
		}
	}
}

// TestDirectoryFollows: a tool that has changed, or gone, is not what it was.
func TestDirectoryFollows(t *testing.T) {
	r := newRig(t, gateway.Options{}, nil, nil)
	before, err := r.tools.Describe(t.Context(), newCall(t, mcp.MethodToolsCall, `{"name":"files__read"}`))
	if err != nil {
		t.Fatal(err)
	}
	other := newShelf()
	other.says("more", "", `{"content":[]}`)
	changed, err := server.NewTool(server.Tool{Name: "read", Description: "Deletes a file."}, func(context.Context, *server.Request, struct{}) (string, error) { return "", nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Replace(changed); err != nil {
		t.Fatal(err)
	}
	if err := r.bridge.Update(to("files", other)); err != nil {
		t.Fatal(err)
	}
	r.settle(t, "files__more")
	after, err := r.tools.Describe(t.Context(), newCall(t, mcp.MethodToolsCall, `{"name":"files__read"}`))
	if err != nil || after.ToolDigest == before.ToolDigest {
		t.Errorf("the changed tool is %+v, %v", after, err)
	}
	if _, err := r.tools.Locate(t.Context(), mcp.KindTool, "wiki__read"); err == nil {
		t.Error("a tool that has gone is located")
	}
}

// TestGuardedProvider: what stands between the bridge and the gateway counts, and the bridge
// says whose the tools are.
func TestGuardedProvider(t *testing.T) {
	b := newBridge(t, to("files", newShelf()))
	lock := new(pin.Lock)
	guarded := pin.Guarded(b, "all", lock, &pin.Options{Logger: quiet()})
	d, err := gateway.NewDirectory(guarded, &gateway.DirectoryOptions{Servers: b})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Locate(t.Context(), mcp.KindTool, "files__read"); err == nil {
		t.Error("a tool that is quarantined is located")
	}
	if err := lock.Accept("all", "files__read"); err != nil {
		t.Fatal(err)
	}
	if target, err := d.Locate(t.Context(), mcp.KindTool, "files__read"); err != nil || target.Origin.Server != "files" || target.Origin.Name != "read" {
		t.Errorf("what was accepted: %+v, %v", target, err)
	}
}

// TestNobodyKnowsServers: then all is of one without a name, and callers name tools as it does.
func TestNobodyKnowsServers(t *testing.T) {
	upstream := bridge.Proxy(to("", newShelf()).Dialer, &bridge.ProxyOptions{Logger: quiet()})
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- upstream.Run(ctx, func() { close(ready) }, func(mcp.Change) {}) }()
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	defer func() { cancel(); <-done }()
	d, err := gateway.NewDirectory(upstream, nil)
	if err != nil {
		t.Fatal(err)
	}
	if target, err := d.Locate(t.Context(), mcp.KindTool, "read"); err != nil || target.Origin != (mcp.Origin{Name: "read"}) {
		t.Errorf("it is %+v, %v", target, err)
	}
}

package bridge_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// names are those of the entries of a kind, with spaces between.
func names(offered *server.Catalog, kind mcp.Kind) string {
	var all []string
	for e := range offered.All(kind) {
		all = append(all, e.Name)
	}
	return strings.Join(all, " ")
}

// started returns a proxy that has learned what its server offers.
func started(t testing.TB, way *line, opts bridge.ProxyOptions) (*bridge.Upstream, *client.Session) {
	t.Helper()
	opts.Logger = quiet()
	p := bridge.Proxy(way, &opts)
	return p, connect(t, pipeTo(mount(t, p)), client.Options{})
}

func TestSelect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hidden := map[string]bool{"tool add": true, "prompt greet": true, "resource note://1": true, "resource template day://{day}": true}
		p, session := started(t, lineTo(newShop()), bridge.ProxyOptions{
			Select: func(kind mcp.Kind, name string) bool { return !hidden[kind.String()+" "+name] },
		})
		offered := p.Catalog()
		if got := names(offered, mcp.KindTool); got != "ask work fail" {
			t.Errorf("the tools are %q", got)
		}
		if n := offered.Len(mcp.KindPrompt) + offered.Len(mcp.KindResource) + offered.Len(mcp.KindResourceTemplate); n != 0 {
			t.Errorf("%d hidden things are listed", n)
		}
		for method, params := range map[string]string{
			"tools/call":                   `{"name":"add","arguments":{"A":1,"B":2}}`,
			"prompts/get":                  `{"name":"greet","arguments":{"Name":"x"}}`,
			"resources/read":               `{"uri":"note://1"}`,
			"resources/read ":              `{"uri":"day://monday"}`,
			"completion/complete":          `{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"Name","value":""}}`,
			"completion/complete ":         `{"ref":{"type":"ref/resource","uri":"day://{day}"},"argument":{"name":"day","value":""}}`,
			"completion/complete of both":  `{"ref":{"type":"ref/resource","name":"ask","uri":"day://{day}"},"argument":{"name":"day","value":""}}`,
			"completion/complete of none":  `{"ref":{"name":"greet"},"argument":{"name":"Name","value":""}}`,
			"completion/complete of other": `{"ref":{"type":"ref/other","name":"greet"},"argument":{"name":"Name","value":""}}`,
		} {
			method, _, _ = strings.Cut(method, " ")
			if result, err := session.Call(t.Context(), method, json.RawMessage(params), nil); err == nil {
				t.Errorf("%s %s was answered: %s", method, params, result)
			}
		}
		for _, hidden := range []struct {
			kind mcp.Kind
			name string
		}{
			{mcp.KindTool, "add"}, {mcp.KindPrompt, "greet"}, {mcp.KindResource, "note://1"}, {mcp.KindResource, "day://monday"}, {mcp.KindResourceTemplate, "day://{day}"},
		} {
			if e := offered.Lookup(hidden.kind, hidden.name); e != nil {
				t.Errorf("the %v %s is offered by the proxy", hidden.kind, hidden.name)
			}
			if e, err := offered.Resolve(t.Context(), hidden.kind, hidden.name); e != nil {
				t.Errorf("the %v %s is found by the proxy, with error %v", hidden.kind, hidden.name, err)
			}
		}
	})
}

// A template does not offer a resource that was not selected.
func TestSelectBehindTemplate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, session := started(t, lineTo(locations()), bridge.ProxyOptions{
			Select: func(_ mcp.Kind, name string) bool { return name != "file://secret" },
		})
		for uri, readable := range map[string]bool{"file://open": true, "file://other": true, "file://secret": false, "else://x": false} {
			if _, err := session.Read(t.Context(), uri, nil); (err == nil) != readable {
				t.Errorf("%s: %v, want it readable: %v", uri, err, readable)
			}
		}
	})
}

func TestRename(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		renamed := bridge.ProxyOptions{Rename: map[string]string{"add": "sum", "greet": "hello", "work": "twice", "fail": "twice"}, Logger: quiet()}
		face := newServer("face")
		if err := face.Mount(bridge.Proxy(lineTo(newShop()), &renamed), nil); err != nil {
			t.Fatal(err)
		}
		if _, ok := errors.AsType[*server.CollisionError](face.Start(t.Context())); !ok {
			t.Error("it starts with two tools of one name")
		}
		renamed.Optional = true
		p, session := started(t, lineTo(newShop()), renamed)
		if got := fmt.Sprint(p.State().NotOffered); got != `[a second tool "twice" of the server is not offered]` {
			t.Errorf("not offered are %s", got)
		}
		if got := names(p.Catalog(), mcp.KindTool); got != "sum ask" {
			t.Errorf("the tools are %q: of two with one name none is to be there", got)
		}
		result, err := session.CallTool(t.Context(), "sum", json.RawMessage(`{"A":1,"B":2}`), nil)
		if got := texts(t, result, err); got != "3" {
			t.Errorf("sum gave %q", got)
		}
		if _, err := session.CallTool(t.Context(), "add", json.RawMessage(`{"A":1,"B":2}`), nil); err == nil {
			t.Error("a tool is called by the name that it has no more")
		}
		if _, err := session.Prompt(t.Context(), "hello", map[string]string{"Name": "Ann"}, nil); err != nil {
			t.Error(err)
		}
		values, err := session.CompletePrompt(t.Context(), "hello", "Name", "A", nil)
		if err != nil || values.Values[0] != "Ann" {
			t.Errorf("the completion is %v, %v", values, err)
		}
	})
}

func TestOverride(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plain, _ := started(t, lineTo(newShop()), bridge.ProxyOptions{})
		p, _ := started(t, lineTo(newShop()), bridge.ProxyOptions{
			Override: map[string]bridge.Override{"add": {Title: "Sum", Description: "Sums up."}, "ask": {}},
		})
		was, is := definitions(plain), definitions(p)
		want := strings.Replace(was[0], `"Adds."`, `"Sums up."`, 1)
		want = strings.TrimSuffix(want, "}") + `,"title":"Sum"}`
		if is[0] != want {
			t.Errorf("the tool is %s, want %s", is[0], want)
		}
		if is[1] != was[1] {
			t.Errorf("a tool that is not overridden is %s, was %s", is[1], was[1])
		}
	})
}

// definitions are those of the tools of a provider.
func definitions(p server.Provider) (all []string) {
	for e := range p.Catalog().All(mcp.KindTool) {
		all = append(all, string(e.Definition.JSON()))
	}
	return all
}

package bridge_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// appServer returns a server with a tool that has a view. The tool says whether its caller shows
// apps. Another tool is offered only to callers that show apps.
func appServer(uri, view string) *server.Server {
	s := newServer("app")
	server.AddTool(s, server.Tool{Name: "cart", UI: &mcp.ToolUI{ResourceURI: uri}}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		if r.Caller().Capabilities.ShowsApps() {
			return "shown", nil
		}
		return "told", nil
	})
	server.AddTool(s, server.Tool{Name: "empty", UI: &mcp.ToolUI{Visibility: []mcp.ToolVisibility{mcp.VisibleToApp}}, Guards: []mcp.Guard{{
		Name: "apps", Visible: func(_ context.Context, caller *mcp.Caller, _ *mcp.Target) bool {
			return caller.Capabilities.ShowsApps()
		},
	}}}, func(context.Context, *server.Request, struct{}) (string, error) { return "empty", nil })
	server.AddResource(s, server.Resource{URI: uri, UI: &mcp.ResourceUI{
		CSP: &mcp.CSP{ConnectDomains: []string{"https://shop.example"}}, PrefersBorder: new(true), Extra: []byte(`{"x/Y":[ 1.0 ]}`),
	}, Meta: mcp.Meta(`{"z": "\u00e9"}`)}, func(context.Context, *server.Request) (string, error) {
		return view, nil
	})
	return s
}

// The view of a tool with a prefix has the same URI and the same bytes as on its server. The
// server learns from each call whether the caller shows views.
func TestViewsThroughBridge(t *testing.T) {
	eachPair(t, func(t *testing.T, caller, upstream client.Era) {
		synctest.Test(t, func(t *testing.T) {
			s := appServer("ui://shop/cart", "<!doctype html>\n<p>\u2028 é </p>")
			direct := connect(t, pipeTo(s), client.Options{Era: upstream, ShowsApps: true})
			b, err := bridge.New(&bridge.Options{Logger: quiet()}, bridge.Config{Alias: "shop", Dialer: dialerTo(s).speaks(upstream)})
			if err != nil {
				t.Fatal(err)
			}
			frontend := mount(t, b)
			session := connect(t, pipeTo(frontend), client.Options{Era: caller, ShowsApps: true})

			tools := map[string]mcp.ToolUI{}
			for tool, err := range session.Tools(t.Context(), nil) {
				if err != nil {
					t.Fatal(err)
				}
				if tools[tool.Name], err = tool.Meta.ToolUI(); err != nil {
					t.Fatal(err)
				}
			}
			ui, forApps := tools["shop__cart"], tools["shop__empty"]
			if len(tools) != 2 || ui.ResourceURI != "ui://shop/cart" || forApps.VisibleTo(mcp.VisibleToModel) || !forApps.VisibleTo(mcp.VisibleToApp) {
				t.Fatalf("the tools are %+v", tools)
			}
			read := func(s *client.Session) string {
				result, err := s.Call(t.Context(), mcp.MethodResourcesRead, jsonRaw(`{"uri":"`+ui.ResourceURI+`"}`), nil)
				if err != nil {
					t.Fatal(err)
				}
				text := string(result)
				return text[strings.Index(text, `[`) : strings.LastIndex(text, `]`)+1] // without the envelope of the era
			}
			if got, want := read(session), read(direct); got != want || !strings.Contains(got, `"_meta":{"ui":{"csp":`) {
				t.Errorf("through the bridge the contents are\n%s, not\n%s", got, want)
			}
			list := func(s *client.Session) string {
				result, err := s.Call(t.Context(), mcp.MethodResourcesList, jsonRaw(`{}`), nil)
				if err != nil {
					t.Fatal(err)
				}
				text := string(result)
				return text[strings.Index(text, `[`) : strings.Index(text, `}]`)+2]
			}
			if got, want := list(session), list(direct); got != want {
				t.Errorf("through the bridge the list has\n%s, not\n%s", got, want)
			}

			if result, err := session.CallTool(t.Context(), "shop__empty", nil, nil); err != nil || result.Text() != "empty" {
				t.Errorf("the tool for apps returns %v, %v", result, err)
			}
			plain := connect(t, pipeTo(frontend), client.Options{Era: caller})
			withoutApps := "told"
			if upstream == client.Legacy { // it learns that there are clients with apps
				withoutApps = "shown"
			}
			for s, want := range map[*client.Session]string{session: "shown", plain: withoutApps} {
				if result, err := s.CallTool(t.Context(), "shop__cart", nil, nil); err != nil || result.Text() != want {
					t.Errorf("the call returns %q, %v, want %q", result.Text(), err, want)
				}
			}
		})
	})
}

// If two servers have views of one URI, the view of the first is offered, as of other resources.
func TestViewsOfOneURI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		configs := make([]bridge.Config, 2)
		for i, name := range []string{"one", "two"} {
			configs[i] = bridge.Config{Alias: name, Dialer: pipeTo(appServer("ui://cart", name))}
		}
		b, err := bridge.New(&bridge.Options{Logger: quiet()}, configs...)
		if err != nil {
			t.Fatal(err)
		}
		session := connect(t, pipeTo(mount(t, b)), client.Options{ShowsApps: true})
		result, err := session.ReadResource(t.Context(), "ui://cart", nil)
		if err != nil || result.Text() != "one" {
			t.Errorf("the view is %q, %v", result.Text(), err)
		}
		for _, tool := range []string{"one__cart", "two__cart"} {
			if result, err := session.CallTool(t.Context(), tool, nil, nil); err != nil || result.Text() != "shown" {
				t.Errorf("%s returns %q, %v", tool, result.Text(), err)
			}
		}
	})
}

package mcp_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/mcp"
)

func TestToolUI(t *testing.T) {
	app := []mcp.ToolVisibility{mcp.VisibleToApp}
	for _, test := range []struct {
		name, meta string
		want       mcp.ToolUI
		failure    string
	}{
		{"none", ``, mcp.ToolUI{}, ""},
		{"other members", `{"a":1}`, mcp.ToolUI{}, ""},
		{"view", `{"ui":{"resourceUri":"ui://shop/cart"}}`, mcp.ToolUI{ResourceURI: "ui://shop/cart"}, ""},
		{"for views", `{"ui":{"visibility":["app"]}}`, mcp.ToolUI{Visibility: app}, ""},
		{"deprecated key", `{"ui/resourceUri":"ui://old"}`, mcp.ToolUI{ResourceURI: "ui://old"}, ""},
		{"both keys", `{"ui/resourceUri":"ui://old","ui":{"resourceUri":"ui://new"}}`, mcp.ToolUI{ResourceURI: "ui://new"}, ""},
		{"deprecated key and visibility", `{"ui":{"visibility":["app"]},"ui/resourceUri":"ui://old"}`, mcp.ToolUI{ResourceURI: "ui://old", Visibility: app}, ""},
		{"unknown member", `{"ui":{"x":1}}`, mcp.ToolUI{Extra: []byte(`{"x":1}`)}, ""},
		{"other scheme", `{"ui":{"resourceUri":"https://shop.example"}}`, mcp.ToolUI{}, "resourceUri is a URI such as ui://shop/cart"},
		{"deprecated key with another scheme", `{"ui/resourceUri":"file:///etc/passwd"}`, mcp.ToolUI{}, "resourceUri is a URI such as ui://shop/cart"},
		{"scheme alone", `{"ui":{"resourceUri":"ui://"}}`, mcp.ToolUI{}, "resourceUri is a URI such as ui://shop/cart"},
		{"visible to none", `{"ui":{"visibility":[]}}`, mcp.ToolUI{}, `visibility has "model", "app" or both`},
		{"unknown visibility", `{"ui":{"visibility":["app","cat"]}}`, mcp.ToolUI{}, `not "cat"`},
		{"visibility not a list", `{"ui":{"visibility":"app"}}`, mcp.ToolUI{}, "expected an array"},
		{"not an object", `{"ui":7}`, mcp.ToolUI{}, "expected an object"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := mcp.Meta(test.meta).ToolUI()
			wantFailure(t, err, test.failure)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			var meta mcp.Meta
			if test.failure == "" {
				wantFailure(t, meta.SetToolUI(got), "")
			}
			if again, err := meta.ToolUI(); err != nil || !cmp.Equal(again, got) {
				t.Errorf("set and read again it is %+v, %v", again, err)
			}
		})
	}
}

func wantFailure(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("the error is %v, want one with %q", err, want)
	}
}

func TestToolUIVisibleTo(t *testing.T) {
	for _, test := range []struct {
		visibility []mcp.ToolVisibility
		model, app bool
	}{
		{nil, true, true},
		{[]mcp.ToolVisibility{mcp.VisibleToModel}, true, false},
		{[]mcp.ToolVisibility{mcp.VisibleToApp}, false, true},
		{[]mcp.ToolVisibility{mcp.VisibleToModel, mcp.VisibleToApp}, true, true},
	} {
		ui := mcp.ToolUI{Visibility: test.visibility}
		if model, app := ui.VisibleTo(mcp.VisibleToModel), ui.VisibleTo(mcp.VisibleToApp); model != test.model || app != test.app {
			t.Errorf("%q is visible to the model: %t, to views: %t", test.visibility, model, app)
		}
	}
}

func TestResourceUI(t *testing.T) {
	meta := mcp.Meta(`{"a": 1}`)
	ui := mcp.ResourceUI{
		CSP: &mcp.CSP{
			ConnectDomains:  []string{"https://api.example.com", "wss://live.example.com:8443", "http://[::1]:8080", "ws://localhost"},
			ResourceDomains: []string{"https://*.example.com"},
			FrameDomains:    []string{"https://video.example.com"}, BaseURIDomains: []string{"https://cdn.example.com"},
		},
		Permissions: &mcp.UIPermissions{ClipboardWrite: &mcp.EmptyObject{}}, Domain: "a.host.example", PrefersBorder: new(false),
	}
	if err := meta.SetResourceUI(ui); err != nil {
		t.Fatal(err)
	}
	const want = `{"a": 1,"ui":{"csp":{"connectDomains":["https://api.example.com","wss://live.example.com:8443","http://[::1]:8080","ws://localhost"],` +
		`"resourceDomains":["https://*.example.com"],"frameDomains":["https://video.example.com"],"baseUriDomains":["https://cdn.example.com"]},` +
		`"permissions":{"clipboardWrite":{}},"domain":"a.host.example","prefersBorder":false}}`
	if string(meta) != want {
		t.Errorf("the _meta is\n%s, want\n%s", meta, want)
	}
	if got, err := meta.ResourceUI(); err != nil || !cmp.Equal(got, ui) {
		t.Errorf("read again it is %+v, %v", got, err)
	}
}

// An origin ends in the header of the host: no character may end a directive.
func TestResourceUIRejectsOrigins(t *testing.T) {
	for _, origin := range []string{
		"", "example.com", "*", "https://", "https://*", "https://*.", "https://a.*.example.com", "https://example.com/path", "data:", "'unsafe-eval'",
		"https://example.com; script-src *", "https://example.com;x", "https://example.com'x", "https://example.com*", "https://example.com https://evil.example", "https://example.com,x", "https://a@example.com",
		"https://example.com\r\nX: y", "javascript://example.com", "HTTPS://example.com", "https://exämple.com", "https://example.com?q", "https://example.com#f",
	} {
		for name, csp := range map[string]mcp.CSP{
			"connectDomains": {ConnectDomains: []string{origin}}, "resourceDomains": {ResourceDomains: []string{"https://example.com", origin}},
			"frameDomains": {FrameDomains: []string{origin}}, "baseUriDomains": {BaseURIDomains: []string{origin}},
		} {
			var meta mcp.Meta
			wantFailure(t, meta.SetResourceUI(mcp.ResourceUI{CSP: &csp}), name+" has origins such as")
			if meta != nil {
				t.Errorf("%q is in %s", origin, meta)
			}
			value, err := mcp.ResourceUI{CSP: &csp}.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			if err := meta.Set(mcp.MetaUI, value); err != nil {
				t.Fatal(err)
			}
			got, err := meta.ResourceUI()
			wantFailure(t, err, name+" has origins such as")
			if got.CSP != nil {
				t.Errorf("%q is read", origin)
			}
		}
	}
}

func TestShowsApps(t *testing.T) {
	for settings, want := range map[string]bool{
		``: false, `{}`: false, `true`: false, `{"mimeTypes":null}`: false, `{"mimeTypes":"text/html;profile=mcp-app"}`: false,
		`{"mimeTypes":[]}`: false, `{"mimeTypes":["text/html"]}`: false, `{"mimeTypes":[1,"text/html;profile=mcp-app"]}`: false,
		`{"mimeTypes":["x/y","text/html;profile=mcp-app"],"features":[]}`: true,
	} {
		can := mcp.ClientCapabilities{Extensions: map[string]json.RawMessage{mcp.ExtensionUI: json.RawMessage(settings)}}
		if got := can.ShowsApps(); got != want {
			t.Errorf("%s: it shows apps: %t", settings, got)
		}
	}
}

func TestDeclareApps(t *testing.T) {
	before := mcp.ClientCapabilities{Extensions: map[string]json.RawMessage{"org.example/x": json.RawMessage(`{}`)}}
	can := before
	can.DeclareApps()
	if got, err := can.MarshalJSON(); err != nil || string(got) != `{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]},"org.example/x":{}}}` {
		t.Errorf("the capabilities are %s, %v", got, err)
	}
	if !can.ShowsApps() || before.ShowsApps() || new(mcp.ClientCapabilities).ShowsApps() {
		t.Errorf("it shows apps: %t, %t before", can.ShowsApps(), before.ShowsApps())
	}
}

// FuzzUI checks that what is read can be set, and is then the same.
func FuzzUI(f *testing.F) {
	f.Add([]byte(`{"ui":{"resourceUri":"ui://a","visibility":["app"]}}`))
	f.Add([]byte(`{"ui":{"csp":{"connectDomains":["https://*.example.com"]},"permissions":{"camera":{}}},"ui/resourceUri":"ui://b"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		meta := mcp.Meta(data)
		if tool, err := meta.ToolUI(); err == nil {
			var set mcp.Meta
			if err := set.SetToolUI(tool); err != nil {
				t.Fatal(err)
			}
			if again, err := set.ToolUI(); err != nil || !cmp.Equal(tool, again) {
				t.Fatalf("%+v is read as %+v, %v", tool, again, err)
			}
		}
		if resource, err := meta.ResourceUI(); err == nil {
			var set mcp.Meta
			if err := set.SetResourceUI(resource); err != nil {
				t.Fatal(err)
			}
			if again, err := set.ResourceUI(); err != nil || !cmp.Equal(resource, again) {
				t.Fatalf("%+v is read as %+v, %v", resource, again, err)
			}
		}
	})
}

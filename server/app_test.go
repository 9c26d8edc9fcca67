package server_test

import (
	"context"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

const cartView = "<!doctype html><title>Cart</title>"

// cartTool returns a tool whose result depends on whether the caller shows apps.
func cartTool(_ context.Context, r *server.Request, _ struct{}) (string, error) {
	if r.Caller().Capabilities.ShowsApps() {
		return "the cart is shown", nil
	}
	return "the cart has a baguette", nil
}

func TestApps(t *testing.T) {
	s := newServer(nil)
	server.AddTool(s, server.Tool{Name: "cart", UI: &mcp.ToolUI{ResourceURI: "ui://shop/cart"}, Meta: mcp.Meta(`{"a":1}`)}, cartTool)
	ui := mcp.ResourceUI{CSP: &mcp.CSP{ConnectDomains: []string{"https://shop.example"}}, PrefersBorder: new(true)}
	reads(s, server.Resource{URI: "ui://shop/cart", UI: &ui, Meta: mcp.Meta(`{"a":1}`)}, cartView)
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connectWith(t, s, &client.Options{Era: era, ShowsApps: true})
		for tool, err := range session.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			if got := string(tool.Meta); got != `{"a":1,"ui":{"resourceUri":"ui://shop/cart"}}` {
				t.Errorf("the tool has the _meta %s", got)
			}
		}
		const sent = `"ui":{"csp":{"connectDomains":["https://shop.example"]},"prefersBorder":true}`
		for view, err := range session.Resources(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			if got := string(view.Meta); view.MIMEType != mcp.MIMETypeApp || got != `{"a":1,`+sent+`}` {
				t.Errorf("the view has the type %s and the _meta %s", view.MIMEType, got)
			}
		}
		wantContents(t, session, map[string]string{
			"ui://shop/cart": `{"uri":"ui://shop/cart","mimeType":"text/html;profile=mcp-app","text":"` + cartView + `","_meta":{` + sent + `}}`,
		})
		if got := textOf(call(t, session, "cart", "{}")); got != "the cart is shown" {
			t.Errorf("a client with apps gets %q", got)
		}
		if got := textOf(call(t, connect(t, s, era), "cart", "{}")); got != "the cart has a baguette" {
			t.Errorf("a client without apps gets %q", got)
		}
	})
}

func TestContentsOfViews(t *testing.T) {
	const noBorder = `"_meta":{"ui":{"prefersBorder":false}}`
	ui := &mcp.ResourceUI{PrefersBorder: new(false)}
	own := &mcp.TextResourceContents{MIMEType: mcp.MIMETypeApp, Text: "own", Meta: mcp.Meta(`{"ui":{"prefersBorder":true}}`)}
	shared := &mcp.BlobResourceContents{MIMEType: mcp.MIMETypeApp, Blob: []byte("b"), Meta: mcp.Meta(`{"a":1}`)}
	s := newServer(nil)
	reads(s, server.Resource{URI: "ui://plain"}, "plain")
	reads(s, server.Resource{URI: "ui://meta", Meta: mcp.Meta(`{"ui":{"prefersBorder":false},"b":2}`)}, "meta")
	reads(s, server.Resource{URI: "ui://bytes", UI: ui}, []byte("b"))
	reads(s, server.Resource{URI: "UI://upper", UI: ui}, "upper")
	reads(s, server.Resource{URI: "ui://own", UI: ui}, &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{own}})
	reads[mcp.ResourceContents](s, server.Resource{URI: "ui://shared", UI: ui}, shared)
	reads(s, server.Resource{URI: "app:other", Meta: mcp.Meta(`{"ui":{"prefersBorder":false}}`)}, "no view")
	wantContents(t, connect(t, s, client.Modern), map[string]string{
		"ui://plain":  `{"uri":"ui://plain","mimeType":"text/html;profile=mcp-app","text":"plain"}`,
		"ui://meta":   `{"uri":"ui://meta","mimeType":"text/html;profile=mcp-app","text":"meta",` + noBorder + `}`,
		"ui://bytes":  `{"uri":"ui://bytes","mimeType":"text/html;profile=mcp-app","blob":"Yg==",` + noBorder + `}`,
		"UI://upper":  `{"uri":"UI://upper","mimeType":"text/html;profile=mcp-app","text":"upper",` + noBorder + `}`,
		"ui://own":    `{"uri":"ui://own","mimeType":"text/html;profile=mcp-app","text":"own","_meta":{"ui":{"prefersBorder":true}}}`,
		"ui://shared": `{"uri":"ui://shared","mimeType":"text/html;profile=mcp-app","blob":"Yg==","_meta":{"a":1,"ui":{"prefersBorder":false}}}`,
		"app:other":   `{"uri":"app:other","mimeType":"text/plain","text":"no view"}`,
	})
	if string(shared.Meta) != `{"a":1}` || own.URI != "" {
		t.Errorf("the contents of the function are changed: %s, %q", shared.Meta, own.URI)
	}
}

func TestInvalidApps(t *testing.T) {
	tool := func(tool server.Tool) error {
		tool.Name = "t"
		_, err := server.NewTool(tool, cartTool)
		return err
	}
	resource := func(resource server.Resource) error {
		_, err := server.NewResource(resource, func(context.Context, *server.Request) (string, error) { return cartView, nil })
		return err
	}
	for _, test := range []struct {
		err  error
		want string
	}{
		{tool(server.Tool{UI: &mcp.ToolUI{ResourceURI: "https://shop.example"}}), `tool "t": UI: mcp: _meta.ui: resourceUri is a URI such as ui://shop/cart, not "https://shop.example"`},
		{tool(server.Tool{UI: &mcp.ToolUI{Visibility: []mcp.ToolVisibility{"all"}}}), `not "all"`},
		{tool(server.Tool{Meta: mcp.Meta(`{"ui":{"resourceUri":"shop"}}`)}), `tool "t": Meta: mcp: _meta.ui: resourceUri`},
		{tool(server.Tool{Meta: mcp.Meta(`{"ui":{"visibility":"app"}}`)}), "expected an array"},
		{resource(server.Resource{URI: "ui://v", MIMEType: "text/html"}), `resource "ui://v": MIMEType: the media type of a view is text/html;profile=mcp-app, not text/html`},
		{resource(server.Resource{URI: "ui://v", UI: &mcp.ResourceUI{CSP: &mcp.CSP{FrameDomains: []string{"*"}}}}), `resource "ui://v": UI: mcp: _meta.ui: csp: frameDomains`},
		{resource(server.Resource{URI: "ui://v", Meta: mcp.Meta(`{"ui":{"csp":{"frameDomains":["*"]}}}`)}), `resource "ui://v": Meta: mcp: _meta.ui: csp: frameDomains`},
		{resource(server.Resource{URI: "app:v", UI: &mcp.ResourceUI{}}), `resource "app:v": UI: the URI of a view starts with ui://`},
	} {
		if test.err == nil || !strings.Contains(test.err.Error(), test.want) {
			t.Errorf("the error is %v, want one with %q", test.err, test.want)
		}
	}
}

// A checkout is a service with a view.
type checkout struct{}

type checkoutShowIn struct {
	_ server.ToolTag `name:"show" ui:"ui://checkout"`
}

func (checkout) Show(context.Context, checkoutShowIn) (string, error) { return "shown", nil }

type checkoutPayIn struct {
	_ server.ToolTag `name:"pay" ui:"ui://checkout" visibility:"app"`
}

func (checkout) Pay(context.Context, checkoutPayIn) (string, error) { return "paid", nil }

type checkoutViewIn struct {
	_ server.ResourceTag `uri:"ui://checkout"`
}

func (checkout) View(context.Context, checkoutViewIn) (string, error) { return cartView, nil }

func TestAppOfService(t *testing.T) {
	s := newServer(nil)
	server.AddService(s, checkout{})
	session := connect(t, s, client.Modern)
	listed, err := raw(t, session, mcp.MethodToolsList, "{}")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"_meta":{"ui":{"resourceUri":"ui://checkout","visibility":["app"]}}`, `"_meta":{"ui":{"resourceUri":"ui://checkout"}}`} {
		if !strings.Contains(listed, want) {
			t.Errorf("no tool has %s: %s", want, listed)
		}
	}
	wantContents(t, session, map[string]string{"ui://checkout": `{"uri":"ui://checkout","mimeType":"text/html;profile=mcp-app","text":"` + cartView + `"}`})
}

// A typo in visibility would show a tool to a model.
type openCheckout struct{}

type openCheckoutIn struct {
	_ server.ToolTag `visibility:"ap"`
}

func (openCheckout) Pay(context.Context, openCheckoutIn) (string, error) { return "paid", nil }

func TestInvalidVisibilityOfService(t *testing.T) {
	if _, err := server.Service(openCheckout{}); err == nil || !strings.Contains(err.Error(), `visibility has "model", "app" or both, not "ap"`) {
		t.Errorf("the error is %v", err)
	}
}

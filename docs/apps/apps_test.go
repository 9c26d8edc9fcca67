package apps_test

import (
	"context"
	_ "embed"
	"fmt"
	"log"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

//go:embed cart.html
var cartHTML string

func newShop() *server.Server {
	s := server.New(mcp.Implementation{Name: "shop", Version: "1.0.0"}, nil)
	server.AddTool(s, server.Tool{Name: "show_cart", UI: &mcp.ToolUI{ResourceURI: "ui://shop/cart"}},
		func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
			return "2 baguettes, 3.60 €", nil
		})
	server.AddResource(s, server.Resource{URI: "ui://shop/cart"},
		func(ctx context.Context, r *server.Request) (string, error) { return cartHTML, nil })
	return s
}

func connect(s *server.Server, opts *client.Options) *client.Session {
	session, err := client.Connect(context.Background(), transport.Pipe(s), opts)
	if err != nil {
		log.Fatal(err)
	}
	return session
}

func Example_host() {
	ctx := context.Background()
	s := newShop()
	session := connect(s, &client.Options{ShowsApps: true})
	defer session.Close()
	if err := show(ctx, session); err != nil {
		fmt.Println(err)
	}
	// Output: show_cart is shown by ui://shop/cart, the policy is default: true
}

func show(ctx context.Context, session *client.Session) error {
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			return err
		}
		ui, err := tool.Meta.ToolUI()
		if err != nil || ui.ResourceURI == "" {
			continue // a tool without a view
		}
		view, err := session.ReadResource(ctx, ui.ResourceURI, nil)
		if err != nil {
			return err
		}
		for _, contents := range view.Contents {
			if html, ok := contents.(*mcp.TextResourceContents); ok && html.MIMEType == mcp.MIMETypeApp {
				allowed, err := html.Meta.ResourceUI()
				if err != nil {
					return err
				}
				fmt.Printf("%s is shown by %s, the policy is default: %t\n", tool.Name, html.URI, allowed.CSP == nil)
			}
		}
	}
	return nil
}

func Example_origins() {
	s := newShop()
	server.AddResource(s, server.Resource{URI: "ui://shop/map", UI: &mcp.ResourceUI{
		CSP:         &mcp.CSP{ResourceDomains: []string{"https://*.tiles.example"}},
		Permissions: &mcp.UIPermissions{Geolocation: &mcp.EmptyObject{}},
	}}, func(ctx context.Context, r *server.Request) (string, error) { return cartHTML, nil })
	fmt.Println(s.Catalog().Lookup(mcp.KindResource, "ui://shop/map") != nil)
	// Output: true
}

// A client without views can neither see nor call the tool.
func Example_hidden() {
	s := newShop()
	views := mcp.Guard{Name: "views", Visible: func(_ context.Context, caller *mcp.Caller, _ *mcp.Target) bool {
		return caller.Capabilities.ShowsApps()
	}}
	server.AddTool(s, server.Tool{Name: "empty_cart", Guards: []mcp.Guard{views}, UI: &mcp.ToolUI{Visibility: []mcp.ToolVisibility{mcp.VisibleToApp}}},
		func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
			return "the cart is empty", nil
		})
	for _, shows := range []bool{true, false} {
		session := connect(s, &client.Options{ShowsApps: shows})
		result, err := session.CallTool(context.Background(), "empty_cart", nil, nil)
		fmt.Println(shows, err == nil && result.Text() == "the cart is empty")
		session.Close()
	}
	// Output:
	// true true
	// false false
}

func Example_capability() {
	s := newShop()
	server.AddTool(s, server.Tool{Name: "show_total", UI: &mcp.ToolUI{ResourceURI: "ui://shop/cart"}},
		func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
			if r.Caller().Capabilities.ShowsApps() {
				return "The user sees the cart.", nil
			}
			return "2 baguettes, 3.60 €. Total: 3.60 €.", nil
		})
	for _, shows := range []bool{true, false} {
		session := connect(s, &client.Options{ShowsApps: shows})
		text, err := client.CallAs[string](context.Background(), session, "show_total", nil, nil)
		fmt.Println(text, err)
		session.Close()
	}
	// Output:
	// The user sees the cart. <nil>
	// 2 baguettes, 3.60 €. Total: 3.60 €. <nil>
}

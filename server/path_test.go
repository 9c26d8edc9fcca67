package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// TestNothingLeadsOut: what a function may take for a path below a directory does not
// lead out of it, however it is written; what has a dot in it is no step up.
func TestNothingLeadsOut(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s, child := newServer(nil), newServer(nil)
		reads := func(s *server.Server, template, name string) {
			server.AddTemplate(s, server.Template{URITemplate: template}, func(_ context.Context, _ *server.Request, vars map[string]string) (string, error) {
				return fmt.Sprintf("<%s>", vars[name]), nil
			})
		}
		reads(s, "file:///{+path}{?q}", "path")
		reads(s, "tree:{path*}", "path")
		reads(s, "list:/a{/path*}", "path")
		reads(child, "child:///{+path}", "path")
		reads(s, "item:{id}", "id")
		reads(s, "query:x{?q}", "q")
		mount(t, s, child, "c_")
		session := connect(t, s, era)
		for _, path := range []string{
			"..", "../a", "a/..", "a/../b", "%2e%2e", "a/%2E%2e/b", "a%2F..%2Fb", "%2F..", "a/.%2e", `a\..\b`, "..%5Ca", "..?q=1", "a/..#x", "/..",
		} {
			for _, base := range []string{"file:///", "tree:", "list:/a/", "child:///"} {
				if _, err := session.Read(t.Context(), base+path, nil); !mcp.IsResourceNotFound(err) {
					t.Errorf("%s%s gives %v", base, path, err)
				}
			}
		}
		for _, uri := range []string{"file:///./a", "item:..", "item:.", "item:%2e%2E", "item:..%2Fetc%2Fpasswd", "item:a%5Cb", "item:a%00"} {
			if _, err := session.Read(t.Context(), uri, nil); !mcp.IsResourceNotFound(err) {
				t.Errorf("%s gives %v", uri, err)
			}
		}
		for uri, want := range map[string]string{
			"file:///a/b.c":   "<a/b.c>",
			"file:///...":     "<...>",
			"file:///a..b":    "<a..b>",
			"file:///..a/b..": "<..a/b..>",
			"file:///a?q=..":  "<a>",
			"file:////etc":    "</etc>",
			"tree:a/b":        "<a/b>",
			"list:/a/b/c":     "<b,c>",
			"child:///a/b":    "<a/b>",
			"item:a..b":       "<a..b>",
			"query:x?q=../..": "<../..>",
		} {
			if got := contents(t, session, uri); !strings.Contains(got, want) {
				t.Errorf("%s holds %s, want %s", uri, got, want)
			}
		}
	})
}

// TestSchemesAndHosts are the same in either case, and nothing else is. RFC 3986,
// section 6.2.2.1.
func TestSchemesAndHosts(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddTemplate(s, server.Template{URITemplate: "App://Shop.example/Items/{id}"}, func(_ context.Context, _ *server.Request, vars map[string]string) (string, error) {
			return "item " + vars["id"], nil
		})
		session := connect(t, s, era)
		for _, uri := range []string{"App://Shop.example/Items/Ab", "app://shop.example/Items/Ab", "APP://SHOP.EXAMPLE/Items/Ab"} {
			if got := contents(t, session, uri); !strings.Contains(got, `"item Ab"`) || !strings.Contains(got, `"uri":"`+uri+`"`) {
				t.Errorf("%s holds %s", uri, got)
			}
		}
		if _, err := session.Read(t.Context(), "app://shop.example/items/Ab", nil); !mcp.IsResourceNotFound(err) {
			t.Errorf("another path gives %v", err)
		}
	})
}

// TestResourcesMayShareAName: they are told apart by their URIs.
func TestResourcesMayShareAName(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		reads(s, server.Resource{URI: "app:a", Name: "settings"}, "a")
		reads(s, server.Resource{URI: "app:b", Name: "settings"}, "b")
		session := connect(t, s, era)
		for uri, want := range map[string]string{"app:a": `"text":"a"`, "app:b": `"text":"b"`} {
			if got := contents(t, session, uri); !strings.Contains(got, want) {
				t.Errorf("%s holds %s", uri, got)
			}
		}
		for resource, err := range session.Resources(t.Context()) {
			if err != nil || resource.Name != "settings" {
				t.Errorf("listed is %+v, %v", resource, err)
			}
		}
	})
}

// TestUnsaidTypes: binary content says that it is, and text says nothing.
func TestUnsaidTypes(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		reads(s, server.Resource{URI: "app:text"}, "")
		reads(s, server.Resource{URI: "app:blob"}, []byte{})
		session := connect(t, s, era)
		for uri, want := range map[string]string{
			"app:text": `{"uri":"app:text","text":""}`, "app:blob": `{"uri":"app:blob","mimeType":"application/octet-stream","blob":""}`,
		} {
			if got := contents(t, session, uri); got != want {
				t.Errorf("%s holds %s, want %s", uri, got, want)
			}
		}
	})
}

// TestAnnotationsThatMeanNothing are refused at registration. MCP 2025-11-25,
// server/resources, "Annotations".
func TestAnnotationsThatMeanNothing(t *testing.T) {
	nan := 0.0
	nan /= nan
	for says, annotations := range map[string]*mcp.Annotations{
		"":                {Audience: []mcp.Role{mcp.RoleAssistant, mcp.RoleUser}, Priority: new(1.0)},
		"not 1.5":         {Priority: new(1.5)},
		"not -0.1":        {Priority: new(-0.1)},
		"not NaN":         {Priority: &nan},
		`not of "system"`: {Audience: []mcp.Role{mcp.RoleUser, "system"}},
		`not of ""`:       {Audience: []mcp.Role{""}},
	} {
		_, resource := server.NewResource(server.Resource{URI: "app:a", Annotations: annotations}, func(context.Context, *server.Request) (string, error) { return "", nil })
		_, template := server.NewTemplate(server.Template{URITemplate: "app:{a}", Annotations: annotations}, nothing[map[string]string])
		for _, err := range []error{resource, template} {
			if (err != nil) != (says != "") || err != nil && !strings.Contains(err.Error(), says) {
				t.Errorf("the error is %v, want %q", err, says)
			}
		}
	}
}

package server_test

import (
	"context"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// TestURIs that a template stands for: a variable is one segment, the scheme may be any,
// what the template does not name is left out, and a number is one.
func TestURIs(t *testing.T) {
	s := newServer(nil)
	type item struct {
		ID string `json:"id"`
	}
	type page struct {
		ID   string `json:"id"`
		Page *int   `json:"page,omitempty"`
	}
	server.AddTemplate(s, server.Template{URITemplate: "https://example.com/items/{id}"},
		func(_ context.Context, _ *server.Request, in item) (item, error) { return in, nil })
	server.AddTemplate(s, server.Template{URITemplate: "x-shop+v1:items/{id}{?page}"},
		func(_ context.Context, _ *server.Request, in page) (page, error) { return in, nil })
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, s, era)
		for uri, want := range map[string]string{
			"https://example.com/items/7":         `{"id":"7"}`,
			"https://example.com/items/7?page=2":  `{"id":"7"}`,
			"x-shop+v1:items/7":                   `{"id":"7"}`,
			"x-shop+v1:items/7?page=2&more=3":     `{"id":"7","page":2}`,
			"x-shop+v1:items/7?more=3":            `{"id":"7"}`,
			"x-shop+v1:items/7?more=x&page=-1#at": `{"id":"7","page":-1}`,
		} {
			result, err := session.Read(t.Context(), uri, nil)
			if err != nil {
				t.Errorf("%s: %v", uri, err)
				continue
			}
			got, ok := result.Contents[0].(*mcp.TextResourceContents)
			if !ok || got.Text != want || got.URI != uri || got.MIMEType != "application/json" {
				t.Errorf("%s holds %+v, want %s", uri, result.Contents[0], want)
			}
		}
		for _, uri := range []string{"https://example.com/items/a/b", "https://example.com/items/", "https://example.com/items", "http://example.com/items/7", "x-shop:items/7",
			"https://example.com/items/a%2Fb", "https://example.com/items/..%2F..%2Fetc%2Fpasswd", "https://example.com/items/..", "https://example.com/items/a%5Cb", "https://example.com/items/a%00"} {
			if _, err := session.Read(t.Context(), uri, nil); !mcp.IsResourceNotFound(err) {
				t.Errorf("reading %s gives %v", uri, err)
			}
		}
		for _, uri := range []string{"x-shop+v1:items/7?page=two", "x-shop+v1:items/7?page=1.5", "x-shop+v1:items/7?page=99999999999999999999"} {
			_, err := session.Read(t.Context(), uri, nil)
			wantCode(t, err, jsonrpc.InvalidParams)
		}
	})
}

// TestBytesAreABlob, and without a type they have the one that says nothing.
func TestBytesAreABlob(t *testing.T) {
	s := newServer(nil)
	reads(s, server.Resource{URI: "app:b"}, []byte{0, 255})
	reads(s, server.Resource{URI: "app:empty"}, []byte(nil))
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, s, era)
		for uri, want := range map[string]string{
			"app:b":     `{"uri":"app:b","mimeType":"application/octet-stream","blob":"AP8="}`,
			"app:empty": `{"uri":"app:empty","mimeType":"application/octet-stream","blob":""}`,
		} {
			if got := contents(t, session, uri); got != want {
				t.Errorf("%s holds %s, want %s", uri, got, want)
			}
		}
	})
}

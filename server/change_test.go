package server_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// TestSpellingsOfUpdatedURIs checks that a change is reported to the subscribers of every spelling of the URI, each with
// the spelling that was accepted: that of the list, or else that of the client.
func TestSpellingsOfUpdatedURIs(t *testing.T) {
	tests := []struct{ subscribed, updated, want string }{
		{"app://shop/stock", "app://shop/stock", "app://shop/stock"},
		{"app://shop/stock", "APP://Shop/stock", "app://shop/stock"},
		{"app://shop/stock", "app://shop/%73tock", "app://shop/stock"},
		{"APP://SHOP/%73tock", "app://shop/stock", "app://shop/stock"},
		{"app://shop/stock", "app://shop/Stock", ""},
		{"app://shop/stock", "app://shop/stock/", ""},
		{"book://Shelf/a%2fb", "book://shelf/a%2Fb", "book://Shelf/a%2fb"},
		{"book://shelf/caf%c3%a9", "book://shelf/café", "book://shelf/caf%c3%a9"},
		{"book://shelf/a%2fb", "book://shelf/a/b", ""},
		{"book://shelf/%zz", "BOOK://shelf/%zz", ""}, // a malformed URI is equivalent only to itself
	}
	virtualEras(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		reads(s, server.Resource{URI: "app://shop/stock"}, "")
		server.AddTemplate(s, server.Template{URITemplate: "{+uri}", Name: "any"}, func(context.Context, *server.Request, struct {
			URI string `json:"uri"`
		}) (string, error) {
			return "", nil
		})
		var got []string
		session := connectInMemory(t, s, &client.Options{Era: era, OnChange: func(_ context.Context, change mcp.Change) {
			if change.URI != "" {
				got = append(got, change.URI)
			}
		}})
		for _, test := range tests {
			got = nil
			sub, err := session.Subscribe(t.Context(), mcp.SubscriptionFilter{ResourceSubscriptions: []string{test.subscribed}})
			if err != nil {
				t.Errorf("%s: %v", test.subscribed, err)
				continue
			}
			s.ResourceUpdated(test.updated)
			synctest.Wait()
			var want []string
			if test.want != "" {
				want = []string{test.want}
			}
			if !slices.Equal(got, want) {
				t.Errorf("a subscriber of %s gets %q for an update of %s, want %q", test.subscribed, got, test.updated, want)
			}
			sub.Close()
		}
	})
}

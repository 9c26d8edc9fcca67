package server_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/era/eratest"
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

// TestListChanged checks that an announced change reaches the clients of both eras, directly and through mounts, and of one
// principal only if it is for one.
func TestListChanged(t *testing.T) {
	for _, test := range []struct {
		kind mcp.Kind
		want string
	}{
		{mcp.KindTool, mcp.NotificationToolsListChanged},
		{mcp.KindPrompt, mcp.NotificationPromptsListChanged},
		{mcp.KindResource, mcp.NotificationResourcesListChanged},
		{mcp.KindResourceTemplate, mcp.NotificationResourcesListChanged},
		{mcp.KindSkill, mcp.NotificationResourcesListChanged},
	} {
		for _, mounted := range []int{0, 1, 2} {
			t.Run(fmt.Sprintf("%v, %d mounts", test.kind, mounted), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newServer(nil)
					returns(s, "tool", "")
					server.AddPrompt(s, server.Prompt{Name: "prompt"}, nothing[struct{}])
					reads(s, server.Resource{URI: "app:r"}, "")
					face := s
					for range mounted {
						outer := newServer(nil)
						mountProvider(t, outer, face.Provider(), "p_")
						face = outer
					}
					if err := face.Start(t.Context()); err != nil {
						t.Fatal(err)
					}
					peers := subscribersOfLists(t, face)
					want := func(what string, of map[string]int) {
						t.Helper()
						for name, p := range peers {
							if got := drain(p); len(got) != of[name] || len(got) > 0 && got[0] != test.want {
								t.Errorf("%s: %s receives %q", what, name, got)
							}
						}
					}
					s.ListChanged(test.kind)
					want("for all", map[string]int{"ada, legacy": 1, "ada, modern": 1, "bob, legacy": 1, "bob, modern": 1})
					s.ListChangedFor("bob", test.kind)
					want("for bob", map[string]int{"bob, legacy": 1, "bob, modern": 1})
					s.ListChangedFor("eve", test.kind)
					want("for eve", nil)
				})
			})
		}
	}
}

// subscribersOfLists connects two principals in each era that receive changes of all lists.
func subscribersOfLists(t *testing.T, s *server.Server) map[string]*eratest.Peer {
	t.Helper()
	peers := make(map[string]*eratest.Peer)
	for _, principal := range []string{"ada", "bob"} {
		legacy := eratest.ConnectAs(t, s, principal)
		legacy.Version = mcp.Version20251125
		legacy.Call(mcp.MethodInitialize, eratest.InitializeParams(mcp.Version20251125, "{}"))
		legacy.Send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		legacy.Call(mcp.MethodPing, `{}`) // the session watches its lists
		modern := eratest.ConnectAs(t, s, principal)
		modern.Version, modern.Capabilities = mcp.LatestVersion, "{}"
		modern.Start(mcp.MethodSubscriptionsListen, `{"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}}`)
		eratest.Want(t, modern.Next(), `"`+mcp.NotificationAcknowledged+`"`, "method")
		peers[principal+", legacy"], peers[principal+", modern"] = legacy, modern
	}
	return peers
}

// TestListChangedAtReplicas checks that an announced change reaches the clients of other replicas, also of a mounted server
// that has the store.
func TestListChangedAtReplicas(t *testing.T) {
	for _, mounted := range []bool{false, true} {
		t.Run(fmt.Sprint("mounted: ", mounted), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shared := newStore(t)
				var raising []*server.Server
				var peers []map[string]*eratest.Peer
				for range 2 {
					s := newServer(&server.Options{Store: shared, Logger: discardLogger()})
					returns(s, "tool", "")
					face := s
					if mounted {
						face = newServer(&server.Options{Logger: discardLogger()})
						mountProvider(t, face, s.Provider(), "p_")
					} else {
						shutDownAtEnd(t, s)
					}
					if err := face.Start(t.Context()); err != nil {
						t.Fatal(err)
					}
					raising, peers = append(raising, s), append(peers, subscribersOfLists(t, face))
				}
				raising[0].ListChanged(mcp.KindTool)
				synctest.Wait() // equal changes that wait are one
				raising[0].ListChangedFor("bob", mcp.KindTool)
				for i, at := range peers {
					for name, p := range at {
						want := []string{toolsChanged}
						if strings.HasPrefix(name, "bob") {
							want = append(want, toolsChanged)
						}
						if got := drain(p); !slices.Equal(got, want) {
							t.Errorf("%s at replica %d receives %q, want %q", name, i+1, got, want)
						}
					}
				}
			})
		})
	}
}

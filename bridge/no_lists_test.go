package bridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// toolCatalog returns a catalog of tools that were read elsewhere.
func toolCatalog(names ...string) *server.Catalog {
	var entries []*server.Entry
	for _, name := range names {
		entries = append(entries, &server.Entry{Target: mcp.Target{
			Kind: mcp.KindTool, Name: name, Definition: mcp.NewDefinition(json.RawMessage(`{"name":"` + name + `","inputSchema":{"type":"object"}}`)),
		}})
	}
	return server.NewCatalog(entries, nil)
}

// With NoLists, no session is one of nobody. Users see what was offered, and call in sessions of their own, each until it is ended.
func TestServerWithoutLists(t *testing.T) {
	eachPair(t, func(t *testing.T, caller, behind client.Era) {
		synctest.Test(t, func(t *testing.T) {
			o := newSessionCounter(behind)
			dialAs := func(ctx context.Context, principal string) (transport.Dialer, error) {
				if principal == "" {
					t.Error("a session of nobody is opened")
				}
				return o.dialAs(ctx, principal)
			}
			b, err := bridge.New(&bridge.Options{Logger: quiet()}, bridge.Config{Alias: "up", ProxyOptions: bridge.ProxyOptions{DialAs: dialAs, NoLists: true}})
			if err != nil {
				t.Fatal(err)
			}
			frontend := mount(t, b)
			ann := connect(t, pipeTo(as{frontend, "ann"}), client.Options{Era: caller})
			if got := listedTools(t, ann); got != "" {
				t.Errorf("before anything is offered, the tools are %s", got)
			}
			if err := b.Offer("up", toolCatalog("who", "wait")); err != nil {
				t.Fatal(err)
			}
			if err := b.Offer("other", toolCatalog("who")); !isUnknownServer(err) {
				t.Errorf("an offer of an unknown server: %v", err)
			}
			if got := listedTools(t, ann); got != "up__who up__wait" {
				t.Errorf("the tools are %s", got)
			}
			who := func(session *client.Session) string {
				result, err := session.CallTool(t.Context(), "up__who", nil, nil)
				return texts(t, result, err)
			}
			bob := connect(t, pipeTo(as{frontend, "bob"}), client.Options{Era: caller})
			first, other := who(ann), who(bob)
			if !strings.HasPrefix(first, "ann ") || !strings.HasPrefix(other, "bob ") {
				t.Errorf("the sessions are those of %s and %s", first, other)
			}
			if err := b.EndSession("up", "ann"); err != nil {
				t.Fatal(err)
			}
			if err := b.EndSession("other", "ann"); !isUnknownServer(err) {
				t.Errorf("the end of a session with an unknown server: %v", err)
			}
			if now := who(ann); now == first || !strings.HasPrefix(now, "ann ") {
				t.Errorf("after the end of session %s it is %s", first, now)
			}
			if now := who(bob); now != other {
				t.Errorf("the session of another user is %s, and was %s", now, other)
			}
			if err := b.Restart("up"); err != nil {
				t.Error(err)
			}
			if err := b.Refresh("up"); err != nil {
				t.Error(err)
			}
			for name, call := range map[string]struct {
				session *client.Session
				tool    string
			}{
				"a caller without a principal": {connect(t, pipeTo(as{frontend, ""}), client.Options{Era: caller}), "up__who"},
				"an unknown tool":              {ann, "up__drop"},
			} {
				if result, err := call.session.CallTool(t.Context(), call.tool, nil, nil); err == nil {
					t.Errorf("%s: the result is %v", name, result)
				}
			}
		})
	})
}

func isUnknownServer(err error) bool {
	_, unknown := errors.AsType[*bridge.UnknownServerError](err)
	return unknown
}

func listedTools(t *testing.T, session *client.Session) string {
	t.Helper()
	var names []string
	for tool, err := range session.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	return strings.Join(names, " ")
}

// NoLists needs DialAs: a dialer without a user would open a session of nobody.
func TestNoListsNeedsDialAs(t *testing.T) {
	_, err := bridge.New(nil, bridge.Config{Alias: "up", Dialer: dialerTo(newShop()), ProxyOptions: bridge.ProxyOptions{NoLists: true}})
	if err == nil || !strings.Contains(err.Error(), "no DialAs") {
		t.Error(err)
	}
}

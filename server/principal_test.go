package server_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// owned is a server whose links are all of one principal.
type owned struct {
	*server.Server
	principal string
}

func (o owned) Bind(link transport.Link) jsonrpc.Handler {
	link.Principal = o.principal
	return o.Server.Bind(link)
}

// TestUpdatesForOnePrincipal reach the subscribers of that principal only, those of
// servers too that have mounted the one that tells them.
func TestUpdatesForOnePrincipal(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		child, middle, s := newServer(nil), newServer(nil), newServer(nil)
		reads(child, server.Resource{URI: "app:r"}, "")
		reads(s, server.Resource{URI: "app:own"}, "")
		for _, err := range []error{middle.Mount(child.Provider(), &server.MountOptions{Prefix: "c."}), s.Mount(middle.Provider(), &server.MountOptions{Prefix: "m."})} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer s.Shutdown(context.Background())
		told := map[string]*trace{"ada": {}, "eve": {}, "": {}}
		for principal, changes := range told {
			session := connectBy(t, transport.Pipe(owned{s, principal}), &client.Options{Era: era, Changed: func(_ context.Context, change mcp.Change) {
				changes.step(change.URI)
			}})
			if _, err := session.Subscribe(t.Context(), mcp.SubscriptionFilter{ResourceSubscriptions: []string{"app:r", "app:own"}}); err != nil {
				t.Fatal(err)
			}
		}
		wantTold := func(uri string, principals ...string) {
			t.Helper()
			synctest.Wait()
			for principal, changes := range told {
				var want []string
				if slices.Contains(principals, principal) {
					want = []string{uri}
				}
				if got := changes.take(); !slices.Equal(got, want) {
					t.Errorf("%q is told of %q, want %q", principal, got, want)
				}
			}
		}
		s.ResourceUpdatedFor("ada", "app:own")
		wantTold("app:own", "ada")
		child.ResourceUpdatedFor("eve", "app:r")
		wantTold("app:r", "eve")
		s.ResourceUpdatedFor("ada", "app:other")
		s.ResourceUpdatedFor("nobody", "app:own")
		wantTold("")
		for _, tell := range []func(){
			func() { child.ResourceUpdated("app:r") },
			func() { child.ResourceUpdatedFor("", "app:r") },
		} {
			tell()
			wantTold("app:r", "ada", "eve", "")
		}
	})
}

package streamable_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A client with sessions at all replicas listens to one of them. It receives each change once,
// whichever replica raises it.
func TestChangesOfAllReplicas(t *testing.T) {
	eachVersion(t, legacyVersions, func(t *testing.T, version mcp.Version) {
		shared := newStore(t)
		var rigs []*rig
		var servers []*server.Server
		for range 3 {
			srv := server.New(mcp.Implementation{Name: "books", Version: "1"}, &server.Options{Store: shared, Logger: quiet})
			server.AddTemplate(srv, server.Template{URITemplate: "book:{number}", Name: "book"},
				func(context.Context, *server.Request, struct {
					Number int `json:"number"`
				}) (string, error) {
					return "text", nil
				})
			if err := srv.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			servers = append(servers, srv)
			rigs = append(rigs, serve(t, srv, &streamable.Options{Logger: quiet}))
		}
		s := rigs[0].open(version)
		session := s.headers["Mcp-Session-Id"]
		for i := range 60 {
			s.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/subscribe","params":{"uri":"book:%d"}}`, i, i)).is(http.StatusOK, `"result":{}`)
		}
		for _, r := range rigs {
			r.with("Mcp-Session-Id", session).post(ping).is(http.StatusOK)
		}
		got := rigs[1].with("Mcp-Session-Id", session).send(t.Context(), http.MethodGet, "")
		got.is(http.StatusOK)
		restored := make(map[string]int) // the replica has just restored the session, and may have missed changes
		for range 60 {
			restored[string(got.unsolicited("book:").Data)]++
		}
		if len(restored) != 60 {
			t.Errorf("got %d different notices for 60 resources", len(restored))
		}
		for i := range 60 { // a second event of one change would come before the next change
			servers[i%3].ResourceUpdated(fmt.Sprintf("book:%d", i))
			got.unsolicited(fmt.Sprintf(`"book:%d"`, i))
		}
	})
}

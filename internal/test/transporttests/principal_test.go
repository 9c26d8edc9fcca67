package transporttests_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// Each endpoint warns once if requests have credentials and nothing has set their principal.
func TestAuthorizationWithoutPrincipal(t *testing.T) {
	for name, e := range endpoints {
		for principal, warnings := range map[string]int{"": 1, "ada": 0} {
			t.Run(name+" as "+principal, func(t *testing.T) {
				var log strings.Builder // read after the end of the endpoint
				s := server.New(mcp.Implementation{Name: "s", Version: "1"}, nil)
				endpoint := e.serve(s, transport.Limits{}, slog.New(slog.NewTextHandler(&log, nil)))
				web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					endpoint.ServeHTTP(w, r.WithContext(transport.WithPrincipal(r.Context(), principal)))
				}))
				for range 2 {
					session, err := client.Connect(t.Context(), e.dial(web.URL, func(_ context.Context, h http.Header) error {
						h.Set("Authorization", "Bearer sesame")
						return nil
					}), &client.Options{Era: e.era})
					if err != nil {
						t.Fatal(err)
					}
					if err := session.Close(); err != nil {
						t.Error(err)
					}
				}
				if err := endpoint.Close(); err != nil {
					t.Error(err)
				}
				web.Close()
				if got := strings.Count(log.String(), "transport.WithPrincipal"); got != warnings || strings.Contains(log.String(), "sesame") {
					t.Errorf("want %d warnings, logged %q", warnings, log.String())
				}
			})
		}
	}
}

package main

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A call of a blocking tool continues in the replica that has its function, although each request arrives at the other
// one. Its result is longer than a message of a store may be.
func TestBlockingCallAtTwoReplicas(t *testing.T) {
	const size = 2 * store.MaxValue
	for _, engine := range engines() {
		t.Run(engine.name, func(t *testing.T) {
			address, token := storeOf(t, engine)
			t.Setenv(envToken, token)
			var runs atomic.Int32
			var endpoints []http.Handler
			for range 2 {
				endpoints = append(endpoints, serveBlocking(t, address, size, &runs))
			}
			var requests atomic.Int32
			web := serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				endpoints[requests.Add(1)%2].ServeHTTP(w, r)
			}))
			defer web.Close()
			session, err := client.Connect(t.Context(), streamable.Dial(web.URL, nil), &client.Options{
				Era: client.Modern,
				Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
					return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: []byte(`{"sure":true}`)}, nil
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			for range 3 {
				runs.Store(0)
				text, err := client.CallAs[string](t.Context(), session, "ask", nil, nil)
				if err != nil || len(text) != size || runs.Load() != 1 {
					t.Errorf("the result has %d bytes after %d runs, %v", len(text), runs.Load(), err)
				}
			}
		})
	}
}

// serveBlocking returns the endpoint of a replica with a blocking tool, which counts its runs.
func serveBlocking(t *testing.T, address string, size int, runs *atomic.Int32) http.Handler {
	shared, err := openStore(t.Context(), address, store.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(mcp.Implementation{Name: "blocking", Version: "1.0.0"}, &server.Options{Store: shared, Logger: quiet})
	server.AddTool(s, server.Tool{Name: "ask", Blocking: true}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		runs.Add(1)
		for range 3 {
			if _, err := server.Elicit[confirmation](r, "sure", "Sure?"); err != nil {
				return "", err
			}
		}
		return strings.Repeat("x", size), nil
	})
	endpoint := streamable.Handler(s, &streamable.Options{Logger: quiet})
	t.Cleanup(func() {
		endpoint.Close()
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		shared.Close()
	})
	return endpoint
}

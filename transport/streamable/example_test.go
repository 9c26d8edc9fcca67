package streamable_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A client and a server over HTTP. The client sends a token with each request.
func ExampleDial() {
	type In struct {
		Name string `json:"name"`
	}
	greeter := server.New(mcp.Implementation{Name: "greeter", Version: "1"}, nil)
	server.AddTool(greeter, server.Tool{Name: "greet"}, func(_ context.Context, _ *server.Request, in In) (string, error) {
		return "Hello, " + in.Name + "!", nil
	})
	endpoint := streamable.Handler(greeter, nil)
	defer endpoint.Close()
	web := httptest.NewServer(endpoint)
	defer web.Close()

	ctx := context.Background()
	dialer := streamable.Dial(web.URL, &streamable.DialOptions{
		Header: httptransport.StaticHeader(map[string]string{"Authorization": "Bearer token"}),
	})
	session, err := client.Connect(ctx, dialer, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close()
	greeting, err := client.CallAs[string](ctx, session, "greet", In{Name: "world"}, nil)
	fmt.Println(greeting, err)
	// Output: Hello, world! <nil>
}

// Two replicas with one store serve the same sessions. The store is usually one of store/nats or
// store/redis.
func ExampleHandler_replicas() {
	shared, err := store.NewMemory(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer shared.Close()
	serve := func(request *http.Request) *http.Response { // by a new replica each time
		s := server.New(mcp.Implementation{Name: "shop", Version: "1"}, &server.Options{Store: shared})
		endpoint := streamable.Handler(s, nil)
		defer endpoint.Close()
		w := httptest.NewRecorder()
		endpoint.ServeHTTP(w, request)
		return w.Result()
	}
	post := func(session, body string) *http.Response {
		request := httptest.NewRequest(http.MethodPost, "http://localhost/mcp", strings.NewReader(body))
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Mcp-Session-Id", session)
		return serve(request)
	}
	opened := post("", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",
		"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	session := opened.Header.Get("Mcp-Session-Id")
	fmt.Println(post(session, `{"jsonrpc":"2.0","id":2,"method":"ping"}`).Status)
	// Output: 200 OK
}

// Behind your own middleware, the principal is the name that the middleware has put into the context.
func ExampleHandler_middleware() {
	s := server.New(mcp.Implementation{Name: "whoami", Version: "1"}, nil)
	server.AddTool(s, server.Tool{Name: "whoami"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		return r.Caller().Principal, nil
	})
	endpoint := streamable.Handler(s, nil)
	authenticate := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer ada's key" { // a program compares hashes of keys
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		endpoint.ServeHTTP(w, r.WithContext(transport.WithPrincipal(r.Context(), "ada")))
	}
	web := httptest.NewServer(http.HandlerFunc(authenticate))
	defer web.Close()
	defer endpoint.Close() // first: web waits for its streams

	ctx := context.Background()
	session, err := client.Connect(ctx, streamable.Dial(web.URL, &streamable.DialOptions{
		Header: httptransport.StaticHeader(map[string]string{"Authorization": "Bearer ada's key"}),
	}), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close()
	fmt.Println(client.CallAs[string](ctx, session, "whoami", struct{}{}, nil))
	// Output: ada <nil>
}

// Each tenant has a server, which its first request opens.
func ExampleSelect() {
	open := func(_ context.Context, tenant string) (transport.Server, error) {
		if tenant == "unknown" {
			return nil, nil
		}
		fmt.Println("opening", tenant)
		s := server.New(mcp.Implementation{Name: tenant, Version: "1"}, nil)
		server.AddTool(s, server.Tool{Name: "greet"}, func(context.Context, *server.Request, struct{}) (string, error) {
			return "Welcome to " + tenant, nil
		})
		return s, nil
	}
	endpoint := streamable.Select(func(r *http.Request) string { return r.PathValue("tenant") }, open, nil)
	mux := http.NewServeMux()
	mux.Handle("/{tenant}/mcp", endpoint) // a program authenticates its callers first
	web := httptest.NewServer(mux)
	defer web.Close()
	defer endpoint.Close() // first: web waits for its streams

	ctx := context.Background()
	for _, tenant := range []string{"acme", "globex", "acme", "unknown"} {
		session, err := client.Connect(ctx, streamable.Dial(web.URL+"/"+tenant+"/mcp", nil), nil)
		if err != nil {
			fmt.Println(tenant, "has no server")
			continue
		}
		fmt.Println(client.CallAs[string](ctx, session, "greet", nil, nil))
		session.Close()
	}
	// Output:
	// opening acme
	// Welcome to acme <nil>
	// opening globex
	// Welcome to globex <nil>
	// Welcome to acme <nil>
	// unknown has no server
}

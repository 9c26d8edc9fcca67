package sse_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/sse"
)

// greeter is a server with one stateless method.
type greeter struct{}

func (g greeter) Bind(transport.Link) jsonrpc.Handler { return g }

func (greeter) Handle(_ context.Context, _ jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	if req.Method != "greet" {
		return &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "there is only greet"}
	}
	return reply.Write(jsonrpc.Raw(`{"greeting":"Hello!"}`))
}

func (greeter) HandleNotification(jsonrpc.Peer, *jsonrpc.Request) {}

// Streams and messages have different paths, as on many servers of 2024-11-05.
func ExampleHandler() {
	endpoint := sse.Handler(greeter{}, &sse.Options{Messages: "/messages"})
	mux := http.NewServeMux()
	mux.Handle("/sse", endpoint)
	mux.Handle("/messages", endpoint)
	server := httptest.NewServer(mux) // elsewhere an http.Server
	defer server.Close()
	defer endpoint.Close() // first: a server waits for its streams

	conn, err := sse.Dial(server.URL+"/sse", nil).Dial(context.Background(), silent{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	resp, err := conn.Call(context.Background(), "greet", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(resp.Result))
	// Output: {"greeting":"Hello!"}
}

// A client that is authorized by a token.
func ExampleDial() {
	endpoint := sse.Handler(greeter{}, nil)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		endpoint.ServeHTTP(w, r)
	}))
	defer server.Close()
	defer endpoint.Close()

	ctx := context.Background()
	_, err := sse.Dial(server.URL, nil).Dial(ctx, silent{})
	fmt.Println(err)

	dialer := sse.Dial(server.URL, &sse.DialOptions{
		Header: httptransport.StaticHeader(map[string]string{"Authorization": "Bearer secret"}),
	})
	conn, err := dialer.Dial(ctx, silent{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	resp, err := conn.Call(ctx, "greet", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(resp.Result))
	// Output:
	// sse: GET was answered with status 401 Unauthorized
	// {"greeting":"Hello!"}
}

// Behind your own middleware, the principal is the name that the middleware has put into the context.
func ExampleHandler_middleware() {
	s := server.New(mcp.Implementation{Name: "whoami", Version: "1"}, nil)
	server.AddTool(s, server.Tool{Name: "whoami"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		return r.Caller().Principal, nil
	})
	endpoint := sse.Handler(s, nil)
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
	session, err := client.Connect(ctx, sse.Dial(web.URL, &sse.DialOptions{
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

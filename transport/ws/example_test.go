package ws_test

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
	"github.com/dovetail-go/dovetail/transport/transporttest"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// An endpoint is an http.Handler.
func ExampleHandler() {
	endpoint := ws.Handler(transporttest.Server(), &ws.Options{Origins: []string{"https://app.example.com"}})
	defer endpoint.Close()
	mux := http.NewServeMux()
	mux.Handle("/mcp", endpoint)

	// A browser shows pages of anybody; this one may not connect.
	request := httptest.NewRequest(http.MethodGet, "http://localhost/mcp", nil)
	request.Header.Set("Origin", "https://other.example")
	response := httptest.NewRecorder()
	mux.ServeHTTP(response, request)
	fmt.Println(response.Code)
	// Output: 403
}

// A dialer opens a connection of its own with each Dial.
func ExampleDial() {
	endpoint := ws.Handler(transporttest.Server(), nil)
	defer endpoint.Close()
	server := httptest.NewServer(endpoint)
	defer server.Close()

	ctx := context.Background()
	conn, err := ws.Dial(server.URL, nil).Dial(ctx, handler(refuse))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	resp, err := conn.Call(ctx, "echo", jsonrpc.Raw(`{"hello":"world"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(resp.Result))
	// Output: {"hello":"world"}
}

// Behind your own middleware, the principal is the name that the middleware has put into the context.
func ExampleHandler_middleware() {
	s := server.New(mcp.Implementation{Name: "whoami", Version: "1"}, nil)
	server.AddTool(s, server.Tool{Name: "whoami"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		return r.Caller().Principal, nil
	})
	endpoint := ws.Handler(s, nil)
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
	session, err := client.Connect(ctx, ws.Dial(web.URL, &ws.DialOptions{
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
